"""Die: argv is the C library, where (main, thread, fork, spawn, shell) and how (segv, bus, …)."""

import ctypes
import multiprocessing
import os
import subprocess
import sys


def die(library, how, in_thread=False):
    native = ctypes.CDLL(library)
    if how == "deep":
        native.die_deep(0)
    way = getattr(native, f"die_{how}")
    if in_thread:
        native.die_in_thread(way)
    else:
        way()
    os._exit(98)


if __name__ == "__main__":
    library, where, how = sys.argv[1:]
    if where in ("main", "thread"):
        die(library, how, where == "thread")
    elif where == "shell":
        command = [sys.executable, __file__, library, "main", how]
        subprocess.run(["sh", "-c", '"$@"; echo the shell goes on', "sh", *command])
    else:
        child = multiprocessing.get_context(where).Process(target=die, args=(library, how))
        child.start()
        child.join()
