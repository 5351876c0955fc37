"""Where in the life of a job it was, and what a symptom means there."""

from __future__ import annotations

from pathlib import Path

import pytest

from rerail.catalogue import load_catalogue
from rerail.diagnosis import explain_logs
from rerail.evidence.text.lines import to_lines
from rerail.evidence.text.phases import PHASES, phase_of_line, phase_of_traceback
from rerail.evidence.text.tracebacks import find_tracebacks


def traceback(*frames: str, error: str = "EOFError: Ran out of input") -> str:
    lines = ["Traceback (most recent call last):"]
    for frame in frames:
        file, _, function = frame.rpartition(":")
        lines.append(f'  File "{file}", line 3, in {function}')
    return "\n".join([*lines, error]) + "\n"


def phase(*frames: str, quoted: tuple[str, ...] = ()) -> str:
    lines = list(to_lines(enumerate(traceback(*frames).splitlines(), 1)))
    (found,) = find_tracebacks(lines)
    return phase_of_traceback(found, quoted)


SITE = "/venv/lib/python3.11/site-packages"


@pytest.mark.parametrize(
    ("frames", "expected"),
    [
        (["train.py:main", f"{SITE}/torch/serialization.py:load"], "checkpoint-loading"),
        (["train.py:load_annotations", f"{SITE}/torch/serialization.py:load"], "data-opening"),
        (["train.py:resume", "/usr/lib/python3.11/pickle.py:load"], "checkpoint-loading"),
        (["train.py:main", "my/dataset.py:__getitem__"], "sample-loading"),
        (
            ["train.py:main", "utils/config.py:merge", f"{SITE}/yaml/reader.py:check"],
            "configuration",
        ),
        (["t.py:main", f"{SITE}/torch/distributed/rendezvous.py:_tcp"], "rendezvous"),
        (["t.py:main", f"{SITE}/torch/optim/adam.py:step"], "optimizer"),
        (["t.py:main", f"{SITE}/torch/serialization.py:save"], "checkpoint-saving"),
        (["t.py:main", "t.py:work"], ""),
    ],
)
def test_the_frames_say_where(frames: list[str], expected: str) -> None:
    assert phase(*frames) == expected
    assert expected in (*PHASES, "")


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("store = h5py.File(name, 'r')", "data-opening"),
        ("net.load_weights(path)", "checkpoint-loading"),
        ("for x, y in tqdm(train_loader):", "data-opening"),
        ("raw = yaml.safe_load(file)", "configuration"),
        ("y = net(x)", ""),
    ],
)
def test_quoted_code_says_where_no_frame_does(code: str, expected: str) -> None:
    assert phase("t.py:main", "t.py:work", quoted=("main()", code)) == expected
    assert phase("t.py:resume", quoted=(code,)) == "checkpoint-loading"


def test_a_line_is_placed_by_what_was_announced_before_it() -> None:
    text = ["Resuming from checkpoint runs/9.pt", "reading", "unexpected end of data"]
    lines = list(to_lines(enumerate(text, 1)))
    assert phase_of_line(lines, 2) == "checkpoint-loading"
    assert phase_of_line(lines[1:], 1) == ""


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("Token authentication is on. For more information, see https://docs.ray.io/token", ""),
        ("is deprecated: https://pytorch.org/docs/stable/amp.html", ""),
        ("Failed to read https://mirror.example/wikitext/train.zip", "download"),
        ("GET https://docs.google.com/uc?id=1", "download"),
    ],
)
def test_where_more_is_to_be_read_is_no_download(said: str, expected: str) -> None:
    lines = list(to_lines(enumerate([said, "a worker died"], 1)))
    assert phase_of_line(lines, 1) == expected


@pytest.mark.parametrize(
    ("frames", "error", "cause"),
    [
        (["t.py:load_checkpoint"], "EOFError: Ran out of input", "checkpoint-corrupt"),
        (["data/reader.py:read_examples"], "EOFError: Ran out of input", "data-corrupt"),
        (
            ["utils/config.py:load_config"],
            "UnicodeDecodeError: 'utf-8' codec can't decode byte 0x80 in position 0",
            "bad-config",
        ),
        (
            ["t.py:init_distributed"],
            "ValueError: host not found: Name or service not known",
            "rendezvous-failed",
        ),
        (["t.py:load_checkpoint"], "KeyError: 'model.head.weight'", "checkpoint-incompatible"),
    ],
)
def test_the_same_words_in_another_place_are_another_cause(
    frames: list[str], error: str, cause: str, tmp_path: Path
) -> None:
    log = tmp_path / "train.log"
    log.write_text(traceback("train.py:main", *frames, error=error))
    assert explain_logs([log]).causes[0].id == cause


def test_the_table_names_phases_that_exist() -> None:
    named = {
        phase
        for cause in load_catalogue()
        for sign in cause.signs
        if sign.observation == "symptom"
        for phase in sign.when.get("phase", [])
    }
    assert named and named <= {*PHASES, "unknown"}
