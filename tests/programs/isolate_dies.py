"""Dies of a segmentation fault after a moment, unless an argument, a variable or both say not to.

--until-seconds: when it dies. --lives-with NAME: what has to be there for it to live on:
`mode` (--mode good), `variable` (GOOD=1), `both`, `nothing` (it always dies) or `always`.
--counts: counts 5 steps before it may die and 40 after, so that no clock is a part of its lifetime.
--mode strange is refused, --mode stuck never ends; both only after the imports, as programs do.
"""

import argparse
import os
import signal
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("--lives-with", default="mode")
parser.add_argument("--mode", default="bad")
parser.add_argument("--colour", default="red")
parser.add_argument("--until-seconds", type=float, default=0.1)
parser.add_argument("--works", action="store_true", help="use the processor while it waits")
parser.add_argument("--counts", action="store_true")
a = parser.parse_args()


def count(first, last):
    if a.counts:
        import rerail

        for number in range(first, last):
            rerail.step(number)


def wait(seconds):
    if not a.works:
        time.sleep(seconds)
        return
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(1000))


has_mode, has_variable = a.mode == "good", os.environ.get("GOOD") == "1"
lives = {
    "mode": has_mode,
    "variable": has_variable,
    "both": has_mode and has_variable,
    "nothing": False,
    "always": True,
}[a.lives_with]
if a.mode == "strange":
    sys.exit("a strange mode")
if a.mode == "stuck":
    time.sleep(1000)
wait(a.until_seconds)
count(0, 5)
if not lives:
    print("about to die", flush=True)
    os.kill(os.getpid(), signal.SIGSEGV)
wait(0.4)
count(5, 45)
print("done", flush=True)
