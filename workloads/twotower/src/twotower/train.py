"""The training loop.

Comes in: a `Config` and a folder for the run. Goes out in that folder: config.yaml, metrics.jsonl,
train.log and checkpoints/. Promises: with the same seed, threads and processes the losses are the
same bit for bit on a CPU, whether the run was interrupted and resumed or not.
"""

from __future__ import annotations

import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from twotower.checkpoint import load_checkpoint, save_checkpoint
from twotower.config import Config, write_config
from twotower.dataset import Data, as_tensor, open_data
from twotower.devices import pick_device
from twotower.errors import NotFiniteError
from twotower.evaluate import evaluate
from twotower.journal import Journal
from twotower.loader import Chunk, Loader, gather_with_numpy
from twotower.loss import info_nce
from twotower.memory import MemoryBank
from twotower.mining import Miner, mine, open_miner
from twotower.model import QueryTower, encode, parameter_count
from twotower.ranks import Ranks, join_ranks, leave_ranks
from twotower.schedule import lr_at


class Trainer:
    """One run: the state that a checkpoint holds, and the steps that change it."""

    def __init__(
        self, config: Config, data: Data, ranks: Ranks, run: Path, journal: Journal
    ) -> None:
        self.config, self.data, self.ranks, self.run, self.journal = (
            config,
            data,
            ranks,
            run,
            journal,
        )
        self.device = pick_device(config.device, int(os.environ.get("LOCAL_RANK", "0")))
        torch.manual_seed(config.seed)
        if config.threads:
            torch.set_num_threads(config.threads)
        self.model = QueryTower(config.encoder, data.dimension, config.hidden)
        if config.start == "average":
            self.model.start_as_average()
        self.model.to(self.device)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(),
            lr=config.lr,
            weight_decay=config.weight_decay,
            fused=self.device.type in ("cpu", "cuda"),  # one pass over the parameters, not four
        )
        self.memory = MemoryBank(config.memory_bank, data.dimension, self.device)
        self.mined_NH = torch.full((len(data.train), config.hard_negatives), -1, dtype=torch.int64)
        self.step = 0  # optimizer steps done
        self.loader = Loader(
            data.train,
            config.batch_size,
            config.accum,
            config.seed,
            ranks,
            config.encode_rows,
            config.workers,
            _pick_gather(config.gather),
        )
        self.total_steps = config.steps or config.epochs * self.loader.steps_per_epoch
        self.mine_every = config.mine_every or self.loader.steps_per_epoch
        self.miner: Miner | None = open_miner(
            config.miner, data.bank_path, data.bank_MD, config.faiss_index, config.threads
        )

    # -- the loop ---------------------------------------------------------------------------

    def train(self) -> None:
        """From the step reached to the last. Epochs are a matter of bookkeeping only."""
        per_epoch = self.loader.steps_per_epoch
        while self.step < self.total_steps:
            epoch, place = divmod(self.step, per_epoch)
            epoch_end = min(self.total_steps, (epoch + 1) * per_epoch)
            self.journal.open_bar(
                (epoch_end - epoch * per_epoch) * self.config.accum,
                place * self.config.accum,
                epoch,
            )
            while self.step < epoch_end:
                # Mining comes before the step it serves, checkpoints after the step they name:
                # a run that dies in mining resumes by mining again.
                if self.miner is not None and self.step and self.step % self.mine_every == 0:
                    self._mine()
                until = min(epoch_end, (self.step // self.mine_every + 1) * self.mine_every)
                self._take_steps(until)
            self.journal.close_bar()
            self._end_epoch(epoch)
        self.journal.record("end", step=self.step)
        self.journal.say(f"done: {self.step} steps")

    def _take_steps(self, until: int) -> None:
        started, losses = time.perf_counter(), []
        for chunk in self.loader.chunks(self.step, until):
            losses.append(self._accumulate(chunk))
            self.journal.advance(
                chunk.micro_batches, losses[-1] / len(chunk.rows_C) * self.loader.window
            )
            if chunk.is_last:
                elapsed = time.perf_counter() - started
                self._finish_step(sum(losses), elapsed)
                started, losses = time.perf_counter(), []

    def _accumulate(self, chunk: Chunk) -> float:
        """Forward and backward of some micro-batches; their part of the step's mean loss."""
        q_RD = self.model(chunk.x_RLD.to(self.device, non_blocking=True))
        mined_ids_RH = self.mined_NH[torch.from_numpy(chunk.rows_C)[chunk.own_R]]
        has_mined = bool((mined_ids_RH >= 0).any())
        mined_RHD = (
            as_tensor(self.data.bank_MD[mined_ids_RH.clamp_min(0).numpy()]) if has_mined else None
        )
        loss_R = info_nce(
            q_RD, chunk, self.memory, mined_RHD, mined_ids_RH, self.config.temperature
        )
        loss = loss_R.sum() * (self.ranks.world_size / self.loader.window)
        if not torch.isfinite(loss):
            self._stop_not_finite("loss", chunk.rows_C, chunk.x_RLD, chunk.y_CD, loss_R)
        loss.backward()
        self.memory.push(chunk.y_CD, chunk.target_C)  # after backward, which reads the ring
        return float(loss.detach())

    def _finish_step(self, loss: float, elapsed: float) -> None:
        config = self.config
        parameters = list(self.model.parameters())
        self.ranks.average_gradients(parameters)
        norm = float(torch.nn.utils.clip_grad_norm_(parameters, config.clip))
        if not np.isfinite(norm):
            rows = self.loader.rows_of_step(self.step)
            x, y = self.data.train.x_NLD[rows], self.data.train.y_ND[rows]
            self._stop_not_finite(
                "gradient", rows, as_tensor(x), as_tensor(y), torch.tensor([loss])
            )
        lr = lr_at(self.step, self.total_steps, config.lr, config.warmup_steps, config.min_lr_ratio)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.step += 1

        loss = self.ranks.mean(loss)
        rate = self.loader.window / elapsed
        self.journal.record(
            "step", step=self.step, loss=loss, lr=lr, grad_norm=norm, rows_per_second=round(rate, 2)
        )
        if self.step % config.log_every == 0 or self.step == self.total_steps:
            self.journal.say(
                f"step {self.step}/{self.total_steps}  loss {loss:.4f}  lr {lr:.2e}  "
                f"{rate:.1f} rows/s"
            )
        if self.step % config.checkpoint_every == 0:
            self.save()

    def _end_epoch(self, epoch: int) -> None:
        results = (
            evaluate(
                self.model,
                self.data.val,
                self.data.bank_MD,
                self.config.val_rows,
                self.device,
                with_baselines=epoch == 0,
            )
            if self.ranks.is_first and len(self.data.val)
            else {}
        )
        for method, metrics in results.items():
            self.journal.record("eval", step=self.step, epoch=epoch + 1, method=method, **metrics)
            self.journal.say(
                f"epoch {epoch + 1}  {method}: recall@10 {metrics['recall@10']:.4f}  "
                f"recall@500 {metrics['recall@500']:.4f}  mrr {metrics['mrr']:.4f}"
            )
        if self.step % self.config.checkpoint_every:
            self.save()

    # -- mining -----------------------------------------------------------------------------

    def _mine(self) -> None:
        """Fresh negatives for the queries that come before the next refresh, as many as asked."""
        assert self.miner is not None
        config, split = self.config, self.data.train
        coming = [
            self.loader.rows_of_step(step)
            for step in range(self.step, min(self.total_steps, self.step + self.mine_every))
        ]
        rows_Q = self.ranks.share(np.concatenate(coming)[: config.mine_queries])
        self.journal.record("mining-started", step=self.step, miner=config.miner)
        started = time.perf_counter()
        # In file order, a block at a time: 2,048 sequences of the incident's length are 0.6 GB.
        rows_Q = np.sort(rows_Q)
        queries = [
            encode(self.model, as_tensor(split.x_NLD[rows_Q[i : i + 64]]).to(self.device))
            for i in range(0, len(rows_Q), 64)
        ]
        negatives_QH = mine(
            self.miner,
            torch.cat(queries),
            split,
            rows_Q,
            self.data.bank_MD,
            config.hard_negatives,
            config.duplicate_cosine,
        )
        all_rows = self.ranks.collect(torch.from_numpy(rows_Q))
        self.mined_NH[all_rows] = self.ranks.collect(negatives_QH)
        seconds = time.perf_counter() - started
        self.journal.record(
            "mining-ended", step=self.step, queries=len(all_rows), seconds=round(seconds, 3)
        )
        self.journal.say(f"mined {len(all_rows)} queries in {seconds:.1f} s ({config.miner})")

    # -- state ------------------------------------------------------------------------------

    def save(self) -> None:
        if self.ranks.is_first:
            path = save_checkpoint(
                self.run / "checkpoints", self.step, self.state(), self.config.keep_checkpoints
            )
            self.journal.record("checkpoint", step=self.step, file=path.name)
        self.ranks.wait()

    def state(self) -> dict[str, Any]:
        return {
            "step": self.step,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "memory": self.memory.state(),
            "mined": self.mined_NH,
            "torch_rng": torch.get_rng_state(),
            "config": asdict(self.config),
            "dimension": self.data.dimension,
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.step = state["step"]
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.memory.restore(state["memory"], self.data.bank_MD)
        self.mined_NH = state["mined"].cpu()
        torch.set_rng_state(state["torch_rng"].cpu())

    def _stop_not_finite(self, what: str, rows: Any, x: Tensor, y: Tensor, loss: Tensor) -> None:
        path = self.run / f"not-finite-step-{self.step}-rank-{self.ranks.rank}.pt"
        torch.save(
            {"rows": torch.from_numpy(np.asarray(rows)), "x": x, "y": y, "loss": loss.detach()},
            path,
        )
        self.journal.record("not-finite", step=self.step, what=what, file=path.name)
        raise NotFiniteError(
            f"the {what} is not finite at step {self.step}; its batch is saved in\n{path}\n"
            f"A lower --lr (now {self.config.lr}) or --clip (now {self.config.clip}) is the usual "
            "cure;\nthe checkpoints before it are whole."
        )


def _pick_gather(name: str) -> Any:
    if name == "native":
        from twotower.mining.native import gather_with_kernel

        return gather_with_kernel
    return gather_with_numpy


def claim_run_folder(wanted: Path) -> Path:
    """The folder asked for if it is free, else the next number: a run is never written over."""
    number, folder = 1, wanted
    while True:
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            if folder.is_dir() and not any(folder.iterdir()):
                break
            number += 1
            folder = wanted.with_name(f"{wanted.name}-{number}")
            continue
        break
    if folder != wanted:
        print(f"{wanted} holds an earlier run; this one goes to {folder}", flush=True)
    return folder


def run_training(config: Config, wanted: Path, checkpoint: Path | None, has_bar: bool) -> Path:
    """Train in the folder `wanted`, or in a new one of that name; the folder it was."""
    device = pick_device(config.device, int(os.environ.get("LOCAL_RANK", "0")))
    ranks = join_ranks(device)
    is_claimed = ranks.is_first and checkpoint is None
    run = Path(ranks.agree(str(claim_run_folder(wanted) if is_claimed else wanted)))
    if ranks.is_first:
        write_config(config, run)
    journal = Journal(run, ranks.is_first, has_bar)
    try:
        data = open_data(Path(config.pairs), Path(config.bank))
        trainer = Trainer(config, data, ranks, run, journal)
        journal.say(
            f"{parameter_count(trainer.model):,} parameters on {trainer.device}; "
            f"{len(data.train):,} pairs of length {data.train.x_NLD.shape[1]}, "
            f"bank of {len(data.bank_MD):,}; "
            f"{config.batch_size} x {config.accum} rows a step, {trainer.total_steps} steps"
        )
        if checkpoint is not None:
            trainer.restore(load_checkpoint(checkpoint, trainer.device))
            journal.record("resumed", step=trainer.step, file=checkpoint.name)
            journal.say(f"resumed from {checkpoint.name}")
        else:
            journal.record("start", steps=trainer.total_steps, pid=os.getpid())
        try:
            trainer.train()
        finally:
            if trainer.miner is not None:
                trainer.miner.close()
    finally:
        journal.close()
        leave_ranks(ranks)
    return run
