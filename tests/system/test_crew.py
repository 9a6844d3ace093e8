"""Worker programs that the daemon keeps: docs/examples/worker.c as the program."""
import os
import re
import signal
import time

import pytest

from conftest import BUILD, SOURCE, WQCTL, handler, queue, until
from wire import pb

WORKER = str(BUILD / "docs" / "examples" / "worker")


def conf(name="q", command=(WORKER,), lease="30s", attempts=3, **opts):
    return (handler("w", *command, worker=True, **opts).replace("True", "yes")
            + queue(name, action="lease", handler="w", max_active=4, lease=lease,
                    max_attempts=attempts, retry_delay="0"))


def programs(c):
    return c.stat()["worker_programs"]


def children(d):
    out = []
    for p in os.listdir("/proc"):
        if p.isdigit():
            try:
                stat = open(f"/proc/{p}/stat", encoding="ascii").read().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(stat[1]) == d.pid and stat[0] != "Z":
                out.append(int(p))
    return out


def result(c, key):
    return until(lambda: (i := c.get(key, "q")) and not i.pending
                 and i.state == pb.JOB_STATE_IDLE and i.last)


def test_a_worker_program_takes_job_after_job(make_daemon):
    d = make_daemon(conf())
    with d.conn() as c:
        until(lambda: c.stat()["workers"] == 1)  # a spare one is there
        pid, = children(d)
        for i in range(20):
            c.update(f"k{i}", 0, queue="q", payload=b"hello %d" % i)
        for i in range(20):
            last = result(c, f"k{i}")
            assert last.output == b"HELLO %d" % i and last.outcome == pb.RUN_OUTCOME_DONE
        assert pid in children(d) and c.stat()["starts"] == 20
        c.update("bad", 0, queue="q", payload=b"fail")
        assert result(c, "bad").outcome == pb.RUN_OUTCOME_DEAD
    assert d.stop() == 0
    assert not d.children_left()


def test_wrk_03_a_job_that_kills_worker_programs_is_dead_and_the_next_ones_pause(make_daemon):
    d = make_daemon(conf(attempts=2))
    with d.conn() as c:
        until(lambda: c.stat()["workers"] == 1)
        c.update("poison", 0, queue="q", payload=b"die")
        c.update("good", 0, queue="q", payload=b"x")
        last = result(c, "poison")
        assert last.outcome == pb.RUN_OUTCOME_DEAD and last.attempt == 2
        assert result(c, "good").outcome == pb.RUN_OUTCOME_DONE
    assert d.text().count("worker_ended") >= 2 and "signal=6" in d.text()


def test_more_when_work_waits_and_fewer_when_it_does_not(make_daemon):
    sleeper = ("/bin/sh", "-c", f"exec {BUILD}/client/wqctl -q work q -- sleep 0.4")
    d = make_daemon(conf(command=sleeper, worker_idle="300ms"))
    with d.conn() as c:
        until(lambda: c.stat()["workers"] == 1)
        for i in range(24):
            c.update(f"k{i}", 0, queue="q")
        until(lambda: programs(c) == 4, what="as many as max_active")
        until(lambda: c.stat()["runs_done"] == 24)
        until(lambda: programs(c) == 1, what="the spare one")
        assert c.stat()["leases_lost"] == 0 and c.stat()["runs_interrupted"] == 0


def test_replaced_after_so_many_jobs(make_daemon):
    d = make_daemon(conf(worker_jobs=3))
    with d.conn() as c:
        until(lambda: c.stat()["workers"] == 1)
        first, = children(d)
        for i in range(9):
            c.update(f"k{i}", 0, queue="q", payload=b"x")
            assert result(c, f"k{i}").outcome == pb.RUN_OUTCOME_DONE
        until(lambda: first not in children(d))
        assert c.stat()["leases_lost"] == 0
        assert "worker_ended" not in d.text()


