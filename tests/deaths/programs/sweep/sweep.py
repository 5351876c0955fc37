"""Train fit.py once per row of a grid file, then report the best.

    python sweep.py grid.yaml [--resume]
"""
import json
import subprocess
import sys
import time
from pathlib import Path

import yaml

HERE = Path(__file__).parent


def run_trial(i, params, root, timeout):
    out = root / f"trial_{i}"
    cmd = [sys.executable, str(HERE / "fit.py"), "--out", str(out)]
    for key, value in params.items():
        cmd += [f"--{key}", str(value)]
    print(f"=== trial {i}: {params}", flush=True)
    started = time.time()
    done = subprocess.run(cmd, timeout=timeout)
    print(f"=== trial {i} finished with {done.returncode} in {time.time() - started:.1f}s", flush=True)
    return out


def main():
    grid = yaml.safe_load(Path(sys.argv[1]).read_text())
    root = Path(grid.get("root", "trials"))
    strict = grid.get("strict", True)
    results = {}
    for i, params in enumerate(grid["trials"]):
        out = root / f"trial_{i}"
        if "--resume" in sys.argv and (out / "metrics.json").exists():
            print(f"=== trial {i}: already there, skipped")
        else:
            out = run_trial(i, params, root, grid.get("timeout"))
        if (out / "metrics.json").exists() or strict:
            results[i] = out / "metrics.json"
    losses = {i: json.loads(path.read_text())["loss"] for i, path in results.items()}
    best = min(losses, key=losses.get)
    print(f"best trial {best}: loss {losses[best]:.4f} of {len(losses)} trials")


if __name__ == "__main__":
    main()
