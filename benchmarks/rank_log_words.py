"""The words in which libraries, launchers and kernels tell of a failure, for `rank_logs`.

Out: templates by what happened, each a list of lines with fields in braces. Every list has
wordings of several libraries or releases; they are split in halves (`half`): the reader was tuned
while only the even ones were in use, and the score that counts is that of the odd ones. Messages
are as the libraries' sources print them; names of files, steps and numbers are made up.
"""

from __future__ import annotations

from random import Random
from typing import TypeVar

T = TypeVar("T")


def half(wordings: list[T], side: int) -> list[T]:
    """The even or the odd ones; a list of one is in both."""
    return wordings[side % 2 :: 2] or wordings


def pick(random: Random, wordings: list[T], side: int) -> T:
    return random.choice(half(wordings, side))


def _traceback(frames: list[str], last: str) -> list[str]:
    lines = ["Traceback (most recent call last):"]
    for frame in frames:
        place, _, code = frame.partition(" | ")
        lines += [f"  File {place}", f"    {code}"]
    return [*lines, *last.split("\n")]


_MAIN = '"{code}/train.py", line {line}, in main | trainer.fit()'
_LOOP = '"{code}/engine/loop.py", line {line2}, in train_step | loss = self.model(batch)'
_STEP = '"{code}/pretrain.py", line {line}, in <module> | main(args)'
_BACK = '"{code}/pretrain.py", line {line2}, in train_one | loss.backward()'
_NEXT = '"{code}/data/stream.py", line {line2}, in __next__ | sample = self._decode(raw)'
_SAVE = '"{code}/ckpt.py", line {line2}, in save_shard | torch.save(state, path)'
_TORCH_SAVE = '"{site}/torch/serialization.py", line 944, in save | with _open_zipfile_writer(f)'
_GRAPH = (
    '"{site}/torch/autograd/graph.py", line 829, in _engine_run_backward '
    "| return Variable._execution_engine.run_backward("
)
_FETCH = (
    '"{site}/torch/utils/data/_utils/fetch.py", line 52, in fetch '
    "| data = [self.dataset[idx] for idx in possibly_batched_index]"
)
_KERNEL_ERRORS = (
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace"
    " below might be incorrect."
)

