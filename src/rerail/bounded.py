"""Values that have bounds, as annotations of records: `store/codec.py` refuses what is outside.

A folder may be damaged or made up. What no machine could have observed is refused where it is read,
so that nobody later has to ask again.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated, Any, Protocol


class Rule(Protocol):
    """What an annotation says of a value that has the right type already."""

    @property
    def words(self) -> str:
        """What it should be."""

    def holds(self, value: Any) -> bool: ...


@dataclass(frozen=True)
class Within:
    least: float
    most: float

    @property
    def words(self) -> str:
        return f"from {self.least:g} to {self.most:g}"

    def holds(self, value: Any) -> bool:
        return bool(self.least <= value <= self.most)  # not for NaN


FARTHEST_SECONDS = 1e11  # three thousand years; every calendar of the standard library has it

Number = Annotated[float, Within(-sys.float_info.max, sys.float_info.max)]  # finite
Share = Annotated[float, Within(0.0, 1.0)]  # a probability
Time = Annotated[float, Within(-FARTHEST_SECONDS, FARTHEST_SECONDS)]  # of a run, or since 1970
Duration = Annotated[float, Within(0.0, FARTHEST_SECONDS)]
Count = Annotated[int, Within(0, 1 << 53)]
Pid = Annotated[int, Within(0, (1 << 31) - 1)]
