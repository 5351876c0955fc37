"""Behave as a program in a terminal: say what it is connected to, prompt, answer, resize, stop."""

import os
import signal
import sys

print("terminals", [os.isatty(n) for n in range(3)], flush=True)
size = os.get_terminal_size(next(n for n in range(3) if os.isatty(n)))
print("size", size.lines, size.columns, flush=True)


def resized(*_):
    size = os.get_terminal_size(1)
    print("resized", size.lines, size.columns, flush=True)


signal.signal(signal.SIGWINCH, resized)
print("is up", flush=True)
try:
    while True:
        print("got", repr(input("prompt: ")), flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.exit(7)
except EOFError:
    print("end of input", flush=True)
    sys.exit(8)
