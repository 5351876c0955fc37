"""Is the rank that failed first found in the logs of a thousand ranks?

Writes the logs of jobs whose root fault is known (18 kinds, eight launchers and libraries), with
echoes on all other ranks, clocks of hosts that differ by up to two minutes, harmless warnings, and
one file in twenty missing; asks `rerail explain FOLDER --json`; prints the share of right answers,
seconds, peak memory, and how the time grows with the size.

    python -m benchmarks.rank_logs --jobs 200 --ranks 1024 --side 1
    python -m benchmarks.rank_logs --large            # 16,384 ranks, 2 GB
    python -m benchmarks.rank_logs --slope

`--side 0` uses the wordings with which the reader was tuned, `--side 1` those that were held out.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.rank_log_echoes import DIES, FRAMEWORKS, NCCL_ONLY, Job, echo
from benchmarks.rank_log_launchers import launchers
from benchmarks.rank_log_words import HARMLESS, OWN, half, pick

KINDS = sorted(OWN)
CAUSES = {
    "raises": {"python-exception"},
    "segfault": {"native-segfault"},
    "killed": {"killed-from-outside", "host-oom"},
    "host-oom": {"host-oom"},
    "gpu-oom": {"gpu-oom", "gpu-fragmentation"},
    "gpu-lost": {"gpu-hardware-fault"},
    "nvlink": {"gpu-hardware-fault"},
    "disk-full": {"disk-full"},
    "nan": {"loss-not-finite"},
    "corrupt": {"data-corrupt"},
    "rendezvous": {"rendezvous-failed"},
    "ib": {"nccl-network-failed"},
    "exit-0": {"collective-mismatch", "collective-timeout"},
    "skips": {"collective-mismatch", "collective-timeout"},
    "shape": {"collective-mismatch"},
    "hang": {"collective-timeout", "loader-hang"},
    "slow": {"collective-timeout"},
    "node-lost": {"node-lost", "peer-died", "killed-from-outside", "scheduler-stopped"},
}
# A GPU error without a kernel log is only an error of CUDA; and a log that is missing says nothing.
WITHOUT_KERNEL = {"gpu-lost": {"cuda-illegal-access", "cuda-library-failed", "python-exception"}}
SILENT = {"segfault", "killed", "host-oom"}
LAYOUTS = [
    "rank_{rank}.log",
    "{host}/attempt_0/{local}/stderr.log",
    "log_{rank}.txt",
    "slurm-48113_{rank}.out",
    "worker-{rank}.txt",
    "{host}_local{local}.log",
]


@dataclass
class Truth:
    kind: str
    framework: str
    root: int
    ranks: set[int]  # those that nothing in the files tells from the root
    host: str
    causes: set[str]
    is_missing: bool
    is_named: bool  # something in the files names the root


def write_job(folder: Path, seed: int, ranks: int, side: int, bytes_per_rank: int) -> Truth:
    random = Random(seed)
    kind = KINDS[seed % len(KINDS)]
    choices = [f for f in half(FRAMEWORKS, side) if kind not in NCCL_ONLY or f.startswith("nccl")]
    framework = random.choice(choices)
    hosts = ranks // 8
    job = Job(
        random=random,
        side=side,
        world=ranks,
        kind=kind,
        framework=framework,
        root=random.randrange(ranks),
        step=random.randrange(200, 9000),
        number=random.randrange(2000, 90000),
        operation=random.choice(
            ["ALLREDUCE", "_ALLGATHER_BASE", "_REDUCE_SCATTER_BASE", "BROADCAST"]
        ),
        elements=random.choice([1, 4096, 1259621, 67108864]),
        timeout_ms=random.choice([600000, 1800000]),
        skews=[random.uniform(-120, 120) for _ in range(hosts)],
        names=random.choice(["node-{:04d}", "gpu{:03d}", "a100-rack3-n{:d}"]),
    )
    layout = pick(random, LAYOUTS, side)
    writer = _Writer(job, bytes_per_rank)
    files = {
        layout.format(rank=r, host=job.host_name(r // 8), local=r % 8): r for r in range(ranks)
    }
    of_launchers = launchers(job)
    missing = set(random.sample(sorted(files), ranks // 20))
    missing |= {name for name in of_launchers if random.random() < 0.05}
    for name, rank in files.items():
        if name not in missing:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(writer.log_of(rank))
    for name, lines in of_launchers.items():
        if name not in missing:
            (folder / name).write_text("\n".join(lines) + "\n")
    return _truth(job, files, of_launchers, missing, not writer.own)


def _truth(
    job: Job,
    files: dict[str, int],
    of_launchers: dict[str, list[str]],
    missing: set[str],
    is_silent: bool,
) -> Truth:
    absent = {rank for name, rank in files.items() if name in missing}
    host = job.host_name(job.host)
    causes = set(CAUSES[job.kind])
    ranks = set(job.gone())
    kernel = next((name for name in of_launchers if name.startswith("dmesg")), "")
    if not kernel or kernel in missing:
        causes |= WITHOUT_KERNEL.get(job.kind, set())
    said = [n for n in of_launchers if n not in missing and not n.startswith("dmesg")]
    own_launcher = [n for n in said if n.startswith(host + ".") or host + ".txt" in n]
    central = [n for n in said if n in ("slurm-48113.out", "mpirun.log")]
    is_missing = job.root in absent
    by_peers = job.framework in ("horovod-mpirun", "jax-pods", "tf-pods")
    tells_rank = bool(central) or (bool(own_launcher) and "deepspeed" not in job.framework)
    if is_missing or is_silent:
        if job.kind in SILENT and not (own_launcher or central or kernel):
            causes |= {"peer-died", "native-segfault", "killed-from-outside", "host-oom"}
        if job.kind == "host-oom":
            causes |= {"killed-from-outside"}
        if is_missing:
            causes |= {"peer-died", "collective-timeout", "python-exception", "rendezvous-failed"}
        same_host = set(range(job.host * 8, job.host * 8 + 8))
        if job.kind in DIES and not tells_rank and not by_peers and "srun" not in job.framework:
            ranks |= same_host  # its launcher ended the others of its host without a word
    named = not is_missing or by_peers or (job.kind in DIES and (tells_rank or ranks > {job.root}))
    if job.kind in ("node-lost", "rendezvous"):
        named = True
    return Truth(
        job.kind, job.framework, job.root, ranks if named else ranks | absent, host, causes,
        is_missing, named,
    )  # fmt: skip


class _Writer:
    def __init__(self, job: Job, bytes_per_rank: int) -> None:
        self._job = job
        random, side = job.random, job.side
        self.own = pick(random, OWN[job.kind], side)
        # No step was made where the ranks never met.
        calm = [one for one in HARMLESS if job.kind != "rendezvous" or "iteration" not in one]
        self._harmless = random.sample(calm, 6)
        style = random.randrange(4)
        every = random.choice([1, 10])
        only_first = random.random() < 0.3
        steps, size, step = [], 0, job.step
        while size < bytes_per_rank and step > 0:
            if step % every == 0:
                steps.append(_progress(style, step, random))
                size += len(steps[-1]) + 1
            step -= 1
        shard = 0
        while size < bytes_per_rank:  # what was read before the first step
            steps.append(f"[data] shard {shard:06d} read in 0.41 s, 8192 samples, 11.2 MB/s")
            size += len(steps[-1]) + 1
            shard += 1
        self._steps = "\n".join(reversed(steps))
        self._few = "\n".join(reversed(steps[:1])) if only_first and bytes_per_rank < 30000 else ""
        self._prefix_all = random.random() < 0.3

    def log_of(self, rank: int) -> bytes:
        job = self._job
        fields = {
            "rank": rank,
            "local": rank % 8,
            "host": job.host_name(rank // 8),
            "ip": job.ip(rank // 8),
            "pid": job.pid(rank),
            "tid": job.pid(rank) + 311,
            "glog": job.glog(rank, 3.0),
            "clock": "10:00:03",
            "step": job.step,
            "line": 88 + job.root % 40,
            "line2": 140 + job.root % 40,
            "code": "/code/pretrain",
            "site": "/opt/venv/lib/python3.11/site-packages",
            "hca": f"mlx5_{rank % 8}",
            "peer_ip": job.ip((job.host + 3) % (job.world // 8)),
        }
        lines = [one.format(**fields) for one in self._harmless]
        if job.kind != "rendezvous":
            lines.append(self._few if self._few and rank else self._steps)
        if rank in job.gone():
            ending = [line.format(**fields) for line in self.own] + self._root_end(rank)
        else:
            ending = echo(job, rank)
        text = "\n".join([*lines, *ending]) + "\n"
        if self._prefix_all:
            text = "".join(f"[default{rank % 8}]:{line}\n" for line in text.splitlines())
        return text.encode()

    def _root_end(self, rank: int) -> list[str]:
        """Of a rank that kept the others waiting: what it says when they have given up."""
        job = self._job
        if not job.framework.startswith("nccl") or job.kind not in (
            "hang",
            "skips",
            "shape",
            "slow",
        ):
            return []
        if job.kind == "shape":
            lone = Job(**{**vars(job), "elements": job.elements * 2 + 8, "side": 1})
            return echo(lone, rank)
        if job.side % 2 and job.kind == "hang":
            return []
        seen = job.number - 1
        who = f"[rank{rank}]:[E{job.glog(rank, 600.4)} ProcessGroupNCCL.cpp:1858]"
        who += f" [PG ID 0 PG GUID 0(default_pg) Rank {rank}] "
        return [
            who + "Observed flight recorder dump signal from another rank via TCPStore.",
            who + "Received a dump signal due to a collective timeout from  rank "
            f"{(rank + 9) % job.world} and we will try our best to dump the debug info. Last"
            f" enqueued NCCL"
            f" work: {seen}, last completed NCCL work: {seen}.This is most likely caused by"
            f" incorrect"
            " usages of collectives, e.g., wrong sizes used across ranks",
        ]


def _progress(style: int, step: int, random: Random) -> str:
    loss = 2.1 + random.random() / 9
    if style == 0:
        return f"step {step} | loss {loss:.4f} | lr 2.95e-04 | grad norm 0.41 | tok/s 11,204"
    if style == 1:
        done = f"'epoch': {step / 9000:.2f}, 'step': {step}"
        return f"{{'loss': {loss:.4f}, 'learning_rate': 0.000295, {done}}}"
    if style == 2:
        return (
            f" [2026-11-17 10:00:11] iteration {step:8d}/   90000 | consumed samples:"
            f" {step * 512:12d} |"
            f" elapsed time per iteration (ms): 5120.4 | learning rate: 2.95E-04 | lm loss:"
            f" {loss:.6E} |"
        )
    return f"Epoch 2: step {step}/90000, train_loss={loss:.3f}, 5.12 s/it"


def ask(folder: Path) -> tuple[dict[str, Any], float, float]:
    """The answer, seconds, and seconds of CPU time of the process and its child."""
    started, before = time.monotonic(), _cpu_seconds()
    process = subprocess.Popen(
        [sys.executable, "-m", "rerail", "explain", str(folder), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    out, _ = process.communicate()
    seconds = time.monotonic() - started
    return json.loads(out or b"{}"), seconds, _cpu_seconds() - before


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def verdict(truth: Truth, answer: dict[str, Any]) -> tuple[bool, bool]:
    """(the rank is right, the cause is right)."""
    facts = answer.get("facts") or {}
    first = str(facts.get("failed_first") or "")
    number = first.removeprefix("rank ").split(" ")[0]
    is_rank = number.isdecimal() and int(number) in truth.ranks
    if len(truth.ranks) > 1 and truth.host in first:  # all of a host, or any of it
        is_rank = True
    if not truth.is_named:  # nothing names it: right is to say that its log is missing
        is_rank = is_rank or first == "a rank whose log is missing"
    causes = answer.get("causes") or [{}]
    return is_rank, causes[0].get("id") in truth.causes


def _miss(at: int, truth: Truth, answer: dict[str, Any]) -> str:
    lead = (answer.get("causes") or [{}])[0].get("id")
    first = (answer.get("facts") or {}).get("failed_first")
    root = f"root {truth.root}" + (" (missing)" if truth.is_missing else "")
    said = f"said {first}, {lead} | {answer.get('headline')}"
    return f"job {at}: {truth.kind} {truth.framework} {root}: {said}"


def score(args: argparse.Namespace) -> None:
    counts: Counter[str] = Counter()
    times: list[float] = []
    cpus: list[float] = []
    misses = []
    for at in range(args.first, args.first + args.jobs):
        folder = Path(tempfile.mkdtemp(prefix="rank-logs-"))
        try:
            truth = write_job(folder, at, args.ranks, args.side, args.bytes)
            answer, seconds, cpu = ask(folder)
        finally:
            if args.keep:
                print(folder)
            else:
                shutil.rmtree(folder, ignore_errors=True)
        is_rank, is_cause = verdict(truth, answer)
        counts["jobs"] += 1
        if counts["jobs"] % 20 == 0:
            print(f"  … {counts['jobs']} jobs", file=sys.stderr, flush=True)
        counts["rank"] += is_rank
        counts["cause"] += is_cause
        counts["both"] += is_rank and is_cause
        counts["unnamed"] += not truth.is_named
        times.append(seconds)
        cpus.append(cpu)
        if not (is_rank and is_cause):
            misses.append(_miss(at, truth, answer))
            print("  miss:", misses[-1], flush=True)
    n = counts["jobs"]
    print(f"{n} jobs of {args.ranks:,} ranks, wordings {'held out' if args.side else 'of tuning'}")
    print(
        f"  root rank right {counts['rank']}, cause right {counts['cause']}, both {counts['both']}"
    )
    print(f"  ({counts['unnamed']} of them with no file that names the root)")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
    print(
        f"  seconds: median {sorted(times)[n // 2]:.1f}, most {max(times):.1f};"
        f" of CPU time: median {sorted(cpus)[n // 2]:.1f}, most {max(cpus):.1f};"
        f" the larger of two processes {peak} MB"
    )


def slope(args: argparse.Namespace) -> None:
    """Seconds of CPU time against megabytes, of jobs that double in size."""
    points = []
    for ranks in (512, 1024, 2048, 4096):
        folder = Path(tempfile.mkdtemp(prefix="rank-logs-"))
        try:
            write_job(folder, args.first, ranks, args.side, args.bytes)
            size = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
            seconds = min(ask(folder)[2] for _ in range(2))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        points.append((size / 1e6, seconds))
        print(f"  {ranks:6,} ranks, {size / 1e6:7.0f} MB: {seconds:6.2f} s", flush=True)
    n = len(points)
    mean_x, mean_y = sum(x for x, _ in points) / n, sum(y for _, y in points) / n
    rise = sum((x - mean_x) * (y - mean_y) for x, y in points)
    per_mb = rise / sum((x - mean_x) ** 2 for x, _ in points)
    print(f"  slope {per_mb * 1000:.1f} s per GB, {mean_y - per_mb * mean_x:.1f} s at no size")


def large(args: argparse.Namespace) -> None:
    args.ranks, args.bytes, args.jobs = 16384, 120_000, args.jobs if args.jobs != 200 else 5
    score(args)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--bytes", type=int, default=3000, help="of ordinary lines per rank")
    parser.add_argument("--side", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="seed of the first job")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--slope", action="store_true")
    parser.add_argument("--keep", action="store_true")
    args = parser.parse_args()
    os.environ.setdefault("NO_COLOR", "1")
    if args.slope:
        args.bytes = max(args.bytes, 60_000)
        slope(args)
    elif args.large:
        large(args)
    else:
        score(args)


if __name__ == "__main__":
    main()
