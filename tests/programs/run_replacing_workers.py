"""Keep four workers; name them; when one dies, replace it. So many times, then end well."""

import os
import signal
import sys
import time


def new_worker():
    pid = os.fork()
    if pid == 0:
        while os.getppid() != 1:
            time.sleep(0.05)
        os._exit(0)
    return pid


workers = [new_worker() for _ in range(4)]
for _ in range(int(sys.argv[1])):
    print(*workers, flush=True)
    dead, _ = os.wait()
    workers[workers.index(dead)] = new_worker()
for pid in workers:
    os.kill(pid, signal.SIGTERM)
    os.waitpid(pid, 0)
