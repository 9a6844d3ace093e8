"""Field cases EXE: running commands."""
import os
import signal
import stat
import time

import pytest
from conftest import handler, queue, until
from wire import S, pb, word


def run(conn, key="k", queue_="q", **kw):
    """Arms it for now and waits for the final result."""
    r = conn.update(key, 0, queue_, **kw)
    assert not word(r.status).startswith(("INVALID", "REFUSED")), r
    return conn.wait(key, queue_).run


def alive(pid):
    try:
        return open(f"/proc/{pid}/stat", encoding="ascii").read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("trap", ["", "trap '' TERM; "])
def test_exe_01_a_timeout_ends_the_whole_group(make_daemon, tmp, trap):
    pids = tmp / "pids"
    script = f"{trap}sleep 300 & echo $! >> {pids}; sleep 300 & echo $! >> {pids}; wait; wait"
    d = make_daemon(handler("h", "sh", "-c", script, timeout="1s", grace="500ms")
                    + queue("q", handler="h", max_active=1))
    with d.conn() as c:
        r = run(c)
        assert r.outcome == S.RUN_OUTCOME_TIMEOUT
        assert r.signal in (signal.SIGTERM, signal.SIGKILL)
        for p in map(int, pids.read_text().split()):
            until(lambda p=p: not alive(p))
        assert c.queue_info("q").running == 0


def test_exe_01_a_grandchild_with_a_session_of_its_own(make_daemon, tmp):
    """Without a cgroup of its own a run's reach is its process group, as wqd(8) says."""
    pids = tmp / "pids"
    d = make_daemon(handler("h", "sh", "-c", f"setsid sleep 300 & echo $! > {pids}; sleep 300",
                            timeout="1s", grace="200ms") + queue("q", handler="h", max_active=1))
    with d.conn() as c:
        assert run(c).outcome == S.RUN_OUTCOME_TIMEOUT
        assert c.queue_info("q").running == 0
    pid = int(pids.read_text())
    if alive(pid):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("keep", [False, True])
def test_exe_02_a_background_child_does_not_hold_up_the_end(make_daemon, tmp, keep):
    pids = tmp / "pids"
    d = make_daemon(handler("h", "sh", "-c", f"sleep 30 & echo $! > {pids}; echo hi",
                            keep_children=keep and "yes" or "no") + queue("q", handler="h"))
    with d.conn() as c:
        r = run(c)
        assert (r.outcome, r.exit_code, r.output) == (S.RUN_OUTCOME_DONE, 0, b"hi\n")
        assert r.ended_ms - r.started_ms < 10_000
        assert c.queue_info("q").running == 0
    pid = int(pids.read_text())
    if keep:
        assert alive(pid), "keep_children leaves it alone"
        os.kill(pid, signal.SIGKILL)
    else:
        until(lambda: not alive(pid))


FAILURES = {
    "kill": (["sh", "-c", "kill -9 $$"], dict(signal=9)),
    "segv": (["sh", "-c", "kill -SEGV $$"], dict(signal=11)),
    "exit255": (["sh", "-c", "exit 255"], dict(exit_code=255)),
    "exit137": (["sh", "-c", "exit 137"], dict(exit_code=137, signal=0)),
    "missing": (["/no/such/file"], dict(error=2)),
    "noexec": (["/etc/passwd"], dict(error=13)),
}


@pytest.mark.parametrize("name", FAILURES)
def test_exe_05_failures_are_told_apart(make_daemon, name):
    command, want = FAILURES[name]
    d = make_daemon(handler("h", *command) + queue("q", handler="h"))
    with d.conn() as c:
        r = run(c)
        assert r.outcome == S.RUN_OUTCOME_FAILED
        for field, value in want.items():
            assert getattr(r, field) == value, (field, r)
        if "exit_code" not in want:
            assert not r.HasField("exit_code")
        assert c.queue_info("q").running == 0


def test_exe_05_missing_directory_and_unknown_user(make_daemon):
    d = make_daemon(handler("dir", "true", directory="/no/such") + queue("dir", handler="dir"))
    with d.conn() as c:
        r = run(c, queue_="dir")
        assert (r.outcome, r.error) == (S.RUN_OUTCOME_FAILED, 2)
        # An unknown user is refused with the file that names it.
        d.write_conf(handler("user", "true", user="nobody-of-that-name"))
        r = c.call(reload=pb.Reload())
        assert word(r.status) == "INVALID" and "nobody-of-that-name" in r.message


