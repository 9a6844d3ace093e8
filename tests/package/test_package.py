"""PKG-01 and PKG-03: the tarball in the hands of a distribution.

Needs the tarball of `make dist` in the build folder.
"""
import os
import pathlib
import re
import shutil
import subprocess
import tarfile

import pytest

BUILD = pathlib.Path(os.environ.get("WQ_BUILD", ".")).resolve()
SOURCE = pathlib.Path(os.environ.get("WQ_SOURCE", ".")).resolve()
JOBS = f"-j{os.cpu_count()}"
GENERATORS = ("protoc", "protoc-c", "protoc-gen-c")
# Ours, not the distribution's.
INHERITED = {k: v for k, v in os.environ.items()
             if k not in ("MAKEFLAGS", "MFLAGS", "CFLAGS", "CPPFLAGS", "LDFLAGS", "CC")}


@pytest.fixture
def tree(tmp_path):
    """The unpacked tarball."""
    found = sorted(BUILD.glob("wqd-*.tar.*"), key=os.path.getmtime)
    assert found, "no tarball; make dist"
    with tarfile.open(found[-1]) as tar:
        tar.extractall(tmp_path)
    (top,) = (p for p in tmp_path.iterdir() if p.is_dir())
    return top


def run(*cmd, cwd, env=None):
    done = subprocess.run([str(c) for c in cmd], cwd=cwd, env={**INHERITED, **(env or {})},
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=3000, check=False)
    assert done.returncode == 0, f"{cmd}:\n{done.stdout[-6000:]}"
    return done.stdout


