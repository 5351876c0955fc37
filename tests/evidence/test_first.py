"""The rules and the words of a first failure, whatever the source."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from test_run_ranks import CLOSED, TIMED_OUT, call, job, upto, waited

from rerail.catalogue import load_catalogue
from rerail.diagnosis.conditions import meets
from rerail.evidence.first.boxes import read_failed_first
from rerail.evidence.first.model import Actor, ActorStanding, Verdict, Wait
from rerail.evidence.first.rules import Scene
from rerail.evidence.first.words import FAILURES, HOWS, how_it_ended, how_of
from rerail.evidence.run.material import RecordedRun
from rerail.records import Event


def stood(rank: int, how: str = "", t: float | None = None) -> ActorStanding[None]:
    return ActorStanding(Actor("rank", f"rank {rank}", (rank,)), None, how, t, place=(rank,))


def first_of(*standings: ActorStanding[None]) -> Verdict[None]:
    verdict = Scene(standings).verdict()
    assert verdict is not None
    return verdict


def test_the_earliest_own_failure_is_first_and_echoes_are_not() -> None:
    echo = replace(stood(0, "raised", 9.0), is_echo=True)
    verdict = first_of(echo, stood(1, "exited", 12.0), stood(2, "killed", 11.0))
    assert (verdict.who.name, verdict.how, verdict.by) == ("rank 2", "killed", "time")
    assert [s.actor.name for s in verdict.others] == ["rank 0", "rank 1"]


def test_without_a_common_clock_the_place_decides() -> None:
    verdict = first_of(stood(3, "raised", 1.0), stood(1, "raised"))
    assert (verdict.who.name, verdict.by) == ("rank 1", "structure")


def test_an_actor_that_was_ended_by_the_launcher_is_never_first() -> None:
    ended = replace(stood(0, "killed", 1.0), was_ended=True)
    assert first_of(ended, stood(1, "exited", 9.0)).who.name == "rank 1"
    assert Scene([ended]).verdict() is None


@pytest.mark.parametrize(("t", "first"), [(10.0, "rank 1"), (20.0, "node b")])
def test_a_loss_is_first_if_nobody_had_failed_by_then(t: float, first: str) -> None:
    lost = ActorStanding(Actor("node", "node b"), None, "lost", 8.0, latest_t=12.0)
    assert first_of(lost, stood(1, "raised", t)).who.name == first


def test_a_launcher_that_was_killed_later_is_not_first() -> None:
    launcher = ActorStanding(Actor("launcher", "launcher"), None, "killed", 20.0)
    assert first_of(launcher, stood(1, "raised", 10.0)).who.name == "rank 1"
    assert first_of(replace(launcher, t=5.0), stood(1, "raised", 10.0)).who.name == "launcher"


def test_who_is_absent_and_waits_in_another_collective_is_not_first() -> None:
    class Two(Scene[None]):
        def waits(self) -> list[Wait[None]]:
            a, b, c = self.actors
            return [Wait([a], absent=[b]), Wait([b], absent=[c])]

    verdict = Two([stood(rank) for rank in range(3)]).verdict()
    assert verdict is not None
    assert (verdict.who.name, verdict.how) == ("rank 2", "stuck")


def test_of_several_groups_the_number_says_nothing() -> None:
    """Rank 0 waits for rank 1 in a group of high numbers, and rank 1 for rank 2 in another."""
    of_box, raised = waited()[1], {"exception_type": "RuntimeError"}
    raised |= {"exception_text": of_box["exception_text"], "exception_t_seconds": 40.0}

    def box_of(*calls: tuple[str, int, bool]) -> dict[str, object]:
        made = [replace(call(n, 40.0 if is_last else -1.0, raised=is_last), group=g)
                for g, n, is_last in calls]  # fmt: skip
        return {**raised, "collectives": made}

    ended = {"exit_code": 1}
    run = job(
        (ended, box_of(("tp", 89, False), ("tp", 90, True))),
        (ended, box_of(("tp", 89, False), ("dp", 4, False), ("dp", 5, True))),
        ({"signal": "SIGTERM"}, {"collectives": [replace(call(4), group="dp")]}),
    )
    (seen,) = read_failed_first(run)
    assert (seen.data["who"], seen.data["how"]) == ("rank 2", "stuck")
    assert seen.data["waiting"] == ["rank 1"]


@pytest.mark.parametrize(("signal_t", "expected"), [(9.0, True), (30.0, None)])
def test_what_ranks_do_after_a_signal_from_outside_is_marked(
    signal_t: float, expected: bool | None
) -> None:
    """A rank that a scheduler's SIGTERM makes exit with 1 is no sign against the scheduler."""
    run = job(
        ({"exit_code": 1, "ended_t_seconds": 10.0}, upto(9)), ({"signal": "SIGTERM"}, upto(9))
    )
    event = Event(signal_t, "signal-forwarded", {"signal": "SIGTERM"})
    (seen,) = read_failed_first(RecordedRun(**{**vars(run), "events": [event]}))
    assert (seen.data["how"], seen.data.get("after_signal")) == ("exited", expected)
    signs = load_catalogue()["scheduler-stopped"].signs
    (sign,) = [sign for sign in signs if sign.name == "a-rank-died-first"]
    assert meets(seen.data, sign.when) is (expected is None)


