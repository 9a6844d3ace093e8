"""wqctl against a peer that answers what no healthy daemon would, or nothing at all."""
import json
import os
import socket
import subprocess
import threading

import pytest

import wire
from conftest import WQCTL
from wire import pb


class Peer:
    """Answers hello by itself and every other request by `answer(request)`: replies to send, None to
    keep silent, bytes to send as they are, Exception to close."""

    def __init__(self, path, answer, hello=None):
        self.address = f"unix:{path}"
        self.answer = answer
        self.hello = pb.Reply(hello=pb.HelloInfo(version=1, server="peer", frame_max=1 << 20,
                                                 in_flight_max=4096)) if hello is None else hello
        self.seen = []
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.bind(str(path))
        self.sock.listen()
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while True:
            try:
                conn, _ = self.sock.accept()
            except OSError:
                return
            with conn:
                self.talk(conn)

    def talk(self, conn):
        buf = b""
        while data := conn.recv(1 << 16):
            buf += data
            while (got := take(buf)) is not None:
                req, buf = got
                if req.WhichOneof("op") == "hello":
                    replies = [self.hello]
                else:
                    self.seen.append(req)
                    replies = self.answer(req)
                if replies is Exception:
                    return
                for r in replies or []:
                    if isinstance(r, pb.Reply):
                        r.id = req.id
                        r = wire.frame(r)
                    conn.sendall(r)

    def ctl(self, *args, **kw):
        return subprocess.run([str(WQCTL), "--server", self.address, *args], capture_output=True,
                              text=True, timeout=60, check=False, **kw)

    def json(self, *args, check, **kw):
        done = self.ctl("--json", *args, **kw)
        assert done.returncode == check and done.stderr == "", done
        return json.loads(done.stdout)

    def close(self):
        self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()
        self.thread.join(10)


def take(buf):
    n = shift = 0
    for i, b in enumerate(buf[:5]):
        n |= (b & 0x7F) << shift
        shift += 7
        if not b & 0x80:
            end = i + 1 + n
            return (pb.Request.FromString(buf[i + 1:end]), buf[end:]) if len(buf) >= end else None
    return None


@pytest.fixture
def peer(tmp):
    made = []

    def make(answer, **kw):
        made.append(Peer(tmp / f"p{len(made)}", answer, **kw))
        return made[-1]
    yield make
    for p in made:
        p.close()


def status(word, message="", **kw):
    return lambda req: [pb.Reply(status=pb.Status.Value(f"STATUS_{word}"), message=message, **kw)]


@pytest.mark.parametrize("word,code", [
    ("INVALID", 1), ("NOT_FOUND", 3), ("REFUSED_DISABLED", 4), ("REFUSED_DRAINING", 4),
    ("REFUSED_LIMIT", 4), ("UNAUTHORIZED", 5), ("STORAGE_ERROR", 1), ("TIMEOUT", 7),
    ("UNIMPLEMENTED", 1), ("EXISTS", 1)])
def test_every_error_has_its_exit_status(peer, word, code):
    p = peer(status(word, "why not: \x1b[31mred"))
    for args in (["update", "k", "1s"], ["cancel", "k"], ["wait", "k"], ["get", "k"], ["list"],
                 ["stat"], ["pause", "q"], ["queue", "create", "q"], ["flush", "--queue", "q"]):
        got = p.json(*args, check=code)
        assert (got["error"], got["exit_status"]) == (word, code), args
        assert got["message"] == "why not: \x1b[31mred"
        done = p.ctl(*args)
        assert (done.returncode, done.stdout) == (code, "")
        assert done.stderr == "wqctl: why not: \\x1b[31mred\n"


@pytest.mark.parametrize("word,code", [
    ("OK", 0), ("CREATED", 0), ("UPDATED_TIMER", 0), ("UPDATED_READY", 0), ("REQUEUED_RUNNING", 0),
    ("UNCHANGED", 0), ("SKIPPED", 0), ("IDLE", 3), ("NOT_PENDING_RUNNING", 1), ("CANCELLED", 0),
    ("CANCELLED_RUNNING", 0)])
