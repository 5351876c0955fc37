"""Which trial next? The posterior comes in; a set of changes and an exposure go out.

For each candidate set and length, the planner works out what the posterior would be if the
trial crashed and if it survived, and how much exposure would then still be needed for a
verdict. The trial that shortens that road most per exposure spent is taken. What was
rejected, and the measurements: docs/design/which-trial-next.md.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rerail.experiments.planner.hypotheses import TOGETHER_AT_LEAST, members_of
from rerail.experiments.planner.posterior import Posterior, Weighed
from rerail.survival import chance_of_misses, passes_for

# What telling the changes apart is worth, in mean times to failure per nat. Tuned on the
# simulation: 3 and 10 are 4 % dearer.
_APART = 6.0
# While changes are told apart by a nat, the right one is clean for so many means in company.
_CLEAN_WHILE_APART = 0.7
# Changing from one set to another costs at least this much, in mean times to failure: a planner
# that may switch for nothing does so all the time, and is 4 % dearer in the end.
_SWITCH = 0.1
_LENGTHS = (0.3, 3.0)  # tried besides 1.0, in mean times to failure
_FINALISTS = 5
_NO_MERIT = 0.02  # where the road is judged well, a mean that is spent shortens it by about one
_MOST_MORE = 12  # crashes that are thought of before a clean stretch
# Hypotheses that are less likely than this do not matter for the next trial. Of 16 changes alike
# there are 240 pairs, each below the second number until single ones are out of the way: leaving
# them out makes a decision eight times faster.
_NEGLIGIBLE = 1e-6
_NEGLIGIBLE_PAIR = 1e-3

ALONE, EITHER, TOGETHER, WEAKER, NONE, GONE = range(6)
_CODES = {
    "alone": ALONE,
    "either": EITHER,
    "together": TOGETHER,
    "weaker": WEAKER,
    "none": NONE,
    "gone": GONE,
}


@dataclass(frozen=True)
class Choice:
    applied: int
    counted: float  # exposure on the model's clock
    merit: float = 0.0  # road shortened per exposure spent


def choose_trial(
    posterior: Posterior,
    count: int,
    confidence: float,
    overhead: float = 0.0,
    exclusive: Sequence[int] = (),
    run_length: float = math.inf,
) -> Choice:
    """The best next trial among `count` changes, once a crash has been seen.

    `overhead` is what starting a run costs, `run_length` how far one comes before it ends by
    itself, both on the model's clock. Of the changes in one mask of `exclusive` a trial can
    have one.
    """
    outlook = Outlook(posterior, count, confidence, exclusive, overhead, run_length)
    first = [outlook.weigh(applied, outlook.mean) for applied in outlook.candidates()]
    first.sort(key=lambda choice: -choice.merit)
    best = first[0]
    for finalist in first[:_FINALISTS]:
        for length in _LENGTHS:
            choice = outlook.weigh(finalist.applied, length * outlook.mean)
            if choice.merit > best.merit:
                best = choice
    if best.merit < _NO_MERIT:
        # Nothing seems to shorten the road: it is all but decided, and what is left is proof.
        return outlook.weigh(outlook.leader(), 3.0 * outlook.mean)
    return best


class Outlook:
    """The posterior laid out for weighing many trials."""

    def __init__(
        self,
        posterior: Posterior,
        count: int,
        confidence: float,
        exclusive: Sequence[int],
        overhead: float,
        run_length: float,
    ) -> None:
        self.count = count
        self.exclusive = exclusive
        self.overhead = overhead
        self.run_length = run_length
        self.odds = confidence / (1.0 - confidence)
        self.crashes = posterior.crashes
        # Where it comes at one step, what counts are passes of the step, and the most that any
        # hypothesis has to explain by luck.
        self.step = posterior.model.step if posterior.model.is_at_a_step else None
        self.missed = max(weighed.misses for weighed in posterior.living)
        self.mean = posterior.mean_time_to_failure()
        # In means, with the starts that each takes: one more crash, and a mean of clean stretch.
        self.crash_price = self._with_starts(self.mean) / self.mean
        self.run_means = run_length / self.mean
        self.start_means = overhead / self.mean
        self.chances: list[float] = []
        self.weighed: list[Weighed] = []
        self.removes = [0.0] * count
        involved = [0.0] * count
        rows: list[tuple[int, tuple[int, ...]]] = []
        chances = posterior.probabilities()
        # Near a verdict every hundredth counts, and few hypotheses are left.
        least_pair = _NEGLIGIBLE_PAIR if max(chances) < 0.5 else _NEGLIGIBLE
        for chance, weighed in zip(chances, posterior.living, strict=True):
            hypothesis = weighed.hypothesis
            code = _CODES[hypothesis.kind]
            is_pair = code in (EITHER, TOGETHER)
            if code < NONE and chance < (least_pair if is_pair else _NEGLIGIBLE):
                continue
            members = hypothesis.members
            self.chances.append(chance)
            self.weighed.append(weighed)
            rows.append((code, members))
            told = involved if code == TOGETHER else self.removes
            if code in (ALONE, EITHER, TOGETHER):
                for i in members:
                    told[i] += chance
        kept = math.fsum(self.chances)
        self.chances = [chance / kept for chance in self.chances]
        # Changes of which each suffices are proven through the likeliest of them.
        self.rows = [
            (code, tuple(sorted(members, key=lambda i: -self.removes[i])))
            if code == EITHER
            else (code, members)
            for code, members in rows
        ]
        self.pairs: dict[tuple[int, int], int] = {}
        # For each row that names several, its pairs by number; those with its first member first.
        self.pairs_of_row = [
            [
                self.pairs.setdefault((min(pair), max(pair)), len(self.pairs))
                for pair in itertools.combinations(members, 2)
            ]
            if code == EITHER
            else []
            for code, members in self.rows
        ]
        self.score = [r + 0.5 * i for r, i in zip(self.removes, involved, strict=True)]
        self.road = self._road(self.chances, self.crashes)

    def candidates(self) -> Iterator[int]:
        """Sets worth weighing: the likeliest so many, the others, and the likeliest pairs."""
        order = sorted(range(self.count), key=lambda i: -self.score[i])
        plausible = [i for i in order if self.score[i] > 1e-5]
        everything = sum(1 << i for i in plausible)
        cuts = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 17, 20, 24}
        sets = [0, (1 << self.count) - 1, everything]
        for start in (0, 1):
            taken = 0
            for size, i in enumerate(plausible[start:], 1):
                taken |= 1 << i
                if size in cuts:
                    sets.append(taken)
        for leaders in (1, 2, 3):
            sets.append(everything & ~sum(1 << i for i in plausible[:leaders]))
            sets.extend(1 << i for i in plausible[leaders : leaders + 1])
        together = [i for i, row in enumerate(self.rows) if row[0] == TOGETHER]
        together.sort(key=lambda i: -self.chances[i])
        for i in together[:2]:
            mask = self.weighed[i].hypothesis.mask
            first, last = self.rows[i][1]
            sets += [mask, everything & ~mask, 1 << first, 1 << last]
            sets += [everything & ~(1 << first), everything & ~(1 << last)]
        yield from dict.fromkeys(self.possible(applied) for applied in sets)

    def leader(self) -> int:
        """The change, or the pair, that is likeliest to remove it."""
        best = max(range(self.count), key=self.removes.__getitem__)
        together = [
            (chance, sum(1 << i for i in members))
            for (code, members), chance in zip(self.rows, self.chances, strict=True)
            if code == TOGETHER
        ]
        return max([(self.removes[best], 1 << best), *together])[1]

    def possible(self, applied: int) -> int:
        """The set with one value of each thing: the likeliest."""
        for group in self.exclusive:
            rivals = members_of(applied & group)
            if len(rivals) > 1:
                best = max(rivals, key=self.score.__getitem__)
                applied = applied & ~group | 1 << best
        return applied

    def _with_starts(self, exposure: float) -> float:
        """An exposure with what it costs to start the runs that it takes."""
        return exposure + self.overhead * max(1.0, exposure / self.run_length)

    def weigh(self, applied: int, length: float) -> Choice:
        survivals: dict[tuple[float, float], tuple[float, float]] = {}
        survived, crashed = [], []
        cost = 0.0
        for weighed, chance in zip(self.weighed, self.chances, strict=True):
            rate = weighed.hypothesis.rate(applied)
            if rate == 0.0:
                survived.append(chance)
                crashed.append(0.0)
                cost += chance * length
                continue
            seen = (weighed.at_risk if self.step is None else weighed.misses), rate
            known = survivals.get(seen)
            if known is None:
                known = survivals[seen] = self.survival(*seen, length)
            survived.append(chance * known[0])
            crashed.append(chance - chance * known[0])
            cost += chance * known[1]
        survival = math.fsum(survived)
        left = survival * self._road(survived, self.crashes)
        left += (1.0 - survival) * self._road(crashed, self.crashes + 1)
        cost = max(self._with_starts(cost), cost + _SWITCH * self.mean)
        return Choice(applied, length, (self.road - left) / cost)

    def survival(self, seen: float, rate: float, length: float) -> tuple[float, float]:
        """The chance that a trial at risk survives, and the exposure that it spends."""
        if self.step is not None:
            return self._passes(seen, rate, length / self.step)
        shape, scale = self.crashes, seen / rate
        ratio = scale / (scale + length)
        if shape == 1:
            return ratio, -scale * math.log(ratio)
        power = ratio ** (shape - 1)
        return power * ratio, scale / (shape - 1) * (1.0 - power)

    def _passes(self, missed: float, rate: float, length: float) -> tuple[float, float]:
        """The same where each run is one pass of the step."""
        assert self.step is not None
        count = max(1, math.ceil(length - 1e-9))
        chances = [chance_of_misses(self.crashes, missed, rate * n) for n in range(1, count + 1)]
        return chances[-1], self.step * (1.0 + math.fsum(chances[:-1]))

    def _road(self, weights: list[float], crashes: int) -> float:
        """The exposure still needed for a verdict, expected over what may be true."""
        total = math.fsum(weights)
        if total <= 0.0:
            return 0.0
        alone, removes = [0.0] * self.count, [0.0] * self.count
        partly, weaker = [0.0] * self.count, [0.0] * self.count
        persists = gone = 0.0
        either: list[tuple[float, int]] = []
        both = [0.0] * len(self.pairs)  # that each of two suffices
        pairs: dict[float, int] = {}  # many are alike: each weight is worked out once
        for at, (weight, (code, members)) in enumerate(zip(weights, self.rows, strict=True)):
            if weight == 0.0:
                continue
            if code == ALONE:
                alone[members[0]] += weight
                removes[members[0]] += weight
            elif code == EITHER:
                either.append((weight, at))
                for i in members:
                    removes[i] += weight
                for pair in self.pairs_of_row[at]:
                    both[pair] += weight
            elif code == TOGETHER:
                first, last = members
                partly[first] += weight
                partly[last] += weight
                pairs[weight] = pairs.get(weight, 0) + 1
            elif code == GONE:
                gone += weight
            else:
                persists += weight
                if code == WEAKER:
                    weaker[members[0]] += weight
        road = 0.0
        for i in range(self.count):
            if alone[i] > 0.0:
                against = persists + partly[i]
                rest = total - removes[i] - against
                wears_off = persists - weaker[i]
                road += alone[i] * self._to_confirm(removes[i], against, rest, crashes, wears_off)
        known: dict[tuple[float, float], float] = {}
        for weight, at in either:
            # No crash tells the members apart, as there is none under any of them: that another
            # one removes it and this one does not is ruled out by clean stretches alone.
            i, *others = self.rows[at][1]
            against = persists + partly[i]
            for j, pair in zip(others, self.pairs_of_row[at], strict=False):
                against += max(0.0, removes[j] - both[pair])
            key = removes[i], against
            if key not in known:
                rest = max(0.0, total - removes[i] - against)
                known[key] = self._to_confirm(removes[i], against, rest, crashes)
            road += weight * known[key]
        for weight, count in pairs.items():
            rest = total - weight - persists
            mass = TOGETHER_AT_LEAST * weight
            road += count * weight * self._to_confirm(mass, persists, rest, crashes)
        if persists > 0.0:
            # Crashes decide for "none", and one with everything applied decides alone.
            against = (total - persists) / persists
            road += persists * self.mean * min(1.0, math.log1p(0.1 * self.odds * against))
        road += gone * self.mean
        return road / total

    def _to_confirm(
        self, mass: float, against: float, rest: float, crashes: int, wears_off: float = 0.0
    ) -> float:
        """Telling it apart from `rest`, and a clean stretch against what stays at risk.

        After k crashes in S the stretch for a likelihood ratio r is S (r^(1/k) - 1), and
        crashes cost S / k each and their starts, so more of them come first where that is cheaper
        in all. `wears_off` is the part of `against` that is at risk whatever is changed: clean
        stretches in company count against it too, those of pairs only when one is missing.
        """
        nats_apart = math.log1p(rest / mass) if rest > 0.0 else 0.0
        against -= wears_off * -math.expm1(-_CLEAN_WHILE_APART * nats_apart)
        nats = _nats(self.odds * against / mass)
        means = 0.7 + _APART * nats_apart
        if rest > 0.0:
            # What is left of the others goes with the stretch, or with one last crash.
            means += min(1.0, _nats(self.odds * (against + rest) / mass) - nats)
        if nats > 0.0:
            means += self._to_rule_out_luck(nats, crashes)
        return means * self.mean

    def _to_rule_out_luck(self, nats: float, crashes: int) -> float:
        best = math.inf
        for more in range(_MOST_MORE):
            k = crashes + more
            if self.step is not None:
                clean = passes_for(nats, k, self.missed) * self.step / self.mean
            else:
                clean = k * math.expm1(nats / k)
                clean += self.start_means * max(1.0, clean / self.run_means)
            price = more * self.crash_price + clean
            if price >= best:
                break
            best = price
        return best


def _nats(ratio: float) -> float:
    return math.log(ratio) if ratio > 1.0 else 0.0