def path_without(tmp_path, names):
    """A PATH of links to all that is in PATH but `names`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for part in os.environ["PATH"].split(":"):
        for tool in pathlib.Path(part).iterdir() if os.path.isdir(part) else ():
            link = folder / tool.name
            if tool.name not in names and not link.is_symlink() and os.access(tool, os.X_OK):
                link.symlink_to(tool)
    return str(folder)


def test_the_tarball_has_every_file_of_the_tree(tree):
    if not (SOURCE / ".git").exists() or not shutil.which("git"):
        pytest.skip("not in a checkout")
    tracked = run("git", "ls-files", cwd=SOURCE).splitlines()
    missing = [f for f in tracked if (SOURCE / f).exists() and not (tree / f).exists()
               and not re.match(r"\.ci/|.*\.(?:gitignore|keep)$", f)]
    assert not missing, missing


def buildflags():
    if not shutil.which("dpkg-buildflags"):
        pytest.skip("dpkg-buildflags is not installed")
    env = dict(os.environ, DEB_BUILD_MAINT_OPTIONS="hardening=+all optimize=+lto")
    out = subprocess.run(["dpkg-buildflags", "--export=cmdline"], env=env, capture_output=True,
                         text=True, timeout=60, check=True).stdout
    flags = dict(re.findall(r'(\w+)="([^"]*)"', out))
    # -ffile-prefix-map names the folder that this ran in.
    flags = {k: " ".join(f for f in v.split() if "prefix-map" not in f) for k, v in flags.items()}
    flags["CFLAGS"] += " -Werror=implicit-function-declaration -DPACKAGER_CFLAGS"
    flags["CPPFLAGS"] += " -DPACKAGER_CPPFLAGS"
    flags["LDFLAGS"] += " -Wl,-z,separate-code"
    return {k: flags[k] for k in ("CFLAGS", "CPPFLAGS", "LDFLAGS", "CXXFLAGS")}


def lines_of(log, pattern):
    """Commands of the compiler that match, with continued lines joined."""
    found = [line for line in log.replace("\\\n", " ").splitlines()
             if re.search(r"(?:^|[\s/;])(?:gcc|cc|g\+\+) ", line) and re.search(pattern, line)
             and not line.startswith("libtool:")]
    assert found, pattern
    return found


def check_flags(log, flags):
    """What the packager gave is on every line, and after ours, so that it wins."""
    for line in lines_of(log, r" -c "):
        for word in (*flags["CFLAGS"].split(), *flags["CPPFLAGS"].split()):
            assert word in line.split(), f"{word} is missing: {line}"
        assert line.split().count("-D_FORTIFY_SOURCE=2") <= 1, line
    for line in lines_of(log, r"--mode=link"):
        for word in flags["LDFLAGS"].split():
            assert word in line.split(), f"{word} is missing: {line}"


def readelf(*args):
    return subprocess.run(["readelf", "-W", *map(str, args)], capture_output=True, text=True,
                          timeout=60, check=True).stdout


def check_binary(path, program):
    header, dynamic, segments = readelf("-h", path), readelf("-d", path), readelf("-l", path)
    assert re.search(r"Type:\s+DYN", header), path
    if program:
        assert re.search(r"FLAGS_1\).*\bPIE\b", dynamic), path
    assert re.search(r"FLAGS_1\).*\bNOW\b|\(BIND_NOW\)", dynamic), f"{path}: not BIND_NOW"
    assert "GNU_RELRO" in segments, f"{path}: no RELRO"
    assert re.search(r"GNU_STACK\s.*\sRW\s", segments), f"{path}: executable stack"
    assert not re.search(r"\((?:RPATH|RUNPATH|TEXTREL)\)", dynamic), f"{path}: {dynamic}"
    symbols = readelf("--dyn-syms", path)
    assert re.search(r"UND __\w+_chk\b", symbols), f"{path}: not fortified"
    assert "__stack_chk_fail" in symbols, f"{path}: no stack protector"


def installed(build, tmp_path):
    dest = tmp_path / "dest"
    run("make", "install", f"DESTDIR={dest}", cwd=build)
    return dest


def check_tests(build, env=None):
    """The unit tests; the rest of the suite says nothing about a build."""
    out = run("make", JOBS, "check", "TESTFLAGS=--no-system -k unit", cwd=build, env=env)
    assert re.search(r"(?m)^[1-9]\d* passed, 0 failed", out), out[-3000:]


def test_pkg_01_the_tarball_builds_without_the_code_generator(tree, tmp_path):
    """With configure's own flags, which harden as well."""
    env = {"PATH": path_without(tmp_path, GENERATORS)}
    for name in GENERATORS:
        assert not shutil.which(name, path=env["PATH"])
    build = tmp_path / "build"
    build.mkdir()
    run(tree / "configure", "--enable-werror", cwd=build, env=env)
    run("make", JOBS, cwd=build, env=env)
    check_tests(build, env)
    dest = installed(build, tmp_path)
    check_binary(dest / "usr/local/sbin/wqd", program=True)
    check_binary(dest / "usr/local/bin/wqctl", program=True)
    check_binary(dest / "usr/local/lib/libwq.so.0", program=False)


def test_pkg_03_distribution_flags_are_kept_and_the_binaries_hardened(tree, tmp_path):
    flags = buildflags()
    build = tmp_path / "build"
    build.mkdir()
    run(tree / "configure", "--prefix=/usr", "--sysconfdir=/etc", "--localstatedir=/var",
        *(f"{k}={v}" for k, v in flags.items()), cwd=build)
    log = run("make", JOBS, "V=1", cwd=build)
    warnings = re.findall(r"(?m)^.*\bwarning:.*$", log)
    assert not warnings, "\n".join(warnings)
    check_flags(log, flags)
    dest = installed(build, tmp_path)
    for name in ("usr/sbin/wqd", "usr/bin/wqctl"):
        check_binary(dest / name, program=True)
    check_binary(dest / "usr/lib/libwq.so.0", program=False)
    check_tests(build)
    where = {str(p.relative_to(dest)) for p in dest.rglob("*") if p.is_file()}
    assert not [p for p in where if p.startswith("usr/local")], where
    assert "usr/lib/systemd/system/wqd.service" in where
    assert {"usr/share/wqd/wq.proto", "usr/share/doc/wqd/protocol.md"} <= where
    unit = (dest / "usr/lib/systemd/system/wqd.service").read_text()
    assert "ExecStart=/usr/sbin/wqd\n" in unit
