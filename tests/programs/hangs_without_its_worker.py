"""Waits for a worker of `multiprocessing` that is gone. argv[1]: how that one ends."""

import ctypes
import multiprocessing as mp
import os
import signal
import sys


def ends(way):
    if way == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if way == "crashes":
        ctypes.string_at(0)
    if way == "leaves":
        os._exit(3)
    raise RuntimeError("shard 3 is missing")


def produces(queue):
    queue.put(0)
    queue.close()
    queue.join_thread()
    ends("raises")


def main():
    print("step 1", flush=True)
    if sys.argv[1] == "raises":
        queue = mp.Queue()
        mp.Process(target=produces, args=(queue,)).start()
        while True:
            queue.get()
    with mp.Pool(2) as pool:
        pool.map(ends, [sys.argv[1]])


if __name__ == "__main__":
    mp.set_start_method("fork")
    main()