def test_a_stuck_one_is_ended_and_its_job_goes_to_another(make_daemon, tmp):
    # The first is stopped in the middle of a job: nobody touches its lease.
    d = make_daemon(conf(command=("/bin/sh", "-c",
                                  f"exec {BUILD}/client/wqctl -q work q -- sleep 2"),
                         lease="1s", grace="300ms"))
    with d.conn() as c:
        until(lambda: c.stat()["workers"] == 1)
        c.update("k", 0, queue="q")
        until(lambda: c.stat()["leased"] == 1)
        stuck = int(re.search(r"pid=(\d+)", c.get("k", "q").lease.holder).group(1))
        assert stuck in children(d)
        os.kill(stuck, signal.SIGSTOP)
        last = until(lambda: (i := c.get("k", "q").last) and i.outcome == pb.RUN_OUTCOME_DONE and i)
        assert last.attempt == 2
        until(lambda: stuck not in children(d))


def test_kill9_of_the_daemon_leaves_no_worker(make_daemon):
    d = make_daemon(conf())
    with d.conn() as c:
        until(lambda: c.stat()["workers"] == 1)
        c.update("later", 3_600_000, queue="q", durability=pb.DURABILITY_SYNC)
    old = children(d)
    d.kill9()
    d.start()
    with d.conn() as c:
        until(lambda: c.stat()["workers"] == 1)
        assert not set(old) & set(children(d))
        c.update("k", 0, queue="q", payload=b"x")
        assert result(c, "k").output == b"X"


def test_one_that_can_not_start_is_tried_again_with_pauses(make_daemon):
    d = make_daemon(conf(command=("/nowhere/at/all",)))
    with d.conn() as c:
        c.update("k", 0, queue="q")
        time.sleep(2.5)
        assert c.get("k", "q").state == pb.JOB_STATE_READY
        assert 1 <= d.text().count("worker_not_started") <= 4
        said = [line for line in d.text().splitlines() if "worker_not_started" in line][0]
        assert said.endswith('error="wqd: not started: command /nowhere/at/all: '
                             'No such file or directory"')
        assert "the log of the daemon says" in d.ctl("why", "q/k", check=0).stdout


def test_one_that_writes_without_end_holds_up_nobody(make_daemon):
    flood = ("import fcntl, os\n"
             "fcntl.fcntl(1, 1031, 1 << 20)  # F_SETPIPE_SZ: a read never finds it empty\n"
             "os.fork(), os.fork()\n"
             "while True: os.write(1, b'x' * (1 << 16))\n")
    d = make_daemon(conf(command=("python3", "-c", flood), grace="300ms"))
    with d.conn() as c:
        c.update("k", 0, queue="q")
        until(lambda: programs(c) == 1)
        time.sleep(0.5)
        for _ in range(20):
            assert c.call(ping=pb.Ping()).status == pb.STATUS_OK
    d.write_conf(queue("q"))
    d.ctl("reload", check=0)
    until(lambda: not children(d))


def test_a_handler_of_the_other_kind_is_refused(make_daemon):
    d = make_daemon(conf() + handler("plain", "/bin/true"))
    with d.conn() as c:
        until(lambda: c.stat()["workers"] == 1)
    for args in (("action=exec", "handler=w"), ("action=lease", "handler=plain"), ("handler=w",)):
        error = d.json("queue", "create", "other", *args, check=1)
        assert error["error"] == "INVALID" and "worker = yes" in error["message"], error
    error = d.json("queue", "set", "q", "handler=plain", check=1)
    assert "worker = yes" in error["message"], error
    d.json("queue", "create", "other", "handler=plain")
    # By configuration, and a reload keeps what was.
    d.write_conf(conf() + handler("plain", "/bin/true") + queue("third", handler="w"))
    error = d.json("reload", check=1)
    assert 'queue "third"' in error["message"] and "worker program" in error["message"], error
    assert d.json("queue", "show", "third", check=3)["error"] == "NOT_FOUND"
    # One that is changed under its queue: runs of that fail, with a reason.
    d.write_conf(conf() + handler("plain", "/bin/true", worker=True).replace("True", "yes"))
    d.json("reload")
    with d.conn() as c:
        c.update("k", 0, queue="other")
        last = until(lambda: (i := c.get("k", "other").last).outcome and i)
        assert last.outcome == pb.RUN_OUTCOME_FAILED and last.error != 0


