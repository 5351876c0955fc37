"""How fast is a large log read? `rerail explain` beside `grep -E -c` of the same words.

    .venv/bin/python -m benchmarks.explain_throughput [--megabytes 1024] [--rounds 3]

Writes a training log of that size with a death at its end into a temporary folder, lets grep count
the lines with any of the words that rerail searches for, and lets rerail explain the same file, in
turn. Prints seconds, the ratio, and the peak memory of each. The bar: at most 3 times grep, and
under 300 MB. `--files 200 --megabytes 10` reads a job folder of many files instead.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WORDS = [
    "data",
    "time",
    "mem",
    "worker",
    "batch",
    "val",
    "acc",
    "saved",
    "optimizer",
    "warmup",
    "scheduler",
    "tokens",
]
DEATH = (
    "Traceback (most recent call last):\n"
    '  File "train.py", line 88, in <module>\n    loss.backward()\n'
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
)


def write_log(path: Path, size_bytes: int, seed: int = 1) -> None:
    chooser = random.Random(seed)
    with path.open("w") as file:
        written = step = 0
        while written < size_bytes:
            lines = []
            for _ in range(2000):
                step += 1
                lines.append(
                    f"2026-11-15 21:{step // 60 % 60:02}:{step % 60:02},{step % 1000:03} INFO "
                    f"trainer.py:{chooser.randint(10, 900)} step {step}/9000000 "
                    f"loss={chooser.random() * 3:.4f} lr={chooser.random() * 1e-3:.6f} "
                    f"{' '.join(chooser.choices(WORDS, k=5))} {chooser.randint(0, 10**9)}\n"
                )
            block = "".join(lines)
            file.write(block)
            written += len(block)
        file.write(DEATH)


def timed(command: list[str], output: Path) -> tuple[float, float, float, int]:
    """(wall seconds, CPU seconds, peak MB, exit status) of one child.

    The output goes to a file: grep stops at the first match when it is /dev/null.
    """
    started = time.monotonic()
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    pid = os.posix_spawnp(
        command[0],
        command,
        {**os.environ, "LC_ALL": "C"},
        file_actions=[(os.POSIX_SPAWN_OPEN, 1, str(output), flags, 0o600)],
    )
    _, status, usage = os.wait4(pid, 0)
    scale = 1 << 20 if sys.platform == "darwin" else 1 << 10
    return (
        time.monotonic() - started,
        usage.ru_utime + usage.ru_stime,
        usage.ru_maxrss / scale,
        os.waitstatus_to_exitcode(status),
    )


def grep_pattern() -> str:
    from rerail.catalogue import load_catalogue
    from rerail.evidence.text.logs import search_words

    words = search_words(load_catalogue())
    return "|".join(re.sub(r"([][\\.^$*+?(){}|])", r"\\\1", word) for word in words)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--files", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        logs = [folder / f"rank{n}.log" for n in range(arguments.files)]
        for n, log in enumerate(logs):
            write_log(log, arguments.megabytes << 20, seed=n)
        pattern = folder / "words"
        pattern.write_text(grep_pattern() + "\n")
        grep = ["grep", "-i", "-E", "-c", "-f", str(pattern), *map(str, logs)]
        rerail = [sys.executable, "-m", "rerail", "explain", "--json", *map(str, logs)]
        subprocess.run(["cat", *map(str, logs)], stdout=subprocess.DEVNULL, check=True)  # warm
        said = folder / "said"
        rows = [(timed(grep, said), timed(rerail, said)) for _ in range(arguments.rounds)]
    assert all(row[1][3] == 1 for row in rows), "rerail did not find the death"
    grep_wall, grep_cpu = (statistics.median(row[0][at] for row in rows) for at in (0, 1))
    wall, cpu = (statistics.median(row[1][at] for row in rows) for at in (0, 1))
    peak = max(row[1][2] for row in rows)
    total = arguments.megabytes * arguments.files
    print(f"{arguments.files} file(s), {total} MiB, {arguments.rounds} rounds, medians")
    print(f"grep -i -E -c   {grep_wall:6.2f} s  ({grep_cpu:.2f} s of CPU)")
    print(f"rerail explain  {wall:6.2f} s  ({cpu:.2f} s of CPU)  peak {peak:.0f} MB")
    print(f"ratio {wall / grep_wall:.2f} of time, {cpu / grep_cpu:.2f} of CPU (bar: 3; 300 MB)")


if __name__ == "__main__":
    main()
