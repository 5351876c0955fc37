"""Keeps --chunk MiB of each of its 400 steps, until its limit of memory is reached."""

import argparse
import resource

import rerail

parser = argparse.ArgumentParser()
parser.add_argument("--chunk", type=int, default=8)
a = parser.parse_args()
now = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmSize"))
limit = (now << 10) + (400 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
kept = []
for number in range(400):
    kept.append(b"\1" * (a.chunk << 20))
    rerail.step(number)
