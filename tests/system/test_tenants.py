"""What tenants, workers and their programs get at through one another: names, ids, commands, copies."""
import os
import time

import pytest
import wire
from conftest import BUILD, SOURCE, handler, queue, until
from test_access import TOKENS, Port, role, tokens  # noqa: F401
from test_workers import lease_queue
from wire import S, pb, word

HOUR = 3_600_000


def greet(d, space="", **kw):
    c = wire.Conn(d.address, hello=False, **kw)
    r = c.call(hello=pb.Hello(version=1, client="pytest", namespace=space))
    assert r.status == S.STATUS_OK, r
    return c


# ---- names and ids ----

def test_a_bad_name_in_a_batch_is_bad_each_time(make_daemon):
    d = make_daemon(queue("q"))
    with d.conn() as base, greet(d, "ns") as inside:
        for c, good in ((base, "q"), (inside, "")):
            for bad in ("x/y", " q", "ns/default", "L" * 129):
                names = [good, bad, bad, good, bad, bad, bad]
                r = c.call(update_batch=pb.UpdateBatch(updates=[
                    wire.update(f"{good}{n}{i}", queue=n, delay_ms=HOUR) for i, n in enumerate(names)]))
                assert [word(x.status) == "INVALID" for x in r.results] == [n == bad for n in names], bad
            assert all(j.key.startswith(good.encode() + good.encode()) for j in c.call(list=pb.List()).jobs)


def test_an_idempotency_id_is_its_namespaces_own(make_daemon):
    d = make_daemon(queue("q"))
    spaces, ids = ("", "a", "b"), (b"id", b"\0", b"x" * 64, b"id".ljust(64, b"\0"))

    def say(space, i, key="k", **kw):
        with greet(d, space) as c:
            return c.update(key, HOUR, durability=1, idempotency_id=ids[i], **kw)
    for space in spaces:
        for i in range(len(ids)):
            r = say(space, i, f"k{i}")
            assert r.status == S.STATUS_CREATED, (space, i, r)
    for _ in range(2):
        for space in spaces:
            for i in range(len(ids)):
                # Again: the first answer, and what was done is not done again.
                r = say(space, i, f"k{i}")
                assert (r.status, r.generation) == (S.STATUS_CREATED, 1), (space, i, r)
                assert say(space, i, "other").status == S.STATUS_INVALID
        d.kill9()
        d.start()
    with greet(d, "a") as a, greet(d, "b") as b:
        for c in (a, b):
            for _ in range(2):
                c.call(complete=pb.Completion(name=b"go", idempotency_id=b"c"))
            assert c.call(completion_show=pb.Completion(name=b"go")).completion.done == 1
            r = c.call(update_batch=pb.UpdateBatch(updates=[
                wire.update("z", delay_ms=HOUR, idempotency_id=b"z"),
                wire.update("z", delay_ms=0, idempotency_id=b"z")]))
            assert [x.status for x in r.results] == [S.STATUS_CREATED] * 2
            r = c.call(update_batch=pb.UpdateBatch(updates=[
                wire.update("y", delay_ms=HOUR, idempotency_id=b"z" * n) for n in (65, 64, 5000)]))
            assert [x.status for x in r.results] == [S.STATUS_INVALID, S.STATUS_CREATED, S.STATUS_INVALID]
            assert c.get("z").state == pb.JOB_STATE_ARMED


# ---- copies ----

def test_an_export_brings_namespaces_back(make_daemon, tmp):
    old, new = make_daemon(queue("q")), make_daemon()
    for space in ("", "a", "b"):
        with greet(old, space) as c:
            assert c.create_queue("mine", max_active=3).status == S.STATUS_OK
            c.update("k" + space, HOUR, payload=b"p" + space.encode())
            c.job("disable", "off", "mine")
            c.call(pause=pb.Queue(queue="mine"))
            c.call(complete=pb.Completion(name=b"go", durability=2))
            c.call(complete_all=pb.Completion(name=b"all" + space.encode(), durability=2))
    saved = tmp / "saved"
    saved.write_text(old.ctl("export", check=0).stdout)
    assert new.ctl("import", "--dry-run", saved).stderr == ""
    for made in (True, False):
        done = new.json("import", saved)
        assert done["errors"] == [] and done["jobs"] == (6 if made else 0), done
    for space in ("", "a", "b"):
        with greet(new, space) as c:
            jobs = {(j.queue, j.key, j.disable_depth) for j in c.call(list=pb.List()).jobs}
            assert jobs == {("default", b"k" + space.encode(), 0), ("mine", b"off", 1)}
            q = c.queue_info("mine")
            assert q.paused and {s.name: s.value for s in q.settings}["max_active"] == "3"
            assert c.call(completion_show=pb.Completion(name=b"go")).completion.done == 1
            assert c.call(completion_show=pb.Completion(name=b"all" + space.encode())).completion.open
    # The database itself has them too.
    copy = tmp / "d9"
    new.ctl("backup", tmp / "copy.db", check=0)
    copy.mkdir()
    third = make_daemon(start=False)
    (tmp / "copy.db").rename(third.state / "wqd.db")
    third.start()
    with greet(third, "b") as c:
        assert c.get("kb").state == pb.JOB_STATE_ARMED


