"""Field cases RST over a reboot: another boot id, and a wall clock that has gone on meanwhile.

The boot id is a file of ours in the daemon's own mount namespace, the wall clock libfaketime's.
"""
import subprocess

import pytest
import wire
from conftest import queue, until
from test_cases_tmr import WallClock, needs_faketime
from wire import S

HOUR = 3600
BOOTS = ("11111111-2222-3333-4444-555555555555", "99999999-8888-7777-6666-555555555555")


class Machine:
    """What a daemon sees of the machine it runs on."""

    def __init__(self, make_daemon, tmp, conf):
        self.boot = tmp / "boot_id"
        self.boot.write_text(BOOTS[0] + "\n")
        self.clock = WallClock(tmp / "clock")
        self.ahead = 0
        self.holder = subprocess.Popen(
            ["unshare", "-m", "sh", "-c",
             f"mount --bind {self.boot} /proc/sys/kernel/random/boot_id && echo up && exec cat"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        if self.holder.stdout.readline() != b"up\n":
            self.close()
            pytest.skip("a boot id of one's own takes root and a mount namespace")
        self.d = make_daemon(conf, start=False, env=self.clock.env())
        self.d.wrapper = ["nsenter", f"--mount=/proc/{self.holder.pid}/ns/mnt", "--"]

    def step(self, seconds):
        self.ahead += seconds
        self.clock.step(self.ahead)

    def reboot(self):
        """In place: it is this file that is mounted."""
        self.boot.write_text(BOOTS[1] + "\n")

    def now_ms(self):
        return wire.now_ms() + self.ahead * 1000

    def close(self):
        self.holder.stdin.close()
        self.holder.wait(10)
        self.holder.stdout.close()


@pytest.fixture
def machine(make_daemon, tmp):
    made = []

    def make(conf=""):
        made.append(Machine(make_daemon, tmp, conf))
        return made[-1]
    yield make
    for m in made:
        if m.d.proc is not None:
            m.d.stop()
        m.close()


@needs_faketime
@pytest.mark.parametrize("rebooted", [False, True])
def test_rst_02_a_reboot_goes_by_the_wall_clock_a_restart_does_not(machine, rebooted):
    m = machine(queue("q"))
    d = m.d.start()
    with d.conn() as c:
        asked = m.now_ms()
        c.update("delay", HOUR * 1000, "q", durability=S.DURABILITY_SYNC)
        c.call(update=wire.update("time", queue="q", at_ms=asked + HOUR * 1000,
                                  durability=S.DURABILITY_SYNC))
    d.kill9()
    # Half an hour that the boot clock knows nothing of: a step, or the time the machine was off.
    m.step(HOUR // 2)
    if rebooted:
        m.reboot()
    d.start()
    with d.conn() as c:
        now = m.now_ms()
        left = {k: c.get(k, "q").deadline_ms - now for k in ("delay", "time")}
    half = HOUR * 500
    assert abs(left["time"] - half) < 60_000, "an absolute time is one"
    assert abs(left["delay"] - (half if rebooted else 2 * half)) < 60_000


@needs_faketime
@pytest.mark.parametrize("policy", ["run", "skip", "rearm"])
def test_rst_01_missed_over_a_reboot_by_the_policy(machine, policy):
    m = machine(queue("q", misfire=policy))
    d = m.d.start()
    with d.conn() as c:
        c.update("k", HOUR * 1000, "q", durability=S.DURABILITY_SYNC)
    d.kill9()
    m.step(2 * HOUR)
    m.reboot()
    d.start()
    with d.conn() as c:
        if policy == "run":
            until(lambda: c.get("k", "q").last.generation == 1)
            assert len(c.history("k", "q")) == 1
        elif policy == "skip":
            assert c.stat()["misfires_skipped"] == 1
            job = c.get("k", "q")
            assert job is None or not job.pending
        else:
            left = c.get("k", "q").deadline_ms - m.now_ms()
            assert abs(left - HOUR * 1000) < 60_000, "the full delay again"


@needs_faketime
def test_rst_02_a_wall_clock_set_back_over_a_reboot_makes_nothing_early(machine):
    m = machine(queue("q"))
    d = m.d.start()
    with d.conn() as c:
        c.update("k", 5000, "q", durability=S.DURABILITY_SYNC)
        due = c.get("k", "q").deadline_ms
    d.kill9()
    m.step(-HOUR)
    m.reboot()
    d.start()
    with d.conn() as c:
        job = c.get("k", "q")
        assert job.pending
        assert abs(job.deadline_ms - due) < 1000, "the wall time that was meant"
