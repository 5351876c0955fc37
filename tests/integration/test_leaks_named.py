"""Trainings that leak until memory is full: what leaks is found, and who holds it, and never a
wrong one. Healthy ones, whose memory rises and comes to rest, are not called leaks."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "recorder"))
from memory_cgroup import small_memory_group
from run_driver import PROGRAMS, rerail_run

from rerail.diagnosis import explain_run
from rerail.store import Store

pytest.importorskip("torch")
LEAKS = PROGRAMS / "census_leaks.py"
HANG_SECONDS = 300
SOURCE = LEAKS.read_text().splitlines()

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="memory is read from /proc"
)


def line_of(text: str) -> int:
    (number,) = [at for at, line in enumerate(SOURCE, 1) if text in line]
    return number


def explained(tmp_path: Path, *words: str, options: tuple[str, ...] = ()) -> dict[str, Any]:
    command = rerail_run(tmp_path, sys.executable, str(LEAKS), *words, options=options)
    subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=HANG_SECONDS)
    return explain_run(Store(tmp_path).resolve("last")).to_json()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("which", "what", "holder"),
    [
        (
            "loss_with_graph",
            "tensors (256, 512) float32 with a graph",
            ("list", "losses", "loss_with_graph", "losses.append(training.model"),
        ),
        (
            "list_of_arrays",
            "arrays (256, 512) float64",
            ("list", "arrays", "list_of_arrays", "arrays.append("),
        ),
        (
            "dict_cache",
            "tensors (512, 512) float32",
            ("dict", "cache", "dict_cache", "cache[step] ="),
        ),
        (
            "unbounded_lru_cache",
            "arrays (256, 512) float64",
            ("lru_cache", "features", "features", "@functools.cache"),
        ),
        (
            "hook_closure",
            "tensors (256, 512) float32",
            ("list", "kept", "hook", "kept.append("),
        ),
        (
            "attribute",
            "arrays (256, 512) float64",
            ("list", "self.history", "note", "self.history.append("),
        ),
    ],
)
def test_the_holder_of_a_leak_is_named(
    tmp_path: Path, which: str, what: str, holder: tuple[str, str, str, str]
) -> None:
    answer = explained(tmp_path, which, "--room", "400")
    assert answer["causes"][0]["id"] == "host-memory-leak", answer["causes"]
    leak = answer["facts"]["leak"]
    assert what in leak["what"]
    kind, name, function, line = holder
    told = leak["holder"]
    assert (told["kind"], told["name"], told["function"]) == (kind, name, function)
    assert Path(told["file"]).name == "census_leaks.py"
    assert told["line"] == line_of(line)
    growth = answer["facts"]["growth"]
    assert growth["process"].startswith("main (pid ")
    assert 0.4e6 < growth["bytes_per_step"] < 3e6
    assert growth["bytes"] > 100 << 20
    remedies = {remedy["id"] for remedy in answer["causes"][0]["remedies"]}
    assert not remedies & {"share-the-dataset", "restart-workers", "profile-native-memory"}


@pytest.mark.thorough
def test_native_memory_is_told_from_what_python_holds(tmp_path: Path) -> None:
    """A list of numbers grows too: it is not the holder."""
    answer = explained(tmp_path, "native", "--room", "400")
    assert answer["causes"][0]["id"] == "host-memory-leak"
    leak = answer["facts"]["leak"]
    assert "native memory, outside Python" in leak["what"]
    assert leak["native_bytes"] > 48 << 20
    assert "holder" not in leak
    assert answer["causes"][0]["remedies"][0]["id"] == "profile-native-memory"


@pytest.mark.thorough
@pytest.mark.parametrize("which", ["bounded_cache", "log_of_numbers", "breathing"])
def test_memory_that_comes_to_rest_is_no_leak(tmp_path: Path, which: str) -> None:
    answer = explained(tmp_path, which, "--steps", "500", "--kill")
    assert not {"leak", "growth"} & set(answer["facts"]), answer["facts"]
    assert "host-memory-leak" not in [cause["id"] for cause in answer["causes"]]


@pytest.mark.thorough
def test_without_a_census_the_growth_is_still_measured(tmp_path: Path) -> None:
    answer = explained(tmp_path, "attribute", "--room", "400", options=("--no-census",))
    assert answer["causes"][0]["id"] == "host-memory-leak"
    assert "growth" in answer["facts"]
    assert "leak" not in answer["facts"]
    assert not list(tmp_path.glob("runs/*/agent/*.census"))


@pytest.fixture
def memory_group(tmp_path: Path) -> Iterator[Path]:
    with small_memory_group(tmp_path.name, 600 << 20) as group:
        yield group


@pytest.mark.thorough
def test_a_leak_goes_before_the_kill_that_it_led_to(tmp_path: Path, memory_group: Path) -> None:
    group = str(memory_group / "cgroup.procs")
    answer = explained(tmp_path / "home", "loss_with_graph", "--group", group)
    assert [cause["id"] for cause in answer["causes"][:2]] == ["host-memory-leak", "host-oom"]
    assert answer["facts"]["leak"]["holder"]["name"] == "losses"


@pytest.mark.thorough
def test_pages_that_workers_copy_are_found(tmp_path: Path) -> None:
    """Their resident size stays as it was: they had the pages already, with their parent."""
    with small_memory_group(tmp_path.name, 1000 << 20) as group:
        procs = str(group / "cgroup.procs")
        answer = explained(tmp_path / "home", "copied_on_write", "--group", procs)
    # The main process shares all its objects with the worker: a look at them would have copied
    # their pages, and that alone would have been the end of it.
    assert len(list(tmp_path.glob("home/runs/*/agent/*.census"))) == 1
    assert answer["causes"][0]["id"] == "host-memory-leak"
    leak = answer["facts"]["leak"]
    assert leak["is_copied"]
    assert (leak["holder"]["name"], leak["holder"]["owner"]) == ("self.rows", "Words")
    assert answer["facts"]["growth"]["process"].startswith("loader-worker")
    remedies = [remedy["id"] for remedy in answer["causes"][0]["remedies"]]
    assert remedies[0] == "share-the-dataset"
