"""What should be said, so that what is said with 0.9 is right nine times in ten?

    .venv/bin/python -m benchmarks.calibration [LABELLED.jsonl ...]
    .venv/bin/python -m benchmarks.calibration --keep BATCH NEW.jsonl

Fits src/rerail/diagnosis/calibration.py to first answers: those that were given to labelled logs
before anything was written for them. `first_answers.tsv` keeps of each the batch, the log-odds of
its raw share, its evidence, the standing of that evidence, and whether it was right; `--keep` adds
a new batch, and is only worth something before the batch is looked at. Each batch is judged by
numbers that were fitted without it. Labelled logs that the catalogue knows come in crippled,
without the heaviest evidence of each answer, at a small weight. Prints, per standing and per tenth,
what was said and what was right, how much of what was said with 0.85 or more was wrong, and the
numbers.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, get_args

from benchmarks.accuracy import answer_of, cases_of, read_labelled, without_its_best
from rerail.catalogue import load_catalogue
from rerail.diagnosis import calibration
from rerail.diagnosis.calibration import HIGHEST, Standing, score_of

KEPT = Path(__file__).parent / "first_answers.tsv"
CRIPPLED_SHARE = 0.15  # of a first answer: they are wordings that the catalogue knows after all
PRIOR_STRENGTH = 2.0  # answers' worth of pull towards the present numbers
SURE = 0.85
ROUNDS = 3000
RATE = 0.003

Numbers = tuple[float, float, float]


class First(NamedTuple):
    batch: str
    logit: float
    own: float
    standing: Standing
    is_right: bool


def read_first() -> list[First]:
    found = []
    for row in KEPT.read_text(encoding="utf-8").splitlines():
        if row.startswith("#"):
            continue
        batch, logit, own, standing, right = row.split("\t")
        known: Standing = next(each for each in get_args(Standing) if each == standing)
        found.append(First(batch, float(logit), float(own), known, right == "right"))
    return found


def answers_to(path: Path, batch: str, *, are_crippled: bool) -> list[First]:
    catalogue = load_catalogue()
    found = []
    for labelled in read_labelled(path):
        cases = cases_of(labelled, catalogue)
        if are_crippled:
            cases = without_its_best(cases)
        answer = answer_of(cases, labelled.accepted)
        if answer.names:
            found.append(First(batch, answer.logit, answer.own, answer.standing, answer.is_right))
    return found


def fitted(weighted: Iterable[tuple[First, float]]) -> Numbers:
    """The likeliest numbers, pulled a little towards the present ones."""
    answers = list(weighted)
    start = (calibration.SLOPE, calibration.INTERCEPT, calibration.EVIDENCE_SLOPE)
    values = start
    for _ in range(ROUNDS):
        gradient = [PRIOR_STRENGTH * (s - v) for s, v in zip(start, values, strict=True)]
        for answer, weight in answers:
            score = score_of(answer.logit, answer.own, values)
            miss = weight * (answer.is_right - 1 / (1 + math.exp(-score)))
            features = (min(answer.logit, 4.0), 1.0, min(answer.own, 7.0) - 4.0)
            gradient = [g + miss * f for g, f in zip(gradient, features, strict=True)]
        slope, intercept, evidence = (v + RATE * g for v, g in zip(values, gradient, strict=True))
        values = (slope, intercept, evidence)
    return values


def said(answer: First, numbers: Numbers) -> float:
    score = score_of(answer.logit, answer.own, numbers)
    return min(HIGHEST[answer.standing], 1 / (1 + math.exp(-score)))


def held_out(first: list[First], crippled: list[First]) -> list[tuple[float, First]]:
    """What would be said of each batch by numbers that were fitted without it."""
    found = []
    for batch in dict.fromkeys(each.batch for each in first):
        numbers = fitted(_weighted([each for each in first if each.batch != batch], crippled))
        found += [(said(each, numbers), each) for each in first if each.batch == batch]
    return found


def _weighted(first: list[First], crippled: list[First]) -> list[tuple[First, float]]:
    return [(each, 1.0) for each in first] + [(each, CRIPPLED_SHARE) for each in crippled]


def print_table(title: str, answers: list[tuple[float, First]]) -> None:
    print(f"\n{title}\n  said   right   answers")
    error = 0.0
    for tenth in range(10):
        group = [(p, a) for p, a in answers if min(int(p * 10), 9) == tenth]
        if group:
            mean = sum(p for p, _ in group) / len(group)
            right = sum(a.is_right for _, a in group) / len(group)
            error += abs(mean - right) * len(group)
            print(f"  {mean:.2f}   {right:.2f}    {len(group)}")
    sure = [a for p, a in answers if p >= SURE]
    wrong = sum(not a.is_right for a in sure)
    print(f"  calibration error {error / max(1, len(answers)):.3f}")
    print(f"  said with {SURE} or more: {len(sure)} of {len(answers)}, {wrong} wrong")


def print_standings(first: list[First], crippled: list[First]) -> None:
    print("\nwith enough evidence for 0.85, by standing: wrong of first answers, of crippled ones")
    numbers = (calibration.SLOPE, calibration.INTERCEPT, calibration.EVIDENCE_SLOPE)
    for standing in get_args(Standing):
        shown = []
        for answers in (first, crippled):
            like = [
                a
                for a in answers
                if a.standing == standing
                and 1 / (1 + math.exp(-score_of(a.logit, a.own, numbers))) >= SURE
            ]
            shown.append(f"{sum(not a.is_right for a in like)} of {len(like)}")
        print(f"  {standing:12} {shown[0]:12} {shown[1]}")


def keep(batch: str, path: Path) -> None:
    with KEPT.open("a", encoding="utf-8") as file:
        for one in answers_to(path, batch, are_crippled=False):
            right = "right" if one.is_right else "wrong"
            file.write(f"{batch}\t{one.logit:.2f}\t{one.own:.2f}\t{one.standing}\t{right}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("labelled", nargs="*", type=Path)
    parser.add_argument("--keep", metavar="BATCH", help="keep the first answers to these logs")
    arguments = parser.parse_args()
    if arguments.keep:
        for path in arguments.labelled:
            keep(arguments.keep, path)
        return
    first = read_first()
    crippled = [a for path in arguments.labelled for a in answers_to(path, "", are_crippled=True)]
    now = (calibration.SLOPE, calibration.INTERCEPT, calibration.EVIDENCE_SLOPE)
    print_standings(first, crippled)
    print_table("with the numbers of today", [(said(each, now), each) for each in first])
    print_table("each batch by numbers fitted without it", held_out(first, crippled))
    numbers = fitted(_weighted(first, crippled))
    print("\nSLOPE = {:.2f}\nINTERCEPT = {:.2f}\nEVIDENCE_SLOPE = {:.2f}".format(*numbers))


if __name__ == "__main__":
    main()
