"""A worker process reads a null pointer at the sixth sample; the loop finds its pool broken."""

import concurrent.futures
import ctypes
import multiprocessing
import time


def load(number):
    if number == 6:
        ctypes.string_at(0)
    return number


if __name__ == "__main__":
    workers = concurrent.futures.ProcessPoolExecutor(
        1, mp_context=multiprocessing.get_context("fork")
    )
    with workers:
        for number in range(1, 10):
            loaded = workers.submit(load, number).result()
            time.sleep(0.4)
            print("step", loaded, "loss", round(1 / loaded, 4), flush=True)
