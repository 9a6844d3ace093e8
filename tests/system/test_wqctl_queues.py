"""wqctl's verbs on queues and on the daemon itself."""
import json
import signal
import subprocess

import pytest

from conftest import WQCTL, handler, queue, until

SETTINGS = {"action", "handler", "max_active", "ordered", "priority", "durability", "misfire", "slack",
            "max_wait", "max_attempts", "max_interrupts", "retry_delay", "retry_backoff",
            "retry_max_delay", "retention", "retention_count", "max_jobs", "max_parts"}
COUNTS = {"armed", "ready", "held", "running", "paused", "draining"}


def test_queue_create_set_show_delete(wqd):
    assert wqd.json("queue", "create", "q", "max_active=3", "slack=50ms") == {"outcome": "OK", "queue": "q"}
    assert wqd.json("queue", "create", "q", check=1)["error"] == "EXISTS"
    got = wqd.json("queue", "show", "q")
    assert SETTINGS | COUNTS | {"queue"} <= got.keys()
    assert got["max_active"] == 3 and got["slack"] == "50ms" and got["ordered"] is False
    assert got["handler"] is None
    assert got["armed"] == 0 and got["paused"] is False
    wqd.json("queue", "set", "q", "max_active=5", "priority=high")
    assert wqd.json("queue", "show", "q")["max_active"] == 5
    error = wqd.json("queue", "set", "q", "max_active=7", "colour=red", check=1)
    assert error["error"] == "INVALID" and "setting \"colour\": wqd.conf(5)" in error["message"]
    assert wqd.json("queue", "show", "q")["max_active"] == 5
    text = wqd.ctl("queue", "show", "q", check=0).stdout.splitlines()
    assert text[0].split() == ["queue", "q"] and ["max_active", "5"] in [line.split() for line in text]
    names = [q["queue"] for q in wqd.json("queue", "list")["queues"]]
    assert sorted(names) == ["default", "q"]
    assert sorted(wqd.ctl("-q", "queue", "list").stdout.split()) == ["default", "q"]
    wqd.json("update", "q/a", "1h")
    assert wqd.json("queue", "delete", "q", check=1)["error"] == "INVALID"
    wqd.json("queue", "delete", "q", "--timers", "cancel")
    assert wqd.json("queue", "show", "q", check=3)["error"] == "NOT_FOUND"


def test_pause_and_resume(wqd):
    assert wqd.json("pause", "default") == {"outcome": "OK", "queue": "default"}
    wqd.json("update", "a", "0")
    assert wqd.json("get", "a")["state"] == "held"
    assert wqd.json("queue", "show", "default")["paused"] is True
    assert wqd.ctl("resume", "default", check=0).stdout == "default: resumed\n"
    until(lambda: wqd.json("get", "a")["state"] == "idle")
    wqd.json("pause", "nowhere", check=3)


def test_drain_refuses_newcomers_and_times_out(make_daemon):
    d = make_daemon(handler("sleep", "/bin/sleep", "60") + queue("run", handler="sleep"))
    d.json("update", "run/a", "0")
    until(lambda: d.json("get", "run/a")["state"] == "running")
    with subprocess.Popen([str(WQCTL), "--server", d.address, "--json", "drain", "run"],
                          stdout=subprocess.PIPE) as proc:
        until(lambda: d.json("queue", "show", "run")["draining"])
        got = d.json("update", "run/b", "0", check=4)
        assert got["error"] == "REFUSED_DRAINING"
        d.json("cancel", "--kill", "run/a")
        assert json.loads(proc.stdout.read()) == {"outcome": "OK", "queue": "run"}
        assert proc.wait(60) == 0
    d.json("update", "run/a", "0")
    until(lambda: d.json("get", "run/a")["state"] == "running")
    assert d.json("drain", "run", "--timeout", "50ms", check=7)["error"] == "TIMEOUT"
    d.json("cancel", "--kill", "run/a")
    d.json("update", "run/b", "1h")
    assert d.ctl("drain", "run", "--timers", "cancel", "--pause-after", check=0).stdout == \
        "run: drained and paused\n"
    assert d.json("queue", "show", "run")["paused"] is True
    assert d.json("get", "run/b", check=None).get("state", "idle") == "idle"


