"""One line of output that has no end: an answer reads a bounded part of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rerail.store import RunFolder, Store
from rerail.ui import printed
from rerail.ui.settings import MOST_OUTPUT_BYTES


@pytest.mark.thorough
def test_a_window_of_an_endless_line_is_bounded_by_bytes(tmp_path: Path) -> None:
    folder = Store(tmp_path).create_run(["python"], "/data", {}, False).path
    (folder / "output.log").write_bytes(b"begin\n")
    os.truncate(folder / "output.log", 64 << 20)  # sparse: zeros to the end
    output = RunFolder(folder).output()
    read = sum(len(line.text) for line in output.lines(1, 300, MOST_OUTPUT_BYTES))
    assert MOST_OUTPUT_BYTES <= read <= MOST_OUTPUT_BYTES + (2 << 20)
    numbers = [line["number"] for line in printed.window(output, 1, 300)["lines"]]
    assert numbers == [1, 2]
