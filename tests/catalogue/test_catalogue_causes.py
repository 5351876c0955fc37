"""The catalogue: complete, consistent, and right about its own lines."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from rerail.catalogue import SAFETY_ORDER, Cause, load_catalogue
from rerail.catalogue.loader import cause_files, read_table
from rerail.catalogue.schema import FAMILIES, complaints
from rerail.diagnosis import diagnose
from rerail.evidence import observe_text
from rerail.records import Evidence
from rerail.report.cause_page import render, render_index

DOCS = Path(__file__).parents[2] / "docs" / "causes"
CATALOGUE = load_catalogue()
CAUSES = list(CATALOGUE)

# Ids that were released, to hold that none is ever taken away. A new cause need not be added here:
# whoever makes a release adds the new ones.
RELEASED_IDS = set(
    """
    host-oom host-alloc-failed host-memory-leak gpu-oom gpu-fragmentation shm-exhausted fd-exhausted
    thread-limit stack-overflow disk-full openmp-duplicate-runtime threading-layer-conflict
    fork-after-threads macos-fork-unsafe static-tls-exhausted numpy-abi-mismatch torch-abi-mismatch
    libstdcxx-too-old missing-shared-library cpu-instruction-missing heap-corruption
    import-order-conflict native-segfault cuda-illegal-access cuda-device-assert
    cuda-driver-mismatch cuda-arch-unsupported cuda-after-fork gpu-hardware-fault
    cuda-library-failed cuda-unavailable mps-failed spawn-main-guard pickle-failed worker-crashed
    data-corrupt loader-hang collective-timeout collective-mismatch nccl-network-failed
    rendezvous-failed port-in-use peer-died loss-not-finite checkpoint-corrupt
    checkpoint-incompatible file-missing permission-denied shape-mismatch dtype-mismatch
    device-mismatch autograd-misuse index-out-of-range api-changed dependency-missing bad-config
    extension-build-failed storage-io-failed launch-failed deadlock
    python-exception scheduler-stopped terminal-closed user-interrupt network-unavailable
    """.split()  # noqa: SIM905
)


def leading(text: str) -> str | None:
    found = observe_text(enumerate(text.split("\n"), 1))
    evidence = Evidence(found.outcome, found.observations, found.facts)
    candidate = diagnose(evidence, CATALOGUE).leading
    return candidate.cause.id if candidate else None


def test_no_id_that_was_released_is_taken_away() -> None:
    assert set(CATALOGUE.causes) >= RELEASED_IDS


def test_every_cause_file_is_in_the_catalogue() -> None:
    """One that lies too high or too deep would else be left out in silence."""
    folder = cause_files()[0].parents[1]
    assert {path.stem for path in folder.rglob("*.toml")} == set(CATALOGUE.causes)


@pytest.mark.parametrize("path", cause_files(), ids=lambda path: path.stem)
def test_the_file_has_nothing_to_complain_about(path: Path) -> None:
    assert read_table(path)["id"] == path.stem


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.id)
def test_the_cause_is_told_completely(cause: Cause) -> None:
    assert cause.family in FAMILIES
    assert len(cause.matches) >= 2
    assert cause.near_misses
    assert cause.references
    assert len(cause.what_happened) > 60 and len(cause.mechanism) > 60
    assert any(remedy.safety == "safe" for remedy in cause.remedies)
    order = [(remedy.finds, SAFETY_ORDER[remedy.safety]) for remedy in cause.remedies]
    assert order == sorted(order)
    assert set(cause.outranks) <= set(CATALOGUE.causes) - {cause.id}


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.id)
def test_its_own_lines_are_diagnosed_as_it(cause: Cause) -> None:
    assert {text: leading(text) for text in cause.matches} == dict.fromkeys(cause.matches, cause.id)


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.id)
def test_its_near_misses_are_not(cause: Cause) -> None:
    assert [text for text in cause.near_misses if leading(text) == cause.id] == []


def test_every_own_line_contains_one_of_its_literals() -> None:
    """The promise on which the search of large logs rests."""
    for cause in CAUSES:
        for signature in cause.signatures:
            for text in cause.matches:
                if signature.where == "line" and signature.literals:
                    flat = " ".join(text.lower().split())
                    has_word = any(literal in flat for literal in signature.literals)
                    assert has_word or not re.search(signature.pattern, text)


def test_no_two_causes_outrank_each_other() -> None:
    both = [
        (cause.id, other)
        for cause in CAUSES
        for other in cause.outranks
        if cause.id in CATALOGUE[other].outranks and cause.id < other
    ]
    assert both == []


def test_the_conflict_of_openmp_runtimes_is_not_cured_by_silencing_it() -> None:
    remedies = CATALOGUE["openmp-duplicate-runtime"].remedies
    silencing = [r for r in remedies if any("KMP_DUPLICATE_LIB_OK" in c for c in r.change)]
    assert [remedy.safety for remedy in silencing] == ["hides-it"]
    assert "incorrect" in silencing[0].note


def test_the_pages_are_fresh() -> None:
    forgotten = "run scripts/write-cause-pages"
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    assert index == render_index(CATALOGUE) + "\n", forgotten
    pages = {path.stem: path.read_text(encoding="utf-8") for path in DOCS.glob("*.md")}
    assert {c.id: pages.get(c.id) for c in CAUSES} == {c.id: render(c) + "\n" for c in CAUSES}
    assert set(pages) == set(CATALOGUE.causes) | {"index"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"id": "other"}, "id: other is not the file's name"),
        ({"family": "weather"}, "family"),
        ({"remedy": []}, "remedy: missing"),
        ({"titel": "x"}, "titel: unknown key"),
        ({"signature": [{"name": "a", "pattern": "(", "weight": 1}]}, "pattern"),
        ({"signature": [{"name": "a", "pattern": "x"}]}, "weight missing"),
        (
            {"remedy": [{"id": "a", "title": "b", "safety": "hides-it"},
                        {"id": "c", "title": "d", "safety": "safe"}]},
            "safe ones come first",
        ),
        ({"remedy": [{"id": "a", "title": "b", "safety": "fine"}]}, "safety"),
        ({"policy": {}}, "policy: missing"),
        ({"policy": {"is_echo": True}}, "policy: retry missing"),
        ({"policy": {"retry": "maybe"}}, "retry = 'maybe' is not one of unchanged"),
        ({"policy": {"retry": "unchanged", "is_ecko": True}}, "policy: unknown key is_ecko"),
        ({"policy": {"retry": "unchanged", "is_echo": "yes"}}, "is_echo is neither true nor"),
        ({"policy": {"retry": "unchanged", "is_certain": True}}, "is certain to come back"),
        ({"policy": {"retry": "unchanged", "raised_by": ["luck"]}}, "raised_by luck: there is"),
        ({"policy": {"retry": "unchanged", "same_damage_as": "x"}}, "is not a list of words"),
    ],
)  # fmt: skip
def test_a_faulty_file_is_told_what_is_wrong(change: dict[str, object], said: str) -> None:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    path = next(path for path in cause_files() if path.stem == "port-in-use")
    table = {**tomllib.loads(path.read_text()), **change}
    assert any(said in complaint for complaint in complaints(table, "port-in-use"))
