"""The table in the terminal, as CSV, JSON and HTML; and the first file of a study."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from study_files import SMALL, study_of, write

from rerail.store.codec import encode
from rerail.study import load_study, svg
from rerail.study.cells import expand
from rerail.study.html import render
from rerail.study.starter import write_starter
from rerail.study.state import fold
from rerail.study.table import StudyTable, build_table, to_csv, to_json
from rerail.study.terminal import show

NASTY = "<script>alert(1)</script>"


def table_of(folder: Path) -> StudyTable:
    """Every cell done but one, which died twice; one was finished with a remedy."""
    study = study_of(folder, SMALL + '\n[metrics.psnr]\nfile = "m.json"\n')
    cells = expand(study)
    events: list[dict[str, Any]] = []
    for at, cell in enumerate(cells):
        started = {"cell": cell.name, "kind": "cell-started", "attempt": 1, "unix": 100.0 + at}
        ended = {"cell": cell.name, "kind": "cell-ended", "seconds": 3.0, "run": f"r{at}"}
        if at in (0, 1):
            changes = ["dataloader-workers=0"]
            death = {
                "verdict": "died",
                "cause": "shm-exhausted",
                "probability": 0.97,
                "summary": f"killed by SIGBUS {NASTY}",
                "decision": "again with it",
            }
            events += [started, {**ended, **death, "next_changes": changes}]
            if at == 0:
                events += [
                    {"cell": cell.name, "kind": "cell-failed", "why": "tried again twice"},
                ]
                continue
            events += [{**started, "attempt": 2, "changes": changes}]
        usage = {"peak_rss_bytes": 2.0**30}
        events += [
            *([started] if at != 1 else []),
            {**ended, "verdict": "ok", "usage": usage},
            {
                "cell": cell.name,
                "kind": "cell-done",
                "key": cell.key,
                "metrics": {"psnr": 20.0 + at},
                "files": [],
            },
        ]
    return build_table(study, fold(cells, events))


def test_the_terminal_fits_and_names_every_death(tmp_path: Path) -> None:
    out = io.StringIO()
    show(table_of(tmp_path), Console(file=out, width=80, no_color=True))
    text = out.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    assert "7 of 8 cells done; 1 failed; 2 deaths on the way" in text
    assert "shm-exhausted (97 %)" in text and "again with it" in text
    assert "dataloader-workers" in text and "What psnr depends on" in text
    assert "left out, as cells are missing there" not in text or "lr" in text
    assert "mean ± spread over seeds" in text


def test_the_csv_has_a_row_per_cell(tmp_path: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv(table_of(tmp_path)))))
    assert len(rows) == 8
    assert rows[0]["state"] == "failed" and rows[0]["causes"] == "shm-exhausted"
    assert rows[1]["remedies"] == "dataloader-workers=0" and rows[1]["attempts"] == "2"
    assert rows[2]["lr"] == "0.1" and rows[2]["width"] == "4" and rows[2]["psnr"] == "22.0"
    assert rows[2]["peak_rss_bytes"] == str(2**30)


def test_the_json_says_the_same(tmp_path: Path) -> None:
    document = json.loads(json.dumps(encode(to_json(table_of(tmp_path))), allow_nan=False))
    assert document["schema"] == 1 and document["done"] == 7 and document["failed"] == 1
    assert document["cells"][1]["attempts"][0]["cause"] == "shm-exhausted"
    assert document["effects"]["psnr"]["main"]


def test_the_page_loads_nothing_and_no_text_becomes_markup(tmp_path: Path) -> None:
    page = render(table_of(tmp_path))
    assert NASTY not in page and "&lt;script&gt;" in page
    assert "<script" not in page and "default-src &#39;none&#39;" in page
    addresses = set(re.findall(r"https?://[^\"' )]+", page))
    assert addresses == {"http://www.w3.org/2000/svg"}
    assert page.count("<svg") >= 4
    for wanted in ("psnr by lr", "psnr by lr and width", "Attempts over time", "failed"):
        assert wanted in page


@given(
    st.lists(
        st.builds(
            svg.Point,
            st.text(),
            st.floats(-1e9, 1e9),
            st.none() | st.floats(0, 1e6),
        )
    )
)
def test_any_numbers_can_be_drawn(points: list[svg.Point]) -> None:
    for text in (svg.dots("t", points), svg.lines("t", [svg.Line("l", tuple(points))])):
        assert "nan" not in re.sub(r"<title>.*?</title>|>[^<]*<", "", text)
        if points:
            import xml.etree.ElementTree as Xml

            printable = re.sub(r"[^\x20-\x7e]", "", text)
            Xml.fromstring(printable)
        else:
            assert text == ""


def test_a_first_file_loads_as_it_stands(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    (tmp_path / "data").mkdir()
    command = ["python", "train.py", "--data", "data", "--lr", "0.1", "--seed", "3"]
    text = write_starter([*command, "--out", "weights", "--name=a 'b'"], tmp_path)
    study = load_study(write(tmp_path, text))
    assert study.seeds == (3,) and study.inputs == ("train.py", "data")
    assert study.artifacts == ("weights/*",)
    (cell,) = expand(study)
    assert cell.command == (*command, "--out", "weights", "--name=a 'b'")
    assert '# "--lr" = [0.1, 0.2]' in text
    uncommented = text.replace('# "--lr" = [', '"--lr" = [').replace("--lr 0.1 ", "")
    assert len(expand(load_study(write(tmp_path, uncommented)))) == 2


@given(st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"])), min_size=1, max_size=6))
def test_any_command_makes_a_file_that_loads(words: list[str]) -> None:
    import tempfile

    if not words[0] or any("{" in word or "}" in word for word in words):
        return
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder), write_starter(words, Path(folder)))
        (cell,) = expand(load_study(path))
        assert cell.command == tuple(words)
