"""Data of any size with a structure that is known, written in bounded memory.

A document is a random point z of a latent space of LATENT dimensions, embedded in D by a fixed
matrix, with some noise. The query for it is a sequence of noisy views of the *rotated* point, so
that what lies nearest to a query vector is not the answer, and the answer can be learned: it is
the rotation undone. A retriever that learned it finds nearly every target; the baselines "last
vector" and "mean vector" see only what the rotation leaves in place.

Comes in: sizes and a seed. Goes out: pairs.npz and bank.npz, the same bytes for the same seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from twotower.archive import ArchiveWriter, Array, map_archive

LATENT = 48  # few enough to be learned in minutes, enough that no two of 10^6 documents coincide
ROTATION_RADIANS = (
    1.4  # leaves cos 1.4 = 0.17 of a document in its query: a weak baseline, not none
)
DOCUMENT_NOISE = 0.3  # beside a latent part of length 1
QUERY_NOISE = 4.0  # per vector of the sequence; averaging over the sequence is part of the task
_BLOCK_VALUES = 1 << 24  # 64 MB of float32 at a time
_PRODUCT_ROWS = 256  # rows of one matrix product


def write_synthetic(
    out: Path,
    rows: int,
    length: int,
    bank_rows: int,
    val_rows: int,
    dimension: int = 768,
    seed: int = 0,
) -> tuple[Path, Path]:
    """Writes both archives; peak memory does not depend on the sizes but for the bank's rows."""
    out.mkdir(parents=True, exist_ok=True)
    basis_KD = _basis(dimension, seed)
    latent_KD = _rotated(basis_KD)
    pairs_path, bank_path = out / "pairs.npz", out / "bank.npz"

    chooser = np.random.default_rng([seed, 1])
    total = rows + val_rows
    target_N = chooser.choice(bank_rows, total, replace=total > bank_rows).astype(np.int64)
    targets = {"train": target_N[:rows], "val": target_N[rows:]}

    with ArchiveWriter(bank_path) as writer:
        with writer.member("vectors", (bank_rows, dimension), np.float32) as sink:
            for ids_n in _blocks(bank_rows, dimension):
                sink.append(_documents(ids_n, basis_KD, seed))
        for split, ids in targets.items():
            writer.write(f"target_{split}", ids)

    # Taken from the bank, not made again: a product of one row is rounded otherwise than of many.
    vectors_MD = map_archive(bank_path)["vectors"]
    with ArchiveWriter(pairs_path) as writer:
        for split, ids in targets.items():
            with writer.member(f"X_{split}", (len(ids), length, dimension), np.float32) as sink:
                for block_n in _blocks(len(ids), length * dimension):
                    noise = np.random.default_rng([seed, 2, len(split), int(block_n[0])])
                    sink.append(_queries(ids[block_n], length, latent_KD, seed, noise))
            with writer.member(f"Y_{split}", (len(ids), dimension), np.float32) as sink:
                for block_n in _blocks(len(ids), dimension):
                    sink.append(vectors_MD[ids[block_n]])
    return pairs_path, bank_path


def _blocks(rows: int, row_values: int) -> Iterator[Array]:
    step = max(1, _BLOCK_VALUES // row_values)
    for start in range(0, rows, step):
        yield np.arange(start, min(rows, start + step))


def _basis(dimension: int, seed: int) -> Array:
    """LATENT orthonormal directions in D."""
    gaussian = np.random.default_rng([seed, 0]).standard_normal((dimension, LATENT))
    return np.linalg.qr(gaussian)[0].T.astype(np.float32)


def _rotated(basis_KD: Array) -> Array:
    """The same directions, each pair of them turned in its plane."""
    even_KD, odd_KD = basis_KD[0::2], basis_KD[1::2]
    turned = np.empty_like(basis_KD)
    turned[0::2] = np.cos(ROTATION_RADIANS) * even_KD + np.sin(ROTATION_RADIANS) * odd_KD
    turned[1::2] = np.cos(ROTATION_RADIANS) * odd_KD - np.sin(ROTATION_RADIANS) * even_KD
    return turned


def _latents(ids_n: Array, seed: int) -> Array:
    """The latent points of these documents, each a function of its id alone."""
    z_nK = _gaussian_by_id(ids_n, LATENT, seed, 3)
    return z_nK / np.linalg.norm(z_nK, axis=1, keepdims=True)


def _documents(ids_n: Array, basis_KD: Array, seed: int) -> Array:
    noise_nD = _gaussian_by_id(ids_n, basis_KD.shape[1], seed, 4)
    document_nD = _product(_latents(ids_n, seed), basis_KD)
    document_nD += noise_nD * np.float32(DOCUMENT_NOISE / basis_KD.shape[1] ** 0.5)
    return document_nD / np.linalg.norm(document_nD, axis=1, keepdims=True)


def _product(left_nK: Array, right_KD: Array) -> Array:
    """Return the matrix product, with each row rounded in the same way whatever block it is in.

    BLAS chooses its kernels by the number of rows, so every call gets the same number of them.
    """
    product_nD = np.empty((len(left_nK), right_KD.shape[1]), np.float32)
    for start in range(0, len(left_nK), _PRODUCT_ROWS):
        rows_nK = left_nK[start : start + _PRODUCT_ROWS]
        missing = _PRODUCT_ROWS - len(rows_nK)
        padded_nK = np.pad(rows_nK, ((0, missing), (0, 0))) if missing else rows_nK
        product_nD[start : start + _PRODUCT_ROWS] = (padded_nK @ right_KD)[: len(rows_nK)]
    return product_nD


def _queries(
    ids_n: Array, length: int, latent_KD: Array, seed: int, noise: np.random.Generator
) -> Array:
    dimension = latent_KD.shape[1]
    x_nLD = noise.standard_normal((len(ids_n), length, dimension), np.float32)
    x_nLD *= np.float32(QUERY_NOISE / dimension**0.5)
    x_nLD += _product(_latents(ids_n, seed), latent_KD)[:, None, :]
    x_nLD /= np.sqrt(np.einsum("nld,nld->nl", x_nLD, x_nLD))[..., None]
    return x_nLD


def _gaussian_by_id(ids_n: Array, width: int, seed: int, stream: int) -> Array:
    """Standard normal rows that depend on (seed, stream, id) only, whatever block they are in.

    A counter through the SplitMix64 mixer gives uniform bits; Box-Muller makes them normal.
    """
    half = (width + 1) // 2
    with np.errstate(over="ignore"):
        counter = ids_n.astype(np.uint64)[:, None] * np.uint64(half) + np.arange(
            half, dtype=np.uint64
        )
        counter += np.uint64((seed * 8 + stream + 1) * 0x632BE59BD9B4E019 & (2**64 - 1))
        bits: Array = counter * np.uint64(0x9E3779B97F4A7C15)
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        bits ^= bits >> np.uint64(31)
    radius = ((bits >> np.uint64(40)).astype(np.float32) + 1) * np.float32(2**-24)
    angle = (bits & np.uint64(0xFFFFFF)).astype(np.float32) * np.float32(2 * np.pi * 2**-24)
    radius = np.sqrt(np.float32(-2) * np.log(radius))
    return np.concatenate((radius * np.cos(angle), radius * np.sin(angle)), axis=1)[:, :width]
