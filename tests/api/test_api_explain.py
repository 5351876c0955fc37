"""`rerail.explain`, `rerail.runs` and `Run`: logs and records, alike on the command line."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rerail
from rerail import cli
from rerail.catalogue import load_catalogue
from rerail.diagnosis import Candidate, Diagnosis
from rerail.diagnosis.reading import read_document
from rerail.errors import UnknownRun, UnreadableInput, UsageError
from rerail.records import Observation, Outcome
from rerail.store import DecodeError, RunWriter, Store

OOM = (
    b"step 41 loss 0.3\nTraceback (most recent call last):\n"
    b'  File "t.py", line 9, in main\n'
    b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
)
ECHO = b"RuntimeError: [../gloo/transport/tcp/pair.cc:598] Connection closed by peer [::1]:9\n"


@pytest.fixture(autouse=True)
def store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Store:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RERAIL_HOME", raising=False)
    return Store(tmp_path / ".rerail")


def a_run(store: Store, *, is_over: bool = True, label: str | None = None) -> RunWriter:
    writer = store.create_run(("python", "<b>.py"), "/data", {"label": label}, False)
    writer.output(OOM, "stderr", 0.1)
    if is_over:
        outcome = Outcome("exit", "the command ended with exit code 1", exit_code=1)
        writer.finish(outcome, 75.0)
    return writer


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    cli.main([*arguments, "--json"])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_logs_are_explained_as_on_the_command_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "logs").mkdir()
    for name, text in (("rank0.log", ECHO), ("rank1.log", OOM)):
        (tmp_path / "logs" / name).write_bytes(text)
    one, two = tmp_path / "logs" / "rank0.log", tmp_path / "logs" / "rank1.log"
    for what, names in ((two, [two]), ([one, two], [one, two]), ("logs", ["logs"])):
        document = printed(capsys, "explain", *map(str, names))
        assert rerail.explain(what).to_json() == document
        assert document["headline"].endswith(".") and document["causes"][0]["id"] == "gpu-oom"


@pytest.mark.parametrize("kind", ["bytes", "text", "words"])
def test_an_open_file_is_explained(kind: str, tmp_path: Path) -> None:
    (tmp_path / "train.log").write_bytes(OOM)
    with {
        "bytes": lambda: (tmp_path / "train.log").open("rb"),
        "text": lambda: (tmp_path / "train.log").open(),
        "words": lambda: io.StringIO(OOM.decode()),
    }[kind]() as stream:
        assert rerail.explain(stream).causes[0].id == "gpu-oom"


def test_a_run_answers_to_all_its_names(capsys: pytest.CaptureFixture[str], store: Store) -> None:
    writer = a_run(store, label="small")
    document = printed(capsys, "explain", "last")
    assert document["run"] == writer.id
    run = rerail.open_run("small")
    for what in ("last", writer.id, writer.id[:-1], str(writer.path), writer.path, run):
        assert rerail.explain(what).to_json() == document
    assert (run.label, run.command, run.outcome.exit_code) == ("small", ["python", "<b>.py"], 1)
    assert run.headline == document["headline"] and run.facts == document["facts"]
    assert [cause.id for cause in run.causes] == [cause["id"] for cause in document["causes"]]


def test_the_list_is_that_of_the_command_line(
    capsys: pytest.CaptureFixture[str], store: Store
) -> None:
    a_run(store)
    rerail.explain()
    live = a_run(store, is_over=False)
    (store.runs / "20200101-000000-dead").mkdir()
    (store.runs / "20200101-000000-dead" / "run.json").write_text("{")
    found = rerail.runs()
    document = printed(capsys, "runs")
    assert [run.id for run in found] == [row["id"] for row in document["runs"]]
    assert [run.to_json()["cause"] for run in found] == [None, "gpu-oom"]
    assert [name for name, _ in found.unreadable] == ["20200101-000000-dead"]
    assert [run.has_failed for run in found] == [False, True]
    assert rerail.runs(home=store.home)[0].id == live.id
    assert rerail.runs(home=store.home / "elsewhere") == []


def test_a_live_run_is_read_anew(store: Store) -> None:
    writer = a_run(store, is_over=False)
    run = rerail.runs()[0]
    assert (run.state, run.outcome.kind, run.has_failed) == ("running", "unknown", False)
    assert not (run.folder / "diagnosis.json").exists()
    writer.output(b"more\n", "stdout", 0.2)
    assert run.output().endswith("more\n") and run.output(last=1) == "more\n"
    assert run.output(stream="stdout") == "more\n"
    writer.finish(Outcome("ok", "the command ended well"), 1.0)
    assert (run.state, run.outcome.kind, run.has_failed) == ("ended", "ok", False)


@pytest.mark.parametrize("kept", ["{", "[]", '{"schema": 1}', '{"schema": 99, "causes": []}'])
def test_an_answer_that_cannot_be_read_is_made_anew(store: Store, kept: str) -> None:
    run = rerail.open_run(a_run(store).path)
    (run.folder / "diagnosis.json").write_text(kept)
    assert run.causes[0].id == "gpu-oom"


def test_the_answer_on_record_is_what_was_said_then(store: Store) -> None:
    run = rerail.open_run(a_run(store).path)
    document = rerail.explain(run).to_json()
    document["headline"] = "As it was said then."
    document["causes"][0].update(id="no-longer-known", title="Gone")
    (run.folder / "diagnosis.json").write_text(json.dumps(document))
    again = rerail.open_run(run.id)
    assert again.headline == "As it was said then."
    assert again.causes[0].id == "no-longer-known"
    assert again.diagnosis.to_json() == document


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
WHOLE = Diagnosis(
    Outcome("exit", "it ended"),
    (
        Candidate(
            next(iter(load_catalogue())),
            0.7,
            (Observation("line", "text", "output:1"),),
            (Observation("line", "other", "output:2"),),
        ),
    ),
    {"last_step": 4},
).to_json()


@given(st.data())
def test_any_document_is_a_diagnosis_or_is_refused(data: st.DataObject) -> None:
    document = json.loads(json.dumps(WHOLE))
    at: Any = document
    while True:  # a random place of it becomes anything
        key = data.draw(st.sampled_from(sorted(at) if isinstance(at, dict) else range(len(at))))
        is_deeper = isinstance(at[key], (dict, list)) and at[key] and data.draw(st.booleans())
        if not is_deeper:
            at[key] = data.draw(JSON)
            break
        at = at[key]
    try:
        found = read_document(document)
    except DecodeError:
        return
    assert isinstance(found.headline, str) and isinstance(found.to_json(), dict)
    assert isinstance(found._repr_html_(), str)


def test_a_document_that_is_read_and_written_is_the_same() -> None:
    document = json.loads(json.dumps(WHOLE))
    assert read_document(document).to_json() == document


@pytest.mark.parametrize("probability", [-0.1, 1.1, True, "0.9"])
def test_a_probability_is_a_share(probability: Any) -> None:
    document = json.loads(json.dumps(WHOLE))
    document["causes"][0]["probability"] = probability
    with pytest.raises(DecodeError, match=r"diagnosis\.causes\[0\]\.probability should be"):
        read_document(document)


def test_what_is_wrong_is_said_plainly(store: Store, tmp_path: Path) -> None:
    with pytest.raises(UnknownRun, match="nothing"):
        rerail.explain("nothing.log")
    with pytest.raises(UsageError, match=r"no such file: a\.log"):
        rerail.explain(["a.log", "b.log"])
    (tmp_path / "a.log").write_text("step 1\n")
    with pytest.raises(UsageError, match="last is not a file"):
        rerail.explain([tmp_path / "a.log", "last"])
    with pytest.raises(UsageError, match="nothing to explain"):
        rerail.explain([])
    (tmp_path / "empty").mkdir()
    with pytest.raises(UnreadableInput, match="holds no files") as caught:
        rerail.explain("empty")
    assert caught.value.__notes__ == [caught.value.help_text] != [""]


def test_a_notebook_gets_no_markup_of_the_users(store: Store) -> None:
    run = rerail.open_run(a_run(store).path)
    writer = a_run(store, is_over=False)
    assert "&lt;b&gt;.py" in run._repr_html_() and "<b>.py" not in run._repr_html_()
    assert "running" in rerail.open_run(writer.path)._repr_html_()
    hostile = Diagnosis(Outcome("exit", "<script>"))
    assert "<script>" not in hostile._repr_html_()
    assert str(hostile) == hostile.to_json()["headline"]


def test_an_unlikely_cause_is_said_to_be_one_of_several() -> None:
    cause = next(iter(load_catalogue()))
    for probability, is_claimed in ((0.9, True), (0.3, False)):
        said = Diagnosis(Outcome("exit", "It ended."), (Candidate(cause, probability),)).headline
        assert said.startswith("It ended") is not is_claimed
        assert ("it may be this" in said) is not is_claimed
