"""Commands as jobs: wqctl run, who may, what survives, what is shown."""
import os
import subprocess

from conftest import WQCTL, handler, queue, until
from wire import S, enc, pb


def command(c, key, *words, **kw):
    return c.call(update=pb.Update(key=enc(key), command=[enc(w) for w in words],
                                   **{"delay_ms": 0, **kw}))


def test_run_waits_and_ends_with_the_runs_status(wqd):
    got = wqd.json("run", "--wait", "--", "sh", "-c", "cat; pwd; exit 3", check=6)
    assert (got["outcome"], got["exit_code"], got["output"]) == ("failed", 3, "/\n")
    got = wqd.json("run", "--wait", "--payload", "in\n", "--key", "k", "--", "cat")
    assert (got["outcome"], got["key"], got["output"]) == ("done", "k", "in\n")
    assert wqd.json("run", "--wait", "--", "/nowhere/x", check=6)["errno"] == 2
    out = wqd.ctl("run", "--wait", "--", "echo", "a b", "-n", check=0).stdout
    assert "done, exit 0" in out and "a b -n" in out
    assert wqd.ctl("run", check=2).stderr and wqd.ctl("run", "--", "", check=2).stderr
    wqd.ctl("run", "--in", "1s", "--at", "2030-01-01T00:00:00Z", "--", "true", check=2)
    got = wqd.json("run", "--wait", "--timeout", "100ms", "--in", "1h", "--key", "later", "--", "true", check=7)
    assert got["error"] == "TIMEOUT"
    assert wqd.json("get", "later")["state"] == "armed"


def test_a_command_waits_for_its_time_and_survives(wqd):
    first = wqd.json("run", "--in", "1h", "--key", "k", "--durability", "sync", "--", "echo", "it's", "")
    assert first["outcome"] == "CREATED" and first["deadline_ms"]
    made = wqd.json("run", "--in", "1h", "--durability", "sync", "--", "true")
    assert len(made["key"]) == 32
    wqd.kill9()
    wqd.start()
    assert wqd.json("get", "k")["command"] == ["echo", "it's", ""]
    assert wqd.json("get", made["key"])["command"] == ["true"]
    assert "command     echo 'it'\\''s' ''\n" in wqd.ctl("get", "k").stdout
    assert "default/k  -- echo" in wqd.ctl("list").stdout
    assert "It runs a command of its own: echo" in wqd.ctl("why", "k").stdout
    assert [j.get("command") for j in wqd.json("list", "default/k")["jobs"]] == [["echo", "it's", ""]]
    # An update of its deadline by anybody leaves it alone.
    assert wqd.json("update", "k", "0s")["outcome"] == "UPDATED_TIMER"
    assert wqd.json("wait", "k")["output"] == "it's \n"
    assert "command" not in wqd.json("get", "k")


def test_it_runs_as_the_handler_of_its_queue_would(make_daemon):
    d = make_daemon(handler("h", "/bin/false", directory="/tmp", env="X=1", timeout="200ms", grace="100ms") +
                    queue("q", handler="h", max_attempts=2, retry_delay="10ms"))
    got = d.json("run", "--queue", "q", "--wait", "--", "sh", "-c", "pwd; echo $X $WQ_ATTEMPT; exec sleep 60",
                 check=6)
    assert (got["outcome"], got["attempt"], got["output"]) == ("dead", 2, "/tmp\n1 2\n")
    with d.conn() as c:
        # An update with a payload is for the handler again.
        command(c, "k", "sleep", "60", queue="q", delay_ms=3_600_000)
        assert c.call(get=pb.Job(key=b"k", queue="q")).jobs[0].has_command
        r = c.call(update=pb.Update(key=b"k", queue="q", delay_ms=3_600_000, payload=b"x",
                                    payload_mode=pb.PAYLOAD_MODE_APPEND))
        assert r.status == S.STATUS_INVALID
        c.call(update=pb.Update(key=b"k", queue="q", delay_ms=3_600_000, payload=b"x",
                                payload_mode=pb.PAYLOAD_MODE_REPLACE))
        assert not c.call(get=pb.Job(key=b"k", queue="q")).jobs[0].has_command


