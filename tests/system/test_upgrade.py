"""`wqctl upgrade`: another program in the daemon's place, with everything going on.

The load of the first test is a sample in `make check`; WQD_UPGRADES=20 WQD_UPGRADE_RATE=10000
WQD_UPGRADE_JOBS=100000 is what the figures of docs/adr/0013 are of.
"""
import os
import re
import resource
import shutil
import signal
import subprocess
import threading
import time

import pki
import pytest
from conftest import BUILD, WQCTL, WQD, handler, queue, until
from test_crew import children, conf as crew_conf, result
from test_workers import Worker
from wire import Closed, Conn, S, frame, pb, word

UPGRADES = int(os.environ.get("WQD_UPGRADES", "4"))
RATE = int(os.environ.get("WQD_UPGRADE_RATE", "2000"))
JOBS = int(os.environ.get("WQD_UPGRADE_JOBS", "1000"))  # besides those of the load
CONNS = 4
BURST_S = 0.01
LAST = 1 << 40


def upgrade(d, *args, check=0):
    # Nobody else reads what the service manager is told, and a full socket holds the daemon up.
    d.notify.poll()
    return d.ctl("upgrade", *args, check=check)


class Load:
    """A connection that asks at a steady rate, and reads every answer."""

    def __init__(self, d, number, rate):
        self.conn = d.conn(timeout=60)
        self.number, self.each = number, max(1, int(rate * BURST_S))
        self.sent, self.times, self.answered, self.wrong = 0, {}, 0, []
        self.longest = 0.0
        self.generations, self.created = {}, 0
        self.stop = threading.Event()
        self.threads = [threading.Thread(target=f, daemon=True) for f in (self.ask, self.read)]
        for t in self.threads:
            t.start()

    def ask(self):
        c, n, due = self.conn, 0, time.monotonic()
        while not self.stop.is_set():
            batch = b""
            now = time.monotonic()
            for _ in range(self.each):
                n += 1
                # A third of them run at once: the queue has no command, so the run is over then.
                batch += frame(pb.Request(id=1000 + n, update=pb.Update(
                    key=b"%d-%d" % (self.number, n % 50), queue="load",
                    delay_ms=0 if n % 3 == 0 else 60000)))
                self.times[1000 + n] = now
            c.sock.sendall(batch)
            self.sent = n
            due += BURST_S
            time.sleep(max(0.0, due - time.monotonic()))
        c.sock.sendall(frame(pb.Request(id=LAST, ping=pb.Ping())))

    def read(self):
        c = self.conn
        while True:
            try:
                r = c.next_reply()
            except (OSError, Closed) as e:
                self.wrong.append(repr(e))
                return
            if r.id == LAST:
                return
            self.answered += 1
            if r.id != 1000 + self.answered:
                self.wrong.append(f"{r.id} after {self.answered - 1} answers")
                return
            if r.status not in (S.STATUS_CREATED, S.STATUS_UPDATED_TIMER, S.STATUS_SKIPPED,
                                S.STATUS_UPDATED_READY):
                self.wrong.append(word(r.status))
            key = r.id % 50
            if r.generation < self.generations.get(key, 0):
                self.wrong.append(f"generation {r.generation} after {self.generations[key]}")
            self.generations[key] = r.generation
            took = time.monotonic() - self.times.pop(r.id)
            self.longest = max(self.longest, took)

    def finish(self):
        self.threads[0].join(60)
        self.threads[1].join(60)
        self.conn.close()
        assert not self.wrong, self.wrong[:5]
        assert self.answered == self.sent and not self.times


