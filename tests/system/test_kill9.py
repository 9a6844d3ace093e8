"""kill -9 at random moments of a daemon under full load, and of one that recovers.

WQ_KILL_ROUNDS says how often (the whole number of issue and guarantees is 200; make check does a few):

    make check TESTFLAGS="-k kill9_under_load" WQ_KILL_ROUNDS=200

The state grows from round to round, so that its log is folded again and again under the load.
"""
import os
import random
import shutil
import sqlite3
import threading
import time

import wire
from conftest import queue, until
from wire import S, word

ROUNDS = int(os.environ.get("WQ_KILL_ROUNDS", "5"))
# A folder for the files as the last kill has left them, to look at when a round fails.
KEEP = os.environ.get("WQ_KILL_KEEP")
# A machine that is busy acknowledges late what it did in time; so much later it counts as certain.
CERTAIN = 1.5


class Client(threading.Thread):
    """Moves its own keys, each time to a later deadline, and remembers what was asked and told."""

    def __init__(self, d, name, level, keys, batch):
        super().__init__(daemon=True)
        self.d, self.name_, self.level, self.keys, self.batch = d, name, level, keys, batch
        self.n = 0                 # operations asked for; each has its number in its deadline
        self.first = 0             # number of the first of this round
        self.last = {}             # key: number of the newest asked for, of all rounds
        self.order = []            # (number, key) of this round
        self.told = []             # (time, number) of this round
        self.base = wire.now_ms() + 86_400_000

    def at(self, n):
        return self.base + n * 10

    def number(self, deadline_ms):
        """Which operation a deadline is of."""
        n, rest = divmod(deadline_ms - self.base + 2, 10)
        assert 0 <= rest <= 4, (deadline_ms, self.base)
        return n

    def run(self):
        try:
            with self.d.conn() as c:
                while True:
                    self.one_batch(c)
        except (OSError, wire.Closed):
            pass

    def one_batch(self, c):
        ups, numbers = [], []
        for _ in range(self.batch):
            key = f"{self.name_}-{random.randrange(self.keys)}"
            ups.append(wire.update(key, queue="q", at_ms=self.at(self.n), durability=self.level))
            self.order.append((self.n, key))
            numbers.append(self.n)
            self.n += 1
        r = c.call(update_batch=wire.pb.UpdateBatch(updates=ups))
        now = time.monotonic()
        for n, result in zip(numbers, r.results):
            assert word(result.status) in ("CREATED", "UPDATED_TIMER"), result
            self.told.append((now, n))

    def begin_round(self):
        self.first, self.order, self.told = self.n, [], []


class Runner(threading.Thread):
    """Jobs that run: the generation that a sync reply has told never goes back."""

    def __init__(self, d, keys=20):
        super().__init__(daemon=True)
        self.d, self.keys, self.generation = d, keys, {}

    def run(self):
        try:
            with self.d.conn() as c:
                while True:
                    key = f"run-{random.randrange(self.keys)}"
                    r = c.update(key, random.choice([0, 0, 5, 30]), "q",
                                 durability=S.DURABILITY_SYNC)
                    self.generation[key] = max(self.generation.get(key, 0), r.generation)
        except (OSError, wire.Closed):
            pass


def everything(c):
    jobs, cursor = {}, 0
    while True:
        r = c.call(list=wire.pb.List(queue="q", limit=1000, cursor=cursor))
        jobs.update({j.key.decode(): j for j in r.jobs})
        cursor = r.cursor
        if not cursor:
            return jobs


def token(d, tmp):
    """Whose turn it is, by a copy of the files as the kill has left them."""
    copy = tmp / "look"
    shutil.copytree(d.state, copy)
    db = sqlite3.connect(copy / "wqd.db")
    (n,) = db.execute("SELECT token FROM meta").fetchone()
    assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    db.close()
    shutil.rmtree(copy)
    return n


def started(d):
    d.notify.poll(0.05)
    assert d.proc.poll() is None, d.text()[-4000:]
    return any(line == "READY=1" for _, line in d.notify.seen)


def check_client(t, jobs, killed, context):
    """Nothing certain is lost, and nothing is there without what the same client did before."""
    there = {k: t.number(j.deadline_ms) for k, j in jobs.items()
             if k.startswith(t.name_ + "-") and j.pending}
    asked = dict(t.last)
    sync = t.level == S.DURABILITY_SYNC
    certain = max([n for at, n in t.told if sync or killed - at > CERTAIN], default=-1)
    # The newest that is there: whole groups in order, so all before it is there as well.
    newest = max([n for n in there.values() if n >= t.first], default=-1)
    need = max(certain, newest)
    for n, key in t.order:
        if n <= need:
            asked[key] = n
    wrong = [(key, n, there.get(key)) for key, n in asked.items()
             if key not in there or not n <= there[key] <= t.n]
    assert not wrong, (context, t.name_, wrong, need, newest, certain, t.first, t.n, len(t.order))
    # What is certain now is so for all rounds to come.
    t.last = there


def test_kill9_under_load(make_daemon, tmp):
    seed = int(os.environ.get("WQ_KILL_SEED", "0")) or int.from_bytes(os.urandom(4), "big")
    rng = random.Random(seed)
    d = make_daemon(queue("q", retention="1h", retention_count=100_000), start=False)
    clients = [Client(d, "sync", S.DURABILITY_SYNC, 300, 1),
               Client(d, "many", S.DURABILITY_SYNC, 3000, 200),
               Client(d, "async", S.DURABILITY_ASYNC, 3000, 100)]
    generation, tokens = {}, []
    d.start()
    for rnd in range(ROUNDS):
        context = (seed, rnd)
        runner = Runner(d)
        fresh = []
        for t in clients:
            t.begin_round()
            copy = Client(d, t.name_, t.level, t.keys, t.batch)
            copy.n, copy.first, copy.last, copy.base = t.n, t.n, t.last, t.base
            fresh.append(copy)
        clients = fresh
        for t in [*clients, runner]:
            t.start()
        time.sleep(rng.uniform(0.02, 2.5))
        killed = time.monotonic()
        d.kill9()
        for t in [*clients, runner]:
            t.join(60)
            assert not t.is_alive()
        # Some of the starts are killed too, as far as they have come.
        while rng.random() < 0.4:
            d.start(wait=False)
            time.sleep(rng.uniform(0, 0.15))
            d.kill9()
        if KEEP:
            shutil.rmtree(KEEP, ignore_errors=True)
            shutil.copytree(d.state, KEEP)
        tokens.append(token(d, tmp))
        assert tokens == sorted(tokens), (context, tokens)
        d.start(wait=False)
        until(lambda: started(d), 600, what="READY=1")
        for key, g in runner.generation.items():
            generation[key] = max(generation.get(key, 0), g)
        with d.conn() as c:
            jobs = everything(c)
            for t in clients:
                check_client(t, jobs, killed, context)
            for key, g in generation.items():
                assert jobs[key].generation >= g, (context, key, jobs[key].generation, g)
            until(lambda: c.stat()["degraded"] == 0)
        assert d.ctl("check").returncode == 0, context
    assert len(set(tokens)) > 1 or ROUNDS == 1
    size = sum((d.state / f).stat().st_size for f in os.listdir(d.state))
    assert size < 64 << 20
