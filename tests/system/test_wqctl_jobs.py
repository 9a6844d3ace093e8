"""wqctl's verbs on jobs, over a real daemon: answers, JSON names, exit statuses."""
import base64
import json
import os
import re
import subprocess
import time

import pytest

from conftest import WQCTL, handler, queue, until
from wire import now_ms

REPLY = {"outcome", "queue", "key", "state_before", "deadline_ms", "old_deadline_ms", "generation",
         "coalesced"}
JOB = {"queue", "key", "state", "pending", "deadline_ms", "generation", "attempt", "coalesced", "last"}
RUN = {"generation", "attempt", "outcome", "exit_code", "signal", "errno", "due_ms", "started_ms",
       "ended_ms", "coalesced", "output", "truncated"}

SH = handler("sh", "/bin/sh", "-s")
CONF = SH + queue("run", handler="sh") + queue("retry", handler="sh", max_attempts=2,
                                               retry_delay="10ms")


@pytest.fixture
def sh(make_daemon):
    """Queues `run` and `retry` execute their payload with /bin/sh."""
    return make_daemon(CONF)


# ---- update and schedule ----

def test_update_tells_outcome_deadlines_and_coalesced(wqd):
    before = now_ms()
    got = wqd.json("update", "host-1", "1h")
    assert REPLY <= got.keys()
    assert (got["outcome"], got["queue"], got["key"]) == ("CREATED", "default", "host-1")
    assert got["state_before"] == "idle" and got["old_deadline_ms"] is None
    assert before + 3600_000 <= got["deadline_ms"] <= now_ms() + 3600_001
    again = wqd.json("update", "default/host-1", "--in", "2h")
    assert again["outcome"] == "UPDATED_TIMER" and again["state_before"] == "armed"
    assert again["old_deadline_ms"] == got["deadline_ms"]
    assert again["coalesced"] == 1 and again["generation"] == got["generation"]


def test_update_in_words(wqd):
    out = wqd.ctl("update", "a", "1h", check=0).stdout
    assert re.fullmatch(r"CREATED +default/a  due \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} \(in .*\)"
                        r"  coalesced 0\n", out), out
    out = wqd.ctl("update", "a", "2h", check=0).stdout
    assert re.search(r"^UPDATED_TIMER .*  due .*  was .* \(in 59m.*\)  coalesced 1\n$", out), out
    assert wqd.ctl("-q", "update", "a", "3h", check=0).stdout == ""


def test_modes_and_conditions(wqd):
    first = wqd.json("schedule", "k", "1h")
    kept = wqd.json("schedule", "k", "2h")
    assert (first["outcome"], kept["outcome"]) == ("CREATED", "UNCHANGED")
    assert kept["deadline_ms"] == first["deadline_ms"]
    assert wqd.json("update", "k", "2h", "--mode", "earlier")["outcome"] == "UNCHANGED"
    assert wqd.json("update", "k", "10m", "--mode", "earlier")["outcome"] == "UPDATED_TIMER"
    assert wqd.json("update", "k", "1m", "--mode=later")["outcome"] == "UNCHANGED"
    assert wqd.json("update", "k", "1h", "--if-pending")["outcome"] == "UPDATED_TIMER"
    assert wqd.json("update", "none", "1h", "--if-pending", check=3)["outcome"] == "IDLE"
    wqd.ctl("get", "none", check=3)


def test_at_takes_a_point_in_time(wqd):
    got = wqd.json("update", "k", "--at", "2099-12-31T23:59:59.5+01:00")
    assert got["deadline_ms"] == 4102441199500


def test_targets_split_at_the_first_slash(wqd):
    got = wqd.json("update", "default/rack/3", "1h")
    assert (got["queue"], got["key"]) == ("default", "rack/3")
    got = wqd.json("get", "rack/3", "--queue", "default")
    assert (got["queue"], got["key"]) == ("default", "rack/3")
    wqd.ctl("update", "nowhere/k", "1h", check=3)


def test_slack_align_and_max_wait(wqd):
    wqd.json("update", "s", "1h", "--slack", "1m")
    assert wqd.json("update", "s", "1h", "--slack", "1m")["outcome"] == "SKIPPED"
    got = wqd.json("update", "a", "1h", "--align", "10m", "--align-exact")
    assert got["deadline_ms"] % 600_000 == 0
    first = wqd.json("update", "m", "1m", "--max-wait", "10m")
    got = wqd.json("update", "m", "5h", "--max-wait", "10m", check=None)
    assert got.get("error") == "INVALID" or got["deadline_ms"] <= first["deadline_ms"] + 600_000


