"""Layers, banned calls and sizes: what CONTRIBUTING.md asks for and a reader would have to check.

Dependencies point down: base < engine < adapters < service < daemon. Adapters don't know one
another; only the daemon's own files wire them together.
"""
import re

import pytest
from source import ADAPTERS, SOURCE, code, files, functions, includes, layer, line_of, read, rel

MAY_INCLUDE = {
    "base": {"base"},
    "engine": {"base", "engine"},
    # It stands above the adapters, and uses the two whose interfaces name no library.
    "service": {"base", "engine", "wire", "store", "service"},
    "daemon": {"base", "engine", "service", "daemon", *ADAPTERS},
    **{a: {"base", "engine", a} for a in ADAPTERS},
}

# Header: the layers that may know the library.
LIBRARIES = {
    r"event2/|event\.h": {"net"},
    r"sqlite3\.h": {"store"},
    r"protobuf-c/|.*\.pb-c\.h": {"wire"},
    r"openssl/": {"net", "auth"},
    r"confuse\.h": {"conf"},
    r"curl/": {"run"},
    r"jansson\.h|systemd/|ncurses": set(),
}

# What the service may not even name.
LIBRARY_NAMES = (
    r"\b(?:event_\w+|ev(?:buffer|util|timer|signal|connlistener|http)_?\w*|bufferevent\w*"
    r"|sqlite3\w*|SSL_?\w*|BIO|X509\w*|Protobuf[A-Z]\w*|protobuf_c_\w+|Wq__V1\w*|wq__v1\w*)\b")

BANNED = {
    "sprintf": "snprintf", "vsprintf": "vsnprintf", "strcpy": "memcpy with a size",
    "strcat": "snprintf", "strncpy": "memcpy with a size", "strncat": "snprintf",
    "stpcpy": "memcpy with a size", "strtok": "struct str", "gets": "read", "atoi": "text_u64",
    "atol": "text_u64", "atoll": "text_u64", "atof": "text_u64", "alloca": "x_alloc",
    "system": "the runner", "popen": "the runner", "fork": "the runner's spawn",
    "localtime": "localtime_r", "gmtime": "gmtime_r", "asctime": "strftime", "ctime": "strftime",
    "rand": "getrandom", "srand": "getrandom", "tmpnam": "mkstemp", "mktemp": "mkstemp",
    "assert": "wq_assert",
}
# Where a thread, the loop or a locale would notice.
BANNED_IN_DAEMON = {
    "strtok_r": "struct str", "strtol": "text_u64", "strtoul": "text_u64", "strtoll": "text_u64",
    "strtoull": "text_u64", "sscanf": "text_u64", "strerror": "err_str", "signal": "sigaction",
    "vfork": "the runner's spawn", "sleep": "a timer", "usleep": "a timer", "random": "getrandom",
    "setenv": "an environment of the child's own", "putenv": "an environment of the child's own",
    "setlocale": "the C locale",
}
ALLOCATORS = ("malloc", "calloc", "realloc", "reallocarray", "free", "strdup", "strndup",
              "asprintf", "vasprintf", "getline", "getdelim", "open_memstream", "aligned_alloc",
              "posix_memalign", "memalign", "valloc")
CLOCKS_AND_IO = ("clock_gettime", "clock_now", "clock_wall_ns", "clock_boot_ns", "time",
                 "gettimeofday", "read", "write", "open", "close", "socket", "send", "recv", "poll",
                 "select", "printf", "fprintf", "puts", "fopen", "getenv", "pthread_create",
                 "thrd_create", "log_line", "log_error", "log_warn", "log_info", "log_debug")


def calls(path, names):
    """Calls of the functions themselves, not of members or of longer names."""
    text = code(read(path))
    for m in re.finditer(rf"(?<![\w.>])({'|'.join(names)})\s*\(", text):
        # A declaration of a member or function type is no call.
        yield line_of(text, m.start()), m.group(1)


def report(found):
    assert not found, "\n" + "\n".join(found)


def test_includes_respect_the_layers():
    found = []
    for path in files("daemon"):
        own = layer(path)
        assert own in MAY_INCLUDE, f"{rel(path)}: a folder that is no layer"
        for line, name, quoted in includes(path):
            top = name.split("/")[0]
            if not quoted or re.search(r"\.pb-c\.h$", name) or name == "config.h":
                continue
            to = top if "/" in name else "daemon"
            if to not in MAY_INCLUDE[own]:
                found.append(f"{rel(path)}:{line}: {own} may not include {name}")
            elif not (SOURCE / "daemon" / name).exists():
                found.append(f"{rel(path)}:{line}: {name}: own headers are named from daemon/")
    report(found)