# What the rank itself says, by kind of fault. An empty list: it is gone without a word.
OWN: dict[str, list[list[str]]] = {
    "raises": [
        _traceback([_MAIN, _LOOP], "ZeroDivisionError: float division by zero"),
        _traceback([_STEP, _BACK], "AssertionError: router produced no tokens for expert 11"),
        _traceback([_MAIN, _LOOP], "ValueError: too many values to unpack (expected 2)"),
        _traceback([_STEP, _LOOP], "RuntimeError: curriculum stage 4 has no sampler"),
    ],
    "segfault": [
        [
            "Fatal Python error: Segmentation fault",
            "",
            "Current thread 0x00007f2a4b7fe640 (most recent call first):",
            '  File "{code}/kernels/pack.py", line {line} in pack_rows',
            '  File "{code}/train.py", line {line2} in main',
        ],
        [],
        [
            "*** SIGSEGV received at time=1763374953 on cpu 17 ***",
            "PC: @     0x7f33a1c0f2d4  (unknown)  rows_to_columns()",
            "    @     0x7f3418e42520  (unknown)  (unknown)",
        ],
        [
            "!!!!!!! Segfault encountered !!!!!!!",
            '  File "<unknown>", line 0, in rows_to_columns()',
        ],
    ],
    "killed": [[], []],
    "host-oom": [[], []],
    "gpu-oom": [
        _traceback(
            [_STEP, _BACK, _GRAPH],
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.44 GiB. GPU {local}"
            " has a total capacity of 79.15 GiB of which 1.61 GiB is free. Including non-PyTorch"
            " memory, this process has 77.53 GiB memory in use. Of the allocated memory 74.90 GiB"
            " is allocated by PyTorch, and 1.02 GiB is reserved by PyTorch but unallocated.",
        ),
        _traceback(
            [_MAIN, _LOOP],
            "RuntimeError: CUDA out of memory. Tried to allocate 1.95 GiB (GPU {local}; 39.59 GiB"
            " total capacity; 36.81 GiB already allocated; 1.10 GiB free; 37.02 GiB reserved in"
            " total by PyTorch)",
        ),
        _traceback(
            [_MAIN, _LOOP],
            "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying"
            " to allocate 5368709120 bytes.",
        ),
        _traceback([_STEP, _LOOP], "RuntimeError: HIP out of memory. Tried to allocate 2.00 GiB."),
    ],
    "gpu-lost": [
        _traceback(
            [_STEP, _BACK, _GRAPH],
            "RuntimeError: CUDA error: uncorrectable ECC error encountered\n" + _KERNEL_ERRORS,
        ),
        _traceback(
            [_MAIN, _LOOP],
            "torch.AcceleratorError: CUDA error: unspecified launch failure\n" + _KERNEL_ERRORS,
        ),
        _traceback(
            [_MAIN, _LOOP],
            "RuntimeError: CUDA error: GPU is lost\n" + _KERNEL_ERRORS,
        ),
        _traceback([_STEP, _LOOP], "RuntimeError: CUDA error: unknown error\n" + _KERNEL_ERRORS),
    ],
    "nvlink": [
        _traceback(
            [_STEP, _BACK, _GRAPH],
            "RuntimeError: CUDA error: uncorrectable NVLink error detected during the execution\n"
            + _KERNEL_ERRORS,
        ),
        _traceback(
            [_MAIN, _LOOP],
            "torch.AcceleratorError: CUDA error: uncorrectable NVLink error detected during the"
            " execution\n" + _KERNEL_ERRORS,
        ),
    ],
    "disk-full": [
        _traceback([_MAIN, _SAVE], "OSError: [Errno 28] No space left on device"),
        _traceback(
            [_STEP, _SAVE, _TORCH_SAVE],
            "OSError: [Errno 28] No space left on device:"
            " '/scratch/ckpt/step_{step}/__{rank}_0.distcp'",
        ),
        _traceback([_MAIN, _SAVE], "OSError: [Errno 122] Disk quota exceeded"),
        _traceback(
            [_STEP, _SAVE],
            "safetensors_rust.SafetensorError: Error while serializing: IoError(Os"
            " {{ code: 28, kind:"
            ' StorageFull, message: "No space left on device" }})',
        ),
    ],
    "nan": [
        _traceback([_MAIN, _LOOP], "FloatingPointError: loss is nan at step {step}"),
        _traceback(
            [_STEP, _LOOP],
            "AssertionError: Rank {rank}: found NaN in local grad norm in backward pass before"
            " data-parallel communication collective. Device: {local}, node: {host}",
        ),
        _traceback(
            [_MAIN, _LOOP],
            "RuntimeError: Rank {rank}, node {host}, device {local}, iteration {step}: Unexpected"
            " result nan (message='found NaN in local forward loss calculation')",
        ),
        _traceback([_STEP, _LOOP], "ValueError: Loss is nan, stopping training"),
    ],
    "corrupt": [
        _traceback(
            [_MAIN, _NEXT],
            "PIL.UnidentifiedImageError: cannot identify image file '/data/shards/0{rank}/i.jpg'",
        ),
        _traceback(
            [_STEP, _FETCH, _NEXT], "OSError: image file is truncated (14 bytes not processed)"
        ),
        _traceback(
            [_MAIN, _NEXT], "zlib.error: Error -3 while decompressing data: invalid distance"
        ),
        _traceback([_STEP, _NEXT], "tarfile.ReadError: unexpected end of data"),
    ],
    "rendezvous": [
        [
            "[W{glog} socket.cpp:752] [c10d] The IPv6 network addresses of (train-master-0, 29500)"
            " cannot be retrieved (gai error: -2 - Name or service not known).",
            *_traceback(
                [_MAIN],
                "torch.distributed.DistNetworkError: The client socket has failed to connect to any"
                " network address of (train-master-0, 29500). The IPv4 network addresses of"
                " (train-master-0, 29500) cannot be retrieved (gai error: -2 - Name or service not"
                " known).",
            ),
        ],
        [
            *_traceback(
                [_STEP],
                "torch.distributed.DistNetworkError: The client socket has timed out after 600000ms"
                " while trying to connect to (10.4.0.1, 29500).",
            )
        ],
    ],
    "ib": [
        [
            "{host}:{pid}:{tid} [{local}] transport/net_ib.cc:98 NCCL WARN NET/IB : {hca}:1 Got"
            " async"
            " event : port error",
            "{host}:{pid}:{tid} [{local}] transport/net_ib.cc:1296 NCCL WARN NET/IB : Got"
            " completion"
            " from peer {peer_ip}<33092> with error 12, opcode 0, len 0, vendor err 129 (Send)",
            "{host}:{pid}:{tid} [{local}] NCCL INFO transport/net.cc:1134 -> 6",
            *_traceback(
                [_STEP, _BACK],
                "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/"
                "ProcessGroupNCCL.cpp:1970, unhandled system error (run with NCCL_DEBUG=INFO for"
                " details), NCCL version 2.21.5\nncclSystemError: System call (e.g. socket, malloc)"
                " or external library call failed or device error.",
            ),
        ],
        [
            "{host}:{pid}:{tid} [{local}] transport/net_ib/p2p.cc:648 NCCL WARN NET/IB: {hca}:1"
            " async"
            " fatal event on QP: local access violation work queue error",
            "{host}:{pid}:{tid} [{local}] misc/ibvwrap.cc:262 NCCL WARN Call to ibv_modify_qp"
            " failed"
            " with error Connection timed out errno 110",
            *_traceback(
                [_MAIN, _LOOP],
                "torch.distributed.DistBackendError: NCCL error in:"
                " /pytorch/torch/csrc/distributed/"
                "c10d/NCCLUtils.cpp:94, unhandled system error (run with NCCL_DEBUG=INFO for"
                " details), NCCL version 2.27.3\nncclSystemError: System call (e.g. socket, malloc)"
                " or external library call failed or device error.\nLast error:\nCall to"
                " ibv_modify_qp failed with error Connection timed out errno 110",
            ),
        ],
    ],
    "exit-0": [
        ["[{clock}] epoch 2 done, no more batches", "Training complete."],
        ["rank {rank}: dataset exhausted after {step} steps, leaving", "Finished training."],
    ],
    "skips": [
        ["rank {rank}: no labels in this batch, step skipped"],
        ["[{clock}] early stop vote: 0"],
    ],
    "shape": [[], []],
    "hang": [["fetching shard s3://corpus/part-{rank}.tar"], []],
    "slow": [["gc: freed 81 GiB in 612.4 s"], ["evaluation on this rank took 744.81 s"]],
    "node-lost": [[], []],
}

