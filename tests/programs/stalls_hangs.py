"""Ways to stand still, or to look like it. argv[1]: which."""

import os
import queue
import subprocess
import sys
import threading
import time

lock = threading.Lock()


class Store:
    def __init__(self):
        self.lock = threading.Lock()

    def flush(self, ready, other):
        with self.lock:
            ready.set()
            other.wait()
            other_store.save()

    def save(self):
        with self.lock:
            pass


other_store = Store()


def held_by_a_thread():
    ready = threading.Event()

    def flush():
        with lock:
            ready.set()
            time.sleep(3600)

    threading.Thread(target=flush, name="flusher", daemon=True).start()
    ready.wait()
    save()


def save():
    lock.acquire()


def held_by_itself():
    with lock:
        save()


def in_another_order():
    """Two objects of one class: only their addresses tell their locks apart."""
    mine, ready, go = Store(), threading.Event(), threading.Event()
    threading.Thread(target=mine.flush, args=(ready, go), daemon=True).start()
    ready.wait()
    with other_store.lock:
        go.set()
        mine.save()


def empty_queue():
    queue.Queue().get()


def silent_pipe():
    read_end, _write_end = os.pipe()
    os.read(read_end, 1)


def child_that_hangs():
    subprocess.run(["sleep", "3600"], check=True)


def hanging_worker():
    from torch.utils.data import DataLoader

    for _ in DataLoader(HangsAtTheThird(), num_workers=2, batch_size=1):
        pass


class HangsAtTheThird:
    def __len__(self):
        return 8

    def __getitem__(self, index):
        if index == 3:
            silent_pipe()
        return index


def computes():
    began = time.monotonic()
    number = 0
    while time.monotonic() - began < float(sys.argv[2]):
        number += 1


def multiplies():
    import numpy

    began = time.monotonic()
    matrix = numpy.ones((600, 600))
    while time.monotonic() - began < float(sys.argv[2]):
        matrix = matrix @ matrix / 600


def reads_and_writes():
    """Little CPU, many bytes."""
    began = time.monotonic()
    with open("/dev/zero", "rb") as source, open("/dev/null", "wb") as target:
        while time.monotonic() - began < float(sys.argv[2]):
            target.write(source.read(1 << 16))
            time.sleep(0.05)


def sleeps_between_words():
    for number in range(6):
        print(number, flush=True)
        time.sleep(0.5)


if __name__ == "__main__":
    print("begun", flush=True)
    globals()[sys.argv[1]]()
    print("done", flush=True)
