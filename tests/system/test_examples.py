"""The examples of libwq do what they say, against a real daemon; and RST-07 with the client library."""
import os
import select
import signal
import socket
import subprocess
import threading

import pytest
import wire
from conftest import BUILD, PATIENCE, handler, queue, until

EXAMPLES = BUILD / "docs" / "examples"
LONG_MS = 3600000  # longer than any machine is slow


def command(d, name, *args):
    return [str(EXAMPLES / name), *map(str, args)], dict(os.environ, WQ_SERVER=d.address)


def run(d, name, *args, **kw):
    argv, env = command(d, name, *args)
    return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=PATIENCE,
                          check=False, **kw)


def start(d, name, *args, **kw):
    argv, env = command(d, name, *args)
    kw.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.Popen(argv, env=env, text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, **kw)


def lines(path):
    return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def hb(make_daemon, tmp):
    alarm = tmp / "alarm"
    d = make_daemon(handler("alarm", "/bin/sh", "-c", f'echo "$WQ_KEY" >>{alarm}') +
                    queue("hb", handler="alarm"))
    d.alarm = alarm
    return d


def test_a_heartbeat_that_stops_raises_the_alarm(hb):
    p = start(hb, "heartbeat", "host-17", 1000, 10)
    assert p.stdout.readline() in ("CREATED\n", "UPDATED_TIMER\n")
    # most beats stay inside the slack and cost no round trip
    while p.stdout.readline() != "SKIPPED (here)\n":
        assert p.poll() is None
    p.kill()
    p.communicate()
    until(lambda: "host-17" in lines(hb.alarm), what="the alarm")


def test_a_heartbeat_slower_than_its_timeout_is_refused(hb):
    p = start(hb, "heartbeat", "host-19", 1000, 1000)
    _, err = p.communicate(timeout=PATIENCE)
    assert p.returncode == 2 and "longer than INTERVAL" in err
    with hb.conn() as c:
        assert c.get("host-19", queue="hb") is None


def test_a_heartbeat_that_ends_in_peace_raises_none(hb):
    p = start(hb, "heartbeat", "host-18", LONG_MS, 10)
    assert p.stdout.readline() == "CREATED\n"
    with hb.conn() as c:
        assert c.get("host-18", queue="hb").pending
        p.send_signal(signal.SIGTERM)
        _, err = p.communicate(timeout=PATIENCE)
        assert (p.returncode, err) == (0, "")
        job = c.get("host-18", queue="hb")
        assert job is None or not job.pending
    assert lines(hb.alarm) == []


@pytest.fixture
def index(make_daemon, tmp):
    seen = tmp / "seen"
    d = make_daemon(handler("index", "/bin/sh", "-c", f"cat >>{seen}") +
                    queue("index", handler="index", max_parts=1000))
    d.seen = seen
    return d


def test_debounce_runs_once_for_many_changes(index):
    changes = [f"change {i}" for i in range(100)]
    p = run(index, "debounce", "tree", 200, input="\n".join(changes) + "\n")
    assert (p.returncode, p.stderr) == (0, "")
    n, _, runs, _ = p.stdout.split()
    assert n == "100" and 1 <= int(runs) < 100
    until(lambda: len(lines(index.seen)) >= 100, what="the run")
    assert lines(index.seen) == changes


class LosingProxy:
    """Passes bytes between a client and the daemon. On its first connection it keeps back the
    daemon's replies to all but the hello, and breaks when `lose` of them have come; `meanwhile`
    is called before the next one is taken."""

    def __init__(self, path, upstream, lose, meanwhile=lambda: None):
        self.path, self.upstream = str(path), str(upstream)
        self.lose, self.meanwhile = lose, meanwhile
        self.lost = b""
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        self.pass_on(self.lose)
        self.meanwhile()
        self.pass_on(None)

    def pass_on(self, lose):
        client, _ = self.listener.accept()
        daemon = socket.socket(socket.AF_UNIX)
        daemon.connect(self.upstream)
        with client, daemon:
            hello = False
            while True:
                for s in select.select([client, daemon], [], [], PATIENCE)[0]:
                    data = s.recv(65536)
                    if not data:
                        return
                    if s is client:
                        daemon.sendall(data)
                    elif lose is None or not hello:
                        client.sendall(data)  # the client says nothing before it has this
                        hello = True
                    else:
                        self.lost += data
                        if frames(self.lost) >= lose:
                            return


