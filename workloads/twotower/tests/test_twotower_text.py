"""From a folder of text to an answer: prepare, train, evaluate, search, export."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from twotower.archive import map_archive
from twotower.embed import load_embedder
from twotower.text import read_text, split_text

pytest.importorskip("sklearn")

WORDS = ["river", "stone", "cloud", "engine", "letter", "garden", "winter", "signal", "copper"]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thirty files; each speaks about a few words of its own."""
    folder = tmp_path_factory.mktemp("library")
    for number in range(30):
        chooser = random.Random(number)
        topic = [f"{w}{number % 6}" for w in chooser.sample(WORDS, 4)]
        body = "\n\n".join(" ".join(chooser.choices(topic + WORDS, k=20)) for _ in range(12))
        if number % 3 == 0:
            (folder / f"{number:02}.txt.gz").write_bytes(gzip.compress(body.encode()))
        elif number % 3 == 1:
            paragraphs = "".join(f"<p>{p}</p>" for p in body.split("\n\n"))
            page = f"<html><style>nothidden</style><body>{paragraphs}</body></html>"
            (folder / f"{number:02}.html").write_text(page)
        else:
            (folder / f"{number:02}.rst").write_text(body)
    (folder / "picture.png").write_bytes(b"\x89PNG")
    return folder


@pytest.fixture(scope="module")
def trained(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from twotower.cli import main

    folder = tmp_path_factory.mktemp("trained")
    for command in (
        [
            "prepare",
            "--text",
            str(library),
            "--out",
            str(folder / "data"),
            "--length",
            "4",
            "--words",
            "20",
            "--dimension",
            "32",
            "--val",
            "40",
        ],
        [
            "train",
            "--data",
            str(folder / "data"),
            "--out",
            str(folder / "run"),
            "--bs",
            "16",
            "--accum",
            "1",
            "--hidden",
            "16",
            "--steps",
            "30",
            "--no-bar",
            "--device",
            "cpu",
        ],
    ):
        with pytest.raises(SystemExit) as ended:
            main(command)
        assert ended.value.code == 0
    return folder


def test_chunks_pairs_and_bank_belong_together(trained: Path) -> None:
    data = trained / "data"
    pairs, bank = map_archive(data / "pairs.npz"), map_archive(data / "bank.npz")
    chunks = [json.loads(line) for line in (data / "chunks.jsonl").read_text().splitlines()]
    assert len(chunks) == len(bank["vectors"]) == 30 * 12
    assert not any("nothidden" in chunk["text"] for chunk in chunks)
    # The last vector of a query is the chunk before its target, and of the same file.
    for split in ("train", "val"):
        target = bank[f"target_{split}"]
        np.testing.assert_array_equal(pairs[f"Y_{split}"], bank["vectors"][target])
        np.testing.assert_array_equal(pairs[f"X_{split}"][:, -1], bank["vectors"][target - 1])
        context = bank[f"context_{split}"]
        is_there = context >= 0
        np.testing.assert_array_equal(
            pairs[f"X_{split}"][is_there], bank["vectors"][context[is_there]]
        )
        assert not pairs[f"X_{split}"][~is_there].any()
    files = {s: {chunks[row]["source"] for row in bank[f"target_{s}"]} for s in ("train", "val")}
    assert not files["train"] & files["val"]


def test_a_text_is_embedded_later_as_it_was_then(trained: Path) -> None:
    data = trained / "data"
    chunks = [json.loads(line)["text"] for line in (data / "chunks.jsonl").read_text().splitlines()]
    again = load_embedder(data).embed(chunks[:50])
    np.testing.assert_allclose(again, map_archive(data / "bank.npz")["vectors"][:50], atol=2e-3)


@pytest.mark.thorough
def test_search_answers_a_text_and_a_vector(trained: Path, twotower: Any, tmp_path: Path) -> None:
    by_text = twotower("search", trained / "run", "river0 stone0 garden", "-k", 3, "--json")
    assert by_text.returncode == 0, by_text.stderr
    hits = json.loads(by_text.stdout)
    assert len(hits) == 3 and all(hit["text"] and hit["source"] for hit in hits)
    scores = [hit["score"] for hit in hits]
    assert scores == sorted(scores, reverse=True)
    np.save(tmp_path / "v.npy", map_archive(trained / "data" / "pairs.npz")["X_val"][0])
    by_vector = twotower("search", trained / "run", "--vector", tmp_path / "v.npy")
    assert by_vector.returncode == 0 and by_vector.stdout.startswith("1. ")
    unknown = twotower("search", trained / "run", "zzzz")
    assert unknown.returncode == 2 and "no word of the query" in unknown.stderr


def test_evaluate_prints_the_baselines_beside_the_model(trained: Path, twotower: Any) -> None:
    results = json.loads(twotower("evaluate", trained / "run", "--json").stdout)
    assert set(results) == {"model", "last vector", "mean vector"}
    for metrics in results.values():
        values = [metrics[f"recall@{k}"] for k in (1, 10, 100, 500, 1000)]
        assert values == sorted(values) and values[-1] == 1.0 and 0 < metrics["mrr"] <= 1


def test_torchscript_takes_other_shapes_and_agrees(
    trained: Path, twotower: Any, tmp_path: Path
) -> None:
    result = twotower("export", trained / "run", tmp_path / "tower.pt")
    assert result.returncode == 0, result.stderr
    tower = torch.jit.load(str(tmp_path / "tower.pt"))
    torch.testing.assert_close(tower(torch.randn(7, 3, 32)).norm(dim=1), torch.ones(7))


def test_onnx_agrees_or_says_what_is_missing(trained: Path, twotower: Any, tmp_path: Path) -> None:
    result = twotower("export", trained / "run", tmp_path / "tower.onnx")
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
    except ImportError:
        assert result.returncode == 2 and "pip install onnx onnxruntime" in result.stderr
    else:
        assert result.returncode == 0, result.stderr
        assert (tmp_path / "tower.onnx").exists()


def test_a_folder_without_text_is_named(tmp_path: Path, twotower: Any) -> None:
    result = twotower("prepare", "--text", tmp_path, "--out", tmp_path / "out")
    assert result.returncode == 2 and "no text found" in result.stderr


@given(st.lists(st.lists(st.text("ab", min_size=1, max_size=3), max_size=30), max_size=12))
def test_chunks_keep_the_order_and_lose_at_most_a_short_tail(paragraphs: list[list[str]]) -> None:
    text = "\n\n".join(" ".join(words) for words in paragraphs)
    chunks = list(split_text(text, 8))
    words, kept = text.split(), " ".join(chunks).split()
    assert kept == words[: len(kept)] and len(words) - len(kept) < 2
    assert all(len(chunk.split()) < 16 for chunk in chunks)


def test_tags_are_not_text(tmp_path: Path) -> None:
    page = tmp_path / "a.html"
    page.write_text("<p>one <b>two</b></p><script>three</script><p>four</p>")
    assert read_text(page).split() == ["one", "two", "four"]
