"""Field cases PRO: protocol and connections."""
import os
import socket
import ssl
import struct
import time

import pytest
import wire
from conftest import handler, queue, until
from wire import Closed, Conn, S, pb, word


def raw(d, timeout=30):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(timeout)
    s.connect(str(d.sock))
    return s


def test_pro_01_an_announced_length_is_not_believed(make_daemon):
    d = make_daemon("frame_timeout = \"2s\"\nhello_timeout = \"2s\"\nframe_max = \"2m\"\n")
    with d.conn() as c:
        before = d.rss()
        liars = []
        for _ in range(200):
            s = raw(d)
            s.sendall(b"\xff\xff\xff\xff\x0f")
            liars.append(s)
        for s in liars:
            got = b""
            while chunk := s.recv(4096):
                got += chunk
            assert got, "an error, then the end"
            s.close()
        silent = []
        for _ in range(200):
            s = raw(d)
            s.sendall(wire.varint(2 << 20) + b"\x08")
            silent.append(s)
        assert c.call(ping=pb.Ping(echo=b"x")).echo == b"x"
        assert d.rss() - before < 20 << 20
        for s in silent:  # idle half-frames are closed at the documented timeout
            while s.recv(4096):
                pass
            s.close()
        until(lambda: c.stat()["connections"] == 1)


def test_pro_01_a_byte_a_time_is_still_a_request(wqd):
    s = raw(wqd)
    for b in wire.frame(pb.Request(id=1, hello=pb.Hello(version=1))):
        s.sendall(bytes([b]))
    assert s.recv(4096)
    s.close()


def check_a_peer_that_never_reads(d, connect, more=b""):
    """It asks for lists, requests longer by `more`, over a connection of `connect`."""
    with d.conn() as c:
        for i in range(0, 2000, 500):
            c.send_many([c.request(update=wire.update(f"key-{i + j}", delay_ms=3_600_000))
                         for j in range(500)])
            for _ in range(500):
                c.next_reply()
        before = d.rss()
        bad = connect()
        one = wire.frame(bad.request(list=pb.List(limit=1000)).SerializeToString() + more)
        bad.sock.settimeout(3)
        sent = 0
        try:
            while sent < 100_000:
                bad.sock.sendall(one * 100)
                sent += 100
        except (TimeoutError, ssl.SSLWantWriteError):
            pass
        assert sent < 100_000, "the daemon stopped reading"
        t = time.monotonic()
        assert c.call(ping=pb.Ping()).status == S.STATUS_OK
        assert time.monotonic() - t < 5
        assert d.rss() - before < 64 << 20
        assert c.stat()["reads_paused"] >= 1
        bad.close()
        until(lambda: c.stat()["connections"] == 1)


def test_pro_03_a_peer_that_does_not_read_is_stopped(wqd):
    check_a_peer_that_never_reads(wqd, wqd.conn)


def test_pro_04_out_of_descriptors(make_daemon):
    d = make_daemon(handler("h", "echo", "hi") + queue("q", handler="h", max_active=2)
                    + "max_runs = 4\n", wrapper=["prlimit", "--nofile=64:64"])
    keep = d.conn()
    others = []
    for _ in range(100):
        s = raw(d)
        others.append(s)
    time.sleep(0.5)
    used = d.cpu_seconds()
    time.sleep(2)
    assert d.cpu_seconds() - used < 0.2 * 2, "the listener spins"
    # Those inside keep working, storage and children too.
    r = keep.update("k", 0, "q", durability=S.DURABILITY_SYNC)
    assert word(r.status) == "CREATED"
    assert keep.wait("k", "q").run.output == b"hi\n"
    for s in others:
        s.close()

    def again():
        try:
            with d.conn(timeout=2):
                return True
        except (OSError, Closed):
            return False
    until(again)
    keep.close()


BAD_KEYS = {
    "nul": b"a\0b", "newline": b"a\nb", "del": b"a\x7fb", "c1": "a\u0085b".encode(),
    "utf8": b"a\xff", "overlong": b"a\xc0\xaf", "surrogate": b"\xed\xa0\x80",
    "bidi": "a\u202eb".encode(), "isolate": "a\u2066b".encode(), "256": b"k" * 256,
    "4096": b"k" * 4096, "trailing space": b"a ", "leading space": b" a",
}


