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


# ---- a dynamic user, with every kind of handler ----

DYNAMIC = ("[Service]\nDynamicUser=yes\nUser=wqd-dynamic\nGroup=wqd-dynamic\n"
           "StateDirectory=\nStateDirectory=wqd-dynamic\n"
           "RuntimeDirectory=\nRuntimeDirectory=wqd-dynamic\nWatchdogSec=5\n")
DYNAMIC_CONF = """
state_dir = "/var/lib/wqd-dynamic"
listen = { "unix:/run/wqd-dynamic/sock" }
handler "where" { command = { "/bin/sh", "-c", "id -u; cat /proc/self/cgroup -" } }
handler "slow" { command = { "/bin/sh", "-c", "echo begun; sleep 3; cat /proc/self/cgroup; exit 9" } }
handler "asks" {
 command = { "WQCTL", "--json", "run", "--wait", "--", "/bin/sh", "-c",
             "id -u; cat /proc/self/cgroup" }
}
queue "asks" { handler = "asks" }
handler "program" { command = { "/usr/local/bin/wq-worker" } worker = yes }
queue "where" { handler = "where" }
queue "slow" { handler = "slow" }
queue "pull" { action = "lease" }
queue "kept" { action = "lease" handler = "program" max_active = 2 }
queue "mem" { durability = "memory" }
"""


@pytest.fixture
def dynamic(machine, drop_in):
    """The service under DynamicUser= and Delegate=; wqctl's arguments for it."""
    drop_in(DYNAMIC)
    machine.write(machine.conf, DYNAMIC_CONF.replace("WQCTL", machine.wqctl))
    shutil.copy(BUILD / "docs" / "examples" / ".libs" / "worker",
                machine.root / "usr/local/bin/wq-worker")
    machine.ctl("restart", "wqd.service")
    yield ("--server", "unix:/run/wqd-dynamic/sock")
    machine.ctl("stop", "wqd.service", check=None)


def own_group(output):
    return re.search(r"0::\S+/pool-\d+/run-\d+$", output, re.M)


def test_every_kind_of_handler_runs_as_a_dynamic_user(machine, dynamic):
    uid = machine.run("stat", "-L", "-c", "%u", "/var/lib/wqd-dynamic").stdout.strip()
    assert 61184 <= int(uid) <= 65519
    # A handler.
    wqctl(machine, *dynamic, "update", "where/x", "0", "--payload", "given")
    run = ask(machine, *dynamic, "wait", "where/x")
    assert run["outcome"] == "done" and run["output"].startswith(uid + "\n"), run
    assert own_group(run["output"].replace("given", "")) and run["output"].endswith("given"), run
    # A command: root may give none, the daemon's own user may, here from inside a run.
    command = ["run", "--wait", "--", "/bin/sh", "-c", "id -u; cat /proc/self/cgroup"]
    wqctl(machine, *dynamic, *command, check=5)
    wqctl(machine, *dynamic, "update", "asks/x", "0")
    run = json.loads(ask(machine, *dynamic, "wait", "asks/x")["output"].splitlines()[-1])
    assert run["output"].startswith(uid + "\n") and own_group(run["output"]), run
    # A worker program.
    wqctl(machine, *dynamic, "update", "kept/x", "0", "--payload", "shout")
    assert ask(machine, *dynamic, "wait", "kept/x")["output"] == "SHOUT"
    assert ask(machine, *dynamic, "stat")["worker_programs"] > 0
    # A worker that pulls.
    machine.run("systemd-run", "--quiet", "--unit=puller", machine.wqctl, *dynamic, "work", "pull",
                "--", "/bin/cat", check=0)
    wqctl(machine, *dynamic, "update", "pull/x", "0", "--payload", "pulled")
    assert ask(machine, *dynamic, "wait", "pull/x")["output"] == "pulled"
    machine.ctl("stop", "puller.service")
    machine.ctl("stop", "wqd.service")
    assert machine.show("wqd.service", "Result") == "success"


# ---- upgrade ----

def sbin(machine):
    return nspawn.configured(BUILD, "sbindir") + "/wqd"


@pytest.fixture
def program(machine):
    """The installed program's path in the machine; what was there is put back."""
    path = machine.root / sbin(machine).lstrip("/")
    kept = path.with_name("wqd.kept")
    shutil.copy(path, kept)
    yield path
    kept.rename(path)


def replace(path, source=None, text=None):
    new = path.with_name("wqd.new")
    if text is None:
        shutil.copy(source, new)
    else:
        new.write_text(text)
        new.chmod(0o755)
    new.rename(path)


