"""Real data from a folder of text.

Files are read in order of their paths and cut into chunks of about `words` words, in reading order,
never across files. Each chunk is a document; the query for a chunk is the sequence of the `length`
chunks before it in its file, zeros in front where there are fewer. Every file is either training or
validation, so no validation query has a training neighbour in its sequence.

Comes in: a folder. Goes out: pairs.npz, bank.npz, chunks.jsonl (the text of each bank row) and
embedder.npz (to embed a query later).
"""

from __future__ import annotations

import gzip
import html.parser
import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from twotower.archive import ArchiveWriter, Array
from twotower.embed import make_embedder
from twotower.errors import TwotowerError

_SUFFIXES = (".txt", ".rst", ".md", ".html", ".htm", ".adoc", ".org", ".tex")
_SHORTEST = 4  # chunks: a file with fewer has no sequence worth learning from
_BLOCK_ROWS = 512


def write_text_data(
    folder: Path,
    out: Path,
    length: int,
    words: int,
    val_rows: int,
    dimension: int,
    embedder_name: str,
    sentence_model: str,
    seed: int,
) -> tuple[Path, ...]:
    chunks, file_starts = _read_chunks(folder, words)
    embedder = make_embedder(embedder_name, dimension, sentence_model, seed)
    vectors_MD = embedder.fit(chunks)
    # A chunk without a single known word has no direction; it stays out of the pairs and the bank.
    is_known = np.linalg.norm(vectors_MD, axis=1) > 0.5
    old_rows = np.flatnonzero(is_known)
    new_row = np.full(len(chunks), -1, np.int64)
    new_row[old_rows] = np.arange(len(old_rows))

    targets = _pair_targets(file_starts, len(chunks), is_known)
    val_files = _choose_val_files(targets, val_rows or len(targets) // 20, seed)
    splits = {
        "train": [t for t in targets if t[1] not in val_files],
        "val": [t for t in targets if t[1] in val_files],
    }
    if not splits["train"] or not splits["val"]:
        raise TwotowerError(
            f"{folder}: {len(chunks)} chunks in {len(file_starts)} files are too few to make "
            "training and validation pairs of;\na larger folder, or a lower --words"
        )
    out.mkdir(parents=True, exist_ok=True)
    pairs_path, bank_path = out / "pairs.npz", out / "bank.npz"
    with ArchiveWriter(bank_path) as writer:
        writer.write("vectors", vectors_MD[old_rows])
        for split, pairs in splits.items():
            writer.write(f"target_{split}", new_row[[chunk for chunk, _ in pairs]])
            contexts = [_context(new_row, -1, chunk, first, length) for chunk, first in pairs]
            writer.write(f"context_{split}", np.stack(contexts))
    with ArchiveWriter(pairs_path) as writer:
        for split, pairs in splits.items():
            shape = (len(pairs), length, vectors_MD.shape[1])
            with writer.member(f"X_{split}", shape, np.float32) as sink:
                for start in range(0, len(pairs), _BLOCK_ROWS):
                    sink.append(
                        np.stack(
                            [
                                _context(vectors_MD, 0, chunk, first, length)
                                for chunk, first in pairs[start : start + _BLOCK_ROWS]
                            ]
                        )
                    )
            writer.write(f"Y_{split}", vectors_MD[[chunk for chunk, _ in pairs]])
    with (out / "chunks.jsonl").open("w", encoding="utf-8") as file:
        for row in old_rows:
            source, text = chunks.sources[row], chunks[row]
            file.write(json.dumps({"source": source, "text": text}, ensure_ascii=False) + "\n")
    embedder.save(out)
    print(
        f"{len(file_starts):,} files, {len(old_rows):,} chunks, "
        f"{len(splits['train']):,} + {len(splits['val']):,} pairs of length {length}"
    )
    return pairs_path, bank_path


class Chunks(list[str]):
    """The texts, and for each the file it is from."""

    def __init__(self) -> None:
        super().__init__()
        self.sources: list[str] = []


def _read_chunks(folder: Path, words: int) -> tuple[Chunks, list[int]]:
    chunks, starts = Chunks(), []
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or not _is_text(path):
            continue
        parts = list(split_text(read_text(path), words))
        if len(parts) < _SHORTEST:
            continue
        starts.append(len(chunks))
        chunks.extend(parts)
        chunks.sources.extend([str(path.relative_to(folder))] * len(parts))
    if not chunks:
        raise TwotowerError(f"{folder}: no text found (looked for {' '.join(_SUFFIXES)}, also .gz)")
    return chunks, starts


def _is_text(path: Path) -> bool:
    name = path.name.removesuffix(".gz").lower()
    return name.endswith(_SUFFIXES)


def read_text(path: Path) -> str:
    """The text of a file, decompressed, without HTML's tags."""
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    text = raw.decode("utf-8", "replace")
    if path.name.removesuffix(".gz").lower().endswith((".html", ".htm")):
        stripper = _TagStripper()
        stripper.feed(text)
        text = " ".join(stripper.parts)
    return text


def split_text(text: str, words: int) -> Iterator[str]:
    """Paragraphs joined until there are enough words; a paragraph that is too long is cut."""
    waiting: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text):
        waiting += paragraph.split()
        while len(waiting) >= 2 * words:
            yield " ".join(waiting[:words])
            del waiting[:words]
        if len(waiting) >= words:
            yield " ".join(waiting)
            waiting = []
    if len(waiting) >= words // 4:
        yield " ".join(waiting)


class _TagStripper(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self._hidden += tag in ("script", "style")
        if tag in ("p", "div", "h1", "h2", "h3", "li", "tr", "pre"):
            self.parts.append("\n\n")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in ("script", "style")

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.parts.append(data)


def _pair_targets(starts: list[int], count: int, is_known: Array) -> list[tuple[int, int]]:
    """(target chunk, first chunk of its file) of every chunk that has one before it."""
    ends = [*starts[1:], count]
    return [
        (chunk, first)
        for first, end in zip(starts, ends, strict=True)
        for chunk in range(first + 1, end)
        if is_known[chunk]
    ]


def _choose_val_files(targets: list[tuple[int, int]], wanted: int, seed: int) -> set[int]:
    """Whole files, at random, until they hold enough pairs."""
    files, sizes = np.unique([first for _, first in targets], return_counts=True)
    largest = max(wanted // 4, int(np.median(sizes)))  # one huge file would be all of the split
    chosen: set[int] = set()
    pairs = 0
    for place in np.random.default_rng(seed).permutation(len(files)):
        if pairs >= wanted or len(chosen) + 1 >= len(files):
            break
        if sizes[place] <= largest:
            chosen.add(int(files[place]))
            pairs += int(sizes[place])
    return chosen


def _context(values: Array, padding: int, chunk: int, first: int, length: int) -> Array:
    """The values of the `length` chunks before this one, padded in front."""
    begin = max(first, chunk - length)
    context = np.full((length, *values.shape[1:]), padding, values.dtype)
    context[length - (chunk - begin) :] = values[begin:chunk]
    return context
