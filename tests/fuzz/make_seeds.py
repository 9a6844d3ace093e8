#!/usr/bin/env python3
"""Writes the seeds of the fuzz targets, those that are not findings: `make_seeds.py BUILD` from the
top of the source tree, with proto/wq_pb2.py in BUILD. Seeds of findings are named finding-*.
"""
import hashlib
import os
import random
import ssl
import sys

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "seeds")


def put(target, name, data):
    os.makedirs(os.path.join(TOP, target), exist_ok=True)
    with open(os.path.join(TOP, target, name), "wb") as f:
        f.write(data if isinstance(data, bytes) else data.encode())


def varint(n):
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes(out) + bytes([n])


def framed(body):
    return varint(len(body)) + body


def frames():
    put("frame", "empty-message", framed(b""))
    put("frame", "several", framed(b"a") + framed(b"bc" * 60) + framed(b"d" * 200))
    put("frame", "cut-length", framed(b"a") + b"\x80")
    put("frame", "cut-message", varint(200) + b"x" * 150)
    put("frame", "too-long", varint(301) + b"x" * 301)
    put("frame", "largest", framed(b"x" * 300))
    put("frame", "long-form-length", b"\x81\x80\x80\x80\x00" + b"x")
    put("frame", "six-bytes-of-length", b"\x81\x80\x80\x80\x80\x00" + b"x")
    put("frame", "over-32-bits", b"\xff\xff\xff\xff\x7f")


def wire(pb):
    def request(name, **fields):
        data = pb.Request(id=7, **fields).SerializeToString()
        put("wire", name, data)
        if fields.keys() & {"update", "update_batch", "cancel"}:
            put("hot", name, data)

    update = dict(key=b"host-17", queue="hb", delay_ms=30000, mode=pb.UPDATE_MODE_LATER,
                  if_pending=True, slack_ms=0, max_wait_ms=60000, align_ms=1000, align_exact=True,
                  payload_mode=pb.PAYLOAD_MODE_APPEND, payload=b"p\0q", durability=1,
                  idempotency_id=b"id-1")
    request("hello", hello=pb.Hello(version=1, client="wqctl 0.1", token=b"t", namespace="n"))
    request("ping", ping=pb.Ping(echo=b"e" * 64))
    request("update", update=pb.Update(**update), run_token=2**64 - 1)
    request("update-at", update=pb.Update(key=b"k", at_ms=1767225600123))
    request("update-extreme", update=pb.Update(key=b"k", delay_ms=2**63 - 1, slack_ms=-1))
    request("update-batch", update_batch=pb.UpdateBatch(
        updates=[pb.Update(**update), pb.Update(), pb.Update(key=b"z", delay_ms=-5)]))
    request("cancel", cancel=pb.Cancel(key=b"k", queue="q", mode=2, timeout_ms=5, durability=2))
    request("flush", flush=pb.Flush(key=b"k", now=True, timeout_ms=0))
    request("flush-queue", flush_queue=pb.FlushQueue(queue="q", timeout_ms=1))
    request("wait", wait=pb.Wait(key=b"k", generation=3, timeout_ms=1000))
    for op in ("get", "delete", "disable", "enable", "kick"):
        request(op, **{op: pb.Job(key=b"k", queue="q", durability=3, idempotency_id=b"i" * 64)})
    request("list", list=pb.List(queue="q", prefix=b"ho", state=1, due_from_ms=0,
                                 due_to_ms=2**40, cursor=2**63, limit=1000))
    request("history", history=pb.History(key=b"k", queue="q", skip=10, limit=0))
    settings = [pb.Setting(name="max_active", value="4"), pb.Setting(name="slack", value="50ms")]
    for op in ("queue_create", "queue_set"):
        request(op, **{op: pb.QueueSet(queue="mail", settings=settings)})
    for op in ("queue_show", "pause", "resume"):
        request(op, **{op: pb.Queue(queue="mail")})
    request("queue-delete", queue_delete=pb.QueueDelete(queue="q", timers=2, timeout_ms=9))
    request("drain", drain=pb.Drain(queue="q", timers=1, pause_after=True, timeout_ms=9))
    request("completion-wait", completion_wait=pb.CompletionWait(name=b"deploy", timeout_ms=9))
    for op in ("complete", "complete_all", "completion_reinit", "completion_show"):
        request(op, **{op: pb.Completion(name=b"deploy", durability=1, idempotency_id=b"i")})
    request("shutdown", shutdown=pb.Shutdown(drain=True))
    for op in ("queue_list", "stat", "reload"):
        kind = {"queue_list": pb.QueueList, "stat": pb.Stat, "reload": pb.Reload}[op]
        request(op, **{op: kind()})
    whole = pb.Request(id=7, update=pb.Update(**update)).SerializeToString()
    put("wire", "no-operation", pb.Request(id=1).SerializeToString())
    put("wire", "later-operation", b"\x08\x07\xa2\x06\x00")  # field 100
    put("wire", "two-operations", whole + pb.Request(cancel=pb.Cancel(key=b"k")).SerializeToString())
    put("wire", "cut", whole[:-3])
    put("wire", "nul-in-queue", pb.Request(id=1, wait=pb.Wait(queue="a\0b")).SerializeToString())
    put("wire", "unknown-enum", b"\x62\x05\x0a\x01k\x28\x63")


