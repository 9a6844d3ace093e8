"""The installed daemon under a real systemd: its units from start to stop.

One machine for the file; the tests leave the service stopped and a usable configuration.
"""
import json
import re
import shutil
import tempfile

import nspawn
import pytest
from conftest import BUILD, SANITIZED, WQCTL, WQD, until

CONF = """
handler "note" { command = { "/bin/sh", "-c", "cat >>/var/lib/wqd/fired; echo >>/var/lib/wqd/fired" } }
handler "env" { command = { "/usr/bin/env" } }
queue "note" { handler = "note" }
queue "env" { handler = "env" }
"""


@pytest.fixture(scope="module")
def booted():
    if not WQD.exists() or not WQCTL.exists():
        pytest.skip("wqd or wqctl is not built")
    if SANITIZED:
        pytest.skip("a sanitizer build: its run-time libraries are not for a machine's boot")
    where = tempfile.mkdtemp(prefix="wqd-boot-", dir="/var/tmp")
    try:
        try:
            root = nspawn.copy_root(f"{where}/root")
            nspawn.install(BUILD, root)
            machine = nspawn.Machine(root, f"{where}/log")
            machine.conf = nspawn.configured(BUILD, "sysconfdir") + "/wqd/wqd.conf"
            machine.wqctl = nspawn.configured(BUILD, "bindir") + "/wqctl"
            machine.boot()
            # As a package does when it is installed.
            machine.run("systemd-sysusers", check=0)
            machine.run("systemd-tmpfiles", "--create", check=0)
        except nspawn.Missing as e:
            pytest.skip(str(e))
        yield machine
        machine.stop()
    finally:
        shutil.rmtree(where, ignore_errors=True)


@pytest.fixture
def machine(booted):
    booted.write(booted.conf, CONF)
    yield booted
    booted.ctl("stop", "wqd.socket", "wqd.service", check=None)
    booted.ctl("reset-failed", "wqd.service", check=None)


def wqctl(machine, *args, check=0):
    return machine.run(machine.wqctl, *args, check=check)


def ask(machine, *args, check=0):
    return json.loads(wqctl(machine, "--json", *args, check=check).stdout)


def fired(machine, text):
    return machine.read("/var/lib/wqd/fired").splitlines().count(text)


def main_pid(machine):
    return machine.show("wqd.service", "MainPID")


def test_starts_as_its_own_user(machine):
    machine.ctl("start", "wqd.service")
    assert machine.show("wqd.service", "ActiveState") == "active"
    wqctl(machine, "ping")
    who = machine.run("ps", "-o", "user=", "-p", main_pid(machine)).stdout
    assert who.strip() == "wqd"
    assert machine.run("stat", "-c", "%U %a", "/var/lib/wqd").stdout == "wqd 700\n"
    assert machine.run("stat", "-c", "%U:%G %a", "/run/wqd/wqd.sock").stdout == "wqd:wqd 660\n"


def test_a_job_outlives_a_restart_and_fires_once(machine):
    machine.ctl("start", "wqd.service")
    wqctl(machine, "update", "note/one", "2s", "--payload", "over the restart")
    before = main_pid(machine)
    machine.ctl("restart", "wqd.service")
    assert main_pid(machine) != before
    run = ask(machine, "wait", "note/one")
    assert run["outcome"] == "done"
    assert fired(machine, "over the restart") == 1


def test_a_killed_daemon_comes_back_with_its_jobs(machine):
    machine.ctl("start", "wqd.service")
    wqctl(machine, "update", "note/two", "3s", "--payload", "after the kill", "--durability", "sync")
    before = main_pid(machine)
    machine.run("kill", "-9", before, check=0)
    until(lambda: main_pid(machine) not in ("0", before) and
          machine.show("wqd.service", "ActiveState") == "active", what="the service to come back")
    assert ask(machine, "wait", "note/two")["outcome"] == "done"
    assert fired(machine, "after the kill") == 1


def test_runs_see_nothing_of_the_manager(machine):
    machine.ctl("start", "wqd.service")
    wqctl(machine, "update", "env/x", "0")
    output = ask(machine, "wait", "env/x")["output"]
    names = {line.split("=")[0] for line in output.splitlines()}
    assert "WQ_KEY" in names
    assert not names & {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS",
                        "LISTEN_PID", "JOURNAL_STREAM", "INVOCATION_ID", "STATE_DIRECTORY"}


