"""The configuration as a user meets it: --check, --dump-options, reload by signal and by wqctl."""
import re
import signal
import subprocess

from conftest import SOURCE, WQD, handler, until


def wqd_cmd(*args):
    return subprocess.run([str(WQD), *map(str, args)], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60, check=False)


def hup(daemon, event):
    """SIGHUP, and the wait for what it logs."""
    before = daemon.text().count(event)
    daemon.proc.send_signal(signal.SIGHUP)
    until(lambda: daemon.text().count(event) > before, what=event)


def settings(daemon, queue):
    return daemon.json("queue", "show", queue)


def test_check_says_what_is_wrong_in_one_line_and_what_would_be_right(tmp):
    conf = tmp / "c"
    conf.write_text("max_jobs = 5\n\nqueue q { slack = soon }\n")
    done = wqd_cmd("--check", "-c", conf)
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
    assert re.match(rf'wqd: {conf}:3: queue "q": slack: "soon" .*; right is: duration', done.stderr)


def test_check_passes_a_good_file_and_starts_nothing(tmp):
    conf = tmp / "c"
    conf.write_text(f'state_dir = "{tmp}/state"\nlisten = {{ "unix:{tmp}/s" }}\n')
    assert wqd_cmd("--check", "-c", conf).returncode == 0
    assert sorted(p.name for p in tmp.iterdir()) == ["c"]


def test_a_file_that_is_not_there_is_an_error_when_it_was_named(tmp):
    done = wqd_cmd("-c", tmp / "none")
    assert done.returncode == 3 and "No such file" in done.stderr


def test_usage_errors_are_status_2(tmp):
    for args in (["--nonsense"], ["argument"], ["-c"], ["--dump-options=yaml"]):
        done = wqd_cmd(*args)
        assert (done.returncode, done.stdout) == (2, ""), args
        assert done.stderr
    done = wqd_cmd("--check", "--check-state=json")
    assert done.returncode == 2 and "--check and --check-state exclude each other" in done.stderr
    assert wqd_cmd("--export-state", "--hash-token", "x").returncode == 2


def test_help_and_the_manual_name_the_same_options():
    text = wqd_cmd("--help").stdout
    assert text == wqd_cmd("-h").stdout
    page = (SOURCE / "docs/man/wqd.8").read_text().replace("\\-", "-")
    page = page[page.index("\n.SH OPTIONS"):page.index("\n.SH SIGNALS")]
    named = set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", text[text.index("\n\n"):]))
    assert named == set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", page))
    assert wqd_cmd("-V").stdout == wqd_cmd("--version").stdout != ""


def test_a_relative_socket_is_found_by_runs(make_daemon):
    d = make_daemon(handler("env", "env") + "queue q { handler = env }\n", start=False,
                    args=["--socket", "s"], cwd=True)
    d.start()
    d.ctl("update", "q/k", "0", check=0)
    run = d.json("wait", "q/k")
    assert f"\nWQ_SERVER={d.address}\n" in run["output"]


def test_dump_has_every_setting_that_a_queue_shows(wqd):
    text = wqd_cmd("--dump-options").stdout
    queue_part = text[text.index("\nqueue "):]
    documented = set(re.findall(r"(?m)^  (\w+)$", queue_part))
    shown = set(settings(wqd, "default"))
    assert documented and documented <= shown


def test_a_broken_file_keeps_the_old_settings(make_daemon):
    d = make_daemon("queue q { max_active = 3 }\n")
    d.write_conf("queue q { max_active = 5 }\nnonsense = 1\n")
    hup(d, "event=reload_refused")
    assert int(settings(d, "q")["max_active"]) == 3
    assert f'error="{d.conf_path}:4: unknown option \\"nonsense\\"' in d.text()
    assert d.ctl("reload").returncode != 0
    d.write_conf("queue q { max_active = 5 }\n")
    d.ctl("reload", check=0)
    assert int(settings(d, "q")["max_active"]) == 5


def test_the_file_wins_for_the_queues_that_it_names(make_daemon):
    d = make_daemon("queue q { max_active = 3 }\n")
    d.ctl("queue", "set", "q", "max_active=7", check=0)
    d.ctl("queue", "create", "own", "max_active=9", check=0)
    hup(d, "event=reloaded")
    assert int(settings(d, "q")["max_active"]) == 3
    assert int(settings(d, "own")["max_active"]) == 9
    # One that the file names no longer is left as it is.
    d.write_conf("")
    hup(d, "event=reloaded")
    assert int(settings(d, "q")["max_active"]) == 3


def test_a_reload_names_what_needs_a_restart(make_daemon):
    d = make_daemon("max_queues = 100\n")
    d.write_conf("max_queues = 101\nlog_level = debug\n")
    hup(d, "event=reloaded")
    assert 'event=reload_incomplete options="max_queues"' in d.text()


def test_a_handler_of_a_reload_is_the_one_of_the_next_run(make_daemon):
    d = make_daemon('handler h { command = { "/bin/echo", "old" } }\nqueue q { handler = h }\n')
    d.ctl("update", "q/a", "0", check=0)
    assert d.json("wait", "q/a")["output"] == "old\n"
    d.write_conf('handler h { command = { "/bin/echo", "new" } }\nqueue q { handler = h }\n')
    hup(d, "event=reloaded")
    d.ctl("update", "q/a", "0", check=0)
    assert d.json("wait", "q/a")["output"] == "new\n"


def test_a_variable_in_a_command_is_the_shells(make_daemon):
    d = make_daemon('handler h { command = { "/bin/sh", "-c", "echo ${WQ_KEY}" } }\n'
                    "queue q { handler = h }\n")
    d.ctl("update", "q/abc", "0", check=0)
    assert d.json("wait", "q/abc")["output"] == "abc\n"
