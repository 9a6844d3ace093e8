"""The tarball in the hands of who builds it without our tools: PKG-01.

Needs the tarball of `make dist` in the build folder.
"""
import os
import pathlib
import re
import shutil

import pytest
from tarball import JOBS, SOURCE, check_binary, run, unpacked

GENERATORS = ("protoc", "protoc-c", "protoc-gen-c")


@pytest.fixture
def tree(tmp_path):
    return unpacked(tmp_path)


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
