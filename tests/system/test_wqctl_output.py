"""Where wqctl's output goes: CLI-01 (it cannot be written), CLI-02 (JSON and nothing else)."""
import json
import os
import pty
import shutil
import subprocess

import pytest

from conftest import WQCTL, handler, queue

ROWS = 100_000


def popen(daemon, *args, **kw):
    kw.setdefault("stderr", subprocess.PIPE)
    return subprocess.Popen([str(WQCTL), "--server", daemon.address, *args], **kw)


@pytest.fixture
def full(make_daemon):
    """A daemon with 100 000 jobs."""
    d = make_daemon('queue "big" { durability = "memory" }\n')
    lines = "".join(f"big/key-{i:06} 1h\n" for i in range(ROWS))
    d.ctl("-q", "update", "--batch", input=lines, check=0, timeout=300)
    return d


def test_cli_01_list_of_100000_into_head_ends_quietly(full):
    for mode in ([], ["--json"], ["--sort", "key"]):
        with popen(full, "list", *mode, stdout=subprocess.PIPE) as proc:
            assert len(proc.stdout.read(100)) == 100
            proc.stdout.close()
            assert proc.wait(60) == 1
            assert proc.stderr.read() == b""
    rows = json.loads(full.ctl("--json", "list", check=0, timeout=300).stdout)["jobs"]
    assert len({r["key"] for r in rows}) == len(rows) == ROWS
    assert full.ctl("list", check=0).stdout.count("\n") == ROWS + 1


ANSWERS = [["ping"], ["update", "k", "1h"], ["get", "k"], ["list"], ["stat"], ["queue", "list"],
           ["queue", "show", "default"], ["pause", "default"], ["why", "k"], ["help"], ["--version"],
           ["history", "--queue", "default", "--json"]]


@pytest.mark.parametrize("json_too", [False, True], ids=["text", "json"])
def test_cli_01_output_that_cannot_be_written_is_failure(wqd, json_too):
    wqd.json("update", "k", "1h")
    for verb in ANSWERS:
        args = verb + (["--json"] if json_too and verb[0] not in ("help", "--version") else [])
        with open("/dev/full", "wb") as dev_full:
            with popen(wqd, *args, stdout=dev_full) as proc:
                err = proc.stderr.read().decode()
                assert proc.wait(60) == 1, args
                assert err == "wqctl: cannot write the output: No space left on device\n", args
        # A pipe that nobody reads any more, and no stdout at all: quiet.
        r, w = os.pipe()
        os.close(r)
        with popen(wqd, *args, stdout=w) as proc:
            os.close(w)
            assert (proc.stderr.read(), proc.wait(60)) == (b"", 1), args
        done = subprocess.run(
            ["/bin/sh", "-c", 'exec "$@" >&-', "sh", str(WQCTL), "--server", wqd.address, *args],
            stderr=subprocess.PIPE, timeout=60, check=False)
        assert (done.stderr, done.returncode) == (b"", 1), args
    # What was asked was done all the same, and an error keeps its own status.
    assert wqd.json("queue", "show", "default")["paused"] is True
    with open("/dev/full", "wb") as dev_full, popen(wqd, "get", "none", "--json", stdout=dev_full) as proc:
        assert proc.stderr.read() != b"" and proc.wait(60) == 3


def test_cli_01_closed_descriptors_are_not_mistaken_for_the_connection(wqd):
    script = 'exec "$@" <&- >&- 2>&-'
    done = subprocess.run(["/bin/sh", "-c", script, "sh", str(WQCTL), "--server", wqd.address, "update",
                           "k", "1h"], timeout=60, check=False)
    assert done.returncode == 1 and wqd.json("get", "k")["state"] == "armed"