def test_errors_of_the_daemon_are_told_in_its_words(wqd):
    got = wqd.json("update", "a\tb", "1s", check=1)
    assert got["error"] == "INVALID" and got["exit_status"] == 1 and "key" in got["message"]
    assert REPLY - {"outcome"} <= got.keys()
    done = wqd.ctl("update", "k", "900000h", check=1)
    assert done.stdout == "" and done.stderr.startswith("wqctl: ") and done.stderr.count("\n") == 1


def test_idempotency_id_is_applied_once(wqd):
    first = wqd.json("update", "k", "1h", "--id", "abc")
    again = wqd.json("update", "k", "1h", "--id", "abc")
    assert first == again and first["outcome"] == "CREATED"


@pytest.mark.parametrize("level", ["sync", "async", "memory"])
def test_durability(wqd, level):
    wqd.json("update", "k", "1h", "--durability", level)
    assert wqd.json("get", "k")["durability"] == level


def test_payloads(sh, tmp):
    script = tmp / "script"
    script.write_text("echo from file\n")
    sh.json("update", "run/a", "0", "--payload", "echo from text")
    assert sh.json("wait", "run/a")["output"] == "from text\n"
    sh.json("update", "run/b", "0", "--payload-file", script)
    assert sh.json("wait", "run/b")["output"] == "from file\n"
    sh.json("update", "run/c", "0", "--payload-file", "-", input="echo from stdin\n")
    assert sh.json("wait", "run/c")["output"] == "from stdin\n"
    sh.json("update", "run/d", "1h", "--payload", "echo one")
    sh.json("update", "run/d", "1h", "--payload", "echo two", "--append")
    assert sh.json("flush", "--now", "run/d")["output"] == "one\ntwo\n"
    done = sh.ctl("update", "run/e", "0", "--payload-file", tmp / "none", check=1)
    assert done.stderr == f"wqctl: cannot read the payload from {tmp}/none: No such file or directory\n"
    sh.ctl("get", "run/e", check=3)


# ---- batches ----

def test_batch_answers_a_line_each_in_order(wqd):
    lines = "a 1h\ndefault/b 2h\nb 3h\n\n key with spaces \t 1h\n"
    done = wqd.ctl("--json", "update", "--batch", input=lines, check=0)
    got = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(g["outcome"], g["key"]) for g in got] == [
        ("CREATED", "a"), ("CREATED", "b"), ("UPDATED_TIMER", "b"), ("CREATED", "key with spaces")]
    assert all(REPLY <= g.keys() for g in got)
    text = wqd.ctl("schedule", "--batch", input="a 2h\nc 1h", check=0).stdout.splitlines()
    assert [line.split()[:2] for line in text] == [["UNCHANGED", "default/a"], ["CREATED", "default/c"]]


def test_batch_reports_bad_lines_in_their_place_and_goes_on(wqd):
    lines = "a 1h\nnonsense\nq/ 1s\nnowhere/x 1s\nb 1h\n" + "k" * 300 + " 1s\n"
    done = wqd.ctl("--json", "update", "--batch", input=lines)
    got = [json.loads(line) for line in done.stdout.splitlines()]
    assert [g.get("error") for g in got] == [None, "USAGE", "USAGE", "NOT_FOUND", None, "USAGE"]
    assert got[1]["message"].startswith("line 2: ") and got[5]["message"].startswith("line 6: ")
    assert done.returncode == 2 and done.stderr == ""
    assert wqd.json("get", "b")["state"] == "armed"
    said = wqd.ctl("update", "--batch", input=lines).stderr.splitlines()
    assert [line.split(":")[1] for line in said] == [" line 2", " line 3", " line 4", " line 6"]
    assert said[2] == "wqctl: line 4: no such queue"


def test_batch_of_many_with_options(wqd):
    lines = "".join(f"k{i} 1h\n" for i in range(10000))
    done = wqd.ctl("-q", "update", "--batch", "--queue", "default", "--durability", "memory",
                   input=lines, check=0)
    assert done.stdout == "" and done.stderr == ""
    assert wqd.json("queue", "show", "default")["armed"] == 10000