@pytest.mark.parametrize(
    ("exit_code", "said", "how", "speaks"),
    [(0, TIMED_OUT, "left", True), (0, CLOSED, "left", False), (None, TIMED_OUT, "stuck", True)],
)
def test_a_rank_that_others_waited_for_in_vain_speaks_for_a_timeout(
    exit_code: int | None, said: str, how: str, speaks: bool
) -> None:
    gone = {"exit_code": exit_code, "ended_t_seconds": 11.0}
    gone |= {} if exit_code == 0 else {"signal": "SIGTERM"}
    (seen,) = read_failed_first(job(waited(said, at=11.2), (gone, upto(9, said_goodbye=True))))
    assert seen.data["how"] == how
    met = [s.name for s in load_catalogue()["collective-timeout"].signs
           if s.observation == "failed-first" and meets(seen.data, s.when)]  # fmt: skip
    assert met == (["a-rank-did-not-come"] if speaks else [])


def test_every_sign_of_a_cause_uses_the_nine_words() -> None:
    used: set[str] = set()
    for cause in load_catalogue():
        for sign in cause.signs:
            if sign.observation == "failed-first":
                how = sign.when["how"]
                used |= {how} if isinstance(how, str) else set(how)
    assert used and used <= HOWS.keys()
    assert len(HOWS) == 9 and HOWS.keys() > FAILURES


@pytest.mark.parametrize(
    ("older", "word"),
    [
        *(("own", "raised"), ("signal", "killed"), ("failed", "exited"), ("elsewhere", "mismatch")),
        *(("world", "mismatch"), ("left-early", "left"), ("never-entered", "stuck")),
        *(("silent", "stuck"), ("gone", "lost"), ("host-lost", "lost"), ("missing", "lost")),
        *(("lost-network", "lost"), ("vanished", "lost"), ("never-came", "lost")),
        *((word, word) for word in HOWS),
        *(("nonsense", ""), (None, "")),
    ],
)
def test_the_words_of_older_documents_are_read(older: str | None, word: str) -> None:
    assert how_of(older) == word


def test_the_word_for_an_end() -> None:
    ends = {"SIGSEGV": "crashed", "SIGABRT": "crashed", "SIGKILL": "killed", None: "exited"}
    assert {signal: how_it_ended(signal) for signal in ends} == ends


def test_every_word_is_explained_to_readers() -> None:
    page = (Path(__file__).parents[2] / "docs" / "evidence.md").read_text()
    told = set(re.findall(r"`(\w+)`", page))
    assert HOWS.keys() <= told
