"""The face encoder knows people it has never seen, and is trained once whoever needs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from lowlight.errors import LowlightError
from lowlight.face_encoder import Recipe, judge, open_face_encoder, train_face_encoder
from lowlight.saving import as_bytes

TINY = Recipe(people=4, views=2, steps=3, batch_size=4)


@pytest.mark.thorough
def test_it_tells_people_apart_whom_it_has_never_seen(cache: Path) -> None:
    encoder = open_face_encoder(cache)
    assert judge(encoder) > 0.95
    assert not any(parameter.requires_grad for parameter in encoder.parameters())


def test_its_weights_do_not_depend_on_the_threads_or_the_random_numbers_before() -> None:
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        torch.manual_seed(11)
        first = train_face_encoder(TINY)
        after = torch.rand(1)
        torch.set_num_threads(1)
        torch.manual_seed(11)
        assert as_bytes(first.state_dict()) == as_bytes(train_face_encoder(TINY).state_dict())
        assert torch.equal(after, torch.rand(1))  # and those after are left alone
    finally:
        torch.set_num_threads(threads)


def test_a_second_time_it_comes_from_the_cache_and_a_damaged_one_is_made_anew(
    tmp_path: Path,
) -> None:
    said: list[str] = []
    first = open_face_encoder(tmp_path / "cache", said.append, TINY)
    assert said[0].startswith("training the face encoder, once")
    (path,) = (tmp_path / "cache").glob("*.pt")
    whole = path.read_bytes()
    said.clear()
    second = open_face_encoder(tmp_path / "cache", said.append, TINY)
    assert said == []
    assert as_bytes(first.state_dict()) == as_bytes(second.state_dict())
    path.write_bytes(whole[:500])
    open_face_encoder(tmp_path / "cache", said.append, TINY)
    assert said and path.read_bytes() == whole


@pytest.mark.thorough
def test_of_two_processes_that_need_it_one_trains(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    code = (
        "from pathlib import Path; from lowlight.face_encoder import *;"
        f"open_face_encoder(Path({str(tmp_path)!r}), recipe=Recipe(people=4, views=2, steps=3))"
    )
    command = [sys.executable, "-c", code]
    both = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    output = "".join(process.communicate(timeout=120)[0] for process in both)
    assert [process.returncode for process in both] == [0, 0]
    assert output.count("training the face encoder") == 1


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LowlightError, match="--cache DIR"):
        open_face_encoder(tmp_path / "file" / "cache", print, TINY)
