"""A process that starts one child by fork and one by spawn, with the helper that spawn brings."""

import multiprocessing
import time


def work():
    time.sleep(0.4)


if __name__ == "__main__":
    forked = multiprocessing.get_context("fork").Process(target=work)
    forked.start()
    spawned = multiprocessing.get_context("spawn").Process(target=work)
    spawned.start()
    forked.join()
    spawned.join()
