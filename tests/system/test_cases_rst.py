"""Field cases RST: restart and recovery."""
import os
import signal
import time

import pytest
import wire
from conftest import WQCTL, handler, queue, until
from wire import S, pb, word


def rearming(period="500ms"):
    """A periodic job: each run arms the next."""
    return handler("tick", "sh", "-c", f'exec "{WQCTL}" -q update "$WQ_QUEUE/$WQ_KEY" {period}')


@pytest.mark.parametrize("policy,catch_up", [("run", 1), ("skip", 0), ("rearm", 0)])
def test_rst_01_missed_runs_follow_the_policy(make_daemon, policy, catch_up):
    d = make_daemon(rearming() + queue("q", handler="tick", misfire=policy))
    with d.conn() as c:
        c.update("k", 500, "q")
        until(lambda: len(c.history("k", "q")) >= 2)
    # Armed, not running, when the daemon goes: otherwise the run is interrupted instead.
    d.stop()
    down = wire.now_ms()
    time.sleep(3)
    up = wire.now_ms()
    d.start()
    with d.conn() as c:
        time.sleep(0.3)
        early = [r for r in c.history("k", "q") if up <= r.started_ms < up + 350]
        missed = [r for r in c.history("k", "q") if down < r.started_ms < up]
        assert missed == []
        assert len(early) <= max(catch_up, 1)
        if policy == "run":
            until(lambda: [r for r in c.history("k", "q") if r.started_ms >= up])
            first = [r for r in c.history("k", "q") if r.started_ms >= up][-1]
            assert first.due_ms < up, "the missed one comes once"
        if policy == "rearm":
            until(lambda: [r for r in c.history("k", "q") if r.started_ms >= up])
            first = [r for r in c.history("k", "q") if r.started_ms >= up][-1]
            assert first.started_ms >= up + 490
        if policy == "skip":
            time.sleep(1)
            assert not [r for r in c.history("k", "q") if r.started_ms >= up]
            assert c.stat()["misfires_skipped"] == 1
        else:
            until(lambda: len([r for r in c.history("k", "q") if r.started_ms >= up]) >= 2)
            runs = [r for r in c.history("k", "q") if r.started_ms >= up]
            # Each run arms the next 500 ms after it has started, not after it has ended.
            gaps = [a.started_ms - b.started_ms for a, b in zip(runs, runs[1:])]
            assert all(g >= 499 for g in gaps), "back on the grid, no burst"


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGKILL])
def test_rst_02_delays_survive_a_restart(make_daemon, sig):
    d = make_daemon()
    with d.conn() as c:
        asked = wire.now_ms()
        c.update("k", 4000, durability=S.DURABILITY_SYNC)
    time.sleep(1)
    d.restart(sig)
    with d.conn() as c:
        assert c.get("k").state == S.JOB_STATE_ARMED
        until(lambda: c.get("k").last.generation == 1)
        (run,) = c.history("k")
        assert asked + 3999 <= run.started_ms < asked + 9000
        time.sleep(0.2)
        assert len(c.history("k")) == 1


def test_rst_04_a_run_cut_by_a_crash_is_interrupted_and_run_again(make_daemon, tmp):
    pids = tmp / "pids"
    script = f'echo $$ >> {pids}; setsid sleep 300 & echo $! >> {pids}; sleep 300'
    d = make_daemon(handler("h", "sh", "-c", script) + queue("q", handler="h"))
    with d.conn() as c:
        c.update("k", 0, "q", durability=S.DURABILITY_SYNC)
        until(lambda: pids.exists() and len(pids.read_text().split()) == 2)
        until(lambda: c.get("k", "q").state == S.JOB_STATE_RUNNING)
        time.sleep(0.3)  # over the commit interval: the hand-over is on disk
    first = [int(p) for p in pids.read_text().split()]
    d.kill9()
    assert all(os.path.exists(f"/proc/{p}") for p in first), "the orphans are there"
    d.start()
    with d.conn() as c:
        until(lambda: len(pids.read_text().split()) == 4)
        for p in first:
            assert not alive(p), "the orphan runs beside the retry"
        job = c.get("k", "q")
        assert job.state == S.JOB_STATE_RUNNING and job.attempt == 2 and job.generation == 1
        assert job.last.outcome == S.RUN_OUTCOME_INTERRUPTED and job.last.attempt == 1
        r = c.cancel("k", "q", mode=S.CANCEL_MODE_KILL)
        assert word(r.status) == "CANCELLED_RUNNING"
    for p in map(int, pids.read_text().split()):
        if alive(p):
            os.kill(p, signal.SIGKILL)  # the setsid one: beyond the process group, as documented