def test_exe_05_failures_are_retried_as_configured(make_daemon):
    d = make_daemon(handler("h", "sh", "-c", "kill -9 $$") + queue(
        "q", handler="h", max_attempts=3, retry_delay="50ms", retry_backoff="fixed"))
    with d.conn() as c:
        assert run(c).outcome == S.RUN_OUTCOME_DEAD
        runs = c.history("k", "q")
        assert [r.attempt for r in runs] == [3, 2, 1]
        assert {r.generation for r in runs} == {1}
        assert [r.outcome for r in runs] == [S.RUN_OUTCOME_DEAD, S.RUN_OUTCOME_FAILED,
                                             S.RUN_OUTCOME_FAILED]
        assert c.get("k", "q").dead


def test_exe_07_hundreds_that_end_together_are_all_reaped(make_daemon):
    d = make_daemon("max_runs = 250\n" + handler("h", "true")
                    + queue("q", handler="h", max_active=200, retention_count=10_000))
    with d.conn() as c:
        rounds, n = 4, 250
        for rnd in range(rounds):
            c.call(pause=pb.Queue(queue="q"))
            c.send_many([c.request(update=pb.Update(key=b"%d-%d" % (rnd, i), queue="q", delay_ms=0))
                         for i in range(n)])
            for _ in range(n):
                c.next_reply()
            assert c.queue_info("q").held == n
            c.call(resume=pb.Queue(queue="q"))
            r = c.call(flush_queue=pb.FlushQueue(queue="q"))
            assert r.status == S.STATUS_OK
            assert c.queue_info("q").running == 0
        assert c.stat()["runs_done"] == rounds * n
    zombies = [p for p in os.listdir("/proc") if p.isdigit() and _is_zombie_child(p, d.pid)]
    assert zombies == []


def _is_zombie_child(pid, parent):
    try:
        fields = open(f"/proc/{pid}/stat", encoding="ascii").read().rsplit(")", 1)[1].split()
    except OSError:
        return False
    return fields[0] == "Z" and int(fields[1]) == parent


def test_exe_08_large_output_costs_a_fixed_amount(make_daemon):
    script = "head -c 500000000 /dev/zero; head -c 500000000 /dev/zero >&2"
    d = make_daemon(handler("h", "sh", "-c", script, output_max="64k") + queue("q", handler="h"))
    with d.conn() as c:
        before = d.rss()
        c.update("k", 0, "q")
        most = before

        def over():
            nonlocal most
            most = max(most, d.rss())
            j = c.get("k", "q")
            return j and j.last.generation == 1
        until(over)
        r = c.wait("k", "q").run
        assert (r.outcome, r.exit_code, r.truncated) == (S.RUN_OUTCOME_DONE, 0, True)
        assert len(r.output) == 65536
        assert most - before < 32 << 20


def test_environment_is_exactly_as_documented(make_daemon):
    d = make_daemon(handler("h", "env", "-0")
                    + queue("q", handler="h"), env={"SECRET": "x", "NOTIFY_FOO": "y"})
    with d.conn() as c:
        due = c.update("k", 0, "q", payload=b"p").deadline_ms
        r = c.wait("k", "q").run
        env = dict(e.split("=", 1) for e in r.output.decode().split("\0") if e)
    assert set(env) == {
        "PATH", "HOME", "USER", "LOGNAME", "LANG", "WQ_QUEUE", "WQ_KEY", "WQ_GENERATION",
        "WQ_ATTEMPT", "WQ_COALESCED", "WQ_DEADLINE_MS", "WQ_PARTS", "WQ_RUN_ID", "WQ_RUN_TOKEN",
        "WQ_INSTANCE", "WQ_SERVER"}
    assert (env["WQ_QUEUE"], env["WQ_KEY"], env["WQ_GENERATION"], env["WQ_ATTEMPT"],
            env["WQ_COALESCED"], env["WQ_PARTS"]) == ("q", "k", "1", "1", "0", "1")
    assert env["WQ_SERVER"] == d.address
    assert int(env["WQ_DEADLINE_MS"]) == r.due_ms
    del due


