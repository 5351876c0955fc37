"""The training loop.

Comes in: settings and a folder for the run. Goes out in that folder: config.json, metrics.jsonl,
train.log, checkpoints/ and, when done, weights.pt, samples.png and metrics.json, in this order:
where metrics.json is, the run is complete. Promises: with the same settings these three are the
same byte for byte on a CPU, whether the run was interrupted and resumed or not; no tensor of a step
outlives it.
"""

from __future__ import annotations

import io
import json
import math
import os
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from lowlight.config import FILE, Config, build_config, read_config, resumed_config, write_config
from lowlight.devices import pick_device
from lowlight.errors import LowlightError, NotFiniteError
from lowlight.evaluate import as_table, contact_sheet, evaluate
from lowlight.face_encoder import FaceEncoder, open_face_encoder
from lowlight.journal import Journal
from lowlight.loss import enhancement_loss
from lowlight.model import Enhancer, parameter_count
from lowlight.pairs import HELD_OUT_PEOPLE, Pair, TrainingPairs, held_out_pairs, load_batches
from lowlight.pictures import Split, open_pictures
from lowlight.saving import as_bytes, newest_state, save_checkpoint, sweep_partial, write_whole

RESULT = "metrics.json"


class Trainer:
    """One run: the state that a checkpoint holds, and the steps that change it."""

    def __init__(
        self, config: Config, pictures: Split, device: torch.device, run: Path, journal: Journal
    ) -> None:
        self.config, self.device, self.run, self.journal = config, device, run, journal
        torch.set_num_threads(config.cpu_threads)
        for sentence in pictures.left_out:
            journal.say(f"left out: {sentence}")
        self.pairs = TrainingPairs(
            pictures.training, config.people, config.crop, config.faces, config.seed
        )
        people = HELD_OUT_PEOPLE if config.faces else 0
        self.held_out: list[Pair] = held_out_pairs(pictures.held_out, people, config.crop)
        # Also where it has no weight: runs with and without are compared by how near people stay.
        self.encoder: FaceEncoder | None = None
        if config.faces:
            self.encoder = open_face_encoder(config.cache_folder, journal.say).to(self.device)
        torch.manual_seed(config.seed)
        self.model = Enhancer(config.width).to(self.device)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=config.lr, fused=device.type in ("cpu", "cuda")
        )
        self.step = 0  # steps done

    # -- the loop ---------------------------------------------------------------------------

    def train(self) -> None:
        config = self.config
        self.model.train()
        batches = load_batches(
            self.pairs, config.batch_size, self.step, config.steps, config.threads
        )
        started = time.perf_counter()
        for dark, bright in batches:
            terms = self.take_step(dark.to(self.device), bright.to(self.device))
            elapsed, started = time.perf_counter() - started, time.perf_counter()
            self.journal.record("step", step=self.step, seconds=round(elapsed, 4), **terms)
            if self.step % config.log_every == 0 or self.step == config.steps:
                self.journal.say(
                    f"step {self.step}/{config.steps}  loss {terms['loss']:.4f}  "
                    f"lr {terms['lr']:.2e}  {config.batch_size / elapsed:.1f} pairs/s"
                )
            if self.step % config.checkpoint_every == 0 or self.step == config.steps:
                self.save()

    def take_step(self, dark: Tensor, bright: Tensor) -> dict[str, float]:
        """One update. Only numbers come out: every tensor of the step ends with this call."""
        config = self.config
        out = self.model(dark)
        with torch.no_grad():  # the space may not shrink to bring the target nearer
            target_hvi = self.model.hvi(bright)
        loss, terms = enhancement_loss(
            out.rgb_B3HW,
            out.hvi_B3HW,
            bright,
            target_hvi,
            config.weights,
            self.encoder,
            config.faces,
        )
        loss.backward()
        norm = float(torch.nn.utils.clip_grad_norm_(self.model.parameters(), config.clip))
        total = float(loss.detach())
        if not (math.isfinite(total) and math.isfinite(norm)):
            self.journal.record("not-finite", step=self.step, loss=total, grad_norm=norm)
            raise NotFiniteError(
                f"the loss ({total}) or its gradient ({norm}) is not finite at step {self.step}.\n"
                f"A lower --lr (now {config.lr}) is the usual cure; the checkpoints before it are "
                "whole."
            )
        lr = lr_at(self.step, config)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.step += 1
        return {"loss": total, **terms, "lr": lr, "grad_norm": norm}

    def finish(self) -> dict[str, Any]:
        """Measure, then write what the run was for; metrics.json last."""
        results = evaluate(self.model, self.held_out, self.device, self.encoder)
        self.journal.record("eval", step=self.step, results=results)
        self.journal.say(as_table(results))
        summary = summarise(self.config, self.model, results)
        weights = {name: value.cpu() for name, value in self.model.state_dict().items()}
        write_whole(self.run / "weights.pt", as_bytes({"width": self.config.width, **weights}))
        write_whole(self.run / "samples.png", self._samples())
        write_whole(self.run / RESULT, (json.dumps(summary, indent=1) + "\n").encode())
        self.journal.record("end", step=self.step)
        self.journal.say(f"done: {self.step} steps, {self.run / RESULT}")
        return summary

    def _samples(self) -> bytes:
        faces = [pair for pair in self.held_out if pair.is_face]
        pictures = [pair for pair in self.held_out if not pair.is_face]
        sheet = contact_sheet(self.model, pictures[::4][:4] + faces[:4], self.device)
        buffer = io.BytesIO()
        Image.fromarray(sheet).save(buffer, "PNG")
        return buffer.getvalue()

    # -- state ------------------------------------------------------------------------------

    def save(self) -> None:
        path = save_checkpoint(
            self.run / "checkpoints", self.step, self.state(), self.config.keep_checkpoints
        )
        self.journal.record("checkpoint", step=self.step, file=path.name)

    def state(self) -> dict[str, Any]:
        return {
            "step": self.step,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.step = state["step"]
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])


