"""A machine of its own for the daemon: systemd booted by systemd-nspawn over a Debian root.

The root is made once by debootstrap and kept outside the tree, in WQD_TEST_CACHE or
/var/cache/wqd-tests; each machine gets a copy with the build installed. Whatever is missing for
that raises Missing with the reason.
"""
import fcntl
import os
import pathlib
import re
import shutil
import subprocess
import time

CACHE = pathlib.Path(os.environ.get("WQD_TEST_CACHE", "/var/cache/wqd-tests"))
PACKAGES = ("systemd", "systemd-sysv", "procps")
# Not needed to boot; a copy is made for each run.
BALLAST = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info",
           "var/cache/apt", "var/lib/apt/lists")
TOOLS = ("systemd-nspawn", "debootstrap", "nsenter", "ldconfig", "ldd")


class Missing(Exception):
    """Why there can be no machine here."""


def suite():
    text = pathlib.Path("/etc/os-release").read_text()
    m = re.search(r'^VERSION_CODENAME="?(\w+)', text, re.M)
    if not m or not re.search(r"^ID(?:_LIKE)?=.*debian", text, re.M):
        raise Missing("this is no Debian, whose libraries would fit into the root")
    return m.group(1)


def check_tools():
    if os.geteuid() != 0:
        raise Missing("needs root: systemd-nspawn makes namespaces and mounts")
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    for tool in TOOLS:
        if not shutil.which(tool):
            raise Missing(f"{tool} is not installed")


def debootstrap(name, to):
    making = to.with_suffix(".new")
    shutil.rmtree(making, ignore_errors=True)
    log = to.with_suffix(".log")
    mirror = [m] if (m := os.environ.get("WQD_TEST_MIRROR")) else []
    with open(log, "wb") as out:
        done = subprocess.run(
            ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", name,
             str(making), *mirror], stdin=subprocess.DEVNULL, stdout=out, stderr=out, timeout=1200,
            check=False)
    if done.returncode:
        last = log.read_text(errors="replace").strip().splitlines()[-1:]
        shutil.rmtree(making, ignore_errors=True)
        raise Missing(f"debootstrap could not make the root: {last}")
    for folder in BALLAST:
        shutil.rmtree(making / folder, ignore_errors=True)
    making.rename(to)


def base_root():
    """The root of this machine's suite, made if it is not there; one process at a time."""
    check_tools()
    name = suite()
    try:
        CACHE.mkdir(parents=True, exist_ok=True)
        lock = open(CACHE / "lock", "w", encoding="ascii")
    except OSError as e:
        raise Missing(f"no place for the root: {e}") from e
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        root = CACHE / f"root-{name}-1"
        if not root.exists():
            debootstrap(name, root)
    return root


def copy_root(to):
    # Not copytree: it would read the devices (/dev/full has no end).
    subprocess.run(["cp", "-a", base_root(), to], check=True)
    return pathlib.Path(to)


def configured(build, name):
    """A variable of configure, such as sysconfdir, with what it refers to."""
    text = f"@{name}@"
    while m := re.search(r"@(\w+)@|\$\{(\w+)\}", text):
        ref = m.group(1) or m.group(2)
        got = subprocess.run(["./config.status", "--file=-"], cwd=build, input=f"@{ref}@",
                             capture_output=True, text=True, timeout=60, check=True).stdout.strip()
        text = text[:m.start()] + got + text[m.end():]
    return text


def install(build, root):
    """`make install` into `root`, and the libraries that it lacks for it."""
    env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "DESTDIR")}
    subprocess.run(["make", "-s", "-C", str(build), "install", f"DESTDIR={root}"], env=env,
                   stdin=subprocess.DEVNULL, capture_output=True, timeout=600, check=True)
    programs = [root / configured(build, d).lstrip("/") / n
                for d, n in (("sbindir", "wqd"), ("bindir", "wqctl"))]
    for program in programs:
        out = subprocess.run(["ldd", str(program)], capture_output=True, text=True, timeout=60,
                             check=True).stdout
        for lib in re.findall(r"=> (/\S+)", out):
            to = root / lib.lstrip("/")
            if not to.exists() and not lib.startswith(str(build)):
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(lib, to)
    subprocess.run(["ldconfig", "-r", str(root)], timeout=60, check=True)


class Machine:
    """A booted root. `run` runs a command in it."""

    def __init__(self, root, log):
        self.root = pathlib.Path(root)
        self.log_path = pathlib.Path(log)
        self.proc = None
        self.leader = None

    def boot(self, patience=180):
        self.log = open(self.log_path, "wb")
        self.proc = subprocess.Popen(
            ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--private-network",
             "--console=pipe", "-b", "-D", str(self.root)],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True)
        end = time.monotonic() + patience
        while time.monotonic() < end and self.proc.poll() is None:
            self.leader = self.find_leader()
            if self.leader and self.run("systemctl", "is-system-running").stdout.strip() in (
                    "running", "degraded"):
                return
            time.sleep(0.1)
        text = self.log_path.read_text(errors="replace").strip()
        self.stop()
        raise Missing(f"systemd-nspawn does not boot here: {text[-300:]!r}")

    def find_leader(self):
        """The machine's process 1, which systemd-nspawn started."""
        try:
            text = pathlib.Path(f"/proc/{self.proc.pid}/task/{self.proc.pid}/children").read_text()
            for pid in text.split():
                if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == "systemd":
                    return pid
        except OSError:
            pass
        return None

    def run(self, *cmd, input=None, timeout=120, check=None):
        done = subprocess.run(
            ["nsenter", "-t", self.leader, "-m", "-u", "-i", "-n", "-p", "-C", "--",
             *map(str, cmd)], input=input, stdin=None if input is not None else subprocess.DEVNULL,
            capture_output=True, text=True, timeout=timeout, check=False,
            env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                 "LANG": "C.UTF-8"})
        if check is not None:
            assert done.returncode == check, (cmd, done, self.journal())
        return done

    def ctl(self, *args, check=0, **kw):
        """systemctl."""
        return self.run("systemctl", *args, check=check, **kw).stdout

    def show(self, unit, prop):
        return self.ctl("show", "--value", "-p", prop, unit).strip()

    def journal(self, unit="wqd", lines=50):
        return subprocess.run(
            ["nsenter", "-t", self.leader, "-m", "-p", "--", "journalctl", "--no-pager", "-q",
             "-n", str(lines), "-u", unit], capture_output=True, text=True, timeout=60,
            check=False).stdout

    def write(self, path, text):
        to = self.root / path.lstrip("/")
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(text)

    def read(self, path):
        to = self.root / path.lstrip("/")
        return to.read_text() if to.exists() else ""

    def stop(self):
        if self.proc.poll() is None:
            if self.leader:
                self.run("systemctl", "poweroff", "--force")
            try:
                self.proc.wait(60)
            except subprocess.TimeoutExpired:
                self.proc.kill()
                self.proc.wait(60)
        self.log.close()
