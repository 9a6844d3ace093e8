#!/usr/bin/env python3
"""Pools beside fixed numbers of runs: makespan against what no scheduler could beat.

    bench_pools.py --out FILE [--workloads mix,io] [--policies ours,fixed4] [--runs 9]
    bench_pools.py --table FILE

Each run starts a daemon with a pool of that policy, hands it all jobs of the workload at once and
waits until they have ended. FILE gathers a line of JSON a run, so that the whole can be measured in
pieces; with rounds of all policies of a workload one after the other, drifts of the machine hit all.

    ratio    makespan / max(processor time that the runs used / processors, longest job)
    latency  from the common start (open: from its own arrival) to the end of a job
    flight   runs going on, averaged over the makespan

As root the daemon gets a cpu cgroup of its own, as a service manager would give it.
"""
import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

CPUS = len(os.sched_getaffinity(0))
CGROUP = pathlib.Path("/sys/fs/cgroup/cpu")

POLICIES = {
    "fixed": f"admit = all\n ladder = no\n max_inflight = {CPUS}",
    "fixed3": "admit = all\n ladder = no\n max_inflight = 3",
    "fixed4": "admit = all\n ladder = no\n max_inflight = 4",
    "fixed4x": f"admit = all\n ladder = no\n max_inflight = {4 * CPUS}",
    "unlimited": "admit = all\n ladder = no",
    "ours": "",
    "ours-unbound": "admit = all",
}
MAIN = ("fixed", "fixed4x", "unlimited", "ours", "ours-unbound")
FSCACHE = {  # milliseconds at the server, at the cache's disk; the seed's gain
    "cold-cold": (7, 2, "1.86"), "hot-cold": (4, 2, "1.31"), "hot-warm": (0, 9, "0.99"),
    "hot-hot": (0, 4.5, "0.91"), "no-cache": (4, 0, "-"),
}


def cpu():
    return "C50"


def io():
    return "C1S200C1"


def workload(name, seed):
    """Jobs as (arrival in seconds, what it does, kind)."""
    rnd = random.Random(seed)
    at_once = {
        "cpu": lambda: [cpu()] * 40,
        "io": lambda: [io()] * 200,
        "mix": lambda: rnd.sample([cpu()] * 30 + [io()] * 150, 180),
        "bimodal": lambda: rnd.sample(["C2S10"] * 90 + ["C20S60" * 5] * 10, 100),
        "phase": lambda: [cpu()] * 20 + [io()] * 120 + [cpu()] * 20,
        "trap": lambda: ["S100C50"] * 30,
        "fork": lambda: ["X"] * 75,
        "foreign": lambda: [cpu()] * 40,
        "foreign-mix": lambda: rnd.sample([cpu()] * 30 + [io()] * 150, 180),
    }
    if name in at_once:
        return [(0, spec, "") for spec in at_once[name]()]
    if name.startswith("fs-"):
        server, disk, _ = FSCACHE[name[3:]]
        spec = "C1.2" + (f"R0,{server}" if server else "") + "C0.8" + (f"R1,{disk}" if disk else "")
        return [(0, spec, "")] * 300
    if name == "hogs":  # short jobs come all the while that long ones go on
        return [(0, "C2000", "hog")] * 4 + [(0.1 + i * 0.05, "C10", "short") for i in range(60)]
    if name == "open":  # Poisson arrivals; processor time and the cost of starting fill 0.93
        jobs, now, rate = [], 0.0, 0.93 * CPUS / ((50 + 5 * 2) / 6000 + EXEC_S)
        while now < 6:
            now += rnd.expovariate(rate)
            jobs.append((now, cpu() if rnd.random() < 1 / 6 else io(), ""))
        return jobs
    raise SystemExit(f"no workload {name}")


# Processor time of starting a job that does nothing; measured when first needed.
EXEC_S = 0.0


def length(spec):
    """Seconds that a job takes when nobody is in its way."""
    return sum(float(n.split(",")[-1]) for n in
               spec.replace("C", " ").replace("S", " ").replace("R", " ").replace("X", "").split()
               ) / 1000


