"""Who may do what: roles, tokens, namespaces, limits."""
import os
import subprocess
import time

import pki
import pytest
import wire
from conftest import WQD, queue, until
from test_cases_tls import Secure
from wire import S, pb

TOKENS = {"ci": "ci-token-0123456789", "eve": "eve-token-0123456789", "ops": "ops-token-987654321"}


def hashed(name, token):
    return subprocess.run([WQD, "--hash-token", name], input=token + "\n", text=True, check=True,
                          capture_output=True).stdout


@pytest.fixture
def tokens(tmp):
    path = tmp / "tokens"
    path.write_text("# names and hashes\n" + "".join(hashed(n, t) for n, t in TOKENS.items()))
    path.chmod(0o600)
    return path


def role(name, **options):
    def text(v):
        return "{ " + ", ".join(f'"{x}"' for x in v) + " }" if isinstance(v, list) else f"{v}"
    return f'role "{name}" {{ ' + " ".join(f"{k} = {text(v)}" for k, v in options.items()) + " }\n"


class Port:
    """A daemon whose clients come by TCP, where the kernel says nothing of them."""

    def __init__(self, make_daemon, conf):
        self.d = make_daemon(conf, also="tcp://127.0.0.1:0")
        self.address = f"tcp://127.0.0.1:{self.d.port()}"

    def conn(self, token=None, space=""):
        c = wire.Conn(self.address, hello=False)
        r = c.call(hello=pb.Hello(version=1, client="pytest", namespace=space,
                                  token=TOKENS.get(token, token or "").encode()))
        c.greeting = r
        return c

    def ok(self, *a, **kw):
        c = self.conn(*a, **kw)
        assert c.greeting.status == S.STATUS_OK, c.greeting
        return c


# ---- nothing configured ----

def test_without_roles_all_may_but_admin_is_the_owners(make_daemon):
    p = Port(make_daemon, "")
    with p.ok() as c, p.d.conn() as own:
        assert c.update("a", 60_000).status == S.STATUS_CREATED
        assert c.create_queue("q").status == S.STATUS_OK
        assert c.call(reload=pb.Reload()).status == S.STATUS_UNAUTHORIZED
        assert c.call(shutdown=pb.Shutdown()).status == S.STATUS_UNAUTHORIZED
        assert own.call(reload=pb.Reload()).status == S.STATUS_OK
        assert c.call(ping=pb.Ping()).status == S.STATUS_OK
        assert own.stat()["unauthorized"] == 2


# ---- roles ----

def test_roles_give_operations_on_queues(make_daemon, tokens):
    p = Port(make_daemon, f'token_file = "{tokens}"\n' + queue("hb") + queue("mail-in") + queue("x") +
             role("app", members=["token:ci"], allow=["observe", "submit"], queues=["hb", "mail-*"]) +
             role("eye", members=["token:eve"], allow=["observe"]) +
             role("ops", members=["token:ops"], allow=["observe", "operate", "admin"]))
    with p.d.conn() as own:
        own.update("secret", 60_000, queue="x")
    with p.ok("ci") as c:
        assert c.update("a", 60_000, queue="hb").status == S.STATUS_CREATED
        assert c.update("a", 60_000, queue="mail-in").status == S.STATUS_CREATED
        assert c.call(pause=pb.Queue(queue="hb")).status == S.STATUS_UNAUTHORIZED
        # The same for what is there and what is not, whatever is asked.
        for name in ("x", "nowhere", "", "mail"):
            for op in (dict(update=wire.update("secret", queue=name, delay_ms=1)),
                       dict(get=pb.Job(key=b"secret", queue=name)),
                       dict(cancel=pb.Cancel(key=b"secret", queue=name)),
                       dict(history=pb.History(queue=name)), dict(list=pb.List(queue=name or "default")),
                       dict(wait=pb.Wait(key=b"secret", queue=name)),
                       dict(queue_show=pb.Queue(queue=name)),
                       dict(watch=pb.Watch(queue=name or "default"))):
                r = c.call(**op)
                assert (r.status, r.message) == (S.STATUS_UNAUTHORIZED, "not authorised"), (name, op)
        # Within what it may see, what is not there is not there.
        assert c.call(get=pb.Job(key=b"b", queue="hb")).status == S.STATUS_NOT_FOUND
        # Each of a batch by itself.
        r = c.call(update_batch=pb.UpdateBatch(updates=[
            wire.update("k", queue=q, delay_ms=60_000) for q in ("hb", "x", "mail-in", "nowhere")]))
        assert [x.status for x in r.results] == [S.STATUS_CREATED, S.STATUS_UNAUTHORIZED] * 2
        # Lists and counters show what may be seen.
        assert {j.queue for j in c.call(list=pb.List()).jobs} == {"hb", "mail-in"}
        assert {q.queue for q in c.call(queue_list=pb.QueueList()).queues} == {"hb", "mail-in"}
        assert c.stat() == {"jobs": 4, "armed": 4, "ready": 0, "running": 0, "queues": 2}
    with p.ok("eve") as c:
        assert c.call(get=pb.Job(key=b"secret", queue="x")).status == S.STATUS_OK
        assert c.update("a", 1, queue="hb").status == S.STATUS_UNAUTHORIZED
        assert c.stat()["connections"] == 1
    with p.ok("ops") as c:
        assert c.call(pause=pb.Queue(queue="x")).status == S.STATUS_OK
        assert c.call(reload=pb.Reload()).status == S.STATUS_OK
        assert c.update("a", 1, queue="x").status == S.STATUS_UNAUTHORIZED


