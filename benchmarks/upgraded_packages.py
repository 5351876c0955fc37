"""Which of the upgraded packages broke the program: real packages, real environments.

    python -m benchmarks.upgraded_packages

Five environments, in each of which at least eight packages were upgraded and one of them makes the
program fail: numpy 2 under an extension that was built for numpy 1 (twice), and a wrapper package
of our own in two versions, the newer of which has a race (three times, failing more and less
often). `isolate --upgrades OLD NEW` has to name it. Printed: the answer, the runs, how long the
first environment and the others took to build, and what uv alone takes for the first, with an
empty cache.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "programs"))
from wheelhouse import make_wheel

from rerail.experiments.environments.uv import find_uv

# Pure Python, upgraded in every case: old and new.
HARMLESS = {
    "idna": ("3.4", "3.10"),
    "packaging": ("23.2", "24.2"),
    "six": ("1.16.0", "1.17.0"),
    "attrs": ("23.1.0", "24.3.0"),
    "click": ("8.1.3", "8.1.8"),
    "tqdm": ("4.66.1", "4.67.1"),
    "certifi": ("2023.7.22", "2024.12.14"),
    "toolz": ("0.12.0", "1.0.0"),
}
IMPORTS = "import idna, packaging, six, attrs, click, tqdm, certifi, toolz\n"
NUMPY = ("1.26.4", "2.2.6")

# A buffer is used before the thread that makes it is sure to be done.
RACE = """
import ctypes, random, threading, time

class Buffer:
    address = 0

def _fill(buffer, room):
    time.sleep(random.SystemRandom().random() * 0.02)
    buffer.address = ctypes.addressof(room)

def use():
    room, buffer = ctypes.create_string_buffer(b"full"), Buffer()
    thread = threading.Thread(target=_fill, args=(buffer, room))
    thread.start()
    {wait}
    found = ctypes.string_at(buffer.address)
    thread.join()
    return found
"""


@dataclass(frozen=True)
class Case:
    name: str
    culprit: str
    versions: tuple[str, str]
    kept: tuple[str, ...]  # installed, and not upgraded
    program: str
    wait: str = ""


CASES = (
    Case("numexpr built for numpy 1", "numpy", NUMPY, ("numexpr==2.8.4",), "import numexpr\n"),
    Case(
        "bottleneck built for numpy 1",
        "numpy",
        NUMPY,
        ("bottleneck==1.3.7",),
        "import bottleneck\n",
    ),
    *(
        Case(
            f"race, {often}",
            "fastbuffer",
            ("1.0", "2.0"),
            ("numpy==1.26.4",),
            "import numpy, fastbuffer\nfastbuffer.use()\n",
            f"time.sleep({wait})",
        )
        for often, wait in (("in most runs", 0.004), ("in half", 0.01), ("in some", 0.014))
    ),
)


def ask(case: Case, uv: str, folder: Path) -> None:
    house = folder / "wheels"
    house.mkdir()
    make_wheel(house, "fastbuffer", "1.0", RACE.replace("{wait}", "thread.join()"))
    make_wheel(house, "fastbuffer", "2.0", RACE.replace("{wait}", case.wait or "thread.join()"))
    links = " ".join(filter(None, (os.environ.get("PIP_FIND_LINKS"), str(house))))
    environ = {**os.environ, "PIP_FIND_LINKS": links, "UV_CACHE_DIR": str(folder / "cache")}
    upgraded = {**HARMLESS, case.culprit: case.versions}
    for at, name in ((0, "old.txt"), (1, "new.txt")):
        lines = [f"{package}=={versions[at]}" for package, versions in upgraded.items()]
        (folder / name).write_text("\n".join([*lines, *case.kept, ""]))
    subprocess.run([sys.executable, "-m", "venv", str(folder / "own")], check=True)
    python = str(folder / "own" / "bin" / "python")
    words = [python, "-m", "pip", "install", "-q", "--no-deps", "-r", str(folder / "new.txt")]
    subprocess.run(words, env=environ, check=True, capture_output=True)
    (folder / "train.py").write_text(IMPORTS + case.program)
    alone = seconds_of_uv(uv, case, folder, environ)
    words = [
        sys.executable,
        "-m",
        "rerail",
        "isolate",
        "--yes",
        "--json",
        "--home",
        str(folder / "home"),
    ]
    words += ["--budget", "20m", "--upgrades", "old.txt", "new.txt", "--", python, "train.py"]
    started = time.monotonic()
    done = subprocess.run(words, cwd=folder, env=environ, capture_output=True, text=True)
    took = time.monotonic() - started
    if not done.stdout:
        print(f"{case.name:30} no answer: {done.stderr.strip()[-300:]}", flush=True)
        return
    document = json.loads(done.stdout)
    built = [each["seconds"] for each in document["environments"]] or [0.0]
    wanted = [f"{case.culprit}=={case.versions[0]}"]
    answer = (
        "right" if document["changes"] == wanted else f"{document['status']} {document['changes']}"
    )
    crashed = sum(trial["outcome"] == "crashed" for trial in document["trials"])
    print(
        f"{case.name:30} {len(upgraded):3} {len(document['trials']):5} {crashed:7} {took:6.0f}"
        f" {alone:6.1f} {built[0]:6.1f} {max(built[1:], default=0.0):7.1f}  {answer}",
        flush=True,
    )


def seconds_of_uv(uv: str, case: Case, folder: Path, environ: dict[str, str]) -> float:
    """To make an environment with the old culprit and all the rest, from an empty cache."""
    from rerail.experiments.environments.uv import index_variables

    lines = (
        (folder / "new.txt")
        .read_text()
        .replace(f"{case.culprit}=={case.versions[1]}", f"{case.culprit}=={case.versions[0]}")
    )
    (folder / "one.txt").write_text(lines)
    told = {**environ, **index_variables(environ, folder / "own")}
    told["UV_CACHE_DIR"] = str(folder / "other-cache")
    target = str(folder / "alone")
    started = time.monotonic()
    subprocess.run([uv, "venv", "-q", "--python", sys.executable, target], env=told, check=True)
    words = [uv, "pip", "install", "-q", "--no-deps", "--python", f"{target}/bin/python"]
    subprocess.run([*words, "-r", str(folder / "one.txt")], env=told, check=True)
    return time.monotonic() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", type=int, help="the number of one environment")
    args = parser.parse_args()
    uv = find_uv()
    if uv is None:
        sys.exit("uv is not installed: pip install 'rerail[environments]'")
    heads = (
        ("of", 3),
        ("runs", 5),
        ("crashed", 7),
        ("s", 6),
        ("uv s", 6),
        ("first", 6),
        ("others", 7),
    )
    print(f"{'':30} " + " ".join(f"{head:>{width}}" for head, width in heads) + "  answer")
    for number, case in enumerate(CASES):
        if args.only in (None, number):
            with tempfile.TemporaryDirectory() as name:
                ask(case, uv, Path(name))


if __name__ == "__main__":
    main()
