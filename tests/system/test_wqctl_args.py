"""wqctl without a daemon: usage errors, help, addresses, what is generated from its table."""
import json
import os
import re
import subprocess

import pytest

from conftest import SOURCE, WQCTL

NOWHERE = "unix:/nonexistent/wqd.sock"


def ctl(*args, **kw):
    env = dict(os.environ, WQ_SERVER=NOWHERE) | kw.pop("env", {})
    return subprocess.run([str(WQCTL), *args], env=env, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=60, check=False, **kw)


USAGE = [
    ([], "no verb"),
    (["frobnicate"], "there is no verb 'frobnicate'"),
    (["updaet", "k", "1s"], "there is no verb 'updaet'; did you mean 'update'?"),
    (["completion", "completeall"], "did you mean 'completion complete-all'?"),
    (["help", "sched"], "there is no verb 'sched' (see 'wqctl help')"),
    (["queue"], "second word"),
    (["queue", "frobnicate"], "there is no verb 'queue frobnicate' (see 'wqctl help queue')"),
    (["update"], "argument is missing"),
    (["update", "k"], "no time is given"),
    (["update", "k", "30"], "'30' has no unit"),
    (["update", "k", "1.5s"], "'1.5s' is not a duration"),
    (["update", "k", "30s", "--in", "5s"], "exclude each other"),
    (["update", "k", "--in", "5s", "--at", "2026-03-01T00:00:00Z"], "exclude each other"),
    (["update", "k", "--at", "2026-02-29T00:00:00Z"], "--at: '2026-02-29T00:00:00Z' is not"),
    (["update", "k", "--at", "2026-03-01T00:00:00"], "has no offset"),
    (["update", "k", "1s", "2s"], "'2s' is one argument too many"),
    (["update", "/k", "1s"], "the queue is empty"),
    (["update", "q/", "1s"], "the key is empty"),
    (["update", "k" * 256, "1s"], "longer than 255 bytes"),
    (["update", "q" * 129 + "/k", "1s"], "longer than 128 bytes"),
    (["update", "k", "1s", "--mode", "never"], "'never' is not one of set, keep, earlier, later"),
    (["update", "k", "1s", "--durability", "hard"], "not one of default, sync, async, memory"),
    (["update", "k", "1s", "--slack", "x"], "--slack: 'x' is not a duration"),
    (["update", "k", "1s", "--payload", "a", "--payload-file", "b"], "exclude each other"),
    (["update", "k", "1s", "--append"], "--append needs a payload"),
    (["update", "k", "1s", "--align-exact"], "--align-exact needs --align"),
    (["update", "k", "1s", "--batch"], "come from stdin"),
    (["update", "--batch", "--id", "x"], "--id names one update"),
    (["schedule", "k", "1s", "--mode", "set"], "there is no option '--mode'"),
    (["cancel", "k", "--wait", "--kill"], "exclude each other"),
    (["flush"], "TARGET or --queue"),
    (["flush", "--queue", "q", "--now"], "--now is for one job"),
    (["wait", "k", "--generation", "0"], "'0' is out of range (1 or more)"),
    (["wait", "k", "--generation", "-1"], "'-1' is not a number (1 or more)"),
    (["list", "--state", "asleep"], "'asleep' is not one of"),
    (["list", "--limit", "99999999999999999999"], "is not a number"),
    (["list", "q", "--queue", "r"], "exclude each other"),
    (["list", "q/p", "--prefix", "r"], "exclude each other"),
    (["history"], "TARGET or --queue"),
    (["queue", "set", "q", "max_active"], "'max_active' is not NAME=VALUE"),
    (["queue", "set", "q", "=4"], "'=4' is not NAME=VALUE"),
    (["queue", "set", "q", "slack=1s", "rate=0", "slack=2s"], "slack is given twice"),
    (["ping", "--tls-key", "/k.pem"], "--tls-key needs --tls-cert"),
    (["bench", "--pipeline", "0"], "(1 to 4096)"),
    (["ping", "--frobnicate"], "there is no option '--frobnicate'"),
    (["ping", "-x"], "there is no option -x"),
    (["ping", "-j1"], "there is no option -j"),
    (["-j", "1", "work", "q", "--", "true"], "there is no option -j"),
    (["work", "q", "-j"], "-j needs a value"),
    (["work", "q", "-j300", "--", "true"], "'300' is out of range (1 to 256)"),
    (["ping", "--json=yes"], "--json takes no value"),
    (["ping", "--timeout"], "--timeout needs a value"),
    (["ping", "now"], "'now' is one argument too many"),
    (["--server", "localhost:7421", "ping"], "'localhost:7421' is no address"),
    (["help", "frobnicate"], "there is no verb 'frobnicate' (see 'wqctl help')"),
]


