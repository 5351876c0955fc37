"""Grows on command: reads lines from standard input, answers each with a line once it is done.

anon N | shared N (bytes) · threads N · fds N · burn SECONDS
"""

import mmap
import os
import sys
import threading
import time

held = []
print("ready", flush=True)
for line in sys.stdin:
    what, amount = line.split()
    if what == "anon":
        held.append(b"x" * int(amount))
    elif what == "shared":
        region = mmap.mmap(-1, int(amount))
        region.write(b"x" * int(amount))
        held.append(region)
    elif what == "threads":
        for _ in range(int(amount)):
            threading.Thread(target=threading.Event().wait, daemon=True).start()
    elif what == "fds":
        held.extend(os.open(os.devnull, os.O_RDONLY) for _ in range(int(amount)))
    elif what == "burn":
        end = time.process_time() + float(amount)
        while time.process_time() < end:
            pass
    print("done", flush=True)
