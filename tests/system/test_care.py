"""Care of the state: backup, check, export and import."""
import json
import os
import shutil
import sqlite3
import subprocess
import threading
import time

import pytest
import wire
from conftest import PATIENCE, WQD, handler, queue, until
from test_cases_sto import digest
from wire import S, word


class Load(threading.Thread):
    """Updates of its own keys, one after the other, each remembered when it is acknowledged."""

    def __init__(self, d, name, level, keys=200):
        super().__init__(daemon=True)
        self.d, self.name_, self.level, self.keys = d, name, level, keys
        self.asked, self.acked, self.end = {}, {}, False
        self.lock = threading.Lock()

    def run(self):
        with self.d.conn() as c:
            i = 0
            while not self.end:
                reqs = []
                for _ in range(50):
                    key = f"{self.name_}-{i * 7 % self.keys}"
                    self.asked[key] = self.asked.get(key, 0) + 1
                    reqs.append((key, c.request(update=wire.update(
                        key, delay_ms=3_600_000 + i, durability=self.level,
                        payload=f"{key} {i}".encode(), payload_mode=S.PAYLOAD_MODE_REPLACE))))
                    i += 1
                c.send_many([r for _, r in reqs])
                for key, r in reqs:
                    got = c.reply(r.id)
                    assert word(got.status) in ("CREATED", "UPDATED_TIMER"), got
                    with self.lock:
                        self.acked[key] = got.deadline_ms

    def now(self):
        with self.lock:
            return dict(self.acked)


def restored(make_daemon, copy, conf=""):
    """A daemon that starts from a copy."""
    d = make_daemon(conf, start=False)
    shutil.copy(copy, d.state / "wqd.db")
    return d.start()


def deadlines(c):
    got, cursor = {}, 0
    while True:
        r = c.call(list=wire.pb.List(limit=1000, cursor=cursor))
        got.update({j.key.decode(): j.deadline_ms for j in r.jobs})
        cursor = r.cursor
        if not cursor:
            return got


def test_a_backup_under_load_holds_what_was_acknowledged_before(make_daemon, tmp):
    d = make_daemon()
    with d.conn() as c:
        for i in range(0, 20000, 2000):
            c.call(update_batch=wire.pb.UpdateBatch(updates=[
                wire.update(f"still-{i + k}", delay_ms=7_200_000, payload=b"x" * 200,
                            payload_mode=S.PAYLOAD_MODE_REPLACE) for k in range(2000)]))
    loads = [Load(d, "sync", S.DURABILITY_SYNC), Load(d, "async", S.DURABILITY_ASYNC)]
    for t in loads:
        t.start()
    copies = []
    for n in range(3):
        until(lambda: all(len(t.now()) == t.keys for t in loads))
        before = [t.now() for t in loads]
        d.ctl("backup", tmp / f"copy{n}", check=0)
        copies.append((tmp / f"copy{n}", before))
    for t in loads:
        t.end = True
        t.join(60)
    assert os.stat(copies[0][0]).st_mode & 0o7777 == 0o600
    assert "backup.tmp" not in os.listdir(d.state)
    for path, before in copies:
        other = restored(make_daemon, path)
        with other.conn() as c:
            got = deadlines(c)
            for t, acked in zip(loads, before):
                for key, at in acked.items():
                    assert got[key] >= at - 1, (key, got[key], at)
                mine = {k for k in got if k.startswith(t.name_)}
                assert mine <= set(t.asked)
            assert len([k for k in got if k.startswith("still-")]) == 20000
        assert "in order" in other.ctl("check", check=0).stdout
        other.stop()


def test_a_backup_never_writes_over_a_file_unasked(wqd, tmp):
    path = tmp / "copy"
    path.write_text("precious")
    done = wqd.ctl("backup", path, check=1)
    assert "--force" in done.stderr and path.read_text() == "precious"
    wqd.ctl("backup", path, "--force", check=0)
    assert path.read_bytes().startswith(b"SQLite format 3")
    assert set(os.listdir(tmp)) == {"copy", "d0"}
    done = wqd.ctl("backup", tmp / "none" / "copy", check=1)
    assert "No such file" in done.stderr
    done = wqd.ctl("backup", "x" * 4090, check=1)  # no room for the new file's own ending
    assert done.stderr.startswith("wqctl: xxx")


def test_care_is_for_the_operator_alone(make_daemon):
    d = make_daemon(also="tcp://127.0.0.1:0")
    with wire.Conn(f"tcp://127.0.0.1:{d.port()}") as c:
        for op in (dict(backup=wire.pb.Backup()), dict(check=wire.pb.Check()),
                   dict(export=wire.pb.Export()), dict(import_job=wire.pb.ImportJob(key=b"k"))):
            assert word(c.call(**op).status) == "UNAUTHORIZED"


