"""Field cases STO and the state directory: newer, damaged, locked."""
import errno
import hashlib
import os
import shutil
import sqlite3
import subprocess

import pytest
import wire
from conftest import handler, queue, until
from wire import S, word


def digest(path):
    return {f: (hashlib.sha256(open(os.path.join(path, f), "rb").read()).hexdigest())
            for f in sorted(os.listdir(path)) if f != "lock"}


def fails(d, code):
    """Starts, expects the exit status, and gives the one line that says why."""
    before = digest(d.state)
    mark = len(d.text())
    d.start(wait=False)
    assert d.proc.wait(60) == code, d.text()[mark:]
    d.proc = None
    assert digest(d.state) == before, "something was rewritten"
    lines = [line for line in d.text()[mark:].splitlines() if "level=error" in line]
    assert len(lines) == 1, lines
    return lines[0]


def filled(make_daemon, n=300):
    d = make_daemon()
    with d.conn() as c:
        for i in range(n):
            c.update(f"k{i}", 3_600_000, payload=b"x" * 200)
        c.update("last", 3_600_000, durability=S.DURABILITY_SYNC)
    assert d.stop() == 0
    return d


def database(d):
    (name,) = [f for f in os.listdir(d.state) if f.endswith(".db")]
    return d.state / name


def test_sto_05_a_newer_schema_is_refused_untouched(make_daemon):
    d = filled(make_daemon)
    db = sqlite3.connect(database(d))
    db.execute("PRAGMA user_version = 9999")
    db.commit()
    db.close()
    line = fails(d, 6)
    assert "9999" in line and str(d.state) in line
    d.expect_exit = (0, 6)