def alive(pid):
    try:
        return open(f"/proc/{pid}/stat", encoding="ascii").read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("restart", [None, signal.SIGTERM, signal.SIGKILL])
def test_rst_07_a_resent_request_is_applied_once(make_daemon, restart):
    d = make_daemon()
    ask = dict(delay_ms=60_000, idempotency_id=b"order-1", durability=S.DURABILITY_SYNC)
    with d.conn() as c:
        first = c.call(update=wire.update("", **ask))
        assert word(first.status) == "CREATED" and first.key
    if restart:
        d.restart(restart)
    with d.conn() as c:
        again = c.call(update=wire.update("", **ask))
        assert again.key == first.key and word(again.status) == "CREATED"
        assert abs(again.deadline_ms - first.deadline_ms) <= 2
        assert len(c.call(list=pb.List()).jobs) == 1
        assert c.get(first.key).coalesced == 0
        assert c.stat()["answers_repeated"] == 1


def test_kill9_nothing_acknowledged_is_lost(make_daemon):
    """30 rounds: hundreds of acknowledged operations of all levels, kill -9 at a random moment,
    restart, and what is there is compared with what was acknowledged."""
    import random
    seed = int.from_bytes(os.urandom(4), "big")
    rng = random.Random(seed)
    d = make_daemon(queue("q", retention_count=100_000))
    interval_ms = 50
    for rnd in range(30):
        sent = {}
        with d.conn() as c:
            reqs, meta = [], {}
            for i in range(300):
                key = f"r{rnd}-k{rng.randrange(200)}"
                level = rng.choice([S.DURABILITY_SYNC, S.DURABILITY_ASYNC, S.DURABILITY_MEMORY])
                if rng.random() < 0.15:
                    r = c.request(cancel=pb.Cancel(key=key.encode(), queue="q", durability=level))
                    meta[r.id] = (key, "cancel", 0, level)
                else:
                    delay = rng.choice([0, rng.randrange(500), 600_000])
                    r = c.request(update=wire.update(key, queue="q", delay_ms=delay, durability=level))
                    meta[r.id] = (key, "update", delay, level)
                reqs.append(r)
            c.send_many(reqs)
            end = time.monotonic() + rng.random() * 0.4
            acked = []
            c.sock.settimeout(0.05)
            while time.monotonic() < end and len(acked) < len(reqs):
                try:
                    r = c.next_reply()
                except (TimeoutError, OSError):
                    continue
                acked.append((time.monotonic(), r))
            killed = time.monotonic()
            d.kill9()
        # In the order of the requests: a sync reply comes after async ones that followed it.
        for at, r in sorted(acked, key=lambda a: a[1].id):
            sent.setdefault(meta[r.id][0], []).append((at, meta[r.id], word(r.status), r.generation))
        d.start()
        unanswered = {meta[r.id][0] for r in reqs} - set(sent) | \
            {meta[r.id][0] for r in reqs if r.id not in {a.id for _, a in acked}}
        with d.conn() as c:
            for key, ops in sent.items():
                if key in unanswered:
                    continue  # a later operation may or may not have been applied
                at, (_, op, delay, level), status, _ = ops[-1]
                certain = level == S.DURABILITY_SYNC or (
                    level == S.DURABILITY_ASYNC and killed - at > 20 * interval_ms / 1000)
                if not certain or any(o[1][3] == S.DURABILITY_MEMORY for o in ops):
                    continue
                job = c.get(key, "q")
                if op == "cancel" and status == "CANCELLED":
                    assert job is None or not job.pending, (seed, rnd, key, ops)
                if op == "update" and delay == 600_000:
                    assert job is not None and job.state == S.JOB_STATE_ARMED, (seed, rnd, key, ops)
                if op == "update" and delay < 600_000:
                    until(lambda: (j := c.get(key, "q")) is not None and not j.pending, 10,
                          what=f"run of {key} (seed {seed}, round {rnd}): {ops} {c.get(key, 'q')}")
                    assert c.get(key, "q").last.outcome == S.RUN_OUTCOME_DONE
            for r in list(c.call(list=pb.List(queue="q", limit=1000)).jobs):
                c.job("delete", r.key, "q")