def frames(data):
    """How many whole frames `data` begins with."""
    n = at = 0
    while at < len(data):
        size = shift = 0
        while at < len(data):
            b = data[at]
            at += 1
            size |= (b & 0x7f) << shift
            shift += 7
            if not b & 0x80:
                break
        at += size
        n += at <= len(data)
    return n


@pytest.mark.parametrize("how", ["reconnect", "restart", "kill"])
def test_rst_07_a_lost_reply_is_asked_for_again_and_applied_once(index, tmp, how):
    def meanwhile():
        if how == "restart":
            index.restart()
        elif how == "kill":
            index.kill9()
            index.start()

    with index.conn() as c:
        # what was answered must be on disk when the daemon is killed
        c.set_queue("index", durability="sync")
    proxy = LosingProxy(tmp / "p", index.sock, lose=5, meanwhile=meanwhile)
    argv, env = command(index, "debounce", "tree", LONG_MS)
    env["WQ_SERVER"] = f"unix:{proxy.path}"
    changes = [f"change {i}" for i in range(5)]
    p = subprocess.run(argv, env=env, input="\n".join(changes) + "\n", capture_output=True,
                       text=True, timeout=2 * PATIENCE, check=False)
    assert (p.returncode, p.stderr, p.stdout) == (0, "", "5 changes, 1 runs\n")
    assert frames(proxy.lost) == 5
    with index.conn() as c:
        job = c.get("tree", queue="index")
        assert job.pending and job.coalesced == 4
        c.job("kick", "tree", queue="index")
    until(lambda: len(lines(index.seen)) >= 5, what="the run")
    assert lines(index.seen) == changes


@pytest.fixture
def leases(make_daemon):
    return make_daemon(queue("lease", action="none"))


def test_one_lease_has_one_holder(leases, tmp):
    go = tmp / "go"
    p = start(leases, "lease", "db", LONG_MS, "/bin/sh", "-c",
              f"echo held; while ! test -e {go}; do sleep 0.02; done; exit 7")
    assert p.stdout.readline() == "held\n"
    second = run(leases, "lease", "db", LONG_MS, "/bin/true")
    assert second.returncode == 1 and "exists already" in second.stderr
    go.touch()
    _, err = p.communicate(timeout=PATIENCE)
    assert (p.returncode, err) == (7, "")
    assert run(leases, "lease", "db", LONG_MS, "/bin/true").returncode == 0


def test_a_lease_is_renewed_and_given_back(leases):
    p = run(leases, "lease", "db", 600, "/bin/sh", "-c", "sleep 1; exit 7")
    if p.returncode == 1 and "lost" in p.stderr:
        pytest.skip("the machine was too slow to renew in time")
    assert (p.returncode, p.stderr) == (7, "")
    with leases.conn() as c:
        job = c.get("db", queue="lease")
        assert job is None or not job.pending


def test_a_lost_lease_ends_the_command(leases, tmp):
    p = start(leases, "lease", "db", 3000, "/bin/sh", "-c", "echo held; exec sleep 1000")
    assert p.stdout.readline() == "held\n"
    with leases.conn() as c:
        c.cancel("db", queue="lease")
    _, err = p.communicate(timeout=PATIENCE)
    assert p.returncode == 1 and "lost" in err


def test_the_reaper_has_one_timer_for_many_leases(make_daemon, tmp):
    held = tmp / "held"
    held.mkdir()
    d = make_daemon(handler("reap", str(EXAMPLES / "reaper"), "sweep", str(held)) +
                    queue("reaper", handler="reap"))
    for name, ttl in (("late", LONG_MS), ("b", 400), ("a", 100)):
        p = run(d, "reaper", "touch", held, name, ttl)
        assert (p.returncode, p.stderr) == (0, "")
    until(lambda: os.listdir(held) == ["late"], what="two leases reaped")

    def armed():
        with d.conn() as c:
            job = c.get("sweep", queue="reaper")
            return job and job.state == wire.pb.JOB_STATE_ARMED and job

    job = until(armed, what="the timer for the lease that is left")
    assert job.deadline_ms == int((held / "late").stat().st_mtime_ns // 1000000)
    with d.conn() as c:
        outputs = b"".join(r.output for r in c.history("sweep", queue="reaper")[::-1])
        assert sorted(outputs.split()) == [b"a", b"b"]
