"""Field cases SYS: start, stop, reload, the service manager."""
import os
import re
import signal
import subprocess
import time

import pytest
import wire
from conftest import WQD, handler, queue, until
from wire import S, pb, word


def test_sys_01_a_long_recovery_extends_its_start_and_is_ready_when_it_answers(make_daemon):
    n = 200_000
    d = make_daemon()
    with d.conn() as c:
        for base in range(0, n, 4000):
            r = c.call(update_batch=pb.UpdateBatch(updates=[
                wire.update(f"k{base + i}", delay_ms=3_600_000 + i) for i in range(4000)]))
            assert all(x.status == S.STATUS_CREATED for x in r.results)
        assert word(c.update("last", 3_600_000, durability=S.DURABILITY_SYNC).status) == "CREATED"
    d.kill9()
    d.start(wait=False)

    def ready():
        d.notify.poll(0.05)
        lines = [line for _, line in d.notify.seen]
        if "READY=1" not in lines:
            assert d.proc.poll() is None, d.text()
            return False
        return lines
    lines = until(ready)
    with d.conn() as c:  # at once: no retry
        assert c.get("last").state == S.JOB_STATE_ARMED
        assert c.queue_info("default").armed == n + 1
    before = lines[:lines.index("READY=1")]
    assert any(line.startswith("EXTEND_TIMEOUT_USEC=") for line in before)


@pytest.mark.parametrize("second", [False, True])
def test_sys_04_stop_lets_runs_end_within_the_limit(make_daemon, second):
    d = make_daemon('stop_timeout = "8s"\n'
                    + handler("h", "sh", "-c", "exec sleep $(cat)")
                    + queue("q", handler="h", max_active=3))
    with d.conn() as c:
        for key, secs in (("short", "1"), ("middle", "5"), ("long", "300")):
            c.update(key, 0, "q", payload=secs.encode())
        c.update("held", 0, "q", payload=b"0")
        until(lambda: c.queue_info("q").running == 3)
        began = time.monotonic()
        d.proc.send_signal(signal.SIGTERM)
        until(lambda: "STOPPING=1" in d.notify.lines())
        r = c.update("new", 1000, "q")
        assert word(r.status) == "REFUSED_DRAINING"
        if second:
            until(lambda: c.get("short", "q").last.generation == 1)
            d.proc.send_signal(signal.SIGTERM)
    assert d.proc.wait(60) == 0
    took = time.monotonic() - began
    d.proc = None
    assert took < (6 if second else 20)
    d.start()
    with d.conn() as c:
        done = S.RUN_OUTCOME_DONE
        assert c.history("short", "q")[0].outcome == done
        if not second:
            assert c.history("middle", "q")[0].outcome == done
        assert c.history("long", "q")[-1].outcome == S.RUN_OUTCOME_INTERRUPTED
        until(lambda: c.get("long", "q").state == S.JOB_STATE_RUNNING)
        assert c.get("long", "q").attempt == 2
        until(lambda: c.get("held", "q").last.outcome == done)
        time.sleep(0.3)
        assert len(c.history("long", "q")) == 1, "run again once"
        assert word(c.cancel("long", "q", mode=S.CANCEL_MODE_KILL).status) == "CANCELLED_RUNNING"
        if second:
            c.cancel("middle", "q", mode=S.CANCEL_MODE_KILL)


def test_reload_applies_a_good_file_and_refuses_a_broken_one(make_daemon):
    base = handler("h", "echo", "one")
    d = make_daemon(base + queue("q", handler="h", max_active=2))
    with d.conn() as c:
        d.write_conf(handler("h", "echo", "two") + queue("q", handler="h", max_active=5)
                     + queue("more", slack="3s"))
        assert c.call(reload=pb.Reload()).status == S.STATUS_OK
        settings = {s.name: s.value for s in c.queue_info("q").settings}
        assert settings["max_active"] == "5"
        assert c.queue_info("more").queue == "more"
        c.update("k", 0, "q")
        assert c.wait("k", "q").run.output == b"two\n"
        d.write_conf('queue "q" { max_active = "many" }\n')
        r = c.call(reload=pb.Reload())
        assert word(r.status) == "INVALID" and "max_active" in r.message
        settings = {s.name: s.value for s in c.queue_info("q").settings}
        assert settings["max_active"] == "5"
        d.write_conf(base + queue("q", handler="h", max_active=7))
        d.proc.send_signal(signal.SIGHUP)
        until(lambda: {s.name: s.value for s in c.queue_info("q").settings}["max_active"] == "7")
    until(lambda: "RELOADING=1" in d.notify.lines())


