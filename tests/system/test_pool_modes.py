"""Failure modes of pools, one by one, with real processes.

Those that are tests elsewhere: stopped runs, hogs before short jobs, no look while idle, a flood of
priority (test_pools.py); descendants that outlive a run (test_cases_exe.py, test_boot.py); restart with
live workers (test_crew.py, test_workers.py); no processes, no memory, E2BIG, ETXTBSY (test_exec.c).
What is asked is who starts, how many, and that all comes to its end; not how fast.
"""
import os
import subprocess

import pytest

from conftest import handler, queue, until
from wire import pb

CPUS = len(os.sched_getaffinity(0))
TARGET = 5 * CPUS  # runs that may want a processor at once
# 20 ms and more of processor time.
BURN = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"


def sh(name, script, **opts):
    return handler(name, "/bin/sh", "-c", script, **opts) + queue(name, handler=name, max_active=200)


def fill(c, name, n, first=0):
    for rid in c.send_many([c.request(update=pb.Update(queue=name, key=b"%03d" % i, delay_ms=0))
                            for i in range(first, first + n)]):
        c.reply(rid)


def all_done(c, n, timeout=120):
    """The most that went on at once."""
    most = 0

    def over():
        nonlocal most
        got = c.stat()
        most = max(most, got["pool_active"])
        return got["runs_done"] == n
    until(over, timeout=timeout, what=f"{n} runs to end")
    got = c.stat()
    assert (got["pool_active"], got["running"], got["runner_active"]) == (0, 0, 0), got
    assert got["runs_failed"] == 0
    return most


@pytest.fixture
def hogs():
    """Others' processes that want the processors too."""
    procs = [subprocess.Popen(["/bin/sh", "-c", "while :; do :; done"]) for _ in range(CPUS)]
    yield procs
    for p in procs:
        p.kill()
        p.wait()


def test_foreign_hogs_neither_stop_the_pool_nor_open_it(make_daemon, hogs):
    d = make_daemon(sh("burn", BURN))
    with d.conn() as c:
        fill(c, "burn", 6 * CPUS + 20)
        # Their share is less than the processors: that alone must not let more in.
        assert all_done(c, 6 * CPUS + 20) <= TARGET + 1


def test_a_session_of_its_own_for_each_run(make_daemon):
    d = make_daemon(handler("s", "/usr/bin/setsid", "-w", "/bin/sh", "-c", BURN)
                    + queue("s", handler="s", max_active=200))
    with d.conn() as c:
        fill(c, "s", 40)
        all_done(c, 40)


def test_a_herd_that_sleeps_first_and_burns_then(make_daemon):
    d = make_daemon(sh("trap", "sleep 0.1; " + BURN))
    with d.conn() as c:
        fill(c, "trap", 30)
        all_done(c, 30)


def test_a_serial_resource_piles_up_no_more_than_max_active(make_daemon, tmp):
    lock = tmp / "lock"
    d = make_daemon(sh("serial", f"exec flock {lock} sleep 0.03"))
    with d.conn() as c:
        d.json("queue", "set", "serial", "max_active=3")
        fill(c, "serial", 40)
        assert all_done(c, 40) <= 3


def test_pipelines_are_seen_as_what_they_do(make_daemon):
    d = make_daemon(sh("pipe", f"({BURN}; {BURN}; {BURN}) | cat | cat"))
    with d.conn() as c:
        fill(c, "pipe", 30)
        # Each is blocked itself, while what it started burns.
        assert all_done(c, 30) <= 2 * TARGET


def test_a_thousand_short_runs(make_daemon):
    d = make_daemon("max_runs = 250\n" + handler("t", "/bin/true")
                    + queue("t", handler="t", max_active=200, retention_count=2000))
    n = int(os.environ.get("WQ_SHORT_RUNS", "300"))
    with d.conn() as c:
        fill(c, "t", n)
        all_done(c, n)


def test_a_younger_run_that_holds_what_an_older_one_needs(make_daemon, tmp):
    """The lock's holder is behind burning older runs, one of which waits for it."""
    lock, taken = tmp / "lock", tmp / "taken"
    d = make_daemon(
        sh("old", f"while [ ! -e {taken} ]; do :; done; flock {lock} true")
        + sh("young", f"exec 9> {lock}; flock 9; : > {taken}; {BURN}; {BURN}"))
    with d.conn() as c:
        fill(c, "old", CPUS)
        until(lambda: c.queue_info("old").running == CPUS)
        fill(c, "young", 1)
        all_done(c, CPUS + 1)


def test_out_of_descriptors_the_jobs_stay_ready(make_daemon):
    d = make_daemon(sh("nap", "sleep 0.2"))
    with d.conn() as c:
        c.stat()
        hard = d.fds() + 2
        subprocess.run(["prlimit", "--pid", str(d.pid), f"--nofile={hard}:4096"], check=True)
        fill(c, "nap", 20)
        until(lambda: c.stat()["start_retries"] > 0, what="a start to be put off")
        assert c.stat()["runs_failed"] == 0
        subprocess.run(["prlimit", "--pid", str(d.pid), "--nofile=4096:4096"], check=True)
        all_done(c, 20)


def test_fewer_processors_while_it_runs(make_daemon):
    if CPUS < 2:
        pytest.skip("there is one")
    d = make_daemon(sh("burn", BURN))
    with d.conn() as c:
        fill(c, "burn", 20)
        all_done(c, 20)
        assert c.stat()["pool_processors"] == CPUS
        first = min(os.sched_getaffinity(0))
        subprocess.run(["taskset", "-apc", str(first), str(d.pid)], check=True,
                       stdout=subprocess.DEVNULL)
        done = 20

        def fewer():
            nonlocal done
            fill(c, "burn", 10, done)
            done += 10
            all_done(c, done)
            return c.stat()["pool_processors"] == 1
        until(fewer, timeout=60, what="the pool to fill one processor")


def test_a_daemon_that_gets_little_time_itself(make_daemon, hogs):
    d = make_daemon(sh("burn", BURN))
    with d.conn() as c:
        for pid in os.listdir(f"/proc/{d.pid}/task"):
            os.setpriority(os.PRIO_PROCESS, int(pid), 19)
        fill(c, "burn", 20)
        all_done(c, 20)
