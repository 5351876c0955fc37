"""Lines written together are the same lines, also where the disk takes only some of them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from rerail.store.appending import FaultLog, LineLog

SHORT_OF_ROOM = """
import resource, signal, sys
from pathlib import Path
from rerail.store.appending import FaultLog, LineLog
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (1005, unlimited[1]))
log = LineLog(Path(sys.argv[1]), FaultLog())
log.append(b"first line\\n")
with log.together():
    for number in range(200):
        log.append(b"line %d.\\n" % number)
resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
log.flush(is_urgent=True)
"""


def test_lines_are_in_the_file_once_the_block_is_over(tmp_path: Path) -> None:
    log = LineLog(tmp_path / "log", FaultLog())
    log.append(b"a\n")
    with log.together():
        log.append(b"b\n")
        log.append(b"c\n")
        assert log.path.read_bytes() == b"a\n"
        log.append(b"d\n", is_durable=True)
        assert log.path.read_bytes() == b"a\nb\nc\nd\n"
        log.append(b"e\n")
    assert log.path.read_bytes() == b"a\nb\nc\nd\ne\n"


def test_a_disk_that_takes_half_of_them_costs_no_line_and_repeats_none(tmp_path: Path) -> None:
    path = tmp_path / "log"
    subprocess.run([sys.executable, "-c", SHORT_OF_ROOM, str(path)], check=True, timeout=180)

    whole = re.findall(r"^line (\d+)\.$", path.read_text(), re.MULTILINE)
    assert [int(number) for number in whole] == list(range(200))