@pytest.mark.parametrize("how", ["page", "cut", "text", "mode", "empty"])
def test_sto_07_a_damaged_file_is_refused_untouched(make_daemon, how):
    d = filled(make_daemon)
    path = database(d)
    if how == "page":
        size = path.stat().st_size
        with open(path, "r+b") as f:
            f.seek((size // 4096 // 2) * 4096)
            f.write(os.urandom(4096))
    elif how == "cut":
        with open(path, "r+b") as f:
            f.truncate(path.stat().st_size // 2 // 4096 * 4096)
    elif how == "text":
        path.write_text("this is no database\n" * 500)
    elif how == "empty":
        path.write_bytes(b"")
        (d.state / (path.name + "-wal")).write_bytes(b"\x37\x7f\x06\x82" + b"x" * 8000)
    elif how == "mode":
        if os.getuid() == 0:
            pytest.skip("root reads everything")
        path.chmod(0)
    line = fails(d, 5)
    assert str(path) in line and "next=" in line
    d.expect_exit = (0, 5)


def test_sto_07_a_read_only_state_directory(make_daemon, tmp):
    d = filled(make_daemon)
    mount = shutil.which("mount")
    if os.getuid() != 0 or not mount or subprocess.run(
            ["unshare", "-m", "true"], check=False).returncode != 0:
        pytest.skip("a read-only mount takes root and a mount namespace")
    d.wrapper = ["unshare", "-m", "sh", "-c",
                 f'mount --bind {d.state} {d.state} && mount -o remount,bind,ro {d.state} && exec "$@"',
                 "sh"]
    line = fails(d, 5)
    assert str(d.state) in line
    d.wrapper = []
    d.start()
    with d.conn() as c:
        assert c.get("last").state == S.JOB_STATE_ARMED


def test_a_second_daemon_harms_nothing(make_daemon, tmp):
    d = make_daemon()
    with d.conn() as c:
        c.update("k", 3_600_000, durability=S.DURABILITY_SYNC)
        other = make_daemon(start=False)
        other.args = ["--state-dir", str(d.state)]
        other.start(wait=False)
        assert other.proc.wait(30) == 4
        other.proc = None
        assert "in use" in other.text()
        assert word(c.update("k", 3_600_000, durability=S.DURABILITY_SYNC).status) == "UPDATED_TIMER"
    d.restart()
    with d.conn() as c:
        assert c.get("k").coalesced == 1


def test_state_survives_a_clean_stop_at_every_level(make_daemon):
    d = make_daemon()
    with d.conn() as c:
        c.create_queue("mine", max_active=3, slack="1s", retention="2h")
        c.update("async", 3_600_000, "mine", payload=b"A" * 1000)
        c.update("sync", 3_600_000, "mine", durability=S.DURABILITY_SYNC)
        c.update("memory", 3_600_000, "mine", durability=S.DURABILITY_MEMORY)
        c.update("done", 0, "mine")
        until(lambda: c.get("done", "mine").last.generation == 1)
        c.job("disable", "off", "mine")
        c.job("disable", "off", "mine")
        c.call(pause=wire.pb.Queue(queue="mine"))
    assert d.stop() == 0
    d.start()
    with d.conn() as c:
        assert c.get("async", "mine").payload_bytes == 1000
        assert c.get("sync", "mine").state == S.JOB_STATE_ARMED
        assert c.get("memory", "mine") is None
        assert c.get("done", "mine").last.outcome == S.RUN_OUTCOME_DONE
        assert c.get("off", "mine").disable_depth == 2
        info = c.queue_info("mine")
        assert info.paused
        settings = {s.name: s.value for s in info.settings}
        assert (settings["max_active"], settings["slack"], settings["retention"]) == ("3", "1s", "2h")


def test_files_are_private_whatever_the_umask(make_daemon):
    old = os.umask(0)
    try:
        d = make_daemon()
    finally:
        os.umask(old)
    for f in os.listdir(d.state):
        assert os.stat(d.state / f).st_mode & 0o077 == 0, f


# Of a thousand keys; the whole number of the promise is 500000.
UPDATES = int(os.environ.get("WQ_UPDATES", "80000"))


@pytest.mark.parametrize("level", ["ASYNC", "SYNC"])
def test_disk_is_bounded_by_live_jobs_not_by_pushes(make_daemon, level):
    d = make_daemon()
    level = S.Durability.Value(f"DURABILITY_{level}")

    def size():
        return sum((d.state / f).stat().st_size for f in os.listdir(d.state))
    with d.conn() as c:
        most = 0
        for n in range(0, UPDATES, 1000):
            r = c.call(update_batch=wire.pb.UpdateBatch(updates=[
                wire.update(f"k{i}", delay_ms=3_600_000 + n + i, durability=level)
                for i in range(1000)]))
            assert len(r.results) == 1000
            most = max(most, size())
        until(lambda: c.stat()["dirty"] == 0)
        # While it goes on, and at its end without a restart.
        assert most < 64 << 20
        assert size() < 64 << 20
        until(lambda: c.stat()["store_wal_bytes"] <= 8 << 20, 60, what="a short log")


class SmallDisk:
    """A tmpfs of its own over the state directory, in a mount namespace that outlives the daemon."""

    def __init__(self, d, size):
        self.d = d
        self.holder = subprocess.Popen(
            ["unshare", "-m", "sh", "-c",
             f"mount -t tmpfs -o size={size},mode=700 tmpfs {d.state} && echo up && exec cat"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if self.holder.stdout.readline() != b"up\n":
            self.close()
            pytest.skip("a disk of its own takes root and a mount namespace")
        d.wrapper = ["nsenter", f"--mount=/proc/{self.holder.pid}/ns/mnt", "--"]
        self.path = f"/proc/{self.holder.pid}/root{d.state}"

    def fill(self):
        """Takes all that is left of it."""
        with open(f"{self.path}/ballast", "ab", buffering=0) as f:
            for n in (65536, 4096):
                try:
                    while True:
                        f.write(b"x" * n)
                except OSError as e:
                    assert e.errno == errno.ENOSPC

    def free(self):
        os.unlink(f"{self.path}/ballast")

    def close(self):
        self.holder.stdin.close()
        self.holder.wait(30)
        self.holder.stdout.close()


@pytest.fixture
def small_disk(make_daemon):
    disks = []

    def make(size, conf=""):
        if os.getuid() != 0 or not shutil.which("nsenter"):
            pytest.skip("a disk of its own takes root and a mount namespace")
        d = make_daemon(conf, start=False)
        disks.append(SmallDisk(d, size))
        return d, disks[-1]
    yield make
    for disk in disks:
        if disk.d.proc:
            disk.d.stop()
        disk.close()


@pytest.mark.parametrize("size", ["1m", "8m", "40m"])
def test_sto_01_a_full_disk_heals(small_disk, size):
    d, disk = small_disk(size)
    d.start()
    acked, refused = set(), 0
    with d.conn() as c:
        def write(name):
            r = c.update(name, 3_600_000, payload=b"p" * 4000, durability=S.DURABILITY_SYNC)
            assert word(r.status) in ("CREATED", "STORAGE_ERROR")
            if word(r.status) == "CREATED":
                acked.add(name)
            return word(r.status) == "CREATED"
        for i in range(20):
            assert write(f"before-{i}")
        disk.fill()
        for i in range(4000):
            if not write(f"full-{i}"):
                refused += 1
                if refused == 5:
                    break
        assert refused == 5
        assert c.stat()["degraded"] == 1
        # What needs no disk goes on.
        assert c.get("before-3").state == S.JOB_STATE_ARMED
        assert word(c.update("m", 3_600_000, durability=S.DURABILITY_MEMORY).status) == "CREATED"
        assert word(c.cancel("before-4").status) == "CANCELLED"
        pid = d.pid
        disk.free()
        until(lambda: c.stat()["degraded"] == 0)
        for i in range(20):
            assert write(f"after-{i}")
        assert d.pid == pid
    assert "No space left" in d.text() and "store_healed" in d.text()
    d.kill9()
    d.start()
    with d.conn() as c:
        for name in acked - {"before-4"}:
            assert c.get(name).state == S.JOB_STATE_ARMED, name
        got = c.get("before-4")
        assert got is None or got.state == S.JOB_STATE_IDLE


@pytest.mark.parametrize("crash", [False, True])
def test_sto_02_a_start_on_a_full_disk(small_disk, crash, tmp):
    runs = tmp / "runs"
    d, disk = small_disk("16m", handler("h", "/bin/sh", "-c", f"echo x >> {runs}") +
                         queue("q", action="exec", handler="h", max_active=10))
    d.start()
    with d.conn() as c:
        c.call(pause=wire.pb.Queue(queue="q"))
        for i in range(100):
            c.update(f"due-{i}", 0, "q", durability=S.DURABILITY_SYNC)
        c.update("far", 3_600_000, "q", durability=S.DURABILITY_SYNC)
    if crash:
        d.kill9()
    else:
        assert d.stop() == 0
    disk.fill()
    for _ in range(3):
        d.start()
        with d.conn() as c:
            assert c.get("due-7", "q") is not None
            assert word(c.cancel("far", "q").status) in ("CANCELLED", "IDLE")
            c.call(resume=wire.pb.Queue(queue="q"))
            until(lambda: c.stat()["ready"] == 0 and c.stat()["running"] == 0)
        d.kill9()
    assert len(runs.read_text().split()) <= 100 * 4
    disk.free()
    d.start()
    with d.conn() as c:
        until(lambda: c.stat()["degraded"] == 0)
