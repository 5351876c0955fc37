"""A parent and workers whose memory is known: shares_memory.py HOW WORKERS [FILE].

fork: the parent's 300 MiB are shared. fork-and-write: each worker writes over 100 MiB of them.
spawn: 100 MiB in each process. shm: 100 MiB of shared memory in all. mapped: all map FILE. read:
all read FILE and keep nothing. Says the pids of the workers when all is in place, then waits until
its input ends.
"""

import mmap
import multiprocessing
import sys

MIB = 1 << 20


def filled(size):
    data = bytearray(size)
    for at in range(0, size, 4096):
        data[at] = 1
    return data


def touched(area):
    for at in range(0, len(area), 4096):
        area[at]
    return area


def work(how, argument, ready, over):
    kept = None
    if how == "fork-and-write":
        for at in range(0, 100 * MIB, 4096):
            argument[at] = 2
    elif how == "spawn":
        kept = filled(100 * MIB)
    elif how == "shm":
        kept = touched(argument)
    elif how == "mapped":
        kept = mapped(argument)
    elif how == "read":
        read(argument)
    ready.release()
    over.acquire()
    del kept


def mapped(path):
    with open(path, "rb") as file:
        return touched(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def read(path):
    with open(path, "rb") as file:
        while file.read(MIB):
            pass


def main():
    how, count = sys.argv[1], int(sys.argv[2])
    context = multiprocessing.get_context("spawn" if how == "spawn" else "fork")
    ready, over = context.Semaphore(0), context.Semaphore(0)
    argument = sys.argv[3] if len(sys.argv) > 3 else None
    kept = None
    if how in ("fork", "fork-and-write"):
        argument = filled(300 * MIB)
    elif how == "spawn":
        kept = filled(100 * MIB)
    elif how == "shm":
        argument = mmap.mmap(-1, 100 * MIB)
        for at in range(0, 100 * MIB, 4096):
            argument[at] = 1
    elif how == "mapped":
        kept = mapped(argument)
    elif how == "read":
        read(argument)
    workers = [
        context.Process(target=work, args=(how, argument, ready, over)) for _ in range(count)
    ]
    for worker in workers:
        worker.start()
    for _ in workers:
        ready.acquire()
    print(*(worker.pid for worker in workers), flush=True)
    sys.stdin.read()
    for _ in workers:
        over.release()
    for worker in workers:
        worker.join()
    del kept


if __name__ == "__main__":
    main()
