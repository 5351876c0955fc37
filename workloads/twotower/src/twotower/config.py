"""What a training run is: every number that shapes it, with half a line of why.

Comes in: defaults here, a launch profile from profiles.yaml, flags. Goes out: a `Config`, written
to the run's config.yaml and read back on resume.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from twotower.errors import TwotowerError

CHOICES = {
    "encoder": ("gru", "lstm", "mean"),
    "start": ("average", "random"),
    "miner": ("exact", "faiss", "faiss-process", "native", "none"),
    "faiss_index": ("flat", "ivf", "hnsw"),
    "device": ("auto", "cpu", "cuda", "mps"),
    "gather": ("numpy", "native"),
}


def _(default: Any, why: str) -> Any:
    """A setting: its default, and half a line of why, which `twotower train --help` shows."""
    return field(default=default, metadata={"why": why})


@dataclass(frozen=True)
class Config:
    # data
    pairs: str
    bank: str
    # model
    encoder: str = _("gru", "gru, lstm, or mean (no recurrence, a cheap reference)")
    hidden: int = _(
        512, "per direction; with width 768 this is the incident's 4,725,504 parameters"
    )
    start: str = _("average", "average: an untrained query is its sequence's mean; or random")
    # optimisation
    epochs: int = _(10, "passes over the pairs")
    steps: int = _(0, "stop after this many optimizer steps; 0: after the epochs")
    batch_size: int = _(32, "rows that see each other as negatives, over all processes together")
    accum: int = _(16, "micro-batches per optimizer step")
    lr: float = _(1e-3, "of AdamW, at the top of the schedule")
    weight_decay: float = _(0.01, "of AdamW; the tower has more parameters than pairs")
    warmup_steps: int = _(20, "Adam's second moments are noise until about then")
    min_lr_ratio: float = _(0.05, "where the cosine ends, as a part of --lr")
    clip: float = _(1.0, "length that a longer gradient is cut to")
    temperature: float = _(0.05, "of the softmax; lower sharpens the hardest negatives")
    memory_bank: int = _(50_000, "recent targets kept as negatives, first in first out; 0: none")
    seed: int = _(0, "of the order and the first weights")
    # mining
    miner: str = _("exact", "exact, faiss, faiss-process, native or none")
    mine_every: int = _(0, "optimizer steps between refreshes; 0: at the start of each epoch")
    mine_queries: int = _(2048, "coming queries that get negatives at a refresh")
    hard_negatives: int = _(8, "mined per query")
    duplicate_cosine: float = _(0.95, "nearer to the target than this is the target in other words")
    faiss_index: str = _(
        "flat", "flat as in the incident; ivf and hnsw find nearly the same, sooner"
    )
    # the machine: none of these changes a result beyond rounding
    device: str = _("auto", "cpu, cuda or mps, of those that are there; auto: the fastest")
    threads: int = _(0, "of torch; 0: as torch and OMP_NUM_THREADS have it")
    encode_rows: int = _(64, "rows that go through the GRU together, whatever the batch size")
    workers: int = _(1, "threads that read ahead; 0 reads in line")
    gather: str = _("numpy", "numpy, or native: a C kernel that copies rows with OpenMP")
    # the record
    checkpoint_every: int = _(50, "optimizer steps; also at the end of an epoch")
    keep_checkpoints: int = _(3, "the newest; 57 MB each")
    log_every: int = _(10, "optimizer steps between lines")
    val_rows: int = _(1024, "queries of the validation split measured after each epoch; 0: all")
    profile: str = ""

    @property
    def effective_batch(self) -> int:
        return self.batch_size * self.accum


# A resumed run is the same run only if these stayed as they were.
FIXED_ON_RESUME = (
    *("encoder", "hidden", "start", "epochs", "steps", "batch_size", "accum", "lr", "weight_decay"),
    *("warmup_steps", "min_lr_ratio", "clip", "temperature", "memory_bank", "seed"),
    *("mine_every", "mine_queries", "hard_negatives", "duplicate_cosine"),
)


def load_profiles() -> dict[str, dict[str, Any]]:
    text = files("twotower").joinpath("profiles.yaml").read_text("utf-8")
    profiles: dict[str, dict[str, Any]] = yaml.safe_load(text)
    return profiles


def build_config(given: dict[str, Any], profile: str = "") -> Config:
    """Defaults, then the profile, then what was given on the command line."""
    settings: dict[str, Any] = {}
    if profile:
        profiles = load_profiles()
        if profile not in profiles:
            raise TwotowerError(f"no profile {profile!r}; there are {', '.join(profiles)}")
        settings = {key: value for key, value in profiles[profile].items() if key != "why"}
        settings["profile"] = profile
    config = Config(**{**settings, **given})
    for name in ("epochs", "batch_size", "accum", "hidden", "encode_rows", "keep_checkpoints"):
        if getattr(config, name) < 1:
            raise TwotowerError(f"--{name.replace('_', '-')} {getattr(config, name)}: at least 1")
    for name in ("lr", "temperature", "clip"):
        if not getattr(config, name) > 0:
            raise TwotowerError(f"--{name} {getattr(config, name)}: above 0")
    return config


def write_config(config: Config, folder: Path) -> None:
    (folder / "config.yaml").write_text(yaml.safe_dump(asdict(config), sort_keys=False), "utf-8")


def read_config(folder: Path) -> Config:
    path = folder / "config.yaml"
    try:
        stored = yaml.safe_load(path.read_text("utf-8"))
    except FileNotFoundError:
        raise TwotowerError(f"{folder} holds no config.yaml, so it is not a run") from None
    known = {field.name for field in fields(Config)}
    return Config(**{key: value for key, value in stored.items() if key in known})


def check_same_run(stored: Config, asked: Config, folder: Path) -> Config:
    """The configuration to resume with: the machine may have changed, the training may not."""
    for name in FIXED_ON_RESUME:
        was, now = getattr(stored, name), getattr(asked, name)
        if was != now:
            flag = "--" + name.replace("_", "-")
            raise TwotowerError(
                f"{folder} was started with {flag} {was}; resuming with {flag} {now} would be "
                f"another training.\nLeave {flag} out, or start anew with another --out."
            )
    return asked