def test_streams_leave_out_what_may_not_be_seen(make_daemon, tokens):
    p = Port(make_daemon, f'token_file = "{tokens}"\n' + queue("mine") + queue("other") +
             role("app", members=["token:ci"], allow=["observe"], queues=["mine"]))
    with p.ok("ci") as c, p.d.conn() as own:
        rid = c.send(watch=pb.Watch())
        assert c.reply(rid).more
        for name in ("other", "mine", "other"):
            own.update("k", 60_000, queue=name)
        events = c.reply(rid).events
        assert [e.queue for e in events] == ["mine"]
        assert own.call(delete=pb.Job(key=b"k", queue="other")).status < 64
        own.update("k2", 60_000, queue="mine")
        assert {e.queue for e in c.reply(rid).events} == {"mine"}


def test_completions_and_handlers_have_patterns_too(make_daemon, tokens):
    p = Port(make_daemon, f'token_file = "{tokens}"\n' +
             'handler "page" { command = { "/bin/true" } }\n'
             'handler "wipe" { command = { "/bin/true" } }\n' +
             role("app", members=["token:ci"], allow=["submit", "operate"], queues=["q*"],
                  completions=["go-*"], handlers=["page"]))
    with p.ok("ci") as c:
        assert c.call(complete=pb.Completion(name=b"go-1")).status == S.STATUS_OK
        assert c.call(complete=pb.Completion(name=b"stop")).status == S.STATUS_UNAUTHORIZED
        assert c.call(completion_show=pb.Completion(name=b"go-1")).status == S.STATUS_UNAUTHORIZED
        for name, handler, status in (("q1", "page", S.STATUS_OK),
                                      ("q2", "wipe", S.STATUS_UNAUTHORIZED),
                                      ("q2", "nothing", S.STATUS_UNAUTHORIZED),
                                      ("z", "page", S.STATUS_UNAUTHORIZED)):
            r = c.call(queue_create=wire.queue_set(name, {"handler": handler}))
            assert r.status == status, (name, handler)


def test_members_are_known_by_the_kernel_and_by_their_certificate(make_daemon, tmp):
    ca = pki.Authority(tmp)
    mine = ca.issue("worker-1", alt="DNS:w1.example")
    s = Secure(make_daemon, tmp, ca.issue("localhost"),
               f'tls_client_ca = "{ca.cert}"\ntls_clients = "request"\n' + queue("w") + queue("u") +
               role("workers", members=["cert:w1.example"], allow=["submit"], queues=["w"]) +
               role("local", members=["unix"], allow=["submit"], queues=["u"]))
    with s.conn(ca, mine) as c:
        assert c.update("a", 60_000, queue="w").status == S.STATUS_CREATED
        assert c.update("a", 60_000, queue="u").status == S.STATUS_UNAUTHORIZED
    c = s.conn(ca, hello=False)
    assert c.call(hello=pb.Hello(version=1)).status == S.STATUS_UNAUTHORIZED, "no role at all"
    c.close()
    if os.geteuid() != 0:
        pytest.skip("another user takes root")
    os.chmod(s.d.sock, 0o666)
    for code, *args in ((0, "update", "u/k", "1m"), (5, "update", "w/k", "1m"), (5, "reload")):
        done = s.d.ctl_as(65534, *args)
        assert done.returncode == code, done


