"""Limits on starts by the daemon as a whole: what shows them, what changes them, what a restart does.

Their rules are tests of the engine (tests/model/test_limits.c).
"""
import signal
import time

from conftest import handler, queue, until
from wire import S, pb

LONG = handler("long", "/bin/sleep", "1000", grace="100ms")


def reasons(d, target):
    return [r["reason"] for r in d.json("why", target)["reasons"]]


def update(d, name, keys, delay_ms=0):
    with d.conn() as c:
        for rid in c.send_many([c.request(update=pb.Update(
                queue=name, key=key.encode(), delay_ms=delay_ms, durability=pb.DURABILITY_SYNC))
                for key in keys]):
            c.reply(rid)


def running(d, name="q"):
    return d.json("queue", "show", name)["running"]


def test_rate_is_shown_explained_and_changed(make_daemon):
    d = make_daemon(LONG + queue("q", handler="long", rate="1/h", burst=2))
    update(d, "q", ["a", "b", "c", "d"])
    got = d.json("queue", "show", "q")
    assert (got["rate"], got["burst"], got["running"], got["held"]) == ("1/h", 2, 2, 2)
    assert got["rate_next_ms"] > 0 and got["held_prefix"] == 0
    assert reasons(d, "q/c") == ["rate"]
    assert "next start" in d.ctl("queue", "show", "q", check=0).stdout
    assert d.json("stat")["rate_waits"] == 1
    error = d.json("queue", "set", "q", "rate=often", check=1)
    assert error["error"] == "INVALID" and "10/s" in error["message"], error
    d.json("queue", "set", "q", "rate=0")
    got = d.json("queue", "show", "q")
    assert got["running"] == 4 and got["rate_next_ms"] is None
    for key in "abcd":
        d.json("cancel", "--kill", f"q/{key}")


def test_prefix_limit_by_configuration_and_reload(make_daemon):
    conf = LONG + queue("q", handler="long", prefix_limit=1, max_active=50)
    d = make_daemon(conf)
    update(d, "q", ["acme:1", "acme:2", "acme:3", "other:1"])
    got = d.json("queue", "show", "q")
    assert (got["running"], got["held"], got["held_prefix"]) == (2, 2, 2)
    assert d.json("get", "q/acme:2")["state"] == "held"
    assert reasons(d, "q/acme:2") == ["prefix_limit"]
    d.write_conf(LONG + queue("q", handler="long", prefix_limit=2, max_active=50))
    d.json("reload")
    assert running(d) == 3 and d.json("get", "q/acme:2")["state"] == "running"
    d.json("cancel", "--kill", "q/acme:1")
    assert d.json("get", "q/acme:3")["state"] == "running"
    for key in ("acme:2", "acme:3", "other:1"):
        d.json("cancel", "--kill", f"q/{key}")
    assert running(d) == 0


def test_restart_rate_spreads_what_was_missed(make_daemon):
    """A thousand that fell due: one now, the others an hour after one another, and armed."""
    d = make_daemon(queue("q", action="none", restart_rate="1/h", max_active=1000))
    update(d, "q", [f"{i:04}" for i in range(1000)], delay_ms=500)
    d.kill9()
    time.sleep(1)
    d.start()
    got = d.json("queue", "show", "q")
    assert got["armed"] == 999 and d.json("stat")["misfires_paced"] == 999, got
    assert d.json("get", "q/0000")["last"]["outcome"] == "done"
    update(d, "q", ["new"])
    until(lambda: d.json("get", "q/new")["last"], what="the new one to pass them")
    # Again: they are where they were.
    d.restart()
    assert d.json("queue", "show", "q")["armed"] == 999
    assert d.json("stat")["misfires_paced"] == 0


def test_max_jobs_below_what_a_queue_holds(make_daemon):
    """What it holds it keeps, over restarts too; more it does not take."""
    d = make_daemon()
    d.ctl("queue", "create", "q", check=0)
    with d.conn() as c:
        for i in range(5):
            c.update(f"k{i}", 60000, queue="q")
    d.ctl("queue", "set", "q", "max_jobs=2", check=0)
    for sig in (signal.SIGTERM, signal.SIGKILL):
        d.restart(sig)
        with d.conn() as c:
            assert c.stat()["armed"] == 5
            assert c.update("k0", 60000, queue="q").status == S.STATUS_UPDATED_TIMER
            assert c.update("new", 60000, queue="q").status == S.STATUS_REFUSED_LIMIT


def test_a_start_above_a_limit_says_what_to_do(make_daemon):
    d = make_daemon()
    update(d, "default", [f"k{i}" for i in range(5)], 60000)
    d.stop()
    d.write_conf("max_jobs = 2\n")
    d.start(wait=False)
    assert d.proc.wait(60) == 1
    d.proc = None
    assert "raise the limit in wqd.conf" in d.text()
