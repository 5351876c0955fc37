"""Faults planted in small gloo jobs: which rank failed first and why, by rerail and by torchrun.

Each kind of fault × seed × launcher is a real job of 2 to 4 ranks under `rerail run`. The seed
chooses how many ranks there are, which of them goes wrong and at which step, and whether
DistributedDataParallel or the program itself reduces the gradients. Printed for each: the rank and
the cause that rerail names, and the rank that torchrun names as root cause. `--home` keeps the
recordings, and `--judge` explains kept ones again without running anything.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rerail.diagnosis import explain_run
from rerail.store import Store

ROOT = Path(__file__).parent.parent
PROGRAM = ROOT / "tests" / "programs" / "rank_train.py"
LAUNCHERS = ("torchrun", "script", "spawn")
TIMEOUT = 16.0  # of a collective; stacks are taken after 10 s of standing still
LIMIT_SECONDS = 400
OOM_BYTES = 3 << 30

# Where two are given, the ids' own page gives both: a skipped collective times out or disagrees.
MISMATCH = ("collective-mismatch", "collective-timeout")
FAULTS: dict[str, tuple[str, ...]] = {
    "raise": ("python-exception", "bad-config"),
    "segfault": ("native-segfault",),
    "kill": ("killed-from-outside",),
    "memory": ("host-oom",),
    "hang": ("collective-timeout",),
    "native-hang": ("collective-timeout",),
    "slow": ("collective-timeout",),
    "leave": ("peer-died", *MISMATCH),
    "os-leave": ("peer-died", *MISMATCH),
    "skip": MISMATCH,
    "other": MISMATCH,
    "shape": ("collective-mismatch",),
    "early": ("python-exception", "bad-config"),
    "port": ("port-in-use",),
    "world": ("rendezvous-failed",),
    "worker": ("native-segfault",),
    "disk": ("disk-full",),
    "nan": ("loss-not-finite",),
    "launcher": ("killed-from-outside",),
    "two": ("python-exception", "bad-config"),
    "threads": ("python-exception", "bad-config"),
}
NEEDS_ROOT = ("memory", "disk")
_ROOT_CAUSE = re.compile(r"Root Cause[^:]*:.*?rank\s*:\s*(\d+)", re.DOTALL)


@dataclass(frozen=True)
class Job:
    fault: str
    seed: int
    launcher: str

    @property
    def name(self) -> str:
        return f"{self.fault}-{self.launcher}-{self.seed}"

    @property
    def _chance(self) -> random.Random:
        return random.Random(f"{self.fault}{self.seed}")

    @property
    def world(self) -> int:
        return self._chance.choice((2, 3, 4) if self.fault != "memory" else (2,))

    @property
    def victim(self) -> int:
        return 0 if self.fault == "port" else self._chance.randrange(self.world)

    @property
    def at(self) -> int:
        return 4 + self._chance.randrange(16)

    @property
    def firsts(self) -> tuple[str | None, ...]:
        """Who may be named as first."""
        if self.fault == "launcher":
            return ("launcher", "main process", "shell", None)
        if self.fault == "port" and self.launcher == "torchrun":
            return ("launcher", None)  # the launcher cannot start any rank
        if self.fault == "two":
            return (f"rank {self.victim}", f"rank {(self.victim + 1) % self.world}")
        return (f"rank {self.victim}",)

    def words(self, disk: str) -> list[str]:
        given = ["--fault", self.fault, "--victim", str(self.victim), "--at", str(self.at)]
        given += ["--timeout", str(TIMEOUT), "--disk", disk]
        return given + (["--ddp"] if self.seed % 2 else [])


def free_port() -> socket.socket:
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    return held


def command(job: Job, port: int, disk: str) -> list[str]:
    given = [str(PROGRAM), *job.words(disk)]
    if job.launcher == "torchrun":
        launcher = [sys.executable, "-m", "torch.distributed.run", "--nnodes=1"]
        launcher += [f"--nproc-per-node={job.world}", "--master-addr=127.0.0.1"]
        return [*launcher, f"--master-port={port}", *given]
    if job.launcher == "spawn":
        return [sys.executable, *given, "--spawn", str(job.world)]
    ranks = " ".join(str(rank) for rank in range(job.world))
    text = f'for r in {ranks}; do RANK=$r WORLD_SIZE={job.world} "$@" & p="$p $!"; done; s=0; '
    text += "for i in $p; do wait -n || { s=$?; break; }; done; kill $p 2>/dev/null; wait; exit $s"
    return ["bash", "-c", text, "train", sys.executable, *given]


def run(job: Job, home: Path, folder: Path) -> str:
    """Records the job; what it printed."""
    held = free_port()
    port = held.getsockname()[1]
    if job.fault == "port":
        held.listen(1)
    else:
        held.close()
    environ = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    environ |= {"OMP_NUM_THREADS": "1", "RERAIL_HOME": str(home)}
    disk = folder / "disk"
    disk.mkdir(exist_ok=True)
    words = [sys.executable, "-m", "rerail", "run", "--quiet", "--stall", "300", "--"]
    words += command(job, port, str(disk))
    before: list[str] = []
    if job.fault == "disk":
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "x", str(disk)], check=True)
    if job.fault == "memory":
        before = limited_memory(job.name)
    log = folder / "log"
    try:
        with log.open("wb") as out:
            started = subprocess.Popen(
                before + words, env=environ, cwd=folder, stdout=out, stderr=out
            )
            try:
                started.wait(LIMIT_SECONDS)
            except subprocess.TimeoutExpired:
                started.terminate()  # the recorder passes it on
                try:
                    started.wait(30)
                except subprocess.TimeoutExpired:
                    started.kill()
    finally:
        held.close()
        if job.fault == "disk":
            subprocess.run(["umount", "-l", str(disk)], check=False)
    return log.read_text(errors="replace")


def limited_memory(name: str) -> list[str]:
    """Words before a command that put it into a control group with a limit."""
    for base, limit in (
        (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"),
        (Path("/sys/fs/cgroup"), "memory.max"),
    ):
        group = base / f"rank-faults-{name}"
        try:
            group.mkdir(exist_ok=True)
            (group / limit).write_text(str(OOM_BYTES))
        except OSError:
            continue
        return ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "limited"]
    raise SystemExit("no control group with a memory limit can be made here")


def judge(home: Path, log: str) -> tuple[str | None, list[str], str, str | None]:
    """First rank, causes, headline of rerail; the root cause's rank of torchrun."""
    folder = Store(home).resolve("last")
    document = explain_run(folder, seconds=60.0).to_json()  # a busy machine is no part of it
    found = _ROOT_CAUSE.search(log)
    causes = [cause["id"] for cause in document["causes"]]
    first = document["facts"].get("failed_first")
    return first, causes, document["headline"], f"rank {found.group(1)}" if found else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", nargs="*", default=list(FAULTS), choices=list(FAULTS))
    parser.add_argument("--seeds", type=int, nargs="*", default=[0])
    parser.add_argument("--launchers", nargs="*", default=list(LAUNCHERS), choices=LAUNCHERS)
    parser.add_argument("--home", type=Path)
    parser.add_argument("--judge", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        return compare(options, options.home or Path(temporary))


def compare(options: argparse.Namespace, home: Path) -> int:
    count = right_rank = right_cause = theirs = asked = 0
    for seed in options.seeds:
        for fault in options.faults:
            for launcher in options.launchers:
                if fault in NEEDS_ROOT and os.geteuid() != 0:
                    print(f"{fault}: left out, needs root")
                    continue
                job = Job(fault, seed, launcher)
                folder = home / job.name
                if not options.judge:
                    folder.mkdir(parents=True, exist_ok=True)
                    run(job, folder / "store", folder)
                elif not (folder / "log").exists():
                    continue
                log = (folder / "log").read_text(errors="replace")
                first, causes, headline, verdict = judge(folder / "store", log)
                is_first = first in job.firsts
                is_cause = bool(causes) and causes[0] in FAULTS[fault]
                count, right_rank = count + 1, right_rank + is_first
                right_cause += is_cause
                if launcher == "torchrun":
                    asked, theirs = asked + 1, theirs + (verdict in job.firsts)
                mark = "ok   " if is_first and is_cause else "WRONG"
                print(f"{mark} {job.name}: {job.firsts[0]} -> {first}, {causes[:2]}; "
                      f"torchrun {verdict}\n      {headline}", flush=True)  # fmt: skip
    print(f"{count} jobs: first rank right {right_rank}, cause right {right_cause}; "
          f"torchrun's own verdict right {theirs} of {asked}")  # fmt: skip
    print(json.dumps({"jobs": count, "first": right_rank, "cause": right_cause,
                      "torchrun": theirs, "torchrun_jobs": asked}))  # fmt: skip
    return 0 if count and right_rank == right_cause == count else 1


if __name__ == "__main__":
    sys.exit(main())
