"""Study files with anything in them: a study, or a sentence that names the line."""

from __future__ import annotations

import random
from pathlib import Path

from fuzz_bars import Bars
from fuzz_mutations import mutate_bytes, replace_by_special
from fuzz_runner import HERE, Target

_GRID = b"""
name = "grid"
command = "python train.py --seed {seed} --lr {lr}"
seeds = [1, 2]
artifacts = ["weights/*.pt"]
keep = "last"
folder = "grid.study"
[axes]
lr = [0.1, 0.01]
"--workers" = [0, 4]
OMP_NUM_THREADS = ["1", "2"]
[[cell]]
name = "plain"
lr = 1
[environment]
A = "{seed}"
[metrics.loss]
output = 'loss[ =]([-+.0-9e]+)'
take = "min"
goal = "min"
[metrics.psnr]
file = "metrics.json"
key = "val.psnr"
[limits]
memory = "2GiB"
time = "30m"
stall = 90
jobs = 2
cores = 1
retries = { default = 1 }
[resume]
checkpoint = "weights/last.pt"
arguments = "--resume {checkpoint}"
"""
_WORDS = [
    b"[axes]\n",
    b"x = [" + b"1, " * 3000 + b"2]\n",
    b"[[cell]]\n",
    b"[limits]\n",
    b"seeds = [1]\n",
    *(b"a%d = [0,1,2,3,4,5,6,7,8,9]\n" % number for number in range(8)),
    b'command = "x {a}"\n',
    b"retries = 9999999999999999999\n",
    b"memory = '1e999'\n",
    b"= 1e999\n",
    b"= nan\n",
    b"= 0x" + b"f" * 5000 + b"\n",
    b"= " + b"9" * 5000 + b"\n",
    b'"""' * 500,
    b"'''" * 500,
    b"= [" * 2000,
    b"a." * 3000,
    b"= 2026-01-01T00:00:00Z\n",
    b"= [[[[1]]]]\n",
    b"{" * 300,
    b"time = 99999999999999999999999\n",
    b"output = '(a+)+$'\n",
    b'arguments = "\'"\n',
    b"folder = '/'\n",
    b"artifacts = ['" + b"*/" * 2000 + b"']\n",
    b"name = '..'\n",
    b"inputs = ['\\u0000']\n",
]


def make(rng: random.Random, folder: Path) -> Path:
    path = folder / "study.toml"
    real = (HERE.parent.parent / "studies" / "lowlight.toml").read_bytes()
    path.write_bytes(mutate_bytes(rng, rng.choice((_GRID, real)), _WORDS))
    if rng.random() < 0.02:
        replace_by_special(rng, path)
    return path


def check(path: Path, bars: Bars) -> None:
    bars.command("study", "status", str(path), statuses=(0, 1, 2))


TARGET = Target(make, check, cases=1500)