# What the kernel of the root's host writes, where its log is among the files.
KERNEL: dict[str, list[str]] = {
    "host-oom": [
        "[{uptime}] Memory cgroup out of memory: Killed process {pid} (python)"
        " total-vm:412031456kB,"
        " anon-rss:201326592kB, file-rss:81920kB, shmem-rss:0kB, UID:1000 pgtables:401832kB"
        " oom_score_adj:0",
        "[{uptime}] Out of memory: Killed process {pid} (python3) total-vm:388122624kB,"
        " anon-rss:190231552kB, file-rss:0kB, shmem-rss:1048576kB, UID:0 pgtables:377120kB"
        " oom_score_adj:0",
    ],
    "gpu-lost": [
        "[{uptime}] NVRM: Xid (PCI:0000:{bus}:00): 48, pid={pid}, name=python, An uncorrectable"
        " double"
        " bit error (DBE) has been detected on GPU in the framebuffer at partition 8, subpartition"
        " 0.",
        "[{uptime}] NVRM: Xid (PCI:0000:{bus}:00): 79, pid={pid}, name=python, GPU has fallen off"
        " the"
        " bus.",
    ],
    "nvlink": [
        "[{uptime}] NVRM: Xid (PCI:0000:{bus}:00): 74, pid={pid}, name=python, NVLink: fatal error"
        " detected on link 4(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)",
        "[{uptime}] NVRM: Xid (PCI:0000:{bus}:00): 144, NVLINK: SAW_MVB Fatal XC0 i0 Link 04"
        " (0x00000004"
        " 0x00000004 0x00000000 0x00000000 0x00000000 0x00000000)",
    ],
}

# Harmless lines of every rank, before and between the steps.
HARMLESS = [
    "{site}/torch/utils/data/dataloader.py:627: UserWarning: This DataLoader will create 16 worker"
    " processes in total. Our suggested max number of worker in current system is 12.",
    "[W{glog} Utils.hpp:164] Warning: Environment variable NCCL_BLOCKING_WAIT is deprecated; use"
    " TORCH_NCCL_BLOCKING_WAIT instead (function operator())",
    "{host}:{pid}:{pid} [{local}] NCCL INFO Bootstrap : Using eth0:{ip}<0>",
    "{host}:{pid}:{tid} [{local}] NCCL INFO NET/Plugin: No plugin found (libnccl-net.so)",
    "[W{glog} ProcessGroupNCCL.cpp:4843] [PG ID 0 PG GUID 0 Rank {rank}]  using GPU {local} to"
    " perform"
    " barrier as devices used by this process are currently unknown. This can potentially cause a"
    " hang if this rank to GPU mapping is incorrect.",
    "FutureWarning: `torch.cuda.amp.autocast(args...)` is deprecated.",
    "[rank{rank}]:[W{glog} reducer.cpp:1389] Warning: find_unused_parameters=True was specified in"
    " DDP"
    " constructor, but did not find any unused parameters in the forward pass.",
    "Grad overflow on iteration 12, skipping step, reducing loss scale to 32768.0",
    "retrying request to s3://corpus/index.json after a connection error (attempt 1 of 5)",
    "WARNING: checkpoint upload took 41 s, longer than 30 s",
    "I0000 00:00:1763374000.123456 {pid} service.cc:148] XLA service 0x7f1 initialized for platform"
    " CUDA",
]
