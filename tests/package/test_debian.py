"""PKG-03: built as Debian builds it, and what becomes of the packages on a machine.

Needs the tarball of `make dist`. The packages are built once, with the distribution's flags and
link-time optimisation; a machine booted by systemd-nspawn installs, upgrades and purges them.
"""
import fnmatch
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import pytest
from tarball import INHERITED, SOURCE, check_binary, run, unpacked

sys.path.insert(0, str(SOURCE / "tests" / "system"))
import nspawn  # noqa: E402

TOOLS = ("dpkg-buildpackage", "dh", "lintian")
# A packager's own, which have to arrive.
APPENDED = {"DEB_CFLAGS_APPEND": "-Werror=implicit-function-declaration -DPACKAGER_CFLAGS",
            "DEB_CPPFLAGS_APPEND": "-DPACKAGER_CPPFLAGS",
            "DEB_LDFLAGS_APPEND": "-Wl,-z,separate-code"}
NAMES = ("wqd", "wqctl", "libwq0", "libwq-dev")


class Built:
    """What dpkg-buildpackage left in a folder."""

    def __init__(self, where):
        self.where = where
        self.tree = unpacked(where)
        options = f"parallel={os.cpu_count()}"
        self.log = run("dpkg-buildpackage", "-us", "-uc", "-b", cwd=self.tree,
                       env={**APPENDED, "DEB_BUILD_OPTIONS": options})
        self.debs = {n: next(where.glob(f"{n}_*.deb")) for n in NAMES}

    def files(self, name):
        """The package unpacked."""
        to = self.where / f"files-{name}"
        if not to.exists():
            run("dpkg-deb", "-x", self.debs[name], to, cwd=self.where)
        return to


@pytest.fixture(scope="module")
def built():
    for tool in TOOLS:
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not installed")
    with tempfile.TemporaryDirectory(prefix="wqd-deb-", dir="/var/tmp") as where:
        yield Built(pathlib.Path(where))


def buildflags():
    """What the distribution wants, by dpkg-buildflags alone."""
    env = dict(INHERITED, DEB_BUILD_MAINT_OPTIONS="hardening=+all optimize=+lto", **APPENDED)
    out = subprocess.run(["dpkg-buildflags", "--export=cmdline"], env=env, capture_output=True,
                         text=True, timeout=60, check=True).stdout
    flags = dict(re.findall(r'(\w+)="([^"]*)"', out))
    # -ffile-prefix-map names the folder that this ran in.
    return {k: [f for f in v.split() if "prefix-map" not in f] for k, v in flags.items()}


def lines_of(log, pattern):
    """Commands of the compiler that match, with continued lines joined."""
    found = [line for line in log.replace("\\\n", " ").splitlines()
             if re.search(r"(?:^|[\s/;])(?:gcc|cc|g\+\+) ", line) and re.search(pattern, line)
             and not re.match(r"libtool:|checking ", line)]
    assert found, pattern
    return found


def check_flags(log, flags):
    """What the packager gave is on every line, and after ours, so that it wins."""
    for line in lines_of(log, r" -c "):
        own = flags["CXXFLAGS" if re.search(r"(?:^|[\s/;])g\+\+ ", line) else "CFLAGS"]
        for word in (*own, *flags["CPPFLAGS"]):
            assert word in line.split(), f"{word} is missing: {line}"
        assert line.split().count("-D_FORTIFY_SOURCE=2") <= 1, line
    for line in lines_of(log, r"--mode=link"):
        for word in flags["LDFLAGS"]:
            assert word in line.split(), f"{word} is missing: {line}"


def test_pkg_03_distribution_flags_are_kept(built):
    check_flags(built.log, buildflags())
    warnings = re.findall(r"(?m)^.*\bwarning:.*$", built.log)
    assert not warnings, "\n".join(warnings)


def test_pkg_03_the_binaries_are_hardened(built):
    check_binary(built.files("wqd") / "usr/sbin/wqd", program=True)
    check_binary(built.files("wqctl") / "usr/bin/wqctl", program=True)
    (lib,) = built.files("libwq0").glob("usr/lib/*/libwq.so.0.*")
    check_binary(lib, program=False)


def test_pkg_03_the_tests_passed_with_those_flags(built):
    assert re.search(r"(?m)^[1-9]\d* passed, 0 failed", built.log), built.log[-3000:]


def test_lintian_finds_nothing(built):
    done = subprocess.run(["lintian", "--allow-root", "-IE", "--fail-on", "none",
                           *built.where.glob("*.changes")], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=600, check=False)
    found = re.findall(r"(?m)^[EWI]: .*", done.stdout)
    assert done.returncode == 0 and not found, (found, done.stderr)


