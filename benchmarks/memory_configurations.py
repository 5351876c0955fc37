"""The trainings on which memory predictions are measured: drawn at random, from a seed each.

`DEVELOPMENT` may be looked at while the model is made; `HELD_OUT` is drawn and run when the model
stands, and never before; so with the two lists of `beside_workers`, which have 0 to 4 workers by
fork and by spawn. The rules of `--what-if` were mended on `QUESTIONS`. Nine small public
architectures in turn, the rest drawn: width, depth, batch size, picture side or sequence length,
optimizer, workers, data mapped or loaded, length of an epoch; then the two reference workloads.
"""

from __future__ import annotations

import random
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
PROGRAM = Path(__file__).parent / "programs" / "train_sized.py"
STEPS = 30  # of a whole run, at least, in two epochs or more: twice what a dry run sees
_WORDS, _FEATURES = 8192, 128


@dataclass(frozen=True)
class Sizes:
    """From, to, in steps of; a run on one core is to take seconds, and 300 to 1,500 MiB."""

    data: str
    width: tuple[int, int, int]
    depth: tuple[int, int, int]
    batch: tuple[int, int, int]
    extent: tuple[int, int, int]  # side of a picture, or length of a sequence


ARCHITECTURES = {
    "resnet": Sizes("pictures", (10, 28, 2), (1, 3, 1), (12, 64, 4), (32, 40, 8)),
    "transformer": Sizes("words", (96, 320, 16), (2, 5, 1), (4, 20, 1), (32, 96, 8)),
    "lstm": Sizes("vectors", (96, 288, 16), (1, 3, 1), (16, 96, 4), (16, 48, 4)),
    "convnext": Sizes("pictures", (24, 64, 4), (1, 3, 1), (16, 96, 8), (32, 64, 16)),
    "vit": Sizes("pictures", (96, 256, 16), (2, 6, 1), (8, 40, 4), (32, 48, 16)),
    "gru": Sizes("vectors", (96, 320, 16), (1, 3, 1), (16, 96, 4), (16, 48, 4)),
    "mobilenet": Sizes("pictures", (12, 32, 2), (1, 3, 1), (16, 96, 8), (32, 48, 16)),
    "mixer": Sizes("pictures", (96, 320, 16), (2, 6, 1), (8, 64, 4), (32, 48, 16)),
    "unet": Sizes("pictures", (8, 20, 2), (1, 3, 1), (8, 32, 4), (32, 64, 16)),
}


@dataclass(frozen=True)
class Configuration:
    name: str
    command: tuple[str, ...]  # {data} stands for the folder of the data
    makes: tuple[str, ...]  # the data that it needs: kind and sizes


