"""Pairs of a dark and a bright picture, in an order that is a function of the seed and the step.

Comes in: pictures, the seed, the step to begin at. Goes out: batches, made ahead by worker
processes; the first `faces` of each batch are faces. Since every pair is drawn from (seed, step,
place) alone, neither the number of workers nor an interruption changes a batch. Held-out pairs do
not depend on the seed: runs of different seeds are measured on the same ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from lowlight.darkening import Picture, Values, darken
from lowlight.faces import Person, render_face
from lowlight.pictures import Pictures

_VIEWS = 8  # of each person
_HELD_OUT_PERSON = 10_000  # persons from here on are not trained on
_HELD_OUT_CROP = 128
HELD_OUT_PEOPLE = 12
Place = tuple[int, int]  # step, place in its batch


class TrainingPairs(Dataset[tuple[Tensor, Tensor]]):
    def __init__(self, pictures: Pictures, people: int, crop: int, faces: int, seed: int) -> None:
        self.pictures, self.crop, self.faces, self.seed = pictures, crop, faces, seed
        # Rendered once, before workers are forked; 24 people take 0.5 s and 2 MB.
        self.portraits: list[Picture] = [
            render_face(Person.draw(person), view, crop)
            for person in range(people if faces else 0)
            for view in range(_VIEWS)
        ]

    def __getitem__(self, at: Place) -> tuple[Tensor, Tensor]:
        step, place = at
        random = np.random.default_rng([self.seed, step, place])
        if place < self.faces:
            bright = _as_values(self.portraits[random.integers(len(self.portraits))])
        else:
            bright = self._cut(random)
        if random.random() < 0.5:
            bright = bright[:, ::-1]
        return _as_tensor(darken(bright, random)), _as_tensor(bright)

    def _cut(self, random: np.random.Generator) -> Values:
        """A crop of a picture, turned, with its channels in any order: colours are few here."""
        picture = self.pictures[int(random.integers(len(self.pictures)))]
        height, width, _ = picture.shape
        # Every other pixel of a crop twice the size shows more of the scene.
        stride = 2 if min(height, width) >= 2 * self.crop and random.random() < 0.5 else 1
        top = random.integers(height - stride * self.crop + 1)
        left = random.integers(width - stride * self.crop + 1)
        part = picture[top:, left:][: stride * self.crop, : stride * self.crop]
        values = _as_values(part)
        if stride == 2:
            values = values.reshape(self.crop, 2, self.crop, 2, 3).mean((1, 3))
        return np.rot90(values, int(random.integers(4)))[..., random.permutation(3)]


@dataclass(frozen=True)
class Pair:
    name: str
    dark: Values
    bright: Values
    is_face: bool


def held_out_pairs(pictures: Pictures, people: int, crop: int) -> list[Pair]:
    """Four crops of each picture, one portrait of each person."""
    brights: list[tuple[str, Values, bool]] = []
    for place, path in enumerate(pictures.paths):
        picture = _as_values(pictures[place])
        size = min(_HELD_OUT_CROP, *picture.shape[:2])
        spare_y, spare_x = picture.shape[0] - size, picture.shape[1] - size
        for number, (down, right) in enumerate(((1, 1), (1, 3), (3, 1), (3, 3))):
            top, left = spare_y * down // 4, spare_x * right // 4
            part = picture[top : top + size, left : left + size]
            brights.append((f"{path.name}:{number}", part, False))
    for number in range(people):
        person = Person.draw(_HELD_OUT_PERSON + number)
        portrait = render_face(person, 1000 + number, crop)
        brights.append((f"person-{number}", _as_values(portrait), True))
    return [
        Pair(name, darken(bright, np.random.default_rng([73, number])), bright, is_face)
        for number, (name, bright, is_face) in enumerate(brights)
    ]


@dataclass(frozen=True)
class _Steps:
    """For DataLoader: the places of every batch from a step on."""

    first: int
    last: int
    batch_size: int

    def __iter__(self) -> Iterator[list[Place]]:
        for step in range(self.first, self.last):
            yield [(step, place) for place in range(self.batch_size)]

    def __len__(self) -> int:
        return self.last - self.first


def load_batches(
    pairs: TrainingPairs, batch_size: int, first: int, last: int, workers: int
) -> DataLoader[tuple[Tensor, Tensor]]:
    return DataLoader(
        pairs,
        batch_sampler=_Steps(first, last, batch_size),
        num_workers=workers,
        # Its own generator: the loader draws a number at its start, and would take it from the one
        # that a resumed run has to find untouched.
        generator=torch.Generator(),
        pin_memory=False,
    )


def _as_values(picture: Picture) -> Values:
    return picture.astype(np.float32) / np.float32(255)


def _as_tensor(values: Values) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values.transpose(2, 0, 1), np.float32))
