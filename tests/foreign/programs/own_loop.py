"""A training without any framework, which prints how far it is: in lines, or as a bar of tqdm."""

import argparse
import sys
import time

import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--bar", action="store_true")
arguments = parser.parse_args()

generator = np.random.default_rng(22)
inputs = generator.normal(size=(400, 6))
targets = inputs @ generator.normal(size=6)
weights = np.zeros(6)
# The output is looked at five times a second: an epoch between two looks would not be counted.
STEP_SECONDS = 0.03


def steps(epoch: int):
    batches = np.split(np.arange(400), 20)
    if arguments.bar:
        from tqdm import tqdm

        batches = tqdm(batches, desc=f"Epoch {epoch}", mininterval=0, file=sys.stderr)
    for step, rows in enumerate(batches, 1):
        yield step, rows, batches


for epoch in range(1, 4):
    for step, rows, bar in steps(epoch):
        error = inputs[rows] @ weights - targets[rows]
        loss = float((error**2).mean())
        weights -= 0.05 * inputs[rows].T @ error / len(rows)
        time.sleep(STEP_SECONDS)
        if arguments.bar:
            bar.set_postfix(loss=loss)
        else:
            print(f"Epoch [{epoch}/3], Step [{step}/20], Loss: {loss:.6f}", flush=True)
print("ended at", repr(loss))
