"""What goes wrong below a running daemon: a slow, full or vanished disk, a log nobody reads."""
import os
import pathlib
import shutil
import sqlite3
import subprocess
import time

import pytest
import wire
from conftest import SANITIZED, handler, queue, until
from test_cases_sto import small_disk  # noqa: F401
from wire import S, word


@pytest.fixture
def slow_disk(make_daemon, tmp):
    """A daemon whose syncs take as long as slow(ms) says."""
    if not shutil.which("cc"):
        pytest.skip("a slow disk takes a C compiler")
    source = pathlib.Path(__file__).parent / "slowdisk.c"
    lib = tmp / "slowdisk.so"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", lib, source, "-ldl"], check=True)
    knob = tmp / "ms"

    if SANITIZED:
        pytest.skip("a sanitizer wants to be first")

    def slow(ms):
        part = tmp / "ms.new"
        part.write_text(str(ms))
        part.rename(knob)

    def make(conf="", **env):
        d = make_daemon(conf, start=False,
                        env=dict(LD_PRELOAD=str(lib), WQ_SLOW_FILE=str(knob), **env))
        return d, slow
    return make


def test_a_slow_disk_holds_up_sync_alone(slow_disk):
    d, slow = slow_disk(WATCHDOG_USEC="1000000")
    d.start()
    with d.conn() as c, d.conn() as s:
        c.update("old", 3_600_000, durability=S.DURABILITY_SYNC)
        slow(2000)
        rounds = {"memory": [], "async": [], "look": []}
        started = time.monotonic()
        waiting = []
        for i in range(60):
            waiting.append((time.monotonic(), s.send(update=wire.update(
                f"sync-{i}", delay_ms=3_600_000, durability=S.DURABILITY_SYNC))))
            for name, level in (("memory", S.DURABILITY_MEMORY), ("async", S.DURABILITY_ASYNC)):
                at = time.monotonic()
                assert word(c.update(f"{name}-{i}", 3_600_000, durability=level).status) == "CREATED"
                rounds[name].append(time.monotonic() - at)
            at = time.monotonic()
            assert c.get("old").pending
            rounds["look"].append(time.monotonic() - at)
            time.sleep(0.1)
            if i == 20:
                trouble = d.json("ping")["trouble"]
                assert "slow" in trouble or time.monotonic() - started < 4, trouble
        # A stall is 2 s: who does not wait for the disk is far below one, whatever the machine.
        for name, took in rounds.items():
            assert sorted(took)[len(took) // 2] < 0.2 and max(took) < 1.5, (name, max(took))
        slow(0)
        for at, rid in waiting:
            assert word(s.reply(rid).status) == "CREATED"
        st = c.stat()
        assert st["commits_failed"] == 0 and st["degraded"] == 0 and st["commit_max_us"] > 1_900_000
        assert d.json("ping")["trouble"] == ""
    d.notify.poll()
    beats = [at for at, line in d.notify.seen if line == "WATCHDOG=1" and at > started]
    assert len(beats) >= 6 and max(b - a for a, b in zip(beats, beats[1:])) < 1.0
    d.kill9()
    d.start()
    with d.conn() as c:
        for i in range(60):
            assert c.get(f"sync-{i}").pending and c.get(f"async-{i}").pending
            assert c.get(f"memory-{i}") is None


def test_a_full_disk_is_told_with_its_reason_and_heals(small_disk):  # noqa: F811
    d, disk = small_disk("8m")
    d.start()
    with d.conn() as c:
        c.update("k", 3_600_000, durability=S.DURABILITY_SYNC)
        assert d.json("ping")["trouble"] == "" and "degraded:" not in d.ctl("ping").stdout
        disk.fill()
        # A group that was refused may still go in, with what was set aside: then the next is.
        def told(*args):
            for i in range(4):
                c.update(f"big-{time.monotonic_ns()}", 3_600_000, payload=b"x" * 900_000)
            return d.ctl(*args).stdout
        until(lambda: "No space left" in told("--json", "ping"))
        for verb in ("ping", "stat"):
            until(lambda: "degraded: commits fail (No space left on device)" in told(verb))
        until(lambda: "The daemon is degraded: commits fail (No space left" in told("why", "k"))
        until(lambda: '"reason":"degraded"' in told("--json", "why", "k"))
        disk.free()
        until(lambda: d.json("ping")["trouble"] == "")
        assert d.json("why", "k")["reasons"][0]["reason"] == "armed"
        assert c.get("k").pending


def test_a_disk_that_the_log_has_filled_heals_when_it_grows(small_disk):  # noqa: F811
    d, disk = small_disk("2m")
    d.start()
    acked, refused = [], 0
    with d.conn() as c:
        for i in range(4000):
            r = c.update(f"k{i}", 3_600_000, payload=b"p" * 3000, durability=S.DURABILITY_SYNC)
            if word(r.status) == "CREATED":
                acked.append(f"k{i}")
            else:
                refused += 1
                if refused > 5:
                    break
        assert refused > 5 and len(acked) > 50
        subprocess.run(["nsenter", f"--mount=/proc/{disk.holder.pid}/ns/mnt", "--", "mount", "-o",
                        "remount,size=16m", str(d.state)], check=True)
        until(lambda: c.stat()["degraded"] == 0)
        assert word(c.update("after", 3_600_000, durability=S.DURABILITY_SYNC).status) == "CREATED"
    d.kill9()
    d.start()
    with d.conn() as c:
        for name in [*acked, "after"]:
            assert c.get(name).pending, name


@pytest.mark.parametrize("how", ["removed", "replaced", "file"])
def test_a_state_directory_that_goes_is_noticed(make_daemon, how):
    d = make_daemon()
    aside = d.root / "aside"
    with d.conn() as c:
        assert word(c.update("k", 3_600_000, durability=S.DURABILITY_SYNC).status) == "CREATED"
        if how == "removed":
            shutil.rmtree(d.state)
        elif how == "replaced":
            d.state.rename(aside)
            d.state.mkdir(mode=0o700)
        else:
            (d.state / "wqd.db").rename(aside)
        r = c.update("lost", 3_600_000, durability=S.DURABILITY_SYNC)
        assert word(r.status) == "STORAGE_ERROR"
        assert "removed or replaced" in d.json("ping")["trouble"]
        assert "removed or replaced" in d.text()
        assert c.get("k").pending
        if how == "removed":
            # What is in memory can still be brought to safety.
            assert '"key":"k"' in d.ctl("export", check=0).stdout
            d.expect_exit = (0, 1)
            d.stop()
            d.state.mkdir(mode=0o700, exist_ok=True)
            return
        if how == "replaced":
            d.state.rmdir()
            aside.rename(d.state)
        else:
            aside.rename(d.state / "wqd.db")
        until(lambda: d.json("ping")["trouble"] == "")
        assert word(c.update("k", 3_600_000, durability=S.DURABILITY_SYNC).status) == "UPDATED_TIMER"
    d.restart()
    with d.conn() as c:
        assert c.get("k").pending and c.get("lost").pending


def test_a_log_that_nobody_reads_stalls_nothing(make_daemon):
    d = make_daemon('log_level = "debug"\n' + handler("no", "false") +
                    queue("q", handler="no"), start=False)
    r, w = os.pipe()
    real, d.log = d.log, os.fdopen(w, "wb", buffering=0)
    d.start()
    with d.conn() as c:
        for i in range(2500):
            assert word(c.update(f"k{i}", 0, "q").status) == "CREATED"
        until(lambda: c.stat()["runs_failed"] == 2500)
        assert c.stat()["log_lines_lost"] > 0
        os.set_blocking(r, False)
        try:
            while os.read(r, 65536):
                pass
        except BlockingIOError:
            pass
        c.update("more", 0, "q")
        until(lambda: c.get("more", "q").last.generation == 1)
        time.sleep(0.2)
        assert b"event=log_lines_lost lines=" in os.read(r, 65536)
    d.stop()
    os.close(r)
    d.log.close()
    d.log = real


def test_a_pipe_in_place_of_the_configuration_holds_up_nothing(make_daemon):
    d = make_daemon()
    d.conf_path.rename(d.root / "real.conf")
    os.mkfifo(d.conf_path)
    at = time.monotonic()
    done = d.ctl("reload", check=1)
    assert time.monotonic() - at < 20 and "not ours" in done.stderr
    with d.conn() as c:
        assert word(c.update("k", 3_600_000).status) == "CREATED"
    d.conf_path.unlink()
    (d.root / "real.conf").rename(d.conf_path)
    d.ctl("reload", check=0)


def test_a_reader_from_outside_or_a_stalled_list_holds_up_no_log(make_daemon):
    d = make_daemon("output_max = 64k\n")
    with d.conn() as c, d.conn() as stalled:
        for i in range(0, 4000, 1000):
            c.call(update_batch=wire.pb.UpdateBatch(updates=[
                wire.update(f"k{i + k}", delay_ms=3_600_000, payload=b"x" * 100,
                            payload_mode=S.PAYLOAD_MODE_REPLACE) for k in range(1000)]))
        for _ in range(50):
            stalled.send(list=wire.pb.List(limit=1000))  # and reads nothing
        # The database is the daemon's alone: who opens it gets an error, not a place in its log.
        out = sqlite3.connect(d.state / "wqd.db", timeout=0.1)
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            out.execute("SELECT count(*) FROM queue").fetchone()
        for i in range(50):
            c.call(update_batch=wire.pb.UpdateBatch(updates=[
                wire.update(f"k{k}", delay_ms=3_600_000 + i, payload=bytes([i + 33]) * 1000,
                            payload_mode=S.PAYLOAD_MODE_REPLACE) for k in range(1000)]))
            c.update("sync", 3_600_000, durability=S.DURABILITY_SYNC)
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            out.execute("SELECT count(*) FROM queue").fetchone()
        out.close()
        st = c.stat()
        assert st["store_bytes_written"] > 40_000_000
        until(lambda: (c.update("sync", 3_600_000, durability=S.DURABILITY_SYNC),
                       c.stat()["store_wal_bytes"])[1] <= 8 << 20, 60, what="a short log")


def test_rst_04_numbers_and_names_that_come_back_confuse_nobody(make_daemon, tmp):
    """In a namespace of its own the daemon and its runs have the same small numbers each time, and
    the host its name."""
    if os.getuid() != 0 or subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "true"],
                                          check=False, capture_output=True).returncode != 0:
        pytest.skip("a pid namespace takes root")
    pids = tmp / "pids"
    d = make_daemon(handler("h", "sh", "-c", f"echo $WQ_KEY $$ >> {pids}; exec sleep 60") +
                    queue("q", handler="h", max_interrupts=50), start=False,
                    wrapper=["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"])
    d.start()
    with d.conn() as c:
        c.update("one", 0, "q", durability=S.DURABILITY_SYNC)
        until(lambda: pids.exists() and len(pids.read_text().splitlines()) == 1)
        until(lambda: c.get("one", "q").state == S.JOB_STATE_RUNNING)
        time.sleep(0.3)
    for n in range(2, 5):
        d.kill9()  # with the namespace all of its processes go
        d.start()
        with d.conn() as c:
            until(lambda: len(pids.read_text().splitlines()) == n)
            # The number of the run before is taken again, by a run that lives.
            job = c.get("one", "q")
            assert job.state == S.JOB_STATE_RUNNING and job.generation == 1 and job.attempt == n
            time.sleep(0.3)
            assert c.get("one", "q").state == S.JOB_STATE_RUNNING
            assert c.stat()["running"] == 1
    numbers = [int(line.split()[1]) for line in pids.read_text().splitlines()]
    assert len(set(numbers)) < len(numbers), ("no number came back", numbers)
    with d.conn() as c:
        c.cancel("one", "q", mode=S.CANCEL_MODE_KILL)
    # unshare does not pass signals on.
    d.ctl("shutdown", check=0)
    d.proc.wait(60)
