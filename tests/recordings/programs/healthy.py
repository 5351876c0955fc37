"""Fifteen steps, with a worker that loads ahead and a checkpoint, and a good end."""

import multiprocessing
import pickle
import time
from pathlib import Path


def load(number):
    return [number] * 1000


if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(1) as pool:
        for number in range(1, 16):
            batch = pool.apply(load, (number,))
            time.sleep(0.4)
            print("step", number, "loss", round(1 / number, 4), flush=True)
            if number % 5 == 0:
                kept = Path(f"checkpoint-{number}.pkl")
                kept.write_bytes(pickle.dumps({"step": number, "batch": batch}))
                print("saved", kept, flush=True)
