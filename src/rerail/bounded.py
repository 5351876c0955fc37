"""Numbers that have bounds, as annotations of records: `store/codec.py` refuses what is outside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated


@dataclass(frozen=True)
class Within:
    least: float
    most: float


Share = Annotated[float, Within(0.0, 1.0)]  # a probability
