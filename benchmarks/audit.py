"""How long does the audit of an environment take, and does it import anything of it?

    .venv/bin/python -m benchmarks.audit [--python PATH]

Audits everything that is installed for a Python, once cold in a process of its own and then
several times warm. Prints seconds for both, the number of packages and native files, and the bar.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from rerail.preflight.audit.auditing import audit

BAR_SECONDS = 3.0
_ROUNDS = 5


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", default=sys.executable)
    args = parser.parse_args()
    prefix = Path(args.python).parent.parent
    environ = {**os.environ, "VIRTUAL_ENV": str(prefix)}
    begun, cpu_begun = time.perf_counter(), os.times().children_user
    done = subprocess.run(
        [sys.executable, "-m", "rerail", "check", "--json"],
        env=environ,
        capture_output=True,
        timeout=300,
    )
    first = time.perf_counter() - begun
    first_cpu = os.times().children_user - cpu_begun
    document = json.loads(done.stdout)
    seconds = []
    for _ in range(_ROUNDS):
        begun = time.process_time()
        found = audit([], Path.cwd(), environ)
        seconds.append(time.process_time() - begun)
    native = sum(len(d.native) for d in found.target.distributions.values())
    packages = len(found.target.distributions)
    heavy = {"torch", "numpy"} & set(sys.modules)
    bad = [f"{f['level']}: {f['title']}" for f in document["findings"] if f["level"] != "fine"]
    print(
        f"{packages} packages, {native} native files; imported of it: {sorted(heavy) or 'nothing'}"
    )
    print(f"as a command: {first:.2f} s wall, {first_cpu:.2f} s CPU")
    print(f"the audit itself, warm: {statistics.median(seconds):.2f} s CPU")
    for line in bad:
        print(line)
    print(f"{first / BAR_SECONDS:.2f} of the {BAR_SECONDS:.0f} s that it may take")
    return 0 if first < BAR_SECONDS and not heavy else 1


if __name__ == "__main__":
    sys.exit(main())