@pytest.mark.parametrize("args,words", USAGE, ids=[" ".join(a)[:40] for a, _ in USAGE])
def test_usage_errors_name_what_is_wrong(args, words):
    done = ctl(*args)
    assert done.returncode == 2 and done.stdout == ""
    assert words in done.stderr and done.stderr.count("\n") == 1, done.stderr
    if "no address" not in words:
        assert "see 'wqctl help" in done.stderr
    last = not {"--timeout", "-j", "--"} & set(args)  # behind these it would be something else
    done = ctl(*args, "--json") if last else ctl("--json", *args)
    if args[1:2] == ["--json=yes"]:
        return
    error = json.loads(done.stdout)
    assert done.returncode == 2 and error["exit_status"] == 2
    assert words in error["message"] and done.stderr == ""


def test_no_daemon_says_the_address_that_was_tried(tmp):
    for server in (NOWHERE, f"unix:{tmp}/none", "tcp://127.0.0.1:1"):
        done = ctl("--server", server, "ping")
        assert done.returncode == 8 and server in done.stderr and done.stdout == ""
        error = json.loads(ctl("--server", server, "--json", "ping").stdout)
        assert error["error"] == "NO_DAEMON" and error["exit_status"] == 8
        assert server in error["message"]


def test_server_option_wins_over_the_environment():
    assert NOWHERE in ctl("ping").stderr
    assert "unix:/other" in ctl("ping", "--server=unix:/other").stderr
    assert "unix:/run/wqd/wqd.sock" in ctl("--help", env={"WQ_SERVER": ""}).stdout


def test_options_may_stand_anywhere_whatever_posixly_correct_says():
    for env in ({}, {"POSIXLY_CORRECT": "1"}):
        for args in (["--json", "update", "k", "1s"], ["update", "--json", "k", "1s"],
                     ["update", "k", "1s", "--json"], ["update", "k", "--mode", "keep", "1s", "--json"]):
            done = ctl(*args, env=env)
            assert done.returncode == 8 and json.loads(done.stdout)["error"] == "NO_DAEMON"


def test_words_after_two_hyphens_are_no_options():
    done = ctl("get", "--", "--json")
    assert done.returncode == 8 and done.stdout == ""
    assert ctl("get", "--", "a", "b").returncode == 2


def verbs():
    out = ctl("dump-completion").stdout
    return [line.split("|")[0] for line in out.splitlines()][1:]


def test_what_no_daemon_is_to_blame_for_is_told_as_what_it_is(tmp):
    done = ctl("--json", "--token-file", "/nowhere", "ping")
    assert done.returncode == 1 and '"error":"ENOENT"' in done.stdout
    assert "cannot read the token from /nowhere" in done.stdout
    for args, env, word in ((["--namespace", "n" * 33], {}, "WQ_NAMESPACE"),
                            ([], {"WQ_NAMESPACE": "n" * 33}, "WQ_NAMESPACE"),
                            ([], {"WQ_TLS_CA": "/" + "a" * 1023}, "WQ_TLS_CA")):
        done = ctl("--json", *args, "ping", env=env)
        assert done.returncode == 1 and '"error":"OPTION"' in done.stdout, done
        assert f"{word}: the value is too long" in done.stdout


def test_every_verb_has_help():
    whole = ctl("help")
    assert whole.returncode == 0 and whole.stdout == ctl("--help").stdout == ctl("-h").stdout
    assert len(verbs()) > 25
    for verb in verbs():
        assert f"  {verb}" in whole.stdout
        done = ctl("help", *verb.split())
        assert done.returncode == 0 and f"usage: wqctl {verb}" in done.stdout
        assert ctl(*verb.split(), "--help").stdout == done.stdout
        assert max(map(len, done.stdout.splitlines())) <= 80
        # Behind the summary's line a line ends where the next word would not fit.
        words = done.stdout.split("\n\nOptions")[0].split("\n\n", 1)[1].partition("\n")[2]
        for line, after in re.findall(r"(.+)\n(?=(\S+))", words):
            assert len(f"{line} {after}") > 80, (verb, line)
    assert "dump-man" not in whole.stdout


