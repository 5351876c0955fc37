"""What a person sees of an investigation at its end: the answer, in less than 40 lines.

In: the document of `isolate --json`. Out: its sentences. While it works: `live_view.py`.
"""

from __future__ import annotations

import shlex
from typing import Any

from rerail.experiments.edits.words import headline_about_program, lines_about_program
from rerail.experiments.trials.answers import about_outputs
from rerail.experiments.trials.start import about_the_start
from rerail.wording import percent, seconds_in_words


def summary_lines(document: dict[str, Any]) -> list[str]:
    """The answer in sentences."""
    lines = [_headline(document)]
    for built in document.get("environments", ()):
        if built["besides"] and built["changes"] == document["changes"]:
            lines.append(f"It had to change besides: {', '.join(built['besides'])}.")
    if document["alternatives"]:
        others = "; ".join(" and ".join(each) for each in document["alternatives"])
        lines.append(f"So does: {others}")
    if document["reason"] and document["status"] != "confirmed":
        lines.append(document["reason"][:1].upper() + document["reason"][1:] + ".")
    lines += lines_about_program(document)
    failure = document.get("failure")
    if failure:
        cause = f" ({failure['cause']})" if failure["cause"] else ""
        lines.append(f"The failure: {failure['summary']}{cause}.")
    lines += _about_the_raise(document)
    lines += about_the_start(document)
    for change, evidence in list(document["ruled_out_by"].items())[:10]:
        lines.append(f"Ruled out: {change}: {evidence}.")
    for change, why in list(document["not_applicable"].items())[:6]:
        lines.append(f"Left out: {change}: {why}.")
    if document["status"] == "inconclusive":
        if document["ended_because"]:
            lines.append(f"It ended because: {document['ended_because']}.")
        for likely in document["posterior"][:5]:
            lines.append(f"  {percent(likely['probability'], 1):>6}  {likely['text']}")
        if document["posterior"] or document["ended_because"]:
            lines.append("The same command goes on from here.")
    made = document.get("reproducer")
    if made:
        what = "it fails as expected" if made["fails"] else "it did not fail when it was checked"
        lines.append(f"Reproducer: sh {made['folder']}/run.sh ({what})")
    lines += about_outputs(document)
    trials = document["trials"]
    crashed = sum(trial["outcome"] == "crashed" for trial in trials)
    # Trials that were timed by the clock have been counted in seconds already.
    far = (
        ""
        if document["unit"] == "seconds"
        else f" {document['exposure_used']:,} {document['unit']},"
    )
    lines.append(
        f"{len(trials)} trial{'s' * (len(trials) != 1)}, {crashed} failed,{far}"
        f" {seconds_in_words(document['seconds'])}; every one is a run: `rerail runs`"
    )
    return lines


def _about_the_raise(document: dict[str, Any]) -> list[str]:
    raised = document.get("raised")
    if not raised:
        return []
    names = " and ".join(raised["changes"])
    if not raised["adopted"]:
        why = raised["why_not"] or "it was not measured to the end"
        return [f"To make it fail sooner, {names} was tried and not kept: {why}."]
    lines = [
        f"All trials ran with {names}, where it fails {raised['ratio']:g} times as often:",
        "the answer is for that setting.",
    ]
    if document["status"] == "confirmed":
        fix = " ".join(f"--with {shlex.quote(change)}" for change in document["changes"])
        lines.append(f"For the command as it is: rerail verify {fix} -- CMD")
    return lines


def _headline(document: dict[str, Any]) -> str:
    status = document["status"]
    sure = f"confidence {percent(document['confidence'], 1)}"
    about_program = headline_about_program(document, sure)
    if about_program:
        return about_program
    if status == "confirmed":
        names = " and ".join(document["changes"])
        verb = "removes" if len(document["changes"]) == 1 else "together remove"
        return f"Confirmed: {names} {verb} the failure ({sure})."
    if status == "none-of-these":
        return f"None of these: the failure comes whatever of them is changed ({sure})."
    if status == "not-reproduced":
        return "Not reproduced: the failure did not come back."
    if not document["posterior"] and not document["ended_because"]:
        return "Inconclusive: no change was tried."
    return "Inconclusive: not decided yet."
