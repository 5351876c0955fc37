"""FAISS indexes, and the process that answers searches with one.

Run as `python -m twotower.faiss_server BANK KIND THREADS`. Imports NumPy and FAISS, never torch:
that is the point of the separate process.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from typing import IO, Any

import numpy as np

from twotower.archive import Array, map_archive
from twotower.errors import TwotowerError

INDEXES = ("flat", "ivf", "hnsw")
HEADER = struct.Struct("<qq")  # of a request: queries, k; of an answer: queries, k
_ADD_ROWS = 65536  # so that adding needs no third copy of a large bank


def build_index(bank_MD: Array, kind: str, threads: int) -> Any:
    try:
        import faiss
    except ImportError:
        raise TwotowerError(
            "--miner faiss needs FAISS: pip install faiss-cpu\n"
            "--miner exact needs nothing and finds the same."
        ) from None
    if threads:
        faiss.omp_set_num_threads(threads)
    M, D = bank_MD.shape
    if kind == "flat":
        index: Any = faiss.IndexFlatIP(D)
    elif kind == "ivf":
        # About sqrt(M) lists with 39 or more training points each, an eighth of them searched.
        lists = max(1, min(int(M**0.5), M // 39))
        index = faiss.IndexIVFFlat(faiss.IndexFlatIP(D), D, lists, faiss.METRIC_INNER_PRODUCT)
        index.nprobe = max(1, lists // 8)
        sample = np.linspace(0, M - 1, min(M, 256 * lists)).astype(np.int64)
        index.train(np.ascontiguousarray(bank_MD[sample]))
    elif kind == "hnsw":
        index = faiss.IndexHNSWFlat(D, 32, faiss.METRIC_INNER_PRODUCT)
    else:
        raise TwotowerError(f"no FAISS index {kind!r}; there are {', '.join(INDEXES)}")
    for start in range(0, M, _ADD_ROWS):
        index.add(np.ascontiguousarray(bank_MD[start : start + _ADD_ROWS]))
    return index


def read_exactly(stream: IO[bytes], size: int) -> bytes:
    parts = []
    while size:
        part = stream.read(size)
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _serve(bank_path: Path, index_kind: str, threads: int) -> None:
    bank_MD = map_archive(bank_path)["vectors"]
    index = build_index(bank_MD, index_kind, threads)
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    while True:
        try:
            rows, k = HEADER.unpack(read_exactly(requests, HEADER.size))
            values = read_exactly(requests, rows * bank_MD.shape[1] * 4)
        except EOFError:
            return
        _, ids_QK = index.search(np.frombuffer(values, np.float32).reshape(rows, -1), k)
        answers.write(HEADER.pack(*ids_QK.shape))
        answers.write(np.ascontiguousarray(ids_QK, np.int64).tobytes())
        answers.flush()


if __name__ == "__main__":
    try:
        _serve(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
    except TwotowerError as error:
        sys.exit(f"twotower: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