def test_every_request_is_answered_during_upgrades(make_daemon):
    d = make_daemon(queue("load", max_active=64, retention_count=20000) +
                    handler("slow", "/bin/sh", "-c", "echo one; sleep 2; echo two; exit 3") +
                    handler("note", "/bin/sh", "-c", f"echo $(cat) >>{BUILD}/notes.$PPID") +
                    queue("slow", handler="slow") + queue("note", handler="note", max_active=8))
    notes = BUILD / f"notes.{d.pid}"
    notes.write_text("")
    with d.conn() as c:
        for at in range(0, JOBS, 500):
            c.call(update_batch=pb.UpdateBatch(updates=[
                pb.Update(key=b"job-%d" % i, delay_ms=3600000 + i) for i in range(at, at + 500)]))
    loads = [Load(d, i, RATE / CONNS) for i in range(CONNS)]
    try:
        with d.conn() as c:
            n = 0
            for i in range(UPGRADES):
                c.update(f"run-{i}", 0, queue="slow")
                for _ in range(5):
                    c.update(f"n{n}", 150 * (n % 5), queue="note", payload=b"%d" % n)
                    n += 1
                time.sleep(0.3)
                before = c.stat()["upgrades"]
                upgrade(d)
                assert c.stat()["upgrades"] == before + 1
            # Each run ends with its own status and all of its output, though it lived in several.
            for i in range(UPGRADES):
                run = c.wait(f"run-{i}", queue="slow").run
                assert (run.outcome, run.exit_code, run.output) == (
                    pb.RUN_OUTCOME_FAILED, 3, b"one\ntwo\n"), run
                assert run.attempt == 1
            until(lambda: len(notes.read_text().split()) >= n, what="all notes")
            time.sleep(0.2)
            assert sorted(map(int, notes.read_text().split())) == list(range(n))
            stat = c.stat()
            assert stat["jobs"] >= JOBS
            assert stat["runs_interrupted"] == 0 and stat["requests_malformed"] == 0
    finally:
        for load in loads:
            load.stop.set()
        notes.unlink()
    for load in loads:
        load.finish()
    print("\n".join(x for x in d.text().splitlines() if "upgrad" in x or "recovered" in x))
    print(f"{sum(x.sent for x in loads)} requests, {UPGRADES} upgrades, "
          f"longest answer {max(x.longest for x in loads) * 1000:.0f} ms")


# ---- what goes on ----

def test_who_waits_is_answered_by_the_new_program(make_daemon):
    d = make_daemon(handler("slow", "/bin/sh", "-c", "sleep 1.5; echo over") +
                    queue("slow", handler="slow", max_active=4) + queue("q"))
    with d.conn() as c, d.conn() as own:
        for key in ("w", "f", "c", "k"):
            c.update(key, 0, queue="slow")
        c.update("later", 3000, queue="q")
        ids = {
            "wait": c.send(wait=pb.Wait(key=b"w", queue="slow")),
            "flush": c.send(flush=pb.Flush(key=b"f", queue="slow")),
            "cancel": c.send(cancel=pb.Cancel(key=b"c", queue="slow", mode=pb.CANCEL_MODE_WAIT)),
            "queue": c.send(flush_queue=pb.FlushQueue(queue="slow")),
            "timer": c.send(wait=pb.Wait(key=b"later", queue="q")),
            "short": c.send(wait=pb.Wait(key=b"later", queue="q", timeout_ms=700)),
            "gate": c.send(completion_wait=pb.CompletionWait(name=b"gate")),
            "first": c.send(completion_wait=pb.CompletionWait(name=b"one")),
            "second": c.send(completion_wait=pb.CompletionWait(name=b"one")),
        }
        time.sleep(0.1)
        upgrade(d)
        # Closed while it is waited to be cancelled, as before: G8.
        assert own.update("c", 0, queue="slow").status == S.STATUS_REFUSED_DISABLED
        assert c.reply(ids["short"]).status == S.STATUS_TIMEOUT
        for want in ("wait", "flush"):
            r = c.reply(ids[want])
            assert (r.run.outcome, r.run.output) == (pb.RUN_OUTCOME_DONE, b"over\n"), (want, r)
        assert c.reply(ids["cancel"]).status == S.STATUS_NOT_PENDING_RUNNING
        assert c.reply(ids["queue"]).status == S.STATUS_OK
        assert own.update("c", 60000, queue="slow").status == S.STATUS_CREATED
        own.call(complete=pb.Completion(name=b"one"))
        assert c.reply(ids["first"]).status == S.STATUS_OK and ids["second"] not in c.kept
        upgrade(d)
        own.call(complete=pb.Completion(name=b"one"))
        own.call(complete_all=pb.Completion(name=b"gate"))
        assert c.reply(ids["second"]).status == S.STATUS_OK
        assert c.reply(ids["gate"]).status == S.STATUS_OK
        r = c.reply(ids["timer"])
        assert r.run.outcome == pb.RUN_OUTCOME_DONE
        assert r.run.started_ms >= r.run.due_ms, r.run


