"""The daemon under test: private state directory, temp socket, readiness by a notify socket.

    def test_x(wqd):                 # a started daemon with queue `default`
    def test_y(make_daemon):         # make_daemon(conf="...", ...) starts one of your own

Each daemon is stopped by its pid at the end of the test; a sanitizer report, an exit status other
than expected or a process left behind fails the test.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import pytest

sys.path.insert(0, os.path.dirname(__file__))
import wire  # noqa: E402

BUILD = pathlib.Path(os.environ.get("WQ_BUILD", ".")).resolve()
SOURCE = pathlib.Path(os.environ.get("WQ_SOURCE", ".")).resolve()
WQD = BUILD / "daemon" / "wqd"
WQCTL = BUILD / "client" / "wqctl"
SANITIZED = (BUILD / "config.h").exists() and \
    "#define WITH_SANITIZERS" in (BUILD / "config.h").read_text()
# A loaded machine and sanitizers make things slow, never wrong: limits are generous.
PATIENCE = 60


def until(cond, timeout=PATIENCE, what="condition"):
    """Waits until `cond()` is true and returns what it gave."""
    end = time.monotonic() + timeout
    while True:
        got = cond()
        if got:
            return got
        if time.monotonic() > end:
            raise AssertionError(f"timed out waiting for {what or cond}")
        time.sleep(0.01)


class Notify:
    """The service manager's side of sd_notify."""

    def __init__(self, path):
        self.path = str(path)
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sock.bind(self.path)
        self.seen = []

    def poll(self, timeout=0.0):
        self.sock.settimeout(timeout or 0.001)
        try:
            while True:
                msg = self.sock.recv(4096).decode()
                self.seen += [(time.monotonic(), line) for line in msg.splitlines()]
                self.sock.settimeout(0.001)
        except (TimeoutError, socket.timeout, BlockingIOError):
            pass

    def lines(self):
        self.poll()
        return [line for _, line in self.seen]

    def close(self):
        self.sock.close()
        os.unlink(self.path)


