"""The memory plan of a command: what a dry run of a few steps says of the whole run.

In: a command, its folder and variables, and what surrounds them. Out: a `MemoryPlan`: the predicted
peak by component with its uncertainty, the limit that applies, whether it fits, what to change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rerail.preflight.audit import limits
from rerail.preflight.audit.finding import Finding, Level
from rerail.preflight.memory.components import (
    Component,
    batch_size,
    loader_settings,
    memory_of,
    split,
)
from rerail.preflight.memory.prediction import Prediction, predict
from rerail.preflight.memory.rehearsal import Rehearsal, rehearse
from rerail.preflight.memory.stopping import Stop
from rerail.wording import bytes_in_words

ROOM_SHARE = 0.95  # the kernel and other processes need some
_LARGE_FILE_BYTES = 256 << 20
_LARGE_KEPT_BYTES = 64 << 20
_LEAST_GPU_BYTES, _NEAR_GPU_SHARE = 64 << 20, 0.92


@dataclass(frozen=True)
class MemoryPlan:
    rehearsal: Rehearsal
    prediction: Prediction
    components: list[Component] = field(default_factory=list)
    limit_bytes: int | None = None
    limit_source: str = ""
    room_bytes: int | None = None  # what is free under that limit now

    @property
    def peak_bytes(self) -> int:
        return self.prediction.peak_bytes

    @property
    def fits(self) -> bool | None:
        if self.room_bytes is None:
            return None
        return self.prediction.held_bytes <= ROOM_SHARE * self.room_bytes

    @property
    def per_sample_bytes(self) -> int | None:
        batch = batch_size(self.rehearsal)
        activations = self._size("activations and buffers")
        flying = self._size("batches under way in /dev/shm")
        return (activations + flying) // batch if batch and activations else None

    def _size(self, name: str) -> int:
        return sum(c.size_bytes for c in self.components if c.name == name)

    @property
    def largest_batch_size(self) -> int | None:
        """The largest batch that fits into what is free, all else being equal."""
        batch, per_sample = batch_size(self.rehearsal), self.per_sample_bytes
        if not batch or not per_sample or self.room_bytes is None:
            return None
        fixed = self.prediction.held_bytes - batch * per_sample
        return max(0, int((ROOM_SHARE * self.room_bytes - fixed) // per_sample))

    def advice(self) -> list[str]:
        """What to change so that it fits; the change that costs least first."""
        if self.fits is not False:
            return []
        found = []
        loaded = {
            file.path: memory_of(file)
            for box in self.rehearsal.boxes
            for file in box.files
            if not file.is_mapped
        }
        for path, size in sorted(loaded.items(), key=lambda item: -item[1]):
            if size >= _LARGE_FILE_BYTES:
                found.append(
                    f"map {Path(path).name} instead of loading it: -{bytes_in_words(size)}"
                )
        settings = loader_settings(self.rehearsal)
        workers = self._size("loader workers") + self._size("batches under way in /dev/shm")
        kept = self._size("pages that forked workers keep")
        if kept >= _LARGE_KEPT_BYTES:
            found.append(f"persistent_workers=True for the DataLoader: -{bytes_in_words(kept)}")
        if settings is not None and settings.workers and workers:
            found.append(f"fewer loader workers: -{bytes_in_words(workers)} without any")
        largest, batch = self.largest_batch_size, batch_size(self.rehearsal)
        if largest and batch and largest < batch:
            found.append(f"batch size {largest} instead of {batch}, with gradient accumulation")
        found.append("or a machine or limit with more memory")
        return found

    def findings(self) -> list[Finding]:
        return [*self._host_findings(), *self._gpu_findings()]

    def _gpu_findings(self) -> list[Finding]:
        found = []
        for gpu in self.rehearsal.gpus:
            if gpu.peak_bytes - gpu.before_bytes < _LEAST_GPU_BYTES:
                continue  # the program does not use it
            text = (
                f"GPU {gpu.index}: {bytes_in_words(gpu.peak_bytes)} of"
                f" {bytes_in_words(gpu.total_bytes)} after the first steps"
            )
            if gpu.peak_bytes < _NEAR_GPU_SHARE * gpu.total_bytes:
                found.append(Finding("gpu-oom", "fine", text))
                continue
            why = "A longer batch, or the first validation, may not fit any more."
            do = ("a smaller batch with gradient accumulation", "or activation checkpointing")
            found.append(Finding("gpu-oom", "risky", text, why, do))
        return found

    def _host_findings(self) -> list[Finding]:
        predicted, held = self.prediction, self.prediction.held_bytes
        text = f"Memory: {bytes_in_words(predicted.peak_bytes)} at the peak"
        if predicted.mapped_bytes:
            text += f" ({bytes_in_words(held)} without mapped data)"
        if self.room_bytes is None:
            return [Finding("host-oom", "fine", text)]
        source = "this machine" if self.limit_source == "ram" else self.limit_source
        text += f"; {bytes_in_words(self.room_bytes)} are free under the limit of {source}"
        if self.fits:
            is_near = predicted.high_bytes - predicted.mapped_bytes > ROOM_SHARE * self.room_bytes
            if not is_near:
                return [Finding("host-oom", "fine", text)]
            why = "Within the uncertainty of the plan it may not fit."
            return [Finding("host-oom", "risky", text, why, tuple(self.advice()))]
        why = "The kernel kills the process that does not fit."
        level: Level = "fatal" if held > self.room_bytes else "risky"
        return [Finding("host-oom", level, text, why, tuple(self.advice()), (self.limit_source,))]

    def to_json(self) -> dict[str, Any]:
        settings = loader_settings(self.rehearsal)
        return {
            "predicted_peak_bytes": self.prediction.peak_bytes,
            "low_bytes": self.prediction.low_bytes,
            "high_bytes": self.prediction.high_bytes,
            "predicted_peak_rss_bytes": self.prediction.peak_bytes,  # of facts.peak_rss_bytes
            "held_bytes": self.prediction.held_bytes,
            "mapped_bytes": self.prediction.mapped_bytes,
            "limit_bytes": self.limit_bytes,
            "limit_source": self.limit_source,
            "room_bytes": self.room_bytes,
            "fits": self.fits,
            "components": [
                {"name": c.name, "bytes": c.size_bytes, "note": c.note} for c in self.components
            ],
            "batch_size": batch_size(self.rehearsal),
            "per_sample_bytes": self.per_sample_bytes,
            "largest_batch_size": self.largest_batch_size,
            "loader_workers": settings.workers if settings else None,
            "gpus": [vars(gpu) for gpu in self.rehearsal.gpus],
            "advice": self.advice(),
            "dry_run": {
                "ending": self.rehearsal.ending,
                "steps": self.rehearsal.steps,
                "seconds": round(self.rehearsal.seconds, 2),
                "removed": self.rehearsal.removed,
                "set_aside": sorted({p for r in self.rehearsal.reports for p in r.moved}),
            },
        }


def plan_of(rehearsal: Rehearsal, around: Mapping[str, Any]) -> MemoryPlan:
    prediction = predict(rehearsal)
    limit, room = limits.memory_limit(around), limits.memory_room(around)
    return MemoryPlan(
        rehearsal,
        prediction,
        split(rehearsal, prediction),
        limit[0] if limit else None,
        room[1] if room else "",
        room[0] if room else None,
    )


def plan_memory(
    command: Sequence[str],
    cwd: Path,
    environ: Mapping[str, str],
    around: Mapping[str, Any] | None = None,
    *,
    steps: int | None = None,
    most_seconds: float = 120.0,
    stop: Stop | None = None,
) -> MemoryPlan:
    rehearsal = rehearse(command, cwd, environ, steps=steps, most_seconds=most_seconds, stop=stop)
    return plan_of(rehearsal, around or {})