def test_bad_commands_are_refused(conn):
    for words in (["", "x"], ["a\0b"], ["x"] * 1025, ["x" * (128 << 10)], ["x" * 70000, "y" * 70000]):
        assert command(conn, "k", *words).status == S.STATUS_INVALID
    assert conn.call(get=pb.Job(key=b"k")).status == S.STATUS_NOT_FOUND
    longest = ["true"] + ["y" * 127] * 1023
    assert command(conn, "k", *longest, delay_ms=3_600_000).status == S.STATUS_CREATED
    assert len(conn.call(get=pb.Job(key=b"k")).jobs[0].command) == 1024
    # A list that is too long for them leaves them out, and says so.
    for i in range(40):
        command(conn, f"l{i}", *longest, delay_ms=3_600_000)
    jobs = conn.call(list=pb.List(limit=1000)).jobs
    assert len(jobs) == 41 and all(j.has_command for j in jobs)
    assert 0 < sum(bool(j.command) for j in jobs) < 41


def test_who_may_not(make_daemon):
    d = make_daemon('socket_mode = "0666"\n')
    batch = pb.UpdateBatch(updates=[pb.Update(key=b"a", delay_ms=0, command=[b"true"]),
                                    pb.Update(key=b"b", delay_ms=0)])
    with d.conn() as c:
        assert [r.status for r in c.call(update_batch=batch).results] == [S.STATUS_CREATED] * 2
    if os.geteuid() == 0:
        done = d.ctl_as(65534, "run", "--", "true")
        assert done.returncode == 5 and "for the daemon's own user" in done.stderr, done
    d.write_conf('socket_mode = "0666"\nallow_command = "nobody"\n')
    d.ctl("reload", check=0)
    assert d.json("run", "--", "true", check=5)["error"] == "UNAUTHORIZED"
    with d.conn() as c:
        words = [r.status for r in c.call(update_batch=batch).results]
        assert words[0] == S.STATUS_UNAUTHORIZED and words[1] != S.STATUS_UNAUTHORIZED


def test_not_over_tcp(make_daemon):
    d = make_daemon(listen='{ "tcp://127.0.0.1:0" }')
    done = d.ctl("--server", f"tcp://127.0.0.1:{d.port()}", "run", "--", "true")
    assert done.returncode == 5, done


def test_a_run_that_waits_inside_its_own_full_queue(make_daemon):
    """It can't wait for itself; for another it may, and a time limit ends it with a clear error; looking
    and cancelling work throughout."""
    d = make_daemon(handler("outer", "/bin/sh", "-c",
                            f"{WQCTL} wait q/$WQ_KEY; echo own $?; {WQCTL} drain q; echo drain $?; "
                            f"{WQCTL} run --queue q --key inner --wait --timeout 1s -- true; echo inner $?") +
                    queue("q", handler="outer", max_active=1))
    d.json("update", "q/outer", "0")
    until(lambda: d.json("queue", "show", "q")["held"] + d.json("queue", "show", "q")["ready"] == 1)
    assert d.json("get", "q/inner")["state"] in ("ready", "held")
    assert d.json("why", "q/inner")["reasons"]
    got = d.json("wait", "q/outer")
    assert [line for line in got["output"].splitlines() if line.split()[0] in ("own", "drain", "inner")] == [
        "own 1", "drain 1", "inner 7"]
    assert d.json("wait", "q/inner")["outcome"] == "done"


def test_runs_that_wait_for_one_another_make_progress(make_daemon):
    """Eight runs, each of which waits for a job behind it, fit into a queue's floor of eight."""
    n = 8
    d = make_daemon(queue("q", max_active=n))
    keys = [f"k{i}" for i in range(n)]
    for i in reversed(range(n)):
        inner = ["true"] if i == n - 1 else [str(WQCTL), "--timeout", "50s", "wait", f"q/{keys[i + 1]}"]
        d.json("run", "--queue", "q", "--key", keys[i], "--", *inner)
    assert d.json("wait", "q/k0")["outcome"] == "done"


def test_a_command_goes_over_in_an_export(make_daemon):
    a, b = make_daemon(), make_daemon()
    a.ctl("run", "--in", "1h", "--key", "k", "--payload", "in", "--", "cat", "-n", check=0)
    lines = a.ctl("export", check=0).stdout
    b.ctl("import", "-", input=lines, check=0)
    assert b.json("get", "k")["command"] == ["cat", "-n"]
    b.ctl("kick", "k", check=0)
    assert b.json("wait", "k")["output"] == "     1\tin"
