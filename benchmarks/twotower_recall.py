"""Recall on real text, beside the baselines: prints the table of docs/twotower.md.

    .venv/bin/python -m benchmarks.twotower_recall [--text DIR] [--epochs 5] [--run FOLDER]

The text is a documentation package of Debian, linux-doc-6.1 (the kernel's documentation, 61,457
chunks), fetched with `apt-get download` and unpacked into a temporary folder; `--text` takes any
other folder. Prepares, trains with the profile `seed`, and evaluates all validation queries over
the whole bank, twice: with the query's own sequence left out of the ranking, and with it in.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGE = "linux-doc-6.1"
MARGIN = 1.05  # a clear margin: a twentieth above the better of the two baselines


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--text", type=Path)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--run", type=Path, help="keep the data and the run here")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="twotower-") as scratch:
        work = args.run or Path(scratch)
        data, run = work / "data", work / "run"
        if not (data / "pairs.npz").exists():
            text = args.text or fetch_text(Path(scratch))
            twotower("prepare", "--text", text, "--out", data, "--length", 16, "--words", 40)
        if not run.exists():
            twotower(
                *("train", "--data", data, "--out", run, "--profile", "seed", "--device", "cpu"),
                *("--epochs", args.epochs, "--lr", "5e-4", "--no-bar"),
            )
        results = {
            title: json.loads(twotower("evaluate", run, "--json", *flags))
            for title, flags in (
                ("without the query's own chunks", ()),
                ("over all chunks", ("--with-context",)),
            )
        }
    is_good = True
    for title, methods in results.items():
        print(f"\n{title}\n")
        names = list(methods["model"])
        print("| | " + " | ".join(names) + " |\n|---|" + "---|" * len(names))
        for method, metrics in methods.items():
            values = " | ".join(f"{metrics[name]:.3f}" for name in names)
            print(f"| {method} | {values} |")
        for name in ("recall@10", "recall@500"):
            best = max(methods[method][name] for method in ("last vector", "mean vector"))
            ratio = methods["model"][name] / best
            print(f"{name}: {ratio:.2f} times the better baseline")
            is_good &= ratio >= MARGIN
    return 0 if is_good else 1


def fetch_text(scratch: Path) -> Path:
    subprocess.run(["apt-get", "download", "-qq", PACKAGE], cwd=scratch, check=True)
    (package,) = scratch.glob(f"{PACKAGE}_*.deb")
    subprocess.run(["dpkg", "-x", str(package), str(scratch / "text")], check=True)
    return scratch / "text" / "usr/share/doc" / PACKAGE / "html" / "_sources"


def twotower(*arguments: object) -> str:
    is_shown = arguments[0] != "evaluate"
    command = [sys.executable, "-m", "twotower", *map(str, arguments)]
    if is_shown:
        subprocess.run(command, check=True)
        return ""
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    sys.exit(main())
