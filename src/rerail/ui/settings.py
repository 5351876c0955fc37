"""What `rerail ui` was started with, and the bounds that hold for everybody who asks.

The bounds are far above what a person's browser needs and far below what would hurt the machine.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from pathlib import Path

LOOPBACK = ("127.0.0.1", "::1", "localhost")

ANSWER_SECONDS = 30.0  # until a page that is not there yet is given up
MOST_CONNECTIONS = 400  # twenty pages have twenty sockets and some requests under way
MOST_SOCKETS = 200
MOST_RUNS_COMPARED = 8
ROWS_PER_PAGE = 100
MOST_LINES = 2_000  # of output in one answer
MOST_POINTS = 4_000  # of one series in one answer
LONGEST_LINE = 4_000  # characters of a line of output
LONGEST_QUERY = 8_192  # bytes of a path and its question


@dataclass(frozen=True)
class UiSettings:
    home: Path
    host: str = "127.0.0.1"
    port: int = 0
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)

    @property
    def is_local(self) -> bool:
        return self.host in LOOPBACK
