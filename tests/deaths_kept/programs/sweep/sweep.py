"""Run one experiment per region, each in a process of its own, and sum up."""

import json
import subprocess
import sys
import time
from pathlib import Path

EXPERIMENTS = json.loads(Path("experiments.json").read_text())


def run(number, spec):
    command = [sys.executable, "fit_region.py"]
    for key, value in spec.items():
        command += [f"--{key}", str(value)]
    print(f"=== experiment {number}/{len(EXPERIMENTS)}: {spec['region']} ===", flush=True)
    started = time.time()
    code = subprocess.run(command).returncode
    print(f"--- {spec['region']} ended with {code} after {time.time() - started:.1f}s", flush=True)
    return code


def main():
    failed = []
    for number, spec in enumerate(EXPERIMENTS, start=1):
        if run(number, spec) != 0:
            failed.append(spec["region"])
    print(f"{len(EXPERIMENTS) - len(failed)} of {len(EXPERIMENTS)} experiments succeeded")
    if failed:
        print("failed:", ", ".join(failed), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