def test_a_reload_changes_what_open_connections_may_do(make_daemon, tokens):
    base = f'token_file = "{tokens}"\n' + queue("a") + queue("b")
    p = Port(make_daemon, base + role("r", members=["token:ci"], allow=["submit"], queues=["a"]))
    with p.ok("ci") as c:
        assert c.update("k", 60_000, queue="b").status == S.STATUS_UNAUTHORIZED
        p.d.write_conf(base + role("r", members=["token:ci"], allow=["submit"], queues=["b"]))
        p.d.ctl("reload", check=0)
        assert c.update("k", 60_000, queue="b").status == S.STATUS_CREATED
        assert c.update("k", 60_000, queue="a").status == S.STATUS_UNAUTHORIZED
        p.d.write_conf(base + role("r", members=["token:ops"], allow=["submit"]))
        p.d.ctl("reload", check=0)
        c.wait_closed()


def test_a_pipe_in_place_of_a_secret_holds_up_nothing(make_daemon, tmp):
    pipe, nowhere = tmp / "pipe", tmp / "nowhere"
    os.mkfifo(pipe)
    d = make_daemon("")
    for text, word in ((f'token_file = "{pipe}"\n', "token_file"),
                       (f'tls_cert = "{pipe}"\ntls_key = "{nowhere}"\n', "tls_cert"),
                       (f'tls_cert = "{nowhere}"\ntls_key = "{pipe}"\n', "tls_key"),
                       (f'tls_cert = "{nowhere}"\ntls_key = "{nowhere}"\n'
                        f'tls_client_ca = "{pipe}"\ntls_clients = "require"\n', "tls_client_ca")):
        d.write_conf(text)
        at = time.monotonic()
        done = d.ctl("reload", check=1)
        assert time.monotonic() - at < 20 and f"{word}: {pipe}" in done.stderr, done.stderr


def test_a_role_that_makes_no_sense_is_refused(make_daemon, tmp):
    for text, word in ((role("r", allow=["observe"]), "members"),
                       (role("r", members=["unix"]), "allow"),
                       (role("r", members=["me"], allow=["observe"]), "members"),
                       (role("r", members=["unix"], allow=["everything"]), "allow"),
                       (role("r", members=["unix"], allow=["observe"], queues=["a*b"]), "queues"),
                       ('namespace "a/b" { }\n', "namespace"),
                       (role("r", members=["unix"], allow=["observe"]) * 2, "role")):
        path = tmp / "bad.conf"
        path.write_text(text)
        done = subprocess.run([WQD, "--check", "-c", path], capture_output=True, text=True, check=False)
        assert done.returncode == 3 and word in done.stderr and done.stderr.count("\n") == 1, done


# ---- tokens ----

def test_tls_06_wrong_tokens_get_one_error_and_ever_later(make_daemon, tokens):
    p = Port(make_daemon, f'token_file = "{tokens}"\n' +
             role("r", members=["token:ci"], allow=["observe"]))
    right = TOKENS["ci"]
    wrong = [right[:n] for n in (1, 8, 15, 16, len(right) - 1)] + [
        right + "x", "x" * 512, "x" * 5000, right.upper(), TOKENS["ci"][:-1] + "8",
        TOKENS["eve"]]  # known, but of no role
    answers, took = set(), []
    for w in wrong[:6]:
        t = time.monotonic()
        with p.conn(w) as c:
            answers.add((c.greeting.status, c.greeting.message))
            assert c.wait_closed() == []
        took.append(time.monotonic() - t)
    assert took[0] >= 0.09 and took[4] >= 0.7, took
    conns = []
    for w in wrong[6:]:
        c = wire.Conn(p.address, hello=False)
        c.send(hello=pb.Hello(version=1, token=w.encode()))
        conns.append(c)
    for c in conns:
        r = c.next_reply()
        answers.add((r.status, r.message))
        c.close()
    assert answers == {(S.STATUS_UNAUTHORIZED, "not authorised")}
    t = time.monotonic()
    with p.ok("ci") as c:
        assert c.stat()["auth_failures"] == len(wrong)
    assert time.monotonic() - t < 2, "a right one does not wait"
    log = p.d.text()
    assert not any(t in log for t in TOKENS.values())


