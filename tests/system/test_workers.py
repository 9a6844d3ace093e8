"""Workers that pull: leases over the wire, and the field cases of their kind."""
import os
import subprocess
import time

import pytest
from conftest import SANITIZED, lease_queue, queue, until
from wire import Conn, S, pb, word


class Worker(Conn):
    """A subscribed connection. Jobs and revocations are kept in the order they come."""

    def __init__(self, address, *queues, credits=0, **kw):
        super().__init__(address, **kw)
        self.jobs, self.revoked, self.over = [], [], None
        self.sub = self.send(subscribe=pb.Subscribe(queues=queues, credits=credits))
        first = self._one()
        assert first.id == self.sub and first.status == S.STATUS_OK and first.more, first

    def _one(self):
        r = self.next_reply()
        if r.id == getattr(self, "sub", None):
            if r.HasField("leased"):
                self.jobs.append(r.leased)
            elif r.HasField("revoked"):
                self.revoked.append(r.revoked)
            elif not r.more:
                self.over = r
        return r

    def reply(self, rid):
        while True:
            r = self._one()
            if r.id == rid:
                return r

    def job(self, timeout=60):
        self.sock.settimeout(timeout)
        while not self.jobs:
            self._one()
        return self.jobs.pop(0)

    def none_within(self, s):
        """True when no job comes for so long."""
        end = time.monotonic() + s
        while not self.jobs and (left := end - time.monotonic()) > 0:
            self.sock.settimeout(left)
            try:
                self._one()
            except TimeoutError:
                pass
        self.sock.settimeout(30)
        return not self.jobs

    def say(self, what, job, **kw):
        r = self.call(**{what: pb.Lease(key=job.key, queue=job.queue, token=job.token, **kw)})
        return word(r.status)


def test_a_worker_gets_jobs_and_finishes_them(make_daemon):
    d = make_daemon(lease_queue())
    with d.conn() as c, Worker(d.address, "q") as w:
        c.update("a", 0, queue="q", payload=b"one")
        job = w.job()
        assert (job.queue, job.key, job.generation, job.attempt) == ("q", b"a", 1, 1)
        assert list(job.payload) == [b"one"] and job.lease_ms == 30000 and job.token > 0
        info = c.get("a", "q")
        assert info.state == pb.JOB_STATE_RUNNING
        assert info.lease.holder.startswith("pytest unix pid=") and not info.lease.touched
        assert 0 < info.lease.left_ms <= 30000 and info.lease.token == job.token
        assert c.queue_info("q").workers == 1
        assert word(c.update("a", 0, queue="q", payload=b"two").status) == "REQUEUED_RUNNING"
        rid = c.send(wait=pb.Wait(key=b"a", queue="q", generation=1))
        assert w.say("finish", job, output=b"said", exit_code=0) == "OK"
        run = c.reply(rid).run
        assert run.outcome == pb.RUN_OUTCOME_DONE and run.output == b"said" and run.exit_code == 0
        second = w.job()
        assert list(second.payload) == [b"two"] and second.token > job.token
        # Inside the run: its own job, by its token.
        r = w.call(run_token=second.run_token, flush=pb.Flush(key=b"a", queue="q"))
        assert word(r.status) == "INVALID"
        assert w.say("fail", second, output=b"why") == "OK"
        last = c.get("a", "q").last
        assert last.outcome == pb.RUN_OUTCOME_FAILED and last.output == b"why"
        assert not c.get("a", "q").HasField("lease")


def test_parts_of_a_payload_stay_apart(make_daemon):
    d = make_daemon(lease_queue())
    with d.conn() as c, Worker(d.address, "q") as w:
        parts = [b"%d" % i for i in range(40)] + [b""]
        for p in parts:
            c.update("a", 300, queue="q", payload=p, payload_mode=pb.PAYLOAD_MODE_APPEND)
        assert list(w.job().payload) == parts