def replies():
    fill = bytes(range(1, 256)) * 8
    for kind, name in enumerate(("job", "list", "history", "results")):
        put("reply", name + "-zeros", bytes([kind]) + bytes(400))
        put("reply", name, bytes([kind]) + fill)
        put("reply", name + "-ones", bytes([kind]) + b"\x01" * 900)
        put("reply", name + "-full", bytes([kind, 12]) + b"\xff\xff" * 3000)


def hot_replies(pb):
    def reply(name, **fields):
        put("client_hot", name, pb.Reply(id=7, **fields).SerializeToString())

    plain = dict(status=2, state_before=1, deadline_ms=1767225600123, generation=3, coalesced=300)
    reply("update", old_deadline_ms=0, pending_before=True, disable_depth=2, **plain)
    reply("error", status=64, message="why")
    reply("made-key", status=1, key=b"k")
    reply("batch", results=[pb.Result(**plain), pb.Result(), pb.Result(status=1)])
    reply("batch-with-error", results=[pb.Result(**plain), pb.Result(status=64, message="why")])
    reply("run", run=pb.Run(generation=1, outcome=1))
    reply("negative-time", deadline_ms=-5)
    put("client_hot", "twice", b"\x08\x07\x10\x02\x10\x01")
    put("client_hot", "results-apart", b"\x08\x07\x6a\x00\x10\x02\x6a\x00")


