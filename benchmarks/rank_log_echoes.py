"""What the other ranks write when one rank fails, for `rank_logs`.

In: a `Job`, who failed and how. Out: the lines of each other rank. Wordings: those of PyTorch's
NCCL and Gloo process groups, Horovod, JAX's coordination service and TensorFlow's collectives, as
their sources print them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

DIES = {
    *("raises", "segfault", "killed", "host-oom", "gpu-oom", "gpu-lost", "nvlink", "disk-full"),
    *("nan", "corrupt", "ib"),
}
STALLS = {"hang", "slow", "exit-0", "skips", "shape", "node-lost"}
FRAMEWORKS = [
    *("nccl-torchrun", "nccl-srun", "horovod-mpirun", "gloo-torchrun"),
    *("jax-pods", "nccl-deepspeed", "nccl-torchrun", "tf-pods"),
]
NCCL_ONLY = {"ib", "nvlink", "skips", "shape"}
USAGES = (
    "This is most likely caused by incorrect usages of collectives, e.g., wrong sizes used across"
    " ranks, the order of collectives is not same for all ranks or the scheduled collective, for"
    " some"
    " reason, didn't run. Additionally, this can be caused by GIL deadlock or other reasons such as"
    " network errors or bugs in the communications library (e.g. NCCL), etc. "
)


@dataclass
class Job:
    random: Random
    side: int  # which half of the wordings
    world: int
    kind: str
    framework: str
    root: int
    step: int
    number: int  # of the collective in which the others wait
    operation: str
    elements: int
    timeout_ms: int
    skews: list[float] = field(default_factory=list)  # seconds, by host
    names: str = "node-{:04d}"

    @property
    def host(self) -> int:
        return self.root // 8

    def host_name(self, host: int) -> str:
        return self.names.format(host)

    def ip(self, host: int) -> str:
        return f"10.{4 + host // 250}.{host % 250}.{11 + host % 7}"

    def pid(self, rank: int) -> int:
        return 20000 + rank * 7 % 30000 + rank // 8

    def gone(self) -> list[int]:
        """The ranks that failed first: one, or all of a host."""
        if self.kind in ("node-lost", "rendezvous"):
            return list(range(self.host * 8, self.host * 8 + 8))
        return [self.root]

    def glog(self, rank: int, second: float) -> str:
        t = 36000 + second + self.skews[rank // 8]
        h, m, s = int(t // 3600), int(t % 3600 // 60), t % 60
        return f"1117 {h:02d}:{m:02d}:{s:06.3f}456789"


def echo(job: Job, rank: int) -> list[str]:
    """Of a rank that did nothing wrong."""
    if job.kind == "rendezvous":
        return _never_met(job, rank)
    stalls = job.kind in STALLS
    if job.framework.startswith("nccl"):
        return _nccl_waits(job, rank) if stalls else _nccl_loses(job, rank)
    return {
        "gloo-torchrun": _gloo,
        "horovod-mpirun": _horovod,
        "jax-pods": _jax,
        "tf-pods": _tf,
    }[job.framework](job, rank, stalls)


def _prefix(job: Job, rank: int, line: int, second: float = 600.0) -> str:
    return f"[rank{rank}]:[E{job.glog(rank, second)} ProcessGroupNCCL.cpp:{line}] "


def _work(job: Job, rank: int, number: int, elements: int) -> str:
    return (
        f"WorkNCCL(SeqNum={number}, OpType={job.operation}, NumelIn={elements},"
        f" NumelOut={elements}, Timeout(ms)={job.timeout_ms})"
    )


def _nccl_waits(job: Job, rank: int) -> list[str]:
    fires = job.random.random() < 0.6
    who = f"[PG ID 0 PG GUID 0(default_pg) Rank {rank}] "
    p = lambda line: _prefix(job, rank, line)  # noqa: E731
    last, ahead = job.number, job.number + job.random.choice([0, 0, 1, 3])
    ran = job.timeout_ms + job.random.randrange(100)
    caught = (
        f"[Rank {rank}] Watchdog caught collective operation timeout:"
        f" {_work(job, rank, last, job.elements)} ran for {ran} milliseconds before timing out."
    )
    down = [
        p(684) + f"[Rank {rank}] Some NCCL operations have failed or timed out. Due to the"
        " asynchronous nature of CUDA kernels, subsequent GPU operations might run on"
        " corrupted/incomplete data.",
        p(698)
        + f"[Rank {rank}] To avoid data inconsistency, we are taking the entire process down.",
        p(1896) + who + "Process group watchdog thread terminated with exception: " + caught,
        "terminate called after throwing an instance of 'c10::DistBackendError'",
        "  what():  " + who + "Process group watchdog thread terminated with exception: " + caught,
    ]
    status = f"last enqueued work: {ahead}, last completed work: {last - 1}"
    old = f"last enqueued NCCL work: {ahead}, last completed NCCL work: {last - 1}."
    if job.side % 2:
        return [
            p(616) + caught,
            p(1785) + who + "Exception (either an error or timeout) detected by watchdog at work:"
            f" {last}, {old}",
            p(1834) + who + f"Timeout at NCCL work: {last}, {old}",
            *down,
        ]
    if not fires:
        by = job.random.randrange(job.world)
        return [
            p(1794) + who + "Observed flight recorder dump signal from another rank via TCPStore.",
            p(1858) + who + "Received a dump signal due to a collective timeout from "
            f" rank {by} and we will try our best to dump the debug info. Last enqueued NCCL work:"
            f" {ahead}, last completed NCCL work: {last - 1}.{USAGES}",
            p(1575) + who + "ProcessGroupNCCL preparing to dump debug info. Include stack trace: 1",
        ]
    return [
        p(632) + caught,
        p(2271)
        + who
        + f" failure detected by watchdog at work sequence id: {last} PG status: {status}",
        p(670)
        + "Stack trace of the failed collective not found, potentially because FlightRecorder"
        " is disabled. You can enable it by setting TORCH_NCCL_TRACE_BUFFER_SIZE to a non-zero"
        " value.",
        p(2106) + who + "First PG on this rank to signal dumping.",
        p(1746)
        + who
        + "Received a dump signal due to a collective timeout from this local rank and we"
        f" will try our best to dump the debug info. Last enqueued NCCL work: {ahead}, last"
        f" completed"
        f" NCCL work: {last - 1}.{USAGES}",
        *down,
    ]


def _nccl_loses(job: Job, rank: int) -> list[str]:
    if rank // 8 == job.host and job.framework != "nccl-srun":
        return []  # its own launcher ends it at once, and it says nothing
    if job.random.random() < 0.25:
        return _nccl_waits(job, rank)
    peer = f"{job.ip(job.host)}<{40000 + job.random.randrange(9000)}>"
    error = [
        "torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/"
        "NCCLUtils.cpp:77, remote process exited or there was a network error, NCCL version 2.21.5",
        "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting"
        " prematurely.",
        "Last error:",
    ]
    error.append(
        f"socketProgress: Connection closed by remote peer {job.host_name(job.host)}.cluster<46211>"
        if job.side % 2
        else f"NET/IB : Got completion from peer {peer} with error 12, opcode 1, len 0, vendor err"
        f" 129"
    )
    call = '  File "/code/pretrain/engine/loop.py", line 214, in train_step\n    loss.backward()'
    trace = ["Traceback (most recent call last):", *call.split("\n"), *error]
    return [f"[rank{rank}]: {line}" for line in trace] if rank % 3 else trace


def _never_met(job: Job, rank: int) -> list[str]:
    met = job.world - 8
    if job.side % 2:
        last = (
            "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients."
            f" {met}/{job.world} clients joined."
        )
    else:
        last = (
            "torch.distributed.DistStoreError: wait timeout after 600000ms, keys:"
            f" /default_pg/0/store_based_barrier_key:1 ({met}/{job.world} workers joined)"
        )
    return [
        "Traceback (most recent call last):",
        '  File "/code/pretrain/pretrain.py", line 31, in <module>',
        "    dist.init_process_group(backend)",
        '  File "/opt/site/torch/distributed/rendezvous.py", line 189, in _create_c10d_store',
        "    return TCPStore(",
        last,
    ]


def _gloo(job: Job, rank: int, stalls: bool) -> list[str]:
    if not stalls and rank // 8 == job.host:
        return []
    place = "[../third_party/gloo/gloo/transport/tcp/"
    near = abs(rank - job.root) in (1, job.world - 1)
    if stalls and (near or job.random.random() < 0.5):
        waited = f"Timed out waiting {job.timeout_ms}ms for recv operation to complete"
        last = f"{place}unbound_buffer.cc:81] {waited}"
    else:
        other = job.host if near or not stalls else job.random.randrange(job.world // 8)
        last = f"{place}pair.cc:534] Connection closed by peer [{job.ip(other)}]:43211"
    return [
        f"[rank{rank}]: Traceback (most recent call last):",
        f'[rank{rank}]:   File "/code/pretrain/engine/loop.py", line 214, in train_step',
        f"[rank{rank}]:     dist.all_reduce(grad)",
        f"[rank{rank}]: RuntimeError: {last}",
    ]


def _horovod(job: Job, rank: int, stalls: bool) -> list[str]:
    if stalls and rank == 0:
        return [
            f"[2026-11-17 10:1{i}:07.345988: W /tmp/build/horovod/common/stall_inspector.cc:107]"
            " One or more tensors were submitted to be reduced, gathered or broadcasted by subset"
            " of"
            " ranks and are waiting for remainder of ranks for more than 60 seconds. This may"
            " indicate"
            " that different ranks are trying to submit different tensors or that only subset of"
            " ranks"
            " is submitting tensors, which will cause deadlock. \nMissing ranks:\n"
            + "\n".join(
                f"{one}: [allreduce.grad_{i}, allreduce.grad_1{i} ...]" for one in job.gone()
            )
            for i in (1, 2)
        ]
    if stalls:
        return []
    return [
        "Traceback (most recent call last):",
        '  File "/code/pretrain/engine/loop.py", line 214, in train_step',
        "    optimizer.step()",
        "horovod.common.exceptions.HorovodInternalError: Horovod has been shut down. This was"
        " caused by"
        " an exception on one of the ranks or an attempt to allreduce, allgather or broadcast a"
        " tensor"
        " after one of the ranks finished execution. If the shutdown was caused by an exception,"
        " you"
        " should see the exception in the log before the first shutdown message.",
    ]


def _jax(job: Job, rank: int, stalls: bool) -> list[str]:
    fatal = (
        f"F{job.glog(rank, 610)[:20]}  {job.pid(rank)}"
        f" client.h:77] Terminating process because the JAX"
        " distributed service detected fatal errors. This most likely indicates that another task"
        " died;"
        " see the other task logs for more details. Disable Python buffering, i.e. `python -u`, to"
        " be"
        " sure to see all the previous output. absl::Status: "
    )
    tasks = [f"/job:jax_worker/replica:0/task:{one}" for one in job.gone()]
    if stalls and job.kind != "node-lost":
        barrier = (
            "DEADLINE_EXCEEDED: Barrier timed out. Id: psum/step_end::0. This usually happens"
            " because a"
            " task triggered the barrier too early or too slowly. Please look at the task logs"
            " (both"
            f" timed out and first task) to debug further.\n# of tasks that reached the barrier:"
            f" {job.world - 1}/{job.world}.\nThe first task at the barrier:"
            f" /job:jax_worker/replica:0/task:{(job.root + 5) % job.world}. Some timed out task"
            f" names:\n"
        )
        return [fatal + barrier + "\n".join(tasks)]
    return [
        f"E{job.glog(rank, 609)[:20]}  {job.pid(rank)}"
        f" coordination_service_agent.cc:332] Polled an error"
        " from coordination service (this can be an error from this or another task).",
        fatal
        + "UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats):\n"
        + "\n".join(tasks)
        + "\nThe tasks have crashed. Check the task logs for an earlier error, or scheduler events"
        " (e.g. preemption, eviction) to debug further.\n",
    ]


def _tf(job: Job, rank: int, stalls: bool) -> list[str]:
    task = f"/job:worker/replica:0/task:{job.root}"
    if stalls and job.kind not in ("node-lost", "exit-0"):
        why = "Collective has timed out waiting for other workers."
    elif rank % 2:
        address = f"ipv4:{job.ip(job.host)}:2222"
        why = f"failed to connect to all addresses; last error: UNAVAILABLE: {address}"
    else:
        why = f"{task}: Socket closed"
    lines = (
        []
        if stalls and job.kind not in ("node-lost", "exit-0")
        else [
            f"ERROR:tensorflow:Cluster check alive failed, {task} is down, aborting collectives:"
            f" {why}"
        ]
    )
    return [
        *lines,
        "Traceback (most recent call last):",
        '  File "/code/pretrain/train_tf.py", line 77, in main',
        "    model.fit(dataset, epochs=3)",
        "tensorflow.python.framework.errors_impl.UnavailableError: Collective ops is aborted by: "
        + why,
        "The error could be from a previous operation. Restart your program to reset."
        " [Op:CollectiveReduceV2]",
    ]