@pytest.mark.parametrize("name", BAD_KEYS)
def test_pro_07_odd_keys_are_refused_everywhere(conn, name):
    key = BAD_KEYS[name]
    conn.update("a", 3_600_000)
    assert word(conn.update(key, 1000).status) == "INVALID"
    for op in ("cancel", "flush", "wait"):
        assert word(getattr(conn, op)(key).status) == "INVALID"
    for op in ("get", "delete", "disable", "enable", "kick"):
        assert word(conn.job(op, key).status) == "INVALID"
    job = conn.get("a")
    assert job.state == S.JOB_STATE_ARMED and job.coalesced == 0, "it acted on another key"


@pytest.mark.parametrize("key", [b"k" * 255, "ключ/с пробелом".encode(), b"a/b c", b"\xf0\x9f\x92\xa1"])
def test_pro_07_accepted_keys_work_to_the_end(conn, key):
    assert word(conn.update(key, 3_600_000).status) == "CREATED"
    assert conn.get(key).key == key
    assert word(conn.cancel(key).status) == "CANCELLED"


def test_pro_07_an_empty_key(conn):
    made = conn.update("", 3_600_000)
    assert word(made.status) == "CREATED" and made.key
    assert word(conn.cancel("").status) == "INVALID"
    assert word(conn.cancel(made.key).status) == "CANCELLED"


def test_pro_07_queue_names(conn):
    for bad in (b"a\0b", b"a/b", b"q" * 129, b"\xff", b"a\nb"):
        # As bytes on the wire: Python's protobuf would not let them through as a string.
        body = b"\x0a\x01k" + b"\x12" + wire.varint(len(bad)) + bad + b"\x18\xe8\x07"
        req = b"\x08\x63" + b"\x62" + wire.varint(len(body)) + body
        conn.sock.sendall(wire.frame(req))
        assert word(conn.reply(0x63).status) in ("INVALID", "NOT_FOUND"), bad
    assert word(conn.call(queue_create=wire.queue_set("a/b", {})).status) == "INVALID"


