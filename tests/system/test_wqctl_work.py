"""wqctl work: any program as a worker."""
import json
import os
import signal
import subprocess
import time

from conftest import WQCTL, lease_queue, until
from wire import pb, word


class Work:
    """wqctl work in the background; its lines are JSON."""

    def __init__(self, d, *args, q="q"):
        opts, _, cmd = (args[:args.index("--")], None, args[args.index("--") + 1:])
        self.proc = subprocess.Popen(
            [str(WQCTL), "--json", "work", q, *opts, "--", *cmd], text=True,
            env=dict(os.environ, WQ_SERVER=d.address), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def line(self):
        return json.loads(self.proc.stdout.readline())

    def stop(self, sig=signal.SIGTERM, timeout=30):
        self.proc.send_signal(sig)
        out, err = self.proc.communicate(timeout=timeout)
        return self.proc.returncode, [json.loads(x) for x in out.splitlines()], err

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self.proc.poll() is None:
            self.proc.kill()
        self.proc.communicate()


def living(pgid):
    """Processes of the group that are more than a status nobody has asked for."""
    done = subprocess.run(["ps", "-eo", "pgid=,stat="], capture_output=True, text=True, check=True)
    return [s for g, s in map(str.split, done.stdout.splitlines())
            if int(g) == pgid and not s.startswith("Z")]


def test_the_command_gets_payload_and_names(make_daemon):
    d = make_daemon(lease_queue())
    with d.conn() as c:
        c.update("a b", 0, queue="q", payload=b"hello ")
        d.ctl("work", "q", "--once", "--", "sh", "-c",
              "cat; echo $WQ_QUEUE/$WQ_KEY $WQ_GENERATION $WQ_ATTEMPT $WQ_PARTS; echo err >&2",
              check=0)
        last = c.get("a b", "q").last
        assert last.output == b"hello q/a b 1 1 1\nerr\n"
        assert last.outcome == pb.RUN_OUTCOME_DONE and last.exit_code == 0


def test_the_exit_status_decides(make_daemon):
    d = make_daemon(lease_queue(max_attempts=2, retry_delay="0"))
    with d.conn() as c:
        c.update("a", 0, queue="q")
        done = d.ctl("--json", "work", "q", "--once", "--", "sh", "-c", "echo no; exit 7", check=6)
        line = json.loads(done.stdout)
        assert (line["key"], line["outcome"], line["exit_code"]) == ("a", "failed", 7)
        d.ctl("work", "q", "--once", "--", "sh", "-c", "kill -9 $$", check=6)
        info = c.get("a", "q")
        assert info.dead and info.last.signal == 9 and not info.last.HasField("exit_code")
        c.update("b", 0, queue="q")
        d.ctl("work", "q", "--once", "--", "/nowhere/at/all", check=6)
        assert b"No such file" in c.get("b", "q").last.output


def test_once_ends_after_one_or_in_time(make_daemon):
    d = make_daemon(lease_queue())
    d.ctl("work", "q", "--once", "--timeout", "300ms", "--", "true", check=7)
    with d.conn() as c:
        c.update("a", 0, queue="q")
        c.update("b", 0, queue="q")
        d.ctl("work", "q", "--once", "--", "true", check=0)
        assert c.get("b", "q").state == pb.JOB_STATE_READY
    assert d.ctl("work", "nowhere", "--", "true").returncode == 3


def test_jobs_at_a_time_and_a_long_one_is_touched(make_daemon):
    d = make_daemon(lease_queue(lease="1s"))
    with d.conn() as c, Work(d, "-j", "3", "--", "sleep", "2.5") as w:
        for i in range(5):
            c.update(f"{i}", 0, queue="q")
        until(lambda: c.stat()["leased"] == 3)
        time.sleep(0.3)
        assert c.stat()["leased"] == 3
        got = [w.line() for _ in range(3)]
        assert {g["outcome"] for g in got} == {"done"}
        code, rest, _ = w.stop()
        assert code == 0 and {g["outcome"] for g in rest} == {"done"} and len(rest) == 2
        assert c.stat()["leases_expired"] == 0


def test_term_waits_for_what_it_has(make_daemon):
    d = make_daemon(lease_queue())
    with d.conn() as c, Work(d, "--", "sleep", "1") as w:
        c.update("a", 0, queue="q")
        c.update("b", 0, queue="q")
        until(lambda: c.stat()["leased"] == 1)
        code, lines, _ = w.stop()
        assert code == 0 and [x["key"] for x in lines] == ["a"]
        b = c.get("b", "q")
        assert b.state == pb.JOB_STATE_READY and b.attempt == 1


def test_a_lost_lease_ends_the_command(make_daemon, tmp):
    d = make_daemon(lease_queue())
    mark = tmp / "pid"
    with d.conn() as c, Work(d, "--", "sh", "-c", f"echo $$ > {mark}; sleep 300 & wait") as w:
        c.update("a", 0, queue="q")
        until(lambda: mark.exists() and mark.read_text().strip())
        r = c.cancel("a", "q", mode=pb.CANCEL_MODE_KILL)
        assert word(r.status) == "CANCELLED_RUNNING"
        assert w.line()["outcome"] == "lost"
        pid = int(mark.read_text())
        until(lambda: not living(pid))
        c.update("b", 0, queue="q")  # it goes on
        until(lambda: c.stat()["leased"] == 1)
        c.cancel("b", "q", mode=pb.CANCEL_MODE_KILL)
        assert w.stop()[0] == 0


def test_a_daemon_that_comes_back_is_worked_for(make_daemon):
    d = make_daemon(lease_queue())
    with Work(d, "--", "true") as w:
        with d.conn() as c:
            until(lambda: c.stat()["workers"] == 1)
        d.kill9()
        d.start()
        with d.conn() as c:
            c.update("a", 0, queue="q")
            assert w.line()["outcome"] == "done"
        assert w.stop()[0] == 0


def test_get_list_and_why_show_the_lease(make_daemon):
    d = make_daemon(lease_queue())
    with d.conn() as c:
        c.update("a", 0, queue="q")
        assert "no worker has subscribed to its queue; 'wqctl work'" in \
            d.ctl("why", "q/a", check=0).stdout
        with Work(d, "--", "sleep", "300") as w:
            until(lambda: c.stat()["leased"] == 1)
            c.update("b", 0, queue="q")
            job = d.json("get", "q/a")
            assert job["state"] == "running" and job["lease"]["holder"].startswith("wqctl ")
            assert 0 <= job["lease"]["left_ms"] <= 30000 and job["lease"]["token"] > 0
            assert d.json("get", "q/b")["lease"] is None
            rows = d.json("list", "--queue", "q", "--state", "running")["jobs"]
            assert rows[0]["lease"]["holder"].startswith("wqctl ")
            assert "A worker has it (wqctl " in d.ctl("why", "q/a", check=0).stdout
            assert "waits for a worker" in d.ctl("why", "q/b", check=0).stdout
            assert "lease       wqctl " in d.ctl("get", "q/a", check=0).stdout
            assert d.json("queue", "show", "q")["workers"] == 1
            w.proc.send_signal(signal.SIGTERM)
            time.sleep(0.2)
            assert w.proc.poll() is None
            w.proc.send_signal(signal.SIGTERM)  # once more ends the command
            out, _ = w.proc.communicate(timeout=30)
            assert json.loads(out.splitlines()[-1])["signal"] == 15


TALK = """tab=$(printf '\\t')
while IFS=$tab read -r key generation attempt payload; do
    case $key in
    die) exit 3 ;;
    odd) echo "I have no idea" ;;
    pid) echo "done $$ $WQ_QUEUE" ;;
    *) echo "done $(printf '%b' "$payload" | od -An -tx1)" ;;
    esac
done
"""


def test_lines_one_program_takes_job_after_job(make_daemon):
    d = make_daemon(lease_queue())
    with d.conn() as c, Work(d, "--lines", "fields", "--", "sh", "-c", TALK) as w:
        for i in range(3):
            c.update("pid", 0, queue="q")
            assert w.line()["outcome"] == "done"
        kept = [r.output for r in c.call(history=pb.History(queue="q", key=b"pid")).runs]
        assert len(kept) == 3 and len(set(kept)) == 1 and kept[0].endswith(b" q"), kept
        c.update("bytes", 0, queue="q", payload=b"a\tb\\n\n\x01\x7f")
        assert w.line()["outcome"] == "done"
        assert c.get("bytes", "q").last.output.split() == b"61 09 62 5c 6e 0a 01 7f".split()
        code, _, err = w.stop()
        assert code == 0 and err == ""


def test_lines_a_program_that_dies_or_talks_nonsense_failed_its_job(make_daemon):
    d = make_daemon(lease_queue())
    with d.conn() as c, Work(d, "--lines", "fields", "--", "sh", "-c", TALK) as w:
        c.update("die", 0, queue="q")
        got = w.line()
        assert (got["outcome"], got["exit_code"]) == ("failed", 3)
        assert b"ended with status 3" in c.get("die", "q").last.output
        before = time.monotonic()
        c.update("pid", 0, queue="q")
        assert w.line()["outcome"] == "done"
        assert time.monotonic() - before > 0.5  # it rests for a second before the next
        c.update("odd", 0, queue="q")
        assert w.line()["outcome"] == "failed"
        assert b"is no answer" in c.get("odd", "q").last.output
        c.update("pid", 0, queue="q")
        assert w.line()["outcome"] == "done"
        assert w.stop()[0] == 0
        c.update("odd", 0, queue="q")
        done = d.ctl("work", "q", "--once", "--lines", "fields", "--", "sh", "-c", "read l; echo odd")
        assert done.returncode == 6 and "failed, no answer  took" in done.stdout


def test_lines_a_program_that_is_to_end_gets_no_job(make_daemon, tmp):
    d = make_daemon(lease_queue())
    text = (f"trap 'sleep 0.5; exit 1' TERM; while read l; do "
            f"if [ -e {tmp}/odd ]; then echo done; else touch {tmp}/odd; echo odd; fi; done")
    with d.conn() as c:
        for key in ("a", "b"):
            c.update(key, 0, queue="q")
        with Work(d, "--lines", "fields", "--", "sh", "-c", text) as w:
            assert [w.line()["outcome"] for _ in range(2)] == ["failed", "done"]
            assert w.stop()[0] == 0


def test_lines_a_closed_output_is_not_looked_at_again(make_daemon):
    """The program does not hear the signal, and is killed after five seconds: until then nobody spins."""
    d = make_daemon(lease_queue())
    with d.conn() as c, Work(d, "--lines", "fields", "--", "sh", "-c",
                             "trap '' TERM; read l; exec >&-; sleep 60") as w:
        c.update("k", 0, queue="q")
        got = w.line()
        assert (got["outcome"], got["signal"]) == ("failed", signal.SIGKILL)
        with open(f"/proc/{w.proc.pid}/stat", encoding="ascii") as f:
            used = f.read().rsplit(")", 1)[1].split()[11:13]
        assert sum(map(int, used)) / os.sysconf("SC_CLK_TCK") < 1
        assert w.stop()[0] == 0


def test_lines_a_lost_lease_ends_the_program(make_daemon):
    d = make_daemon(lease_queue())
    with d.conn() as c, Work(d, "--lines", "json", "--", "sh", "-c",
                             "read line; sleep 1000") as w:
        c.update("k", 0, queue="q")
        until(lambda: c.stat()["leased"] == 1)
        d.ctl("cancel", "--kill", "q/k", check=0)
        assert w.line()["outcome"] == "lost"
        assert w.stop()[0] == 0