def test_tls_06_a_token_comes_from_a_file_and_shows_nowhere(make_daemon, tokens, tmp):
    p = Port(make_daemon, f'token_file = "{tokens}"\nlog_level = "debug"\n' +
             role("r", members=["token:ci"], allow=["observe", "submit"]))
    mine = tmp / "mine"
    mine.write_text(TOKENS["ci"] + "\n")
    server = ("--server", p.address)
    p.d.ctl(*server, "--token-file", mine, "update", "k", "1m", check=0)
    p.d.ctl(*server, "update", "k", "1m", env={"WQ_TOKEN_FILE": str(mine)}, check=0)
    done = p.d.ctl(*server, "--json", "update", "k", "1m")
    assert done.returncode == 5 and '"error":"UNAUTHORIZED"' in done.stdout
    done = p.d.ctl(*server, "--token-file", "/nowhere", "ping")
    assert done.returncode == 1 and "cannot read the token from /nowhere" in done.stderr
    done = p.d.ctl(*server, "--token-file", mine, "--namespace", "a b", "ping")
    assert done.returncode == 1 and "'a b' is no name of a namespace" in done.stderr
    everything = p.d.text() + "".join(
        p.d.ctl(*a).stdout for a in (("list",), ("queue", "list"), ("stat",), ("--json", "list")))
    assert TOKENS["ci"] not in everything
    assert all(t not in tokens.read_text() for t in TOKENS.values())
    args = open(f"/proc/{p.d.pid}/cmdline", "rb").read()
    assert TOKENS["ci"].encode() not in args


def test_token_files_that_are_no_good_keep_the_old_ones(make_daemon, tokens):
    p = Port(make_daemon, f'token_file = "{tokens}"\n' +
             role("r", members=["token:ci"], allow=["observe"]))
    good = tokens.read_text()
    for text in ("ci sha256:00:00\n", "ci plain-text-token-0123\n", good + good):
        tokens.write_text(text)
        done = p.d.ctl("reload")
        assert done.returncode == 1 and "token_file" in done.stderr
        assert "plain-text-token" not in done.stderr + p.d.text()
    tokens.write_text(good)
    tokens.chmod(0o666)
    assert p.d.ctl("reload").returncode == 1
    tokens.chmod(0o600)
    p.d.ctl("reload", check=0)
    with p.ok("ci"):
        pass


# ---- namespaces ----

def test_tenants_do_not_see_each_other(make_daemon):
    p = Port(make_daemon, queue("mail"))
    with p.ok() as base, p.ok(space="a") as a, p.ok(space="b") as b:
        for c in (base, a, b):
            assert c.update("k", 60_000).status == S.STATUS_CREATED
            assert c.call(complete=pb.Completion(name=b"go")).completion.done == 1
        assert a.update("only-a", 60_000).status == S.STATUS_CREATED
        assert a.create_queue("mail").status == S.STATUS_OK, "the other mail is not there"
        for c, keys in ((base, {b"k"}), (a, {b"k", b"only-a"}), (b, {b"k"})):
            jobs = c.call(list=pb.List()).jobs
            assert {j.key for j in jobs} == keys and {j.queue for j in jobs} == {"default"}
        assert {q.queue for q in a.call(queue_list=pb.QueueList()).queues} == {"default", "mail"}
        assert {q.queue for q in b.call(queue_list=pb.QueueList()).queues} == {"default"}
        assert b.call(get=pb.Job(key=b"only-a")).status == S.STATUS_NOT_FOUND
        assert b.call(queue_show=pb.Queue(queue="mail")).status == S.STATUS_NOT_FOUND
        assert a.get("k").queue == "default"
        assert b.stat()["jobs"] == 1
        # No name reaches over.
        for name in ("a/default", "a/mail", "/default", "b/../a"):
            for c in (base, b):
                assert c.update("k", 1, queue=name).status == S.STATUS_INVALID
                assert c.call(queue_show=pb.Queue(queue=name)).status == S.STATUS_INVALID
                r = c.call(update_batch=pb.UpdateBatch(updates=[wire.update("k", queue=name, delay_ms=1)]))
                assert r.results[0].status == S.STATUS_INVALID
        for name in (b" a/go", b"a/go"):
            r = b.call(completion_show=pb.Completion(name=name))
            assert r.status == S.STATUS_INVALID or r.completion.done == 0
        # A stream of one tenant.
        rid = b.send(watch=pb.Watch())
        assert b.reply(rid).more
        a.update("only-a", 70_000)
        b.update("k", 70_000)
        events = b.reply(rid).events
        assert [(e.queue, e.key) for e in events] == [("default", b"k")]
    # All of it over a restart.
    p.d.restart()
    port = p.d.port()
    p.address = f"tcp://127.0.0.1:{port}"
    with p.ok(space="a") as a, p.ok() as base:
        assert {j.key for j in a.call(list=pb.List()).jobs} == {b"k", b"only-a"}
        assert {j.key for j in base.call(list=pb.List()).jobs} == {b"k"}
        assert base.update("k", 1, queue="a/default").status == S.STATUS_INVALID
    for name in ("a/b", "-x", "x" * 33, "ä"):
        with p.conn(space=name) as c:
            assert c.greeting.status == S.STATUS_INVALID