def test_batch_answers_before_more_comes(wqd):
    """A slow producer sees each of its lines answered."""
    with subprocess.Popen([str(WQCTL), "--server", wqd.address, "update", "--batch"], text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as proc:
        for key in ("a", "b"):
            proc.stdin.write(f"{key} 1h\n")
            proc.stdin.flush()
            assert proc.stdout.readline().split()[:2] == ["CREATED", f"default/{key}"]
        proc.stdin.close()
        assert proc.wait(60) == 0


# ---- cancel, flush, wait ----

def test_cancel(sh):
    sh.json("update", "run/a", "1h")
    got = sh.json("cancel", "run/a")
    assert REPLY <= got.keys() and got["outcome"] == "CANCELLED" and got["deadline_ms"] is None
    assert sh.json("cancel", "run/a", check=3)["outcome"] == "IDLE"
    assert "IDLE" in sh.ctl("cancel", "run/a", check=3).stdout


def start(daemon, key, script="read line; sleep 60"):
    daemon.json("update", f"run/{key}", "0", "--payload", script)
    until(lambda: daemon.json("get", f"run/{key}")["state"] == "running")


def test_cancel_of_a_run(sh):
    start(sh, "a")
    assert sh.json("cancel", "run/a", check=1)["outcome"] == "NOT_PENDING_RUNNING"
    got = sh.json("cancel", "run/a", "--wait", "--timeout", "50ms", check=7)
    assert got["error"] == "TIMEOUT" and got["exit_status"] == 7
    assert sh.json("cancel", "--kill", "run/a")["outcome"] == "CANCELLED_RUNNING"
    got = sh.json("get", "run/a")
    assert got["state"] == "idle" and got["last"]["outcome"] == "cancelled"


def test_cancel_wait_is_done_when_the_run_has_ended(sh, tmp):
    gate = tmp / "gate"
    os.mkfifo(gate)
    start(sh, "a", f"read line <{gate}")
    with subprocess.Popen([str(WQCTL), "--server", sh.address, "--json", "cancel", "--wait", "run/a"],
                          stdout=subprocess.PIPE) as proc:
        # While it waits, updates are refused: that tells that it waits.
        until(lambda: sh.ctl("update", "run/a", "1h", "--if-pending").returncode == 4)
        gate.write_text("go\n")
        assert json.loads(proc.stdout.read())["outcome"] == "NOT_PENDING_RUNNING"
        assert proc.wait(60) == 0


def test_flush(sh):
    assert sh.json("flush", "run/none", check=3)["outcome"] == "IDLE"
    sh.json("update", "run/a", "1h", "--payload", "echo hello")
    assert sh.json("flush", "run/a")["outcome"] == "OK"
    got = sh.json("flush", "run/a", "--now")
    assert RUN <= got.keys() and (got["outcome"], got["output"]) == ("done", "hello\n")
    sh.json("update", "run/a", "1h", "--payload", "exit 3")
    got = sh.json("flush", "run/a", "--now", check=6)
    assert (got["outcome"], got["exit_code"], got["signal"]) == ("failed", 3, None)


def test_flush_of_a_queue(sh):
    sh.json("pause", "run")
    sh.json("update", "run/a", "0")
    assert sh.json("flush", "--queue", "run", "--timeout", "50ms", check=7)["error"] == "TIMEOUT"
    with subprocess.Popen([str(WQCTL), "--server", sh.address, "--json", "flush", "--queue", "run"],
                          stdout=subprocess.PIPE) as proc:
        sh.json("resume", "run")
        assert json.loads(proc.stdout.read()) == {"outcome": "OK", "queue": "run"}
        assert proc.wait(60) == 0
    assert sh.json("get", "run/a")["last"]["outcome"] == "done"
    sh.json("flush", "--queue", "nowhere", check=3)


def test_wait(sh):
    assert sh.json("wait", "run/none", check=3)["error"] == "NOT_FOUND"
    sh.json("update", "run/a", "50ms", "--payload", "echo hi")
    got = sh.json("wait", "run/a")
    assert RUN <= got.keys() and got["outcome"] == "done" and got["exit_code"] == 0
    assert got["due_ms"] <= got["started_ms"] <= got["ended_ms"]
    assert sh.json("wait", "run/a", "--generation", got["generation"]) == got
    sh.json("wait", "run/a", "--generation", "999", check=3)
    sh.json("update", "run/a", "1h")
    assert sh.json("wait", "run/a", "--timeout", "0", check=7)["error"] == "TIMEOUT"
    assert sh.json("wait", "run/a", "--timeout", "50ms", check=7)["exit_status"] == 7


@pytest.mark.parametrize("script,outcome,field,value", [
    ("exit 7", "failed", "exit_code", 7), ("kill -9 $$", "failed", "signal", 9)])
def test_wait_for_a_run_that_fails(sh, script, outcome, field, value):
    sh.json("update", "run/a", "0", "--payload", script)
    got = sh.json("wait", "run/a", check=6)
    assert got["outcome"] == outcome and got[field] == value
    assert sh.ctl("wait", "run/a", check=6).stderr == ""


def test_wait_for_one_that_is_cancelled(sh):
    sh.json("update", "run/a", "1h")
    with subprocess.Popen([str(WQCTL), "--server", sh.address, "--json", "wait", "run/a"],
                          stdout=subprocess.PIPE) as proc:
        until(lambda: sh.json("stat")["waiters"] == 1)
        sh.json("cancel", "run/a")
        assert json.loads(proc.stdout.read())["outcome"] == "CANCELLED"
        assert proc.wait(60) == 6


# ---- looking ----

def test_get(sh):
    assert sh.json("get", "run/none", check=3)["error"] == "NOT_FOUND"
    sh.json("update", "run/a", "0", "--payload", "echo x")
    sh.json("wait", "run/a")
    sh.json("update", "run/a", "1h", "--payload", "four")
    got = sh.json("get", "run/a")
    assert JOB <= got.keys() and got["state"] == "armed" and got["pending"] is True
    assert got["payload_bytes"] == 4
    assert RUN <= got["last"].keys() and got["last"]["outcome"] == "done"
    text = sh.ctl("get", "run/a", check=0).stdout
    assert "run/a" in text and "state       armed" in text and "\n    x\n" in text
    assert sh.ctl("-q", "get", "run/a", check=0).stdout == "armed\n"


def test_list_filters_and_sorts(wqd):
    wqd.json("queue", "create", "q")
    for target, delay in (("q/b", "3h"), ("q/a", "2h"), ("z", "1h"), ("q/ax", "4h")):
        wqd.json("update", target, delay)

    def keys(*args):
        return [j["key"] for j in wqd.json("list", *args)["jobs"]]
    assert sorted(keys()) == ["a", "ax", "b", "z"]
    assert keys("--sort", "key") == ["z", "a", "ax", "b"]
    assert keys("--sort", "due") == ["z", "a", "b", "ax"]
    assert keys("--sort", "due", "--limit", "2") == ["z", "a"]
    assert len(keys("--limit", "3")) == 3
    assert keys("q", "--sort", "key") == keys("--queue", "q", "--sort", "key") == ["a", "ax", "b"]
    assert keys("q/a", "--sort", "key") == keys("q", "--prefix", "a", "--sort=key") == ["a", "ax"]
    assert sorted(keys("--state", "armed")) == ["a", "ax", "b", "z"] and keys("--state", "running") == []
    soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 2.5 * 3600))
    assert sorted(keys("--due-to", soon)) == ["a", "z"]
    assert sorted(keys("--due-from", soon)) == ["ax", "b"]
    assert wqd.json("list", "--prefix", "none") == {"jobs": []}
    assert JOB <= wqd.json("list", "--limit", "1")["jobs"][0].keys()
    lines = wqd.ctl("list", "--sort", "due", check=0).stdout.splitlines()
    assert lines[0].split() == ["STATE", "DEADLINE", "COALESCED", "JOB"]
    assert [line.split()[-1] for line in lines[1:]] == ["default/z", "q/a", "q/b", "q/ax"]
    assert wqd.ctl("-q", "list", "q", "--sort", "key").stdout == "q/a\nq/ax\nq/b\n"
    wqd.ctl("list", "nowhere", check=3)


