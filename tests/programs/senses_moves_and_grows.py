"""Moves itself into a memory cgroup (argv[1]: its folder), then grows until it is stopped.

argv[2]: `now` grows at once, `wait` waits for a line on standard input before it grows.
"""

import os
import sys

with open(os.path.join(sys.argv[1], "cgroup.procs"), "w") as file:
    file.write(str(os.getpid()))
print("moved", flush=True)
if sys.argv[2] == "wait":
    sys.stdin.readline()
held = []
while True:
    held.append(b"x" * (1 << 20))