MALFORMED = {
    "endless varint": b"\xff" * 10, "zero length": b"\x00", "garbage": b"\x04\xff\xff\xff\xff",
    "truncated field": b"\x03\x62\x7f\x00", "http": b"GET / HTTP/1.1\r\n\r\n",
    "wrong wire type": b"\x03\x0d\x01\x02",
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_frames_end_their_connection_alone(wqd, conn, name):
    s = raw(wqd)
    s.sendall(MALFORMED[name])
    s.shutdown(socket.SHUT_WR)
    while s.recv(4096):
        pass
    s.close()
    assert conn.call(ping=pb.Ping(echo=b"ok")).echo == b"ok"


def test_a_malformed_frame_does_not_touch_the_requests_before_it(wqd):
    c = wqd.conn()
    ok = c.request(update=wire.update("k", delay_ms=3_600_000))
    c.sock.sendall(wire.frame(ok) + b"\x04\xff\xff\xff\xff")
    replies = c.wait_closed()
    assert word(replies[0].status) == "CREATED" and replies[0].id == ok.id
    assert word(replies[-1].status) == "INVALID" and replies[-1].id == 0
    with wqd.conn() as c2:
        assert c2.get("k").state == S.JOB_STATE_ARMED


def test_an_oversized_frame_is_named_and_closed(make_daemon):
    d = make_daemon('frame_max = "64k"\n')
    c = d.conn()
    assert c.info.frame_max == 65536
    c.sock.sendall(wire.varint(70_000))
    replies = c.wait_closed()
    assert word(replies[-1].status) == "REFUSED_LIMIT"


def test_an_unknown_operation_is_answered_with_its_id(conn):
    conn.sock.sendall(wire.frame(b"\x08\x2a\xfa\x3f\x00"))  # id 42, field 1023
    assert word(conn.reply(42).status) == "UNIMPLEMENTED"
    conn.sock.sendall(wire.frame(b"\x08\x2b"))  # no operation at all
    assert word(conn.reply(43).status) in ("INVALID", "UNIMPLEMENTED")
    assert conn.call(ping=pb.Ping()).status == S.STATUS_OK


def test_unknown_fields_are_ignored(conn):
    req = conn.request(ping=pb.Ping(echo=b"x"))
    conn.sock.sendall(wire.frame(req.SerializeToString() + b"\xc0\x3e\x07"))
    assert conn.reply(req.id).echo == b"x"


def test_hello_must_be_first(wqd):
    c = Conn(wqd.address, hello=False)
    r = c.call(ping=pb.Ping())
    assert word(r.status) == "INVALID"
    c = Conn(wqd.address, hello=False)
    r = c.call(hello=pb.Hello(version=99))
    assert word(r.status) in ("INVALID", "UNIMPLEMENTED") and r.message


def test_impossible_pairs_are_invalid(conn):
    assert word(conn.update("k", 2000, max_wait_ms=1000).status) == "INVALID"
    assert word(conn.update("k", 2000, slack_ms=-1).status) == "INVALID"
    assert word(conn.update("k", 2000, align_ms=-5).status) == "INVALID"
    assert word(conn.call(update=pb.Update(key=b"k", delay_ms=1, mode=77)).status) == "INVALID"
    assert word(conn.update("k", 1, "nowhere").status) == "NOT_FOUND"
    assert conn.get("k") is None


def test_many_in_flight_and_waits_hold_nobody_up(conn):
    conn.update("k", 3_600_000)
    w = conn.send(wait=pb.Wait(key=b"k"))
    ids = [conn.send(ping=pb.Ping(echo=b"%d" % i)) for i in range(100)]
    for i, rid in enumerate(ids):
        assert conn.reply(rid).echo == b"%d" % i
    conn.job("kick", "k")
    assert conn.reply(w).run.outcome == S.RUN_OUTCOME_DONE


def test_a_batch_is_answered_in_order(conn):
    ups = [wire.update(f"b{i % 10}", delay_ms=60_000 + i) for i in range(1000)]
    r = conn.call(update_batch=pb.UpdateBatch(updates=ups))
    words = [word(x.status) for x in r.results]
    assert words == ["CREATED"] * 10 + ["UPDATED_TIMER"] * 990


def test_sockets_mode_stale_live_and_plain_file(make_daemon, tmp):
    old = os.umask(0o077)
    try:
        d = make_daemon('socket_mode = "0666"\n')
    finally:
        os.umask(old)
    assert os.stat(d.sock).st_mode & 0o777 == 0o666
    # A live one is not stolen, also not by a daemon with another state directory.
    other = make_daemon(listen=f'{{ "unix:{d.sock}" }}', start=False)
    other.start(wait=False)
    assert other.proc.wait(30) == 1
    other.proc = None
    with d.conn():
        pass
    # A stale one is replaced.
    d.kill9()
    assert d.sock.exists()
    d.start()
    d.stop()
    assert not d.sock.exists()
    # A plain file is never removed.
    d.sock.write_text("precious")
    d.start(wait=False)
    assert d.proc.wait(30) == 1
    d.proc = None
    assert d.sock.read_text() == "precious"
    d.sock.unlink()


def test_tcp_and_rst(make_daemon):
    d = make_daemon(also="tcp://127.0.0.1:0")
    port = d.port()
    with Conn(f"tcp://127.0.0.1:{port}") as c:
        assert word(c.update("k", 1000).status) == "CREATED"
        base = d.fds()
        for _ in range(50):
            s = socket.create_connection(("127.0.0.1", port))
            s.sendall(wire.frame(pb.Request(id=1, hello=pb.Hello(version=1))))
            s.sendall(wire.frame(pb.Request(id=2, wait=pb.Wait(key=b"k"))))
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            s.close()
        until(lambda: d.fds() <= base)


def test_tcp_on_other_addresses_needs_allow_plaintext(make_daemon):
    d = make_daemon(listen='{ "tcp://0.0.0.0:0" }', start=False)
    d.start(wait=False)
    assert d.proc.wait(30) == 3
    d.proc = None
    assert "allow_plaintext" in d.text()
