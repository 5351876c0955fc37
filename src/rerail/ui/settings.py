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
MOST_WAITING = 64  # connections that have not sent a whole request; a browser has six
REQUEST_SECONDS = 10.0  # from the connection to its first whole request
MOST_SOCKETS = 200
MOST_RUNS_COMPARED = 8
ROWS_PER_PAGE = 100
MOST_LINES = 2_000  # of output in one answer
MOST_OUTPUT_BYTES = 4 << 20  # of output that is read for one answer, after the search for its place
MOST_POINTS = 4_000  # of one series in one answer
LONGEST_LINE = 4_000  # characters of a line of output
LONGEST_QUERY = 8_192  # bytes of a path and its question


def _random_name() -> str:
    return f"rerail-{secrets.token_hex(16)}.localhost"


@dataclass(frozen=True)
class UiSettings:
    home: Path
    host: str = "127.0.0.1"
    port: int = 0
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    # The name of the pages on this machine. Browsers send a cookie to every port of a name, so the
    # name must be one that no other server of this machine can guess.
    name: str = field(default_factory=_random_name, repr=False)

    @property
    def is_local(self) -> bool:
        return self.host in LOOPBACK
