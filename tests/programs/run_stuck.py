"""Print a line, then nothing for so many seconds; `stubborn`: with a child, deaf to SIGTERM."""

import os
import signal
import sys
import time


def waits_for_nothing(seconds):
    time.sleep(seconds)


if "stubborn" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork() == 0:
        os.setsid()
        waits_for_nothing(float(sys.argv[1]))
        os._exit(0)
print("begun", flush=True)
waits_for_nothing(float(sys.argv[1]))
print("done", flush=True)