def test_runs_that_wait_for_one_another_are_known_after_it(make_daemon, tmp):
    d = make_daemon(handler("h", "/bin/sh", "-c", f'echo $WQ_RUN_TOKEN >{tmp}/$WQ_KEY; exec sleep 60',
                            grace="100ms") + queue("q", handler="h", max_active=2))
    with d.conn() as c:
        for key in ("a", "b"):
            c.update(key, 0, queue="q")
        tokens = [int(until(lambda: (tmp / key).exists() and (tmp / key).read_text(), what=key))
                  for key in ("a", "b")]
        c.update("x", 0, queue="q")
        on = [pb.Request(id=9000 + i, run_token=token, wait=pb.Wait(key=b"x", queue="q"))
              for i, token in enumerate(tokens)]
        c.sock.sendall(frame(on[0]))
        c.call(ping=pb.Ping())
        upgrade(d)
        c.sock.sendall(frame(on[1]))
        assert c.reply(9001).status == S.STATUS_REFUSED_LIMIT
        for key in ("a", "b", "x"):
            c.call(cancel=pb.Cancel(key=key.encode(), queue="q", mode=pb.CANCEL_MODE_KILL))


def test_a_run_that_was_deleted_goes_on_beside_what_came_after(make_daemon, tmp):
    """The store has the new instance, and of the run nothing: a restart must not repeat it."""
    d = make_daemon(handler("h", "/bin/sh", "-c", f"echo $WQ_KEY >>{tmp}/ran; "
                            f"while [ ! -e {tmp}/go ]; do sleep 0.05; done") +
                    queue("q", handler="h", max_active=8))
    keys = ["armed", "ready", "disabled", "gone"]

    def ran():
        return sorted((tmp / "ran").read_text().split()) if (tmp / "ran").exists() else []
    with d.conn() as c:
        for key in keys:
            c.update(key, 0, queue="q")
        until(lambda: ran() == sorted(keys), what="all to run")
        for key in keys:
            c.call(delete=pb.Job(key=key.encode(), queue="q"))
        c.update("armed", 60000, queue="q")
        c.update("ready", 0, queue="q")
        c.call(disable=pb.Job(key=b"disabled", queue="q"))
        for _ in range(2):
            upgrade(d)
            assert c.stat()["running"] == 4
        assert ran() == sorted(keys)
        (tmp / "go").touch()
        until(lambda: ran().count("ready") == 2, what="the second run")
        until(lambda: c.stat()["running"] == 0, what="the end of all")
        stat = c.stat()
        assert (stat["runs_done"], stat["runs_interrupted"], stat["armed"]) == (5, 0, 1), stat
        assert c.history("armed", queue="q") == [] and len(c.history("ready", queue="q")) == 1
        assert c.update("disabled", 0, queue="q").status == S.STATUS_REFUSED_DISABLED


def test_what_only_memory_knows_is_kept(make_daemon):
    d = make_daemon(queue("m", durability="memory") + queue("dis"))
    with d.conn() as c:
        made = c.update("a", 60000, queue="m", payload=b"mine", idempotency_id=b"id-1")
        c.update("b", 0, queue="m")
        c.update("gone", 0, queue="m")
        run = c.wait("b", queue="m").run
        c.call(disable=pb.Job(key=b"x", queue="dis"))
        c.call(complete=pb.Completion(name=b"count", durability=pb.DURABILITY_MEMORY))
        upgrade(d)
        after = c.get("a", queue="m")
        assert after.state == pb.JOB_STATE_ARMED and after.deadline_ms == made.deadline_ms
        again = c.update("a", 1000, queue="m", idempotency_id=b"id-1")
        assert (again.status, again.deadline_ms) == (S.STATUS_CREATED, made.deadline_ms)
        kept = c.history("b", queue="m")
        assert [r.generation for r in kept] == [run.generation]
        assert c.update("b", 60000, queue="m").generation == run.generation + 1
        assert c.update("x", 0, queue="dis").status == S.STATUS_REFUSED_DISABLED
        assert c.call(completion_wait=pb.CompletionWait(name=b"count")).status == S.STATUS_OK
        assert c.stat()["requests"] > 5
    # It was no restart: one that comes forgets it.
    d.kill9()
    d.start()
    with d.conn() as c:
        assert c.get("a", queue="m") is None and c.get("b", queue="m") is None


