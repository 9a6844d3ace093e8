"""docs/protocol.md against proto/wq.proto and the tables: names, numbers, bytes."""
import re
import sys

import pytest
from source import BUILD, SOURCE, files, read

sys.path.insert(0, str(BUILD / "proto"))
pb = pytest.importorskip("wq_pb2")

DOC = read(SOURCE / "docs" / "protocol.md")


def test_every_status_has_its_row():
    rows = dict(re.findall(r"(?m)^\| ([A-Z_]+) \| (\d+) \| \S", DOC))
    proto = {name.removeprefix("STATUS_"): str(n) for name, n in pb.Status.items()}
    assert rows == proto


def test_every_operation_is_described():
    named = set()
    for cell in re.findall(r"(?m)^\| (`[a-z_`, ]+`) \|", DOC):
        named |= set(re.findall(r"`([a-z_]+)`", cell))
    ops = {f.name for f in pb.Request.DESCRIPTOR.oneofs_by_name["op"].fields}
    assert not ops - named, ops - named


def test_every_counter_is_described():
    """Counters of the tables in the headers, and those that are put by name."""
    named = set(re.findall(r"`([a-z0-9_]+)`", DOC[DOC.index("## Counters"):]))
    for header, table in (("engine/engine.h", "ENGINE_COUNTER_TABLE"),
                          ("service/service.h", "SERVICE_COUNTER_TABLE")):
        text = read(SOURCE / "daemon" / header)
        body = re.search(rf"#define {table}\(X\)(.*?[^\\])\n", text, re.S).group(1)
        names = set(re.findall(r"X\((\w+),", body))
        assert names and not names - named, (header, names - named)
    put = set()
    for path in files("daemon", suffixes=(".c",)):
        put |= set(re.findall(r'put(?:_counter)?\(\w+, "(\w+)",', read(path)))
    assert "runner_active" in put and "jobs" in put
    assert not put - named, put - named


def limits(text):
    return {k: int(v) for k, v in re.findall(r"#define\s+(\w+)\s+\(?(\d+)", text)}


def test_limits_are_those_of_the_code():
    request = limits(read(SOURCE / "daemon" / "wire" / "request.h"))
    ops = limits(read(SOURCE / "daemon" / "engine" / "ops.h"))
    settings = limits(read(SOURCE / "daemon" / "engine" / "settings.h"))
    for text in (f"updates of a batch | 0 to {request['BATCH_MAX']}",
                 f"| 0 to {request['SETTINGS_MAX']} |",
                 f"0 (means {request['PAGE_DEFAULT']}) to {request['PAGE_MAX']}",
                 f"at most {request['CLIENT_NAME_MAX']} bytes, as keys",
                 f"at most {ops['IDEM_MAX']} bytes, any",
                 f"of 1 to {ops['KEY_MAX']} bytes",
                 f"queue names of 1 to {settings['QUEUE_NAME_MAX']} bytes"):
        assert text in DOC, text


def frames(arrow):
    for line in re.findall(rf"(?m)^{arrow} ((?:[0-9a-f]{{2}} ?)+)", DOC):
        yield bytes.fromhex(line.strip())


def test_the_bytes_of_the_examples_are_messages():
    requests = [f for f in frames("->") if f != bytes.fromhex("03ffffff")]
    replies = list(frames("<-"))
    assert len(requests) == 3 and len(replies) == 3
    for kind, given in ((pb.Request, requests), (pb.Reply, replies)):
        for f in given:
            assert f[0] == len(f) - 1
            msg = kind.FromString(f[1:])
            assert msg.SerializeToString() == f[1:]
            assert not msg.UnknownFields() if hasattr(msg, "UnknownFields") else True
    first = pb.Request.FromString(requests[0][1:])
    assert first.update == pb.Update(key=b"host-17", queue="hb", delay_ms=30000)
    second = pb.Reply.FromString(replies[1][1:])
    assert (second.status, second.coalesced) == (pb.STATUS_UPDATED_TIMER, 1)
    last = pb.Reply.FromString(replies[2][1:])
    assert last.id == 0 and f'"{last.message}"' in DOC
