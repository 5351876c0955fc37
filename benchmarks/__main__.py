"""Runs the benchmarks one after another: `python -m benchmarks [NAME...]`, all without a name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def names() -> list[str]:
    return sorted(
        path.stem
        for path in HERE.glob("*.py")
        if not path.stem.startswith("_") and "def main(" in path.read_text()
    )


def main() -> int:
    wanted = sys.argv[1:] or names()
    unknown = sorted(set(wanted) - set(names()))
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are: {', '.join(names())}")
        return 2
    worst = 0
    for name in wanted:
        print(f"\n== {name}", flush=True)
        worst |= subprocess.run(
            [sys.executable, "-m", f"benchmarks.{name}"], cwd=HERE.parent, check=False
        ).returncode
    return 1 if worst else 0


if __name__ == "__main__":
    sys.exit(main())
