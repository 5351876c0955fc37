"""Print the name of each signal that arrives, until standard input ends and all is quiet."""

import os
import signal
import sys
import time

NAMES = "SIGINT SIGTERM SIGHUP SIGQUIT SIGUSR1 SIGUSR2 SIGWINCH SIGALRM SIGCONT".split()
for name in NAMES:
    signal.signal(
        signal.Signals[name], lambda n, _: os.write(1, f"{signal.Signals(n).name}\n".encode())
    )
os.write(1, b"up\n")
sys.stdin.read()
time.sleep(0.3)  # a second copy that is still under way is to be seen
