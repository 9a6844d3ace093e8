#!/usr/bin/env python3
"""Runs the benches and prints one table: median, smallest and largest of several runs, with what
machine it was. `make bench` for all; BENCHFLAGS="--runs 3 --jobs 100000" for less.
"""
import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile


def program(build, name, *args):
    out = subprocess.run([os.path.join(build, "tests", "bench", name), *map(str, args)],
                         stdout=subprocess.PIPE, text=True, check=True).stdout
    for line in out.splitlines():
        figure, value, unit = line.split()
        yield figure, float(value), unit


class Served:
    """A private daemon, asked by wqctl bench."""

    def __init__(self, source, build, root):
        os.environ.update(WQ_SOURCE=source, WQ_BUILD=build)
        sys.path.insert(0, os.path.join(source, "tests", "system"))
        from conftest import Daemon  # pylint: disable=import-outside-toplevel
        self.daemon = Daemon(root)
        self.daemon.start()

    def bench(self, name, jobs, count, pipeline, level, batch=1):
        got = self.daemon.json("bench", "--keys", jobs, "--count", count, "--pipeline", pipeline,
                               "--batch", batch, "--durability", level, timeout=600)
        assert got["errors"] == 0, got
        yield name, got["ops_per_s"], "1/s"
        yield f"{name}-p50", got["p50_us"], "us"
        yield f"{name}-p99", got["p99_us"], "us"

    def stop(self):
        self.daemon.finish()


def machine():
    model = "unknown processor"
    with open("/proc/cpuinfo", encoding="ascii") as f:
        for line in f:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    load = os.getloadavg()[0]
    return (f"{os.cpu_count()} x {model}, {platform.system()} {platform.release()}, "
            f"load {load:.1f} before the runs")


def once(args, served):
    for jobs in args.jobs:
        for figure, value, unit in program(args.build, "bench_engine", jobs):
            yield f"{figure} ({jobs} jobs)", value, unit
    yield from program(args.build, "bench_wire", 1000000)
    yield from program(args.build, "bench_service", min(args.jobs), 1000000)
    yield from program(args.build, "bench_run", 500)
    yield from ((f"{n} (1 GiB daemon)", v, u)
                for n, v, u in program(args.build, "bench_run", 500, 1024))
    yield from program(args.build, "bench_completion", os.path.join(args.build, "daemon", "wqd"),
                       1000, "figures")
    few = min(args.jobs)
    yield from served.bench("socket-one-at-a-time", few, 20000, 1, "memory")
    yield from served.bench("socket-pipelined-64", few, 400000, 64, "memory")
    yield from served.bench("socket-pipelined-256", few, 400000, 256, "memory")
    yield from served.bench("socket-batches-of-100", few, 1000000, 4, "memory", 100)
    yield from served.bench("socket-async-pipelined-64", few, 200000, 64, "async")
    yield from served.bench("socket-sync-one-at-a-time", few, 1000, 1, "sync")
    yield from served.bench("socket-sync-pipelined-64", few, 20000, 64, "sync")


def show(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--source", default=".")
    ap.add_argument("--build", default=".")
    ap.add_argument("--runs", type=int, default=5)
    ap.add_argument("--jobs", type=int, nargs="+", default=[100000, 1000000])
    args = ap.parse_args()
    args.source, args.build = os.path.abspath(args.source), os.path.abspath(args.build)

    print(machine(), flush=True)
    figures = {}
    with tempfile.TemporaryDirectory(prefix="wq-") as root:
        served = Served(args.source, args.build, root)
        try:
            for _ in range(args.runs):
                for name, value, unit in once(args, served):
                    figures.setdefault((name, unit), []).append(value)
        finally:
            served.stop()
    print(f"\n| figure, median of {args.runs} | | smallest | largest |\n|---|---|---|---|")
    for (name, unit), values in figures.items():
        print(f"| {name} | {show(statistics.median(values))} {unit} | {show(min(values))} "
              f"| {show(max(values))} |")


if __name__ == "__main__":
    main()
