"""Says something ten times a second; in its bad mode it then waits for a lock, for ever."""

import argparse
import threading
import time

parser = argparse.ArgumentParser()
parser.add_argument("--mode", default="bad")
parser.add_argument("--colour", default="red")
args = parser.parse_args()

started = time.monotonic()
while time.monotonic() < started + 30.0:
    print(f"{time.monotonic() - started:.1f} s", flush=True)
    time.sleep(0.1)
    if args.mode == "bad" and time.monotonic() > started + 0.5:
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()
