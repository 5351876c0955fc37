"""Recordings of every schema version are read for ever."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from test_store_folder import read_everything

from rerail.cli import main
from rerail.errors import RerailError
from rerail.store import RunFolder

RECORDINGS = Path(__file__).parent.parent / "recordings"
SEGFAULT = RECORDINGS / "schema-1" / "segfault"


@pytest.mark.parametrize(
    "path", sorted(p.parent for p in RECORDINGS.glob("schema-*/*/run.json")), ids=lambda p: p.name
)
def test_every_recording_reads(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = RunFolder(path)
    read_everything(folder)
    assert folder.boxes()
    assert main(["show", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["state"] == "ended"


def test_what_the_segfault_of_schema_1_tells() -> None:
    folder = RunFolder(SEGFAULT)
    info = folder.info()
    assert info.command == ["/usr/bin/python3", "train.py"]
    assert info.outcome is not None
    assert (info.outcome.kind, info.outcome.signal) == ("signal", "SIGSEGV")
    roles = {process.role: process for process in folder.processes()}
    assert roles["main"].signal == "SIGSEGV"
    assert roles["multiprocessing"].exit_code == 0
    assert [line.text for line in folder.output()][-1] == b"step 5 loss 0.2"
    (box,) = folder.boxes()
    assert box.pid == roles["main"].pid
    assert box.argv[-1].endswith("train.py")
    assert not box.said_goodbye
    (crash,) = folder.crashes()
    assert (crash.signal, crash.code, crash.address) == ("SIGSEGV", "SEGV_MAPERR", 0)
    assert crash.is_main_thread
    assert "string_at" in [frame.function for frame in crash.threads[0].python]
    assert any(frame.library for frame in crash.threads[0].native)
    (libraries,) = folder.libraries().values()
    assert any("libc.so" in library.path for library in libraries)
    assert list(folder.vitals())
    assert folder.recent_vitals()[-1].tree.rss_bytes > 0
    assert "segfault" in folder.after().kernel_lines[0]
    assert folder.surroundings()["interpreter"]["version"] == "3.11"
    assert folder.diagnosis()["causes"][0]["id"] == "native-segfault"


def test_raw_crash_files_are_read_where_nobody_has_named_functions(tmp_path: Path) -> None:
    shutil.copytree(SEGFAULT, tmp_path / "run")
    (tmp_path / "run" / "crashes.json").unlink()
    (crash,) = RunFolder(tmp_path / "run").crashes()
    assert crash.signal == "SIGSEGV"
    assert "string_at" in [frame.function for frame in crash.threads[0].python]


def test_what_the_agent_wrote_may_be_cut_anywhere(tmp_path: Path) -> None:
    shutil.copytree(SEGFAULT, tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    (folder.path / "crashes.json").unlink()
    for path in sorted((folder.path / "agent").iterdir()):
        size = path.stat().st_size
        for cut in sorted({*range(0, size, 61), *range(min(size, 300)), size - 1}, reverse=True):
            os.truncate(path, cut)
            try:
                folder.boxes()
                folder.crashes()
            except RerailError as error:
                assert path.name in error.message