def test_one_backup_at_a_time_and_none_is_left_of_who_goes_away(make_daemon):
    d = make_daemon("output_max = 64k\n")
    with d.conn() as c:
        for i in range(20):
            c.update(f"k{i}", 3_600_000, payload=b"x" * 1_000_000)
        c.update("last", 3_600_000, durability=S.DURABILITY_SYNC)
        fds = d.fds()
        other = d.conn()
        other.send(backup=wire.pb.Backup())
        first = other.next_reply()
        assert first.more and first.data.startswith(b"SQLite format 3")
        # It reads no more: the copy waits for it, and nobody else does.
        assert word(c.call(check=wire.pb.Check()).status) == "REFUSED_LIMIT"
        assert word(c.call(backup=wire.pb.Backup()).status) == "REFUSED_LIMIT"
        assert word(c.update("last", 3_600_000, durability=S.DURABILITY_SYNC).status) == \
            "UPDATED_TIMER"
        other.close()
        until(lambda: d.fds() == fds)
        assert word(c.call(check=wire.pb.Check()).status) == "OK"
        assert "backup.tmp" not in os.listdir(d.state)
    # Also when it goes in the middle of the copying.
    for _ in range(10):
        other = d.conn()
        other.send(backup=wire.pb.Backup())
        other.close()
    with d.conn() as c:
        until(lambda: word(c.call(check=wire.pb.Check()).status) == "OK")
    assert "backup.tmp" not in os.listdir(d.state)


def test_a_daemon_that_ends_during_a_backup_leaves_nothing(make_daemon):
    d = make_daemon()
    with d.conn() as c:
        for i in range(20):
            c.update(f"k{i}", 3_600_000, payload=b"x" * 1_000_000)
        c.update("last", 3_600_000, durability=S.DURABILITY_SYNC)
        c.send(backup=wire.pb.Backup())
        assert d.stop() == 0
    assert "backup.tmp" not in os.listdir(d.state)
    d.start()
    with d.conn() as c:
        c.send(backup=wire.pb.Backup())
        time.sleep(0.005)
        d.kill9()
    d.start()
    assert d.ctl("backup", d.root / "copy").returncode == 0
    assert "backup.tmp" not in os.listdir(d.state)


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


def full(make_daemon):
    """A daemon with something of everything."""
    d = make_daemon(handler("no", "false") + queue("dies", handler="no", max_attempts=2, retry_delay="10ms"))
    with d.conn() as c:
        c.create_queue("mine", max_active=3, slack="1s", ordered=False, retention="2h")
        c.update("text", 3_600_000, "mine", payload='a "b"\n\\ \u00e9'.encode())
        c.update("bytes", 3_600_000, "mine", payload=bytes(range(256)))
        for part in (b"one", b"", b"three"):
            c.update("parts", 7_200_000, "mine", payload=part, max_wait_ms=7_300_000,
                     payload_mode=S.PAYLOAD_MODE_APPEND)
        c.update("at", queue="mine", at_ms=wire.now_ms() + 5_000_000, durability=S.DURABILITY_SYNC)
        c.update("memory", 3_600_000, "mine", durability=S.DURABILITY_MEMORY)
        c.job("disable", "off")
        c.job("disable", "off")
        c.update("dead", 0, "dies", payload=b"last words")
        until(lambda: (j := c.get("dead", "dies")) and j.dead)
        c.update("ran", 0)
        until(lambda: (j := c.get("ran")) and j.last.generation == 1 and not j.pending)
        c.update("ran", 3_600_000)
        c.call(pause=wire.pb.Queue(queue="mine"))
        c.update("ready", 0, "mine")
        c.call(complete_all=wire.pb.Completion(name=b"gate", durability=S.DURABILITY_SYNC))
        for _ in range(3):
            c.call(complete=wire.pb.Completion(name=b"count", durability=S.DURABILITY_ASYNC))
    return d


def comparable(text):
    """Without what differs: the head, the order, and a millisecond."""
    out = []
    for line in lines(text):
        if line["type"] in ("wqd-export", "end"):
            continue
        for name in ("due_ms", "created_ms"):
            if name in line:
                line[name] = (line[name] + 5) // 10
        out.append(json.dumps(line, sort_keys=True))
    return sorted(out)


