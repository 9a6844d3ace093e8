"""Waiting at scale: races, many waiters, overlapping flushes, clients that are killed while they wait.

The sizes are those of the cases. What a case bounds in time is asserted by what comes before what, which
is the same on any machine, and by the clock with a bound for a loaded one; with the case's own on a quiet
machine: WQD_CASE_MS=200 make check TESTFLAGS="-k 'coa_07 or con_01'".
"""
import os
import random
import select
import socket
import struct
import threading
import time

import pytest
from conftest import handler, queue, until
from wire import S, now_ms, pb, update

CASE_MS = int(os.environ.get("WQD_CASE_MS", "5000"))
TURNS = 8


def test_coa_04_cancel_at_the_deadline(make_daemon):
    """100 000 keys due within a second, all cancelled in that second: CANCELLED means no run, too late
    means exactly one."""
    d = make_daemon(queue("q", durability="memory", retention_count=0, max_active=100000))
    rounds, n = 10, 10_000
    cancelled = late = 0
    with d.conn() as c:
        for _ in range(rounds):
            before = c.stat()["starts"]
            for lo in range(0, n, 1000):
                c.call(update_batch=pb.UpdateBatch(updates=[
                    update(f"k{i}", queue="q", delay_ms=150 + i % 100) for i in range(lo, lo + 1000)]))
            time.sleep(random.random() * 0.1)
            ids = c.send_many([c.request(cancel=pb.Cancel(key=b"k%d" % i, queue="q")) for i in range(n)])
            words = [c.reply(i).status for i in ids]
            until(lambda: (s := c.stat())["armed"] == 0 and s["ready"] == 0 and s["running"] == 0)
            assert set(words) <= {S.STATUS_CANCELLED, S.STATUS_IDLE}
            starts = c.stat()["starts"] - before
            cancelled += words.count(S.STATUS_CANCELLED)
            late += starts
            assert words.count(S.STATUS_IDLE) == starts
    assert cancelled + late == rounds * n


@pytest.mark.parametrize("way", ["api", "reload"])
def test_con_01_the_limit_lowered_and_raised(make_daemon, way):
    """100 jobs of 200 ms, max_active 6, 1, 6. What is due to the raise has started a few turns of the
    loop later; by the clock all six run within CASE_MS. The pool starts whatever its queues let, or on
    busy processors it would be its limit that is seen."""
    def conf(n):
        return ('pool "default" { admit = "all" }\n' + handler("nap", "/bin/sleep", "0.2") +
                queue("q", handler="nap", max_active=n))
    d = make_daemon(conf(6))

    def limit(c, n):
        if way == "api":
            c.set_queue("q", max_active=n)
        else:
            d.write_conf(conf(n))
            assert c.call(reload=pb.Reload()).status == S.STATUS_OK

    with d.conn() as c:
        c.call(update_batch=pb.UpdateBatch(updates=[
            update(f"k{i}", queue="q", delay_ms=0) for i in range(100)]))
        until(lambda: c.queue_info("q").running == 6)
        limit(c, 1)
        until(lambda: c.queue_info("q").running <= 1)
        assert max(c.queue_info("q").running for _ in range(20)) <= 1 and c.queue_info("q").held > 50
        begin = time.monotonic()
        low = c.stat()["starts"]
        limit(c, 6)
        for _ in range(TURNS):
            c.call(ping=pb.Ping())
        assert c.stat()["starts"] - low >= 5
        until(lambda: c.queue_info("q").running == 6)
        assert (time.monotonic() - begin) * 1000 < CASE_MS
        assert c.call(flush_queue=pb.FlushQueue(queue="q")).status == S.STATUS_OK
        got = c.stat()
        assert got["runs_done"] == got["starts"] == 100, got


def test_con_04_all_that_was_held_starts(make_daemon):
    d = make_daemon(queue("paused") + queue("zero", max_active=0))
    with d.conn() as c:
        c.call(pause=pb.Queue(queue="paused"))
        for q in ("paused", "zero"):
            c.call(update_batch=pb.UpdateBatch(updates=[
                update(f"k{i}", queue=q, delay_ms=0) for i in range(50)]))
            assert c.queue_info(q).held == 50
        c.call(resume=pb.Queue(queue="paused"))
        c.set_queue("zero", max_active=4)
        until(lambda: c.stat()["runs_done"] == 100)


