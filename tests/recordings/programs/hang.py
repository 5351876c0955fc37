"""The second worker is forked while a thread holds a lock: it waits for ever, the loop with it."""

import multiprocessing
import threading
import time

writing = threading.Lock()
is_written = threading.Event()


def write_in_background(is_taken):
    with writing:
        is_taken.set()
        is_written.wait()


def load(number, loaded):
    with writing:
        loaded.put(number)


def load_in_worker(number):
    loaded = multiprocessing.Queue()
    multiprocessing.get_context("fork").Process(target=load, args=(number, loaded)).start()
    return loaded.get()


if __name__ == "__main__":
    for number in range(1, 10):
        if number == 6:
            is_taken = threading.Event()
            threading.Thread(target=write_in_background, args=(is_taken,)).start()
            is_taken.wait()
        batch = load_in_worker(number) if number % 3 == 0 else number
        time.sleep(0.4)
        print("step", batch, "loss", round(1 / batch, 4), flush=True)