def test_leases_stay_with_who_holds_them(make_daemon):
    d = make_daemon(queue("l", action="lease", lease="30s", max_active=8))
    with d.conn() as c:
        for i in range(4):
            c.update(f"j{i}", 0, queue="l", payload=b"p%d" % i)
        w = Worker(d.address, "l", credits=2)
        held = [w.job(), w.job()]
        upgrade(d)
        assert w.say("touch", held[0]) == "OK"
        upgrade(d)
        assert w.say("finish", held[0], output=b"result") == "OK"
        third = w.job()
        assert third.token > max(h.token for h in held) and third.key not in [h.key for h in held]
        assert w.say("finish", held[1]) == "OK"
        assert w.say("finish", held[1]) == "LEASE_LOST"
        assert c.wait("j0", queue="l").run.output == b"result"
        assert w.job().attempt == 1
        w.close()
        stat = c.stat()
        assert stat["leases"] == 4 and stat["leases_expired"] == 0
        until(lambda: c.stat()["leases_lost"] == 2, what="the end of its connection to count")


def test_worker_programs_keep_their_process(make_daemon):
    d = make_daemon(crew_conf())
    with d.conn() as c:
        until(lambda: c.stat()["workers"] == 1, what="a spare one")
        pids = children(d)
        upgrade(d)
        c.update("a", 0, queue="q", payload=b"one")
        assert result(c, "a").output == b"ONE"
        upgrade(d)
        c.update("a", 0, queue="q", payload=b"two")
        until(lambda: c.get("a", "q").last.output == b"TWO", what="the second run")
        # A busy machine may have had it hire another.
        assert set(pids) <= set(children(d)) and c.stat()["worker_programs"] >= 1


