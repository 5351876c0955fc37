"""Dies of a segmentation fault after a moment, unless an argument, a variable or both say not to.

--until-seconds: when it dies. --lives-with NAME: what has to be there for it to live on:
`mode` (--mode good), `variable` (GOOD=1), `both`, `nothing` (it always dies) or `always`.
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
parser.add_argument("--until-seconds", type=float, default=0.2)
a = parser.parse_args()

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
time.sleep(a.until_seconds)
if not lives:
    print("about to die", flush=True)
    os.kill(os.getpid(), signal.SIGSEGV)
time.sleep(1.0)
print("done", flush=True)
