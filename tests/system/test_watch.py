"""The event stream: what is told, filters, resuming, who is too slow; progress of a drain."""
import json
import os
import pty
import subprocess

from conftest import WQCTL, handler, queue, until
from wire import S, pb


def watch(c, **kw):
    """Begins to watch; the request's id, and its position."""
    rid = c.send(watch=pb.Watch(**kw))
    first = c.reply(rid)
    assert first.more and first.status == S.STATUS_OK, first
    return rid, first


def events(c, rid, n, first=None):
    """The next `n` events, and how many were lost before them."""
    got, lost = list(first.events) if first else [], 0
    while len(got) < n:
        r = c.reply(rid)
        assert r.more and (r.events or r.lost)
        lost += r.lost
        got += r.events
    return got, lost


def kinds(got):
    return [pb.EventKind.Name(e.kind)[len("EVENT_KIND_"):].lower() for e in got]


def test_the_life_of_a_job_is_told(make_daemon):
    d = make_daemon(handler("true", "/bin/true") + queue("q", handler="true", slack="1m"))
    with d.conn() as c, d.conn() as w:
        rid, first = watch(w)
        assert not first.events and first.position > 0
        c.update("k", 3_600_000, queue="q")
        c.update("k", 3_600_000, queue="q")
        c.update("k", 7_200_000, queue="q")
        c.cancel("k", queue="q")
        c.update("k", 3_600_000, queue="q")
        c.update("k", 0, queue="q")
        got, lost = events(w, rid, 7)
        assert kinds(got)[:6] == ["armed", "skipped", "updated", "cancelled", "armed", "ready"]
        got += events(w, rid, 1 if len(got) == 7 else 0)[0]
        assert kinds(got)[6:8] == ["started", "finished"] and lost == 0
        assert [e.position for e in got] == list(range(first.position + 1, first.position + 9))
        assert {(e.queue, e.key) for e in got} == {("q", b"k")}
        assert got[0].generation == 1 and got[2].deadline_ms > got[0].deadline_ms > got[0].at_ms
        assert got[6].attempt == 1 and got[7].outcome == pb.RUN_OUTCOME_DONE and got[7].final


def test_a_lease_released_unstarted_is_told(make_daemon):
    d = make_daemon('queue "q" { action = "lease" }\n')
    with d.conn() as c, d.conn() as w, d.conn() as worker:
        rid, _ = watch(w)
        sub = worker.send(subscribe=pb.Subscribe(queues=["q"]))
        assert worker.reply(sub).more
        c.update("k", 0, queue="q")
        job = worker.reply(sub).leased
        c.update("k", 3_600_000, queue="q")
        lease = pb.Lease(key=b"k", queue="q", token=job.token)
        assert worker.call(release=lease).status == S.STATUS_OK
        got, _ = events(w, rid, 4)
        assert kinds(got) == ["ready", "started", "armed", "returned"]
        assert [e.generation for e in got] == [1, 1, 2, 1] and got[3].attempt == 1


def test_filters(make_daemon):
    d = make_daemon(queue("a") + queue("b"))
    with d.conn() as c, d.conn() as w, d.conn() as v, d.conn() as u:
        by_queue, _ = watch(w, queue="a")
        by_prefix, _ = watch(v, prefix=b"x")
        by_kind, _ = watch(u, kinds=[pb.EVENT_KIND_CANCELLED, pb.EVENT_KIND_QUEUE])
        for q in "ab":
            for k in ("xa", "y"):
                c.update(k, 3_600_000, queue=q)
        c.cancel("y", queue="b")
        c.call(pause=pb.Queue(queue="a"))
        got = events(w, by_queue, 3)[0]
        assert [(e.queue, e.key) for e in got] == [("a", b"xa"), ("a", b"y"), ("a", b"")]
        assert got[2].change == "paused"
        assert [(e.queue, e.key) for e in events(v, by_prefix, 2)[0]] == [("a", b"xa"), ("b", b"xa")]
        assert kinds(events(u, by_kind, 2)[0]) == ["cancelled", "queue"]
        assert w.call(watch=pb.Watch(queue="a/b")).status == S.STATUS_INVALID
        assert w.call(watch=pb.Watch(kinds=[99])).status == S.STATUS_INVALID


def test_queue_changes(wqd):
    with wqd.conn() as c, wqd.conn() as w:
        rid, _ = watch(w, queue="q")
        c.create_queue("q")
        c.set_queue("q", max_active=3)
        c.call(pause=pb.Queue(queue="q"))
        c.call(resume=pb.Queue(queue="q"))
        c.call(drain=pb.Drain(queue="q"))
        c.call(queue_delete=pb.QueueDelete(queue="q"))
        got = events(w, rid, 8)[0]
        assert [e.change for e in got] == ["created", "changed", "paused", "resumed", "draining", "drained",
                                           "draining", "deleted"]


def test_resuming(wqd):
    with wqd.conn() as c:
        with wqd.conn() as w:
            rid, first = watch(w)
            c.update("a", 3_600_000)
            seen = events(w, rid, 1)[0][-1].position
        c.update("b", 3_600_000)
        c.update("c", 3_600_000)
        with wqd.conn() as w:
            rid, first = watch(w, after=seen)
            assert not first.lost and not first.lost_unknown
            got = events(w, rid, 2, first)[0]
            assert [e.key for e in got] == [b"b", b"c"]
    wqd.restart()
    with wqd.conn() as w:
        rid, first = watch(w, after=seen)
        assert first.lost_unknown and not first.events and first.position > seen