def clients(pb):
    """The first byte says how, see fuzz_client.c; ids 2 and on are its requests."""
    run = pb.Run(generation=3, attempt=1, outcome=1, exit_code=0, due_ms=1, started_ms=2, ended_ms=3,
                 output=b"hi\n", final=True, key=b"k", queue="q")
    job = pb.JobInfo(key=b"k", queue="q", state=1, pending=True, pending_state=1, deadline_ms=5,
                     generation=4, last=run)
    queue = pb.QueueInfo(queue="q", settings=[pb.Setting(name="slack", value="1s")], armed=1)
    answers = [
        pb.Reply(id=2, status=1, deadline_ms=1767225605000, generation=1),
        pb.Reply(id=3, status=1, key=b"made", generation=1),
        pb.Reply(id=4, status=10, run=run), pb.Reply(id=5, status=0, run=run),
        pb.Reply(id=6, status=65, message="no such job"), pb.Reply(id=7, status=7),
        pb.Reply(id=8, status=71),
        pb.Reply(id=9, results=[pb.Result(status=1, deadline_ms=1),
                                pb.Result(status=64, message="no", key=b"made")])]
    stream = b"".join(framed(a.SerializeToString()) for a in answers)
    backwards = b"".join(framed(a.SerializeToString()) for a in reversed(answers))
    hello = framed(pb.Reply(id=1, hello=pb.HelloInfo(version=1, server="wqd", instance="i",
                                                     frame_max=65536, in_flight_max=10)).SerializeToString())
    put("client", "answers", b"\x01" + stream)
    put("client", "answers-in-pieces", b"\x39" + stream)
    put("client", "answers-backwards", b"\x05" + backwards)
    put("client", "own-hello", b"\x10" + hello + stream)
    put("client", "refused", b"\x00" + framed(pb.Reply(id=0, status=68, message="full").SerializeToString()))
    put("client", "newer", b"\x00" + framed(pb.Reply(id=1, hello=pb.HelloInfo(version=2)).SerializeToString()))
    put("client", "twice", b"\x01" + stream + stream)
    put("client", "one-result", b"\x01" + framed(pb.Reply(id=9, results=[pb.Result()]).SerializeToString()))
    put("client", "too-long", b"\x01" + varint(2**24 + 1) + b"x")
    put("client", "long-key", b"\x01" + framed(pb.Reply(id=3, key=b"k" * 256).SerializeToString()))
    for what, reply in enumerate((
            pb.Reply(id=2, jobs=[job]), pb.Reply(id=2, jobs=[job, job], cursor=9),
            pb.Reply(id=2, runs=[run, run]), pb.Reply(id=2, queues=[queue]),
            pb.Reply(id=2, counters=[pb.Counter(name="requests", value=-1)]),
            pb.Reply(id=2, echo=b"e"), pb.Reply(id=2, status=73, message="exists"),
            pb.Reply(id=2, run=run))):
        put("client", f"look-{what}", b"\x03" + bytes([what]) + framed(reply.SerializeToString()))


def typed():
    for i, text in enumerate((
            "plain", "a\nb\tc\x1b[31mred\x07", "\u202egnp.exe", "\u00e4\u20ac\U0001f600", "\u009b31m",
            "\\", "a\0b", "queue/key", "/key", "q/", "key", "a/b/c", "30s", "1h30m", "250ms", "0",
            "9223372036854775807ms", "2026-03-01T08:30:00.250+01:00", "2026-03-01T08:30:00Z",
            "2016-12-31T23:59:60Z", "0000-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999-23:59",
            "2026-02-30T00:00:00Z", "2026-03-01 08:30:00Z")):
        put("ctl", f"text-{i:02}", text)
    put("ctl", "broken-utf8", b"a\xff\xc0\x80\xed\xa0\x80\xf4\x90\x80\x80\xe2\x82")


def sessions():
    """Any bytes make a story there; these are long ones, the same each time."""
    rng = random.Random(1)
    for i in range(12):
        put("session", f"story-{i:02}", bytes(rng.randrange(256) for _ in range(600 + 150 * i)))
    # updates and time alone; runs that come and go
    put("session", "updates", b"".join(
        bytes([0, 0, 0, 1, 0, 0, 1, 1, rng.randrange(8), 31]) for _ in range(60)))
    put("session", "time", b"".join(
        bytes([0, 0, 0, 1, 0, 0, 2, 1, rng.randrange(6), 31, 9, 0, 30 + i % 10]) for i in range(50)))


