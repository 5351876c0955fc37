"""The training data: pairs of (sequence of vectors, next vector) and the bank they come from.

Comes in: two archives. `pairs.npz` holds X_train (N, L, D), Y_train (N, D), X_val, Y_val;
`bank.npz` holds vectors (M, D) and, for each pair, the row of its target in them: target_train (N,)
and target_val. Where a sequence is made of bank rows, context_train (N, L) and context_val name
them (-1: padding), and they are neither negatives of their query nor ranked for it. Goes out: a
`Data` of mapped arrays. Banks without target rows (as the incident's) are accepted: the rows are
found by their bytes.

Promises: what cannot be trained on is refused here, before the first step, by file, array and row.
"""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from twotower.archive import Array, map_archive
from twotower.errors import BadDataError

_BLOCK_BYTES = 1 << 26  # read ahead by the kernel in one go, small beside any machine's memory


@dataclass(frozen=True)
class Split:
    """Pairs of one split. x_NLD and y_ND lie in the file; target_N are rows of the bank."""

    x_NLD: Array
    y_ND: Array
    target_N: Array
    context_NL: Array | None = None  # bank rows of the sequence itself, where the data names them

    def __len__(self) -> int:
        return len(self.x_NLD)


@dataclass(frozen=True)
class Data:
    train: Split
    val: Split
    bank_MD: Array
    pairs_path: Path
    bank_path: Path

    @property
    def dimension(self) -> int:
        return int(self.bank_MD.shape[1])


def open_data(pairs_path: Path, bank_path: Path) -> Data:
    """Map both archives and refuse what cannot be trained on."""
    pairs, bank = map_archive(pairs_path), map_archive(bank_path)
    vectors_MD = _require(bank, bank_path, "vectors", 2)
    splits = {}
    for split in ("train", "val"):
        x_NLD = _require(pairs, pairs_path, f"X_{split}", 3)
        y_ND = _require(pairs, pairs_path, f"Y_{split}", 2)
        for name, array in ((f"X_{split}", x_NLD), (f"Y_{split}", y_ND)):
            if array.shape[-1] != vectors_MD.shape[1]:
                raise BadDataError(
                    pairs_path,
                    f"vectors of width {array.shape[-1]}, "
                    f"but {bank_path} holds vectors of width {vectors_MD.shape[1]}",
                    name,
                    do="both have to come from the same preparation",
                )
        if len(x_NLD) != len(y_ND):
            raise BadDataError(
                pairs_path,
                f"{len(x_NLD):,} queries for {len(y_ND):,} targets in Y_{split}",
                f"X_{split}",
                min(len(x_NLD), len(y_ND)),
            )
        target_N = bank.get(f"target_{split}")
        if target_N is None:
            target_N = _find_targets(vectors_MD, y_ND, pairs_path, bank_path, f"Y_{split}")
        splits[split] = Split(x_NLD, y_ND, target_N, bank.get(f"context_{split}"))
        _check_targets(splits[split], vectors_MD, pairs_path, bank_path, split)
        _check_context(splits[split], vectors_MD, bank_path, f"context_{split}")
    if not len(splits["train"]):
        raise BadDataError(pairs_path, "no pairs to train on", "X_train")
    _check_values(pairs_path, pairs, unit_length=("Y_train", "Y_val"))
    _check_values(bank_path, {"vectors": vectors_MD}, unit_length=("vectors",))
    return Data(splits["train"], splits["val"], vectors_MD, pairs_path, bank_path)


