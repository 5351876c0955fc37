"""Dies in a mining round, at random: the oftener it mines, the sooner.

--mine-every N: steps between two rounds. --miner none: it never mines, and lives. --turns FILE
holds how many times it was run, so that the rounds in which it dies are the same in every test.
--harmless: rounds do not kill it at all where the interval is below 20.
"""

import argparse
import os
import signal
import time
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--mine-every", type=int, default=100)
parser.add_argument("--miner", default="hard")
parser.add_argument("--colour", default="red")
parser.add_argument("--turns", required=True)
parser.add_argument("--harmless", action="store_true")
parser.add_argument("--steps", type=int, default=900)
a = parser.parse_args()

STEP_SECONDS = 0.005
ROUNDS = (6, 3, 5, 8, 2, 4, 7, 3, 6, 4, 5, 2)
turns = Path(a.turns)
turn = int(turns.read_text()) if turns.exists() else 0
turns.write_text(str(turn + 1))
deadly = ROUNDS[turn % len(ROUNDS)]
rounds = 0
for step in range(1, a.steps + 1):
    time.sleep(STEP_SECONDS)
    if a.miner == "none" or step % a.mine_every:
        continue
    rounds += 1
    print(f"mining: step {step}", flush=True)
    if rounds == deadly and not (a.harmless and a.mine_every < 20):
        os.kill(os.getpid(), signal.SIGSEGV)
print("done", flush=True)