JSON_VERBS = [
    (["update", "k\u20ac", "1h"], 0), (["update", "a\x1bb", "1h"], 1), (["update", "k", "soon"], 2),
    (["schedule", "k\u20ac", "1h"], 0), (["cancel", "none"], 3), (["get", "k\u20ac"], 0),
    (["list"], 0), (["list", "--sort", "due"], 0), (["list", "nowhere"], 3), (["why", "k\u20ac"], 0),
    (["history", "run/noisy"], 0), (["wait", "run/noisy"], 6), (["flush", "run/noisy"], None),
    (["wait", "k\u20ac", "--timeout", "10ms"], 7), (["kick", "none"], 3), (["disable", "d"], 0),
    (["update", "d", "1h"], 4), (["enable", "d"], 0), (["delete", "none"], 3), (["queue", "list"], 0),
    (["queue", "show", "run"], 0), (["queue", "create", "n", "slack=1500ms"], 0),
    (["queue", "set", "n", "x=y"], 1), (["queue", "delete", "n"], 0), (["pause", "default"], 0),
    (["resume", "default"], 0), (["drain", "default"], 0), (["flush", "--queue", "default"], 0),
    (["stat"], 0), (["ping"], 0), (["reload"], 0), (["bench", "--count", "200", "--keys", "9"], 0),
    (["frobnicate"], 2), (["--server", "unix:/nonexistent", "ping"], 8),
]


# libtool's wrapper is a shell script, which has words of its own about locales.
REAL = WQCTL.parent / ".libs" / "wqctl"


@pytest.fixture
def comma_locale(tmp):
    """An environment whose decimal sign is a comma, as far as the machine has one."""
    made = subprocess.run(["localedef", "-f", "UTF-8", "-i", "de_DE", str(tmp / "de_DE.UTF-8")],
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, check=False) \
        if shutil.which("localedef") else None
    env = {"LC_ALL": "de_DE.UTF-8", "LANG": "de_DE.UTF-8"}
    return env | ({"LOCPATH": str(tmp)} if made and made.returncode <= 1 else {})


def on_tty(argv, env):
    """Runs argv with a terminal as stdin, stdout and stderr: what it wrote, its exit status."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execve(argv[0], argv, env)
    out = b""
    try:
        while data := os.read(fd, 65536):
            out += data
    except OSError:
        pass
    os.close(fd)
    return out, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.fixture
def noisy(make_daemon):
    d = make_daemon(handler("sh", "/bin/sh", "-s") + queue("run", handler="sh"))
    d.json("update", "run/noisy", "0", "--payload", "printf '\\033[31m\\377warning\\302\\2332J'; exit 1")
    d.json("wait", "run/noisy", check=6)
    return d


def test_cli_02_json_is_one_value_and_nothing_else(noisy, comma_locale):
    """Comma-decimal locale, terminal or not, a handler that printed escapes, errors included."""
    env = dict(os.environ, WQ_SERVER=noisy.address, TERM="xterm-256color", CLICOLOR_FORCE="1",
               LD_LIBRARY_PATH=str(REAL.parent)) | comma_locale
    for verb, status in JSON_VERBS:
        argv = [str(REAL if REAL.exists() else WQCTL), "--json", *verb]
        done = subprocess.run(argv, env=env, capture_output=True, stdin=subprocess.DEVNULL,
                              timeout=60, check=False)
        tty_out, tty_status = on_tty(argv, env)
        for out, code in ((done.stdout, done.returncode), (tty_out, tty_status)):
            if status is not None and verb[:2] not in (["queue", "create"], ["queue", "delete"]):
                assert code == status, (verb, out)
            value = json.loads(out)
            assert isinstance(value, dict), verb
            assert out.count(b"\n") == 1 and out.endswith(b"\n"), verb
            assert not any(b < 0x20 and b not in b"\r\n" or b > 0x7e for b in out), (verb, out)
            if "exit_status" in value:
                assert value["exit_status"] == code and value["error"] and value["message"]
        assert done.stderr == b"", verb


def test_cli_02_warnings_go_to_stderr(wqd):
    """A bench whose updates fail says why, beside its one value."""
    wqd.json("disable", "x")
    wqd.json("queue", "create", "small", "max_jobs=5")
    done = wqd.ctl("--json", "bench", "--queue", "small", "--keys", "9", "--count", "50")
    value = json.loads(done.stdout)
    assert done.returncode == value.get("exit_status", 1) and done.returncode != 0
