"""A log that begins with zeros, as logrotate's copytruncate leaves it, is read after them."""

from pathlib import Path

import pytest

from rerail.evidence.text.scan import read_excerpt


@pytest.mark.parametrize("hole_bytes", [5000, 64 << 30])
def test_log_after_a_hole_is_read(hole_bytes: int, tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    try:
        with log.open("wb") as file:
            file.seek(hole_bytes)
            file.write(b"step 1\nCUDA out of memory\n")
    except OSError:
        pytest.skip("this file system holds no file of that size")
    lines = [line for _, line in read_excerpt(log, ["memory"]).lines]
    assert lines == ["step 1", "CUDA out of memory"]