def test_wrk_01_a_lease_ends_on_time_and_left_is_never_negative(make_daemon):
    d = make_daemon(lease_queue(lease="1s"))
    with d.conn() as c, Worker(d.address, "q") as w:
        time.sleep(0.3)  # it waited a while before there was a job
        c.update("a", 0, queue="q")
        w.job()
        began = time.monotonic()
        seen = []
        while time.monotonic() < began + 1.6:
            info = c.get("a", "q")
            seen.append((time.monotonic() - began, info))
            time.sleep(0.004)
        held = [(t, i) for t, i in seen if i.HasField("lease")]
        assert all(0 <= i.lease.left_ms <= 1000 for _, i in held)
        assert held[-1][0] < 1.3 and held[-1][1].lease.left_ms < 100
        after = [i for t, i in seen if t > 1.3]
        assert after and all(i.state == pb.JOB_STATE_READY for i in after)
        assert after[-1].last.outcome == pb.RUN_OUTCOME_TIMEOUT
        assert w.none_within(0.1) and len(w.revoked) == 1


def test_wrk_01_late_words_are_refused(make_daemon):
    d = make_daemon(lease_queue(lease="200ms"))
    with d.conn() as c, Worker(d.address, "q") as w1:
        c.update("a", 0, queue="q")
        old = w1.job()
        with Worker(d.address, "q") as w2:
            new = w2.job()
            assert new.token > old.token and new.attempt == 2
            for what in ("touch", "fail", "release", "finish"):
                assert w1.say(what, old) == "LEASE_LOST"
            assert w2.say("touch", new, lease_ms=60000) == "OK"
            assert c.get("a", "q").lease.left_ms > 50000
            assert w2.say("finish", new) == "OK"
            assert w2.say("finish", new) == "LEASE_LOST"
        assert c.stat()["leases_expired"] == 1


@pytest.mark.parametrize("how", ["drop", "expire"])
def test_wrk_03_a_job_that_kills_its_worker_is_dead_after_its_attempts(make_daemon, how):
    d = make_daemon(lease_queue(max_attempts=3, lease="300ms"))
    with d.conn() as c:
        c.update("poison", 0, queue="q", payload=b"p")
        for attempt in (1, 2, 3):
            w = Worker(d.address, "q")
            job = w.job()
            assert job.key == b"poison" and job.attempt == attempt
            c.update(f"other{attempt}", 0, queue="q")
            if how == "expire":
                until(lambda: not c.get("poison", "q").HasField("lease"))
            w.close()
        info = until(lambda: (i := c.get("poison", "q")).dead and i)
        assert info.last.outcome == pb.RUN_OUTCOME_DEAD
        assert info.last.output == {"drop": b"the worker is gone",
                                    "expire": b"the lease ran out"}[how]
        with Worker(d.address, "q") as w:  # the others keep moving
            for attempt in (1, 2, 3):
                job = w.job()
                assert job.key.startswith(b"other")
                assert w.say("finish", job) == "OK"
            assert w.none_within(0.2)
            assert word(c.job("kick", "poison", "q").status) == "CREATED"
            job = w.job()
            assert (job.key, job.generation, job.attempt) == (b"poison", 2, 1)
            assert list(job.payload) == [b"p"]
            assert w.say("finish", job) == "OK"


def test_wrk_05_one_job_at_a_time_unless_more_are_asked_for(make_daemon):
    d = make_daemon(lease_queue(lease="1s"))
    with d.conn() as c, Worker(d.address, "q") as w1, Worker(d.address, "q") as w2:
        for i in range(4):
            c.update(f"{i}", 0, queue="q")
        assert w1.job().key == b"0" and w2.job().key == b"1"
        assert w1.none_within(0.1) and w2.none_within(0.1)
    with d.conn() as c, Worker(d.address, "q", credits=10) as w1:
        got = [w1.job() for _ in range(4)]
        held = [i for i in c.call(list=pb.List(queue="q")).jobs if i.HasField("lease")]
        assert len(held) == 4  # they show as reserved, with their holder
        assert all(i.lease.holder.startswith("pytest") for i in held)
        with Worker(d.address, "q", credits=10) as w2:
            first = got[0]
            end = time.monotonic() + 1.5
            while time.monotonic() < end:  # works on the first
                assert w1.say("touch", first) == "OK"
                time.sleep(0.1)
            rest = [w2.job() for _ in range(3)]
            assert sorted(j.key for j in rest) == sorted(j.key for j in got[1:])
            assert w1.say("finish", first) == "OK"


