"""Does a learned reader know better where the rules are unsure?

    .venv/bin/python -m benchmarks.second_reader LABELLED.jsonl ... [--test NEW.jsonl ...]

Trains a softmax regression (numpy, no library) on words and pairs of words of labelled logs and on
what the rules observed in them: signatures, symptoms with their phases, types of exceptions.
Without `--test` each log is read by a model that has seen none of its repository, and the rules are
shown it without the heaviest evidence of their answer, as if it were worded in a way that they do
not know. With `--test` the model learns from all but the repositories of NEW.jsonl, and the rules
answer as they are: to be run with a rerail that was not yet fitted to those logs. Prints, for
several thresholds, how many first answers the reader mends and spoils where the rules said less
than UNSURE or nothing, and the false alarms that it adds. It says nothing of any single log.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.accuracy import Labelled, answer_of, without_its_best
from rerail.catalogue import Catalogue, load_catalogue
from rerail.diagnosis.weigh import weigh
from rerail.evidence import observe_text
from rerail.records import Evidence, Observation

UNSURE = 0.6
FOLDS = 10
LAST_LINES = 120
LEAST_LOGS = 2  # that a word occurs in
ROUNDS = 120
RATE = 2.0
RIDGE = 1e-3
_WORD = re.compile(r"[A-Za-z_]{3,30}")


@dataclass(frozen=True)
class Case:
    repository: str
    accepted: frozenset[str]
    label: str
    words: frozenset[str]
    rules_say: str  # "none" where they say nothing
    probability: float


def read_cases(path: Path, catalogue: Catalogue, *, are_crippled: bool) -> list[Case]:
    found = []
    for row in path.read_text(encoding="utf-8").splitlines():
        entry = json.loads(row)
        labelled = Labelled(entry["log"], frozenset([entry["label"], *entry["also_ok"]]))
        seen = observe_text(enumerate(labelled.text.split("\n"), 1))
        cases = weigh(Evidence(seen.outcome, seen.observations, seen.facts), catalogue)
        answer = answer_of(without_its_best(cases) if are_crippled else cases, labelled.accepted)
        repository = str(entry.get("source") or entry["id"]).partition("#")[0]
        found.append(
            Case(
                repository,
                labelled.accepted,
                entry["label"],
                words_of(labelled.text, [] if are_crippled else seen.observations),
                answer.names[0] if answer.names else "none",
                answer.probability,
            )
        )
    return found


def words_of(text: str, observations: list[Observation]) -> frozenset[str]:
    words = [w.lower() for w in _WORD.findall("\n".join(text.split("\n")[-LAST_LINES:]))]
    found = set(words) | {f"{a} {b}" for a, b in itertools.pairwise(words)}
    for one in observations:
        data = one.data
        found.add(f"@{one.kind} {data.get('cause', '')} {data.get('signature', '')}")
        found.add(f"@{one.kind} {data.get('symptom', '')} {data.get('phase', '')}")
        found.add(f"@type {data.get('type', '')}")
    return frozenset(found)


class Reader:
    """Softmax regression on which words occur."""

    def __init__(self, cases: list[Case]) -> None:
        counts = Counter(word for case in cases for word in case.words)
        kept = [word for word, count in counts.items() if count >= LEAST_LOGS]
        self._at = {word: at for at, word in enumerate(kept)}
        self._labels = sorted({case.label for case in cases})
        rarity = [np.log(len(cases) / counts[word]) for word in kept]
        self._rarity = np.array(rarity, dtype=np.float32)
        rows = self._rows(cases)
        wanted = np.zeros((len(cases), len(self._labels)), dtype=np.float32)
        for at, case in enumerate(cases):
            wanted[at, self._labels.index(case.label)] = 1
        self._weights = np.zeros((len(kept), len(self._labels)), dtype=np.float32)
        for _ in range(ROUNDS):
            miss = wanted - self._softmax(rows)
            self._weights += RATE * (rows.T @ miss / len(cases) * 10 - RIDGE * self._weights)

    def _rows(self, cases: list[Case]) -> np.ndarray:
        rows = np.zeros((len(cases), len(self._at)), dtype=np.float32)
        for at, case in enumerate(cases):
            rows[at, [self._at[word] for word in case.words if word in self._at]] = 1
        rows *= self._rarity
        return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-6))

    def _softmax(self, rows: np.ndarray) -> np.ndarray:
        scores = rows @ self._weights
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    def read(self, cases: list[Case]) -> list[tuple[str, float]]:
        shares = self._softmax(self._rows(cases))
        best = shares.argmax(axis=1)
        return [(self._labels[b], float(shares[at, b])) for at, b in enumerate(best)]


def read_in_folds(cases: list[Case]) -> list[tuple[str, float]]:
    """Each case by a reader that has seen nothing of its repository."""
    order = {name: at for at, name in enumerate(sorted({case.repository for case in cases}))}
    said: list[tuple[str, float]] = [("none", 0.0)] * len(cases)
    for fold in range(FOLDS):
        is_out = [order[case.repository] % FOLDS == fold for case in cases]
        reader = Reader([case for case, out in zip(cases, is_out, strict=True) if not out])
        places = [at for at, out in enumerate(is_out) if out]
        answers = reader.read([cases[at] for at in places])
        for at, answer in zip(places, answers, strict=True):
            said[at] = answer
    return said


def print_gains(cases: list[Case], said: list[tuple[str, float]]) -> None:
    failing = [case for case in cases if "none" not in case.accepted]
    right = sum(case.rules_say in case.accepted for case in failing)
    alone = sum(
        label in case.accepted
        for case, (label, _) in zip(cases, said, strict=True)
        if "none" not in case.accepted
    )
    unsure = sum(case.probability < UNSURE for case in failing)
    print(f"{len(failing)} failures, {len(cases) - len(failing)} healthy logs")
    print(f"rules right {right}, reader alone right {alone}, rules unsure {unsure}")
    print("reader heard from   mended   spoiled   first answers   false alarms added")
    for least in (0.2, 0.3, 0.4, 0.5, 0.6, 0.7):
        mended = spoiled = alarms = 0
        for case, (label, share) in zip(cases, said, strict=True):
            if case.probability >= UNSURE or share < least or label == case.rules_say:
                continue
            if "none" in case.accepted:
                alarms += case.rules_say == "none" and label != "none"
            elif label != "none":
                mended += label in case.accepted and case.rules_say not in case.accepted
                spoiled += label not in case.accepted and case.rules_say in case.accepted
        gain = 100 * (mended - spoiled) / max(1, len(failing))
        print(f"{least:>12.1f} {mended:>12} {spoiled:>9} {gain:>+13.1f} % {alarms:>14}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("labelled", nargs="*", type=Path)
    parser.add_argument("--test", nargs="+", type=Path, default=[])
    arguments = parser.parse_args()
    if not arguments.labelled:
        print("no labelled logs were given")
        return
    catalogue = load_catalogue()
    are_crippled = not arguments.test
    known = [
        case
        for path in arguments.labelled
        for case in read_cases(path, catalogue, are_crippled=are_crippled)
    ]
    if not arguments.test:
        print_gains(known, read_in_folds(known))
        return
    new = [
        case for path in arguments.test for case in read_cases(path, catalogue, are_crippled=False)
    ]
    theirs = {case.repository for case in new}
    reader = Reader([case for case in known if case.repository not in theirs])
    print_gains(new, reader.read(new))


if __name__ == "__main__":
    main()