def test_only_who_may_import_names_what_is_in_a_namespace(make_daemon, tokens):
    p = Port(make_daemon, f'token_file = "{tokens}"\n' +
             role("all", members=["token:ci"], allow=["observe", "submit", "operate"]) +
             role("adm", members=["token:ops"], allow=["observe", "submit", "operate", "admin"],
                  namespaces=["*", "-"]))
    ops = (dict(queue_create=pb.QueueSet(queue="a/q")), dict(queue_show=pb.Queue(queue="a/q")),
           dict(pause=pb.Queue(queue="a/q")), dict(complete=pb.Completion(name=b" a/c")),
           dict(completion_show=pb.Completion(name=b" a/c")),
           dict(complete_all=pb.Completion(name=b" a/c")))
    job = dict(import_job=pb.ImportJob(key=b"k", queue="a/q", disable_depth=1))
    with p.ok("ci") as c, p.ok("ops") as plain, p.ok("ops", space="*") as adm:
        for began in (False, True):
            for op in ops:
                assert c.call(**op).status == plain.call(**op).status == S.STATUS_INVALID, op
            for op in ops:
                assert adm.call(**op).status in (S.STATUS_OK, S.STATUS_EXISTS), op
            assert adm.call(**job).status == (S.STATUS_UNCHANGED if began else S.STATUS_CREATED)
            assert c.call(**job).status == S.STATUS_UNAUTHORIZED
            for op in (dict(update=wire.update("k", queue="a/q", delay_ms=1)), dict(get=pb.Job(key=b"k", queue="a/q")),
                       dict(queue_delete=pb.QueueDelete(queue="a/q")), dict(delete=pb.Job(key=b"k", queue="a/q"))):
                assert adm.call(**op).status == S.STATUS_INVALID, op
        with p.ok("ops", space="b") as b:
            for op in ops:
                assert b.call(**op).status == S.STATUS_INVALID, op
    with p.conn("ci", space="*") as c:
        assert c.greeting.status == S.STATUS_UNAUTHORIZED


# ---- commands ----

def test_commands_by_role_and_no_way_around(make_daemon, tokens):
    allow = ["observe", "submit", "operate", "admin"]
    base = (f'token_file = "{tokens}"\n' + queue("q") +
            role("ops", members=["token:ops"], allow=allow) +
            role("ci", members=["token:ci"], allow=[*allow, "command"], queues=["q"]))
    p = Port(make_daemon, base)

    def ways(c):
        """UPDATE, a batch, an import, a payload for a command that waits."""
        at = wire.now_ms() + HOUR
        return [c.call(update=pb.Update(key=b"u", queue="q", delay_ms=HOUR, command=[b"true"])).status,
                c.call(update_batch=pb.UpdateBatch(updates=[
                    pb.Update(key=b"b", queue="q", delay_ms=HOUR, command=[b"true"])])).results[0].status,
                c.call(import_job=pb.ImportJob(key=b"i", queue="q", state=pb.JOB_STATE_ARMED, due_ms=at,
                                               command=True, parts=[b"true\0"])).status,
                c.call(import_job=pb.ImportJob(key=b"d", queue="q", dead=True, command=True,
                                               parts=[b"true\0"])).status]
    with p.ok("ops") as ops, p.ok("ci") as ci:
        assert ways(ops) == [S.STATUS_UNAUTHORIZED] * 4
        assert ways(ci) == [S.STATUS_CREATED] * 4
        r = ops.call(update=pb.Update(key=b"u", queue="q", delay_ms=1, payload=b"x",
                                      payload_mode=pb.PAYLOAD_MODE_APPEND))
        assert r.status == S.STATUS_INVALID
        assert [list(ci.get(k, "q").command) for k in ("u", "b", "i", "d")] == [[b"true"]] * 4
        assert not ops.call(list=pb.List(queue="default")).jobs
        p.d.write_conf('allow_command = "nobody"\n' + base)
        p.d.ctl("reload", check=0)
        for c in (ops, ci, p.d.conn()):
            for k in ("u", "b", "i", "d"):
                c.job("delete", k, "q")
            assert ways(c) == [S.STATUS_UNAUTHORIZED] * 4


