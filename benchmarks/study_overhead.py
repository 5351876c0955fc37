"""What a study costs beside its commands run one after another by hand.

Bare and study alternate. Two questions, two kinds of cell: of cells that only wait, the wall
seconds that each costs more; of real trainings (lowlight), the ratio of wall and of CPU time.
Wall time is what counts, and varies by several per cent on a busy machine; CPU time varies less,
and also counts the next cell's recorder, which starts while a cell runs.
Prints seconds per cell and ratios (study / bare), each the median over the pairs.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WAITING = Path(__file__).parents[1] / "tests" / "programs" / "study_train.py"
LIMIT_SECONDS = 1800.0
STUDY = """
command = "{command}"
seeds = {seeds}
artifacts = {artifacts}
"""


def timed(command: list[str], cwd: Path) -> tuple[float, float]:
    """Wall and CPU seconds of the whole tree."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    subprocess.run(
        command,
        cwd=cwd,
        check=True,
        timeout=LIMIT_SECONDS,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wall = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def bare(command: list[str], cells: int, folder: Path) -> tuple[float, float]:
    wall = cpu = 0.0
    for seed in range(cells):
        own = folder / str(seed)
        own.mkdir(parents=True)
        took = timed([word.replace("{seed}", str(seed)) for word in command], own)
        wall, cpu = wall + took[0], cpu + took[1]
    return wall, cpu


def study(
    command: list[str], cells: int, artifacts: list[str], folder: Path
) -> tuple[float, float]:
    folder.mkdir()
    text = STUDY.format(command=" ".join(command), seeds=list(range(cells)), artifacts=artifacts)
    (folder / "s.toml").write_text(text)
    return timed([sys.executable, "-m", "rerail", "study", "s.toml", "--quiet"], folder)


def pairs(
    command: list[str], cells: int, artifacts: list[str], count: int
) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    found = []
    for turn in range(count):
        scratch = Path(tempfile.mkdtemp())
        try:
            runs = {
                "bare": lambda at=scratch: bare(command, cells, at / "bare"),
                "study": lambda at=scratch: study(command, cells, artifacts, at / "study"),
            }
            order = ("bare", "study") if turn % 2 == 0 else ("study", "bare")
            took = {name: runs[name]() for name in order}
            found.append((took["bare"], took["study"]))
        finally:
            shutil.rmtree(scratch)
    return found


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cells", type=int, default=4)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of a cell that only waits")
    parser.add_argument("--steps", type=int, default=200, help="of a training")
    parser.add_argument("--training-pairs", type=int, default=3)
    options = parser.parse_args()
    waiting = [sys.executable, str(WAITING), "--seed", "{seed}", "--steps", "10"]
    waiting += ["--step-seconds", str(options.seconds / 10)]
    files = ["weights/final.npz", "metrics.json"]
    found = pairs(waiting, options.cells, files, options.pairs)
    costs = [(s[0] - b[0]) / options.cells for b, s in found]
    median = statistics.median(costs)
    print(f"cells that wait {options.seconds:g} s: {median:.3f} s more per cell", end="")
    print(f" ({min(costs):.3f} to {max(costs):.3f}, {len(costs)} pairs of {options.cells} cells)")
    cpu = statistics.median((s[1] - b[1]) / options.cells for b, s in found)
    print(f"  of it CPU time: {cpu:.3f} s")
    is_good = median < 1.0
    if options.training_pairs:
        train = [sys.executable, "-m", "lowlight", "train", "--out", "run", "--seed", "{seed}"]
        train += ["--steps", str(options.steps), "--threads", "0", "--cpu-threads", "1"]
        weights = ["run/weights.pt", "run/metrics.json"]
        found = pairs(train, 2, weights, options.training_pairs)
        wall = statistics.median(s[0] / b[0] for b, s in found)
        cpu = statistics.median(s[1] / b[1] for b, s in found)
        length = statistics.median(b[0] for b, _ in found) / 2
        print(f"trainings of {length:.0f} s: wall {wall:.4f}, CPU {cpu:.4f} of bare", end="")
        print(f" ({len(found)} pairs of 2 cells)")
        is_good = is_good and wall < 1.02
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