def test_watchdog_is_pinged_from_the_loop(make_daemon):
    d = make_daemon(start=False)
    d.env["WATCHDOG_USEC"] = "400000"
    d.start()
    until(lambda: d.notify.lines().count("WATCHDOG=1") >= 3)
    os.kill(d.pid, signal.SIGSTOP)
    seen = d.notify.lines().count("WATCHDOG=1")
    time.sleep(1)
    assert d.notify.lines().count("WATCHDOG=1") <= seen + 1
    os.kill(d.pid, signal.SIGCONT)


def test_shutdown_by_a_client(make_daemon):
    d = make_daemon()
    with d.conn() as c:
        assert c.call(shutdown=pb.Shutdown()).status == S.STATUS_OK
    assert d.proc.wait(30) == 0
    d.proc = None


@pytest.mark.parametrize("args,code,says", [
    (["--help"], 0, "Usage: wqd"), (["--version"], 0, "wqd "), (["--nonsense"], 2, "--help"),
    (["extra"], 2, "unexpected argument"), (["-c", "/no/such.conf"], 3, "/no/such.conf"),
    (["-c", "/no/such.conf", "--check"], 3, "/no/such.conf"),
    (["--dump-options"], 0, "state_dir"), (["--dump-options=xml"], 2, "xml"),
])
def test_arguments(args, code, says):
    done = subprocess.run([str(WQD), *args], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code
    assert says in done.stdout + done.stderr


def test_check_of_a_configuration(tmp):
    good = tmp / "good.conf"
    good.write_text('handler "h" { command = { "/bin/true" } }\nqueue "q" { handler = "h" }\n')
    done = subprocess.run([str(WQD), "--check", "-c", str(good)], capture_output=True, text=True,
                          timeout=60, check=False)
    assert done.returncode == 0, done
    bad = tmp / "bad.conf"
    bad.write_text('queue "q" {\n  max_active = 3\n  colour = "red"\n}\n')
    done = subprocess.run([str(WQD), "--check", "-c", str(bad)], capture_output=True, text=True,
                          timeout=60, check=False)
    assert done.returncode == 3
    assert re.search(r"bad\.conf:3.*colour", done.stderr), done.stderr


def test_idle_daemon_sleeps(make_daemon):
    d = make_daemon()
    with d.conn() as c:
        for i in range(1000):
            c.send(update=wire.update(f"k{i}", delay_ms=3_600_000))
        for _ in range(1000):
            c.next_reply()
        until(lambda: c.stat()["dirty"] == 0)
    time.sleep(0.5)

    def switches():
        text = open(f"/proc/{d.pid}/status", encoding="ascii").read()
        return int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", text, re.M)[1])
    before = switches()
    time.sleep(2)
    assert switches() - before <= 4


def test_no_descriptor_is_lost_over_connections_and_runs(make_daemon):
    d = make_daemon(handler("h", "echo", "x") + queue("q", handler="h"))
    with d.conn() as c:
        c.update("warm", 0, "q")
        c.wait("warm", "q")
        base = d.fds()
        for i in range(50):
            with d.conn() as other:
                other.update(f"k{i}", 0, "q")
                other.wait(f"k{i}", "q")
        until(lambda: d.fds() <= base)


def test_shutdown_with_drain_lets_what_is_due_run(make_daemon):
    d = make_daemon(handler("h", "sleep", "0.3")
                    + queue("q", handler="h", max_active=1, retention="1h")
                    + queue("paused"))
    with d.conn() as c:
        c.call(pause=pb.Queue(queue="paused"))
        c.update("stays", 0, "paused")
        for i in range(4):
            c.update(f"k{i}", 0, "q")
        c.update("timer", 3_600_000, "q")
        assert c.call(shutdown=pb.Shutdown(drain=True)).status == S.STATUS_OK
        assert word(c.update("new", 0, "q").status) == "REFUSED_DRAINING"
    assert d.proc.wait(60) == 0
    d.proc = None
    d.start()
    with d.conn() as c:
        assert len(c.history(queue="q")) == 4
        assert c.get("timer", "q").state == S.JOB_STATE_ARMED
        assert c.get("stays", "paused").state == S.JOB_STATE_HELD


def test_closed_standard_descriptors_are_not_given_to_others(make_daemon):
    d = make_daemon(wrapper=("sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh"))
    assert [os.readlink(f"/proc/{d.pid}/fd/{fd}") for fd in range(3)] == ["/dev/null"] * 3


def test_shutdown_asked_again_ends_a_drain_that_does_not_end(make_daemon):
    d = make_daemon('stop_timeout = "400ms"\n' + handler("h", "sleep", "600")
                    + queue("q", handler="h", durability="sync"))
    with d.conn() as c:
        c.update("k", 0, "q")
        until(lambda: c.get("k", "q").state == S.JOB_STATE_RUNNING)
        c.call(shutdown=pb.Shutdown(drain=True))
        assert c.call(shutdown=pb.Shutdown(drain=True)).status == S.STATUS_OK
        assert c.call(ping=pb.Ping()).status == S.STATUS_OK
        assert c.call(shutdown=pb.Shutdown()).status == S.STATUS_OK
        assert d.proc.wait(60) == 0
    d.proc = None


@pytest.mark.parametrize("settings,says", [
    ({"colour": "red"}, '"colour"'), ({"max_active": "many"}, "max_active"),
    ({"slack": "1s", "max_jobs": "-1"}, "max_jobs"), ({"misfire": "later"}, "run, skip, rearm"),
])
def test_a_wrong_setting_is_named_with_what_it_takes(conn, settings, says):
    for op in ("queue_create", "queue_set"):
        r = conn.call(**{op: wire.queue_set("default", settings)})
        assert word(r.status) in ("INVALID", "EXISTS") and says in r.message


def test_a_reload_during_the_stop_is_refused(make_daemon):
    d = make_daemon(handler("h", "sleep", "300") + queue("q", handler="h"))
    with d.conn() as c:
        c.update("k", 0, "q")
        until(lambda: c.queue_info("q").running == 1)
        d.proc.send_signal(signal.SIGTERM)
        until(lambda: "STOPPING=1" in d.notify.lines())
        d.proc.send_signal(signal.SIGHUP)
        assert c.call(reload=pb.Reload()).status >= S.STATUS_INVALID
        lines = d.notify.lines()
        assert "READY=1" not in lines[lines.index("STOPPING=1"):]
        d.proc.send_signal(signal.SIGTERM)
    assert d.proc.wait(30) == 0
    d.proc = None


def test_a_stop_without_time_still_commits(make_daemon):
    d = make_daemon('stop_timeout = "0s"\ncommit_interval = "10s"\n')
    with d.conn() as c:
        for i in range(200):
            assert c.update(f"k{i}", 3_600_000).status == S.STATUS_CREATED
    assert d.stop() == 0
    d.start()
    with d.conn() as c:
        assert c.queue_info("default").armed == 200


def test_sync_replies_are_counted_by_what_they_say(wqd, conn):
    conn.update("k", 3_600_000, durability=S.DURABILITY_SYNC)
    conn.update("k", 3_700_000, durability=S.DURABILITY_SYNC)
    stat = conn.stat()
    assert (stat["replies_CREATED"], stat["replies_UPDATED_TIMER"]) == (1, 1)