class _Draw:
    """Numbers from a seed that stay the same: built on `random()` alone."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def of(self, *values: T) -> T:
        return values[int(self._random.random() * len(values))]

    def between(self, low: int, high: int, step: int) -> int:
        return low + step * int(self._random.random() * ((high - low) // step + 1))


def _network(name: str, draw: _Draw) -> Configuration:
    sizes = ARCHITECTURES[name]
    width, depth, batch, extent = (
        draw.between(*one) for one in (sizes.width, sizes.depth, sizes.batch, sizes.extent)
    )
    optimizer = draw.of("sgd", "adam", "adamw")
    is_foreach = draw.of(True, False, False)
    workers = draw.of(0, 0, 0, 1, 2, 3)
    is_mapped = draw.of(True, False)
    per_epoch = draw.of(6, 10, 16, 22)
    # An eighth is kept for validation; the last batch of an epoch is a smaller one.
    rows = (per_epoch * batch - batch // 2) * 8 // 7
    words = [sys.executable, str(PROGRAM), "--model", name, "--width", str(width)]
    words += ["--depth", str(depth), "--optimizer", optimizer, "--batch-size", str(batch)]
    words += ["--workers", str(workers), "--epochs", str(max(2, -(-STEPS // per_epoch)))]
    words += ["--foreach"] if is_foreach else []
    words += ["--mapped"] if is_mapped else []
    data = f"{sizes.data}-{rows}-{extent}.npy"
    words += ["--data", "{data}/" + data, "--save", "{data}/saved.pt"]
    how = "mapped" if is_mapped else "loaded"
    each = " foreach" if is_foreach else ""
    title = f"{name} {width}x{depth} @{extent} {optimizer}{each} b{batch} w{workers} e{per_epoch}"
    return Configuration(f"{title} {how}", tuple(words), (sizes.data, str(rows), str(extent)))


def _twotower(draw: _Draw) -> Configuration:
    rows, length, bank = draw.of(400, 600), draw.of(24, 40, 56), draw.of(2000, 8000)
    batch, accum = draw.between(4, 40, 4), draw.of(1, 2)
    hidden, encoder = draw.between(128, 512, 64), draw.of("gru", "lstm")
    miner = draw.of("exact", "exact", "none")
    data = f"towers-{rows}-{length}-{bank}"
    words = [sys.executable, "-m", "twotower", "train", "--data", "{data}/" + data]
    words += ["--device", "cpu", "--threads", "1", "--no-bar", "--val-rows", "64"]
    words += ["--checkpoint-every", "10", "--steps", str(STEPS), "--bs", str(batch)]
    words += ["--accum", str(accum), "--hidden", str(hidden), "--encoder", encoder]
    words += ["--miner", miner, "--out", "{data}/run"]
    title = f"twotower {encoder} {hidden} @{length} b{batch}x{accum} bank {bank} {miner}"
    return Configuration(title, tuple(words), ("towers", str(rows), str(length), str(bank)))


def _lowlight(draw: _Draw) -> Configuration:
    width, crop = draw.between(8, 24, 4), draw.between(48, 96, 16)
    batch, workers = draw.between(4, 16, 2), draw.of(0, 1, 2)
    words = [sys.executable, "-m", "lowlight", "train", "--device", "cpu", "--cpu-threads", "1"]
    words += ["--faces", "0", "--width", str(width), "--crop", str(crop), "--steps", str(STEPS)]
    words += ["--batch-size", str(batch), "--threads", str(workers), "--checkpoint-every", "10"]
    words += ["--out", "{data}/run"]
    return Configuration(f"lowlight {width} @{crop} b{batch} w{workers}", tuple(words), ())


def drawn(seed: str, networks: int, of_each_workload: int) -> list[Configuration]:
    draw = _Draw(seed)
    names = list(ARCHITECTURES)
    found = [_network(names[at % len(names)], draw) for at in range(networks)]
    found += [_twotower(draw) for _ in range(of_each_workload)]
    return found + [_lowlight(draw) for _ in range(of_each_workload)]


def beside_workers(seed: str) -> list[Configuration]:
    """Each architecture with 0 to 4 workers, forked and spawned in turn; lowlight with two."""
    draw = _Draw(seed)
    found = []
    for at, name in enumerate(ARCHITECTURES):
        drawn_one = _network(name, draw)
        workers, start_method = (at + 1) % 5, ("fork", "spawn")[at % 2]
        words = list(drawn_one.command)
        words[words.index("--workers") + 1] = str(workers)
        words += ["--start-method", start_method]
        title = f"{drawn_one.name}, {workers} by {start_method}"
        found.append(Configuration(title, tuple(words), drawn_one.makes))
    return [*found, _lowlight(draw)]


@dataclass(frozen=True)
class Question:
    """What if this training had another value of one argument?"""

    asked: Configuration  # the training as it would be
    command: tuple[str, ...]  # the training as it is
    change: str  # what leads from one to the other


def questions(seed: str, networks: int, of_each_workload: int) -> list[Question]:
    """Every third for more workers, the others for a batch two to four times as large."""
    draw = _Draw(f"{seed}, questions")
    found = []
    for at, asked in enumerate(drawn(seed, networks, of_each_workload)):
        is_of_workers = at % 3 == 2 and "--workers" in asked.command
        flag = "--workers" if is_of_workers else "--batch-size"
        flag = flag if flag in asked.command else "--bs"
        words = list(asked.command)
        place = words.index(flag) + 1
        if is_of_workers:
            words[place] = str(draw.of(3, 4))
            asked = Configuration(asked.name, tuple(words), asked.makes)
            present = draw.of(0, 1)
        else:
            present = max(2, int(words[place]) // draw.of(2, 3, 4))
        change = f"{flag} {words[place]}"
        words[place] = str(present)
        found.append(Question(asked, tuple(words), change))
    return found


DEVELOPMENT = drawn("development", 18, 2)
HELD_OUT = drawn("held out", 18, 3)
BESIDE_WORKERS_DEVELOPMENT = beside_workers("beside workers")
BESIDE_WORKERS = beside_workers("beside workers, held out")
QUESTIONS = questions("what if", 6, 1)


def make_data(needs: tuple[str, ...], folder: Path) -> None:
    """What one configuration reads; made when it is first needed."""
    if not needs:
        return
    import numpy as np

    kind, *sizes = needs
    path = folder / ("-".join(needs) + ("" if kind == "towers" else ".npy"))
    if path.exists():
        return
    rows, extent = int(sizes[0]), int(sizes[1])
    rng = np.random.default_rng(0)
    if kind == "pictures":
        np.save(path, rng.integers(0, 255, (rows, 3, extent, extent), dtype=np.uint8))
    elif kind == "words":
        np.save(path, rng.integers(0, _WORDS, (rows, extent), dtype=np.int32))
    elif kind == "vectors":
        np.save(path, rng.standard_normal((rows, extent, _FEATURES), dtype=np.float32))
    else:
        words = [sys.executable, "-m", "twotower", "prepare", "--synthetic", "--rows", sizes[0]]
        words += ["--length", sizes[1], "--bank", sizes[2], "--out", str(path)]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
