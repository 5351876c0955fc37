"""Fails before its first step, each time after another while, unless GOOD=1; then it does 40 steps.

--how hang: it waits for ever; --how exit: it ends with an error.
"""

import argparse
import os
import random
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("--how", default="exit")
a = parser.parse_args()
time.sleep(random.uniform(0.0, 0.8))
if os.environ.get("GOOD") != "1":
    if a.how == "hang":
        time.sleep(1000)
    sys.exit("the store of batches cannot be opened")

import rerail  # noqa: E402

for number in range(40):
    rerail.step(number)
    time.sleep(0.01)
