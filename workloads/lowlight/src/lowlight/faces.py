"""Generated faces: people who do not exist, each recognisable from view to view.

Comes in: a person's number, a view's number, a size. Goes out: a picture. What makes the person
(shape, colours, distances, hair, beard, glasses) is drawn from the first number, what does not
(pose, expression, light, background) from the second. Promises: same numbers, same picture.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowlight.darkening import Picture

Plane = NDArray[Any]  # of float32; (height, width), with colours (height, width, 3)
Colour = NDArray[Any]  # (3,) of float32, 0 to 1


def _palette(*colours: tuple[int, int, int]) -> Colour:
    return np.array(colours, np.float32) / np.float32(255)


_SKINS = _palette((255, 220, 195), (225, 172, 130), (165, 110, 75), (85, 55, 40))
_HAIRS = _palette((25, 20, 18), (75, 45, 25), (150, 95, 45), (215, 180, 110), (150, 150, 150))
_IRISES = _palette((60, 35, 20), (95, 75, 35), (60, 105, 75), (75, 115, 165))


@dataclass(frozen=True)
class Person:
    """Lengths in half picture sides, from the middle of the face."""

    skin: Colour
    hair: Colour
    iris: Colour
    lips: Colour
    face_width: float
    face_height: float
    squareness: float
    hairline: float
    hair_volume: float
    has_long_hair: bool
    eye_distance: float
    eye_size: float
    eye_slant: float
    brow_height: float
    brow_thickness: float
    brow_slant: float
    nose_length: float
    nose_width: float
    mouth_width: float
    mouth_height: float
    lip_thickness: float
    beard: float
    has_glasses: bool

    @classmethod
    def draw(cls, number: int) -> Person:
        random = np.random.default_rng([71, number])
        skin = _blend(_SKINS, random)
        return cls(
            skin=skin,
            hair=_blend(_HAIRS, random),
            iris=_blend(_IRISES, random),
            lips=np.clip(skin * np.array((0.95, 0.62, 0.62)), 0, 1).astype(np.float32),
            face_width=random.uniform(0.44, 0.58),
            face_height=random.uniform(0.60, 0.74),
            squareness=random.uniform(1.8, 3.0),
            hairline=random.uniform(0.34, 0.58),
            hair_volume=random.uniform(0.04, 0.18),
            has_long_hair=bool(random.random() < 0.45),
            eye_distance=random.uniform(0.17, 0.26),
            eye_size=random.uniform(0.065, 0.105),
            eye_slant=random.uniform(-0.25, 0.25),
            brow_height=random.uniform(0.13, 0.20),
            brow_thickness=random.uniform(0.018, 0.045),
            brow_slant=random.uniform(-0.3, 0.3),
            nose_length=random.uniform(0.18, 0.32),
            nose_width=random.uniform(0.06, 0.12),
            mouth_width=random.uniform(0.14, 0.25),
            mouth_height=random.uniform(0.36, 0.46),
            lip_thickness=random.uniform(0.03, 0.06),
            beard=float(max(0.0, random.uniform(-0.7, 0.7))),
            has_glasses=bool(random.random() < 0.25),
        )


def render_face(person: Person, view: int, size: int) -> Picture:
    # A view is the same for every person: nothing of it can give the person away.
    random = np.random.default_rng([72, view])
    canvas = _background(size, random)
    y, x = np.meshgrid(*2 * (np.linspace(-1, 1, size, dtype=np.float32),), indexing="ij")
    turn, scale = random.uniform(-0.12, 0.12), random.uniform(0.92, 1.1)
    x, y = x - random.uniform(-0.08, 0.08), y - random.uniform(-0.06, 0.06)
    x, y = (
        (x * np.cos(turn) + y * np.sin(turn)) / scale,
        (y * np.cos(turn) - x * np.sin(turn)) / scale,
    )
    _draw_head(canvas, person, x, y)
    _draw_features(canvas, person, x, y, random)
    angle, strength = random.uniform(0, 2 * np.pi), random.uniform(0.05, 0.3)
    light = 1 + strength * (x * np.cos(angle) + y * np.sin(angle))
    canvas *= light[..., None] * random.uniform(0.85, 1.1, 3).astype(np.float32)
    return np.asarray(np.clip(canvas * 255 + 0.5, 0, 255), np.uint8)


def _draw_head(canvas: Plane, person: Person, x: Plane, y: Plane) -> None:
    width, height = person.face_width, person.face_height
    volume = person.hair_volume
    long_hair = 0.35 if person.has_long_hair else 0.0
    _paint(
        canvas,
        _inside(x, y - long_hair * 0.6, width + volume, height + volume + long_hair * 0.5, 2.2),
        person.hair,
    )
    _paint(canvas, _inside(x, y - 0.85, width * 0.5, 0.5, 4.0), person.skin * np.float32(0.82))
    shirt = 1 - person.skin[::-1]
    _paint(canvas, _inside(x, y - 1.25, 0.85, 0.42, 2.5), shirt)
    for side in (-1, 1):
        ear = _inside(x - side * width, y - 0.02, 0.06, 0.12, 2.0)
        _paint(canvas, ear, person.skin * np.float32(0.9))
    face = _inside(x, y, width, height, person.squareness)
    _paint(canvas, face, person.skin)
    _paint(canvas, face * _soft(-person.hairline - y + 0.08 * np.cos(5 * x), 0.03), person.hair)
    if person.beard:
        jaw = face * _soft(y - person.mouth_height + 0.18, 0.08)
        _paint(canvas, jaw * np.float32(min(0.85, person.beard)), person.hair)


def _draw_features(
    canvas: Plane, person: Person, x: Plane, y: Plane, random: np.random.Generator
) -> None:
    gaze_x, gaze_y = random.uniform(-0.025, 0.025), random.uniform(-0.012, 0.012)
    openness, smile = random.uniform(0.6, 1.0), random.uniform(-0.15, 0.4)
    mouth_open = max(0.0, random.uniform(-0.04, 0.05))
    size, eye_y = person.eye_size, -0.08
    dark = np.full(3, 0.06, np.float32)
    for side in (-1, 1):
        u = side * x - person.eye_distance  # outwards
        v = y - eye_y + person.eye_slant * u
        white = _inside(u, v, size, size * 0.6 * openness, 2.0)
        _paint(canvas, _inside(u, v, size * 1.25, size * 0.85, 2.0), person.skin * np.float32(0.85))
        _paint(canvas, white, np.full(3, 0.93, np.float32))
        x_iris, y_iris = u - side * gaze_x, v - gaze_y
        _paint(canvas, white * _inside(x_iris, y_iris, size * 0.5, size * 0.5, 2.0), person.iris)
        _paint(canvas, white * _inside(x_iris, y_iris, size * 0.22, size * 0.22, 2.0), dark)
        brow = y - eye_y + person.brow_height + person.brow_slant * u + 0.8 * u * u
        _paint(canvas, _inside(u, brow, size * 1.5, person.brow_thickness, 3.0), person.hair * 0.8)
        if person.has_glasses:
            ring = _inside(u, v, size * 1.9, size * 1.6, 2.6) - _inside(
                u, v, size * 1.65, size * 1.35, 2.6
            )
            _paint(canvas, np.clip(ring, 0, 1), dark)
    nose_y = eye_y + person.nose_length
    shade = person.skin * np.float32(0.78)
    _paint(canvas, _inside(x, y - nose_y, person.nose_width, 0.035, 2.0), shade)
    ridge = _inside(x - 0.02, y - (eye_y + nose_y) / 2, 0.022, person.nose_length * 0.5, 2.0)
    _paint(canvas, ridge * np.float32(0.6), shade)
    bend = y - person.mouth_height + smile * (x * x - person.mouth_width**2) * 3
    lips = _inside(x, bend, person.mouth_width, person.lip_thickness + mouth_open, 2.0)
    _paint(canvas, lips, person.lips)
    line = _inside(x, bend, person.mouth_width * 0.9, 0.01 + mouth_open, 2.0)
    _paint(canvas, line, person.lips * np.float32(0.35))


def _background(size: int, random: np.random.Generator) -> Plane:
    top, bottom = random.uniform(0.1, 0.95, (2, 1, 1, 3)).astype(np.float32)
    across = np.linspace(0, 1, size, dtype=np.float32)[:, None, None]
    canvas = np.broadcast_to(top * (1 - across) + bottom * across, (size, size, 3)).copy()
    y, x = np.meshgrid(*2 * (np.linspace(-1, 1, size, dtype=np.float32),), indexing="ij")
    for _ in range(4):
        x0, y0, width, height = random.uniform((-1, -1, 0.1, 0.1), (1, 1, 0.5, 0.5))
        colour = random.uniform(0.05, 0.95, 3).astype(np.float32)
        _paint(canvas, _inside(x - x0, y - y0, width, height, random.uniform(2, 8)), colour)
    return canvas


def _blend(palette: Colour, random: np.random.Generator) -> Colour:
    """Between two neighbours of a palette: every shade can occur."""
    place = random.uniform(0, len(palette) - 1)
    low, part = int(place), np.float32(place % 1)
    return palette[low] * (1 - part) + palette[min(low + 1, len(palette) - 1)] * part


def _inside(x: Plane, y: Plane, width: float, height: float, power: float) -> Plane:
    """1 inside a rounded box, 0 outside, between them for a pixel; power 2 is an ellipse."""
    x, y = x / np.float32(width), y / np.float32(height)
    # Squares apart, since a general power takes most of a picture's time.
    total = x * x + y * y if power == 2 else np.abs(x) ** power + np.abs(y) ** power
    # Exact only near the edge, where alone it shows: total is distance ^ power.
    return _soft((1 - total) * np.float32(min(width, height) / power), 2 / len(x))


def _soft(distance: Plane, softness: float) -> Plane:
    return np.clip(distance / np.float32(softness) + np.float32(0.5), 0, 1)


def _paint(canvas: Plane, cover: Plane, colour: Colour) -> None:
    rows = np.flatnonzero(cover.any(1))
    if len(rows):
        part = slice(rows[0], rows[-1] + 1)  # most features are small: a fifth of the time
        canvas[part] += cover[part, :, None] * (colour - canvas[part])
