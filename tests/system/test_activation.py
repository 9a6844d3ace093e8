"""Sockets that the service manager has opened: a unit's FileDescriptorName= says what is spoken on them."""
import socket

import pki
import pytest
import wire
from conftest import PATIENCE
from wire import S, pb

# In the place of systemd, which is the one to set these.
MANAGER = """
import os, socket, sys
names = sys.argv[1]
socks = [socket.create_server(("127.0.0.1", 0)) for _ in names.split(":")]
for i, s in enumerate(socks):
    os.dup2(s.fileno(), 100 + i)
for i in range(len(socks)):
    os.dup2(100 + i, 3 + i)
    os.close(100 + i)
os.environ.update(LISTEN_FDS=str(len(socks)), LISTEN_PID=str(os.getpid()), LISTEN_FDNAMES=names)
os.execv(sys.argv[2], sys.argv[2:])
"""


@pytest.mark.parametrize("names", ("tls", "wqd.socket", "tls:other", "other:tls"))
def test_a_socket_that_is_called_tls_is_one(make_daemon, tmp, names):
    ca = pki.Authority(tmp)
    cert, key = ca.issue("localhost")
    d = make_daemon(f'tls_cert = "{cert}"\ntls_key = "{key}"\n',
                    wrapper=["python3", "-c", MANAGER, names])
    found = [line.split('address="')[1].split('"')[0] for line in d.text().splitlines()
             if "event=listening" in line and "127.0.0.1" in line]
    assert [a.split(":")[0] for a in found] == [
        "tls" if n == "tls" else "tcp" for n in names.split(":")], d.text()
    for address in found:
        port = address.rsplit(":", 1)[1]
        if address.startswith("tls"):
            with wire.Conn(f"tls://localhost:{port}", context=ca.context(None)) as c:
                assert c.update("k", 60_000).status in (S.STATUS_CREATED, S.STATUS_UPDATED_TIMER)
            with socket.create_connection(("127.0.0.1", int(port)), timeout=PATIENCE) as s:
                s.sendall(wire.frame(pb.Request(id=1, hello=pb.Hello(version=1))))
                while got := s.recv(4096):
                    assert got[0] == 0x15, "an alert, and no answer in the clear"
        else:
            with wire.Conn(f"tcp://127.0.0.1:{port}") as c:
                assert c.update("k", 60_000).status in (S.STATUS_CREATED, S.STATUS_UPDATED_TIMER)