def test_every_outcome_has_its_exit_status(peer, word, code):
    p = peer(status(word))
    assert p.json("update", "k", "1s", check=code)["outcome"] == word
    assert p.json("cancel", "k", check=code)["outcome"] == word
    assert p.json("cancel", "k", "--kill", check=0 if code == 1 else code)["outcome"] == word
    assert p.json("disable", "k", check=0)["outcome"] == word


@pytest.mark.parametrize("outcome", [
    "NONE", "DONE", "FAILED", "DEAD", "CANCELLED", "INTERRUPTED", "TIMEOUT"])
def test_wait_tells_how_the_run_ended(peer, outcome):
    run = pb.Run(generation=3, attempt=1, outcome=pb.RunOutcome.Value(f"RUN_OUTCOME_{outcome}"),
                 error=2, due_ms=1000, ended_ms=3000, key=b"k", queue="q", final=True)
    p = peer(lambda req: [pb.Reply(run=run)])
    got = p.json("wait", "q/k", check=0 if outcome == "DONE" else 6)
    assert got["outcome"] == outcome.lower() and got["status"] == "OK"
    assert (got["exit_code"], got["signal"], got["errno"], got["started_ms"]) == (None, None, 2, None)
    assert "could not start: No such file" in p.ctl("wait", "q/k").stdout


def test_wait_for_an_instance_that_is_cancelled_is_a_run_that_failed(peer):
    p = peer(status("CANCELLED"))
    assert p.json("wait", "k", check=6)["outcome"] == "CANCELLED"


def test_silence_times_out(peer):
    p = peer(lambda req: None)
    for args in (["update", "k", "1s"], ["get", "k"], ["list"], ["stat"], ["ping"]):
        got = p.json(*args, "--timeout", "100ms", check=7)
        assert got["exit_status"] == 7
        assert p.ctl(*args, "--timeout", "100ms").returncode == 7
    done = p.ctl("update", "--batch", "--timeout", "100ms", input="a 1s\nb 1s\n")
    assert done.returncode == 7 and done.stderr.count("\n") == 1


def test_a_peer_that_does_not_greet_or_speaks_something_else(peer):
    p = peer(lambda req: None, hello=b"\x05\xff\xff\xff\xff\xff")
    assert p.json("ping", check=8)["error"] == "NO_DAEMON"
    p = peer(lambda req: None, hello=b"")
    assert p.json("ping", "--timeout", "50ms", check=7)["exit_status"] == 7
    p = peer(lambda req: None, hello=pb.Reply(status=pb.STATUS_UNAUTHORIZED, message="go away"))
    assert p.json("ping", check=5)["error"] == "UNAUTHORIZED"


def test_a_connection_that_breaks(peer):
    p = peer(lambda req: Exception)
    for args in (["update", "k", "1s"], ["wait", "k"], ["get", "k"], ["list"], ["pause", "q"]):
        got = p.json(*args, check=8)
        assert got["error"] == "NO_DAEMON" and p.address in got["message"]
    done = p.ctl("--json", "update", "--batch", input="a 1s\nb 1s\n")
    values = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 8 and values and all(v["error"] for v in values)


def page(n, cursor):
    return pb.Reply(cursor=cursor, jobs=[pb.JobInfo(key=b"k%d" % i, queue="q") for i in range(n)])


def test_a_list_that_breaks_in_the_middle_is_still_one_value(peer):
    p = peer(lambda req: Exception if req.list.cursor else [page(3, 7)])
    got = p.json("list", check=8)
    assert len(got["jobs"]) == 3 and got["exit_status"] == 8 and got["error"]
    done = p.ctl("list")
    assert done.returncode == 8 and done.stdout.count("\n") == 4 and "wqctl: " in done.stderr
    got = p.json("list", "--sort", "key", check=8)
    assert got["exit_status"] == 8
    p = peer(lambda req: [page(0, 0)])
    assert p.json("list", check=0) == {"jobs": []}


def test_names_of_the_daemon_are_made_harmless(peer):
    evil = "\u202ek\x1b[2J"
    info = pb.JobInfo(key=evil.encode() + b"\xff", queue="q\n", state=pb.JOB_STATE_ARMED)
    p = peer(lambda req: [pb.Reply(jobs=[info])])
    for args in (["get", "k"], ["list"], ["list", "-q"]):
        out = p.ctl(*args).stdout
        assert "q\\n/\\u{202e}k\\x1b[2J\\xff" in out and "\x1b" not in out and "\u202e" not in out
    got = p.json("get", "k", check=0)
    assert got["key"] == evil + "\ufffd"


