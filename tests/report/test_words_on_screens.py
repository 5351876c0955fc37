"""Words and numbers that stand on several screens, as a person reads them at once."""

from __future__ import annotations

import pytest

from rerail.catalogue import load_catalogue
from rerail.diagnosis import Candidate, Diagnosis, diagnose
from rerail.records import Evidence, Observation, Outcome
from rerail.report import terminal
from rerail.report.run_list import Entry
from rerail.report.run_table import rows, short_ids
from rerail.wording import rate_in_words, symbol_in_words


@pytest.mark.parametrize(
    ("pace", "said"),
    [
        (1550.0, "1,550 steps/s"),
        (36.123, "36.1 steps/s"),
        (0.4, "2.5 s/step"),
        (1e-4, "10,000 s/step"),
    ],
)
def test_a_pace_has_no_power_of_ten(pace: float, said: str) -> None:
    assert rate_in_words(pace) == said


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "void at::native::(anonymous namespace)::inner<at::native::add(at::Iterator&,"
            " c10::Scalar const&)::{lambda(float)#1}>(at::Iterator&, long) const",
            "at::native::inner",
        ),
        ("Foo::operator()(int) const", "Foo::operator()"),
        ("faiss::IndexFlat::search", "faiss::IndexFlat::search"),
        ("do_abort", "do_abort"),
        ("f<" * 400 + ">" * 400, "f"),
    ],
)
def test_a_function_of_cpp_is_one_short_name(name: str, said: str) -> None:
    assert symbol_in_words(name) == said


def entry(name: str, **known: str) -> Entry:
    kind = "study" if known.get("kind") == "study" else "run"
    return Entry(known.get("id", name), kind, "ok", name, "ok", 0.0, 1.0)  # type: ignore[arg-type]


def test_names_have_room_on_a_wide_terminal() -> None:
    name = "train_classifier_with_augmentation.py"
    runs = [entry(name, id="20261119-220000-abcd")]
    wide, narrow = (
        [str(row) for row in rows(runs, short_ids([runs[0].id], runs), width, 1.0, False)][-1]
        for width in (160, 80)
    )
    assert name in wide
    assert name not in narrow
    assert len(narrow) <= 80


def test_a_study_has_an_id_to_type() -> None:
    listed = [entry("ablation of the optimizer", id="ablation-2026", kind="study")]
    short = short_ids([], listed)
    assert short["ablation-2026"] == "abla"
    assert str(list(rows(listed, short, 100, 1.0, False))[-1]).endswith(" abla")


def out_of_memory(*uses: str) -> list[str]:
    said = Observation("symptom", "out of memory", "output:3", {"symptom": "no-device-memory"})
    evidence = Evidence(
        Outcome("exit", "exit code 1", exit_code=1), observations=[said], facts={"uses": list(uses)}
    )
    return [candidate.id for candidate in diagnose(evidence).causes]


def test_a_gpu_is_not_blamed_where_none_was_used() -> None:
    assert "gpu-oom" in out_of_memory("python", "torch", "cuda")
    assert "gpu-oom" not in out_of_memory("python", "torch")


@pytest.mark.parametrize("cause_id", ["deadlock", "shape-mismatch", "python-exception"])
def test_a_cause_has_its_title(cause_id: str) -> None:
    title = load_catalogue()[cause_id].title
    for headline in (f"{title} in train.py:3.", "KeyError: 'a' in train.py:3."):
        text = terminal.render(
            Diagnosis(
                Outcome("exit", "exit code 1", exit_code=1),
                (Candidate(load_catalogue()[cause_id], 0.9),),
                headline_on_record=headline,
            ),
            200,
        )
        line = next(each for each in text.splitlines() if each.startswith("  cause"))
        assert title in line
        assert cause_id in line
