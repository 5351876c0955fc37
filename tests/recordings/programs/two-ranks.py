"""Two ranks add up a gradient at each step; rank 1 fails at the sixth, rank 0 loses its peer."""

import multiprocessing.connection as connection
import os
import subprocess
import sys
import time
from pathlib import Path

ADDRESS = "ranks.socket"
RANK = os.environ.get("RANK")


def launch():
    ranks = [
        subprocess.Popen(
            [sys.executable, __file__],
            env={**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"},
        )
        for rank in range(2)
    ]
    return max(abs(rank.wait()) for rank in ranks)


def meet():
    if RANK == "0":
        with connection.Listener(ADDRESS, "AF_UNIX") as listener:
            return listener.accept()
    while not Path(ADDRESS).exists():
        time.sleep(0.01)
    return connection.Client(ADDRESS, "AF_UNIX")


def train(peer):
    for number in range(1, 10):
        time.sleep(0.4)
        if RANK == "1" and number == 6:
            raise ValueError("label 7 is out of range for 5 classes")
        peer.send(1 / number)
        gradient = peer.recv() + 1 / number
        print(f"[rank{RANK}] step {number} loss {gradient:.4f}", flush=True)


if __name__ == "__main__":
    if RANK is None:
        sys.exit(launch())
    train(meet())