def texts():
    for i, text in enumerate((
            "", "0", "1", "250ms", "30s", "1h30m", "2d", "1w", "1w2d3h4m5s6ms7us8ns", "1m30s",
            "30s1m", "1s1s", "9223372036854775807ns", "9223372036854775808ns", "15250w", "-1s",
            " 1s", "1 s", "1.5s", "00012s", "18446744073709551615", "18446744073709551616", "64k",
            "2g", "17179869184g", "yes", "off", "TRUE", "key", "a/b", " a", "a\0b", "a\nb",
            "\u00e4\u20ac\U0001f600", "\u202e", "\u061c", "\u0085", "a" * 128, "a" * 129, "a" * 255,
            "a" * 256)):
        put("text", f"text-{i:02}", text)
    for i, raw in enumerate((b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82",
                             b"\xf0\x80\x80\x80", b"\x80", b"\xff")):
        put("text", f"broken-utf8-{i}", raw)
    for which in range(18):
        for i, value in enumerate(("0", "1", "4294967295", "250ms", "1h", "yes", "exec", "rearm",
                                   "high", "async", "exponential", "handler-1")):
            if (which + i) % 4 == 0:
                put("text", f"setting-{which:02}-{i:02}", bytes([which]) + value.encode())
    # rate, burst, prefix_limit, prefix_separator, restart_rate
    for which, values in ((9, ("0", "10/s", "1000000/d", "1/w", "0/s", "/s")), (10, ("1", "100000")),
                          (11, ("2",)), (12, (":", "/", "::")), (13, ("5/m", "99999999999/h"))):
        for i, value in enumerate(values):
            put("text", f"limit-{which:02}-{i:02}", bytes([which]) + value.encode())


def configurations():
    put("conf", "empty", "")
    put("conf", "documented", '''# the example of the manual
state_dir = "/var/lib/wqd"
listen    = { "unix:/run/wqd/wqd.sock", "tcp://127.0.0.1:7421" }
handler "page" { command = { "/usr/local/bin/page", "--now" }  timeout = "30s" }
queue "hb"   { handler = "page"  max_active = 4  misfire = "rearm"  slack = "50ms"  durability = "async" }
queue "mail" { ordered = true  retention = "1h" }
''')
    put("conf", "all-of-a-handler", '''handler "h" {
	command = { "/bin/sh", "-c", "echo ${WQ_KEY} \\"x\\" \\\\ \\x41" }
	env = { "A=b", 'C=d e' }
	directory = "/tmp"  user = "nobody"  group = "nogroup"  umask = "027"
	timeout = "1m30s"  grace = "5s"  output_max = "64k"  keep_children = no
	max_memory = "2g"  max_files = 100  max_processes = 10  nice = 5
}
''')
    put("conf", "all-of-a-queue", '''handler "h" { command = { "/bin/true" } }
queue "q" {
	action = "exec" handler = "h" max_active = 2 ordered = no priority = "low" durability = "sync"
	misfire = "skip" slack = "10ms" max_wait = "1h" max_attempts = 3 max_interrupts = 5
	retry_delay = "1s" retry_backoff = "exponential" retry_max_delay = "1m" retention = "1d"
	retention_count = 10 max_jobs = 1000 max_parts = 16
}
queue "default" { retention = 0 }
''')
    put("conf", "comments", '# a\n// b\n/* c\n d */ log_level = "debug" # e\nstore = memory\n')
    for name, text in (
            ("unknown-option", "nonsense = 1\n"), ("unknown-section", 'pool "x" { }\n'),
            ("bad-duration", 'commit_interval = "5 minutes"\n'),
            ("open-string", 'state_dir = "/var\n'), ("open-brace", 'queue "q" {\n'),
            ("stray-brace", "}\n"), ("open-comment", "/* \n"), ("no-value", "state_dir =\n"),
            ("twice", 'queue "q" { }\nqueue "q" { }\n'), ("list-add", 'listen += { "unix:/x" }\n'),
            ("empty-list", "listen = {}\n"), ("nul", "state_dir = \"a\0b\"\n"),
            ("escape-nul", 'state_dir = "a\\0b\\x00"\n'), ("bad-utf8", b'queue "\xff\xfe" { }\n'),
            ("remote", 'listen = { "tcp://0.0.0.0:7421" }\n'), ("lease", 'queue "q" { action = lease }\n'),
            ("ordered-many", 'queue "q" { ordered = yes max_active = 2 }\n'),
            ("no-such-handler", 'queue "q" { handler = "h" }\n'), ("include", 'include("/etc/passwd")\n'),
            ("crlf", 'store = "memory"\r\nmax_jobs = 5\r\n'), ("nested", "a { b { c { } } }\n"),
            ("huge-number", "max_jobs = 99999999999999999999999\n")):
        put("conf", name, text)


