"""The tree as the lints see it: files, C text without comments and strings, functions."""
import os
import pathlib
import re

SOURCE = pathlib.Path(os.environ.get("WQ_SOURCE", pathlib.Path(__file__).parents[2])).resolve()
BUILD = pathlib.Path(os.environ.get("WQ_BUILD", ".")).resolve()
ADAPTERS = ("store", "run", "wire", "net", "auth", "conf", "sys")


def files(*folders, suffixes=(".c", ".h")):
    """The files of the source tree below `folders`, without what builds leave there."""
    for folder in folders:
        for root, dirs, names in os.walk(SOURCE / folder):
            dirs[:] = sorted(d for d in dirs if not d.startswith(".")
                             and d not in ("__pycache__", "seeds"))  # seeds: of the fuzzers
            for name in sorted(names):
                path = pathlib.Path(root) / name
                if path.suffix in suffixes and not re.search(r"\.pb-c\.[ch]$|_pb2\.py$", name):
                    yield path


def rel(path):
    return str(path.relative_to(SOURCE))


_NOISE = re.compile(
    r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def code(text, keep_strings=False):
    """`text` with comments blanked, and the insides of strings; lines stay where they are."""
    def blank(m):
        s = m.group(0)
        if s[0] in "\"'":
            return s if keep_strings else s[0] + s[0]
        return re.sub(r"[^\n]", " ", s)
    return _NOISE.sub(blank, text)


def read(path):
    return path.read_text(encoding="utf-8")


def includes(path):
    """(line, name, quoted) of each #include."""
    text = code(read(path), keep_strings=True)
    for m in re.finditer(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', text, re.M):
        yield text.count("\n", 0, m.start()) + 1, m.group(2), m.group(1) == '"'


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def layer(path):
    """"base", "engine", an adapter, "service" or "daemon" (the files that wire all together)."""
    parts = path.relative_to(SOURCE / "daemon").parts
    return parts[0] if len(parts) > 1 else "daemon"


def functions(path):
    """(name, first line, lines) of each function: the house format begins and ends them in the
    first column."""
    lines = code(read(path)).splitlines()
    name = None
    start = 0
    for i, text in enumerate(lines, 1):
        m = re.match(r"(?:[A-Za-z_].*[ *])?([a-z_]\w*)\(", text)
        if m and not text.rstrip().endswith(";"):
            name, start = m.group(1), i
        elif text.startswith("}"):
            if name and text.rstrip() == "}":
                yield name, start, i - start + 1
            name = None
