"""How large an honest file of a run folder gets, with room to spare.

A reader refuses a document past its bound, and of a log reads stretches that are spread over it:
what a run folder costs its reader is bounded whatever lies in it. JSON takes up to thirty times its
size once parsed, so the sum of these is what a reader may need, thirtyfold at the very worst.
"""

from __future__ import annotations

from rerail.store import layout

MIB = 1 << 20

DOCUMENT_BYTES = {
    layout.RUN: 4 * MIB,  # a command line has at most 2 MiB
    layout.SURROUNDINGS: 4 * MIB,
    layout.DIAGNOSIS: 4 * MIB,
    layout.AFTER: 8 * MIB,  # eight crash reports of macOS, 512 KiB each
    layout.CRASHES: 8 * MIB,
}
EXPERIMENT_BYTES = 8 * MIB  # investigation.json, verification.json
# Bytes and lines: a line of a few bytes costs as much as one of a few hundred.
LOGS = {
    layout.EVENTS: (8 * MIB, 30_000),  # 15,000 processes
    layout.VITALS: (16 * MIB, 100_000),  # a day; of a longer run stretches of the whole
    layout.VITALS_RECENT: (4 * MIB, 2_000),  # its writer stops at 600 KiB, and after a minute
    layout.VITALS_RECENT_OLD: (4 * MIB, 2_000),
    layout.STALLS: (8 * MIB, 1_000),
    layout.PROGRESS: (8 * MIB, 100_000),  # its writer makes them rare with time
    layout.STEPS: (1 * MIB, 20_000),  # its writer makes them rare with time
    layout.OUTPUT_INDEX: (16 * MIB, 200_000),
}
PROCESS_ENTRIES = 300_000  # of all rows of a vitals file; each honest one has 50 bytes and more
OTHER_LOG = (16 * MIB, 100_000)

MAP_BYTES = 2 * MIB  # of one process; 5,000 libraries
ALL_MAPS_BYTES = 8 * MIB
CRASH_TEXT_BYTES = 8 * MIB
CENSUS_BYTES = 1 * MIB  # a line has about 4 KiB
CENSUSES = 16  # of one process; its writer stops at six
TRACKERS_BYTES = 256 << 10  # of one process; its writer keeps 32 lines
TRACKED_RUNS = 32
AGENT_FILES = 2048  # boxes, and as many crash files

# The writer keeps 64 MiB, then tails of 16 MiB.
OUTPUT_BYTES = 128 * MIB
TAIL_BYTES = 32 * MIB
TAILS = 16


def document_bytes(name: str) -> int:
    return DOCUMENT_BYTES.get(name, MAP_BYTES)


def log_bounds(name: str) -> tuple[int, int]:
    """The most bytes and the most lines that are read of a log."""
    return LOGS.get(name, OTHER_LOG)