class Run:
    def __init__(self, args, policy, queues, shared):
        from conftest import Daemon  # pylint: disable=import-outside-toplevel,import-error
        self.root = tempfile.mkdtemp(prefix="wq-pools-")
        self.job = os.path.join(args.build, "tests", "bench", "pool_job")
        resources = os.path.join(self.root, "resources")
        subprocess.run([self.job, "--make", resources], check=True)
        conf = (f'log_level = "error"\nmax_runs = 2000\nstore = "memory"\n'
                f'pool "default" {{ {POLICIES[policy]} }}\n'
                f'handler "job" {{ command = {{ "{self.job}" }} '
                f'env = {{ "POOL_JOB_FILE={resources}" }} }}\n')
        for name, more in queues.items():
            conf += (f'queue "{name}" {{ handler = "job" max_active = 100000 durability = "memory" '
                     f'retention_count = 10000 {more} }}\n')
        self.group = CGROUP / f"wq-bench-{os.getpid()}"
        wrapper = ()
        if os.geteuid() == 0 and CGROUP.is_dir():
            self.group.mkdir(exist_ok=True)
            # Others get next to nothing meanwhile; what they got is told with each run.
            (self.group / "cpu.shares").write_text("1024" if shared else "262144")
            wrapper = ("/bin/sh", "-c",
                       f'echo $$ >{self.group}/cgroup.procs; exec "$@"', "sh")
        self.daemon = Daemon(self.root, conf, wrapper=wrapper).start()

    def close(self):
        self.daemon.finish()
        subprocess.run(["rm", "-rf", self.root], check=True)
        for _ in range(100):
            try:
                if self.group.is_dir():
                    self.group.rmdir()
                return
            except OSError:
                time.sleep(0.05)

    def cpu(self):
        """Processor time: of the daemon itself, and of the runs that have been reaped."""
        f = pathlib.Path(f"/proc/{self.daemon.proc.pid}/stat").read_text().rsplit(")", 1)[1].split()
        tick = os.sysconf("SC_CLK_TCK")
        return (int(f[11]) + int(f[12])) / tick, (int(f[13]) + int(f[14])) / tick


def switches():
    for line in open("/proc/stat", encoding="ascii"):
        if line.startswith("ctxt"):
            return int(line.split()[1])
    return 0


def busy():
    """Processor time of the whole machine."""
    with open("/proc/stat", encoding="ascii") as f:
        n = [int(x) for x in f.readline().split()[1:9]]
    return (n[0] + n[1] + n[2] + n[5] + n[6]) / os.sysconf("SC_CLK_TCK")


def play(args, name, policy, seed):
    import wire  # pylint: disable=import-outside-toplevel,import-error
    pb = wire.pb
    jobs = workload(name, seed)
    queues = {"q": ""}
    if name == "hogs":
        queues = {"hog": "", "short": ""}
    if name.endswith("@8"):
        queues = {"q": "max_active = 8"}
    run = Run(args, policy, queues, name.startswith("foreign"))
    foreign = []
    try:
        with wire.Conn(run.daemon.address, timeout=600) as c:
            for q in queues:
                c.call(pause=pb.Queue(queue=q))
            updates = [c.request(update=pb.Update(
                key=b"%05d" % i, queue=kind or "q", delay_ms=int(at * 1000),
                payload=spec.encode(), payload_mode=pb.PAYLOAD_MODE_REPLACE))
                for i, (at, spec, kind) in enumerate(jobs)]
            if name.startswith("foreign"):
                foreign = [subprocess.Popen([run.job], stdin=subprocess.PIPE) for _ in range(CPUS)]
                for f in foreign:
                    f.stdin.write(b"C1000000")
                    f.stdin.close()
            timed = any(at for at, _, _ in jobs)
            if timed:
                for q in queues:
                    c.call(resume=pb.Queue(queue=q))
            self0, kids0 = run.cpu()
            ctxt0, busy0 = switches(), busy()
            began, began_wall = time.monotonic(), time.time()
            for u in c.send_many(updates):
                c.reply(u)
            if not timed:
                began, began_wall = time.monotonic(), time.time()
                for q in queues:
                    c.call(resume=pb.Queue(queue=q))
            if timed:
                time.sleep(max(at for at, _, _ in jobs) + 0.05 - (time.monotonic() - began))
            for q in queues:
                c.call(flush_queue=pb.FlushQueue(queue=q, timeout_ms=300000))
            makespan = time.monotonic() - began
            ctxt, all_busy = switches() - ctxt0, busy() - busy0
            runs = []
            for q in queues:
                skip = 0
                while page := c.call(history=pb.History(queue=q, limit=200, skip=skip)).runs:
                    runs += page
                    skip += len(page)
            stat = {s.name: s.value for s in c.call(stat=pb.Stat()).counters}
        self1, kids1 = run.cpu()
    finally:
        for f in foreign:
            f.kill()
            f.wait()
        run.close()
    got = figures(jobs, runs, makespan, kids1 - kids0, self1 - self0, began_wall, ctxt, stat)
    got["foreign"] = max(0, all_busy - got["used"] - got["daemon"]) / (makespan * CPUS)
    return got


