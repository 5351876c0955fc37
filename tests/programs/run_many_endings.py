"""Record many commands, each in a forked child that ends as its command ended; print how.

One interpreter start serves them all. Arguments: the store, then one word per ending: a number is
an exit code, a name is a signal that the command sends itself.
"""

import os
import signal
import sys
from pathlib import Path

from rerail.cli.run import end_as
from rerail.recorder import RunOptions, record
from rerail.store import Store

AT_ONCE = 8
home = Path(sys.argv[1])
running = {}


def wait_for_one():
    pid, status = os.wait()
    code = os.waitstatus_to_exitcode(status)
    print(running.pop(pid), code if code >= 0 else signal.Signals(-code).name, flush=True)


for word in sys.argv[2:]:
    pid = os.fork()
    if pid == 0:
        action = f"exit {word}" if word.isdecimal() else f"kill -{int(signal.Signals[word])} $$"
        options = RunOptions(use_agent=False, owns_process=True)
        done = record(["/bin/sh", "-c", action], Store(home), options)
        end_as(done.exit_code, done.signal_number)
    running[pid] = word
    if len(running) == AT_ONCE:
        wait_for_one()
while running:
    wait_for_one()