def test_children_get_clean_signals_umask_and_only_three_descriptors(make_daemon):
    script = ("ls /proc/self/fd | wc -l; umask; pwd; "
              "grep -E '^Sig(Blk|Ign):' /proc/self/status; cat")
    d = make_daemon(handler("h", "sh", "-c", script, umask="0027", directory="/usr")
                    + queue("q", handler="h"))
    with d.conn() as c:
        c.update("k", 0, "q", payload=b"the payload")
        out = c.wait("k", "q").run.output.decode().splitlines()
    # 0, 1, 2 and the one that ls opens.
    assert out[0].strip() == "4"
    assert out[1] == "0027" and out[2] == "/usr"
    assert all(int(line.split()[1], 16) == 0 for line in out[3:5]), out
    assert out[5] == "the payload"


def test_appended_payloads_come_whole(make_daemon):
    d = make_daemon(handler("h", "sh", "-c", "echo $WQ_PARTS; cat") + queue("q", handler="h"))
    with d.conn() as c:
        for part in (b"one", b"two", b"three"):
            c.update("k", 200, "q", payload=part, payload_mode=S.PAYLOAD_MODE_APPEND)
        assert c.wait("k", "q").run.output == b"3\none\ntwo\nthree\n"


def test_a_run_re_arms_itself_and_may_not_wait_for_itself(make_daemon):
    from conftest import WQCTL
    script = (f'"{WQCTL}" flush "$WQ_QUEUE/$WQ_KEY"; echo flush=$?; '
              f'[ $WQ_GENERATION = 1 ] && "{WQCTL}" -q update "$WQ_QUEUE/$WQ_KEY" 100ms; true')
    d = make_daemon(handler("h", "sh", "-c", script) + queue("q", handler="h"))
    with d.conn() as c:
        c.update("k", 0, "q")
        until(lambda: len(c.history("k", "q")) == 2)
        assert all(b"flush=1" in r.output for r in c.history("k", "q"))


def test_runs_of_another_user(make_daemon):
    if os.getuid() != 0:
        pytest.skip("changing the user takes root")
    d = make_daemon(handler("h", "sh", "-c", "id -un; id -Gn; echo $HOME", user="nobody")
                    + queue("q", handler="h"))
    with d.conn() as c:
        r = run(c)
        assert r.output.splitlines()[0] == b"nobody"
        assert b"root" not in r.output.splitlines()[1]


def test_a_script_without_permission_leaves_the_slot_free(make_daemon, tmp):
    path = tmp / "h"
    path.write_text("#!/bin/sh\nexit 0\n")
    d = make_daemon(handler("h", str(path)) + queue("q", handler="h", max_active=1))
    with d.conn() as c:
        assert run(c).error == 13
        path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        assert run(c).outcome == S.RUN_OUTCOME_DONE
        time.sleep(0)


def test_a_run_that_fails_is_in_the_log(make_daemon):
    d = make_daemon(handler("h", "sh", "-c", "read x; echo secret; eval \"$x\"") + handler("none", "/nonexistent")
                    + queue("q", handler="h") + queue("none", handler="none"))
    with d.conn() as c:
        run(c, "well", payload=b"exit 0\n", payload_mode=S.PAYLOAD_MODE_REPLACE)
        run(c, 'ba"d', payload=b"exit 7\n", payload_mode=S.PAYLOAD_MODE_REPLACE)
        run(c, "shot", payload=b"kill -9 $$\n", payload_mode=S.PAYLOAD_MODE_REPLACE)
        run(c, "k", "none")
    lines = [line.split("event=run_failed ")[1] for line in d.text().splitlines() if "run_failed" in line]
    assert lines == [
        r'queue="q" key="ba\"d" generation=1 attempt=1 outcome=failed exit=7',
        'queue="q" key="shot" generation=1 attempt=1 outcome=failed signal=9',
        'queue="none" key="k" generation=1 attempt=1 outcome=failed error="No such file or directory"']
    assert "secret" not in d.text()
