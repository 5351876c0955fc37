"""Whether what only Linux has may be used: /proc, adoption of orphans, news of processes.

RERAIL_PLATFORM=bare makes a Linux machine look like one without them, such as macOS: then `rerail
run` follows the command itself, and the record says what is missing. It is there for the tests of
that mode, and for a machine on which one of these does harm.
"""

from __future__ import annotations

import os
import sys

VARIABLE = "RERAIL_PLATFORM"


def is_bare() -> bool:
    return sys.platform != "linux" or os.environ.get(VARIABLE) == "bare"