def lr_at(step: int, config: Config) -> float:
    """A line up, then half a cosine down: of the step alone, so resuming needs no other state."""
    if step < config.warmup_steps:
        return config.lr * (step + 1) / (config.warmup_steps + 1)
    done = (step - config.warmup_steps) / max(1, config.steps - config.warmup_steps)
    return config.lr * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * min(1.0, done))))


def summarise(
    config: Config, model: Enhancer, results: dict[str, dict[str, dict[str, float]]]
) -> dict[str, Any]:
    """metrics.json: single numbers first, for programs; no times, so that two can be compared."""
    model_all = results["model"]["all"]
    summary: dict[str, Any] = {
        "schema": 1,
        "psnr": model_all["psnr"],
        "ssim": model_all["ssim"],
        "input_psnr": results["input"]["all"]["psnr"],
        "input_ssim": results["input"]["all"]["ssim"],
        "equalised_psnr": results["equalised"]["all"]["psnr"],
        "equalised_ssim": results["equalised"]["all"]["ssim"],
    }
    if "faces" in results["model"]:
        summary["identity"] = results["model"]["faces"]["identity"]
    settings = {name: value for name, value in asdict(config).items() if name in _SHAPING}
    return {
        **summary,
        "steps": config.steps,
        "parameters": parameter_count(model),
        "collapse": round(float(model.hvi.collapse.detach()), 6),
        "settings": settings,
        "results": results,
    }


_SHAPING = ("d_weight", "face_weight", "edge_weight", "hvi_weight", "batch_size", "lr", "seed")


def run_training(run: Path, given: dict[str, Any], is_resumed: bool) -> None:
    """Train in the folder `run`. A run that is there is gone on with or left alone."""
    has_run = (run / FILE).exists()
    if has_run and not is_resumed:
        raise LowlightError(
            f"{run} holds a run already.\nGo on with it: --resume; or begin another: --out {run}-2"
        )
    if has_run:
        config = resumed_config(read_config(run), given, run)
        if (run / RESULT).exists():
            print(f"{run} is complete: {run / RESULT}", flush=True)
            return
    else:
        config = new_config(given)
    # What can be refused is refused before anything is written.
    device, pictures = pick_device(config.device), open_pictures(config.pictures, config.crop)
    try:
        run.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LowlightError(f"--out {run}: {error.strerror}") from None
    journal = Journal(run)
    try:
        sweep_partial(run)
        write_config(config, run)
        trainer = Trainer(config, pictures, device, run, journal)
        path, state, damaged = newest_state(run / "checkpoints")
        for each in damaged:
            journal.say(f"{each} cannot be read; the one before it is taken")
        if path is not None:
            trainer.restore(state)
            journal.record("resumed", step=trainer.step, file=path.name)
            journal.say(f"resumed from {path.name}")
        else:
            journal.record("start", steps=config.steps, pid=os.getpid())
        del state  # its tensors are the model's and the optimizer's now
        journal.say(
            f"{parameter_count(trainer.model):,} parameters on {trainer.device}; "
            f"{len(trainer.pairs.pictures)} pictures, {len(trainer.pairs.portraits)} portraits; "
            f"{config.batch_size} pairs a step, {config.steps} steps"
        )
        trainer.train()
        trainer.finish()
    finally:
        journal.close()


def new_config(given: dict[str, Any]) -> Config:
    config = build_config(given)
    # The number that counts, written down: sums in another order are other sums, and a resumed run
    # has to add as the first part of it did.
    return replace(config, cpu_threads=config.cpu_threads or torch.get_num_threads())