def tls_seeds():
    """The first byte: what is tried, TLS 1.3 or 1.2; the second (raw, text): how it is cut."""
    hello = ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), hello, server_hostname="localhost")
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        pass
    hello = hello.read()
    for version in (0, 1):
        def seed(name, what, data):
            put("tls", f"{name}-{3 - version}", bytes([2 * what + version]) + data)
        for cut in (0, 1, 63):
            seed(f"hello-{cut}", 0, bytes([cut]) + hello)
        seed("hello-half", 0, b"\x3f" + hello[:100])
        seed("plain", 0, b"\x3f" + framed(b"GET / HTTP/1.1\r\n\r\n"))
        seed("ssl2", 0, b"\x3f\x80\x2e\x01\x03\x01\x00\x15\x00\x00\x00\x10" + b"r" * 37)
        for what in (0, 1):
            seed(f"alert-{what}", what, b"\x3f\x15\x03\x03\x00\x02\x02\x28")
            seed(f"empty-records-{what}", what, b"\x3f" + b"\x17\x03\x03\x00\x00" * 40)
            seed(f"long-record-{what}", what, b"\x3f\x16\x03\x03\xff\xff" + b"x" * 500)
            seed(f"cipher-spec-{what}", what, b"\x3f" + b"\x14\x03\x03\x00\x01\x01" * 40)
        for name, cut, record, n in (("bytes", 0, 0, 40), ("records", 255, 254, 3000), ("odd", 3, 16, 500)):
            seed(f"text-{name}", 2, bytes([cut, record]) + bytes(range(256)) * (n // 256 + 1))
            seed(f"changed-{name}", 3, bytes([cut, record, 40]) + b"t" * n)
        dns = b"\x82\x0bexample.com\x81\x03a@b\x86\x05urn:w\x87\x04\x7f\0\0\1\x82\x03a\0b\x82\x02\xff\xfe"
        seed("names", 4, b"\x00\x06worker" + bytes([0x30, len(dns)]) + dns)
        seed("names-none", 4, b"\x00\x00")
        seed("names-nul", 4, b"\x01\x03a\0b" + b"\x30\x00")
        seed("names-bad-der", 4, b"\x03\x02cn\x30\x84\xff\xff\xff\xff\x82\x01a")


def token_files():
    def line(name, salt=b"\x07" * 16, token=b"0123456789abcdef"):
        return f"{name} sha256:{salt.hex()}:{hashlib.sha256(salt + token).hexdigest()}\n"
    good = line("ci") + "# of the night\n\n" + line("ops", token=b"another-token-here")
    for name, text in (
            ("empty", ""), ("good", good), ("no-end-of-line", good.rstrip()), ("twice", line("ci") * 2),
            ("crlf", good.replace("\n", "\r\n")), ("upper", good.upper()), ("plain", "ci secret-of-the-ci\n"),
            ("spaces", good.replace(" ", "  ")), ("no-name", line("")), ("short", good.replace("07:", ":")),
            ("long-name", line("n" * 65)), ("longest-name", line("n" * 64)), ("nul", line("a\0b")),
            ("utf8", line("ö")), ("space-in-name", line("a b")), ("comments", "#\n" * 200),
            ("many", "".join(line(f"n{i}") for i in range(40))),
            ("its-name", line("one that is surely known"))):
        put("tokens", name, text)


def main():
    sys.path.insert(0, os.path.join(sys.argv[1], "proto"))
    import wq_pb2
    frames()
    wire(wq_pb2)
    replies()
    hot_replies(wq_pb2)
    clients(wq_pb2)
    typed()
    sessions()
    texts()
    configurations()
    tls_seeds()
    token_files()


if __name__ == "__main__":
    main()
