"""Tours of the documents are run as they stand: each `$` line is typed, what follows is what it printed."""
import os
import re
import shlex
import socket
import subprocess

import pytest
from conftest import BUILD, SOURCE

MARK = "---end-of-command---"


def tour(path):
    """(command, expected output) in order, over all console blocks."""
    steps = []
    for block in re.findall(r"^```console\n(.*?)^```", (SOURCE / path).read_text(), re.S | re.M):
        for line in block.splitlines():
            if line.startswith("$ "):
                steps.append([line[2:], []])
            elif line.startswith("> "):
                steps[-1][0] += "\n" + line[2:]
            else:
                steps[-1][1].append(line)
    return steps


def shape(line):
    """A line without what differs from run to run: numbers, times, 'in' or 'ago'."""
    line = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}", "TIME", line)
    line = re.sub(r"\((in )?-?[\d.hmsd]+( ago)?\)", "(REL)", line)
    line = re.sub(r"(took|started) [\d.hms]+", r"\1 N", line)
    return re.sub(r"\b\d{10,}\b", "MS", line).rstrip()


@pytest.mark.parametrize("path,folder,least", [
    ("README.md", "/tmp/wq-tour", 21), ("docs/security.md", "/tmp/wq-tls", 13)])
def test_the_tour_prints_what_it_says(tmp, path, folder, least):
    steps = tour(path)
    assert len(steps) >= least
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = str(s.getsockname()[1])

    def here(text):
        return text.replace(folder, str(tmp / "t")).replace("127.0.0.1:7421", f"127.0.0.1:{port}")

    # The shell's own notice of a killed job is not part of the tour.
    script = "".join(
        here(f"{cmd}\nprintf '%s\\n' {shlex.quote(MARK)}\n")
        for cmd, _ in steps)
    env = dict(os.environ, PATH=f"{BUILD}/daemon:{BUILD}/client:{os.environ['PATH']}")
    for name in ("WQ_SERVER", "WQ_TLS_CA", "WQ_TOKEN_FILE"):
        env.pop(name, None)
    done = subprocess.run(["bash"], input=script, env=env, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
    got = done.stdout.split(MARK + "\n")
    for (cmd, want), out in zip(steps, got):
        want = [shape(here(w)) for w in want]
        got_lines = [line for line in out.splitlines() if not re.match(r"bash: line \d+: .*Killed", line)]
        assert [shape(line) for line in got_lines] == want, f"$ {cmd}\n{out}"
    assert len(got) == len(steps) + 1, done.stdout


def test_the_two_commands_stand_there():
    text = (SOURCE / "README.md").read_text()
    assert "./bootstrap && make demo" in text and "./bootstrap && make check" in text