def test_a_counter_whose_name_is_no_text_is_left_out_of_json(peer):
    bad = bytes([0x92, 0x01, 5, 0x0A, 1, 0xFF, 0x10, 5])  # Reply.counters {name: FF, value: 5}
    good = pb.Reply(counters=[pb.Counter(name="n", value=7)]).SerializeToString()
    p = peer(lambda req: [wire.frame(pb.Reply(id=req.id).SerializeToString() + bad + good)])
    assert p.json("stat", check=0) == {"n": 7}
    assert "\\xff" in p.ctl("stat").stdout


def test_what_is_sent(peer, tmp):
    p = peer(status("CREATED"))
    p.json("update", "q/k/x", "1h30m", "--mode", "later", "--if-pending", "--slack", "50ms", "--max-wait",
           "2h", "--align", "10s", "--align-exact", "--payload", "x", "--append", "--durability", "sync",
           "--id", "abc", check=0)
    u = p.seen[-1].update
    assert (u.queue, u.key, u.delay_ms, u.mode) == ("q", b"k/x", 5_400_000, pb.UPDATE_MODE_LATER)
    assert (u.if_pending, u.slack_ms, u.max_wait_ms, u.align_ms) == (True, 50, 7_200_000, 10_000)
    assert (u.align_exact, u.payload, u.payload_mode) == (True, b"x", pb.PAYLOAD_MODE_APPEND)
    assert (u.durability, u.idempotency_id) == (pb.DURABILITY_SYNC, b"abc")
    p.json("update", "k", "0", check=0)
    u = p.seen[-1].update
    assert (u.queue, u.delay_ms, u.mode) == ("default", 0, pb.UPDATE_MODE_SET)
    assert u.WhichOneof("has_slack_ms") is None and u.WhichOneof("has_max_wait_ms") is None
    assert u.payload_mode == pb.PAYLOAD_MODE_KEEP and u.idempotency_id == b""
    p.json("schedule", "k", "--at", "2026-03-01T08:30:00.0001Z", check=0)
    u = p.seen[-1].update
    assert (u.at_ms, u.mode) == (1772353800001, pb.UPDATE_MODE_KEEP)
    (tmp / "empty").write_bytes(b"")
    p.json("update", "k", "0", "--payload-file", str(tmp / "empty"), check=0)
    assert p.seen[-1].update.payload_mode == pb.PAYLOAD_MODE_REPLACE
    blob = bytes(range(256)) * 1000
    (tmp / "blob").write_bytes(blob)
    p.json("update", "k", "0", "--payload-file", str(tmp / "blob"), check=0)
    assert p.seen[-1].update.payload == blob
    p.json("cancel", "k", "--kill", "--timeout", "2s", check=0)
    assert (p.seen[-1].cancel.mode, p.seen[-1].cancel.timeout_ms) == (pb.CANCEL_MODE_KILL, 2000)
    p.json("flush", "k", "--now", check=0)
    assert p.seen[-1].flush.now and p.seen[-1].flush.WhichOneof("has_timeout_ms") is None
    p.json("wait", "k", "--generation", "18", "--timeout", "0", check=0)
    assert (p.seen[-1].wait.generation, p.seen[-1].wait.timeout_ms) == (18, 0)
    p.json("drain", "q", "--timers", "expedite", "--pause-after", check=0)
    assert (p.seen[-1].drain.timers, p.seen[-1].drain.pause_after) == (pb.TIMER_POLICY_EXPEDITE, True)
    p.json("queue", "set", "q", "a=1", "b=x=y", "c=", check=0)
    assert [(s.name, s.value) for s in p.seen[-1].queue_set.settings] == [
        ("a", "1"), ("b", "x=y"), ("c", "")]
    p.json("shutdown", "--drain", check=0)
    assert p.seen[-1].shutdown.drain


def test_run_token_is_passed_on(peer):
    p = peer(status("OK"))
    p.ctl("flush", "k", env=dict(os.environ, WQ_RUN_TOKEN="12345678901234567890"))
    assert p.seen[-1].run_token == 12345678901234567890
