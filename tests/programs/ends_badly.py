"""A small training that ends in the way it is asked to; `python ends_badly.py WAY [LIBRARY]`."""

import ctypes
import multiprocessing
import os
import pickle
import queue
import socket
import subprocess
import sys
import threading
import time


def train(steps):
    for step in range(1, steps + 1):
        print(f"step {step} loss {1 / step:.3f}", flush=True)


def opens_files(kept=None):
    kept = []
    while True:
        kept.append(open(__file__))


def resume(path):
    with open(path, "rb") as file:
        return pickle.load(file)


class Metrics:
    def __init__(self, path):
        self.file = open(path, "w")

    def add(self, text):
        self.file.write(text)
        self.file.flush()


def validate():
    return open("data/val.txt").read()


def uses_the_processor():
    while True:
        pass


def grows(path):
    with open(path, "wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)


def log(number):
    print(number, flush=True)


def call(library, name):
    getattr(ctypes.CDLL(library), name)(40)


def in_thread(library, name):
    thread = threading.Thread(target=call, args=(library, name))
    thread.start()
    thread.join()


def load(path):
    with open(path, "rb") as file:
        return file.read()


def ask(port):
    connection = socket.create_connection(("127.0.0.1", port))
    return connection.recv(10)


def fills(queue):
    for _ in range(100):
        queue.put(b"x" * 10000)


def waits_for_child():
    queue = multiprocessing.get_context("fork").Queue()
    child = multiprocessing.get_context("fork").Process(target=fills, args=(queue,))
    child.start()
    child.join()


def starts(program):
    subprocess.run([sys.executable, program, "eats"], check=True)


def eats():
    eaten = []
    while True:
        eaten.append(bytearray(os.urandom(1 << 20)))
        time.sleep(0.003)


def prefetch(batches):
    for _ in range(20):
        batches.put(1)
    raise ValueError("shard 21 is empty")


def consume():
    batches = queue.Queue()
    thread = threading.Thread(target=prefetch, args=(batches,), name="prefetch")
    thread.start()
    thread.join()
    for step in range(6, 100):
        batches.get()
        print(f"step {step} loss {1 / step:.3f}", flush=True)


def leaves(code):
    sys.exit(code)


def leaves_at_once(code):
    os._exit(code)


def gives_up():
    try:
        {}["text"]
    except KeyError:
        print("giving up", file=sys.stderr)
        sys.exit(1)


def leaves_and_stays():
    try:
        sys.exit(4)
    except SystemExit:
        os.kill(os.getpid(), 9)


def main(way, library=""):
    train(5)
    if way == "files":
        opens_files()
    elif way == "pickle":
        with open("last.ckpt", "wb") as file:
            file.write(pickle.dumps(list(range(1000)))[:500])
        resume("last.ckpt")
    elif way == "full":
        Metrics("/dev/full").add("1")
    elif way == "moved":
        os.makedirs("runs/one")
        os.chdir("runs/one")
        validate()
    elif way == "cpu":
        uses_the_processor()
    elif way == "size":
        grows("large.bin")
    elif way == "pipe":
        for number in range(10**6):
            log(number)
    elif way in ("throws", "traps"):
        call(library, way)
    elif way == "deep":
        in_thread(library, way)
    elif way == "exits":
        call(library, "crash_later")
    elif way == "raises_and_crashes":
        call(library, "crash_later")
        raise ValueError("no such column: label")
    elif way == "fifo":
        os.mkfifo("part-3.bin")
        load("part-3.bin")
    elif way == "socket":
        server = socket.create_server(("127.0.0.1", 0))
        ask(server.getsockname()[1])
    elif way == "join":
        waits_for_child()
    elif way == "child":
        starts(__file__)
    elif way == "eats":
        eats()
    elif way == "leaves":
        leaves(4)
    elif way == "leaves_at_once":
        leaves_at_once(3)
    elif way == "gives_up":
        gives_up()
    elif way == "consume":
        consume()
    elif way == "stays":
        open("begun", "w").close()
        time.sleep(60)
    elif way == "leaves_and_stays":
        leaves_and_stays()


if __name__ == "__main__":
    main(*sys.argv[1:])
