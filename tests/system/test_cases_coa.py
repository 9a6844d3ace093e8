"""Field cases COA: coalescing and races of reschedules."""
import time

import pytest
import wire
from conftest import handler, queue, until
from wire import S, pb, word


def runs_of(conn, key, queue_="q"):
    return [r for r in conn.history(key, queue_) if r.outcome != S.RUN_OUTCOME_NONE]


def test_coa_01_update_of_a_running_key_runs_once_more(make_daemon):
    d = make_daemon(handler("slow", "sh", "-c", "cat; sleep 1") + queue("q", handler="slow"))
    with d.conn() as c:
        assert c.update("k", 0, "q", payload=b"one").status == S.STATUS_CREATED
        until(lambda: c.get("k", "q").state == S.JOB_STATE_RUNNING)
        r = c.update("k", 100, "q", payload=b"two")
        assert r.status == S.STATUS_REQUEUED_RUNNING
        assert c.wait("k", "q", generation=2).run.outcome == S.RUN_OUTCOME_DONE
        second, first = runs_of(c, "k")
        assert (first.output, second.output) == (b"one", b"two")
        assert (first.generation, second.generation) == (1, 2)
        assert second.started_ms >= first.ended_ms, "the runs overlap"


def test_coa_03_adds_while_running_make_one_more_run(make_daemon):
    d = make_daemon(handler("slow", "sleep", "1") + queue("q", handler="slow"))
    with d.conn() as c:
        c.update("k", 0, "q")
        until(lambda: c.get("k", "q").state == S.JOB_STATE_RUNNING)
        ids = c.send_many([c.request(update=wire.update("k", queue="q", delay_ms=0))
                           for _ in range(100)])
        words = [word(c.reply(i).status) for i in ids]
        assert words[0] == "REQUEUED_RUNNING"
        assert set(words[1:]) <= {"UPDATED_READY", "SKIPPED"}
        job = c.get("k", "q")
        assert job.state == S.JOB_STATE_RUNNING and job.pending and job.key == b"k"
        assert c.wait("k", "q", generation=2).run.outcome == S.RUN_OUTCOME_DONE
        time.sleep(0.2)
        assert len(runs_of(c, "k")) == 2
        assert runs_of(c, "k")[0].coalesced == 99


def test_coa_03_schedule_of_a_key_that_waits_for_its_retry(make_daemon):
    d = make_daemon(handler("bad", "false")
                    + queue("q", handler="bad", max_attempts=3, retry_delay="10s"))
    with d.conn() as c:
        c.update("k", 0, "q")
        job = until(lambda: (j := c.get("k", "q")).last.attempt == 1 and j)
        assert job.state == S.JOB_STATE_ARMED
        before = wire.now_ms()
        r = c.update("k", 1000, "q", mode=S.UPDATE_MODE_KEEP)
        assert word(r.status) == "UPDATED_TIMER"
        assert r.deadline_ms - before < 5000
        jobs = list(c.call(list=pb.List(queue="q")).jobs)
        assert len(jobs) == 1
        until(lambda: len(runs_of(c, "k")) == 2)
        assert runs_of(c, "k")[0].started_ms - before < 9000


def cancels_against_deadlines(c, n, lead_ms):
    """`n` jobs due from `lead_ms` on, cancelled while they fall due -> what each cancel said, runs of each."""
    key = f"{lead_ms}-%d"
    due = wire.now_ms() + lead_ms
    c.send_many([c.request(update=wire.update(key % i, queue="q", at_ms=due + i % 1000))
                 for i in range(n)])
    for _ in range(n):
        assert c.next_reply().status == S.STATUS_CREATED
    cancels = [c.request(cancel=pb.Cancel(key=(key % i).encode(), queue="q")) for i in range(n)]
    time.sleep(max(0, (due + 400 - wire.now_ms()) / 1000))
    ids = c.send_many(cancels)
    words = {key % i: word(c.reply(rid).status) for i, rid in enumerate(ids)}
    until(lambda: c.queue_info("q").armed + c.queue_info("q").ready == 0)
    ran = {}
    skip = 0
    while page := c.history(queue="q", skip=skip, limit=1000):
        for r in page:
            ran[r.key.decode()] = ran.get(r.key.decode(), 0) + 1
        skip += len(page)
    return words, ran


def test_coa_04_cancel_in_the_second_of_the_deadline(make_daemon, tmp):
    n = 10_000
    d = make_daemon(queue("q", retention_count=5 * n, max_active=1000))
    with d.conn() as c:
        # A machine that is busy falls behind the first deadlines: then there is more time.
        for lead_ms in (1500, 5000, 15_000, 40_000):
            words, ran = cancels_against_deadlines(c, n, lead_ms)
            for key, w in words.items():
                assert w in ("CANCELLED", "IDLE", "NOT_PENDING_RUNNING", "CANCELLED_RUNNING"), w
                assert ran.get(key, 0) == (0 if w == "CANCELLED" else 1), (key, w)
            if len(set(words.values())) > 1:
                return
    assert False, f"the race did not happen: {set(words.values())}"


@pytest.mark.parametrize("gone", [0, 32, 63])
def test_coa_07_all_waiters_of_one_run_are_woken(make_daemon, gone):
    d = make_daemon(handler("slow", "sleep", "1") + queue("q", handler="slow"))
    conns = [d.conn() for _ in range(64)]
    conns[0].update("k", 0, "q")
    until(lambda: conns[0].get("k", "q").state == S.JOB_STATE_RUNNING)
    ids = [c.send(flush=pb.Flush(key=b"k", queue="q")) for c in conns]
    conns[gone].close()
    ended = None
    for i, c in enumerate(conns):
        if i == gone:
            continue
        r = c.reply(ids[i])
        assert r.status == S.STATUS_OK and r.run.outcome == S.RUN_OUTCOME_DONE
        ended = ended or r.run.ended_ms
    assert wire.now_ms() - ended < 5000
    for c in conns:
        c.close()
