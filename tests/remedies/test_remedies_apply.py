"""Which remedy is applied without asking, and what the command becomes with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rerail.catalogue import load_catalogue
from rerail.changes.apply import DoesNotApply
from rerail.changes.profile import Profile
from rerail.checkpoints.resume import parse_resume_arguments
from rerail.diagnosis.result import Candidate
from rerail.errors import UsageError
from rerail.remedies.restart.apply import (
    Applied,
    Prescription,
    apply_remedies,
    merged,
    prescribe,
)

COMMAND = ("python", "train.py", "--resume", "none", "--lr", "0.1")


def ask(
    cause: str,
    *allowed: str,
    profile: Profile | None = None,
    refuted: tuple[tuple[str, str], ...] = (),
    environ: dict[str, str] | None = None,
) -> Prescription:
    return prescribe(
        Candidate(load_catalogue()[cause], 0.9),
        allowed=allowed,
        refuted=refuted,
        command=COMMAND,
        environ=environ or {},
        profile=profile or Profile(),
    )


def two_runtimes(folder: Path) -> Profile:
    paths = []
    for name in ("libiomp5", "libomp"):
        path = folder / f"{name}.so"
        path.touch()
        paths.append((name, str(path)))
    return Profile(is_recorded=True, openmp_paths=tuple(paths))


def test_one_runtime_is_preloaded_for_both(tmp_path: Path) -> None:
    profile = two_runtimes(tmp_path)
    remedy = ask("openmp-duplicate-runtime", profile=profile).remedy
    assert remedy is not None
    assert remedy.changes == ("one-openmp-runtime",) and remedy.safety == "safe"
    changed = apply_remedies(COMMAND, {}, [remedy], profile)
    assert changed.variables["LD_PRELOAD"] == str(tmp_path / "libiomp5.so")


def test_what_hides_the_failure_is_applied_only_when_allowed() -> None:
    found = ask("openmp-duplicate-runtime")  # no runtimes on record: the safe one cannot apply
    assert found.remedy is None
    assert [each.safety for each in found.withheld] == ["hides-it"]
    allowed = ask("openmp-duplicate-runtime", "hides-it").remedy
    assert allowed is not None and allowed.changes == ("KMP_DUPLICATE_LIB_OK=TRUE",)


def test_a_remedy_that_did_not_help_is_followed_by_the_next() -> None:
    profile = Profile(has_boxes=True, loaders=(2,))
    first = ask("loader-hang", profile=profile).remedy
    assert first is not None
    second = ask("loader-hang", profile=profile, refuted=(first.key,)).remedy
    assert second is not None and second.key != first.key


def test_what_makes_no_difference_is_left_out() -> None:
    found = ask("thread-limit", environ={"OMP_NUM_THREADS": "1"}).remedy
    assert found is not None
    assert found.changes == ("OPENBLAS_NUM_THREADS=1", "MKL_NUM_THREADS=1")
    assert ask("host-oom", profile=Profile(has_boxes=True, loaders=())).remedy is None


def test_a_path_of_the_users_is_not_overwritten() -> None:
    assert ask("dependency-missing").remedy is not None
    assert ask("dependency-missing", environ={"PYTHONPATH": "/mine"}).remedy is None


def test_examples_and_searches_are_left_to_people() -> None:
    left = [(c.id, r.id) for c in load_catalogue() for r in c.remedies if r.by_hand]
    assert ("nccl-network-failed", "name-the-interface") in left
    for cause, remedy in left:
        found = ask(cause).remedy
        assert found is None or found.id != remedy
    assert ask("disk-full").remedy is None
    assert ask("cuda-device-assert").remedy is None


def test_no_likely_cause_no_remedy() -> None:
    found = prescribe(None, allowed=(), refuted=(), command=COMMAND, environ={}, profile=Profile())
    assert found.remedy is None


def test_changes_inside_the_process_are_given_together() -> None:
    remedies = [
        Applied("a", "1", "", "safe", ("dataloader-workers=0",)),
        Applied("b", "2", "", "safe", ("torch-threads=1", "A=1")),
        Applied("c", "3", "", "safe", ("A=2",)),
    ]
    changed = apply_remedies(COMMAND, {}, remedies, Profile())
    inside = json.loads(changed.variables["RERAIL_CHANGES"])
    assert inside == {"dataloader-workers": "0", "torch-threads": "1"}
    assert changed.variables["A"] == "2"


def test_what_two_runs_show_together(tmp_path: Path) -> None:
    both = two_runtimes(tmp_path)
    one = Profile(is_recorded=True, openmp_paths=both.openmp_paths[:1], loaders=(4,))
    together = merged(both, one)
    assert together.openmp_paths == both.openmp_paths and together.loaders == (4,)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("--resume {checkpoint}", ["--resume", "a b.pt", "--lr", "0.1"]),
        ("--resume={checkpoint}", ["--resume=a b.pt", "--lr", "0.1"]),
        ("--init_from=resume", ["--resume", "none", "--lr", "0.1", "--init_from=resume"]),
        ("--lr 0.2 --from {checkpoint}", ["--resume", "none", "--lr", "0.2", "--from", "a b.pt"]),
        ("--lr 0.1 --go-on", ["--resume", "none", "--lr", "0.1", "--go-on"]),
        ("ckpt={checkpoint}", ["--resume", "none", "--lr", "0.1", "ckpt=a b.pt"]),
        ("+ckpt={checkpoint}", ["--resume", "none", "--lr", "0.1", "+ckpt=a b.pt"]),
        ("{checkpoint}", ["--resume", "none", "--lr", "0.1", "a b.pt"]),
    ],
)
def test_how_a_command_is_told_to_resume(arguments: str, expected: list[str]) -> None:
    changed = parse_resume_arguments(arguments).apply(COMMAND, {}, Path("a b.pt"))
    assert list(changed.command) == ["python", "train.py", *expected]


def test_a_variable_tells_it_too() -> None:
    resume = parse_resume_arguments("RESUME={checkpoint}")
    changed = resume.apply(("sh", "-c", "train"), {}, Path("a.pt"))
    assert changed.variables == {"RESUME": "a.pt"} and changed.command == ("sh", "-c", "train")
    assert resume.names_checkpoint


def test_a_file_that_looks_like_an_option_is_none() -> None:
    changed = parse_resume_arguments("--r {checkpoint}").apply(("t",), {}, Path("-rf.pt"))
    assert changed.command == ("t", "--r", "./-rf.pt")


def test_a_script_without_a_place_for_it_is_refused() -> None:
    with pytest.raises(DoesNotApply):
        parse_resume_arguments("--r {checkpoint}").apply(("sh", "-c", "train"), {}, Path("a"))
    with pytest.raises(UsageError):
        parse_resume_arguments("   ")
    assert not parse_resume_arguments("--resume").names_checkpoint
