"""What the addresses answer: pages and their JSON twins, on good records and on hostile ones."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import RUNS
from ui_server import UiServer, keep_recording, record

from rerail.records import Outcome
from rerail.store import RunWriter, Store

KEY = "0a1b2c3d4e5f"
EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{1234567*7654321}}"


def a_run(store: Store, outcome: Outcome, *command: str, **settings: Any) -> RunWriter:
    writer = store.create_run(command or ("python", "train.py"), "/data", settings, False)
    writer.output(b"step 1\nstep 2\n", "stdout", 0.5)
    writer.finish(outcome, 7.0)
    return writer


def an_investigation(store: Store) -> None:
    crash = Outcome("signal", "SIGSEGV", "SIGSEGV")
    first = a_run(store, crash, investigation=KEY, changes=[])
    a_run(store, Outcome("ok", "well"), investigation=KEY, changes=["--n 0"])
    answer = {
        "status": "confirmed",
        "changes": ["--n 0"],
        "confidence": 0.991,
        "command": ["python", "train.py"],
        "failure": {"run": first.id},
        "ruled_out": ["--bs 8"],
        "posterior": [
            {"text": "--n 0 removes it", "changes": ["--n 0"], "probability": 0.991},
            {"text": "none of these", "changes": "none of these", "probability": 0.009},
        ],
        "trials": [{"changes": [], "outcome": "crashed", "exposure": 20, "run": first.id}],
    }
    (store.home / "investigations").mkdir()
    text = json.dumps({"answer": answer, "trials": []})
    (store.home / "investigations" / f"{KEY}.json").write_text(text)


@pytest.fixture(scope="module")
def groups(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A store with an investigation, a study and a hostile run."""
    store = Store(tmp_path_factory.mktemp("groups") / "store")
    an_investigation(store)
    for seed in (0, 1):
        ending = Outcome("ok", "well") if seed else Outcome("exit", "exit 1", exit_code=1)
        a_run(store, ending, study="sweep", cell=f"lr=0.1 seed={seed}", changes=[])
    a_run(store, Outcome("exit", EVIL, exit_code=1), "python", EVIL, label=EVIL, study=EVIL)
    server = UiServer(store.home)
    yield server
    server.close()


def addresses(run_id: str) -> list[tuple[str, str]]:
    """Each address with the name of what it answers."""
    base = f"/runs/{run_id}"
    return [
        ("/runs.json", "Runs"),
        ("/runs.json?q=seg&state=failed&page=1", "Runs"),
        (f"{base}.json", "Run"),
        (f"{base}/details.json", "Details"),
        (f"{base}/series.json", "Series"),
        (f"{base}/series.json?chart=memory&chart=loss&from=0.5&to=2&points=10&by=step", "Series"),
        (f"{base}/output.json", "Output"),
        (f"{base}/output.json?first=2&count=3", "Output"),
        (f"{base}/search.json?q=step", "Found"),
        (f"/compare.json?run={run_id}&run={RUNS['healthy']}", "Comparison"),
    ]


