"""A small training that can be killed anywhere: checkpoints, goes on, and ends with the same bytes.

Faults are asked for by a file `faults/<RERAIL_CELL>` beside this program's --faults folder, one
word per line; each is taken away before it happens, so that it happens once.
"""

import argparse
import ctypes
import json
import os
import random
import sys
import time
import zipfile
from pathlib import Path


def replace(path: Path, data: bytes) -> None:
    beside = path.with_name(f".{path.name}.new")
    beside.write_bytes(data)
    os.replace(beside, path)


def next_fault(folder: str) -> str:
    path = Path(folder) / os.environ.get("RERAIL_CELL", "none") if folder else None
    if path is None or not path.exists():
        return ""
    first, _, rest = path.read_text().partition("\n")
    replace(path, rest.encode())
    return first.strip()


def suffer(fault: str) -> None:
    if fault == "segfault":
        ctypes.string_at(0)
    elif fault == "raise":
        raise ValueError("a shape that does not fit")
    elif fault == "kill":
        os.kill(os.getpid(), 9)
    elif fault == "leave-nothing":
        sys.exit(0)
    elif fault == "half-a-file":
        Path("weights").mkdir(exist_ok=True)
        Path("weights/final.npz").write_bytes(b"PK\x03\x04half")
        sys.exit(0)
    elif fault == "grow":
        kept = bytearray(os.urandom(1 << 20) * 400)
        time.sleep(3600)
        print(len(kept))
    elif fault == "hang":
        time.sleep(3600)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--width", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--step-seconds", type=float, default=0.0)
    parser.add_argument("--faults", default="")
    parser.add_argument("--started", default="")
    options = parser.parse_args()
    out = Path("weights")
    out.mkdir(exist_ok=True)
    checkpoint = out / "checkpoint.json"
    state = {"step": 0, "weights": [0.0] * options.width, "draws": options.seed}
    if checkpoint.exists():
        state = json.loads(checkpoint.read_text())
        print(f"going on from step {state['step']}", flush=True)
    if options.started:
        with open(options.started, "a") as file:
            file.write(f"{os.environ.get('RERAIL_CELL')} {os.getpid()}\n")
    while state["step"] < options.steps:
        draw = random.Random(state["draws"])
        state["weights"] = [w + options.lr * (draw.random() - 0.3) for w in state["weights"]]
        state["draws"] = draw.getrandbits(32)
        state["step"] += 1
        time.sleep(options.step_seconds)
        replace(checkpoint, json.dumps(state).encode())
        print(f"step {state['step']} loss {sum(state['weights']):.4f}", flush=True)
        if state["step"] == options.steps // 2:
            suffer(next_fault(options.faults))
    with zipfile.ZipFile(out / ".final.new", "w") as archive:
        entry = zipfile.ZipInfo("weights.json", (1980, 1, 1, 0, 0, 0))
        archive.writestr(entry, json.dumps(state["weights"]) * 200)
    os.replace(out / ".final.new", out / "final.npz")
    score = sum(state["weights"]) / options.width
    replace(Path("metrics.json"), json.dumps({"val": {"score": score}}).encode())


main()
