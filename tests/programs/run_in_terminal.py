"""Behave as a program in a terminal: say what it is connected to, prompt, answer, resize, stop."""

import os
import select
import signal
import sys

print("terminals", [os.isatty(n) for n in range(3)], flush=True)
size = os.get_terminal_size(next(n for n in range(3) if os.isatty(n)))
print("size", size.lines, size.columns, flush=True)


def resized(*_):
    size = os.get_terminal_size(1)
    # The signal may come while `print` writes, and a buffered writer cannot be entered twice.
    os.write(1, f"resized {size.lines} {size.columns}\n".encode())


signal.signal(signal.SIGWINCH, resized)

# `input` loses a ^C that comes after its prompt and before its read begins: the interpreter only
# notes the signal, and the read then waits for a line. The wake-up descriptor closes that gap.
woken, wake = os.pipe()
os.set_blocking(wake, False)
signal.set_wakeup_fd(wake)


def ask(prompt):
    print(prompt, end="", flush=True)
    while True:
        ready, _, _ = select.select([0, woken], [], [])
        if woken in ready:
            os.read(woken, 64)
        elif line := sys.stdin.readline():
            return line.rstrip("\n")
        else:
            raise EOFError


print("is up", flush=True)
try:
    while True:
        print("got", repr(ask("prompt: ")), flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.exit(7)
except EOFError:
    print("end of input", flush=True)
    sys.exit(8)