@pytest.fixture
def drop_in(machine):
    """Writes one for the service, and takes it away."""
    path = "/etc/systemd/system/wqd.service.d/test.conf"

    def write(text):
        machine.write(path, text)
        machine.ctl("daemon-reload")
    yield write
    machine.run("rm", "-f", path)
    machine.ctl("daemon-reload")


WHO = """
handler "who" { command = { "/bin/sh", "-c", "id -un; grep -E 'Cap(Prm|Eff|Amb)' /proc/self/status" } %s }
queue "who" { handler = "who"  max_attempts = 1 }
"""


def who(machine, setting=""):
    machine.write(machine.conf, WHO % setting)
    machine.ctl("restart", "wqd.service")
    wqctl(machine, "update", "who/x", "0")
    return ask(machine, "wait", "who/x", check=None)


def test_a_handler_becomes_another_user_where_the_unit_lets_it(machine, drop_in):
    drop_in("[Service]\nAmbientCapabilities=CAP_SETUID CAP_SETGID CAP_KILL\n"
            "CapabilityBoundingSet=CAP_SETUID CAP_SETGID CAP_KILL\nSystemCallFilter=@setuid\n")
    for setting, name in (('user = "nobody"', "nobody"), ("", "wqd")):
        run = who(machine, setting)
        assert run["outcome"] == "done", run
        lines = run["output"].splitlines()
        assert lines[0] == name
        assert len(lines) == 4 and all(int(line.split()[1], 16) == 0 for line in lines[1:]), lines


def test_a_handler_stays_who_it_is_where_the_unit_does_not(machine):
    run = who(machine, 'user = "nobody"')
    assert run["outcome"] in ("failed", "dead") and run["errno"], run


def test_a_dynamic_user_is_enough(machine, drop_in):
    drop_in("[Service]\nDynamicUser=yes\nUser=wqd-dynamic\nGroup=wqd-dynamic\n"
            "StateDirectory=\nStateDirectory=wqd-dynamic\n"
            "RuntimeDirectory=\nRuntimeDirectory=wqd-dynamic\n")
    machine.write(machine.conf, 'state_dir = "/var/lib/wqd-dynamic"\n'
                  'listen = { "unix:/run/wqd-dynamic/sock" }\n' + WHO % "")
    machine.ctl("restart", "wqd.service")
    server = ("--server", "unix:/run/wqd-dynamic/sock")
    wqctl(machine, *server, "update", "who/x", "0")
    # A number from the range for them; the root has no nss-systemd to name it.
    output = ask(machine, *server, "wait", "who/x")["output"]
    assert re.search(r"(?m)^6\d{4}$", output), output
    wqctl(machine, *server, "update", "kept", "1h", "--durability", "sync")
    machine.ctl("restart", "wqd.service")
    assert ask(machine, *server, "get", "kept")["state"] == "armed"


def test_reload_takes_the_new_file_and_refuses_a_broken_one(machine):
    machine.ctl("start", "wqd.service")
    pid = main_pid(machine)
    machine.write(machine.conf, CONF + 'queue "more" { max_active = 3 }\n')
    machine.ctl("reload", "wqd.service")
    until(lambda: machine.run(machine.wqctl, "queue", "show", "more").returncode == 0,
          what="the new queue")
    machine.write(machine.conf, CONF + "nonsense = 1\n")
    machine.ctl("reload", "wqd.service")
    until(lambda: "nonsense" in machine.journal(), what="the error in the journal")
    assert machine.show("wqd.service", "ActiveState") == "active"
    assert main_pid(machine) == pid
    assert ask(machine, "queue", "show", "more")["max_active"] in (3, "3")


def test_stop_is_clean(machine):
    machine.ctl("start", "wqd.service")
    wqctl(machine, "ping")
    machine.ctl("stop", "wqd.service")
    assert machine.show("wqd.service", "Result") == "success"
    assert machine.show("wqd.service", "ExecMainStatus") == "0"
    assert machine.run("ps", "-o", "pid=", "-u", "wqd").stdout == ""


