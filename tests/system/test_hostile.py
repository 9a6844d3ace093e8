"""Peers that mean harm, each with what it may cost in memory and processor time, and what others get
meanwhile. Sizes are samples; in full: WQ_HOSTILE_IDLE=10000, WQ_HOSTILE_FRAMES=100000 (WQ_HOSTILE_SEED)."""
import os
import random
import resource
import socket
import time
import warnings

import pytest
import wire
from conftest import SANITIZED, handler, queue, until
from test_workers import lease_queue
from wire import Conn, S, frame, pb, varint

IDLE = int(os.environ.get("WQ_HOSTILE_IDLE", 1000))
FRAMES = int(os.environ.get("WQ_HOSTILE_FRAMES", 1500))
SEED = int(os.environ.get("WQ_HOSTILE_SEED", 1))
# What a sanitizer keeps of what was freed, and how much longer it takes.
MEMORY = (256 if SANITIZED else 32) << 20
SLOWER = 8 if SANITIZED else 1


def raw(d):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(60)
    s.connect(str(d.sock))
    return s


def others_are_served(c, i=0):
    t = time.monotonic()
    assert c.update(f"other-{i}", 3_600_000).status in (S.STATUS_CREATED, S.STATUS_UPDATED_TIMER,
                                                      S.STATUS_SKIPPED)
    # A second when the machine is quiet; what is meant is that it does not wait for the peer.
    assert time.monotonic() - t < 10


# ---- lengths that are not believed ----

@pytest.mark.parametrize("length", (0xffffffff, 4 << 20), ids=("4-GiB", "the-maximum"))
def test_200_that_announce_much(make_daemon, length):
    d = make_daemon('frame_timeout = "2s"\nframe_max = "4m"\n')
    with d.conn() as c:
        memory, cpu = d.rss(), d.cpu_seconds()
        peers = []
        for i in range(200):
            s = Conn(d.address)
            s.sock.sendall(varint(length) + b"\x08")
            peers.append(s)
            if i % 20 == 0:
                others_are_served(c)
        assert d.rss() - memory < MEMORY
        for s in peers:
            replies = s.wait_closed()
            assert [r.status for r in replies] == [
                S.STATUS_REFUSED_LIMIT if length > 4 << 20 else S.STATUS_TIMEOUT]
            s.close()
        until(lambda: c.stat()["connections"] == 1)
        assert d.rss() - memory < MEMORY and d.cpu_seconds() - cpu < 1 * SLOWER


def test_a_byte_a_second_ends_at_the_time_of_its_first(make_daemon):
    d = make_daemon('frame_timeout = "2s"\nhello_timeout = "2s"\n')
    with d.conn() as c:
        cpu, begun = d.cpu_seconds(), time.monotonic()
        slow = [Conn(d.address) for _ in range(20)] + [Conn(d.address, hello=False) for _ in range(20)]
        ended = {}
        message = frame(pb.Request(id=1, ping=pb.Ping(echo=b"x" * 100)))
        for i in range(len(message)):
            for k, s in enumerate(slow):
                if k in ended:
                    continue
                try:
                    s.sock.sendall(message[i:i + 1])
                except OSError:
                    ended[k] = i
            if len(ended) == len(slow):
                break
            others_are_served(c)
            time.sleep(0.25)
        # Not one has got through with it, however often it said something.
        assert len(ended) == len(slow) and max(ended.values()) < len(message) - 1, ended
        assert time.monotonic() - begun < 60
        until(lambda: c.stat()["connections"] == 1)
        assert d.cpu_seconds() - cpu < 1 * SLOWER
        for s in slow:
            s.close()


# ---- frames that are small and cost much ----

def nested(n):
    """Messages inside messages, where the wire's types allow none: unknown fields, not gone into."""
    body = b""
    heads, size = [], 0
    for _ in range(n):
        heads.append(b"\xfa\x3f" + varint(size))
        size += len(heads[-1])
    return b"".join(reversed(heads))


