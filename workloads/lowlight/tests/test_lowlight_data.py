"""Data: what is stated about the darkening, the pictures, the faces and the order of the pairs."""

from __future__ import annotations

from importlib.metadata import files
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from lowlight.darkening import Darkening, darken
from lowlight.errors import LowlightError
from lowlight.faces import Person, render_face
from lowlight.pairs import TrainingPairs, held_out_pairs, load_batches
from lowlight.pictures import Pictures, open_pictures, read_picture


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Eleven pictures of several kinds and shapes."""
    random = np.random.default_rng(0)
    for number, mode in enumerate(("RGB", "L", "RGBA", "P", "CMYK", "RGB", "RGB", "RGB", "1", "L")):
        values = random.integers(0, 256, (40 + number, 60, 3), dtype=np.uint8)
        suffix = ".jpg" if mode == "CMYK" else ".png"
        Image.fromarray(values).convert(mode).save(tmp_path / f"{number:02}{suffix}")
    (tmp_path / "deeper").mkdir()
    Image.new("RGB", (900, 300), (9, 99, 200)).save(tmp_path / "deeper" / "WIDE.JPG")
    return tmp_path


# -- darkening --------------------------------------------------------------------------------


@given(st.integers(0, 2**32 - 1))
def test_a_darkened_picture_is_dark_eight_bit_and_repeatable(seed: int) -> None:
    bright = np.random.default_rng(seed).random((12, 12, 3), np.float32)
    dark = darken(bright, np.random.default_rng(seed))
    assert dark.dtype == np.float32 and dark.shape == bright.shape
    assert dark.min() >= 0 and dark.mean() < 0.75 * bright.mean()
    assert np.allclose(dark * 255, np.round(dark * 255), atol=1e-4)
    assert np.array_equal(dark, darken(bright, np.random.default_rng(seed)))


def test_noise_and_exposure_are_as_stated() -> None:
    model = Darkening(2.0, 0.1, (1.0, 1.0, 1.0), 1000.0, 0.002)
    grey = np.full((200, 200, 3), 0.8, np.float32)
    light = model.apply(grey, np.random.default_rng(0)).astype(float) ** 2.0
    expected = 0.8**2 * 0.1
    assert light.mean() == pytest.approx(expected, rel=0.01)
    # Variance of a count is its mean; eight bits add a little.
    assert light.std() == pytest.approx(np.sqrt(expected / 1000 + 0.002**2), rel=0.03)


# -- pictures ---------------------------------------------------------------------------------


def test_bundled_pictures_are_in_the_wheel_and_none_is_in_both_parts() -> None:
    listed = {Path(str(path)).name for path in files("scikit-image") or []}
    split = open_pictures("bundled", 64)
    training = {path.name for path in split.training.paths}
    held_out = {path.name for path in split.held_out.paths}
    assert training | held_out <= listed
    assert not training & held_out
    for pictures in (split.training, split.held_out):
        for place in range(len(pictures)):
            picture = pictures[place]
            assert picture.dtype == np.uint8 and picture.shape[2] == 3
            assert min(picture.shape[:2]) >= 128 and max(picture.shape[:2]) <= 512


def test_any_folder_of_pictures_will_do(folder: Path) -> None:
    (folder / "broken.png").write_bytes(b"\x89PNG not really")
    Image.new("RGB", (10, 500)).save(folder / "narrow.png")
    (folder / "notes.txt").write_text("no picture")
    split = open_pictures(str(folder), 32)
    names = [path.name for path in split.training.paths + split.held_out.paths]
    assert len(names) == len(set(names)) == 11 and "WIDE.JPG" in names
    assert len(split.held_out) == 3
    assert len(split.left_out) == 2
    assert "broken.png: cannot be read" in split.left_out[0]
    assert "narrow.png: 10 x 500 pixels, 32 are needed" in split.left_out[1]


@pytest.mark.parametrize("source", ["nowhere", "."])
def test_a_folder_without_pictures_is_refused(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LowlightError, match=f"--pictures {source}: "):
        open_pictures(source, 32)


def test_too_much_for_memory_is_read_at_every_use(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = sorted(folder.glob("*.png"))
    kept = Pictures(paths)
    monkeypatch.setattr("lowlight.pictures._IN_MEMORY_BYTES", 1000)
    unkept = Pictures(paths)
    assert kept._kept and not unkept._kept
    for place in range(len(paths)):
        assert np.array_equal(kept[place], unkept[place])


def test_sixteen_bits_and_lying_photographs_are_read_as_meant(tmp_path: Path) -> None:
    deep = np.linspace(0, 65535, 64 * 32).reshape(32, 64).astype(np.uint16)
    Image.fromarray(deep).save(tmp_path / "deep.png")
    read = read_picture(tmp_path / "deep.png")
    assert np.array_equal(read[..., 0], deep >> 8)
    lying = Image.new("RGB", (40, 20))
    exif = lying.getexif()
    exif[0x0112] = 6  # the camera was turned
    lying.save(tmp_path / "lying.jpg", exif=exif)
    assert read_picture(tmp_path / "lying.jpg").shape == (40, 20, 3)


def test_a_large_picture_is_shrunk(folder: Path) -> None:
    assert read_picture(folder / "deeper" / "WIDE.JPG").shape == (171, 512, 3)


# -- faces ------------------------------------------------------------------------------------


def test_a_face_is_its_two_numbers() -> None:
    face = render_face(Person.draw(5), 3, 48)
    assert face.shape == (48, 48, 3) and face.dtype == np.uint8
    assert np.array_equal(face, render_face(Person.draw(5), 3, 48))
    assert not np.array_equal(face, render_face(Person.draw(5), 4, 48))
    assert not np.array_equal(face, render_face(Person.draw(6), 3, 48))


@given(st.integers(0, 10_000), st.integers(0, 10_000))
def test_every_person_can_be_drawn(person: int, view: int) -> None:
    face = render_face(Person.draw(person), view, 24)
    assert face.std() > 5


# -- pairs ------------------------------------------------------------------------------------


def batches_of(pairs: TrainingPairs, first: int, workers: int) -> list[torch.Tensor]:
    return [torch.stack(batch) for batch in load_batches(pairs, 3, first, 5, workers)]


def test_a_batch_depends_on_seed_and_step_alone(folder: Path) -> None:
    pictures = open_pictures(str(folder), 16).training
    pairs = TrainingPairs(pictures, people=2, crop=16, faces=1, seed=4)
    in_line, ahead = batches_of(pairs, 0, workers=0), batches_of(pairs, 0, workers=2)
    from_step_3 = batches_of(pairs, 3, workers=1)
    assert len(in_line) == 5 and in_line[0].shape == (2, 3, 3, 16, 16)
    assert all(map(torch.equal, in_line, ahead))
    assert all(map(torch.equal, in_line[3:], from_step_3))
    other = TrainingPairs(pictures, people=2, crop=16, faces=1, seed=5)
    assert not torch.equal(batches_of(other, 0, workers=0)[0], in_line[0])
    assert not torch.equal(in_line[0], in_line[1])


def test_loading_leaves_the_random_numbers_of_the_training_alone(folder: Path) -> None:
    pairs = TrainingPairs(open_pictures(str(folder), 16).training, 0, 16, 0, 0)
    before = torch.get_rng_state()
    batches_of(pairs, 4, workers=0)
    assert torch.equal(before, torch.get_rng_state())


def test_held_out_pairs_are_always_the_same() -> None:
    pictures = open_pictures("bundled", 64).held_out
    first, second = (held_out_pairs(pictures, 2, 32) for _ in range(2))
    assert [pair.name for pair in first][:5] == [
        *(f"chelsea.png:{n}" for n in range(4)),
        "coffee.png:0",
    ]
    assert [pair.is_face for pair in first] == [False] * 12 + [True] * 2
    for a, b in zip(first, second, strict=True):
        assert np.array_equal(a.dark, b.dark) and np.array_equal(a.bright, b.bright)