def test_the_first_connection_starts_it(machine):
    machine.ctl("start", "wqd.socket")
    assert machine.run("stat", "-c", "%U:%G %a", "/run/wqd/wqd.sock").stdout == "wqd:wqd 660\n"
    assert machine.show("wqd.service", "ActiveState") == "inactive"
    for _ in range(2):
        wqctl(machine, "update", "note/three", "0", "--payload", "by its socket")
        assert ask(machine, "wait", "note/three")["outcome"] == "done"
        assert machine.show("wqd.service", "ActiveState") == "active"
        machine.ctl("stop", "wqd.service")
        # The socket stays, for the next one.
        assert machine.show("wqd.socket", "ActiveState") == "active"
        assert machine.run("test", "-S", "/run/wqd/wqd.sock").returncode == 0
    assert fired(machine, "by its socket") == 2


def test_a_hopeless_start_is_not_tried_again(machine):
    machine.write(machine.conf, "nonsense = 1\n")
    machine.ctl("start", "wqd.service", check=1)
    assert machine.show("wqd.service", "ActiveState") == "failed"
    assert machine.show("wqd.service", "ExecMainStatus") == "3"
    assert machine.show("wqd.service", "NRestarts") == "0"
    assert f"{machine.conf}:1: unknown option" in machine.journal()


# ---- pools ----

POOLS = """
handler "tree" {
 command = { "/bin/sh", "-c", "setsid sleep 1000 & (setsid setsid sleep 1001 &) ; sleep 0.2" }
 env = { "A=1" }
}
handler "long" { command = { "/bin/sh", "-c", "setsid sleep 1002 & sleep 1003" } grace = "200ms" }
handler "where" { command = { "/bin/sh", "-c", "cat /proc/self/cgroup /proc/self/oom_score_adj" } }
handler "burn" { command = { "/bin/sh", "-c", "sh -c 'while :; do :; done' & sleep 1004" } }
queue "tree" { handler = "tree" }
queue "long" { handler = "long" }
queue "where" { handler = "where" }
queue "burn" { handler = "burn" max_active = 100 }
pool "default" { max_inflight = 50 }
"""


def sleepers(machine, n):
    return machine.run("pgrep", "-f", f"^sleep {n}$").stdout.split()


def runs_left(machine):
    base = "/sys/fs/cgroup" + machine.show("wqd.service", "ControlGroup")
    return machine.run("find", base, "-name", "run-*").stdout.split()


def test_a_run_ends_with_all_that_it_started(machine):
    """cgroup.kill reaches what made itself a session of its own: EXE-01."""
    machine.write(machine.conf, POOLS)
    machine.ctl("start", "wqd.service")
    wqctl(machine, "update", "where/x", "0")
    out = ask(machine, "wait", "where/x")["output"]
    group = re.search(r"0::\S+/pool-\d+/run-\d+$", out, re.M)
    assert group, out
    # Runs go before the daemon when memory runs out: SYS-03.
    own = machine.run("cat", f"/proc/{main_pid(machine)}/oom_score_adj").stdout
    assert int(out.split()[-1]) > int(own)
    wqctl(machine, "update", "tree/x", "0")
    assert ask(machine, "wait", "tree/x")["outcome"] == "done"
    until(lambda: not sleepers(machine, 1000) and not sleepers(machine, 1001), what="the tree's end")
    wqctl(machine, "update", "long/x", "0")
    until(lambda: sleepers(machine, 1002), what="the run's start")
    wqctl(machine, "cancel", "long/x", "--kill")
    until(lambda: not sleepers(machine, 1002) and not sleepers(machine, 1003), what="its end")
    wqctl(machine, "update", "where/y", "0")
    assert ask(machine, "wait", "where/y")["outcome"] == "done"
    until(lambda: len(runs_left(machine)) == 0, what="no group to be left")


def test_a_delegated_pool_sees_what_shells_hide(machine):
    """The main process sleeps; its group's time says that it wants a processor."""
    machine.write(machine.conf, POOLS)
    machine.ctl("start", "wqd.service")
    for i in range(40):
        wqctl(machine, "update", f"burn/{i}", "0")

    def stat():
        return ask(machine, "stat")

    until(lambda: stat()["pool_probe_rank"] == 1, what="the cgroup's time to be used")
    got = stat()
    # Hogs let others in: but one after the other, not all at once.
    assert got["pool_active"] < 40 or got["pool_hogs"] > 0, got
    for i in range(40):
        wqctl(machine, "cancel", f"burn/{i}", "--kill")
    until(lambda: stat()["pool_active"] == 0, what="all to end")
    assert not sleepers(machine, 1004)