NOSY = """
import os, socket, sys, time
sys.path.insert(0, "{at}")
import wire
c = wire.Conn.__new__(wire.Conn)
c.sock, c.buf, c.kept, c.next_id = socket.socket(fileno=3), bytearray(), {{}}, 1
c.call(hello=wire.pb.Hello(version=1))
sub = c.send(subscribe=wire.pb.Subscribe(queues=["q"], credits=1))
for n in range(2):
    while not os.path.exists("{at}/go%d" % n):
        time.sleep(0.02)
    asked = [c.call(reload=wire.pb.Reload()), c.call(stat=wire.pb.Stat()),
             c.call(update=wire.pb.Update(key=b"x", delay_ms=60000))]
    open("{at}/said.new", "w").write(" ".join(wire.word(r.status) for r in asked))
    os.rename("{at}/said.new", "{at}/said%d" % n)
time.sleep(1000)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: a program of another user")
def test_a_worker_program_may_no_more_than_before(make_daemon, tmp):
    """Both ends of its socket were made by the daemon, whose user may do everything."""
    at = tmp / "nosy"
    at.mkdir()
    tmp.chmod(0o755)
    at.chmod(0o777)
    script = at / "nosy.py"
    script.write_text(NOSY.format(at=at))
    for path in (os.path.join(os.path.dirname(__file__), "wire.py"), BUILD / "proto" / "wq_pb2.py"):
        shutil.copy(path, at)
    d = make_daemon(crew_conf(command=("/usr/bin/python3", str(script)), grace="200ms",
                              user="nobody"))
    said = []
    for n in range(2):
        with d.conn() as c:
            until(lambda: c.stat()["workers"] >= 1, what="it to come")
        (at / f"go{n}").touch()
        until((at / f"said{n}").exists, what="what it is told")
        said.append((at / f"said{n}").read_text().split()[0])
        upgrade(d)
    assert said == ["UNAUTHORIZED"] * 2


def test_half_a_message_is_completed_after_it(make_daemon):
    d = make_daemon()
    with d.conn() as c:
        whole = frame(c.request(update=pb.Update(key=b"k", delay_ms=1000, payload=b"x" * 5000,
                                                 payload_mode=pb.PAYLOAD_MODE_REPLACE)))
        c.sock.sendall(whole[:3000])
        time.sleep(0.1)
        upgrade(d)
        c.sock.sendall(whole[3000:])
        assert c.next_reply().status == S.STATUS_CREATED


def test_unread_answers_are_not_lost(make_daemon):
    d = make_daemon(queue("q"))
    with d.conn() as c:
        for i in range(300):
            c.update(f"k{i}", 60000, queue="q", payload=b"y" * 2000)
        # Far more than a socket takes, and more requests than may be in hand.
        ids = [c.send(list=pb.List(queue="q", limit=1000)) for _ in range(200)]
        time.sleep(0.3)
        upgrade(d)
        upgrade(d)
        for rid in ids:
            r = c.next_reply()
            assert r.id == rid and len(r.jobs) == 300


def test_watchers_go_on_and_know_where(make_daemon):
    d = make_daemon(queue("q"))
    with d.conn() as c, d.conn() as w:
        rid = w.send(watch=pb.Watch(queue="q"))
        position = w.next_reply().position
        c.update("a", 60000, queue="q")
        first = w.next_reply()
        assert first.events[0].key == b"a" and first.position >= position
        upgrade(d)
        c.update("b", 60000, queue="q")
        got = w.next_reply()
        assert (got.id, got.lost, got.lost_unknown) == (rid, 0, False)
        assert [e.key for e in got.events] == [b"b"] and got.position > first.position


def test_identity_and_limits_are_looked_up_again(make_daemon):
    d = make_daemon()
    with d.conn() as c:
        assert c.call(reload=pb.Reload()).status == S.STATUS_OK
        upgrade(d)
        assert c.call(reload=pb.Reload()).status == S.STATUS_OK
        assert c.call(hello=pb.Hello(version=1)).status == S.STATUS_INVALID


def test_misfire_policies_are_for_restarts(make_daemon):
    """What falls due while the programs change is no misfire."""
    d = make_daemon(queue("s", misfire="skip") + queue("m", misfire="skip", durability="memory"))
    with d.conn() as c:
        for q in ("s", "m"):
            for i in range(200):
                c.update(f"k{i}", 20 + 2 * i, queue=q)
        upgrade(d)
        until(lambda: c.stat()["armed"] == 0, what="all to run")
        stat = c.stat()
        assert stat["misfires_skipped"] == 0 and stat["starts"] == 400, stat


def test_tls_connections_end_after_their_answers(make_daemon, tmp):
    ca = pki.Authority(tmp)
    cert, key = ca.issue("localhost")
    conf = f'tls_cert = "{cert}"\ntls_key = "{key}"\n'
    d = make_daemon(conf, start=False)
    d.listen = f'{{ "unix:{d.sock}", "tls://127.0.0.1:0" }}'
    d.write_conf(conf)
    d.start()
    port = re.search(r"tls://127\.0\.0\.1:(\d+)", d.text()).group(1)
    address = f"tls://localhost:{port}"
    with Conn(address, context=ca.context()) as c, d.conn() as plain:
        ids = [c.send(update=pb.Update(key=b"k%d" % i, delay_ms=60000)) for i in range(100)]
        assert c.reply(ids[-1]).status == S.STATUS_CREATED
        upgrade(d)
        # A clean end of TLS: the ssl module would tell of another.
        assert c.sock.recv(1) == b""
        assert plain.call(ping=pb.Ping()).status == S.STATUS_OK
    with Conn(address, context=ca.context()) as c:
        assert c.get("k0").state == pb.JOB_STATE_ARMED


def test_signals_that_come_meanwhile_are_heard(make_daemon):
    d = make_daemon()
    p = subprocess.Popen([str(WQCTL), "upgrade"], env={**os.environ, "WQ_SERVER": d.address},
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(0.02)
    d.proc.send_signal(signal.SIGTERM)
    assert d.proc.wait(60) == 0
    p.wait(60)


# ---- what does not go on ----

@pytest.fixture
def movable(make_daemon, tmp):
    """A daemon whose program can be exchanged: the path, and the daemon."""
    program = tmp / "wqd"
    shutil.copy(WQD, program)
    fault = tmp / "fault"
    d = make_daemon(queue("q") + handler("slow", "/bin/sleep", "1") + queue("s", handler="slow"),
                    program=program, env={"WQD_UPGRADE_FAULT": str(fault)})
    d.fault = fault
    return d


def put(path, text, mode=0o755):
    new = path.with_suffix(".new")
    new.write_text(text)
    new.chmod(mode)
    new.rename(path)


def goes_on(d, c, before):
    """The old program serves, and an upgrade to a good one works."""
    assert c.stat()["upgrades"] == before
    assert c.update("after", 1000, queue="q").status in (S.STATUS_CREATED, S.STATUS_UPDATED_TIMER)
    assert d.proc.poll() is None
    with d.conn() as other:
        assert other.call(ping=pb.Ping()).status == S.STATUS_OK


BAD = {
    "old": ("#!/bin/sh\necho \"wqd: unrecognized option\" >&2; exit 2\n", "unrecognized option"),
    "silent": ("#!/bin/sh\nexit 1\n", "it gave no reason"),
    "killed": ("#!/bin/sh\nkill -9 $$\n", "it gave no reason"),
    "another": ("#!/bin/sh\nexit 0\n", "does not say that it can"),
    "talks": ("#!/bin/sh\nyes | head -c 5000\n", "does not say that it can"),
    "no program": ("nonsense\n", "can't be started"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_program_is_refused(movable, what):
    text, says = BAD[what]
    with movable.conn() as c:
        put(movable.program, text)
        for args in ((), ("--check",)):
            done = upgrade(movable, *args, check=1)
            assert says in done.stderr, done
        goes_on(movable, c, 0)
        movable.program.unlink()
        assert "can't be started" in upgrade(movable, check=1).stderr
        goes_on(movable, c, 0)
        shutil.copy(WQD, movable.program)
        upgrade(movable)
        goes_on(movable, c, 1)


def test_a_configuration_that_the_new_program_refuses(movable):
    good = movable.conf_path.read_text()
    with movable.conn() as c:
        for bad, says in ((good + "nonsense = 1\n", "unknown option"),
                          (good.replace("/state", "/other"), "that changes with a restart"),
                          (good + 'store = "memory"\n', "that changes with a restart"),
                          (good + 'token_file = "/nonexistent"\n', "/nonexistent")):
            movable.conf_path.write_text(bad)
            assert says in upgrade(movable, check=1).stderr, bad
            goes_on(movable, c, 0)
        movable.conf_path.write_text(good + queue("more", max_active=3))
        assert "can take over" in upgrade(movable, "--check").stdout
        upgrade(movable)
        goes_on(movable, c, 1)
        assert c.queue_info("more").queue == "more"


def test_limits_below_what_there_is(make_daemon):
    """The old program would read them as well: it could not take its place back."""
    plain = queue("q") + queue("p")
    d = make_daemon(plain)
    with d.conn() as c, d.conn() as waits:
        for i in range(20):
            c.update(f"k{i}", 60000, queue="q", payload=b"x" * 100000)
            c.call(complete=pb.Completion(name=b"c%d" % i))
        ids = [waits.send(completion_wait=pb.CompletionWait(name=b"gate")) for _ in range(20)]
        for option, limit in (("max_jobs", 19), ("max_queues", 2), ("max_completions", 19),
                              ("max_bytes", 1 << 20)):
            d.write_conf(f"{option} = {limit}\n" + plain)
            assert f"{option} is {limit} now" in upgrade(d, check=1).stderr
            goes_on(d, c, 0)
        # Who was let wait goes on waiting, and so does what a queue holds.
        d.ctl("queue", "set", "q", "max_jobs=2", check=0)
        d.write_conf("max_waiters = 2\nmax_connections = 1\n" + plain)
        upgrade(d)
        assert c.stat()["upgrades"] == 1 and c.stat()["waiters"] == 20
        assert c.update("k0", 60000, queue="q").status == S.STATUS_UPDATED_TIMER
        r = waits.call(completion_wait=pb.CompletionWait(name=b"x"))
        assert r.status == S.STATUS_REFUSED_LIMIT
        c.call(complete_all=pb.Completion(name=b"gate"))
        assert {waits.reply(i).status for i in ids} == {S.STATUS_OK}


def test_without_descriptors_it_keeps_its_own(movable, tmp):
    """The new program, asked, takes them away: the state's file is the first to have none."""
    d, real = movable, tmp / "real"
    shutil.copy(WQD, real)
    with d.conn() as c:
        soft, hard = resource.prlimit(d.pid, resource.RLIMIT_NOFILE)
        # Not before the daemon watches it: that takes one, too.
        put(d.program, f'#!/bin/sh\nsleep 0.5\nprlimit --pid $PPID --nofile=4:{hard}\n'
                       f'exec {real} "$@"\n')
        assert "can't be written down" in upgrade(d, check=1).stderr
        resource.prlimit(d.pid, resource.RLIMIT_NOFILE, (soft, hard))
        goes_on(d, c, 0)