def test_a_namespace_by_the_command_line(make_daemon):
    d = make_daemon('queue "team/jobs" { handler = "say" }\n'
                    'handler "say" { command = { "/bin/sh", "-c", "echo $WQ_NAMESPACE $WQ_QUEUE" } }\n')
    d.ctl("--namespace", "team", "update", "jobs/k", "0", check=0)
    done = d.json("--namespace", "team", "wait", "jobs/k")
    assert done["output"] == "team jobs\n" and done["queue"] == "jobs"
    assert d.ctl("get", "jobs/k").returncode == 3
    assert d.ctl("get", "jobs/k", env={"WQ_NAMESPACE": "team"}).returncode == 0


def test_roles_say_which_namespaces(make_daemon, tokens):
    p = Port(make_daemon, f'token_file = "{tokens}"\n' +
             role("a", members=["token:ci"], allow=["submit"], namespaces=["team-*"]))
    with p.ok("ci", space="team-1") as c:
        assert c.update("k", 60_000).status == S.STATUS_CREATED
    for space in ("", "other"):
        with p.conn("ci", space=space) as c:
            assert c.greeting.status == S.STATUS_UNAUTHORIZED


# ---- limits ----

def test_limits_of_identities_and_namespaces(make_daemon, tokens):
    p = Port(make_daemon, f'token_file = "{tokens}"\n' +
             role("r", members=["token:ci"], allow=["observe", "submit"], namespaces=["*", "-"],
                  max_connections=3, max_requests=50, max_waiters=2, max_watchers=1) +
             role("s", members=["token:eve"], allow=["observe", "submit"], namespaces=["t"]) +
             'namespace "t" { max_jobs = 5 max_connections = 1 }\n')
    a, b, c = (p.ok("ci") for _ in range(3))
    with p.conn("ci") as d:
        assert d.greeting.status == S.STATUS_REFUSED_LIMIT
    c.close()
    until(lambda: p.d.json("stat")["connections"] == 3)  # with wqctl's own
    # Waiting.
    for i in range(2):
        a.send(completion_wait=pb.CompletionWait(name=b"never"))
    assert a.call(ping=pb.Ping()).status == S.STATUS_OK
    assert b.call(completion_wait=pb.CompletionWait(name=b"never")).status == S.STATUS_REFUSED_LIMIT
    assert b.update("k", 60_000).status == S.STATUS_CREATED
    a.close()
    until(lambda: p.d.json("stat")["waiters"] == 0)
    rid = b.send(watch=pb.Watch())
    assert b.reply(rid).more
    assert b.call(watch=pb.Watch()).status == S.STATUS_REFUSED_LIMIT
    # A second's worth.
    got = [b.update("k", 60_000).status for _ in range(80)]
    assert S.STATUS_REFUSED_LIMIT in got and got[0] != S.STATUS_REFUSED_LIMIT
    t = time.monotonic()
    until(lambda: b.update("k", 60_000).status != S.STATUS_REFUSED_LIMIT)
    assert time.monotonic() - t < 5
    b.close()
    # Jobs of a namespace: what is there may go on.
    e = p.ok("eve", space="t")
    for i in range(5):
        assert e.update(f"k{i}", 60_000).status == S.STATUS_CREATED
    assert e.update("k5", 60_000).status == S.STATUS_REFUSED_LIMIT
    assert e.update("k4", 60_000).status != S.STATUS_REFUSED_LIMIT
    assert e.cancel("k0").status == S.STATUS_CANCELLED
    with p.conn("eve", space="t") as d:
        assert d.greeting.status == S.STATUS_REFUSED_LIMIT
    e.close()
    stat = p.d.json("stat")
    for name in ("connections", "rate", "waiters", "watchers", "jobs"):
        assert stat[f"refused_{name}"] >= 1, name