def test_history_is_newest_first(sh):
    for n in (1, 2, 3):
        sh.json("update", "run/a", "0", "--payload", f"echo {n}")
        sh.json("wait", "run/a")
    sh.json("update", "run/b", "0", "--payload", "echo b")
    sh.json("wait", "run/b")
    runs = sh.json("history", "run/a")["runs"]
    assert [r["output"] for r in runs] == ["3\n", "2\n", "1\n"] and RUN <= runs[0].keys()
    assert len(sh.json("history", "run/a", "--limit", "2")["runs"]) == 2
    assert {r["key"] for r in sh.json("history", "--queue", "run")["runs"]} == {"a", "b"}
    assert "run/a  generation" in sh.ctl("history", "run/a", check=0).stdout


# ---- changing ----

def test_disable_enable_delete_kick(sh):
    sh.json("update", "run/a", "1h", "--payload", "echo kicked")
    got = sh.json("disable", "run/a")
    assert (got["outcome"], got["disable_depth"]) == ("CANCELLED", 1)
    assert sh.json("disable", "run/a")["disable_depth"] == 2
    got = sh.json("update", "run/a", "1h", check=4)
    assert got["error"] == got["outcome"] == "REFUSED_DISABLED" and got["exit_status"] == 4
    assert "disabled" in sh.ctl("update", "run/a", "1h", check=4).stderr
    assert sh.json("enable", "run/a")["disable_depth"] == 1
    assert sh.json("enable", "run/a")["disable_depth"] == 0
    assert sh.json("enable", "run/a", check=1)["error"] == "INVALID"
    sh.json("kick", "run/a", check=3)
    sh.json("update", "run/a", "1h", "--payload", "echo kicked")
    sh.json("kick", "run/a")
    assert sh.json("wait", "run/a")["output"] == "kicked\n"
    sh.json("delete", "run/a")
    sh.json("get", "run/a", check=3)
    sh.json("delete", "run/a", check=3)