def as_tensor(array: Array) -> Tensor:
    """A tensor over the same bytes: for reading only, which torch has no way to say."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.from_numpy(np.asarray(array))


def _require(arrays: dict[str, Array], path: Path, name: str, dimensions: int) -> Array:
    if name not in arrays:
        there = ", ".join(sorted(arrays)) or "nothing"
        raise BadDataError(path, f"missing; the archive holds {there}", name)
    array = arrays[name]
    if array.dtype != np.float32:
        raise BadDataError(
            path, f"values are {array.dtype}, not float32; save array.astype('float32')", name
        )
    if array.ndim != dimensions or 0 in array.shape[1:]:
        wanted = "(rows, length, width)" if dimensions == 3 else "(rows, width)"
        raise BadDataError(path, f"has the shape {array.shape}, not {wanted}", name)
    return array


def _check_targets(
    split: Split, vectors_MD: Array, pairs_path: Path, bank_path: Path, name: str
) -> None:
    """Each target has to be the row of the bank that it says it is, bit for bit."""
    target_N, y_ND = split.target_N, split.y_ND
    array = f"target_{name}"
    if target_N.shape != (len(y_ND),) or target_N.dtype.kind not in "iu":
        raise BadDataError(
            bank_path,
            f"{target_N.dtype} of shape {target_N.shape}, "
            f"not one integer for each of the {len(y_ND):,} rows of Y_{name}",
            array,
        )
    outside = np.flatnonzero((target_N < 0) | (target_N >= len(vectors_MD)))
    if outside.size:
        row = int(outside[0])
        raise BadDataError(
            bank_path, f"row {target_N[row]} of a bank of {len(vectors_MD):,}", array, row
        )
    rows = max(1, _BLOCK_BYTES // (y_ND.shape[1] * 4))
    for start in range(0, len(y_ND), rows):
        block = slice(start, start + rows)
        differs = (vectors_MD[target_N[block]] != y_ND[block]).any(axis=1)
        # NaN differs from itself; that is for the check of values to say.
        differs &= ~np.isnan(y_ND[block]).any(axis=1)
        if differs.any():
            row = start + int(differs.argmax())
            raise BadDataError(
                pairs_path,
                f"is not row {target_N[row]} of {bank_path}: pairs and bank do not belong together",
                f"Y_{name}",
                row,
                do="use the two archives that one `twotower prepare` wrote",
            )


def _check_context(split: Split, vectors_MD: Array, bank_path: Path, array: str) -> None:
    context_NL = split.context_NL
    if context_NL is None:
        return
    if context_NL.shape != split.x_NLD.shape[:2] or context_NL.dtype.kind != "i":
        raise BadDataError(
            bank_path,
            f"{context_NL.dtype} of shape {context_NL.shape}, "
            f"not one integer for each vector of {split.x_NLD.shape[:2]}",
            array,
        )
    outside = ((context_NL < -1) | (context_NL >= len(vectors_MD))).any(axis=1)
    if outside.any():
        row = int(outside.argmax())
        raise BadDataError(bank_path, f"names no row of {len(vectors_MD):,}", array, row)


def _find_targets(
    vectors_MD: Array, y_ND: Array, pairs_path: Path, bank_path: Path, name: str
) -> Array:
    """The bank row of every target by its bytes, for banks that do not name them."""
    odd = np.random.default_rng(7).integers(0, 2**63, vectors_MD.shape[1], dtype=np.uint64) | 1

    def fingerprints(array_ND: Array) -> Array:
        rows = max(1, _BLOCK_BYTES // (array_ND.shape[1] * 4))
        parts = [
            (np.ascontiguousarray(array_ND[i : i + rows]).view(np.uint32) * odd).sum(axis=1)
            for i in range(0, len(array_ND), rows)
        ]
        return np.concatenate(parts) if parts else np.empty(0, np.uint64)

    bank_M, wanted_N = fingerprints(vectors_MD), fingerprints(y_ND)
    order_M = np.argsort(bank_M, kind="stable")
    place_N = np.searchsorted(bank_M[order_M], wanted_N).clip(max=len(bank_M) - 1)
    target_N = order_M[place_N]
    missing = np.flatnonzero(bank_M[target_N] != wanted_N)
    if missing.size:
        raise BadDataError(
            pairs_path,
            f"is not in {bank_path}: pairs and bank do not belong together",
            name,
            int(missing[0]),
            do="use the two archives that one `twotower prepare` wrote",
        )
    return target_N.astype(np.int64)


def _check_values(path: Path, arrays: dict[str, Array], unit_length: tuple[str, ...]) -> None:
    """Every value is finite, every target of length 1. A note beside the file says it was read."""
    stat = path.stat()
    seal = {"bytes": stat.st_size, "modified_ns": stat.st_mtime_ns}
    note = path.with_name(path.name + ".checked")
    try:
        if json.loads(note.read_text()) == seal:
            return
    except (OSError, ValueError):
        pass
    for name, array in arrays.items():
        if array.dtype.kind == "f":
            _check_array(path, name, array, name in unit_length)
    try:
        note.write_text(json.dumps(seal))
    except OSError:
        pass  # a read-only folder: the next start reads the data again


def _check_array(path: Path, name: str, array: Array, is_unit_length: bool) -> None:
    rows = max(1, _BLOCK_BYTES // max(1, array[:1].nbytes))
    for start in range(0, len(array), rows):
        block_NV = as_tensor(array[start : start + rows]).flatten(1)
        # The sum of squares meets every value once, and a NaN or an Inf comes through it.
        squares_N = torch.linalg.vector_norm(block_NV, dim=1)
        bad = torch.nonzero(~squares_N.isfinite())
        if len(bad):
            row = start + int(bad[0])
            kind = "NaN" if np.isnan(array[row]).any() else "an infinite value"
            raise BadDataError(path, f"holds {kind}", name, row, do="drop or repair this row")
        if is_unit_length:
            bad = torch.nonzero((squares_N - 1).abs() > 1e-3)
            if len(bad):
                row = int(bad[0])
                raise BadDataError(
                    path,
                    f"has the length {squares_N[row]:.4g}, not 1: the document tower is the "
                    "identity, so its vectors have to be normalised",
                    name,
                    start + row,
                    do="divide each row by its length before saving",
                )