@pytest.mark.parametrize("name", ["segfault", "oom-kill", "hang", "two-ranks", "worker-death"])
def test_answers_are_as_described(server: UiServer, name: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    described = server.json("/openapi.json")
    assert described["openapi"].startswith("3.1")
    for path, kind in addresses(RUNS[name]):
        schema = {**described, "$ref": f"#/components/schemas/{kind}"}
        jsonschema.Draft202012Validator(schema).validate(server.json(path))


def test_every_address_is_described(server: UiServer) -> None:
    told = set(server.json("/openapi.json")["paths"])
    asked = {re.sub(RUNS["hang"], "{run}", p.partition("?")[0]) for p, _ in addresses(RUNS["hang"])}
    assert asked | {"/groups/{kind}/{key}.json", "/openapi.json"} == told


def test_the_list_finds_what_it_is_asked_for(server: UiServer) -> None:
    def ids(query: str) -> list[str]:
        return [row["id"] for row in server.json(f"/runs.json?{query}")["rows"]]

    assert len(ids("")) == len(RUNS)
    assert ids("state=ok") == [RUNS["healthy"]]
    assert ids("cause=host-oom") == [RUNS["oom-kill"]]
    assert ids("q=HOST-oom+sigkill") == [RUNS["oom-kill"]]
    assert ids("command=rerail-recording%2Fcgroup") == [RUNS["oom-kill"]]
    assert ids("q=no-such-word") == ids("state=live") == ids("label=x") == []


def test_a_group_is_one_row_with_a_page(groups: UiServer) -> None:
    rows = {row["kind"]: row for row in groups.json("/runs.json")["rows"] if row["key"] != EVIL}
    assert rows["isolate"]["member_count"] == 2
    page = groups.get(f"/groups/isolate/{KEY}")[2].decode()
    assert "confirmed --n 0 99.1 %" in page and "Ruled out: --bs 8" in page
    assert re.findall(r'data-share="([\d.]+)"', page) == ["0.991", "0.009"]
    trial = groups.json(f"/groups/isolate/{KEY}.json")["group"]["members"][0]["id"]
    assert f'href="/groups/isolate/{KEY}"' in groups.get(f"/runs/{trial}")[2].decode()
    study = groups.json("/groups/study/sweep.json")
    assert [(cell["name"], cell["state"]) for cell in study["cells"]] == [
        ("lr=0.1 seed=0", "failed"),
        ("lr=0.1 seed=1", "ok"),
    ]
    assert b"lr=0.1 seed=1" in groups.get("/groups/study/sweep")[2]


def test_output_is_a_window_with_true_numbers(server: UiServer) -> None:
    base = f"/runs/{RUNS['healthy']}"
    everything = server.json(f"{base}/output.json?count=2000")["lines"]
    assert [line["number"] for line in everything] == list(range(1, len(everything) + 1))
    assert server.json(f"{base}/output.json?first=3&count=2")["lines"] == everything[2:4]
    found = server.json(f"{base}/search.json?q=STEP+7")["lines"]
    assert found == [line for line in everything if "step 7" in line["text"].lower()]


def test_a_run_is_compared_by_what_differs(server: UiServer) -> None:
    found = server.json(f"/compare.json?run={RUNS['healthy']}&run={RUNS['oom-kill']}")
    tables = {table["name"]: table["rows"] for table in found["differences"]}
    assert {"what": "ended", "values": ["ok", "SIGKILL"]} in tables["Run"]
    assert server.get(f"/compare.json?run={RUNS['healthy']}")[0] == 400


def test_no_text_of_a_run_becomes_markup(groups: UiServer) -> None:
    (row,) = [row for row in groups.json("/runs.json")["rows"] if row["key"] == EVIL]
    run_id = row["members"][0]["id"]
    from urllib.parse import quote

    for path in (
        "/runs",
        "/runs?q=" + quote(EVIL),
        f"/runs/{run_id}",
        f"/runs/{run_id}/details",
        f"/compare?run={run_id}&run={groups.json('/groups/study/sweep.json')['group']['members'][0]['id']}",
        "/groups/study/" + quote(EVIL, safe=""),
        "/runs/" + quote(EVIL, safe=""),
    ):
        status, _, body = groups.get(path)
        text = body.decode()
        assert status in (200, 404), (path, status)
        assert "<script>" not in text and "<img" not in text and "9449772114007" not in text
        assert not re.search(r"\son\w+=", text.replace(" onerror=alert(2)&gt;", ""))
        assert re.findall(r"<script[^>]*>", text) == re.findall(
            r'<script src="/static/[\w.]+" defer>', text
        )
        assert "style=" not in text


@pytest.mark.thorough
def test_hostile_output_is_shown_as_text(tmp_path: Path) -> None:
    """Escape codes, bytes that are no text, a line without an end, a secret."""
    program = (
        "import sys; w = sys.stdout.buffer.write\n"
        "w(b'\\x1b]0;title\\x07\\x1b[31mred\\x1b[0m <script>alert(1)</script>\\n')\n"
        "w(b'\\xff\\xfe\\x00 \\x9b31m \\xe2\\x80\\xae\\n')\n"
        "w(b'key hf_' + b'AbCdEfGhIjKlMnOpQrStUvWxYzAbCdEfGh' + b'\\n')\n"
        "w(b'z' * 3_000_000 + b'\\n')\n"
        "w(b'50%\\r75%\\r100%\\n')\n"
    )
    home = tmp_path / "store"
    record(home, sys.executable, "-c", program).wait(180)
    server = UiServer(home)
    try:
        run_id = server.json("/runs.json")["rows"][0]["id"]
        status, _, body = server.get(f"/runs/{run_id}/output.json")
        assert status == 200 and len(body) < 100_000
        lines = [line["text"] for line in json.loads(body)["lines"]]
        assert lines[0] == "red <script>alert(1)</script>"
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", "".join(lines))
        assert "AbCdEf" not in lines[2] and "[secret" in lines[2]
        assert lines[3].startswith("zzz") and lines[3].endswith(" …")
        assert lines[4] == "100%"
        assert b"AbCdEf" not in server.get(f"/runs/{run_id}/details")[2]
    finally:
        server.close()


def test_folders_that_are_none_are_not_followed(tmp_path: Path) -> None:
    """A link to a run elsewhere, a pipe, a folder with rubbish: the others are still shown."""
    home, elsewhere = tmp_path / "store", tmp_path / "elsewhere"
    good = keep_recording(home, "healthy", "20260101-000000-0001")
    outside = keep_recording(elsewhere, "segfault", "20260101-000000-0002")
    (home / "runs" / "20260101-000000-0003").symlink_to(outside)
    pipe = home / "runs" / "20260101-000000-0004"
    pipe.mkdir()
    os.mkfifo(pipe / "run.json")
    rubbish = home / "runs" / "20260101-000000-0005"
    rubbish.mkdir()
    (rubbish / "run.json").write_bytes(b"\xff" * 1000)
    odd = keep_recording(home, "oom-kill", "20260101-000000-0006")
    for name in ("events.jsonl", "vitals.jsonl", "output.log", "surroundings.json"):
        (odd / name).unlink()
        (odd / name).symlink_to("/etc/passwd")
    server = UiServer(home)
    try:
        listed = [row["id"] for row in server.json("/runs.json")["rows"]]
        assert good.name in listed and "20260101-000000-0003" not in listed
        for number in (3, 4, 5, 6):
            base = f"/runs/20260101-000000-000{number}"
            for path in ("", ".json", "/details", "/series.json", "/output.json"):
                status, _, body = server.get(base + path)
                assert status in (200, 404, 422, 503), (base + path, status, body[:200])
                assert b"root:" not in body and b"Traceback" not in body
                assert number != 3 or status == 404
    finally:
        server.close()
    assert server.end_status == 0


def test_ctrl_c_ends_it_quietly(tmp_path: Path) -> None:
    server = UiServer(tmp_path)
    assert server.json("/runs.json")["rows"] == []
    status, said = server.end()
    assert (status, said) == (0, "")


def test_without_the_packages_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from rerail.cli import main

    for name in [name for name in sys.modules if name.startswith(("rerail.ui", "uvicorn"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main(["ui", "--home", str(tmp_path)]) == 2
    assert "pip install 'rerail[ui]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"status": 7, "changes": 7, "command": 7, "posterior": 7, "trials": 7},
        {"command": {"a": 1}, "posterior": {"a": 1}, "trials": [7, None, []], "ruled_out": "x"},
        {"command": [1, None, EVIL], "posterior": [1, None, {}, {"probability": "1"}]},
        {"posterior": [{"text": EVIL, "probability": 1}, {"probability": 7}], "confidence": "x"},
        {"posterior": [{"text": [EVIL], "probability": 0.5}], "failure": [EVIL], "status": EVIL},
    ],
)
def test_a_notebook_that_anybody_wrote_breaks_no_page(
    tmp_path: Path, answer: dict[str, Any]
) -> None:
    from rerail.ui import answers, pages
    from rerail.ui.library import Library

    store = Store(tmp_path)
    writer = a_run(store, Outcome("ok", "well"), investigation=KEY, changes=[])
    (tmp_path / "investigations").mkdir()
    text = json.dumps({"answer": answer, "trials": []})
    (tmp_path / "investigations" / f"{KEY}.json").write_text(text)
    library = Library(tmp_path)
    found = answers.group(library, "isolate", KEY)
    top = library.top(library.folder(writer.path.name))
    name = answers.document_name("isolate")
    written = pages.render_experiments(name, found["document"], top)
    page = pages.render("group.html", written, found=found)
    assert "<script>" not in page and "<img" not in page
