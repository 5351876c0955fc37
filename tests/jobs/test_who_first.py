"""Which node was first, from how they stand; the words for it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rerail.jobs import words
from rerail.jobs.clocks import JobClock, Shift
from rerail.jobs.records import LinkChange, Member, RankState, member_of
from rerail.jobs.standing import Standing, missing_nodes, standings
from rerail.jobs.who_first import Failure, published, who_first

CLOCK = JobClock("a", {name: Shift(-0.1, 0.1) for name in "abc"})


def node(name: str, rank: int, last_t: float, **fields: Any) -> Member:
    ranks = (RankState(rank, step=412),)
    return Member(name, "run", name, ranks=ranks, last_t=last_t, age_seconds=500.0, **fields)


def failed(name: str, rank: int, t: float, **fields: Any) -> Member:
    return node(name, rank, t, has_goodbye=True, ended_t=t, outcome_kind="exit", **fields)


def echo(t: float) -> Failure:
    return Failure(t, 0.1, is_echo=True)


def test_a_node_that_vanished_comes_before_those_who_waited_for_it() -> None:
    stand = standings([failed("a", 0, 95), node("b", 1, 83), failed("c", 2, 96)], CLOCK)
    assert [each.state for each in stand] == ["failed", "vanished", "failed"]
    first = who_first(stand, {"a": echo(95), "c": echo(96)})
    assert first is not None and (published(first), first.who.name) == ("vanished", "b")
    assert words.headline(first, stand, [], 3) == (
        "Node b (rank 1) vanished at step 412: its last sign of life was 83 s after the start,"
        " without a goodbye; ranks 0 and 2 failed 12 s later."
    )


def test_silence_after_a_failure_is_a_scheduler_that_swept_up() -> None:
    """srun --kill-on-bad-exit takes the others away before they can say goodbye."""
    stand = standings([failed("a", 0, 83.5), node("b", 1, 83), failed("c", 2, 99)], CLOCK)
    own = Failure(83.5, 0.1, is_echo=False, cause="python-exception")
    first = who_first(stand, {"a": own, "c": echo(99)})
    assert first is not None and (published(first), first.who.name) == ("failed", "a")


def test_a_link_that_went_down_is_a_fact() -> None:
    lost = failed("b", 1, 94, links=(LinkChange(83.0, "eth0", False),))
    waited = RankState(0, 412, waited_in="all_reduce #413", waited_from=83.2, waited_until=93.2)
    others = Member("a", "run", "a", ranks=(waited,), last_t=94.0, has_goodbye=True)
    stand = standings([others, lost], CLOCK)
    stand = [Standing(others, "failed", Shift(0, 0), 94.0), stand[1]]
    first = who_first(stand, {"a": echo(93), "b": echo(94)})
    assert first is not None and (published(first), first.who.name) == ("lost-network", "b")
    assert words.headline(first, stand, [], 2) == (
        "Node b (rank 1) lost its network at step 412: eth0 went down 83 s after the start;"
        " rank 0 waited in all_reduce #413 for 10 s and gave up."
    )


def test_a_link_that_nobody_suffered_from_is_no_finding() -> None:
    fine = node(
        "b", 1, 94, has_goodbye=True, outcome_kind="ok", links=(LinkChange(9, "ib1", False),)
    )
    assert who_first(standings([fine], CLOCK), {}) is None


def test_a_node_that_never_came() -> None:
    came = [
        failed("a", 0, 60, expected=3, node_rank=0),
        failed("c", 2, 60, expected=3, node_rank=2),
    ]
    assert missing_nodes(came) == (2, 3, [1])
    stand = standings(came, CLOCK)
    first = who_first(stand, {"a": echo(60), "c": echo(60)}, absent=1)
    assert first is not None and published(first) == "never-came"
    assert words.headline(first, stand, [1], 3) == (
        "Node 1 never came: of 3 only 2 joined (a and c)."
    )


def test_a_node_that_left_with_0_is_the_one_that_the_others_waited_for() -> None:
    left = node("b", 1, 83, has_goodbye=True, ended_t=83, outcome_kind="ok")
    stand = standings([failed("a", 0, 93), left], CLOCK)
    first = who_first(stand, {"a": echo(93)})
    assert first is not None and (published(first), first.who.name) == ("left", "b")
    assert words.headline(first, stand, [], 2) == (
        "Node b (rank 1) ended with exit code 0 at step 412, 83 s after the start, before the"
        " others; rank 0 failed 10 s later."
    )


def test_a_node_that_is_still_there_is_the_one_that_the_others_waited_for() -> None:
    there = Member("b", "run", "b", ranks=(RankState(1, step=412),), last_t=93.0, age_seconds=0.5)
    stand = standings([failed("a", 0, 93), there], CLOCK)
    first = who_first(stand, {"a": echo(93)})
    assert first is not None and (published(first), first.who.name) == ("stuck", "b")
    assert words.headline(first, stand, [], 2) == (
        "Node b (rank 1) did not go on at step 412 and is still there; rank 0 waited for it and"
        " failed."
    )


def test_two_failures_within_what_is_not_known_are_not_certain() -> None:
    stand = standings([failed("a", 0, 60), failed("b", 1, 60)], CLOCK)
    near = {"a": Failure(60.0, 0.1, is_echo=False), "b": Failure(60.15, 0.1, is_echo=False)}
    far = {**near, "b": Failure(70.0, 0.1, is_echo=False)}
    first, clear = who_first(stand, near), who_first(stand, far)
    assert first is not None and first.who.name == "a" and not first.is_certain
    assert clear is not None and clear.is_certain


def test_a_live_node_has_not_vanished() -> None:
    live = Member("a", "run", "a", last_t=5.0, age_seconds=1.0)
    assert standings([live], CLOCK)[0].state == "running"


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)
SIGNS = ("host", "node_rank", "unix", "t", "ranks", "links", "heard", "steps", "told", "silences")


@given(*[st.dictionaries(st.sampled_from(SIGNS), anything) for _ in range(3)])
def test_signs_that_anybody_may_have_written_do_no_harm(
    hello: dict[str, Any], beat: dict[str, Any], goodbye: dict[str, Any]
) -> None:
    member = member_of("a", "run", {**hello, "schema": 1}, beat, goodbye)
    assert member is not None
    clock = JobClock("a", {"a": Shift(0.0, 0.0)})
    for each in standings([member], clock):
        words.who(each)
