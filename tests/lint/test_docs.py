"""Documents: links resolve, generated parts are current, man pages are sound."""
import re
import shutil
import subprocess

import pytest
from source import BUILD, SOURCE, files, read, rel

WQD = BUILD / "daemon" / "wqd"
MAN = SOURCE / "docs" / "man"


def documents():
    return [*files("docs", suffixes=(".md",)), *sorted(SOURCE.glob("*.md"))]


def anchors(text):
    """Heading anchors as GitHub makes them."""
    found = set()
    for title in re.findall(r"^#+ +(.*?) *#*$", re.sub(r"(?ms)^```.*?^```$", "", text), re.M):
        plain = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", title).lower()
        found.add(re.sub(r" ", "-", re.sub(r"[^\w\- ]", "", plain)))
    return found


def test_relative_links_resolve():
    found = []
    for path in documents():
        text = re.sub(r"(?ms)^```.*?^```$|`[^`\n]*`", "", read(path))
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            to = (path.parent / name) if name else path
            if not to.exists():
                found.append(f"{rel(path)}: {target}")
            elif anchor and to.suffix == ".md" and anchor not in anchors(read(to)):
                found.append(f"{rel(path)}: {target}: no such heading")
    assert not found, found


def test_adrs_are_numbered_once():
    numbers = [p.name[:4] for p in sorted((SOURCE / "docs" / "adr").glob("*.md"))]
    assert len(numbers) == len(set(numbers)), numbers


def pages():
    return sorted(MAN.glob("*.[1-8]")) if MAN.exists() else []


@pytest.mark.parametrize("page", pages(), ids=lambda p: p.name)
def test_man_page_is_clean(page):
    if not shutil.which("mandoc"):
        pytest.skip("mandoc is not installed")
    done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", str(page)],
                          capture_output=True, text=True, timeout=60, check=False)
    wrong = [line for line in done.stdout.splitlines() if "outdated mandoc.db" not in line]
    assert not wrong, "\n".join(wrong)


def dump(form):
    if not WQD.exists():
        pytest.skip("wqd is not built")
    return subprocess.run([str(WQD), f"--dump-options={form}"], capture_output=True, text=True,
                          timeout=60, check=True).stdout


def test_options_of_the_manual_are_the_daemons():
    page = MAN / "wqd.conf.5"
    if not page.exists():
        pytest.skip("wqd.conf.5 does not exist")
    parts = re.split(r'(?m)^\.\\" (?:begin|end) generated\n', read(page))
    assert len(parts) == 3, "the marks around the options are gone"
    assert parts[1] == dump("man"), "make update-wqd-conf"


def test_every_option_is_described():
    text = dump("text")
    rows = re.findall(r"(?m)^  (\w+)\n    (.*)\n    right is: (.*)\n    default: (.*)\n", text)
    assert len(rows) > 40
    for name, doc, right, default in rows:
        assert doc.endswith(".") and right and default, name