# ---- limits of what is kept ----

@pytest.mark.parametrize("whose", ("role", "namespace"))
def test_jobs_and_bytes_are_limited(make_daemon, tokens, whose):
    limits = {"max_jobs": 20, "max_bytes": '"10k"'}
    mine = {"queues": ["mine", "my-*"], "namespaces": ["*", "-"]}

    def conf(**limits):
        text = " ".join(f"{k} = {v}" for k, v in limits.items())
        return (f'token_file = "{tokens}"\n' + queue("mine") + queue("my-b") + queue("free") +
                role("r", members=["token:ci"], allow=["observe", "submit", "operate"], **mine,
                     **(limits if whose == "role" else {})) +
                role("o", members=["token:ops"], allow=["observe", "submit", "operate"], namespaces=["*", "-"]) +
                (f'namespace "t" {{ {text} }}\n' if whose == "namespace" else ""))
    p = Port(make_daemon, conf(**limits))
    space = "t" if whose == "namespace" else ""
    with p.ok("ci", space=space) as c, p.ok("ci", space=space) as twin, p.ok("ops", space=space) as other, \
            p.ok("ops", space="else") as free:
        if space:
            for name in ("mine", "my-b"):
                other.create_queue(name)

        def stat(name):
            return p.d.json("stat")[name]
        # Jobs: the last that fits, one more, from either connection and by every way.
        for i in range(20):
            assert (c, twin)[i % 2].update(f"k{i}", HOUR, queue=("mine", "my-b")[i % 3 == 0]).status == S.STATUS_CREATED
        before = stat("refused_jobs")
        r = c.update("k20", HOUR, queue="mine")
        assert r.status == S.STATUS_REFUSED_LIMIT and "jobs" in r.message
        assert twin.update("", HOUR, queue="mine").status == S.STATUS_REFUSED_LIMIT
        assert c.job("disable", "k20", "mine").status == S.STATUS_REFUSED_LIMIT
        r = c.call(update_batch=pb.UpdateBatch(updates=[
            wire.update(k, queue="mine", delay_ms=HOUR // 2) for k in ("k1", "k21", "k2")]))
        assert [x.status == S.STATUS_REFUSED_LIMIT for x in r.results] == [False, True, False]
        assert stat("refused_jobs") == before + 4
        # What is there goes on; one fewer, one more.
        assert c.update("k1", 2 * HOUR, queue="mine").status == S.STATUS_UPDATED_TIMER
        assert c.job("disable", "k2", "mine").status == S.STATUS_CANCELLED
        assert c.job("delete", "k1", "mine").status == S.STATUS_CANCELLED
        until(lambda: c.update("new", HOUR, queue="mine").status == S.STATUS_CREATED)
        # Others are not held up, but what they put there counts.
        assert free.update("k", HOUR).status == S.STATUS_CREATED
        if not space:
            assert other.update("k99", HOUR, queue="mine").status == S.STATUS_CREATED
            assert other.update("k99", HOUR, queue="free").status == S.STATUS_CREATED
            other.job("delete", "k99", "mine")
        for i in range(20):
            c.cancel(f"k{i}", queue=("mine", "my-b")[i % 3 == 0])
        c.job("enable", "k2", "mine")
        # Bytes: keys and payloads, appended ones too, exactly; replaced ones by what they grow.
        c.cancel("new", queue="mine")
        big = b"x" * (10 * 1024 - len("big"))

        def grow(payload, **kw):
            return c.update("big", HOUR, queue="mine", payload=payload, **kw)
        until(lambda: grow(big).status == S.STATUS_CREATED)
        before = stat("refused_bytes")
        for _ in range(50):
            assert grow(big[:-1] + b"y").status == S.STATUS_UPDATED_TIMER
            assert grow(big).status == S.STATUS_UPDATED_TIMER
        r = grow(big + b"x")
        assert r.status == S.STATUS_REFUSED_LIMIT and "bytes" in r.message
        assert grow(b"x", payload_mode=pb.PAYLOAD_MODE_APPEND).status == S.STATUS_REFUSED_LIMIT
        assert twin.update("s", HOUR, queue="my-b").status == S.STATUS_REFUSED_LIMIT
        assert stat("refused_bytes") == before + 3
        assert c.get("big", "mine").payload_bytes == len(big)
        assert grow(big[:5000]).status == S.STATUS_UPDATED_TIMER
        until(lambda: grow(b"x", payload_mode=pb.PAYLOAD_MODE_APPEND).status == S.STATUS_UPDATED_TIMER)
        # Another limit counts at once.
        p.d.write_conf(conf(max_jobs=1000))
        p.d.ctl("reload", check=0)
        assert grow(big * 2).status == S.STATUS_UPDATED_TIMER
        for i in range(30):
            assert c.update(f"k{i}", HOUR, queue="mine").status == S.STATUS_CREATED


def test_who_comes_back_has_no_more_requests(make_daemon, tokens):
    p = Port(make_daemon, f'token_file = "{tokens}"\n' +
             role("r", members=["token:ci"], allow=["submit"], max_requests=40))
    done, t = 0, time.monotonic()
    for _ in range(8):
        with p.ok("ci") as c:
            got = [c.update("k", HOUR).status for _ in range(40)]
            done += sum(s != S.STATUS_REFUSED_LIMIT for s in got)
    # A second's worth to begin with, and what each second brings.
    assert done <= 40 + 40 * (time.monotonic() - t) + 1, done


# ---- workers ----

def subscribe(c, *queues, credits=1):
    rid = c.send(subscribe=pb.Subscribe(queues=queues, credits=credits))
    return rid, c.reply(rid)


def test_workers_of_a_namespace_get_its_jobs_alone(make_daemon):
    d = make_daemon(lease_queue("l"))
    a, b, base = greet(d, "a"), greet(d, "b"), greet(d)
    for c in (a, b):
        assert c.create_queue("l", action="lease").status == S.STATUS_OK
    leased = {}
    for c, name in ((a, "a"), (b, "b"), (base, "base")):
        rid, r = subscribe(c, "l")
        assert r.status == S.STATUS_OK and r.more, (name, r)
        for x, n in ((a, "a"), (b, "b"), (base, "base")):
            if c is x:
                x.update("of-" + n, 0, queue="l")
        leased[name] = c.reply(rid).leased
        assert (leased[name].queue, leased[name].key) == ("l", b"of-" + name.encode())
    # A token is of no use elsewhere, nor is another's to a name like its own.
    for c, mine in ((a, "a"), (b, "b"), (base, "base")):
        for name, lease in leased.items():
            if name == mine:
                continue
            for q in ("l", f"{name}/l"):
                for op in ("touch", "release", "fail", "finish"):
                    r = c.call(**{op: pb.Lease(key=lease.key, queue=q, token=lease.token)})
                    assert r.status in (S.STATUS_LEASE_LOST, S.STATUS_INVALID, S.STATUS_NOT_FOUND), (name, op, r)
    for c, name in ((a, "a"), (b, "b"), (base, "base")):
        lease = leased[name]
        for op in ("touch", "finish"):
            assert c.call(**{op: pb.Lease(key=lease.key, queue="l", token=lease.token)}).status == S.STATUS_OK
        c.close()
    d.ctl("--namespace", "a", "update", "l/k", "0", check=0)
    d.ctl("--namespace", "a", "work", "l", "--once", "--", "true", check=0)
    assert d.json("--namespace", "a", "get", "l/k")["last"]["outcome"] == "done"


def test_work_by_role(make_daemon, tokens):
    p = Port(make_daemon, f'token_file = "{tokens}"\n' + lease_queue("mine") + lease_queue("other") +
             role("w", members=["token:ci"], allow=["work"], queues=["mine"]) +
             role("o", members=["token:ops"], allow=["work", "submit", "observe"]))
    with p.ok("ci") as w, p.ok("ops") as o:
        for names in (["other"], ["mine", "other"], ["nowhere"], []):
            assert subscribe(w, *names)[1].status == S.STATUS_UNAUTHORIZED, names
        rid, r = subscribe(w, "mine")
        assert r.status == S.STATUS_OK and r.more
        oid, r = subscribe(o, "other")
        for name in ("other", "mine"):
            o.update("k", 0, queue=name)
        mine, other = w.reply(rid).leased, o.reply(oid).leased
        assert mine.queue == "mine" and other.queue == "other"
        for op in ("touch", "finish", "fail", "release"):
            for q, status in (("other", S.STATUS_UNAUTHORIZED), ("", S.STATUS_UNAUTHORIZED),
                              ("mine", S.STATUS_LEASE_LOST)):
                r = w.call(**{op: pb.Lease(key=b"k", queue=q, token=other.token)})
                assert r.status == status, (op, q, r)
        assert o.call(touch=pb.Lease(key=b"k", queue="other", token=other.token)).status == S.STATUS_OK
        for op in (dict(get=pb.Job(key=b"k", queue="mine")), dict(update=wire.update("k", queue="mine", delay_ms=1)),
                   dict(delete=pb.Job(key=b"k", queue="mine"))):
            assert w.call(**op).status == S.STATUS_UNAUTHORIZED, op
        # Nor by the token of the run that it has been handed.
        r = w.call(run_token=mine.run_token, update=wire.update("k", queue="mine", delay_ms=1))
        assert r.status == S.STATUS_UNAUTHORIZED
        assert w.call(finish=pb.Lease(key=b"k", queue="mine", token=mine.token)).status == S.STATUS_OK


PROGRAM = """#!/usr/bin/python3
import os, sys, socket
sys.path[:0] = [{dir!r}]
os.environ["WQ_BUILD"] = {dir!r}
import wire
from wire import pb
c = wire.Conn.__new__(wire.Conn)
c.sock, c.buf, c.kept, c.next_id = socket.socket(fileno=3), bytearray(), {{}}, 1
space = os.environ.get("TRY_SPACE", os.environ.get("WQ_NAMESPACE", ""))
said = [("uid", os.getuid()), ("hello", wire.word(c.call(hello=pb.Hello(version=1, namespace=space)).status))]
for op in (dict(reload=pb.Reload()), dict(export=pb.Export()), dict(backup=pb.Backup()), dict(list=pb.List()),
           dict(update=pb.Update(key=b"own", queue="z", delay_ms=0, command=[b"id"])),
           dict(update=pb.Update(key=b"own", queue="z", delay_ms=0)),
           dict(queue_set=wire.queue_set("z", dict(max_active=5))), dict(subscribe=pb.Subscribe(queues=["z"])),
           dict(complete=pb.Completion(name=b"c")), dict(shutdown=pb.Shutdown())):
    said.append((next(iter(op)), wire.word(c.call(**op).status)))
rid = c.send(subscribe=pb.Subscribe(queues=["q"]))
said.append(("work", wire.word(c.reply(rid).status)))
with open({out!r}, "w") as f:
    f.write(repr(said))
while True:
    lease = c.reply(rid).leased
    c.call(finish=pb.Lease(queue=lease.queue, key=lease.key, token=lease.token, output=b"%d" % os.getuid()))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="another user takes root")
@pytest.mark.parametrize("roles", ("", "some", "update"))
def test_a_worker_program_is_the_user_that_runs_it(make_daemon, tmp, roles):
    """What comes over descriptor 3 is nothing of the daemon's own: else a program that was put under
    another user would have all that the daemon has."""
    d = make_daemon(start=False)
    bin = d.open_to_all() / "program"
    bin.mkdir(mode=0o755)
    out = tmp / "out"
    out.touch()
    out.chmod(0o666)
    for f in (SOURCE / "tests" / "system" / "wire.py", BUILD / "proto" / "wq_pb2.py"):
        to = bin / (f.name if f.name == "wire.py" else "proto/" + f.name)
        to.parent.mkdir(exist_ok=True)
        to.write_bytes(f.read_bytes())
    run = bin / "run"
    run.write_text(PROGRAM.format(dir=str(bin), out=str(out)))
    run.chmod(0o755)
    text = {"": "", "some": role("r", members=["uid:0"], allow=["observe", "submit", "operate", "command"]),
            "update": role("r", members=["uid:65534"], allow=["submit"], queues=["z"])}[roles]
    d.write_conf(handler("w", str(run), worker=True, user="nobody").replace("True", "yes") +
                 queue("q", action="lease", handler="w") + queue("z", action="none") + text)
    d.start()
    said = dict(until(lambda: eval(out.read_text() or "[]")))
    may_submit = roles == "update"
    assert said == {"uid": 65534, "hello": "OK", "reload": "UNAUTHORIZED", "export": "UNAUTHORIZED",
                    "backup": "UNAUTHORIZED", "list": "UNAUTHORIZED",
                    "update": "CREATED" if may_submit else "UNAUTHORIZED", "queue_set": "UNAUTHORIZED",
                    "subscribe": "UNAUTHORIZED", "complete": "OK" if may_submit else "UNAUTHORIZED",
                    "shutdown": "UNAUTHORIZED", "work": "OK"}
    with d.conn() as c:
        c.update("k", 0, queue="q")
        last = until(lambda: (i := c.get("k", "q")) and i.last.outcome == pb.RUN_OUTCOME_DONE and i.last)
        assert last.output == b"65534"
