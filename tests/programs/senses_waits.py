"""A parent that waits for its child, which reads from a pipe that nobody writes to.

argv[1]: a FIFO on which the child says its pid.
"""

import os
import sys
import threading


def hold_a_lock():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


read_end, write_end = os.pipe()
child = os.fork()
if child == 0:
    os.close(write_end)
    threading.Thread(target=hold_a_lock, name="locked", daemon=True).start()
    with open(sys.argv[1], "w") as ready:
        ready.write(f"{os.getpid()}\n")
    os.read(read_end, 1)
os.waitpid(child, 0)
