"""A small face encoder: pictures in, unit vectors out, near for one person and far for two.

The workload trains it itself, once, on generated faces, and keeps it in a cache; training then uses
it frozen. Promises: its weights are a function of this file alone (one thread, fixed seed), whoever
trains it; of several processes that need it at once, one trains and the others wait.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lowlight.errors import LowlightError
from lowlight.faces import Person, render_face
from lowlight.saving import as_bytes, read_state, write_whole

_SIZE = 64
_SEED = 7
_PERSON, _JUDGED_PERSON = 20_000, 30_000  # nobody whom the enhancer trains or is measured on


@dataclass(frozen=True)
class Recipe:
    people: int = 64
    views: int = 12  # of each
    steps: int = 240  # twice the portraits and 300 steps of 48 did no better
    batch_size: int = 32
    lr: float = 2e-3
    sharpness: float = 16.0  # of the softmax over cosines
    version: int = 1  # raise it when faces or the network change: caches are told apart by it

    @property
    def digest(self) -> str:
        return hashlib.sha256(repr(sorted(asdict(self).items())).encode()).hexdigest()[:12]


class FaceEncoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        widths = (3, 16, 32, 48, 64)
        layers: list[nn.Module] = []
        for inputs, outputs in pairwise(widths):
            layers += [nn.Conv2d(inputs, outputs, 3, stride=2, padding=1), nn.SiLU()]
        self.features = nn.Sequential(*layers)
        self.embedding = nn.Linear(64 * 16, 64)  # 4 × 4 places: where a feature is matters

    def forward(self, rgb_B3HW: Tensor) -> Tensor:
        if rgb_B3HW.shape[-2:] != (_SIZE, _SIZE):
            rgb_B3HW = F.interpolate(
                rgb_B3HW, (_SIZE, _SIZE), mode="bilinear", align_corners=False, antialias=True
            )
        return F.normalize(self.embedding(self.features(rgb_B3HW - 0.5).flatten(1)), dim=1)


def open_face_encoder(
    cache: Path, say: Callable[[str], None] = print, recipe: Recipe | None = None
) -> FaceEncoder:
    """Frozen; from the cache, or trained now and put there."""
    recipe = recipe or Recipe()
    path = cache / f"face-encoder-{recipe.digest}.pt"
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with _only_one(cache / f"{path.stem}.lock"):
            encoder = _load(path)
            if encoder is None:
                say(f"training the face encoder, once: {path}")
                encoder = train_face_encoder(recipe)
                write_whole(path, as_bytes(encoder.state_dict()))
                say(f"face encoder: {judge(encoder):.1%} of pairs of strangers told apart")
    except OSError as error:
        raise LowlightError(
            f"{cache} cannot hold the face encoder: {error.strerror}\n"
            "Name a folder that can be written: --cache DIR"
        ) from None
    return encoder.requires_grad_(False).eval()


def train_face_encoder(recipe: Recipe) -> FaceEncoder:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # sums in another order would be other weights
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(_SEED)
            return _fit(recipe)
    finally:
        torch.set_num_threads(threads)


def judge(encoder: FaceEncoder, people: int = 40) -> float:
    """Of people never seen: how often two views of one are nearer than views of two (AUC)."""
    portraits = _portraits(_JUDGED_PERSON, people, 4)
    with torch.no_grad():
        flat = encoder(portraits.flatten(0, 1).float() / 255)
    cosine = flat @ flat.T
    person = torch.arange(people).repeat_interleave(portraits.shape[1])
    is_same = person[:, None] == person[None, :]
    is_pair = torch.ones_like(is_same).triu(1)
    same, other = cosine[is_same & is_pair], cosine[~is_same & is_pair]
    return float((same[:, None] > other[None, :]).float().mean())


def _fit(recipe: Recipe) -> FaceEncoder:
    portraits_PV = _portraits(_PERSON, recipe.people, recipe.views)
    encoder = FaceEncoder()
    centres_PD = nn.Parameter(torch.randn(recipe.people, 64))
    optimizer = torch.optim.AdamW([*encoder.parameters(), centres_PD], lr=recipe.lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, recipe.lr, recipe.steps)
    for _ in range(recipe.steps):
        person_B = torch.randint(recipe.people, (recipe.batch_size,))
        view_B = torch.randint(recipe.views, (recipe.batch_size,))
        faces = portraits_PV[person_B, view_B].float() / 255
        # Light and sensor noise are no part of a person.
        faces = faces * (0.6 + 0.6 * torch.rand(len(faces), 1, 1, 1))
        faces = (faces + 0.03 * torch.randn_like(faces)).clamp(0, 1)
        cosine_BP = encoder(faces) @ F.normalize(centres_PD, dim=1).T
        loss = F.cross_entropy(recipe.sharpness * cosine_BP, person_B)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
    return encoder


def _portraits(first: int, people: int, views: int) -> Tensor:
    """(people, views, 3, 64, 64), 8-bit; no two share a view, so only the person is repeated."""
    pictures = [
        [render_face(Person.draw(person), person * views + view, _SIZE) for view in range(views)]
        for person in range(first, first + people)
    ]
    return torch.from_numpy(np.array(pictures)).permute(0, 1, 4, 2, 3).contiguous()


def _load(path: Path) -> FaceEncoder | None:
    if not path.exists():
        return None
    encoder = FaceEncoder()
    try:
        encoder.load_state_dict(read_state(path))
    except Exception:  # damaged: it is made anew
        return None
    return encoder


@contextmanager
def _only_one(path: Path) -> Iterator[None]:
    """The kernel lets go of the lock when its holder dies, however it dies."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