def close_to(a, b):
    """The same, but for times that differ by a rounding."""
    assert len(a) == len(b)
    for x, y in zip(a, b):
        x, y = json.loads(x), json.loads(y)
        for name in ("due_ms", "created_ms"):
            assert abs(x.pop(name, 0) - y.pop(name, 0)) <= 1
        assert x == y


def test_an_export_comes_back_as_it_was(make_daemon, tmp):
    d = full(make_daemon)
    path = tmp / "x.jsonl"
    got = d.json("export", path)
    assert (got["jobs"], got["completions"]) == (9, 2)
    assert os.stat(path).st_mode & 0o7777 == 0o600
    text = path.read_text()
    head, *_, last = lines(text)
    assert head["type"] == "wqd-export" and head["version"] == 1
    assert (last["type"], last["jobs"], last["lost"]) == ("end", 9, 0)

    other = make_daemon(handler("no", "false"))
    dry = other.json("import", path, "--dry-run")
    assert (dry["jobs"], dry["queues"], dry["n_errors"]) == (9, 2, 0)
    assert comparable(other.ctl("export", check=0).stdout) != comparable(text)
    sum_ = other.json("import", path)
    assert (sum_["jobs"], sum_["jobs_there"], sum_["queues"], sum_["completions"],
            sum_["n_errors"]) == (9, 0, 2, 2, 0)
    close_to(comparable(other.ctl("export", check=0).stdout), comparable(text))
    # Again: nothing changes.
    sum_ = other.json("import", path)
    assert (sum_["jobs"], sum_["jobs_there"], sum_["completions_there"]) == (0, 9, 2)
    close_to(comparable(other.ctl("export", check=0).stdout), comparable(text))
    # And it is on disk.
    other.kill9()
    other.start()
    with other.conn() as c:
        assert c.get("parts", "mine").payload_bytes == 8
        assert c.get("ran").generation == 2
        assert c.get("off").disable_depth == 2
        assert c.get("dead", "dies").dead
        assert c.get("memory", "mine") is None
        assert c.queue_info("mine").paused


def test_what_has_run_since_is_not_run_again_by_an_import(make_daemon, tmp):
    d = make_daemon()
    with d.conn() as c:
        c.update("k", 500)
        d.ctl("export", tmp / "x", check=0)
        until(lambda: c.get("k").last.generation == 1)
        assert d.json("import", tmp / "x")["jobs_there"] == 1
        assert not c.get("k").pending


HEAD = '{"type":"wqd-export","version":1,"exported_ms":%d}\n'
JOB = ('{"type":"job","queue":"default","key":"%s","state":"armed","due_ms":%d,"delay_ms":1000,'
       '"durability":"async"}\n')


def test_bad_lines_are_told_by_number_and_the_others_go_in(wqd, tmp):
    far = wire.now_ms() + 3_600_000
    path = tmp / "x"
    path.write_text(
        HEAD % wire.now_ms() + JOB % ("one", far) + "this is no JSON\n" +
        JOB.replace("default", "nowhere") % ("two", far) + '{"type":"job","queue":"default"}\n' +
        JOB.replace('"armed"', '"running"') % ("three", far) + JOB % ("four", 10 ** 15) +
        '{"type":"later"}\n' + JOB.replace("}", ',"payload_base64":["?"]}') % ("five", far) +
        JOB % ("six", far))
    got = wqd.json("import", path, check=1)
    assert got["jobs"] == 2
    assert [e["line"] for e in got["errors"]] == [3, 5, 6, 8, 9, 10, 4, 7] or \
        sorted(e["line"] for e in got["errors"]) == [3, 4, 5, 6, 7, 8, 9, 10]
    done = wqd.ctl("import", path, check=1)
    assert "line 3: " in done.stderr and "line 10: the file ends without its last line" in done.stderr
    with wqd.conn() as c:
        assert c.get("one").pending and c.get("six").pending and c.get("five") is None


@pytest.mark.parametrize("text", ["", "\n", "text\n", '{"type":"job"}\n', "[]\n",
                                  '{"type":"wqd-export","version":2,"exported_ms":1}\n'])
def test_what_is_no_export_is_not_imported(wqd, tmp, text):
    (tmp / "x").write_text(text)
    done = wqd.ctl("import", tmp / "x", check=1)
    assert done.stderr.startswith("wqctl: line ") and "brought in 0 jobs" in done.stdout
    if text.strip() and "wqd-export" not in text:
        assert done.stderr == "wqctl: line 1: no export of wqd begins like this\n"
    assert wqd.ctl("import", tmp / "none").returncode == 1


