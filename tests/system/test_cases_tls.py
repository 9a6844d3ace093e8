"""Field cases TLS: certificates, and who misuses handshakes."""
import os
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import time

import pki
import pytest
import wire
from conftest import BUILD, PATIENCE, WQD, until
from test_cases_pro import check_a_peer_that_never_reads
from wire import S, pb


@pytest.fixture
def ca(tmp):
    return pki.Authority(tmp)


class Secure:
    """A daemon behind TLS; its pair lies in two files that a test may replace."""

    def __init__(self, make_daemon, tmp, pair, conf=""):
        self.cert, self.key = tmp / "cert.pem", tmp / "key.pem"
        self.put(*pair)
        self.d = make_daemon(f'tls_cert = "{self.cert}"\ntls_key = "{self.key}"\n{conf}',
                             also="tls://127.0.0.1:0")
        self.port = self.d.port()
        self.address = f"tls://localhost:{self.port}"

    def put(self, cert, key):
        shutil.copy(cert, self.cert)
        shutil.copy(key, self.key)

    def conn(self, ca, cert=None, **kw):
        return wire.Conn(self.address, context=ca.context(cert), **kw)

    def raw(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)

    def ctl(self, *args, ca=None, server=None, **kw):
        env = {"WQ_SERVER": server or self.address}
        if ca:
            env["WQ_TLS_CA"] = str(ca.cert)
        return self.d.ctl(*args, env=env, **kw)

    def stat(self):
        return self.d.json("stat")


@pytest.fixture
def secure(make_daemon, tmp, ca):
    return Secure(make_daemon, tmp, ca.issue("localhost"))


def shown(conn):
    return conn.sock.getpeercert()["serialNumber"]


# ---- TLS-01 ----

@pytest.mark.parametrize("how", ["signal", "wqctl"])
def test_tls_01_a_renewed_pair_is_used_after_a_reload(secure, ca, how):
    old = secure.conn(ca)
    first, new = shown(old), ca.issue("localhost")
    secure.put(*new)
    if how == "signal":
        os.kill(secure.d.pid, signal.SIGHUP)
        until(lambda: "event=reloaded" in secure.d.text())
    else:
        secure.d.ctl("reload", check=0)
    with secure.conn(ca) as c:
        assert shown(c) == pki.serial(new[0]) != first
        assert c.update("a", 60_000).status == S.STATUS_CREATED
    assert old.update("a", 60_000).status == S.STATUS_UPDATED_TIMER
    assert shown(old) == first
    old.close()


def break_mismatched(secure, ca):
    shutil.copy(ca.issue("localhost")[0], secure.cert)