EXAMPLES = SOURCE / "docs" / "examples"


def lines_conf(program, **opts):
    name, how = program
    return conf(command=(str(WQCTL), "-q", "work", "q", "--lines", how, "--",
                         str(EXAMPLES / name)), **opts)


@pytest.mark.parametrize("program", [("worker.py", "json"), ("worker.sh", "fields")])
def test_the_examples_in_other_languages_take_job_after_job(make_daemon, program):
    d = make_daemon(lines_conf(program))
    with d.conn() as c:
        until(lambda: c.stat()["workers"] >= 1)
        for i in range(10):
            c.update(f"k {i}", 0, queue="q", payload=b"a\\b\tc\nd %d" % i)
        for i in range(10):
            last = result(c, f"k {i}")
            assert last.output == b"A\\B\tC\nD %d" % i, last
            assert last.outcome == pb.RUN_OUTCOME_DONE
        c.update("later", 0, queue="q", payload=b"later")
        last = until(lambda: (i := c.get("later", "q").last) and i.final and i)
        assert last.output == b"LATER" and last.attempt == 2
        bad = b"\xff" if program[0] == "worker.py" else b""
        c.update("bad", 0, queue="q", payload=bad)
        assert result(c, "bad").outcome == pb.RUN_OUTCOME_DEAD
        assert c.stat()["leases_lost"] == 0
    assert d.stop() == 0
    assert not d.children_left()


def test_one_that_grows_is_replaced_when_its_job_is_over(make_daemon, tmp):
    """worker_memory: a program that keeps 60 MiB after a job goes; the next job meets a new one."""
    grow = tmp / "grow.py"
    grow.write_text("import sys\nkept = b''\nfor line in sys.stdin:\n    kept += b'x' * (60 << 20)\n"
                    "    print('done', len(kept) >> 20, flush=True)\n")
    d = make_daemon(handler("w", str(WQCTL), "-q", "work", "q", "--lines", "fields", "--",
                            "/usr/bin/python3", str(grow), worker=True,
                            worker_memory="48m").replace("True", "yes")
                    + queue("q", action="lease", handler="w", max_active=1))
    with d.conn() as c:
        until(lambda: c.stat()["workers"] == 1)
        first, = children(d)
        c.update("a", 0, queue="q")
        assert result(c, "a").outcome == pb.RUN_OUTCOME_DONE
        until(lambda: first not in children(d), what="the large one to go")
        c.update("b", 0, queue="q")
        assert result(c, "b").outcome == pb.RUN_OUTCOME_DONE
        assert c.stat()["leases_lost"] == 0 and "worker_ended" not in d.text()


def test_crashes_at_once_make_the_pauses_longer(make_daemon):
    d = make_daemon(conf(command=("/bin/sh", "-c", "echo no luck; exit 3")))
    with d.conn() as c:
        c.update("k", 0, queue="q")
        until(lambda: d.text().count("worker_ended") >= 3, timeout=120)
    said = [line for line in d.text().splitlines() if "worker_ended" in line]
    assert all("exit=3" in line and "no luck" in line for line in said), said
    pauses = [int(line.split("next_in_ms=")[1].split()[0]) for line in said]
    assert pauses[:3] == [1000, 2000, 4000], pauses


def test_workers_that_compute_are_no_more_than_processors(make_daemon):
    """32 jobs that burn: programs come one at a time, and stop coming when nothing is left idle."""
    burn = "t=$(($(date +%s%N) + 400000000)); while [ $(date +%s%N) -lt $t ]; do :; done"
    d = make_daemon(conf(command=("/bin/sh", "-c",
                                  f"exec {WQCTL} -q work q -- sh -c '{burn}'")).replace(
                                      "max_active = 4", "max_active = 32"))
    most = 0
    with d.conn() as c:
        for i in range(32):
            c.update(f"k{i}", 0, queue="q")

        def over():
            nonlocal most
            most = max(most, programs(c))
            return c.stat()["runs_done"] == 32
        until(over, timeout=120)
    assert most <= 3 * os.cpu_count() + 1, most