def test_stat_is_flat_numbers(wqd):
    wqd.json("update", "a", "1h")
    got = wqd.json("stat")
    assert got and all(isinstance(v, int) for v in got.values())
    lines = wqd.ctl("stat", check=0).stdout.splitlines()
    assert {line.split()[1] for line in lines} == got.keys()


def test_ping(wqd):
    got = wqd.json("ping")
    assert got["outcome"] == "OK" and got["server"] == wqd.address and got["rtt_us"] >= 0
    assert wqd.address in wqd.ctl("ping", check=0).stdout
    assert wqd.ctl("-q", "ping", check=0).stdout == ""


@pytest.mark.parametrize("args", [
    ["--pipeline", "64"], ["--batch", "10", "--pipeline", "4"], [],
    ["--durability", "sync", "--pipeline", "16", "--delay", "10m"]])
def test_bench(wqd, args):
    wqd.json("queue", "create", "b")
    got = wqd.json("bench", "--queue", "b", "--keys", "50", "--count", "505", *args)
    assert got["count"] == 505 and got["errors"] == 0 and got["ops_per_s"] > 0
    assert 0 < got["p50_us"] <= got["p99_us"] <= got["max_us"]
    assert wqd.json("queue", "show", "b")["jobs"] == 0
    assert wqd.json("stat")


def test_bench_keeps_its_keys_when_asked_to_and_fails_on_an_unknown_queue(wqd):
    out = wqd.ctl("bench", "--keys", "7", "--count", "20", "--keep", check=0).stdout
    assert "ops/s" in out and "p99" in out
    assert wqd.json("queue", "show", "default")["armed"] == 7
    assert wqd.json("bench", "--queue", "nowhere", "--count", "5", check=3)["error"] == "NOT_FOUND"


def test_reload(wqd):
    assert wqd.json("reload") == {"outcome": "OK"}
    wqd.write_conf('nonsense = "yes"\n')
    got = wqd.json("reload", check=1)
    assert got["exit_status"] == 1 and got["message"]
    assert wqd.json("ping")["outcome"] == "OK"


@pytest.mark.parametrize("args", [[], ["--drain"]])
def test_shutdown(wqd, args):
    assert wqd.json("shutdown", *args) == {"outcome": "OK"}
    assert wqd.proc.wait(60) == 0
    assert wqd.json("ping", check=8)["error"] == "NO_DAEMON"


def test_daemon_that_dies_while_one_waits(wqd):
    wqd.json("update", "a", "1h")
    with subprocess.Popen([str(WQCTL), "--server", wqd.address, "--json", "wait", "a"],
                          stdout=subprocess.PIPE) as proc:
        until(lambda: wqd.json("stat")["waiters"] == 1)
        wqd.kill9()
        got = json.loads(proc.stdout.read())
        assert proc.wait(60) == 8 and got["error"] == "NO_DAEMON" and wqd.address in got["message"]


def test_a_drain_does_with_timers_what_it_is_told(make_daemon):
    d = make_daemon(queue("q"))
    for policy, armed, ran in (("keep", 1, 0), ("expedite", 0, 1), ("cancel", 0, 0)):
        before = d.json("stat")["runs_done"]
        d.json("update", "q/k", "1h")
        d.json("drain", "q", "--timers", policy)
        got = d.json("queue", "show", "q")
        assert (got["armed"], got["draining"]) == (armed, False), policy
        assert d.json("stat")["runs_done"] - before == ran, policy
    assert d.json("drain", "q", "--timers", "none", check=2)["error"] == "USAGE"


def test_a_drain_that_is_interrupted_is_undone(make_daemon):
    d = make_daemon(handler("nap", "/bin/sleep", "60") + queue("q", handler="nap"))
    d.json("update", "q/k", "0")
    until(lambda: d.json("get", "q/k")["state"] == "running")
    # What a shell starts in the background ignores SIGINT, and all below it.
    with subprocess.Popen([str(WQCTL), "--server", d.address, "drain", "q"],
                          preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)) as proc:
        until(lambda: d.json("queue", "show", "q")["draining"])
        assert d.json("update", "q/new", "1h", check=4)["outcome"] == "REFUSED_DRAINING"
        proc.send_signal(signal.SIGINT)
        assert proc.wait(60) != 0
    until(lambda: not d.json("queue", "show", "q")["draining"])
    assert d.json("update", "q/new", "1h")["outcome"] == "CREATED"
    d.json("cancel", "q/k", "--kill")
