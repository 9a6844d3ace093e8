"""clang-tidy on everything and gcc -fanalyzer where bytes of strangers, descriptors and memory are
handled: slow, so for `make lint` and not for `make check`. Each finds what the other does not.

LINT_FLAGS has the preprocessor flags of the build, which are relative to it.
"""
import concurrent.futures
import os
import shlex
import shutil
import subprocess

import pytest
from source import BUILD, SOURCE, files, rel

FLAGS = ["-std=gnu17", *shlex.split(os.environ.get("LINT_FLAGS", ""))]
RISKY = ("daemon/wire", "daemon/store", "daemon/run", "daemon/conf", "daemon/sys", "daemon/base")


def sources(*folders):
    return list(files(*folders, suffixes=(".c",)))


def each(paths, command):
    """Runs `command(path)` over the processors; what failed, with its output."""
    def run(path):
        done = subprocess.run(command(path), cwd=BUILD, capture_output=True, text=True,
                              timeout=900, check=False)
        return f"{rel(path)}:\n{done.stdout}{done.stderr}" if done.returncode else None

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return [text for text in pool.map(run, paths) if text]


def need(*names):
    for name in names:
        if shutil.which(name):
            return name
    pytest.skip(f"{names[-1]} is not installed")


def test_clang_tidy():
    tidy = need("clang-tidy-14", "clang-tidy")
    found = each(sources("daemon", "client"), lambda path: [
        tidy, "--quiet", f"--config-file={SOURCE / '.clang-tidy'}", str(path), "--", *FLAGS])
    assert not found, "\n".join(found)


@pytest.mark.parametrize("folder", RISKY)
def test_gcc_analyzer(folder):
    gcc = need("gcc")
    found = each(sources(folder), lambda path: [
        gcc, *FLAGS, "-O0", "-g", "-fanalyzer", "-Werror", "-Wno-error=cpp", "-c", str(path), "-o",
        os.devnull])
    assert not found, "\n".join(found)
