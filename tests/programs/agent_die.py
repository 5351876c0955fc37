"""Dies of a signal in a chosen place. Arguments: library, signal number, place."""

import ctypes
import multiprocessing
import os
import subprocess
import sys
import threading

library = ctypes.CDLL(sys.argv[1])
number = int(sys.argv[2])
place = sys.argv[3]


def die_here():
    library.fault(number)


def show_end(status):
    print("ended by", status, flush=True)


def worker_of(method):
    process = multiprocessing.get_context(method).Process(target=die_here)
    process.start()
    process.join()
    show_end(process.exitcode)


if __name__ == "__main__":
    if place == "main":
        die_here()
    elif place == "python-thread":
        thread = threading.Thread(target=die_here, name="worker")
        thread.start()
        thread.join()
    elif place == "native-thread":
        library.fault_in_native_thread(number)
    elif place == "forked":
        pid = os.fork()
        if pid == 0:
            die_here()
        show_end(os.waitpid(pid, 0)[1] & 0x7F)
    elif place == "forked-in-c":
        pid = library.forked_without_python(number)
        show_end(os.waitpid(pid, 0)[1] & 0x7F)
    elif place == "vforked":
        pid = library.vforked(number)
        show_end(os.waitpid(pid, 0)[1] & 0x7F)
    elif place in ("fork-worker", "spawn-worker", "forkserver-worker"):
        worker_of(place.partition("-")[0])
    elif place == "shell-grandchild":
        command = 'exec 2>&1; "$@"; echo "shell saw $?"'
        arguments = [sys.executable, __file__, sys.argv[1], sys.argv[2], "main"]
        done = subprocess.run(["sh", "-c", command, "sh", *arguments], stdout=subprocess.PIPE)
        show_end(done.stdout.decode().strip().rpartition(" ")[2])
    else:
        raise SystemExit("no such place: " + place)
