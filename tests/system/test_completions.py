"""Named completions over the socket: order, limits, restart, who goes away, many at once."""
import os
import random
import socket
import struct
import subprocess
import time

import wire
from conftest import WQCTL, until
from wire import S, enc, pb


def wait(c, name, **kw):
    return c.send(completion_wait=pb.CompletionWait(name=enc(name), **kw))


def complete(c, name, op="complete", **kw):
    r = c.call(**{op: pb.Completion(name=enc(name), **kw)})
    assert r.status == S.STATUS_OK, r
    return r.completion


def show(c, name):
    return complete(c, name, "completion_show")


def test_wqctl_completion(wqd):
    assert wqd.json("completion", "show", "deploy") == {
        "outcome": "OK", "name": "deploy", "done": 0, "open": False, "waiters": 0, "durability": "memory"}
    assert wqd.json("completion", "wait", "deploy", "--timeout", "0", check=7)["error"] == "TIMEOUT"
    assert wqd.json("completion", "complete", "deploy")["done"] == 1
    assert wqd.ctl("completion", "complete", "deploy", check=0).stdout == "deploy  done 2  waiters 0\n"
    assert wqd.json("completion", "wait", "deploy") == {"outcome": "OK", "name": "deploy"}
    assert wqd.ctl("completion", "wait", "deploy", check=0).stdout == "deploy  completed\n"
    with subprocess.Popen([str(WQCTL), "--server", wqd.address, "completion", "wait", "deploy"]) as proc:
        until(lambda: wqd.json("completion", "show", "deploy")["waiters"] == 1)
        assert wqd.json("completion", "complete-all", "deploy", "--durability", "sync")["open"] is True
        assert proc.wait(60) == 0
    wqd.restart()
    got = wqd.json("completion", "show", "deploy")
    assert got["open"] is True and got["durability"] == "sync"
    assert wqd.ctl("completion", "reinit", "deploy", check=0).stdout == "deploy  done 0  waiters 0\n"
    wqd.ctl("completion", "wait", check=2)
    wqd.ctl("completion", check=2)
    wqd.ctl("completion", "complete", "a\tb", check=1)


def test_first_come_first_served_over_connections(wqd):
    with wqd.conn() as a, wqd.conn() as b, wqd.conn() as c:
        first = wait(a, "c")
        a.call(ping=pb.Ping())
        second = wait(b, "c")
        b.call(ping=pb.Ping())
        assert show(c, "c").waiters == 2
        assert complete(c, "c").waiters == 1
        assert a.reply(first).status == S.STATUS_OK
        complete(c, "c")
        assert b.reply(second).status == S.STATUS_OK
        assert show(c, "c") == pb.CompletionInfo(name=b"c", durability=pb.DURABILITY_MEMORY)


def test_a_connection_that_goes_away_takes_nothing(wqd):
    with wqd.conn() as c:
        gone = [wqd.conn() for _ in range(20)]
        for g in gone:
            wait(g, "c")
            g.call(ping=pb.Ping())
        last = wait(c, "c")
        for i, g in enumerate(gone):
            if i % 2:  # with a reset
                g.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            g.close()
        until(lambda: show(c, "c").waiters == 1)
        complete(c, "c")
        assert c.reply(last).status == S.STATUS_OK


def test_a_gate_for_64_programs(wqd):
    """The example of docs/waiting.md."""
    procs = [subprocess.Popen([str(WQCTL), "--server", wqd.address, "-q", "completion", "wait", "deploy"])
             for _ in range(64)]
    until(lambda: wqd.json("completion", "show", "deploy")["waiters"] == 64)
    wqd.json("completion", "complete-all", "deploy")
    assert [p.wait(60) for p in procs] == [0] * 64
    wqd.ctl("completion", "wait", "deploy", check=0)


def test_time_limit_against_completion(conn):
    """Whatever comes first: one answer each, and what was not taken is still there. 16 at a time; the size
    of the issue: WQD_RACE_ROUNDS=100000 make check TESTFLAGS="-k time_limit_against"."""
    rounds = int(os.environ.get("WQD_RACE_ROUNDS", "2000"))
    names = [b"c%d" % i for i in range(16)]
    taken = done = 0
    while done < rounds:
        waits = conn.send_many([conn.request(completion_wait=pb.CompletionWait(name=n, timeout_ms=1))
                                for n in names])
        end = time.monotonic() + random.random() * 0.002
        while time.monotonic() < end:
            pass
        gives = conn.send_many([conn.request(complete=pb.Completion(name=n)) for n in names])
        got = [conn.reply(i).status for i in waits]
        assert set(got) <= {S.STATUS_OK, S.STATUS_TIMEOUT}
        assert {conn.reply(i).status for i in gives} == {S.STATUS_OK}
        # Left for the next one who comes, and then all are closed as before.
        left = conn.send_many([conn.request(completion_wait=pb.CompletionWait(name=n, timeout_ms=0))
                               for n in names])
        assert [conn.reply(i).status for i in left] == [
            S.STATUS_OK if st == S.STATUS_TIMEOUT else S.STATUS_TIMEOUT for st in got]
        taken += got.count(S.STATUS_OK)
        done += len(names)
    print(f"{done} rounds, {taken} completed in time")
    assert 0 < taken < done


def test_a_request_sent_again_counts_once(wqd):
    with wqd.conn() as c:
        for _ in range(2):
            assert complete(c, "c", durability=pb.DURABILITY_SYNC, idempotency_id=b"once").done == 1
    wqd.kill9()
    wqd.start()
    with wqd.conn() as c:
        assert complete(c, "c", durability=pb.DURABILITY_SYNC, idempotency_id=b"once").done == 1


def test_bad_requests_change_nothing(make_daemon):
    d = make_daemon("max_completions = 2\n")
    with d.conn() as c:
        for name in (b"", b"a\0b", b" a", b"x" * 256, b"\xff"):
            for op in ("complete", "complete_all", "completion_reinit", "completion_show"):
                assert c.call(**{op: pb.Completion(name=name)}).status == S.STATUS_INVALID
            assert c.reply(wait(c, name)).status == S.STATUS_INVALID
        assert c.reply(wait(c, "a", timeout_ms=-1)).status == S.STATUS_INVALID
        complete(c, "a")
        complete(c, "b")
        assert c.call(complete=pb.Completion(name=b"c")).status == S.STATUS_REFUSED_LIMIT
        assert c.stat()["completions"] == 2
        assert wire.word(c.reply(wait(c, "a")).status) == "OK"
        assert c.stat()["completions"] == 1