@pytest.mark.skipif("#define FAULT_INJECTION" not in (BUILD / "config.h").read_text(),
                    reason="a build without --enable-fault-injection")
@pytest.mark.parametrize("step", ["settle", "part", "save", "exec", "start"])
def test_a_failure_at_any_step_leaves_the_old_program_serving(movable, step):
    d = movable
    with d.conn() as c, d.conn() as half:
        c.update("run", 0, queue="s")
        c.update("kept", 60000, queue="q", durability=pb.DURABILITY_MEMORY)
        wid = c.send(wait=pb.Wait(key=b"run", queue="s"))
        whole = frame(half.request(update=pb.Update(key=b"half", delay_ms=1000, queue="q")))
        half.sock.sendall(whole[:5])
        d.fault.write_text(step)
        done = upgrade(d, check=7 if step in ("settle", "part") else 1)
        assert done.stderr, done
        d.fault.unlink()
        # One that had begun and was undone has been an upgrade twice over.
        goes_on(d, c, 1 if step == "start" else 0)
        assert c.get("kept", queue="q").state == pb.JOB_STATE_ARMED
        half.sock.sendall(whole[5:])
        assert half.next_reply().status == S.STATUS_CREATED
        assert c.reply(wid).run.outcome == pb.RUN_OUTCOME_DONE
        upgrade(d)
        assert c.get("kept", queue="q").state == pb.JOB_STATE_ARMED


