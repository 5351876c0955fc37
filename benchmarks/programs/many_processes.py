"""So many processes: every fourth works a little and changes its memory, the others sleep."""

from __future__ import annotations

import os
import sys
import time


def live(is_working: bool, parent: int) -> None:
    kept = []
    while os.getppid() == parent:
        if is_working:
            kept.append(bytes(100_000))
            del kept[:-50]
            sum(range(20_000))
        time.sleep(0.05 if is_working else 1.0)


def main() -> None:
    parent = os.getpid()
    for number in range(int(sys.argv[1]) - 1):
        if os.fork() == 0:
            live(number % 4 == 0, parent)
            os._exit(0)
    print("up", flush=True)
    sys.stdin.readline()


main()
