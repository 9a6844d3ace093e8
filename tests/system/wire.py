"""An independent reader and writer of wq.v1: Python's protobuf over a socket.

It follows docs/protocol.md and proto/wq.proto, and shares no code with the daemon or libwq.
"""
import os
import socket
import sys
import time

sys.path.insert(0, os.path.join(os.environ.get("WQ_BUILD", "."), "proto"))
import wq_pb2 as pb  # noqa: E402

S = pb  # the enums: S.STATUS_CREATED ...


def varint(n):
    out = bytearray()
    while True:
        out.append((n & 0x7F) | (0x80 if n > 0x7F else 0))
        n >>= 7
        if not n:
            return bytes(out)


def frame(msg):
    data = msg if isinstance(msg, bytes) else msg.SerializeToString()
    return varint(len(data)) + data


class Closed(Exception):
    """The daemon closed the connection."""


class Conn:
    """One connection. `call` sends and waits; `send` and `reply` are for many in flight."""

    def __init__(self, address, hello=True, timeout=30, context=None, name="localhost", space=""):
        """`context`: an ssl.SSLContext, for tls:// addresses; `name`: whom it expects there.
        `space`: the namespace."""
        if address.startswith("unix:"):
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.settimeout(timeout)
            self.sock.connect(address[5:])
        else:
            host, _, port = address[len("tcp://"):].rpartition(":")
            self.sock = socket.create_connection((host.strip("[]"), int(port)), timeout=timeout)
            if address.startswith("tls://"):
                self.sock = context.wrap_socket(self.sock, server_hostname=name)
        self.buf = bytearray()
        self.kept = {}
        self.next_id = 1
        if hello:
            self.info = self.call(hello=pb.Hello(version=1, client="pytest", namespace=space)).hello

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def request(self, run_token=0, **op):
        req = pb.Request(id=self.next_id, run_token=run_token)
        self.next_id += 1
        (name, body), = op.items()
        getattr(req, name).CopyFrom(body)
        return req

    def send(self, run_token=0, **op):
        req = self.request(run_token, **op)
        self.sock.sendall(frame(req))
        return req.id

    def send_many(self, reqs):
        self.sock.sendall(b"".join(frame(r) for r in reqs))
        return [r.id for r in reqs]

    def _parse(self):
        n = shift = 0
        for i, b in enumerate(self.buf[:5]):
            n |= (b & 0x7F) << shift
            shift += 7
            if not b & 0x80:
                if len(self.buf) < i + 1 + n:
                    return None
                msg = pb.Reply.FromString(bytes(self.buf[i + 1:i + 1 + n]))
                del self.buf[:i + 1 + n]
                return msg
        return None

    def next_reply(self):
        """The next reply as it comes."""
        while (msg := self._parse()) is None:
            data = self.sock.recv(1 << 18)
            if not data:
                raise Closed()
            self.buf += data
        return msg

    def reply(self, rid):
        while rid not in self.kept:
            msg = self.next_reply()
            self.kept[msg.id] = msg
        return self.kept.pop(rid)

    def call(self, run_token=0, **op):
        return self.reply(self.send(run_token, **op))

    def wait_closed(self):
        """Reads to the end; the replies that came before it."""
        got = []
        try:
            while True:
                got.append(self.next_reply())
        except (Closed, ConnectionError):
            return got

    # ---- short forms ----
    def update(self, key, delay_ms=None, queue="", **kw):
        if delay_ms is not None:
            kw["delay_ms"] = delay_ms
        if "payload" in kw:
            kw.setdefault("payload_mode", pb.PAYLOAD_MODE_REPLACE)
        return self.call(update=update(key, queue=queue, **kw))

    def cancel(self, key, queue="", **kw):
        return self.call(cancel=pb.Cancel(key=enc(key), queue=queue, **kw))

    def flush(self, key, queue="", **kw):
        return self.call(flush=pb.Flush(key=enc(key), queue=queue, **kw))

    def wait(self, key, queue="", **kw):
        return self.call(wait=pb.Wait(key=enc(key), queue=queue, **kw))

    def job(self, op, key, queue="", **kw):
        return self.call(**{op: pb.Job(key=enc(key), queue=queue, **kw)})

    def get(self, key, queue=""):
        r = self.job("get", key, queue)
        return r.jobs[0] if r.jobs else None

    def history(self, key="", queue="", **kw):
        return list(self.call(history=pb.History(key=enc(key), queue=queue, **kw)).runs)

    def stat(self):
        return {c.name: c.value for c in self.call(stat=pb.Stat()).counters}

    def queue_info(self, queue):
        return self.call(queue_show=pb.Queue(queue=queue)).queues[0]

    def create_queue(self, queue, **settings):
        r = self.call(queue_create=queue_set(queue, settings))
        assert r.status == pb.STATUS_OK, r
        return r

    def set_queue(self, queue, **settings):
        return self.call(queue_set=queue_set(queue, settings))


def enc(key):
    return key.encode() if isinstance(key, str) else key


def update(key, **kw):
    return pb.Update(key=enc(key), **kw)


def queue_set(queue, settings):
    return pb.QueueSet(queue=queue, settings=[
        pb.Setting(name=k, value=str(v).lower() if isinstance(v, bool) else str(v))
        for k, v in settings.items()])


def word(status):
    return pb.Status.Name(status)[len("STATUS_"):]


def now_ms():
    return time.time_ns() // 1_000_000
