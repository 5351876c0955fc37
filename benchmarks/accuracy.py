"""How often is the answer right, and do its probabilities mean what they say?

    .venv/bin/python -m benchmarks.accuracy [LABELLED.jsonl]

Reads labelled logs (one JSON object per line: log, label, also_ok; label "none" for a healthy one),
by default those beside the repository, else the catalogue's own lines. Prints the share that is
right, false alarms, and the reliability table: of the answers given with a probability in a bin,
how many were right. Then the same with the heaviest signature of every answer taken away, which
shows how the rest of the evidence carries an unfamiliar wording. The probabilities are fitted by
`benchmarks/calibration.py`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rerail.catalogue import Catalogue, load_catalogue
from rerail.diagnosis.calibration import Standing
from rerail.diagnosis.rank import rank, raw_shares
from rerail.diagnosis.weigh import Case, weigh
from rerail.evidence import observe_text
from rerail.records import Evidence

DEFAULT = Path(__file__).parents[2] / "shared" / "corpus" / "dev.jsonl"


@dataclass(frozen=True)
class Labelled:
    text: str
    accepted: frozenset[str]

    @property
    def is_healthy(self) -> bool:
        return "none" in self.accepted


@dataclass(frozen=True)
class Answer:
    names: list[str]
    probability: float
    is_right: bool
    logit: float = 0.0  # of the raw share
    own: float = 0.0  # the leader's own evidence
    standing: Standing = "definite"


def read_labelled(path: Path) -> list[Labelled]:
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        found.append(Labelled(entry["log"], frozenset([entry["label"], *entry["also_ok"]])))
    return found


def own_lines(catalogue: Catalogue) -> list[Labelled]:
    return [Labelled(text, frozenset([c.id])) for c in catalogue for text in c.matches]


def cases_of(labelled: Labelled, catalogue: Catalogue) -> dict[str, Case]:
    found = observe_text(enumerate(labelled.text.split("\n"), 1))
    return weigh(Evidence(found.outcome, found.observations, found.facts), catalogue)


def without_its_best(cases: dict[str, Case]) -> dict[str, Case]:
    """The cases as they would be if the leader's heaviest item had not been understood."""
    ranked = rank(cases)
    if not ranked:
        return cases
    leader = ranked[0][0]
    best = leader.speaks_for[0]
    gone = best.observation.source
    crippled = {}
    for cause_id, case in cases.items():
        kept = [
            item
            for item in case.items
            if not (case is leader and item.group == best.group and item.observation.source == gone)
        ]
        if kept:
            crippled[cause_id] = dataclasses.replace(case, items=kept)
    return crippled


def answer_of(cases: dict[str, Case], accepted: frozenset[str]) -> Answer:
    ranked = rank(cases)
    if not ranked:
        return Answer([], 0.0, "none" in accepted)
    leader, probability = ranked[0]
    raw = min(max(raw_shares(cases)[leader.cause.id], 1e-6), 1 - 1e-6)
    return Answer(
        [case.cause.id for case, _ in ranked],
        probability,
        leader.cause.id in accepted,
        math.log(raw / (1 - raw)),
        leader.own,
        leader.standing,
    )


def reliability(answers: Iterable[Answer]) -> list[tuple[float, float, int]]:
    """(mean probability said, share right, answers) per bin of ten per cent."""
    bins: dict[int, list[Answer]] = {}
    for answer in answers:
        if answer.names:
            bins.setdefault(min(int(answer.probability * 10), 9), []).append(answer)
    return [
        (
            sum(a.probability for a in group) / len(group),
            sum(a.is_right for a in group) / len(group),
            len(group),
        )
        for _, group in sorted(bins.items())
    ]


def print_scores(title: str, labelled: list[Labelled], answers: list[Answer]) -> None:
    failing = [(c, a) for c, a in zip(labelled, answers, strict=True) if not c.is_healthy]
    healthy = [a for c, a in zip(labelled, answers, strict=True) if c.is_healthy]
    right = sum(a.is_right for _, a in failing)
    in_three = sum(bool(c.accepted & set(a.names[:3])) for c, a in failing)
    print(f"\n{title}: {len(failing)} failures, {len(healthy)} healthy logs")
    print(f"  first answer right  {right / max(1, len(failing)):.3f}")
    print(f"  among the first 3   {in_three / max(1, len(failing)):.3f}")
    print(f"  false alarms        {sum(bool(a.names) for a in healthy)}")
    given = [a for _, a in failing if a.names]
    print("  said   right   answers")
    error = 0.0
    for said, share, count in reliability(given):
        print(f"  {said:.2f}   {share:.2f}    {count}")
        error += abs(said - share) * count
    brier = sum((a.probability - a.is_right) ** 2 for a in given) / max(1, len(given))
    print(f"  calibration error {error / max(1, len(given)):.3f}, Brier score {brier:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("labelled", nargs="?", type=Path)
    arguments = parser.parse_args()
    catalogue = load_catalogue()
    path = arguments.labelled or (DEFAULT if DEFAULT.exists() else None)
    labelled = read_labelled(path) if path else own_lines(catalogue)
    print(path.name if path else "the catalogue's own lines")
    all_cases = [cases_of(one, catalogue) for one in labelled]
    answers = [answer_of(c, one.accepted) for c, one in zip(all_cases, labelled, strict=True)]
    print_scores("as they are", labelled, answers)
    crippled = [
        answer_of(without_its_best(c), one.accepted)
        for c, one in zip(all_cases, labelled, strict=True)
    ]
    print_scores("without the heaviest evidence of each answer", labelled, crippled)


if __name__ == "__main__":
    main()