SWELL = {
    "empty updates of a batch": lambda: b"\x6a" + varint(800_000) + b"\x0a\x00" * 400_000,
    "empty settings": lambda: pb.Request(queue_create=pb.QueueSet(queue="q")).SerializeToString()[:0]
    + b"\xf2\x01" + varint(800_000) + b"\x12\x00" * 400_000,
    "unknown varints": lambda: b"\xf8\x3f\x01" * 300_000,
    "unknown fixed64": lambda: b"\xf9\x3f" + bytes(8) + (b"\xf9\x3f" + bytes(8)) * 90_000,
    "unknown empty strings": lambda: b"\xfa\x3f\x00" * 300_000,
    "unknown groups": lambda: b"\xfb\x3f" * 200_000 + b"\xfc\x3f" * 200_000,
    "deep nesting": lambda: nested(100_000),
    "the same operation again and again": lambda: b"\x62\x00" * 400_000,
    "operation upon operation": lambda: bytes(b for i in range(200_000) for b in ((0x5a, 0x62, 0x72, 0x6a)[i % 4], 0)),
    "empty queue names": lambda: b"\x9a\x03" + varint(800_000) + b"\x0a\x00" * 400_000,
    "a long varint": lambda: b"\x08" + b"\x80" * 900_000 + b"\x01",
}


@pytest.mark.parametrize("name", SWELL)
def test_frames_that_swell(make_daemon, name):
    d = make_daemon(queue("q"))
    body = SWELL[name]()
    assert 300_000 < len(body) < 1 << 20
    with d.conn() as c:
        memory, cpu = d.rss(), d.cpu_seconds()
        for i in range(10):
            with Conn(d.address) as bad:
                try:
                    bad.sock.sendall(frame(b"\x08\x09" + body))
                    r = bad.next_reply()
                    assert r.status not in (S.STATUS_OK, S.STATUS_CREATED) or r.results, r
                except (wire.Closed, OSError):
                    pass
            others_are_served(c, i)
        assert d.rss() - memory < MEMORY
        # 10 frames: a tenth of a second each when nothing else runs.
        assert d.cpu_seconds() - cpu < 1 * SLOWER, d.cpu_seconds() - cpu
        assert {j.key for j in c.call(list=pb.List()).jobs} == {b"other-%d" % i for i in range(10)}


def test_who_asks_much_and_hangs_up_is_not_answered(make_daemon):
    d = make_daemon()
    with d.conn() as c:
        c.send_many([c.request(update=wire.update(f"k{i}", delay_ms=3_600_000)) for i in range(500)])
        for _ in range(500):
            c.next_reply()
        bad = Conn(d.address)
        one = frame(bad.request(list=pb.List(limit=1000)))
        bad.sock.settimeout(1)
        sent = 0
        try:
            while True:
                # Much at once: a small buffer costs the socket more room than its bytes.
                sent += bad.sock.send(one * 10_000)
        except TimeoutError:
            pass
        assert sent > 10_000 * len(one)
        cpu, asked = d.cpu_seconds(), c.stat()["requests"]
        bad.close()
        until(lambda: c.stat()["connections"] == 1)
        assert c.stat()["requests"] - asked > 5000, "they were taken"
        assert d.cpu_seconds() - cpu < 0.5 * SLOWER, "and not carried out"
        others_are_served(c)


# ---- many ----

