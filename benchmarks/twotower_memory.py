"""Memory at the incident's size, measured by rerail: under 4 GB that cannot be reclaimed.

    .venv/bin/python -m benchmarks.twotower_memory [--scale 1.0] [--keep FOLDER]

Makes the incident's data (35,904 pairs of length 100, a bank of 771,115: 13.5 GB on disk) with
`twotower prepare --synthetic`, trains 50 optimizer steps with one mining pass over 2,048 queries,
and then opens the same data as the incident's script did, with numpy.load. Each runs under
`rerail run`; the figure is the largest sum of RssAnon over the process tree in its vitals. Pages of
mapped files are not in it: the kernel takes them back when it needs them.

`--steps` and `--batch` shorten the training on a slow machine; the memory does not depend on them.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rerail.store import Store

ROWS, LENGTH, BANK = 35_904, 100, 771_115
LIMIT_BYTES = 4e9
PEAK = "tree.rss_anon_bytes"
INCIDENT_LOADER = """
import sys, numpy as np
pairs, bank = np.load(sys.argv[1]), np.load(sys.argv[2])
arrays = [pairs[name] for name in ("X_train", "Y_train", "X_val", "Y_val")] + [bank["vectors"]]
print("touched", sum(float(a.ravel()[:: 1 << 20].sum()) for a in arrays))
"""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of rows")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch", default="8x64", help="batch x accumulation: the cpu profile")
    parser.add_argument("--keep", type=Path, help="use and keep the data in this folder")
    args = parser.parse_args()
    rows, bank = int(ROWS * args.scale), int(BANK * args.scale)
    batch_size, accum = args.batch.split("x")
    work = Path(tempfile.mkdtemp(prefix="twotower-memory-"))
    data = args.keep or work / "data"
    twotower = [sys.executable, "-m", "twotower"]
    try:
        peaks = {}
        if not (data / "pairs.npz").exists():
            peaks["prepare"] = peak_under_rerail(
                work,
                [
                    *(*twotower, "prepare", "--synthetic", "--rows", str(rows)),
                    *("--length", str(LENGTH), "--bank", str(bank), "--out", str(data)),
                ],
            )
        peaks["train, mine"] = peak_under_rerail(
            work,
            [
                *(*twotower, "train", "--data", str(data), "--out", str(work / "run")),
                *("--bs", batch_size, "--accum", accum, "--steps", str(args.steps)),
                *("--mine-every", str(args.steps // 2), "--mine-queries", "2048"),
                *("--device", "cpu", "--no-bar", "--checkpoint-every", "25", "--val-rows", "256"),
            ],
        )
        archives = [data / "pairs.npz", data / "bank.npz"]
        if sum(path.stat().st_size for path in archives) + 2e9 < available_bytes():
            peaks["numpy.load"] = peak_under_rerail(
                work, [sys.executable, "-c", INCIDENT_LOADER, *map(str, archives)]
            )
        else:
            print("numpy.load was not tried: there is not enough free memory for it now")
    finally:
        shutil.rmtree(work)
    for what, peak in peaks.items():
        print(f"{what:12} {peak / 1e9:6.2f} GB of RssAnon at most")
    theirs = peaks.pop("numpy.load", None)
    ours = max(peaks.values())
    if theirs is not None:
        print(f"a loader as in the incident's script needs {theirs / ours:.1f} times as much")
    return 0 if ours < LIMIT_BYTES else 1


def available_bytes() -> float:
    meminfo = Path("/proc/meminfo").read_text()
    return int(meminfo.split("MemAvailable:")[1].split()[0]) * 1024


def peak_under_rerail(work: Path, command: list[str]) -> float:
    """The largest RssAnon of the tree while the command ran."""
    home = work / "rerail"
    subprocess.run(
        [sys.executable, "-m", "rerail", "run", "--home", str(home), "--quiet", "--", *command],
        check=True,
    )
    run = Store(home).resolve("last")
    rows = [*run.vitals(), *run.recent_vitals()]
    return max(max(row.tree.rss_anon_bytes, row.maximum.get(PEAK, 0)) for row in rows)


if __name__ == "__main__":
    sys.exit(main())
