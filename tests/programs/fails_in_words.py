"""A small training whose failure is told by more than its last line; `fails_in_words.py WAY`."""

import json
import socket
import subprocess
import sys
import threading
import time


def train(steps):
    for step in range(1, steps + 1):
        print(f"step {step} loss {1 / step:.3f}", flush=True)


class DataError(RuntimeError):
    pass


def read(path):
    with open(path) as file:
        return file.read()


def batch(number):
    try:
        return read(f"shards/{number}.txt")
    except OSError as error:
        raise DataError(f"no batch {number}") from error


class Writer:
    file = None

    def close(self):
        self.file.close()


def mine(number):
    raise ValueError(f"batch {number} has no pair")


def tidies():
    writer = Writer()
    try:
        mine(6)
    finally:
        writer.close()


def optimizer(name):
    try:
        return {"sgd": 1}[name]
    except KeyError:
        raise DataError(f"there is no optimizer {name!r}") from None


def schedule(name):
    try:
        return {"cosine": 1}[name]
    except KeyError:
        raise DataError("there is no such schedule")


def rows(path):
    with open(path) as lines:
        for line in lines:
            yield json.loads(line)


def send(host, port):
    return socket.create_connection((host, port))


def norm(gradients):
    return sum(abs(one.size) for one in gradients)


def evaluate(scores):
    return scores["f1"]


def write_much():
    for number in range(100000):
        sys.stdout.write(f"token {number}\n")


def tokens():
    child = subprocess.Popen([sys.executable, __file__, "write"], stdout=subprocess.PIPE)
    child.wait()
    return child.stdout.read()


def encode():
    subprocess.run([sys.executable, __file__, "sleeps"], timeout=1, check=True)


def job(width):
    if width == 2:
        raise ValueError(f"width {width} is not a multiple of 3")
    train(width)


def jobs():
    widths = ("3", "2", "6")
    return [subprocess.call([sys.executable, __file__, "job", width]) for width in widths]


def main(way):
    if way == "write":
        write_much()
        return
    if way == "sleeps":
        time.sleep(60)
    if way == "job":
        job(int(sys.argv[2]))
        return
    if way == "jobs":
        sys.exit(max(jobs()))
    train(5)
    if way == "chain":
        batch(6)
    elif way == "tidies":
        tidies()
    elif way == "converts":
        schedule("cosinus")
    elif way == "hides":
        optimizer("adamm")
    elif way == "rows":
        with open("train.jsonl", "w") as file:
            file.write('{"x": 1}\n{"x": \n')
        list(rows("train.jsonl"))
    elif way == "refused":
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            port = closed.getsockname()[1]
        send("127.0.0.1", port)
    elif way == "nameless":
        norm([None])
    elif way == "thread":
        thread = threading.Thread(target=evaluate, args=({},), name="evaluator")
        thread.start()
        thread.join()
    elif way == "pipe":
        tokens()
    elif way == "impatient":
        encode()
    elif way == "assertion":
        import ctypes

        ctypes.CDLL(sys.argv[2]).asserts(40)


if __name__ == "__main__":
    main(sys.argv[1])