class Daemon:
    def __init__(self, root, conf="", env=None, wrapper=(), args=(), listen=None, also=None, cwd=False,
                 program=WQD):
        """`also`: an address beside the unix socket; `listen`: all of them, as wqd.conf has it."""
        self.root = pathlib.Path(root)
        self.state = self.root / "state"
        self.state.mkdir(mode=0o700, exist_ok=True)
        self.sock = self.root / "s"
        self.address = f"unix:{self.sock}"
        self.conf_path = self.root / "wqd.conf"
        self.listen = listen or "{ " + ", ".join(
            f'"{a}"' for a in (self.address, also) if a) + " }"
        self.cwd = self.root if cwd else None
        self.write_conf(conf)
        self.env = dict(os.environ, **(env or {}))
        self.wrapper, self.args, self.program = list(wrapper), list(args), program
        self.proc = None
        self.notify = Notify(self.root / "notify")
        self.log_path = self.root / "log"
        self.log = open(self.log_path, "ab")
        self.expect_exit = (0,)

    def write_conf(self, conf):
        self.conf_path.write_text(
            f'state_dir = "{self.state}"\nlisten = {self.listen}\n' + conf)

    def start(self, wait=True):
        assert self.proc is None
        self.notify.poll()
        self.notify.seen.clear()
        env = dict(self.env, NOTIFY_SOCKET=self.notify.path)
        self.proc = subprocess.Popen(
            [*self.wrapper, str(self.program), "-c", str(self.conf_path), *self.args], env=env,
            cwd=self.cwd, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
            start_new_session=True)
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self):
        def ready():
            self.notify.poll(0.05)
            if self.proc.poll() is not None:
                raise AssertionError(f"wqd ended with {self.proc.returncode}:\n{self.text()}")
            return any(line == "READY=1" for _, line in self.notify.seen)
        until(ready, what="READY=1")

    def text(self):
        return self.log_path.read_text(errors="replace")

    def port(self):
        """What the last address to be listened on with port 0 got."""
        return int(re.findall(r'event=listening address="\w+://\S+:(\d+)"', self.text())[-1])

    @property
    def pid(self):
        return self.proc.pid

    def stop(self, sig=signal.SIGTERM, timeout=PATIENCE):
        """Ends the daemon and returns its exit status (negative: signal)."""
        if self.proc is None:
            return None
        if self.proc.poll() is None:
            self.proc.send_signal(sig)
        code = self.proc.wait(timeout)
        self.proc = None
        return code

    def kill9(self):
        return self.stop(signal.SIGKILL)

    def restart(self, sig=signal.SIGTERM):
        self.stop(sig)
        return self.start()

    def conn(self, **kw):
        return wire.Conn(self.address, **kw)

    def ctl(self, *args, check=None, input=None, env=None, timeout=PATIENCE):
        """Runs wqctl; the finished process, its exit status checked against `check`."""
        done = subprocess.run(
            [str(WQCTL), *map(str, args)], env={**os.environ, "WQ_SERVER": self.address, **(env or {})},
            input=input, capture_output=True, text=True, timeout=timeout, check=False)
        if check is not None:
            assert done.returncode == check, (args, done)
        return done

    def open_to_all(self):
        """Everybody may reach what is below our folder (but for the state)."""
        os.chmod(self.root.parent, 0o755)
        os.chmod(self.root, 0o755)
        return self.root

    def ctl_as(self, uid, *args):
        """wqctl as another user (takes root), whoever may enter the build tree: a copy of the program
        itself, where libtool has made a script for it, and of its library."""
        bin = self.open_to_all() / "bin"
        if not bin.exists():
            bin.mkdir(mode=0o755)
            real = WQCTL.parent / ".libs" / "wqctl"
            shutil.copy(real if real.exists() else WQCTL, bin / "wqctl")
            for lib in WQCTL.parent.glob(".libs/libwq.so.?"):
                shutil.copy(lib, bin / lib.name)
            for f in bin.iterdir():
                f.chmod(0o755)
        return subprocess.run([str(bin / "wqctl"), "--server", self.address, *map(str, args)],
                              env={**os.environ, "LD_LIBRARY_PATH": str(bin)}, cwd="/", user=uid, group=uid,
                              extra_groups=[], capture_output=True, text=True, check=False)

    def json(self, *args, check=0, **kw):
        done = self.ctl("--json", *args, check=check, **kw)
        return json.loads(done.stdout)

    def fds(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def rss(self):
        """Resident bytes."""
        with open(f"/proc/{self.pid}/statm", encoding="ascii") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def cpu_seconds(self):
        with open(f"/proc/{self.pid}/stat", encoding="ascii") as f:
            times = f.read().rsplit(")", 1)[1].split()[11:13]
        return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")

    def children_left(self):
        """Pids of processes whose environment says that a run of this daemon started them."""
        mark = f"WQ_SERVER={self.address}".encode()
        left = []
        for p in os.listdir("/proc"):
            if not p.isdigit() or int(p) == os.getpid():
                continue
            try:
                environ = open(f"/proc/{p}/environ", "rb").read().split(b"\0")
            except OSError:
                continue
            if mark in environ and any(e.startswith(b"WQ_RUN_ID=") for e in environ):
                left.append(int(p))
        return left

    def finish(self):
        code = self.stop()
        self.log.close()
        self.notify.close()
        log = self.text()
        left = self.children_left()
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        assert code is None or code in self.expect_exit, f"wqd ended with {code}:\n{log[-8000:]}"
        assert "Sanitizer" not in log and "wqd: bug:" not in log, log[-8000:]
        return left


@pytest.fixture
def tmp():
    """A short temp directory (unix socket paths are at most 107 bytes)."""
    path = tempfile.mkdtemp(prefix="wq-")
    yield pathlib.Path(path)
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def make_daemon(tmp):
    made = []

    def make(conf="", start=True, **kw):
        root = tmp / f"d{len(made)}"
        root.mkdir()
        d = Daemon(root, conf, **kw)
        made.append(d)
        if start:
            d.start()
        return d

    yield make
    failures = []
    for d in made:
        try:
            left = d.finish()
            assert not left, f"processes left behind: {left}"
        except AssertionError as e:
            failures.append(str(e))
    assert not failures, "\n".join(failures)


@pytest.fixture
def wqd(make_daemon):
    return make_daemon()


@pytest.fixture
def conn(wqd):
    with wqd.conn() as c:
        yield c


def handler(name, *command, **opts):
    """A handler section; options as in wqd.conf(5)."""
    cmd = ", ".join(json.dumps(c) for c in command)
    rest = " ".join(f"{k} = {json.dumps(v) if isinstance(v, str) else v}" for k, v in opts.items())
    return f'handler "{name}" {{ command = {{ {cmd} }} {rest} }}\n'


def queue(name, **settings):
    rest = " ".join(f"{k} = {json.dumps(v) if isinstance(v, str) else v}"
                    for k, v in ((k, str(v).lower() if isinstance(v, bool) else v)
                                 for k, v in settings.items()))
    return f'queue "{name}" {{ {rest} }}\n'


def lease_queue(name="q", **kw):
    return queue(name, action="lease", **kw)
