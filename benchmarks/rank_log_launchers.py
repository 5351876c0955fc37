"""What launchers, schedulers and kernels write when one rank fails, for `rank_logs`.

In: a `Job`. Out: their files, by name. Wordings are those of torchrun, srun, mpirun, DeepSpeed's
launcher, `kubectl describe` and Linux.
"""

from __future__ import annotations

from benchmarks.rank_log_echoes import DIES, Job
from benchmarks.rank_log_words import KERNEL, pick

SIGNALS = {"segfault": 11, "killed": 9, "host-oom": 9}
NAMES = {9: "SIGKILL", 11: "SIGSEGV", 6: "SIGABRT"}
WORDS = {9: "Killed", 11: "Segmentation fault", 6: "Aborted"}


def launchers(job: Job) -> dict[str, list[str]]:
    """Files of the launchers and kernels, by name."""
    files: dict[str, list[str]] = {}
    code = SIGNALS.get(job.kind)
    if job.framework.endswith("torchrun"):
        for host in range(job.world // 8):
            files[f"{job.host_name(host)}.agent.log"] = _torchrun(job, host, code)
    elif job.framework.endswith("srun"):
        files["slurm-48113.out"] = _srun(job, code)
    elif job.framework.endswith("mpirun"):
        files["mpirun.log"] = _mpirun(job, code)
    elif job.framework.endswith("deepspeed"):
        for host in range(job.world // 8):
            files[f"{job.host_name(host)}.launch.log"] = _deepspeed(job, host, code)
    elif code:
        files[f"events-{job.host_name(job.host)}.txt"] = _pod(job, code)
    if job.kind in KERNEL and job.random.random() < 0.8:
        line = pick(job.random, KERNEL[job.kind], job.side)
        files[f"dmesg-{job.host_name(job.host)}.txt"] = [
            "[    1.204411] pci 0000:17:00.0: BAR 1: assigned"
            " [mem 0x2000000000-0x3fffffffff 64bit pref]",
            "[ 8812.119340] mlx5_core 0000:1a:00.0 ens1np0: Link up",
            line.format(
                uptime="1934021.551823", pid=job.pid(job.root), bus=f"{0x17 + job.root % 8:02x}"
            ),
        ]
    return files


def _victim(job: Job, host: int) -> int:
    return next(
        r for r in job.random.sample(range(host * 8, host * 8 + 8), 8) if r not in job.gone()
    )


def _torchrun(job: Job, host: int, code: int | None) -> list[str]:
    if job.kind == "node-lost" and host == job.host:
        return [
            "I1117 09:58:11.002 torch/distributed/run.py:793] log directory set to: /tmp/elastic"
        ]
    is_own = host == job.host and (job.kind in DIES or job.kind == "rendezvous")
    first = job.root if is_own else _victim(job, host)
    status = -code if is_own and code else 1 if is_own or job.kind in DIES else -6
    stamp = f"E{job.glog(host * 8, 612)[:17]}000 {999 + host}"
    others = [r for r in range(host * 8, host * 8 + 8) if r != first]
    lines = [
        f"W{job.glog(host * 8, 611)[:17]}000 {999 + host}"
        f" torch/distributed/elastic/multiprocessing/api.py:900]"
        f" Sending process {job.pid(r)} closing signal SIGTERM"
        for r in others
    ]
    named = NAMES.get(-status, "")
    signal = f"Signal {-status} ({named}) received by PID {job.pid(first)}" if status < 0 else ""
    message = (
        signal or "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
    )
    return [
        *lines,
        f"{stamp} torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: {status})"
        f" local_rank: {first % 8} (pid: {job.pid(first)}) of binary: /opt/venv/bin/python3",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        "=" * 60,
        "pretrain.py FAILED",
        "-" * 60,
        "Failures:",
        "  <NO_OTHER_FAILURES>",
        "-" * 60,
        "Root Cause (first observed failure):",
        "[0]:",
        "  time      : 2026-11-17_10:10:12",
        f"  host      : {job.host_name(host)}.cluster",
        f"  rank      : {first} (local_rank: {first % 8})",
        f"  exitcode  : {status} (pid: {job.pid(first)})",
        "  error_file: <N/A>",
        f"  traceback : {message}",
        "=" * 60,
    ]


def _srun(job: Job, code: int | None) -> list[str]:
    name = job.host_name
    lines = []
    if job.kind == "node-lost":
        lines.append(f"srun: error: Node failure on {name(job.host)}")
        lines.append(
            f"slurmstepd: error: *** STEP 48113.0 ON {name(0)} CANCELLED AT 2026-11-17T10:10:51"
            f" DUE TO"
            " NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***"
        )
    elif job.kind == "host-oom":
        lines.append(
            f"slurmstepd: error: {name(job.host)}: Detected 1 oom_kill event in StepId=48113.0."
            f" Some of"
            " the step tasks have been OOM Killed."
        )
        lines.append(f"srun: error: {name(job.host)}: task {job.root}: Out Of Memory")
    elif code:
        dumped = " (core dumped)" if code == 11 else ""
        lines.append(f"srun: error: {name(job.host)}: task {job.root}: {WORDS[code]}{dumped}")
    elif job.kind in DIES:
        lines.append(f"srun: error: {name(job.host)}: task {job.root}: Exited with exit code 1")
    lines.append("srun: launch/slurm: _step_signal: Terminating StepId=48113.0")
    for host in job.random.sample(range(job.world // 8), min(12, job.world // 8)):
        word = "Terminated" if job.kind in DIES else "Aborted (core dumped)"
        lines.append(
            f"srun: error: {name(host)}: task {_victim(job, host)}: {word}"
            if (host, job.kind) != (job.host, "node-lost") and job.kind != "rendezvous"
            else f"srun: error: {name((host + 1) % 8)}: tasks 0-7: Exited with exit code 1"
        )
    return lines


def _mpirun(job: Job, code: int | None) -> list[str]:
    rule = "-" * 74
    node = job.host_name(job.host)
    if job.kind == "node-lost":
        return [
            rule,
            "ORTE has lost communication with a remote daemon.",
            "",
            "  HNP daemon   : [[41200,0],0] on node " + job.host_name(0),
            f"  Remote daemon: [[41200,0],{job.host}] on node {node}",
            "",
            "This is usually due to either a failure of the TCP network",
            "connection to the node, or possibly an internal failure of",
            "the daemon itself. We cannot recover from this failure, and",
            "therefore will terminate the job.",
            rule,
        ]
    if code:
        return [
            rule,
            f"mpirun noticed that process rank {job.root} with PID 0 on node {node} exited on"
            f" signal"
            f" {code} ({WORDS[code]}).",
            rule,
        ]
    if job.kind in DIES or job.kind == "rendezvous":
        return [
            rule,
            "Primary job  terminated normally, but 1 process returned",
            "a non-zero exit code. Per user-direction, the job has been aborted.",
            rule,
            rule,
            "mpirun detected that one or more processes exited with non-zero status, thus causing",
            "the job to be terminated. The first process to do so was:",
            "",
            f"  Process name: [[41200,1],{job.root}]",
            "  Exit code:    1",
            rule,
        ]
    return [
        "slurmstepd: error: *** JOB 48113 ON node-0000 CANCELLED AT 2026-11-17T13:20:00 DUE TO"
        " TIME LIMIT ***"
    ]


def _deepspeed(job: Job, host: int, code: int | None) -> list[str]:
    if job.kind == "node-lost" and host == job.host:
        return [
            "[2026-11-17 09:58:11,002] [INFO] [launch.py:165:main] dist_world_size="
            + str(job.world)
        ]
    is_own = host == job.host and (job.kind in DIES or job.kind == "rendezvous")
    status = -code if is_own and code else 1 if is_own or job.kind in DIES else -6
    lines = [
        f"[2026-11-17 10:10:12,{i}00] [INFO] [launch.py:319:sigkill_handler] Killing subprocess"
        f" {job.pid(host * 8 + i)}"
        for i in range(8)
    ]
    # The command that it prints is that of the last local rank, whoever failed.
    return [
        *lines,
        "[2026-11-17 10:10:13,001] [ERROR] [launch.py:325:sigkill_handler]"
        " ['/opt/venv/bin/python3',"
        f" '-u', 'pretrain.py', '--local_rank=7'] exits with return code = {status}",
    ]


def _pod(job: Job, code: int) -> list[str]:
    reason = "OOMKilled" if job.kind == "host-oom" else "Error"
    return [
        f"Name:             train-worker-{job.root}",
        f"Node:             {job.host_name(job.host)}/{job.ip(job.host)}",
        "    State:          Terminated",
        f"      Reason:       {reason}",
        f"      Exit Code:    {128 + code}",
    ]
