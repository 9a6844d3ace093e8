"""Field cases STO and the state directory: newer, damaged, locked."""
import hashlib
import os
import shutil
import sqlite3
import subprocess

import pytest
import wire
from conftest import until
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


def test_disk_is_bounded_by_live_jobs_not_by_pushes(make_daemon):
    d = make_daemon()
    with d.conn() as c:
        for _ in range(20):
            r = c.call(update_batch=wire.pb.UpdateBatch(updates=[
                wire.update(f"k{i % 1000}", delay_ms=3_600_000 + i) for i in range(4000)]))
            assert len(r.results) == 4000
        until(lambda: c.stat()["dirty"] == 0)
    size = sum((d.state / f).stat().st_size for f in os.listdir(d.state))
    assert size < 64 << 20
