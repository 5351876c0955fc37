"""The sentences about a job: which node, what became of it, and what the others did meanwhile.

In: how the nodes stand, and which was first. Out: headlines and observations. Pure. Times are in
the clock of the job, whose zero is the start of the run on its first node.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from rerail.jobs.standing import Standing
from rerail.jobs.who_first import First
from rerail.wording import listed, seconds_in_words

_MOST_RANKS = 6


def who(standing: Standing) -> str:
    """ "node b (rank 1)", "node b (ranks 8 to 15)"."""
    ranks = standing.member.rank_numbers
    return f"node {standing.name}" + (f" ({ranks_in_words(ranks)})" if ranks else "")


def ranks_in_words(ranks: Sequence[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) > 2 and len(ranks) == ranks[-1] - ranks[0] + 1:
        return f"ranks {ranks[0]} to {ranks[-1]}"
    shown = [str(rank) for rank in ranks[:_MOST_RANKS]]
    more = len(ranks) - _MOST_RANKS
    return f"ranks {', '.join(shown)} and {more} more" if more > 0 else f"ranks {listed(shown)}"


def headline(first: First, standings: Sequence[Standing], absent: Sequence[int], of: int) -> str:
    """Of a node that was lost or never came; of one that failed, its own headline follows."""
    lost = next((each for each in standings if each.name == first.who.name), None)
    if lost is None:
        names = f"Node{'s' if len(absent) > 1 else ''} {listed([str(r) for r in absent])}"
        missing = names if absent else f"{of - len(standings)} of {of} nodes"
        came = listed([each.name for each in standings[:_MOST_RANKS]])
        return f"{missing} never came: of {of} only {len(standings)} joined ({came})."
    step = f" at step {lost.member.step:,}" if lost.member.step else ""
    subject = who(lost)
    if first.shown_by == "link" and lost.lost_link is not None:
        when = _when(lost.lost_link_t)
        said = f"{subject} lost its network{step}: {lost.lost_link.interface} went down{when}"
    elif first.how == "left":
        when = f",{_when(first.t)}" if first.t is not None else ""
        said = f"{subject} ended with exit code 0{step}{when}, before the others"
    elif first.how == "stuck":
        failed = [each for each in standings if each.state == "failed"]
        ranks = sorted({rank for each in failed for rank in each.member.rank_numbers})
        names = ranks_in_words(ranks) if ranks else _nodes([each.name for each in failed])
        said = f"{subject} did not go on{step} and is still there; {names} waited for it and failed"
    else:
        said = f"{subject} vanished{step}: its last sign of life was{_when(lost.last_t)}"
        said += ", without a goodbye"
    if first.how != "stuck":
        said += _what_others_did(lost, first, standings)
    return f"{said[:1].upper()}{said[1:]}."


def _when(t: float | None) -> str:
    return f" {seconds_in_words(max(0.0, t))} after the start" if t is not None else ""


def _what_others_did(lost: Standing, first: First, standings: Sequence[Standing]) -> str:
    """ "; ranks 0 and 2 waited in all_reduce #413 for 10 s and failed"."""
    waited: dict[str, list[tuple[int, float, bool]]] = defaultdict(list)
    for each in standings:
        if each is lost:
            continue
        for rank in each.member.ranks:
            begin, end = rank.waited_from, rank.waited_until
            if rank.waited_in is None or rank.rank is None or begin is None or end is None:
                continue
            shift = each.shift.seconds if each.shift is not None else 0.0
            if first.t is None or end + shift >= first.t:
                waited[rank.waited_in].append((rank.rank, end - begin, each.state == "failed"))
    if not waited:
        return _who_failed_after([each for each in standings if each is not lost], first)
    collective, ranks = max(waited.items(), key=lambda each: len(each[1]))
    seconds = max(seconds for _, seconds, _ in ranks)
    lasted = f" for {seconds_in_words(seconds)}" if seconds >= 1.0 else ""
    gave_up = " and gave up" if any(has_failed for _, _, has_failed in ranks) else ""
    names = ranks_in_words(sorted(rank for rank, _, _ in ranks))
    return f"; {names} waited in {collective}{lasted}{gave_up}"


def _who_failed_after(others: Sequence[Standing], first: First) -> str:
    failed = [each for each in others if each.state == "failed"]
    if not failed:
        return ""
    ranks = sorted({rank for each in failed for rank in each.member.rank_numbers})
    names = ranks_in_words(ranks) if ranks else _nodes([each.name for each in failed])
    times = [each.last_t for each in failed if each.last_t is not None]
    if first.t is None or not times or min(times) < first.t:
        return f"; {names} failed after it"
    return f"; {names} failed {seconds_in_words(min(times) - first.t)} later"


def _nodes(names: Sequence[str]) -> str:
    shown = list(names[:_MOST_RANKS])
    more = len(names) - len(shown)
    word = "node" if len(names) == 1 else "nodes"
    return f"{word} {listed(shown)}" + (f" and {more} more" if more > 0 else "")