def test_an_upgrade_under_the_service_manager(machine, dynamic, program):
    pid = main_pid(machine)
    kept = program.with_name("wqd.kept")
    wqctl(machine, *dynamic, "update", "mem/x", "1h")
    wqctl(machine, *dynamic, "update", "slow/x", "0")
    wqctl(machine, *dynamic, "update", "kept/x", "0", "--payload", "one")
    assert ask(machine, *dynamic, "wait", "kept/x")["output"] == "ONE"
    machine.run("systemd-run", "--quiet", "--unit=waiter", "--property=RemainAfterExit=yes",
                machine.wqctl, *dynamic, "wait", "slow/x", check=0)
    # Another file, as a package brings it.
    replace(program, source=kept)
    assert "deleted" in machine.run("ls", "-l", f"/proc/{pid}/exe").stdout
    assert wqctl(machine, *dynamic, "upgrade", "--check").stdout.strip()
    wqctl(machine, *dynamic, "upgrade")
    assert "deleted" not in machine.run("ls", "-l", f"/proc/{pid}/exe").stdout
    assert main_pid(machine) == pid
    until(lambda: machine.show("wqd.service", "ActiveState") == "active", what="its readiness")
    assert machine.show("wqd.service", "StatusText") == "ready"
    assert ask(machine, *dynamic, "get", "mem/x")["state"] == "armed"
    # The run that went on keeps its group and its status; who waited for it is answered.
    run = ask(machine, *dynamic, "wait", "slow/x", check=6)
    assert (run["outcome"], run["exit_code"], run["attempt"]) == ("failed", 9, 1), run
    assert run["output"].startswith("begun\n") and own_group(run["output"]), run
    until(lambda: machine.show("waiter.service", "ExecMainStatus") == "6", what="who waited")
    machine.ctl("stop", "waiter.service", check=None)
    machine.ctl("reset-failed", "waiter.service", check=None)
    wqctl(machine, *dynamic, "update", "kept/x", "0", "--payload", "two")
    until(lambda: ask(machine, *dynamic, "get", "kept/x")["last"]["output"] == "TWO",
          what="the worker program")
    # A program that can't take over.
    replace(program, text="#!/bin/sh\necho not today >&2\nexit 1\n")
    done = wqctl(machine, *dynamic, "upgrade", check=1)
    assert "not today" in done.stderr
    assert main_pid(machine) == pid
    replace(program, source=kept)
    for _ in range(3):
        wqctl(machine, *dynamic, "upgrade")
    # The watchdog goes on: more than its time passes.
    machine.run("sleep", "7", check=0)
    assert (main_pid(machine), machine.show("wqd.service", "NRestarts")) == (pid, "0")
    # Runs of after it have groups as well, and nothing is left of any.
    wqctl(machine, *dynamic, "update", "where/x", "0")
    assert own_group(ask(machine, *dynamic, "wait", "where/x")["output"])
    until(lambda: not runs_left(machine), what="no group to be left")
    machine.ctl("reload", "wqd.service")
    wqctl(machine, *dynamic, "ping")
    machine.ctl("stop", "wqd.service")
    assert machine.show("wqd.service", "Result") == "success"


def test_an_upgrade_keeps_the_sockets_of_activation(machine, program):
    machine.ctl("start", "wqd.socket")
    wqctl(machine, "update", "note/up", "2s", "--payload", "over the upgrade")
    pid = main_pid(machine)
    replace(program, source=program.with_name("wqd.kept"))
    wqctl(machine, "upgrade")
    assert main_pid(machine) == pid
    assert ask(machine, "wait", "note/up")["outcome"] == "done"
    assert fired(machine, "over the upgrade") == 1
    machine.ctl("stop", "wqd.service")
    assert machine.run("test", "-S", "/run/wqd/wqd.sock").returncode == 0
    wqctl(machine, "ping")


@pytest.mark.skipif("#define FAULT_INJECTION" not in (BUILD / "config.h").read_text(),
                    reason="a build without --enable-fault-injection")
def test_a_loop_that_stands_still_is_killed_and_started_again(machine, drop_in):
    drop_in("[Service]\nWatchdogSec=2\nEnvironment=WQD_STUCK=/run/wqd/stuck\n")
    machine.ctl("start", "wqd.service")
    wqctl(machine, "update", "note/stuck", "3s", "--payload", "after the watchdog", "--durability",
          "sync")
    pid = main_pid(machine)
    machine.run("touch", "/run/wqd/stuck", check=0)
    # It is woken up by this, and never comes back.
    machine.run("timeout", "1", machine.wqctl, "ping")
    until(lambda: machine.show("wqd.service", "NRestarts") != "0" or
          machine.show("wqd.service", "ActiveState") != "active", what="the watchdog")
    machine.run("rm", "/run/wqd/stuck", check=0)
    until(lambda: main_pid(machine) not in ("0", pid) and
          machine.show("wqd.service", "ActiveState") == "active", what="the service to come back")
    assert "watchdog" in machine.journal().lower()
    assert ask(machine, "wait", "note/stuck")["outcome"] == "done"
    assert fired(machine, "after the watchdog") == 1
