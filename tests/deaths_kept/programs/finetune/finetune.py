#!/usr/bin/env python
"""Fine-tune the in-house encoder on the sentiment set. No framework, on purpose."""

import argparse
import dataclasses
import json
import logging
import math
import random
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from model import Classifier, Encoder

logger = logging.getLogger("finetune")


@dataclasses.dataclass
class TrainConfig:
    data_dir: Path = Path("data")
    output_dir: Path = Path("out")
    dim: int = 64
    layers: int = 2
    classes: int = 3
    batch_size: int = 32
    epochs: int = 2
    learning_rate: float = 3e-4
    max_len: int = 48
    log_every: int = 5
    save_every: int = 40
    resume: str = ""
    seed: int = 13


def parse_args() -> TrainConfig:
    parser = argparse.ArgumentParser(description=__doc__)
    for field in dataclasses.fields(TrainConfig):
        flag = "--" + field.name.replace("_", "-")
        parser.add_argument(flag, type=type(field.default), default=field.default)
    return TrainConfig(**vars(parser.parse_args()))


def load_jsonl(path):
    rows = []
    with open(path) as handle:
        for line in handle:
            rows.append(json.loads(line))
    logger.info("loaded %d examples from %s", len(rows), path)
    return rows


class Collator:
    def __init__(self, vocab, max_len):
        self.vocab, self.max_len = vocab, max_len

    def __call__(self, rows):
        ids = torch.zeros(len(rows), self.max_len, dtype=torch.long)
        for i, row in enumerate(rows):
            tokens = [self.vocab[w] for w in row["text"].split() if w in self.vocab]
            ids[i, : len(tokens)] = torch.tensor(tokens[: self.max_len], dtype=torch.long)
        return ids, torch.tensor([row["label"] for row in rows])


def batches(rows, size, collate, rng=None):
    order = list(range(len(rows)))
    if rng is not None:
        rng.shuffle(order)
    for start in range(0, len(order), size):
        yield collate([rows[i] for i in order[start : start + size]])


@torch.no_grad()
def evaluate(model, rows, cfg, collate):
    model.eval()
    hits = []
    for ids, labels in batches(rows, cfg.batch_size, collate):
        hits.append((model(ids).argmax(-1) == labels).numpy())
    model.train()
    return float(np.concatenate(hits).astype(np.float64).mean())


def save(model, optimizer, step, cfg):
    cfg.output_dir.mkdir(parents=True, exist_ok=True)
    path = cfg.output_dir / f"step{step:06d}.pt"
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "step": step,
        "config": cfg,
    }
    torch.save(state, path)
    logger.info("saved checkpoint to %s", path)


def train(cfg):
    torch.manual_seed(cfg.seed)
    vocab = json.loads((cfg.data_dir / "vocab.json").read_text())
    collate = Collator(vocab, cfg.max_len)
    train_rows = load_jsonl(cfg.data_dir / "train.jsonl")
    dev_rows = load_jsonl(cfg.data_dir / "dev.jsonl")

    encoder = Encoder(len(vocab) + 1, cfg.dim, cfg.layers)
    encoder.load_state_dict(torch.load(cfg.data_dir / "base.pt", weights_only=True))
    model = Classifier(encoder, cfg.dim, cfg.classes)
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.learning_rate)

    step = 0
    if cfg.resume:
        state = torch.load(cfg.resume, weights_only=False)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        step = state["step"]
        logger.info("resumed from %s at step %d", cfg.resume, step)

    history = []
    for epoch in range(cfg.epochs):
        for ids, labels in batches(train_rows, cfg.batch_size, collate, random.Random(epoch)):
            loss = F.cross_entropy(model(ids), labels)
            if not math.isfinite(loss.item()):
                raise FloatingPointError(f"loss is {loss.item()} at step {step + 1}, giving up")
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            step += 1
            history.append(loss.item())
            if step % cfg.log_every == 0:
                logger.info("step %d loss %.4f", step, sum(history[-20:]) / len(history[-20:]))
            if step % cfg.save_every == 0:
                save(model, optimizer, step, cfg)
        accuracy = evaluate(model, dev_rows, cfg, collate)
        logger.info("epoch %d done, dev accuracy %.3f", epoch + 1, accuracy)
    logger.info("finished after %d steps", step)


if __name__ == "__main__":
    logging.basicConfig(
        level=logging.INFO,
        format="[%(asctime)s] %(levelname)-7s %(message)s",
        datefmt="%m/%d/%y %H:%M:%S",
    )
    torch.set_num_threads(1)
    train(parse_args())