def test_overdue_deadlines_can_be_shifted(make_daemon, tmp):
    d = make_daemon(queue("default", max_active=0))
    now = wire.now_ms()
    # Exported an hour ago.
    (tmp / "x").write_text(
        HEAD % (now - 3_600_000) + JOB % ("passed", now - 3_000_000) +
        JOB % ("before", now - 4_000_000) + JOB % ("ahead", now + 3_000_000) +
        '{"type":"end","queues":0,"jobs":3,"completions":0,"lost":0}\n')
    got = d.json("import", tmp / "x", "--shift-overdue")
    assert (got["jobs"], got["shifted"]) == (3, 2)
    with d.conn() as c:
        assert 590_000 < c.get("passed").deadline_ms - now < 700_000
        assert -1 <= c.get("before").deadline_ms - now < 60_000
        assert abs(c.get("ahead").deadline_ms - now - 3_000_000) <= 1
    d.restart()
    (tmp / "y").write_text((tmp / "x").read_text().replace('"key":"', '"key":"y-'))
    d.json("import", tmp / "y")
    with d.conn() as c:
        until(lambda: c.get("y-passed").state == S.JOB_STATE_HELD)
        assert abs(c.get("y-passed").deadline_ms - now + 3_000_000) <= 1, "absolute without it"


def test_an_export_under_load_has_what_exists_throughout(wqd, tmp):
    with wqd.conn() as c:
        for i in range(0, 8000, 4000):
            c.call(update_batch=wire.pb.UpdateBatch(updates=[
                wire.update(f"still-{i + k}", delay_ms=7_200_000) for k in range(4000)]))
    t = Load(wqd, "moves", S.DURABILITY_ASYNC, keys=500)
    t.start()
    until(lambda: len(t.now()) == 500)
    got = lines(wqd.ctl("export", check=0).stdout)
    t.end = True
    t.join(60)
    keys = [g["key"] for g in got if g["type"] == "job"]
    assert len(keys) == len(set(keys)) == 8500


def wqd_says(d, *args):
    return subprocess.run([str(WQD), "--state-dir", str(d.state), *args], capture_output=True,
                          text=True, timeout=PATIENCE, check=False)


def test_a_state_without_its_daemon_is_checked_and_given_out(make_daemon, tmp):
    d = full(make_daemon)
    done = wqd_says(d, "--check-state")
    assert done.returncode == 4 and "in use" in done.stdout, "its daemon runs"
    d.ctl("export", tmp / "live", check=0)
    d.stop()
    before = digest(d.state)
    done = wqd_says(d, "--check-state")
    assert done.returncode == 0 and done.stdout.startswith("in order: 3 queues, "), done
    assert json.loads(wqd_says(d, "--check-state=json").stdout)["jobs"] >= 7
    done = d.ctl("check", "--state-dir", d.state, check=0)
    assert done.stdout.startswith("in order: 3 queues, ")
    done = wqd_says(d, "--export-state")
    assert done.returncode == 0
    # One of level memory is not there any more.
    live = [g for g in comparable((tmp / "live").read_text()) if '"key": "memory"' not in g]
    close_to(comparable(done.stdout), live)
    assert digest(d.state) == before, "something was rewritten"
    (tmp / "x").write_text(done.stdout)
    other = make_daemon(handler("no", "false"))
    assert other.json("import", tmp / "x")["jobs"] == 8


@pytest.mark.parametrize("how,status", [("page", 5), ("cut", 5), ("text", 5), ("newer", 6),
                                        ("none", 1)])
def test_what_is_wrong_with_a_state_is_explained(make_daemon, how, status):
    d = full(make_daemon)
    d.stop()
    path = d.state / "wqd.db"
    if how == "page":
        with open(path, "r+b") as f:
            f.seek(path.stat().st_size // 8192 * 4096)
            f.write(os.urandom(4096))
    elif how == "cut":
        os.truncate(path, path.stat().st_size // 8192 * 4096)
    elif how == "text":
        path.write_text("no database\n" * 1000)
    elif how == "newer":
        db = sqlite3.connect(path)
        db.execute("PRAGMA user_version = 9999")
        db.commit()
        db.close()
    else:
        path.unlink()
    before = digest(d.state)
    done = wqd_says(d, "--check-state")
    assert done.returncode == status, done
    assert str(path) in done.stdout and len(done.stdout.splitlines()) == 1 and "; " in done.stdout
    told = json.loads(d.ctl("--json", "check", "--state-dir", d.state, check=status).stdout)
    assert told["path"] == str(path) and told["next"] and told["error"] == "STORAGE_ERROR"
    assert wqd_says(d, "--export-state").returncode == status
    assert digest(d.state) == before, "something was rewritten"
