"""A checkpoint put to use: the chunks nearest to a query text or vector."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from twotower.checkpoint import load_checkpoint, newest_checkpoint
from twotower.config import Config
from twotower.dataset import Data, as_tensor, open_data
from twotower.embed import load_embedder
from twotower.errors import TwotowerError
from twotower.mining.exact import ExactMiner
from twotower.model import QueryTower, encode


def open_tower(run: Path) -> tuple[QueryTower, Config]:
    """The query tower of a run's newest checkpoint (or of one file), and how it was trained."""
    state = load_checkpoint(newest_checkpoint(run))
    config = Config(**state["config"])
    model = QueryTower(config.encoder, state["dimension"], config.hidden)
    model.load_state_dict(state["model"])
    return model.eval(), config


def open_run(run: Path) -> tuple[QueryTower, Data]:
    model, config = open_tower(run)
    return model, open_data(Path(config.pairs), Path(config.bank))


def search(run: Path, texts: list[str], vector: Path | None, k: int) -> list[dict[str, Any]]:
    """The k best rows of the bank: score, row, and text and source where the data has them."""
    model, data = open_run(run)
    folder = data.bank_path.parent
    x_LD = _read_vector(vector, data.dimension) if vector else load_embedder(folder).embed(texts)
    if not np.any(x_LD):
        raise TwotowerError("no word of the query is known to the embedder of this data")
    # Shorter than the training's sequences: zeros in front, as `prepare --text` pads them.
    length = data.train.x_NLD.shape[1]
    x_1LD = np.zeros((1, length, data.dimension), np.float32)
    x_1LD[0, length - min(length, len(x_LD)) :] = x_LD[-length:]
    q_1D = encode(model, torch.from_numpy(x_1LD))
    k = min(k, len(data.bank_MD))
    rows = ExactMiner(data.bank_MD).search(q_1D, k)[0].numpy()
    scores = as_tensor(data.bank_MD[rows]) @ q_1D[0]
    hits: list[dict[str, Any]] = [
        {"row": int(row), "score": float(score)} for row, score in zip(rows, scores, strict=True)
    ]
    texts_by_row = _read_chunks(folder / "chunks.jsonl", set(map(int, rows)))
    return [{**hit, **texts_by_row.get(hit["row"], {})} for hit in hits]


def _read_vector(path: Path, dimension: int) -> Any:
    try:
        x_LD = np.atleast_2d(np.load(path, allow_pickle=False)).astype(np.float32)
    except (OSError, ValueError) as error:
        raise TwotowerError(f"{path}: not a plain .npy array ({error})") from None
    if x_LD.ndim != 2 or x_LD.shape[1] != dimension:
        raise TwotowerError(f"{path}: shape {x_LD.shape}, not (L, {dimension}) or ({dimension},)")
    return x_LD


def _read_chunks(path: Path, rows: set[int]) -> dict[int, dict[str, str]]:
    if not path.exists():
        return {}
    with path.open(encoding="utf-8") as file:
        return {row: json.loads(line) for row, line in enumerate(file) if row in rows}