def test_forty_overlapping_queue_flushes(make_daemon):
    """Each is a snapshot: it ends with what was there when it came, whatever came after."""
    d = make_daemon(handler("cat", "/bin/cat") + queue("q", handler="cat", max_active=1))
    with d.conn() as c, d.conn() as f:
        c.call(pause=pb.Queue(queue="q"))
        flushes = []
        for i in range(40):
            c.update(f"k{i:02}", 0, queue="q")
            flushes.append(f.send(flush_queue=pb.FlushQueue(queue="q")))
            f.call(ping=pb.Ping())
        assert c.stat()["waiters"] == 40
        c.call(resume=pb.Queue(queue="q"))
        order = []
        while len(order) < 40:
            order.append(f.next_reply())
        assert [r.id for r in order] == flushes
        assert {r.status for r in order} == {S.STATUS_OK}
        assert c.stat()["runs_done"] == 40


def test_half_of_the_waiting_clients_are_killed(make_daemon):
    """500 wait, on jobs, flushes and completions; half go, half of those by reset, while jobs fire."""
    rounds, n = 20, 500
    d = make_daemon('max_connections = 2000\n' + queue("q", durability="memory", max_active=0))
    with d.conn() as c:
        c.stat()
        base = d.fds()
        for r in range(rounds):
            c.call(update_batch=pb.UpdateBatch(updates=[
                update(f"k{i}", queue="q", delay_ms=0) for i in range(50)]))
            clients = [d.conn() for _ in range(n)]
            ids = []
            for i, w in enumerate(clients):
                what = ({"wait": pb.Wait(key=b"k%d" % (i % 50), queue="q")},
                        {"flush_queue": pb.FlushQueue(queue="q")},
                        {"completion_wait": pb.CompletionWait(name=b"gate")},
                        {"flush": pb.Flush(key=b"k%d" % (i % 50), queue="q")})[i % 4]
                ids.append(w.send(**what))
            until(lambda: c.stat()["waiters"] == n)

            def kill():
                for i in range(0, n, 2):
                    if i % 4:
                        clients[i].sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                                   struct.pack("ii", 1, 0))
                    clients[i].close()
            killer = threading.Thread(target=kill)
            killer.start()
            c.set_queue("q", max_active=100)
            c.call(complete_all=pb.Completion(name=b"gate"))
            for i in range(1, n, 2):
                assert clients[i].reply(ids[i]).status == S.STATUS_OK
            killer.join()
            for i in range(1, n, 2):
                clients[i].close()
            c.call(completion_reinit=pb.Completion(name=b"gate"))
            c.set_queue("q", max_active=0)
            until(lambda: c.stat()["waiters"] == 0 and d.fds() == base, what=f"round {r}")
            assert c.stat()["completions"] == 0


def test_coa_07_all_but_the_one_who_left_are_told(make_daemon):
    """64 connections flush one running job of 2 s, one of them goes: the other 63 are answered in one
    turn, before the next request is served; by the clock within CASE_MS of the end."""
    d = make_daemon(handler("nap", "/bin/sleep", "2") + queue("q", handler="nap"))
    clients = [d.conn() for _ in range(64)]
    with d.conn() as c:
        c.update("k", 0, queue="q")
        until(lambda: c.queue_info("q").running == 1)
        ids = [w.send(flush=pb.Flush(key=b"k", queue="q")) for w in clients]
        until(lambda: c.stat()["waiters"] == 64)
        clients.pop(20).close()
        ids.pop(20)
        until(lambda: c.stat()["waiters"] == 63)
        told = [clients[0].reply(ids[0])]
        clients[0].call(ping=pb.Ping())
        assert len(select.select([w.sock for w in clients[1:]], [], [], 0)[0]) == 62
        told += [w.reply(i) for w, i in zip(clients[1:], ids[1:])]
        assert now_ms() - told[0].run.ended_ms < CASE_MS
        assert all(r.status == S.STATUS_OK and r.run.outcome == pb.RUN_OUTCOME_DONE for r in told)
        assert c.stat()["waiters"] == 0
    for w in clients:
        w.close()
