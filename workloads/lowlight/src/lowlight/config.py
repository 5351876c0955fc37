"""What a training run is: every number that shapes it, with half a line of why.

Comes in: defaults here, flags. Goes out: a `Config`, written to the run's config.json and read back
on resume.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from lowlight.errors import LowlightError
from lowlight.loss import Weights
from lowlight.saving import write_whole

FILE = "config.json"


def _(default: Any, why: str, least: float | None = None, is_machine: bool = False) -> Any:
    """A setting: its default, half a line of why for --help, and the least value that it takes.

    `is_machine`: it changes no result, so a resumed run may have another.
    """
    return field(default=default, metadata={"why": why, "least": least, "is_machine": is_machine})


@dataclass(frozen=True)
class Config:
    # data
    pictures: str = _("bundled", "a folder of pictures, or bundled: those in scikit-image's wheel")
    people: int = _(24, "generated people, 8 portraits each, to train on", 1)
    faces: int = _(3, "portraits in a batch, the rest are crops of pictures; 0: none", 0)
    crop: int = _(64, "side of a training crop", 16)
    # model
    width: int = _(16, "channels at half size; twice and three times as many below", 4)
    # loss
    d_weight: float = _(1.0, "of structural similarity, in RGB and in HVI", 0)
    edge_weight: float = _(0.5, "of differences between neighbours, in RGB and in HVI", 0)
    hvi_weight: float = _(0.5, "of the terms in HVI beside those in RGB", 0)
    face_weight: float = _(0.0, "of identity: 1 - cosine of the face embeddings", 0)
    # optimisation
    steps: int = _(300, "optimizer steps", 1)
    batch_size: int = _(8, "pairs a step", 1)
    lr: float = _(3e-3, "of AdamW, at the top of the schedule", 0)
    warmup_steps: int = _(20, "Adam's second moments are noise until about then", 0)
    clip: float = _(0.5, "length that a longer gradient is cut to", 0)
    seed: int = _(0, "of the pairs and the first weights; held-out pairs are always the same", 0)
    # the machine
    cpu_threads: int = _(0, "of torch; 0: as torch and OMP_NUM_THREADS have it at the start", 0)
    threads: int = _(2, "processes that make batches ahead; 0 makes them in line", 0, True)
    device: str = _("auto", "cpu, cuda or mps, of those that are there; auto: the fastest")
    cache: str = _("", "folder of the face encoder; else XDG_CACHE_HOME/lowlight", None, True)
    # the record
    checkpoint_every: int = _(50, "optimizer steps", 1, True)
    keep_checkpoints: int = _(2, "the newest", 1, True)
    log_every: int = _(20, "optimizer steps between lines", 1, True)

    @property
    def weights(self) -> Weights:
        return Weights(self.d_weight, self.edge_weight, self.hvi_weight, self.face_weight)

    @property
    def cache_folder(self) -> Path:
        if self.cache:
            return Path(self.cache)
        home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        return Path(home) / "lowlight"


def build_config(given: Mapping[str, Any]) -> Config:
    """Defaults, then what was given; refused where a run could not mean anything."""
    config = Config(**given)
    for setting in fields(Config):
        least, value = setting.metadata["least"], getattr(config, setting.name)
        # Written so that NaN is refused as well.
        if least is not None and not value >= least:
            raise LowlightError(f"{flag(setting.name)} {value}: at least {least}")
    for name in ("lr", "clip"):
        if getattr(config, name) == 0:
            raise LowlightError(f"{flag(name)} 0: above 0")
    if config.crop % 4:
        raise LowlightError(f"--crop {config.crop}: a multiple of 4")
    if config.faces > config.batch_size:
        raise LowlightError(f"--faces {config.faces}: at most --batch-size {config.batch_size}")
    if config.face_weight and not config.faces:
        raise LowlightError(
            f"--face-weight {config.face_weight} needs faces in the batch: --faces at least 1"
        )
    return config


def write_config(config: Config, folder: Path) -> None:
    write_whole(folder / FILE, (json.dumps(asdict(config), indent=1) + "\n").encode())


def read_config(folder: Path) -> Config:
    path = folder / FILE
    try:
        stored = json.loads(path.read_text("utf-8"))
        known = {setting.name for setting in fields(Config)}
        return Config(**{key: value for key, value in stored.items() if key in known})
    except FileNotFoundError:
        raise LowlightError(f"{folder} holds no {FILE}, so it is not a run") from None
    except (ValueError, AttributeError):
        raise LowlightError(f"{path} is not the {FILE} of a run") from None


def resumed_config(stored: Config, given: Mapping[str, Any], folder: Path) -> Config:
    """What was not given stays as it was; what was must be the same training."""
    for setting in fields(Config):
        was, now = getattr(stored, setting.name), given.get(setting.name)
        # 0 threads means: whatever there are, so what there were will do.
        is_same = now is None or now == was or (setting.name == "cpu_threads" and now == 0)
        if not is_same and not setting.metadata["is_machine"]:
            name = flag(setting.name)
            raise LowlightError(
                f"{folder} was started with {name} {was}; resuming with {name} {now} would be "
                f"another training.\nLeave {name} out, or start anew with another --out."
            )
    machine = {s.name for s in fields(Config) if s.metadata["is_machine"]}
    taken = {name: value for name, value in given.items() if name in machine}
    return build_config({**asdict(stored), **taken})


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")