def test_each_file_is_in_the_package_where_one_looks_for_it(built):
    def has(name, *patterns):
        # Not glob: a link of one package leads to a file of another.
        names = [str(p.relative_to(built.files(name))) for p in built.files(name).rglob("*")]
        for p in patterns:
            assert fnmatch.filter(names, p), (name, p)
    has("wqd", "usr/sbin/wqd", "etc/wqd/wqd.conf", "lib/systemd/system/wqd.service",
        "lib/systemd/system/wqd.socket", "usr/lib/sysusers.d/wqd.conf",
        "usr/lib/tmpfiles.d/wqd.conf", "usr/share/man/man8/wqd.8.gz",
        "usr/share/man/man5/wqd.conf.5.gz", "usr/share/doc/wqd/protocol.md.gz")
    has("wqctl", "usr/bin/wqctl", "usr/share/man/man1/wqctl.1.gz",
        "usr/share/bash-completion/completions/wqctl")
    has("libwq0", "usr/lib/*/libwq.so.0")
    has("libwq-dev", "usr/include/wq.h", "usr/include/wq_libevent.h", "usr/lib/*/libwq.so",
        "usr/lib/*/pkgconfig/libwq.pc", "usr/share/man/man3/libwq.3.gz", "usr/share/wqd/wq.proto")
    unit = (built.files("wqd") / "lib/systemd/system/wqd.service").read_text()
    assert "ExecStart=/usr/sbin/wqd\n" in unit


def newer(deb, where):
    """The same package as the next version, for an upgrade."""
    tree = where / "newer"
    shutil.rmtree(tree, ignore_errors=True)
    run("dpkg-deb", "-R", deb, tree, cwd=where)
    control = tree / "DEBIAN/control"
    text = control.read_text()
    version = re.search(r"(?m)^Version: (.*)$", text).group(1)
    control.write_text(text.replace(version, version + "+next"))
    to = where / f"{deb.stem}+next.deb"
    run("dpkg-deb", "-b", tree, to, cwd=where)
    return to


def needed(debs, root, where):
    """The packages of others that `debs` need and the root lacks, by this machine's sources."""
    archives = where / "archives"
    (archives / "partial").mkdir(parents=True)
    run("apt-get", "install", "-y", "-qq", "--download-only", "--no-install-recommends",
        "-o", f"Dir::State::status={root}/var/lib/dpkg/status", "-o", f"Dir::Cache::archives={archives}",
        "-o", "APT::Sandbox::User=root", *debs, cwd=where)
    return sorted(archives.glob("*.deb"))


@pytest.fixture(scope="module")
def machine(built):
    where = pathlib.Path(tempfile.mkdtemp(prefix="wqd-deb-boot-", dir="/var/tmp"))
    try:
        try:
            root = nspawn.copy_root(where / "root")
            others = needed(built.debs.values(), root, where)
            to = root / "debs"
            to.mkdir()
            for deb in (*others, *built.debs.values()):
                shutil.copy(deb, to)
            (root / "next").mkdir()
            for deb in built.debs.values():
                shutil.copy(newer(deb, where), root / "next")
            booted = nspawn.Machine(root, where / "log")
            booted.boot()
        except nspawn.Missing as e:
            pytest.skip(str(e))
        yield booted
        booted.stop()
    finally:
        shutil.rmtree(where, ignore_errors=True)


def dpkg(machine, *args):
    done = machine.run("sh", "-c", "DEBIAN_FRONTEND=noninteractive dpkg --force-confold " +
                       " ".join(args) + " 2>&1")
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout


def ask(machine, *args):
    return json.loads(machine.run("wqctl", "--json", *args, check=0).stdout)


def test_install_upgrade_remove_and_purge(machine):
    """One after the other, as an administrator does them."""
    dpkg(machine, "-i", "/debs/*.deb")
    assert machine.show("wqd.service", "ActiveState") == "active"
    assert machine.show("wqd.service", "UnitFileState") == "enabled"
    assert machine.run("id", "-un", "wqd").stdout == "wqd\n"
    assert machine.run("stat", "-c", "%U:%G %a", "/run/wqd/wqd.sock").stdout == "wqd:wqd 660\n"
    assert machine.run("wqd", "--check").returncode == 0

    machine.run("sh", "-c", "echo 'queue \"mine\" { max_active = 3 }' >>/etc/wqd/wqd.conf", check=0)
    machine.ctl("reload", "wqd.service")
    ask(machine, "update", "mine/kept", "1h", "--durability", "sync", "--payload", "over it")
    due = ask(machine, "get", "mine/kept")["deadline_ms"]
    before = machine.show("wqd.service", "MainPID")

    dpkg(machine, "-i", "/next/*.deb")
    assert machine.show("wqd.service", "ActiveState") == "active"
    assert machine.show("wqd.service", "MainPID") != before
    kept = ask(machine, "get", "mine/kept")
    assert (kept["state"], kept["deadline_ms"]) == ("armed", due)
    assert 'queue "mine"' in machine.read("/etc/wqd/wqd.conf")

    dpkg(machine, "-r", *NAMES)
    assert machine.show("wqd.service", "ActiveState") == "inactive"
    assert machine.run("ps", "-o", "pid=", "-u", "wqd").stdout == ""
    assert machine.run("test", "-d", "/var/lib/wqd").returncode == 0, "the jobs went with it"
    assert 'queue "mine"' in machine.read("/etc/wqd/wqd.conf")

    dpkg(machine, "-i", "/next/*.deb")
    assert ask(machine, "get", "mine/kept")["deadline_ms"] == due

    dpkg(machine, "-P", *NAMES)
    left = machine.run("sh", "-c", "ls -d /etc/wqd /var/lib/wqd /run/wqd /etc/systemd/system/*/wqd* "
                       "/usr/sbin/wqd /usr/bin/wqctl /var/lib/systemd/deb-systemd-helper-*/wqd* "
                       "2>/dev/null").stdout
    assert left == "", left
