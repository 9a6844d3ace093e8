"""Field cases TMR: clocks, long delays, a frozen daemon."""
import os
import shutil
import signal
import time

import pytest
import wire
from conftest import handler, queue, until
from wire import S, pb, word

FAKETIME = next((p for p in ("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
                             "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1")
                 if os.path.exists(p)), None)


class WallClock:
    """The wall clock of a daemon alone, by libfaketime; its boot clock stays real."""

    def __init__(self, path):
        self.path = path
        self.step(0)

    def step(self, seconds):
        tmp = self.path.with_suffix(".new")
        tmp.write_text(f"{seconds:+d}s\n" if seconds else "+0s\n")
        tmp.rename(self.path)

    def env(self):
        return {"LD_PRELOAD": FAKETIME, "FAKETIME_TIMESTAMP_FILE": str(self.path),
                "FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1",
                "DONT_FAKE_MONOTONIC": "1", "FAKETIME_XRESET": "0"}


sanitized = b"libasan" in open(os.environ.get("WQ_BUILD", ".") + "/daemon/wqd", "rb").read() \
    if os.path.exists(os.environ.get("WQ_BUILD", ".") + "/daemon/wqd") else False
needs_faketime = pytest.mark.skipif(
    FAKETIME is None or sanitized,
    reason="libfaketime is not installed, or can't be preloaded before a sanitizer")


@needs_faketime
@pytest.mark.parametrize("step", [-3600, 7200])
def test_tmr_06_relative_delays_ignore_steps_of_the_wall_clock(make_daemon, tmp, step):
    clock = WallClock(tmp / "clock")
    d = make_daemon(queue("q"), env=clock.env())
    with d.conn() as c:
        began = time.monotonic()
        c.update("k", 3000, "q")
        time.sleep(1)
        clock.step(step)
        until(lambda: c.get("k", "q").last.generation == 1)
        took = time.monotonic() - began
        assert 3.0 <= took < 8.0


@needs_faketime
def test_tmr_06_absolute_times_follow_the_wall_clock_and_fire_once(make_daemon, tmp):
    clock = WallClock(tmp / "clock")
    d = make_daemon(queue("q"), env=clock.env())
    with d.conn() as c:
        c.call(update=wire.update("k", queue="q", at_ms=wire.now_ms() + 7_100_000))
        c.call(update=wire.update("far", queue="q", at_ms=wire.now_ms() + 20_000_000))
        time.sleep(0.5)
        assert c.get("k", "q").state == S.JOB_STATE_ARMED
        stepped = time.monotonic()
        clock.step(7200)
        until(lambda: c.get("k", "q").last.generation == 1)
        assert time.monotonic() - stepped < 10  # within 2 s, on a machine that has time
        clock.step(0)
        time.sleep(0.5)
        clock.step(7200)
        time.sleep(1.5)
        assert len(c.history("k", "q")) == 1
        assert c.get("far", "q").state == S.JOB_STATE_ARMED


def test_tmr_07_long_delays_are_exact_and_survive(make_daemon):
    d = make_daemon()
    delays = [2**31, 2**32, 15_768_000_000, 10 * 366 * 86_400_000]
    with d.conn() as c:
        for ms in delays:
            before = wire.now_ms()
            r = c.update(f"d{ms}", ms, durability=S.DURABILITY_SYNC)
            assert r.status == S.STATUS_CREATED
            assert before + ms - 2 <= r.deadline_ms <= wire.now_ms() + ms + 2
        due = {ms: c.get(f"d{ms}").deadline_ms for ms in delays}
    d.restart(signal.SIGKILL)
    with d.conn() as c:
        for ms in delays:
            job = c.get(f"d{ms}")
            assert job.state == S.JOB_STATE_ARMED
            assert abs(job.deadline_ms - due[ms]) <= 2


@pytest.mark.parametrize("ms", [2**53, 2**63 - 1, -1, -2**63])
def test_tmr_07_delays_out_of_range_are_invalid_and_run_nothing(conn, ms):
    r = conn.update("k", ms)
    assert word(r.status) == "INVALID" and r.message
    r = conn.call(update=wire.update("k", at_ms=ms))
    assert word(r.status) == "INVALID" and r.message
    assert conn.get("k") is None
    time.sleep(0.3)
    assert conn.history("k") == []


def test_tmr_08_after_a_freeze_each_fires_once_and_paced(make_daemon, tmp):
    d = make_daemon(handler("h", "sleep", "0.05") + queue("q", handler="h", max_active=4))
    with d.conn() as c:
        for i in range(50):
            c.update(f"k{i}", 1500, "q")
        time.sleep(0.3)
        os.kill(d.pid, signal.SIGSTOP)
        time.sleep(3)
        # This one reaches the socket during the freeze: input first, it beats the overdue timer.
        pushed = c.send(update=wire.update("k0", queue="q", delay_ms=2000))
        os.kill(d.pid, signal.SIGCONT)
        assert word(c.reply(pushed).status) == "UPDATED_TIMER"
        most = 0

        def over():
            nonlocal most
            info = c.queue_info("q")
            most = max(most, info.running)
            return info.armed + info.ready + info.held + info.running == 0
        until(over)
        assert most <= 4
        runs = c.history(queue="q", limit=1000)
        assert sorted(r.key for r in runs) == sorted(b"k%d" % i for i in range(50))
        last = next(r for r in runs if r.key == b"k0")
        assert last.coalesced == 1


def test_tmr_08_faketime_is_installed():
    """The clock-step cases must not skip themselves where the tests are meant to run."""
    assert FAKETIME or not shutil.which("apt-get"), "install the package faketime"