def test_pro_08_a_connection_that_ends_gives_its_jobs_back(make_daemon):
    d = make_daemon(lease_queue())
    with d.conn() as c, Worker(d.address, "q") as w2:
        base = c.stat()["connections"]
        c.update("a", 3_600_000, queue="q")
        w1 = Worker(d.address, "q")
        w2.call(credits=pb.Credits(credits=0))
        c.update("a", 0, queue="q")
        assert w1.job().attempt == 1
        w2.call(credits=pb.Credits(credits=1))
        w1.close()
        assert w2.job(5).attempt == 2
        until(lambda: c.stat()["connections"] == base)
        assert c.stat()["leases_lost"] == 1


def netns(*cmd):
    return subprocess.run(["ip", *cmd], capture_output=True, check=False).returncode == 0


@pytest.fixture
def wire_pair():
    """A network namespace at the end of a veth: (its name, our end, our address)."""
    name, ours, theirs = f"wqw{os.getpid()}", f"wqa{os.getpid()}"[:15], f"wqb{os.getpid()}"[:15]
    if os.geteuid() != 0 or not netns("netns", "add", name):
        pytest.skip("a network of its own takes root, ip and network namespaces")
    try:
        ok = netns("link", "add", ours, "type", "veth", "peer", "name", theirs, "netns", name)
        if not ok:
            pytest.skip("no veth here")
        assert netns("addr", "add", "10.213.77.1/30", "dev", ours)
        assert netns("link", "set", ours, "up")
        assert netns("-n", name, "addr", "add", "10.213.77.2/30", "dev", theirs)
        assert netns("-n", name, "link", "set", theirs, "up")
        yield name, ours, "10.213.77.1"
    finally:
        netns("link", "del", ours)
        netns("netns", "del", name)


