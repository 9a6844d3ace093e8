"""clang-format 14 with the tree's file leaves everything as it is."""
import re
import shutil
import subprocess

import pytest
from source import SOURCE, files, rel

VERSION = "14"


def clang_format():
    for name in (f"clang-format-{VERSION}", "clang-format"):
        path = shutil.which(name)
        if not path:
            continue
        out = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60,
                             check=True).stdout
        m = re.search(r"version (\d+)", out)
        if m and m.group(1) == VERSION:
            return path
    return None


def test_format():
    tool = clang_format()
    if not tool:
        pytest.skip(f"clang-format {VERSION} is not installed")
    paths = [rel(p) for p in files("daemon", "client", "include", "tests", "docs")]
    done = subprocess.run([tool, "--dry-run", "--Werror", "--style=file", *paths], cwd=SOURCE,
                          capture_output=True, text=True, timeout=300, check=False)
    wrong = sorted(set(re.findall(r"^(\S+?):\d+:\d+: error", done.stderr, re.M)))
    assert done.returncode == 0, f"make format; it would change {wrong}"
