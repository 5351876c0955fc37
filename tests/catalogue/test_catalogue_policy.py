"""What Python does about a cause stands in the cause's file, and nowhere else."""

from __future__ import annotations

import ast
from pathlib import Path

import rerail
from rerail.catalogue import Policy, load_catalogue

CATALOGUE = load_catalogue()
PACKAGE = Path(rerail.__file__).parent


def test_no_id_of_a_cause_stands_in_python() -> None:
    """But in a preflight finding, which names the cause that it warns of."""
    found = [
        f"{path.relative_to(PACKAGE)}:{node.lineno} {node.value}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.relative_to(PACKAGE).parts[0] != "preflight"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in CATALOGUE.causes
    ]
    assert found == []


def test_the_same_damage_is_said_from_both_sides() -> None:
    for cause in CATALOGUE:
        for other in cause.policy.same_damage_as:
            assert cause.id in CATALOGUE[other].policy.same_damage_as


def test_one_cause_speaks_for_dead_workers() -> None:
    assert [cause.id for cause in CATALOGUE if cause.policy.is_dead_worker] == ["worker-crashed"]
    assert CATALOGUE.dead_worker.id == "worker-crashed"


def test_the_reason_for_a_retry_stands_in_the_file() -> None:
    folder = PACKAGE / "catalogue" / "causes"
    for path in folder.glob("*/*.toml"):
        lines = path.read_text(encoding="utf-8").split("\n")
        at = next(at for at, line in enumerate(lines) if line.startswith("retry = "))
        assert lines[at - 1].startswith("# "), f"{path.name}: why {lines[at]}?"


def test_what_somebody_ended_has_nothing_wrong_with_it() -> None:
    outside = [cause for cause in CATALOGUE if cause.policy.is_from_outside]
    assert outside and all(cause.policy.retry == "unchanged" for cause in outside)


def test_an_unknown_id_has_a_policy_that_claims_nothing() -> None:
    assert CATALOGUE.policy_of(None) == CATALOGUE.policy_of("gone-since") == Policy("unchanged")


def test_when_it_may_go_well_unchanged() -> None:
    def answers(policy: Policy) -> list[bool]:
        return [policy.may_go_well_unchanged(resumes=each) for each in (True, None, False)]

    assert answers(Policy("unchanged")) == [True, True, True]
    assert answers(Policy("from-checkpoint")) == [True, True, False]
    assert answers(Policy("with-remedy")) == [False, False, False]
