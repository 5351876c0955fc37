"""Exact mining beside faiss.IndexFlatIP.search: prints the ratio of throughputs, at least 3.

    .venv/bin/python -m benchmarks.twotower_mining [--rounds 3]

2,048 queries, 200,000 documents of width 768, the same number of threads. The miner reads the bank
where it lies in its archive; FAISS searches a copy that it was given before the clock starts. The
ids have to be identical wherever rounding cannot decide (queries with two of their best scores
nearer than 1e-6 are counted apart). Random directions are the hardest case for the int8 bound:
nothing in them can be exploited.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

QUERIES, ROWS, WIDTH, K, WANTED = 2048, 200_000, 768, 24, 3.0


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    import faiss
    import torch
    from twotower.archive import ArchiveWriter, map_archive
    from twotower.mining.exact import ExactMiner

    torch.set_num_threads(args.threads)
    faiss.omp_set_num_threads(args.threads)
    with tempfile.TemporaryDirectory(prefix="twotower-") as folder:
        path = Path(folder) / "bank.npz"
        generator = np.random.default_rng(0)
        with (
            ArchiveWriter(path) as writer,
            writer.member("vectors", (ROWS, WIDTH), np.float32) as sink,
        ):
            for _ in range(ROWS // 10_000):
                sink.append(directions(generator, 10_000))
        bank = map_archive(path)["vectors"]
        queries = directions(generator, QUERIES)
        index = faiss.IndexFlatIP(WIDTH)
        index.add(np.ascontiguousarray(bank))
        sides: dict[str, Callable[[], np.ndarray]] = {
            "faiss": lambda: index.search(queries, K)[1],
            "exact": lambda: miner.search(torch.from_numpy(queries), K).numpy(),
            "exact, torch": lambda: in_torch.search(torch.from_numpy(queries), K).numpy(),
        }
        miner, in_torch = ExactMiner(bank), ExactMiner(bank, is_filtered=False)
        wall: dict[str, list[float]] = {side: [] for side in sides}
        cpu: dict[str, list[float]] = {side: [] for side in sides}
        found = {}
        for _ in range(args.rounds):
            for side, search in sides.items():
                clocks = time.perf_counter(), time.process_time()
                found[side] = search()
                wall[side].append(time.perf_counter() - clocks[0])
                cpu[side].append(time.process_time() - clocks[1])
        clear = is_clear(queries, bank, found["faiss"])
    same = bool((found["exact"][clear] == found["faiss"][clear]).all())
    for side in ("exact", "exact, torch"):
        ratio, by_cpu = (
            statistics.median(clock["faiss"]) / statistics.median(clock[side])
            for clock in (wall, cpu)
        )
        way = "int8 bound" if side == "exact" and miner.is_filtered else "products in torch"
        print(f"{side:13} {ratio:.2f} times faiss ({by_cpu:.2f} by CPU time), {way}")
        if side == "exact":
            is_good = same and max(ratio, by_cpu) >= WANTED
    print(
        f"ids {'identical' if same else 'DIFFERENT'} for {int(clear.sum()):,} queries; "
        f"{int((~clear).sum())} have scores within 1e-6 of each other"
    )
    return 0 if is_good else 1


def directions(generator: np.random.Generator, rows: int) -> np.ndarray:
    vectors = generator.standard_normal((rows, WIDTH), np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def is_clear(queries: np.ndarray, bank: np.ndarray, found_ids: np.ndarray) -> np.ndarray:
    """Queries whose best scores, in double precision, are all apart by more than rounding."""
    clear = np.empty(len(queries), bool)
    for query, ids in enumerate(found_ids):
        scores = np.sort(bank[ids].astype(np.float64) @ queries[query].astype(np.float64))
        clear[query] = np.diff(scores).min() > 1e-6
    return clear


if __name__ == "__main__":
    sys.exit(main())