def test_idle_connections_cost_little(make_daemon):
    need = IDLE + 100
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < need:
        pytest.skip(f"{need} descriptors are more than {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, need), hard))
    d = make_daemon(f"max_connections = {IDLE + 10}\n")
    with d.conn() as c:
        others_are_served(c)
        memory, fds = d.rss(), d.fds()
        idle = []
        try:
            for i in range(IDLE):
                idle.append(Conn(d.address))
                if i % 100 == 0:
                    others_are_served(c)
            assert c.stat()["connections"] == IDLE + 1
            each = (d.rss() - memory) / IDLE
            assert each < (40_000 if SANITIZED else 6000), each
            cpu = d.cpu_seconds()
            time.sleep(2)
            assert d.cpu_seconds() - cpu < 0.2, "they cost nothing while they are silent"
            cpu = d.cpu_seconds()
            for i in range(200):
                others_are_served(c, i)
            assert d.cpu_seconds() - cpu < 0.5 * SLOWER, "nor do they make others dear"
            for s in idle[:9]:  # nor have they been forgotten
                assert s.call(ping=pb.Ping(echo=b"x")).echo == b"x"
        finally:
            for s in idle:
                s.close()
        until(lambda: c.stat()["connections"] == 1)
        assert d.fds() == fds


# ---- frames that are not what they seem ----

QUEUES = ["", "default", "exec", "lease", "soon", "ns/default", "a/b", "x\0y", "new", "e\u202e", "q" * 128,
          "q" * 129, " e", "/", " ns/x"]
KEYS = [b"", b"a", b"b", b"c", b"k1", b"a/b", b"a\0b", b"\xff", b"k" * 255, b"k" * 256, b" x", b"ns/a"]
SIGNED = [0, 1, 5, 50, 1000, 3_600_000, 3_153_600_000_001, -1, -2**63, 2**63 - 1]
COMMANDS = [[b"true"], [b"false"], [b""], [b"a\0"], [b"/nonexistent"], [b"true"] + [b"y" * 100] * 1023]
SETTINGS = {"max_active": ["0", "1", "-1", "99999999999", ""], "action": ["lease", "none", "exec", "x"],
            "lease": ["1s", "0", "10ms", "100y"], "handler": ["yes", "no", ""], "max_attempts": ["1", "0"],
            "ordered": ["true", "no"], "retention": ["1h", "0"], "slack": ["0", "1s"], "retry_delay": ["0", "10ms"],
            "durability": ["sync", "memory", "x"], "misfire": ["skip", "rearm"], "pool": ["default", "x"],
            "priority": ["high", "z"], "weight": ["0", "9999999999"], "reserve": ["true"], "max_jobs": ["0", "100"],
            "x\0y": ["1"]}


ENDS = ("shutdown", "upgrade")  # are no accidents, for whoever may


class Fuzz:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.tokens = [0, 1, 2, 2**64 - 1]
        self.ops = [f for f in pb.Request.DESCRIPTOR.oneofs_by_name["op"].fields if f.name not in ENDS]
        self.end_tags = [varint(f.number << 3 | 2) for f in pb.Request.DESCRIPTOR.fields if f.name in ENDS]
        rare = ("reload", "backup", "check", "drain", "queue_delete", "hello", "export")
        self.weights = [0.2 if f.name in rare else 1 for f in self.ops]

    def value(self, f):
        rng = self.rng
        if f.type == f.TYPE_STRING:
            return rng.choice(QUEUES[:5] if rng.random() < 0.8 else QUEUES)
        if f.type == f.TYPE_BYTES:
            if f.name in ("key", "name"):
                return rng.choice(KEYS)
            return rng.choice([b"", b"x", b"\0\xff", b"z" * 64, b"z" * 65, b"p" * rng.choice([100, 1000])])
        if f.type == f.TYPE_BOOL:
            return rng.random() < 0.5
        if f.type == f.TYPE_ENUM:
            return rng.choice([*f.enum_type.values_by_number, 99])
        if f.name in ("token", "run_token"):
            return rng.choice(self.tokens[-40:])
        if f.type in (f.TYPE_UINT32, f.TYPE_INT32):
            return rng.choice([0, 1, 2, 1024, 1025, 2**31 - 1])
        return rng.choice(SIGNED) if f.type == f.TYPE_INT64 else abs(rng.choice(SIGNED))

    def fill(self, m):
        rng = self.rng
        for f in m.DESCRIPTOR.fields:
            if rng.random() < 0.5 and f.name not in ("key", "queue", "name", "token"):
                continue
            many = f.label == f.LABEL_REPEATED
            if f.name == "command" and many:
                if rng.random() < 0.1:
                    getattr(m, f.name).extend(rng.choice(COMMANDS))
            elif f.type == f.TYPE_MESSAGE:
                for _ in range(rng.choice([0, 1, 3]) if many else 0):
                    sub = getattr(m, f.name).add()
                    if f.message_type.name == "Setting":
                        sub.name = rng.choice(list(SETTINGS))
                        sub.value = rng.choice(SETTINGS[sub.name])
                    else:
                        self.fill(sub)
            elif many:
                getattr(m, f.name).extend(self.value(f) for _ in range(rng.choice([0, 1, 2, 17, 65])))
            else:
                setattr(m, f.name, self.value(f))

    def request(self, i):
        r = pb.Request(id=i)
        f = self.rng.choices(self.ops, self.weights)[0]
        body = getattr(r, f.name)
        body.SetInParent()
        self.fill(body)
        if "timeout_ms" in body.DESCRIPTOR.fields_by_name and self.rng.random() < 0.95:
            body.timeout_ms = self.rng.choice([0, 1, 50])
        if self.rng.random() < 0.1:
            r.run_token = self.rng.choice(self.tokens[-40:])
        return r

    def mutated(self, i):
        """Bytes of a changed request, and whether they still are one."""
        while True:
            r = self.request(i)
            if b"command" in str(r).encode():
                continue  # what would be run is not left to chance
            b = bytearray(r.SerializeToString())
            for _ in range(self.rng.choice([1, 1, 2, 5])):
                self.change(b)
            b = bytes(b)
            if any(tag in b for tag in self.end_tags):
                continue
            try:
                with warnings.catch_warnings(action="ignore"):
                    pb.Request.FromString(b)
                return b, True
            except Exception:  # noqa: BLE001  DecodeError has no stable place
                return b, False

    def change(self, b):
        rng = self.rng
        if not b:
            b += b"\0"
        how, at = rng.randrange(5), rng.randrange(len(b))
        if how == 0:
            b[at] ^= 1 << rng.randrange(8)
        elif how == 1:
            b[at] = rng.choice([0, 0xff, 0x7f, 0x80])
        elif how == 2:
            del b[at:at + rng.choice([1, 2, 8])]
        elif how == 3:
            b[at:at] = rng.randbytes(rng.choice([1, 3, 9]))
        else:
            b[at:at] = b[at:at + rng.choice([2, 10, 100])]


def read_some(c, fuzz):
    """What is there of replies; False: the connection is over."""
    c.sock.settimeout(0)
    try:
        while True:
            r = c.next_reply()
            if r.HasField("leased"):
                fuzz.tokens += [r.leased.token, r.leased.run_token]
    except (TimeoutError, BlockingIOError):
        return True
    except (wire.Closed, OSError):
        return False
    finally:
        c.sock.settimeout(60)


def test_mutated_frames(make_daemon):
    d = make_daemon("max_jobs = 2000\nmax_queues = 60\n" + handler("yes", "/bin/true") +
                    queue("exec", handler="yes", max_active=2) +
                    lease_queue("lease", lease="300ms", max_attempts=3) + queue("soon"))
    fuzz = Fuzz(SEED)

    def hello():
        return pb.Request(hello=pb.Hello(version=1, namespace=fuzz.rng.choice(["", "", "ns"])))

    def greet():
        c = Conn(d.address, hello=False, timeout=60)
        c.sock.sendall(frame(hello()))
        assert c.next_reply().status == S.STATUS_OK
        return c
    keep, changed, sent = [greet() for _ in range(4)], [], 0
    while sent < FRAMES:
        # Right ones on connections that stay, so that there are jobs, queues, leases, waiters.
        k = fuzz.rng.randrange(len(keep))
        try:
            keep[k].sock.sendall(b"".join(frame(fuzz.request(i)) for i in range(5)))
            alive = read_some(keep[k], fuzz) and fuzz.rng.random() > 0.02
        except OSError:
            alive = False
        if not alive:
            keep[k].close()
            assert d.proc.poll() is None, d.text()[-8000:]
            keep[k] = greet()
        # Changed ones: those that are requests still, and one that is none at the end.
        batch, ok = frame(hello()), True
        while ok and sent < FRAMES and len(batch) < 100_000:
            b, ok = fuzz.mutated(sent)
            batch += frame(b) if fuzz.rng.random() < 0.97 else varint(fuzz.rng.randrange(2 * len(b) + 2)) + b
            sent += 1
        changed.append(raw(d))
        try:
            changed[-1].sendall(batch)
            changed[-1].shutdown(socket.SHUT_WR)
        except OSError:
            pass
        if len(changed) == 32:
            # Some are read to their end, of some a part, of some nothing.
            for i, s in enumerate(changed):
                s.settimeout(0.5 if i == 0 else 0)
                try:
                    while s.recv(1 << 18):
                        pass
                except OSError:
                    pass
                s.close()
            changed.clear()
    for c in keep + changed:
        c.close()
    assert d.proc.poll() is None, d.text()[-8000:]

    def whole():
        with d.conn() as c:
            until(lambda: c.stat()["connections"] == 1)
            assert c.call(check=pb.Check()).status == S.STATUS_OK
            others_are_served(c)
        assert d.ctl("export").returncode == 0
    whole()
    assert d.stop() == 0, "a leak"
    d.start()
    whole()
    d.kill9()
    d.start()
    whole()