# ---- why ----

def reasons(daemon, target):
    got = daemon.json("why", target)
    assert JOB <= got.keys() and all(r["text"].endswith(".") for r in got["reasons"])
    text = daemon.ctl("why", target, check=0).stdout.splitlines()
    assert len(text) == len(got["reasons"]) + 1
    return [r["reason"] for r in got["reasons"]]


def test_why(sh):
    sh.json("why", "run/none", check=3)
    sh.json("update", "run/a", "1h")
    assert reasons(sh, "run/a") == ["armed"]
    sh.json("pause", "run")
    assert reasons(sh, "run/a") == ["armed", "paused"]
    sh.json("kick", "run/a")
    assert reasons(sh, "run/a") == ["paused"]
    sh.json("resume", "run")
    sh.json("wait", "run/a")
    assert reasons(sh, "run/a") == ["idle"]
    assert "its last run (done, exit 0) ended" in sh.ctl("why", "run/a").stdout
    sh.json("queue", "set", "run", "max_active=1")
    start(sh, "long")
    assert reasons(sh, "run/long") == ["running"]
    sh.json("update", "run/a", "0")
    assert reasons(sh, "run/a") == ["max_active"]
    assert "1 running, 1 allowed" in sh.ctl("why", "run/a").stdout
    sh.json("update", "run/long", "1h")
    assert reasons(sh, "run/long") == ["running", "requeued", "armed"]
    sh.json("disable", "run/a")
    assert reasons(sh, "run/a")[0] == "disabled"
    sh.json("cancel", "--kill", "run/long")


def test_why_of_a_dead_job_and_of_one_that_waits_for_a_retry(sh):
    sh.json("update", "retry/a", "0", "--payload", "exit 1")
    assert sh.json("wait", "retry/a", check=6)["outcome"] == "dead"
    assert reasons(sh, "retry/a") == ["dead"]
    assert "used up, the last one: exit 1." in sh.ctl("why", "retry/a").stdout
    sh.json("queue", "set", "retry", "retry_delay=1h")
    sh.json("kick", "retry/a")
    until(lambda: sh.json("get", "retry/a")["attempt"] == 2)
    assert reasons(sh, "retry/a") == ["retry"]


# ---- output of runs ----

def test_output_that_is_no_utf8_is_lossy_text_and_base64(sh):
    raw = b"ok \xff\xfe\xe2\x82 \x1b[31m\xe2\x80\xae end"
    octal = "".join(f"\\{b:03o}" for b in raw)
    sh.json("update", "run/a", "0", "--payload", f"printf '{octal}'")
    got = sh.json("wait", "run/a")
    assert got["output"] == raw.decode(errors="replace")
    assert base64.b64decode(got["output_base64"]) == raw
    text = sh.ctl("wait", "run/a", check=0).stdout
    assert "\\xff\\xfe\\xe2\\x82 \\x1b[31m\\u{202e} end" in text and "\x1b" not in text
    sh.json("update", "run/b", "0", "--payload", "echo fine")
    assert "output_base64" not in sh.json("wait", "run/b")
