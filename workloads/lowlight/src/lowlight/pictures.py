"""Pictures to train on: those inside the scikit-image wheel, or any folder of them.

Comes in: `bundled` or a folder. Goes out: training and held-out pictures, each at most 512 pixels
long. Nothing is downloaded. A picture is wholly training or wholly held out; in a folder every
fifth by name is. Files that cannot be read, or are smaller than a crop, are named and left out.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from lowlight.darkening import Picture
from lowlight.errors import LowlightError

BUNDLED = "bundled"
_SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp"}
_LONGEST = 512
_IN_MEMORY_BYTES = 256 << 20  # more than this is read again at every use, in the workers

# In the wheel since long ago and still there in 0.26; the library fetches its other pictures.
_TRAINING = (
    *("astronaut.png", "motorcycle_left.png", "motorcycle_right.png", "rocket.jpg", "ihc.png"),
    *("retina.jpg", "hubble_deep_field.jpg", "color.png", "cell.png", "brick.png", "grass.png"),
    *("gravel.png", "coins.png", "moon.png", "clock_motion.png"),
)
_HELD_OUT = ("chelsea.png", "coffee.png", "camera.png")


@dataclass
class Pictures:
    """Read one by its place; kept in memory when all of them fit the budget."""

    paths: list[Path]
    _kept: list[Picture] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        size = sum(_shrunk_bytes(path) for path in self.paths)
        if size <= _IN_MEMORY_BYTES:
            # Before workers are forked, so that all of them share one copy.
            self._kept = [read_picture(path) for path in self.paths]

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, place: int) -> Picture:
        return self._kept[place] if self._kept else read_picture(self.paths[place])


@dataclass(frozen=True)
class Split:
    training: Pictures
    held_out: Pictures
    left_out: list[str]  # one sentence per file that was not used


def open_pictures(source: str, smallest: int) -> Split:
    """`smallest`: the shorter side that a picture must have."""
    if source == BUNDLED:
        folder = Path(str(files("skimage.data")))
        return Split(
            Pictures([folder / name for name in _TRAINING]),
            Pictures([folder / name for name in _HELD_OUT]),
            [],
        )
    root = Path(source)
    if not root.is_dir():
        raise LowlightError(
            f"--pictures {source}: no such folder.\n"
            f"Give one, or --pictures {BUNDLED} for those of scikit-image."
        )
    usable, left_out = [], []
    for path in sorted(p for p in root.rglob("*") if p.suffix.lower() in _SUFFIXES):
        reason = _why_not(path, smallest)
        if reason:
            left_out.append(f"{path}: {reason}")
        else:
            usable.append(path)
    if len(usable) < 2:
        raise LowlightError(
            f"--pictures {source}: {len(usable)} usable pictures of at least {smallest} pixels, "
            "2 are needed\n" + "\n".join(left_out[:5])
        )
    held_out = usable[::5]
    return Split(
        Pictures([path for path in usable if path not in set(held_out)]),
        Pictures(held_out),
        left_out,
    )


def read_picture(path: Path, longest: int | None = _LONGEST) -> Picture:
    """Any picture as 8-bit RGB, upright, shrunk if it is longer than `longest`."""
    with Image.open(path) as opened:
        if longest is not None:
            opened.draft("RGB", (longest, longest))  # JPEG decodes straight to a smaller size
        image = ImageOps.exif_transpose(opened)
        if image.mode.startswith("I;16"):  # Pillow would clip 16 bits to 8, not scale them
            image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
        rgb = image.convert("RGB")
        if longest is not None:
            rgb.thumbnail((longest, longest), Image.Resampling.LANCZOS, reducing_gap=None)
        return np.asarray(rgb, np.uint8)


def _why_not(path: Path, smallest: int) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            shape = read_picture(path).shape
    except Exception as error:  # Pillow raises many kinds for a damaged file
        return f"cannot be read ({str(error).splitlines()[0] if str(error) else error!r})"
    if min(shape[:2]) < smallest:
        return f"{shape[1]} x {shape[0]} pixels, {smallest} are needed"
    return ""


def _shrunk_bytes(path: Path) -> int:
    with Image.open(path) as image:
        scale = min(1.0, _LONGEST / max(image.size))
        return int(3 * image.width * image.height * scale * scale)
