"""Changes as people write them, and the commands that come of them."""

from __future__ import annotations

import json
import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rerail.changes.apply import CHANGES_VARIABLE, DoesNotApply, apply_changes
from rerail.changes.candidates import default_changes, offers, priors
from rerail.changes.known import OWN_CHANGES
from rerail.changes.parse import exclusive_groups, parse_change, parse_changes
from rerail.changes.profile import Profile
from rerail.errors import UsageError


def applied(command: str, *changes: str, **environ: str) -> str:
    parsed = [parse_change(text) for text in changes]
    return shlex.join(apply_changes(shlex.split(command), environ, parsed).command)


@pytest.mark.parametrize(
    ("command", "change", "expected"),
    [
        ("python t.py --accum 8 --x", "--accum 4", "python t.py --accum 4 --x"),
        ("python t.py --accum=8", "--accum 4", "python t.py --accum=4"),
        ("python t.py --accum=8", "--accum=4", "python t.py --accum=4"),
        ("python t.py", "--accum 4", "python t.py --accum 4"),
        ("python t.py", "--init_from=resume", "python t.py --init_from=resume"),
        ("python t.py --accum 8", "--accum=4", "python t.py --accum=4"),
        ("python t.py", "--no-amp", "python t.py --no-amp"),
        ("python t.py --lr -0.1 --x 1", "--lr 0.2", "python t.py --lr 0.2 --x 1"),
        ("python t.py --betas 1 2 --x", "--betas 3 4", "python t.py --betas 3 4 --x"),
        ("python t.py -b 8", "-b 4", "python t.py -b 4"),
        ("python t.py --accumulate 8", "--accum 4", "python t.py --accumulate 8 --accum 4"),
        ("python t.py lr=0.5 +opt.wd=1", "lr=0.1", "python t.py lr=0.1 +opt.wd=1"),
        ("python t.py +opt.wd=1", "opt.wd=2", "python t.py +opt.wd=2"),
        ("python t.py", "opt.wd=2", "python t.py opt.wd=2"),
        ("env A=1 B=2 python t.py", "B=3", "env A=1 B=3 python t.py"),
        ("sh -c 'python t.py --accum 8; true'", "--accum 4", "sh -c 'python t.py --accum 4; true'"),
    ],
)
def test_arguments_are_replaced_or_added(command: str, change: str, expected: str) -> None:
    assert applied(command, change) == expected


@pytest.mark.parametrize(
    ("command", "change"),
    [
        ("python t.py --accum 4", "--accum 4"),
        ("python t.py --amp", "--amp"),
        ("python t.py lr=0.1", "lr=0.1"),
        ("sh -c 'python t.py'", "--accum 4"),
        ("env A=1 python t.py", "A=1"),
    ],
)
def test_a_change_that_makes_no_difference_is_told(command: str, change: str) -> None:
    with pytest.raises(DoesNotApply):
        applied(command, change)


def test_variables_are_set_on_top_of_the_environment() -> None:
    changed = apply_changes(["python"], {}, [parse_change("OMP_NUM_THREADS=1")])
    assert changed.variables == {"OMP_NUM_THREADS": "1"}
    with pytest.raises(DoesNotApply):
        apply_changes(["python"], {"A": "1"}, [parse_change("A=1")])


def test_changes_for_the_agent_travel_as_one_document() -> None:
    changes = parse_changes(["dataloader-workers=0", "torch-threads=2"])
    changed = apply_changes(["python"], {}, changes)
    assert json.loads(changed.variables[CHANGES_VARIABLE]) == {
        "dataloader-workers": "0",
        "torch-threads": "2",
    }


@pytest.mark.parametrize(
    "text",
    ["", "  ", "--", "what", "dataloader-workers", "dataloader-workers=x", "start-method=teleport"],
)
def test_what_is_not_a_change_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_change(text)
    assert error.value.help_text


def test_values_of_one_thing_exclude_each_other() -> None:
    changes = parse_changes(["--accum 4", "--workers 0", "--accum 2", "--accum=4", "--accum  4"])
    assert [change.text for change in changes] == ["--accum 4", "--workers 0", "--accum 2"]
    assert exclusive_groups(changes) == [["--accum 4", "--accum 2"]]


@settings(deadline=None)
@given(st.lists(st.sampled_from(["--a", "--b", "1", "x=2", "-c", "y"])), st.integers(0, 99))
def test_an_applied_option_is_there_once_or_more_and_nothing_else_is_lost(
    words: list[str], value: int
) -> None:
    command = ["python", "t.py", *words]
    change = parse_change(f"--zeta {value}")
    changed = apply_changes(command, {}, [change]).command
    assert changed == (*command, "--zeta", str(value))


def test_every_own_change_can_be_parsed_and_tells_something() -> None:
    for own in OWN_CHANGES.values():
        assert parse_change(own.text).knob == own.name
        assert own.tells


def test_what_applies_follows_the_recorded_run() -> None:
    profile = Profile(is_recorded=True, has_boxes=True, loaders=(2,), uses_torch=True)
    listed = {offer.text: offer.applies for offer in offers(profile, ["python", "t.py"], {})}
    assert listed["dataloader-workers=0"] and listed["torch-threads=1"]
    assert not listed["one-openmp-runtime"] and not listed["pin-memory=off"]


def test_the_diagnosis_weighs_what_its_cause_names() -> None:
    from rerail.catalogue import load_catalogue

    catalogue = load_catalogue()
    causes = {"fork-after-threads": 0.9}
    profile = Profile(is_recorded=True, has_boxes=True, loaders=(2,), uses_torch=True)
    changes = default_changes(causes, catalogue, profile, ["python", "t.py"], {})
    weights = priors(changes, causes, catalogue)
    assert changes and weights[changes[0].text] > min(weights.values())
