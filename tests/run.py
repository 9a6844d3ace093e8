#!/usr/bin/env python3
"""Runs the whole test suite and ends with one line `N passed, N failed`.

Unit and model programs are built on Check and print TAP; the system and lint
tests are pytest files. A program that dies, or prints no test, counts as a
failure. `-k WORD` keeps the programs and pytest cases with that word, `-k 'ONE or OTHER'` with either.
"""
import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET


def run_program(path, source, timeout):
    env = dict(os.environ, CK_TAP_LOG_FILE_NAME="-", CK_VERBOSITY="silent", WQ_SOURCE=source)
    start = time.monotonic()
    try:
        done = subprocess.run([path], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=timeout, check=False)
        out, code = done.stdout.decode(errors="replace"), done.returncode
    except subprocess.TimeoutExpired as e:
        out, code = (e.stdout or b"").decode(errors="replace"), "timeout"
    passed = len(re.findall(r"^ok \d+", out, re.M))
    failed = len(re.findall(r"^not ok \d+", out, re.M))
    if (code != 0 and failed == 0) or passed + failed == 0:
        failed += 1
    text = f"{path}: {passed} passed, {failed} failed ({time.monotonic() - start:.1f} s)"
    if failed:
        text += "\n" + re.sub(r"^ok .*\n", "", out, flags=re.M) + f" exit: {code}"
    return passed, failed, text


def run_programs(args):
    """As many at a time as there are processors; the long ones first, or the last would run alone."""
    chosen = [p for p in args.programs
              if not args.word or any(w in p for w in args.word.split(" or "))]
    chosen.sort(key=lambda p: not p.startswith(("tests/fault", "tests/model")))
    passed = failed = 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for p, f, text in pool.map(lambda prog: run_program(
                os.path.join(args.build, prog), os.path.abspath(args.source), args.timeout), chosen):
            print(text, flush=True)
            passed, failed = passed + p, failed + f
    return passed, failed


def run_pytest(args, word):
    roots = [os.path.join(args.source, d) for d in args.pytest or ("tests/system", "tests/lint")]
    roots = [d for d in roots if os.path.isfile(d) or
             any(f.startswith("test_") for _, _, fs in os.walk(d) for f in fs)]
    if not roots:
        return 0, 0, 0
    with tempfile.TemporaryDirectory() as tmp:
        report = os.path.join(tmp, "report.xml")
        env = dict(os.environ, WQ_SOURCE=os.path.abspath(args.source),
                   WQ_BUILD=os.path.abspath(args.build), PYTHONDONTWRITEBYTECODE="1")
        cmd = [sys.executable, "-m", "pytest", "-q", "-ra", "-p", "no:cacheprovider",
               "--durations=15", f"--junitxml={report}"] + roots
        if args.slow:
            cmd += ["-o", "python_files=test_*.py lint_*.py"]
        if word:
            cmd += ["-k", word]
        code = subprocess.run(cmd, env=env, stdin=subprocess.DEVNULL, check=False).returncode
        if not os.path.exists(report):
            return 0, 1, 0
        counts = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
        for suite in ET.parse(report).getroot().iter("testsuite"):
            for k in counts:
                counts[k] += int(suite.get(k, 0))
    bad = counts["failures"] + counts["errors"]
    if code not in (0, 5) and bad == 0:
        bad = 1
    return counts["tests"] - bad - counts["skipped"], bad, counts["skipped"]


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--source", default=".")
    ap.add_argument("--build", default=".")
    ap.add_argument("--timeout", type=float, default=1200, help="seconds for one program")
    ap.add_argument("--jobs", type=int, default=os.cpu_count(), help="programs at a time")
    ap.add_argument("-k", dest="word", default="")
    ap.add_argument("--pytest", action="append", metavar="PATH",
                    help="pytest files and folders below the source, instead of all")
    ap.add_argument("--slow", action="store_true", help="lint_*.py too")
    ap.add_argument("--no-system", action="store_true", help="programs alone, no pytest")
    ap.add_argument("programs", nargs="*")
    args = ap.parse_args()

    skipped = 0
    passed, failed = run_programs(args)
    if not args.no_system:
        p, f, skipped = run_pytest(args, args.word)
        passed, failed = passed + p, failed + f
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""), flush=True)
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