def test_a_slow_watcher_is_told_its_gap_and_costs_nothing(make_daemon):
    d = make_daemon('watch_buffer = "64k"\noutput_max = "64k"\n')
    with d.conn() as c, d.conn() as slow, d.conn() as quick:
        rid, first = watch(slow)
        fast, _ = watch(quick, kinds=[pb.EVENT_KIND_CANCELLED])
        c.update("warm", 0)
        base = d.rss()
        n = 20000
        for lo in range(0, n, 1000):
            c.call(update_batch=pb.UpdateBatch(updates=[
                pb.Update(key=b"k%d" % (i % 50), delay_ms=3_600_000 + i * 1000) for i in range(lo, lo + 1000)]))
        c.cancel("k1")
        assert kinds(events(quick, fast, 1)[0]) == ["cancelled"]
        assert d.rss() - base < 4 << 20
        got = total = 0
        last = first.position
        while last < first.position + n + 1:
            r = slow.reply(rid)
            got += len(r.events)
            total += len(r.events) + r.lost
            if r.events:
                assert r.events[0].position == last + 1 + r.lost
                last = r.events[-1].position
        assert got < n and total == last - first.position
        assert d.rss() - base < 4 << 20


def test_nobody_watches_any_more(wqd):
    """Watchers come and go, in the middle of events and with requests in flight."""
    base = None
    with wqd.conn() as c:
        for i in range(30):
            w = wqd.conn()
            for _ in range(3):
                w.send(watch=pb.Watch())
            c.update(f"k{i}", 3_600_000)
            w.close()
            if base is None:
                base = wqd.fds()
        until(lambda: wqd.fds() <= base)
        assert c.stat()["connections"] <= 2


def test_wqctl_watch(wqd):
    with subprocess.Popen([str(WQCTL), "--server", wqd.address, "--json", "watch", "--kinds", "armed,cancelled",
                           "--count", "2"], stdout=subprocess.PIPE, text=True) as proc:
        begin = json.loads(proc.stdout.readline())
        assert begin["event"] == "begin" and begin["lost"] == 0
        wqd.json("update", "a", "1h")
        wqd.json("update", "a", "2h")
        wqd.json("cancel", "a")
        got = [json.loads(line) for line in proc.stdout]
        assert proc.wait(60) == 0
    assert [e["event"] for e in got] == ["armed", "cancelled"]
    assert got[0]["key"] == "a" and got[0]["deadline_ms"] > got[0]["at_ms"]
    again = wqd.ctl("watch", "--after", begin["position"], "--count", "3", check=0).stdout.splitlines()
    assert [line.split()[1 if "T" in line.split()[0] else 2] for line in again] == ["armed", "updated", "cancelled"]
    assert wqd.json("watch", "--kinds", "armed,nonsense", check=2)["error"] == "USAGE"
    wqd.ctl("watch", "--timeout", "100ms", check=7)
    late = wqd.ctl("watch", "--after", "1", "--timeout", "100ms", check=7).stdout
    assert late.splitlines()[0] == "-- events lost, it is not known how many --"
    with subprocess.Popen([str(WQCTL), "--server", wqd.address, "--json", "watch"],
                          stdout=subprocess.PIPE, text=True) as proc:
        proc.stdout.readline()
        wqd.stop()
        assert json.loads(proc.stdout.readline())["error"] == "NO_DAEMON"
        assert proc.wait(60) == 8


def test_progress_of_a_drain(make_daemon):
    d = make_daemon(handler("sleep", "/bin/sleep", "60") + queue("q", handler="sleep", max_active=1))
    with d.conn() as c, d.conn() as other:
        c.update("a", 0, queue="q")
        c.update("b", 0, queue="q")
        until(lambda: c.queue_info("q").running == 1)
        rid = c.send(drain=pb.Drain(queue="q", progress_ms=100))
        told = [c.reply(rid), c.reply(rid)]
        assert all(r.more and r.progress.left == 2 and r.progress.running == 1 for r in told)
        assert told[1].progress.oldest_ms >= told[0].progress.oldest_ms >= 0
        other.cancel("b", queue="q")
        other.cancel("a", queue="q", mode=pb.CANCEL_MODE_KILL)
        while (r := c.reply(rid)).more:
            assert r.progress.left <= 2
        assert r.status == S.STATUS_OK and not r.HasField("progress")


def test_wqctl_drain_on_a_terminal(make_daemon):
    d = make_daemon(handler("sleep", "/bin/sleep", "60") + queue("q", handler="sleep"))
    d.json("update", "q/a", "0")
    until(lambda: d.json("get", "q/a")["state"] == "running")
    master, slave = pty.openpty()
    with subprocess.Popen([str(WQCTL), "--server", d.address, "drain", "q"], stdout=subprocess.PIPE,
                          stderr=slave, text=True) as proc:
        os.close(slave)
        shown = b""
        while b"1 left, 1 running" not in shown:
            shown += os.read(master, 1000)
        d.json("cancel", "--kill", "q/a")
        assert proc.stdout.read() == "q: drained\n"
        assert proc.wait(60) == 0
    os.close(master)