def test_each_library_has_its_place():
    found = []
    for path in files("daemon"):
        known = set()
        for line, name, _ in includes(path):
            for pattern, may in LIBRARIES.items():
                if not re.match(pattern, name):
                    continue
                known.add(pattern)
                if layer(path) not in may:
                    found.append(f"{rel(path)}:{line}: {name} belongs to {sorted(may)}")
        if len(known) > 1:
            found.append(f"{rel(path)}: more than one outside library")
    report(found)


def test_headers_with_library_types_stay_in_their_folder():
    private = {rel(path)[len("daemon/"):] for path in files("daemon") if path.suffix == ".h"
               for _, name, _ in includes(path)
               if any(re.match(pattern, name) for pattern in LIBRARIES)}
    report([f"{rel(path)}:{line}: {name} knows a library" for path in files("daemon")
            for line, name, _ in includes(path)
            if name in private and name.split("/")[0] != layer(path)])


def test_the_service_names_no_library_type():
    found = []
    for folder in ("service", "engine", "base"):
        for path in files(f"daemon/{folder}"):
            text = code(read(path))
            for m in re.finditer(LIBRARY_NAMES, text):
                found.append(f"{rel(path)}:{line_of(text, m.start())}: {m.group(0)}")
    report(found)


def test_the_client_and_the_daemon_share_base_and_the_wire_alone():
    found = []
    for path in files("client", "include"):
        for line, name, quoted in includes(path):
            if quoted and name.split("/")[0] in set(MAY_INCLUDE) - {"base"}:
                found.append(f"{rel(path)}:{line}: the client may not include {name}")
    for path in files("client"):
        if not path.name.startswith(("ctl", "wqctl")):
            continue
        for line, name, quoted in includes(path):
            if re.search(r"pb-c|protobuf|openssl", name):
                found.append(f"{rel(path)}:{line}: wqctl is built on wq.h alone, not on {name}")
    report(found)


def test_only_base_alloc_allocates():
    report([f"{rel(path)}:{line}: {name}: x_alloc and friends"
            for path in files("daemon") if rel(path) != "daemon/base/alloc.c"
            for line, name in calls(path, ALLOCATORS)])


def test_banned_calls():
    for folder, names in (("daemon", {**BANNED, **BANNED_IN_DAEMON}), ("client", BANNED)):
        report([f"{rel(path)}:{line}: {name} is banned; use {names[name]}"
                for path in files(folder) for line, name in calls(path, names)])


def test_the_engine_does_no_io_and_reads_no_clock():
    report([f"{rel(path)}:{line}: {name} in the engine"
            for path in files("daemon/engine") for line, name in calls(path, CLOCKS_AND_IO)])


def test_asserts_stay_on():
    report([f"{rel(path)}: NDEBUG" for path in
            [*files("daemon", "client"), SOURCE / "configure.ac", SOURCE / "Makefile.am"]
            if "NDEBUG" in read(path)])


def test_files_are_short():
    report([f"{rel(path)}: {n} lines; split it by what it knows (600 at most)"
            for path in files("daemon", "client") if (n := read(path).count("\n")) >= 600])


def test_functions_are_short():
    """p50 about 15 lines, p90 under 55, none over 136: the norm of the trees we learn from. A switch
    over a table of words counts as its lines."""
    sizes = sorted((n, f"{rel(path)}:{line}: {name}: {n} lines")
                   for path in files("daemon", "client") for name, line, n in functions(path))
    if len(sizes) < 50:
        pytest.skip("too few functions to judge")
    report([text for n, text in sizes if n > 136])
    assert sizes[len(sizes) // 2][0] <= 20
    assert sizes[len(sizes) * 9 // 10][0] < 55


def is_script(path):
    """A build in place leaves programs beside the sources; scripts without a suffix are ours."""
    with open(path, "rb") as f:
        return f.read(2) == b"#!" and b"libtool" not in f.read(400)


def test_nothing_is_left_to_do():
    # In pieces, so that this file passes its own test.
    word = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
    found = []
    for path in files("daemon", "client", "include", "proto", "tests", "systemd", "docs", ".ci",
                      suffixes=(".c", ".h", ".py", ".proto", ".md", ".mk", ".in", ".sh", "")):
        if not path.suffix and not is_script(path):
            continue
        for i, line in enumerate(read(path).splitlines(), 1):
            if word.search(line):
                found.append(f"{rel(path)}:{i}: {line.strip()}")
    report(found)


def test_headers_have_their_guard():
    found = []
    for path in files("daemon"):
        if path.suffix != ".h":
            continue
        guard = "WQD_" + re.sub(r"[^A-Z0-9]", "_", rel(path)[len("daemon/"):].upper())
        m = re.search(r"#ifndef (\w+)\n#define (\w+)\n", read(path))
        if not m or m.group(1) != guard or m.group(2) != guard:
            found.append(f"{rel(path)}: the guard is {guard}")
    report(found)
