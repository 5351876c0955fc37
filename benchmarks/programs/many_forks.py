"""Forks and waits, as often as the first argument says; with the second, in a program that has
imported what nearly every larger one has, and that does something of its own after each fork."""

import os
import sys

if sys.argv[2:] == ["threads"]:
    import threading  # noqa: F401

for _ in range(int(sys.argv[1])):
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
