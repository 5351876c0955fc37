"""A loop that dies in native code at its fifth step, after a worker has ended well."""

import ctypes
import multiprocessing
import time


def worker(number):
    print("worker", number, flush=True)


def step(number):
    time.sleep(0.4)
    print("step", number, "loss", 1 / number, flush=True)
    if number == 5:
        ctypes.string_at(0)


if __name__ == "__main__":
    child = multiprocessing.get_context("fork").Process(target=worker, args=(1,))
    child.start()
    child.join()
    for number in range(1, 10):
        step(number)
