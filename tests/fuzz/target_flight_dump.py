"""Dumps of PyTorch's Flight Recorder with anything in them: read, or refused in a sentence."""

from __future__ import annotations

import json
import pickle
import random
from pathlib import Path

from fuzz_bars import Bars
from fuzz_mutations import mutate_bytes
from fuzz_runner import Target

from rerail.errors import RerailError
from rerail.evidence.first.dumps import judge_dumps
from rerail.evidence.text.flight_dumps import is_dump, read_dump

_DUMP = {
    "version": "2.10",
    "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
    "pg_status": {"0": {"last_enqueued_collective": 2, "last_completed_collective": 1}},
    "entries": [
        {
            "record_id": at,
            "collective_seq_id": at + 1,
            "op_id": at + 1,
            "profiling_name": "nccl:all_reduce",
            "process_group": ("0", "default_pg"),
            "input_sizes": [[4, 3]],
            "is_p2p": False,
            "retired": at == 0,
            "state": ("completed", "started")[at],
            "time_created_ns": 1794977379582131147 + at,
            "frames": [{"filename": "/home/me/train.py", "line": 88, "name": "step"}],
        }
        for at in range(2)
    ],
}
_WORDS = [
    *(b"cos\nsystem\n", b"R", b"\x81", b"b", b"o", b"i", b"P1\n", b"Q", b"\x82\x01", b"\x93"),
    *(b"(" * 3000, b")\x85" * 3000, b"]" * 3000, b"q\x00h\x00\x86" * 60, b"u", b"s", b"e", b"t"),
    *(b"r\xff\xff\xff\x7f", b"j\xff\xff\xff\x7f", b"X\xff\xff\xff\xff", b"\x8a\xff", b"."),
    *(b"[" * 5000, b"{" * 5000, b"9" * 5000, b"1e999", b"NaN", b'"entries":', b"null", b"-1"),
]


def make(rng: random.Random, folder: Path) -> bytes:
    whole = json.dumps(_DUMP).encode() if rng.random() < 0.5 else pickle.dumps(_DUMP, 2)
    return mutate_bytes(rng, whole, _WORDS)


def check(data: bytes, bars: Bars) -> None:
    def read() -> None:
        is_dump(data[:8192])
        other = read_dump(pickle.dumps(_DUMP, 2), "nccl_trace_rank_1")
        judge_dumps([read_dump(data, "nccl_trace_rank_0"), other])

    bars.call(read, may_raise=(RerailError,))


TARGET = Target(make, check, cases=1500)