def test_version():
    done = ctl("--version")
    assert done.returncode == 0 and re.fullmatch(r"wqctl \d+\.\d+\.\d+\n", done.stdout)


def between_marks(path):
    text = path.read_text()
    return text.split("begin generated\n")[1].split("end generated")[0].rsplit("\n", 1)[0] + "\n"


@pytest.mark.parametrize("verb,path", [
    ("dump-man", "docs/man/wqctl.1"), ("dump-completion", "client/wqctl.bash-completion")])
def test_generated_parts_are_up_to_date(verb, path):
    assert between_marks(SOURCE / path) == ctl(verb).stdout, "run `make update-wqctl`"


COMPLETE = r"""
source "$1"; shift
COMP_LINE=$1 COMP_POINT=${#1}; shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_wqctl
printf '%s\n' "${COMPREPLY[@]}"
"""


def complete(line, *words, path):
    script = SOURCE / "client" / "wqctl.bash-completion"
    done = subprocess.run(["bash", "-c", COMPLETE, "bash", script, line, *words],
                          env=dict(os.environ, PATH=f"{path}:{os.environ['PATH']}"),
                          capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr == ""
    return done.stdout.split("\n")[:-1]


@pytest.fixture
def fake(tmp):
    """A wqctl that knows four queues, for completion to ask."""
    prog = tmp / "wqctl"
    prog.write_text("#!/bin/sh\necho \"$*\" >>\"$(dirname \"$0\")/asked\"\n"
                    "printf 'default\\nhb\\nhb two\\nmail:x\\n'\n")
    prog.chmod(0o755)
    return tmp


def test_completion_offers_verbs_options_and_words(fake):
    assert complete("wqctl up", "wqctl", "up", path=fake) == ["update", "upgrade"]
    assert set(complete("wqctl ", "wqctl", "", path=fake)) == {v.split()[0] for v in verbs()}
    assert complete("wqctl queue s", "wqctl", "queue", "s", path=fake) == ["set", "show"]
    assert complete("wqctl update a --mo", "wqctl", "update", "a", "--mo", path=fake) == ["--mode"]
    assert "--json" in complete("wqctl ping --", "wqctl", "ping", "--", path=fake)
    assert "--mode" not in complete("wqctl ping --", "wqctl", "ping", "--", path=fake)
    assert complete("wqctl update a --mode ", "wqctl", "update", "a", "--mode", "", path=fake) == \
        ["set", "keep", "earlier", "later"]
    # Readline splits at = and replaces what follows it alone.
    assert complete("wqctl update a --mode=e", "wqctl", "update", "a", "--mode", "=", "e",
                    path=fake) == ["earlier"]
    assert complete("wqctl help que", "wqctl", "help", "que", path=fake) == ["queue"]


def test_completion_asks_the_daemon_for_queues(fake):
    assert complete("wqctl pause h", "wqctl", "pause", "h", path=fake) == ["hb", "hb\\ two"]
    assert complete("wqctl update h", "wqctl", "update", "h", path=fake) == ["hb/", "hb\\ two/"]
    assert complete("wqctl pause mail:", "wqctl", "pause", "mail", ":", path=fake) == ["x"]
    assert complete("wqctl --server unix:/x cancel --queue=d", "wqctl", "--server", "unix", ":",
                    "/x", "cancel", "--queue", "=", "d", path=fake) == ["default"]
    assert "--server unix:/x" in (fake / "asked").read_text().splitlines()[-1]


def test_completion_is_quiet_without_a_daemon():
    script = SOURCE / "client" / "wqctl.bash-completion"
    done = subprocess.run(["bash", "-c", COMPLETE, "bash", script, "wqctl pause x", str(WQCTL), "pause", "x"],
                          env=dict(os.environ, WQ_SERVER=NOWHERE,
                                   PATH=f"{WQCTL.parent}:{os.environ['PATH']}"),
                          capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "" and done.stderr == ""