def test_what_cannot_be_carried_refuses_it(movable):
    d = movable
    with d.conn() as c, d.conn() as drains:
        c.update("run", 0, queue="s")
        rid = drains.send(drain=pb.Drain(queue="s"))
        until(lambda: c.queue_info("s").draining, what="the drain")
        done = upgrade(d, check=4)
        assert "drains" in done.stderr and "s" in done.stderr
        goes_on(d, c, 0)
        assert drains.reply(rid).status == S.STATUS_OK
        upgrade(d)


def test_a_state_in_memory_alone_refuses_it(make_daemon):
    d = make_daemon('store = "memory"\n')
    assert "nothing would be left" in upgrade(d, check=1).stderr


def test_one_at_a_time_and_not_for_everybody(movable):
    put(movable.program, "#!/bin/sh\nsleep 2\nexit 1\n")
    with movable.conn() as a, movable.conn() as b:
        first = a.send(upgrade=pb.Upgrade())
        time.sleep(0.2)
        assert b.call(upgrade=pb.Upgrade()).status == S.STATUS_REFUSED_LIMIT
        assert b.call(ping=pb.Ping()).status == S.STATUS_OK
        a.close()
        until(lambda: "upgrade_refused" in movable.text(), what="its end without who asked")
        assert first and b.call(ping=pb.Ping()).status == S.STATUS_OK


def test_the_check_by_hand(make_daemon):
    d = make_daemon()
    for question, code, says in (("", 0, "can take over"), ("format 1\nschema 1\nx y\n", 0, "can"),
                                 ("format 99\n", 3, "formats"), ("schema 99\n", 3, "schema"),
                                 ("tls 1\n", 3, "tls_cert")):
        done = subprocess.run([str(WQD), "-c", str(d.conf_path), "--check-upgrade"], input=question,
                              capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == code and says in done.stdout + done.stderr, (question, done)
