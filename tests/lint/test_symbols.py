"""What the objects say: exports of libwq, and that the engine keeps no globals."""
import re
import shutil
import subprocess

import pytest
from source import BUILD, SOURCE, code, read


def nm(*args):
    if not shutil.which("nm"):
        pytest.skip("nm is not installed")
    out = subprocess.run(["nm", *map(str, args)], capture_output=True, text=True, timeout=60,
                         check=True).stdout
    for line in out.splitlines():
        fields = line.split()
        if len(fields) >= 2:
            yield fields[-2], fields[-1]


def declared():
    """Functions of wq.h: names followed by a parenthesis at the level of the file."""
    text = re.sub(r"(?m)^[ \t]*#.*(?:\\\n.*)*$", "", code(read(SOURCE / "include" / "wq.h")))
    text = re.sub(r"\btypedef\b[^;{]*;", "", text)
    text = re.sub(r'\bextern "" \{', "", text)
    while (short := re.sub(r"\{[^{}]*\}", "", text)) != text:
        text = short
    names = set()
    for statement in text.split(";"):
        m = re.search(r"\b(wq_\w+)\s*\(", statement)
        if m and "static" not in statement.split():
            names.add(m.group(1))
    return names


def test_libwq_exports_what_the_header_declares():
    lib = BUILD / "client" / ".libs" / "libwq.so"
    if not lib.exists():
        pytest.skip("libwq is not built")
    exported = {re.sub(r"@.*", "", name) for kind, name in nm("-D", "--defined-only", lib)
                if kind in "TDBRVW"}
    # The version script's own names.
    exported = {n for n in exported if not re.fullmatch(r"(?:LIB)?WQ_[\d.]+", n)}
    assert declared(), "no function found in wq.h"
    assert exported == declared()


def test_the_engine_keeps_no_globals():
    objects = sorted((BUILD / "daemon" / "engine").glob("*.o"))
    if not objects or not shutil.which("objdump"):
        pytest.skip("the daemon is not built, or objdump is not installed")
    found = []
    for o in objects:
        out = subprocess.run(["objdump", "-t", str(o)], capture_output=True, text=True, timeout=60,
                             check=True).stdout
        # address, flags, section, size, name; constants that hold pointers are in .data.rel.ro.
        for m in re.finditer(r"^[0-9a-f]+ (.{7}) (\S+)\t[0-9a-f]+ (?:\.hidden )?(\S+)$", out, re.M):
            flags, section, name = m.groups()
            if "O" in flags and re.match(r"\.(?:data|bss|tdata|tbss)(?!\.rel\.ro)|\*COM", section) \
                    and not re.search(r"asan|ubsan|tsan|odr|llvm|gcov|__gcc", name):
                found.append(f"{o.name}: {name}")
    assert not found, found
