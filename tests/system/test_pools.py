"""Pools with real processes: what a pool does with runs that sleep, burn, stop, wait for others.

CON-01, CON-04, CON-05, and failure modes of pools. The machine may be loaded: what is asked is who
starts and how many, not how fast.
"""
import os
import signal
import time

from conftest import until
from wire import pb

BURN = 'command = { "/bin/sh", "-c", "while :; do :; done" }'
CONF = f"""
max_runs = 200
handler "nap" {{ command = {{ "/bin/sleep", "0.2" }} }}
handler "long" {{ command = {{ "/bin/sleep", "1000" }} grace = "100ms" }}
handler "burn" {{ {BURN} grace = "100ms" }}
handler "true" {{ command = {{ "/bin/true" }} }}
handler "gone" {{ command = {{ "/nonexistent" }} }}
queue "nap" {{ handler = "nap" max_active = 6 }}
queue "long" {{ handler = "long" max_active = 150 }}
queue "burn" {{ handler = "burn" max_active = 100 }}
queue "short" {{ handler = "true" max_active = 100 }}
queue "low" {{ handler = "true" priority = "low" max_active = 100 }}
queue "gone" {{ handler = "gone" max_active = 2 }}
"""


def stat(d):
    return d.json("stat")


def queue(d, name):
    return d.json("queue", "show", name)


def fill(d, name, n):
    with d.conn() as c:
        for rid in c.send_many([c.request(update=pb.Update(queue=name, key=b"%03d" % i, delay_ms=0))
                                for i in range(n)]):
            c.reply(rid)


def end_all(d, name, n):
    with d.conn() as c:
        for rid in c.send_many([c.request(cancel=pb.Cancel(
                queue=name, key=b"%03d" % i, mode=pb.CANCEL_MODE_KILL)) for i in range(n)]):
            c.reply(rid)
    assert queue(d, name)["running"] == 0


def test_runs_that_sleep_hold_nobody_up(make_daemon):
    """Many more than processors, one after the other; stopped ones don't count either."""
    d = make_daemon(conf=CONF)
    fill(d, "long", 60)
    until(lambda: queue(d, "long")["running"] == 60, what="all 60 to run")
    for pid in d.children_left():
        os.kill(pid, signal.SIGSTOP)
    fill(d, "short", 10)
    until(lambda: queue(d, "short")["running"] + queue(d, "short")["ready"] == 0, what="the short")
    end_all(d, "long", 60)
    assert stat(d)["pool_active"] == 0


def test_hogs_let_short_jobs_pass(make_daemon):
    """12 runs that never end, then short ones: these are served, and hogs are counted."""
    d = make_daemon(conf=CONF)
    fill(d, "burn", 12)
    until(lambda: queue(d, "burn")["running"] >= 2, what="hogs to start")
    fill(d, "short", 20)
    until(lambda: queue(d, "short")["running"] + queue(d, "short")["ready"] == 0, what="the short")
    assert stat(d)["pool_hogs_total"] > 0
    end_all(d, "burn", 12)
    got = stat(d)
    assert got["pool_active"] == 0 and got["pool_hogs"] == 0, got


def test_nothing_is_looked_at_while_nothing_is_ready(make_daemon):
    d = make_daemon(conf=CONF)
    fill(d, "long", 3)
    until(lambda: queue(d, "long")["running"] == 3, what="all to run")
    before = stat(d)["pool_samples"]
    time.sleep(0.5)
    assert stat(d)["pool_samples"] == before
    end_all(d, "long", 3)


def test_con_01_max_active_down_and_up(make_daemon):
    d = make_daemon(conf=CONF)
    fill(d, "nap", 40)
    until(lambda: queue(d, "nap")["running"] > 1, what="several to run")
    d.json("queue", "set", "nap", "max_active=1")
    until(lambda: queue(d, "nap")["running"] <= 1, what="one to be left")
    d.json("queue", "set", "nap", "max_active=6")
    until(lambda: queue(d, "nap")["running"] > 1, what="several again")
    until(lambda: stat(d)["runs_done"] == 40, what="all 40")
    assert stat(d)["runs_failed"] == 0


def test_con_04_resume_starts_all_that_was_held(make_daemon):
    d = make_daemon(conf=CONF)
    d.json("pause", "short")
    fill(d, "short", 50)
    assert queue(d, "short")["held"] == 50
    d.json("resume", "short")
    until(lambda: stat(d)["runs_done"] == 50, what="all 50")


def test_con_05_a_low_queue_is_served(make_daemon):
    d = make_daemon(conf="max_runs = 1\n" + CONF.replace("max_runs = 200", ""))
    fill(d, "short", 60)
    fill(d, "low", 1)
    until(lambda: d.json("get", "low/000")["last"], what="the low one")
    until(lambda: stat(d)["runs_done"] == 61, what="the rest")


def test_cancels_and_failed_starts_give_every_slot_back(make_daemon):
    """One running, one held, both at once, starts that fail: the count is exact."""
    d = make_daemon(conf=CONF)
    d.json("queue", "set", "long", "max_active=2")
    fill(d, "long", 4)
    until(lambda: queue(d, "long")["running"] == 2, what="two to run")
    d.json("cancel", "long/000", "--kill")
    until(lambda: queue(d, "long")["running"] == 2, what="the third to start")
    assert d.json("cancel", "long/003")["outcome"] == "CANCELLED"
    assert queue(d, "long")["running"] == 2
    d.json("update", "long/001", "0")
    d.json("cancel", "long/001", "--kill")
    d.json("cancel", "long/002", "--kill")
    assert queue(d, "long")["running"] == 0
    fill(d, "gone", 10)
    until(lambda: stat(d)["runs_failed"] == 10, what="ten failures")
    got = stat(d)
    assert got["pool_active"] == 0 and got["running"] == 0 and got["runner_active"] == 0, got