def break_half(secure, ca):
    whole = secure.cert.read_text()
    secure.cert.write_text(whole[:len(whole) // 2])


def break_half_key(secure, ca):
    whole = secure.key.read_text()
    secure.key.write_text(whole[:len(whole) // 2])


def break_empty(secure, ca):
    secure.cert.write_text("")


def break_away(secure, ca):
    secure.key.unlink()


@pytest.mark.parametrize("spoil", [break_mismatched, break_half, break_half_key, break_empty,
                                   break_away])
def test_tls_01_a_pair_that_is_no_good_keeps_the_old_one(secure, ca, spoil):
    good = secure.cert.read_text(), secure.key.read_text()
    with secure.conn(ca) as old:
        first = shown(old)
        spoil(secure, ca)
        said = secure.d.ctl("--json", "reload", check=1)
        assert "tls_" in said.stdout and '"error":"INVALID"' in said.stdout
        assert "event=reload_refused" in secure.d.text()
        with secure.conn(ca) as c:
            assert shown(c) == first
        assert old.call(ping=pb.Ping()).status == S.STATUS_OK
        # wqd --check says so, too.
        done = subprocess.run([WQD, "--check", "-c", secure.d.conf_path], capture_output=True,
                              text=True, check=False)
        assert done.returncode == 3 and "tls_" in done.stderr
        secure.cert.write_text(good[0])
        secure.key.write_text(good[1])
        secure.d.ctl("reload", check=0)


def test_tls_01_the_expiry_is_visible(make_daemon, tmp, ca):
    secure = Secure(make_daemon, tmp, ca.issue("localhost", days=3))
    left = secure.stat()["tls_certificate_expires_s"]
    assert 3 * 86400 - 600 < left <= 3 * 86400
    assert "it expires soon" in secure.d.text()
    secure.put(*ca.issue("localhost", days=1, ago=3))
    secure.d.ctl("reload", check=0)
    assert -2 * 86400 - 600 < secure.stat()["tls_certificate_expires_s"] <= -2 * 86400
    assert "it has expired" in secure.d.text()


def test_without_tls_nothing_speaks_of_a_certificate(wqd):
    assert "tls_certificate_expires_s" not in wqd.json("stat")


# ---- TLS-03 ----

def failing(make_daemon, tmp, ca, which):
    """A daemon whose certificate is wrong in one way, and who is trusted."""
    if which == "untrusted":
        return Secure(make_daemon, tmp, pki.Authority(tmp).issue("localhost"))
    if which == "wrong-name":
        return Secure(make_daemon, tmp, ca.issue("elsewhere", alt="DNS:elsewhere.example"))
    return Secure(make_daemon, tmp, ca.issue("localhost", days=1, ago=3))


@pytest.mark.parametrize("which, word", [("untrusted", "UNTRUSTED"), ("wrong-name", "WRONG_NAME"),
                                         ("expired", "EXPIRED")])
def test_tls_03_wqctl_and_the_library_tell_three_failures(make_daemon, tmp, ca, which, word):
    s = failing(make_daemon, tmp, ca, which)
    done = s.ctl("--json", "ping", ca=ca)
    assert done.returncode == 1 and f'"error":"{word}"' in done.stdout, done
    assert s.address in done.stdout
    done = s.ctl("ping", ca=ca)
    assert done.returncode == 1 and not done.stdout and s.address in done.stderr
    done = s.ctl("--insecure", "--json", "ping", ca=ca)
    assert done.returncode == 0 and '"outcome"' in done.stdout
    assert done.stderr.count("is not verified") == 1, "the warning goes to stderr, once"
    assert s.stat()["tls_handshakes_failed"] >= 2


def test_tls_03_the_systems_store_is_the_default(secure, ca):
    assert secure.ctl("ping").returncode == 1
    done = secure.ctl("ping", ca=ca)
    assert done.returncode == 0 and not done.stderr
    # A folder with the hashed name does as well, and a numeric address when it is named.
    folder = ca.dir / "hashed"
    folder.mkdir()
    name = pki.run("openssl", "x509", "-in", ca.cert, "-noout", "-hash").strip()
    shutil.copy(ca.cert, folder / f"{name}.0")
    numeric = f"tls://127.0.0.1:{secure.port}"
    secure.d.ctl("--tls-ca", folder, "--server", numeric, "ping", check=0)


def test_tls_03_files_that_are_no_good_are_named(secure, ca):
    for option in ("--tls-ca", "--tls-cert"):
        done = secure.ctl(option, "/nowhere/x.pem", "--json", "ping", ca=ca)
        assert done.returncode == 1 and '"error":"TLS"' in done.stdout
        assert "/nowhere/x.pem: No such file" in done.stdout
    done = secure.ctl("--tls-cert", ca.cert, "--json", "ping", ca=ca)
    assert done.returncode == 1 and "its private key is looked for there" in done.stdout


def test_a_plain_client_and_a_tls_port_do_not_understand_each_other(secure, ca):
    done = secure.d.ctl("--server", f"tcp://127.0.0.1:{secure.port}", "ping")
    assert done.returncode == 8
    done = secure.d.ctl("--json", "--server", f"tls://127.0.0.1:{secure.port}", "ping")
    assert '"error":"UNTRUSTED"' in done.stdout
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    with subprocess.Popen([BUILD / "client/wqctl", "--json", "--server",
                           f"tls://127.0.0.1:{port}", "ping"], stdout=subprocess.PIPE) as p:
        peer, _ = listener.accept()
        peer.sendall(b"220 mail.example ESMTP\r\n")
        out = p.communicate()[0]
        peer.close()
    listener.close()
    assert p.returncode == 1 and b'"error":"TLS"' in out


# ---- certificates of clients ----

def test_clients_may_have_to_show_a_certificate(make_daemon, tmp, ca):
    mine = ca.issue("worker-1", alt="")
    other = pki.Authority(tmp).issue("worker-1", alt="")
    s = Secure(make_daemon, tmp, ca.issue("localhost"),
               f'tls_client_ca = "{ca.cert}"\ntls_clients = "require"\n')
    with s.conn(ca, mine) as c:
        assert c.call(ping=pb.Ping()).status == S.STATUS_OK
    for pair in (None, other):
        with pytest.raises((ssl.SSLError, ConnectionError, wire.Closed)):
            s.conn(ca, pair)
    assert s.ctl("--tls-cert", mine[0], "--tls-key", mine[1], "ping", ca=ca).returncode == 0
    done = s.ctl("--json", "ping", ca=ca)
    assert done.returncode != 0 and '"error":"TLS"' in done.stdout, done
    # With request, none is as good as a good one.
    s.d.write_conf(s.d.conf_path.read_text().split("\n", 2)[2].replace("require", "request"))
    s.d.ctl("reload", check=0)
    with s.conn(ca) as c, s.conn(ca, mine) as e:
        assert c.call(ping=pb.Ping()).status == e.call(ping=pb.Ping()).status == S.STATUS_OK
    with pytest.raises((ssl.SSLError, ConnectionError, wire.Closed)):
        s.conn(ca, other)


# ---- what the protocol does inside ----

@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_large_requests_and_replies_pass_whole(secure, ca, version):
    context = ca.context()
    context.minimum_version = context.maximum_version = version
    with wire.Conn(secure.address, context=context) as c:
        assert c.sock.version() == {ssl.TLSVersion.TLSv1_2: "TLSv1.2",
                                    ssl.TLSVersion.TLSv1_3: "TLSv1.3"}[version]
        payload = os.urandom(900_000)
        assert c.update("big", 3_600_000, payload=payload).status == S.STATUS_CREATED
        reqs = [c.request(update=wire.update(f"key-{i}", delay_ms=3_600_000)) for i in range(5000)]
        c.send_many(reqs)
        assert {c.next_reply().id for _ in reqs} == {r.id for r in reqs}
        assert len(c.call(list=pb.List(limit=1000)).jobs) == 1000


def test_old_versions_and_renegotiation_are_refused(secure, ca):
    context = ca.context()
    context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        wire.Conn(secure.address, context=context)
    done = subprocess.run(
        ["openssl", "s_client", "-connect", f"127.0.0.1:{secure.port}", "-tls1_2"], input="R\n",
        capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert "no renegotiation" in done.stderr.lower(), done.stderr


def test_requests_before_a_goodbye_are_carried_out(secure, ca):
    """Data that is left inside the TLS layer is delivered, the end after it."""
    c = secure.conn(ca)
    n = 300
    c.send_many([c.request(update=wire.update(f"k{i}", delay_ms=3_600_000)) for i in range(n)])
    try:
        c.sock.unwrap()
    except (ssl.SSLError, OSError):
        pass  # replies that come instead of the goodbye
    c.close()
    until(lambda: secure.stat()["jobs"] == n)
    until(lambda: secure.stat()["connections"] == 1)


def test_records_in_pieces_are_put_together(secure, ca):
    """A byte at a time on the socket, through memory BIOs."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = ca.context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    raw = secure.raw()
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def push():
        for b in outgoing.read():
            raw.sendall(bytes([b]))

    while True:
        try:
            tls.do_handshake()
            push()
            break
        except ssl.SSLWantReadError:
            push()
            incoming.write(raw.recv(65536))
    tls.write(wire.frame(pb.Request(id=1, hello=pb.Hello(version=1))))
    push()
    while True:
        incoming.write(raw.recv(65536))
        try:
            assert tls.read(4096)
            break
        except ssl.SSLWantReadError:
            pass
    raw.close()


# ---- hostile ----

def test_stalled_handshakes_keep_nobody_out(make_daemon, tmp, ca):
    s = Secure(make_daemon, tmp, ca.issue("localhost"),
               'tls_max_handshakes = 50\ntls_handshake_timeout = "3s"\n')
    with s.d.conn() as c:
        before, cpu = s.d.rss(), s.d.cpu_seconds()
        stalled = []
        for i in range(100):
            raw = s.raw()
            if i % 2:
                raw.sendall(b"\x16\x03\x01\x02\x00\x01")  # a record of 512 bytes begins
            stalled.append(raw)
        until(lambda: c.stat()["tls_handshakes_dropped"] >= 50)
        assert c.stat()["tls_handshaking"] <= 50
        t = time.monotonic()
        with s.conn(ca) as good:
            assert good.call(ping=pb.Ping()).status == S.STATUS_OK
            assert time.monotonic() - t < 5
        assert s.d.rss() - before < 20 << 20
        until(lambda: c.stat()["tls_handshaking"] == 0, what="the handshake's time limit")
        assert c.stat()["tls_handshakes_failed"] == 100
        assert s.d.cpu_seconds() - cpu < 2
        for raw in stalled:
            raw.close()


def test_a_tls_peer_that_never_reads_is_stopped(secure, ca):
    # An unknown field makes requests large: the socket's own buffers hold some megabytes.
    check_a_peer_that_never_reads(secure.d, lambda: secure.conn(ca), b"\xfa\x7f\xfa\x01" + bytes(250))


def test_nonsense_and_resets_at_any_point_leave_nothing(secure, ca):
    with secure.d.conn() as c:
        fds = secure.d.fds()
        for i in range(60):
            raw = secure.raw()
            if i % 3 == 0:
                raw.sendall(os.urandom(1 + i * 37))
            elif i % 3 == 1:
                tls = ca.context().wrap_socket(raw, server_hostname="localhost")
                raw = socket.socket(fileno=tls.detach())
                raw.sendall(os.urandom(2000))
            else:
                raw.sendall(b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            raw.close()
        until(lambda: c.stat()["connections"] == 1 and c.stat()["tls_handshaking"] == 0)
        until(lambda: secure.d.fds() == fds)


def test_a_thousand_handshakes_leave_others_their_turns(secure, ca):
    """Handshakes cost a signature each; a rush of them is spread over turns."""
    loops = int(os.environ.get("WQ_TLS_RUSH", "100"))
    done = subprocess.Popen(
        ["openssl", "s_time", "-connect", f"127.0.0.1:{secure.port}", "-new", "-time",
         str(max(1, loops // 50))], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    worst = 0
    with secure.d.conn() as c:
        while done.poll() is None:
            t = time.monotonic()
            c.call(ping=pb.Ping())
            worst = max(worst, time.monotonic() - t)
    assert secure.stat()["tls_handshakes"] > 10
    assert worst < 2
