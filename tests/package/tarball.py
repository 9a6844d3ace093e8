"""What the tests of packages share: the tarball, commands in it, and how a binary must look."""
import os
import pathlib
import re
import subprocess
import tarfile

BUILD = pathlib.Path(os.environ.get("WQ_BUILD", ".")).resolve()
SOURCE = pathlib.Path(os.environ.get("WQ_SOURCE", ".")).resolve()
JOBS = f"-j{os.cpu_count()}"
# Ours, not the distribution's.
INHERITED = {k: v for k, v in os.environ.items()
             if k not in ("MAKEFLAGS", "MFLAGS", "CFLAGS", "CPPFLAGS", "LDFLAGS", "CC")}


def unpacked(where):
    """The tree of the tarball, unpacked in `where`."""
    found = sorted(BUILD.glob("wqd-*.tar.*"), key=os.path.getmtime)
    assert found, "no tarball; make dist"
    with tarfile.open(found[-1]) as tar:
        tar.extractall(where)
    (top,) = (p for p in where.iterdir() if p.is_dir())
    return top


def run(*cmd, cwd, env=None):
    done = subprocess.run([str(c) for c in cmd], cwd=cwd, env={**INHERITED, **(env or {})},
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=3000, check=False)
    assert done.returncode == 0, f"{cmd}:\n{done.stdout[-6000:]}"
    return done.stdout


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
