"""docs/guarantees.md names tests: each of them exists."""
import re

from source import SOURCE, files

SETTINGS = {"commit_interval"}


def test_every_named_test_exists():
    text = (SOURCE / "docs" / "guarantees.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w{15,})`", text)) - SETTINGS
    there = set()
    for path in files("tests", suffixes=(".c", ".py")):
        for c, py in re.findall(r"START_TEST\((\w+)\)|^def (test_\w+)",
                                path.read_text(encoding="utf-8"), re.M):
            there.add(c or py)
    assert len(named) > 20
    assert named <= there, named - there
