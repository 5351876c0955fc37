"""Waits for a worker of `multiprocessing`, or a thread, that is gone. argv[1]: how it ends."""

import ctypes
import multiprocessing as mp
import os
import queue
import signal
import sys
import threading


def ends(way):
    if way == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if way == "crashes":
        ctypes.string_at(0)
    if way == "leaves":
        os._exit(3)
    raise RuntimeError("shard 3 is missing")


def produces(items):
    items.put(0)
    items.close()
    items.join_thread()
    ends("raises")


def prefetches(items):
    items.put(0)
    ends("raises")


def main():
    print("step 1", flush=True)
    if sys.argv[1] == "raises":
        items = mp.Queue()
        mp.Process(target=produces, args=(items,)).start()
        while True:
            items.get()
    if sys.argv[1] == "thread":
        items = queue.Queue()
        threading.Thread(target=prefetches, args=(items,), name="prefetch", daemon=True).start()
        while True:
            items.get()
    with mp.Pool(2) as pool:
        pool.map(ends, [sys.argv[1]])


if __name__ == "__main__":
    mp.set_start_method("fork")
    main()