def test_pro_08_a_worker_whose_network_is_gone(make_daemon, tmp, wire_pair):
    ns, ours, address = wire_pair
    d = make_daemon("allow_plaintext = yes\n" + lease_queue(lease="2s"),
                    also=f"tcp://{address}:0")
    script = ("import sys; sys.path[:0] = sys.argv[2:]\n"
              "from test_workers import Worker\n"
              "w = Worker(sys.argv[1], 'q')\n"
              "w.job(); print('got', flush=True); sys.stdin.read()\n")
    with d.conn() as c:
        base = c.stat()["connections"]
        gone = subprocess.Popen(
            ["ip", "netns", "exec", ns, os.sys.executable, "-c", script,
             f"tcp://{address}:{d.port()}", os.path.dirname(__file__)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            until(lambda: c.stat()["workers"] == 1)
            c.update("a", 0, queue="q")
            assert gone.stdout.readline() == "got\n"
            assert netns("link", "set", ours, "down")
            with Worker(d.address, "q") as w:
                job = w.job(10)  # when its lease is over
                assert job.attempt == 2 and w.say("finish", job) == "OK"
                if os.environ.get("WQD_TEST_FULL"):
                    # and its connection is closed within the documented time: a minute
                    until(lambda: c.stat()["connections"] == base + 1, 90)
        finally:
            gone.kill()
            gone.communicate()


def test_release_counts_no_attempt_and_unsubscribe_ends(make_daemon):
    d = make_daemon(lease_queue(max_attempts=2))
    with d.conn() as c, Worker(d.address, "q", credits=2) as w:
        c.update("a", 0, queue="q")
        c.update("b", 0, queue="q")
        a, b = w.job(), w.job()
        assert word(w.call(unsubscribe=pb.Unsubscribe()).status) == "OK"
        assert w.say("release", b) == "OK" and w.over is None
        assert c.get("b", "q").state == pb.JOB_STATE_READY
        assert w.say("finish", a) == "OK"
        until(lambda: w.over or w._one())
        assert word(w.over.status) == "OK"
        # The connection may subscribe again.
        w.sub = w.send(subscribe=pb.Subscribe(queues=["q"]))
        again = w.job()
        assert (again.key, again.attempt) == (b"b", 1)
        assert w.say("fail", again, retry_after_ms=200) == "OK"
        before = time.monotonic()
        assert w.job().attempt == 2 and time.monotonic() - before > 0.15


def test_cancel_kill_revokes(make_daemon):
    d = make_daemon(lease_queue())
    with d.conn() as c, Worker(d.address, "q") as w:
        c.update("a", 0, queue="q")
        job = w.job()
        waits = c.send(cancel=pb.Cancel(key=b"a", queue="q", mode=pb.CANCEL_MODE_WAIT))
        with d.conn() as k:
            r = k.cancel("a", "q", mode=pb.CANCEL_MODE_KILL)
        assert r.run.outcome == pb.RUN_OUTCOME_CANCELLED
        assert c.reply(waits).run.outcome == pb.RUN_OUTCOME_CANCELLED
        assert w.none_within(0.1) and w.revoked[0].token == job.token
        assert w.say("finish", job) == "LEASE_LOST"


def test_a_restart_keeps_a_job_from_running_twice(make_daemon):
    d = make_daemon(lease_queue(lease="5s", max_attempts=3))
    with d.conn() as c, Worker(d.address, "q") as w:
        c.update("a", 0, queue="q", durability=pb.DURABILITY_SYNC)
        old = w.job()
        c.update("sync", 3_600_000, queue="q", durability=pb.DURABILITY_SYNC)
    # Its connection has ended: it was given back. Hold it while the daemon is killed.
    w = Worker(d.address, "q")
    job = w.job()
    assert job.attempt == 2 and job.token > old.token
    with d.conn() as c:
        c.update("sync", 3_600_000, queue="q", durability=pb.DURABILITY_SYNC)
    d.kill9()
    d.start()
    began = time.monotonic()
    w.close()
    with d.conn() as c, Worker(d.address, "q") as w:
        info = c.get("a", "q")
        assert info.state == pb.JOB_STATE_RUNNING and info.attempt == 2
        assert info.lease.holder == "" and 0 < info.lease.left_ms <= 5000
        again = w.job()
        assert time.monotonic() - began > 4
        assert again.attempt == 3 and again.token > job.token
        assert w.say("finish", job) == "LEASE_LOST"
        assert w.say("finish", again, durability=pb.DURABILITY_SYNC) == "OK"
    d.kill9()
    d.start()
    with d.conn() as c:
        assert c.get("a", "q").last.outcome == pb.RUN_OUTCOME_DONE


def test_a_stop_waits_for_what_is_held(make_daemon):
    d = make_daemon(lease_queue())
    with d.conn() as c, Worker(d.address, "q") as w:
        c.update("a", 0, queue="q")
        c.update("b", 0, queue="q")
        job = w.job()
        c.call(shutdown=pb.Shutdown())
        assert w.none_within(0.3) and d.proc.poll() is None
        assert w.say("finish", job) == "OK"
        assert d.proc.wait(10) == 0
    d.proc = None
    d.start()
    with d.conn() as c:
        assert c.get("a", "q").last.outcome == pb.RUN_OUTCOME_DONE
        assert c.get("b", "q").state == pb.JOB_STATE_READY


def test_what_makes_no_sense_is_refused(make_daemon):
    d = make_daemon(lease_queue() + queue("n", action="none"))
    with d.conn() as c:
        for sub, st in ((pb.Subscribe(queues=["n"]), "INVALID"),
                        (pb.Subscribe(queues=["x"]), "NOT_FOUND"),
                        (pb.Subscribe(queues=["a/b"]), "INVALID"),
                        (pb.Subscribe(queues=["q"], credits=1025), "INVALID"),
                        (pb.Subscribe(queues=["q"] * 65), "INVALID"),
                        (pb.Subscribe(), "INVALID")):  # default is no lease queue
            assert word(c.call(subscribe=sub).status) == st, sub
        assert word(c.call(credits=pb.Credits(credits=1)).status) == "INVALID"
        assert word(c.call(unsubscribe=pb.Unsubscribe()).status) == "INVALID"
        lease = pb.Lease(key=b"a", queue="q", token=7)
        for op in ("touch", "finish", "fail", "release"):
            assert word(c.call(**{op: lease}).status) == "LEASE_LOST"
            bad = pb.Lease(key=b"a", queue="q", token=7, lease_ms=9)
            assert word(c.call(**{op: bad}).status) == "INVALID"
        bad = pb.Lease(key=b"a", queue="q", token=7, retry_after_ms=-1)
        assert word(c.call(fail=bad).status) == "INVALID"
        bad = pb.Lease(key=b"a", queue="q", token=7, exit_code=256)
        assert word(c.call(fail=bad).status) == "INVALID"
    with Worker(d.address, "q") as w:
        assert word(w.call(subscribe=pb.Subscribe(queues=["q"])).status) == "INVALID"


def test_a_worker_that_does_not_read_holds_up_nobody(make_daemon):
    """A session at its output limit is closed or waits; its jobs are not lost."""
    d = make_daemon(lease_queue(lease="1m"))
    big = b"x" * 900_000
    with d.conn() as c:
        before = d.rss()
        for i in range(20):
            c.update(f"{i}", 0, queue="q", payload=big)
        stuck = Worker(d.address, "q", credits=1024)
        assert c.stat()["leased"] == 2  # 1 MiB ahead of its answers, at most
        with Worker(d.address, "q", credits=1024) as w:
            for _ in range(18):
                assert w.say("finish", w.job()) == "OK"
        stuck.close()
        with Worker(d.address, "q") as w:
            for _ in range(2):
                assert w.say("finish", w.job()) == "OK"
        # The address sanitizer keeps what was freed for a while.
        assert d.rss() - before < (64 << 20) * (4 if SANITIZED else 1)


def test_workers_of_a_namespace_have_its_jobs_alone(make_daemon):
    d = make_daemon(lease_queue() + lease_queue("team/q"))
    with Conn(d.address, space="team") as c, Worker(d.address, "q", space="team") as w, \
            d.conn() as base, Worker(d.address, "q") as other:
        c.update("a", 0, queue="q")
        job = w.job()
        assert (job.queue, job.key) == ("q", b"a")
        assert other.none_within(0.1)
        assert base.get("a", "q") is None
        assert w.say("finish", job) == "OK"
        assert c.get("a", "q").last.outcome == pb.RUN_OUTCOME_DONE


def test_many_workers_take_turns(make_daemon):
    d = make_daemon(lease_queue(max_active=100))
    workers = [Worker(d.address, "q") for _ in range(8)]
    with d.conn() as c:
        done = {i: 0 for i in range(8)}
        for n in range(64):
            c.update(f"{n}", 0, queue="q")
        for _ in range(8):
            for i, w in enumerate(workers):
                assert w.say("finish", w.job()) == "OK"
                done[i] += 1
        assert set(done.values()) == {8}
        s = c.stat()
        assert s["leases"] == 64 and s["leased"] == 0 and s["workers"] == 8
    for w in workers:
        w.close()