def figures(jobs, runs, makespan, used, own, began, ctxt, stat):
    bad = [r for r in runs if r.outcome != 1 or r.exit_code != 0]
    assert len(runs) == len(jobs) and not bad, (len(runs), len(jobs), bad[:3])
    timed = any(at for at, _, _ in jobs)
    lat, short = [], []
    for r in runs:
        at, _, kind = jobs[int(r.key)]
        took = r.ended_ms / 1000 - (began + at)
        lat.append(took)
        if kind == "short":
            short.append(took)
    lat.sort()
    short.sort()
    spans = [(r.started_ms, 1) for r in runs] + [(r.ended_ms, -1) for r in runs]
    going = peak = 0
    for _, d in sorted(spans):
        going += d
        peak = max(peak, going)
    flight = sum(r.ended_ms - r.started_ms for r in runs) / 1000 / makespan
    bound = max(used / CPUS, max(at + length(spec) for at, spec, _ in jobs))
    out = {"makespan": makespan, "ratio": makespan / bound, "mean": statistics.mean(lat),
           "p99": lat[int(len(lat) * .99)], "flight": flight, "peak": peak, "used": used,
           "daemon": own, "per_s": len(jobs) / makespan, "switches": ctxt,
           "probe_ms": stat.get("pool_probe_us", 0) / 1000, "samples": stat.get("pool_samples", 0),
           "hogs": stat.get("pool_hogs_total", 0)}
    if short:
        out["short_p50"] = short[len(short) // 2]
        out["short_p99"] = short[int(len(short) * .99)]
    if timed:
        del out["ratio"]
    return out


def measure(args):
    global EXEC_S
    with open(args.out, "a", encoding="ascii") as out:
        for i in range(args.runs):
            for name in args.workloads.split(","):
                if name == "open" and not EXEC_S:
                    EXEC_S = args.exec_ms / 1000
                for policy in args.policies.split(","):
                    got = play(args, name, policy, args.first + i)
                    got.update(workload=name, policy=policy, seed=args.first + i)
                    out.write(json.dumps(got) + "\n")
                    out.flush()


def table(path, foreign):
    rows, dropped = {}, 0
    with open(path, encoding="ascii") as f:
        for line in f:
            got = json.loads(line)
            if got["foreign"] > foreign and not got["workload"].startswith("foreign"):
                dropped += 1
                continue
            rows.setdefault((got["workload"], got["policy"]), []).append(got)
    shown = ("ratio", "makespan", "per_s", "mean", "p99", "flight", "peak", "switches", "short_p50",
             "short_p99", "daemon", "probe_ms", "used", "foreign")
    print("| workload | policy | n | ratio (smallest, largest) | " + " | ".join(shown[1:]) + " |")
    print("|" + "---|" * (len(shown) + 3))
    for (name, policy), got in sorted(rows.items()):
        cells = []
        for what in shown:
            v = sorted(g[what] for g in got if what in g)
            if not v:
                cells.append("")
            elif what == "ratio":
                cells.append(f"{statistics.median(v):.3f} ({v[0]:.3f}, {v[-1]:.3f})")
            else:
                m = statistics.median(v)
                cells.append(f"{m:.0f}" if m >= 100 else f"{m:.3f}" if m < 10 else f"{m:.1f}")
        print(f"| {name} | {policy} | {len(got)} | " + " | ".join(cells) + " |")
    print(f"\n{dropped} runs left out: others had more than {foreign:.0%} of the processors meanwhile")


def main():
    ap = argparse.ArgumentParser(description=__doc__,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--source", default=".")
    ap.add_argument("--build", default=".")
    ap.add_argument("--out")
    ap.add_argument("--table")
    ap.add_argument("--workloads", default="cpu,io,mix,bimodal,phase,trap,fork")
    ap.add_argument("--policies", default=",".join(MAIN))
    ap.add_argument("--runs", type=int, default=9)
    ap.add_argument("--first", type=int, default=1, help="seed of the first run")
    ap.add_argument("--foreign", type=float, default=0.05,
                    help="--table leaves out runs in which others had more of the processors")
    ap.add_argument("--exec-ms", type=float, default=2.8, help="processor time of a start, for open")
    args = ap.parse_args()
    args.source, args.build = os.path.abspath(args.source), os.path.abspath(args.build)
    os.environ.update(WQ_SOURCE=args.source, WQ_BUILD=args.build)
    sys.path.insert(0, os.path.join(args.source, "tests", "system"))
    if args.out:
        measure(args)
    if args.table:
        table(args.table, args.foreign)


if __name__ == "__main__":
    main()
