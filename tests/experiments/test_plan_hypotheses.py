"""Hypotheses and their posterior, against direct calculation."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rerail.experiments.planner.hypotheses import WEAKER_RATE, Hypothesis, build_hypotheses
from rerail.experiments.planner.posterior import Posterior
from rerail.experiments.planner.verdict import Standing
from rerail.survival import Lifetimes, classify, constant_rate, fixed_step
from rerail.survival.passes import chance_of_misses

CHANGES = ["a", "b", "c", "d"]


def test_every_kind_is_there_and_the_priors_add_up():
    found = build_hypotheses(CHANGES)
    kinds = [hypothesis.kind for hypothesis in found]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {
        "alone": 4, "weaker": 4, "either": 10, "together": 6, "none": 1, "gone": 1,
    }  # fmt: skip
    assert math.fsum(hypothesis.prior for hypothesis in found) == pytest.approx(1.0)


def test_weights_move_the_priors_and_leave_nothing_impossible():
    found = build_hypotheses(CHANGES, {"a": 0.9, "b": 0.0})
    alone = {h.mask: h.prior for h in found if h.kind == "alone"}
    assert alone[0b0001] > 0.0 < alone[0b0010]
    assert alone[0b0001] > 5 * alone[0b0010]
    scaled = build_hypotheses(CHANGES, {"a": 90.0, "b": 0.0})
    # A weight's scale means nothing where every change has one; here the others take a's.
    assert {h.mask for h in scaled} == {h.mask for h in found}


def test_pairs_are_limited_to_the_likeliest():
    many = [f"x{i}" for i in range(30)]
    found = build_hypotheses(many, {"x3": 10.0, "x7": 10.0, "x0": 1.0}, max_pairs=5)
    pairs = [h.mask for h in found if h.kind == "together"]
    assert len(pairs) == 5
    assert pairs[0] == 1 << 3 | 1 << 7


@pytest.mark.parametrize(
    ("kind", "mask", "rates"),
    [
        ("alone", 0b01, [1.0, 0.0, 1.0, 0.0]),
        ("either", 0b11, [1.0, 0.0, 0.0, 0.0]),
        ("together", 0b11, [1.0, 1.0, 1.0, 0.0]),
        ("weaker", 0b01, [1.0, WEAKER_RATE, 1.0, WEAKER_RATE]),
        ("none", 0, [1.0, 1.0, 1.0, 1.0]),
        ("gone", 0, [0.0, 0.0, 0.0, 0.0]),
    ],
)
def test_what_each_kind_says_of_a_trial(kind, mask, rates):
    hypothesis = Hypothesis(kind, mask, 1.0)
    assert [hypothesis.rate(applied) for applied in range(4)] == rates


@pytest.mark.parametrize(
    ("changes", "weights", "words"),
    [
        ([], {}, "at least one"),
        (["a", "a"], {}, "named twice"),
        (["a"], {"z": 1.0}, "not tried"),
        (["a"], {"a": -1.0}, "from zero up"),
        (["a"], {"a": math.nan}, "from zero up"),
    ],
)
def test_wrong_questions_are_refused(changes, weights, words):
    with pytest.raises(ValueError, match=words):
        build_hypotheses(changes, weights)


trials = st.lists(
    st.tuples(st.integers(0, 15), st.floats(1.0, 500.0), st.booleans()), min_size=1, max_size=8
)


def brute_force(history, observed):
    """The posterior by numerical integration over the rate."""
    weights = []
    for hypothesis in build_hypotheses(CHANGES):
        total = 0.0
        for i in range(1200):
            rate = math.exp(-14.0 + i * 0.02)
            log = -rate * history + math.log(rate)  # one crash in the history
            for applied, exposure, crashed in observed:
                at = rate * hypothesis.rate(applied)
                if crashed and at == 0.0:
                    log = -math.inf
                    break
                log += (math.log(at) if crashed else 0.0) - at * exposure
            total += math.exp(log) if log > -700 else 0.0
        weights.append(hypothesis.prior * total)
    scale = math.fsum(weights)
    return {
        (h.kind, h.mask): w / scale for h, w in zip(build_hypotheses(CHANGES), weights, strict=True)
    }


@settings(max_examples=25, deadline=None)
@given(trials)
def test_posterior_is_bayes_rule_with_the_rate_integrated_out(observed):
    posterior = Posterior(
        build_hypotheses(CHANGES), constant_rate(Lifetimes.of([90.0])), Lifetimes.of([90.0])
    )
    for applied, exposure, crashed in observed:
        posterior.observe(applied, exposure, crashed)
    expected = brute_force(90.0, observed)
    got = {
        (w.hypothesis.kind, w.hypothesis.mask): p
        for p, w in zip(posterior.probabilities(), posterior.living, strict=True)
    }
    for key, probability in expected.items():
        assert got.get(key, 0.0) == pytest.approx(probability, abs=2e-3)


def test_a_crash_rules_out_everything_that_should_have_been_safe():
    posterior = Posterior(
        build_hypotheses(CHANGES), constant_rate(Lifetimes(())), Lifetimes.of([90.0])
    )
    posterior.observe(0b0011, 40.0, True)
    for weighed in posterior.living:
        assert weighed.hypothesis.rate(0b0011) > 0.0


def test_a_deterministic_failure_is_judged_by_its_step_not_by_exposure():
    posterior = Posterior(build_hypotheses(CHANGES), fixed_step(39), Lifetimes.of([39.0]))
    before = posterior.probabilities()
    assert posterior.after(0b0001, 20.0, False).probabilities() == pytest.approx(before)
    after = posterior.after(0b0001, 40.0, False)
    chances = dict(
        zip(
            [(w.hypothesis.kind, w.hypothesis.mask) for w in after.living],
            after.probabilities(),
            strict=True,
        )
    )
    prior = {(h.kind, h.mask): h.prior for h in build_hypotheses(CHANGES)}
    ratio = chances["none", 0] / chances["alone", 1]
    assert ratio == pytest.approx(chance_of_misses(1) * prior["none", 0] / prior["alone", 1])


def test_a_run_that_passes_the_step_with_nothing_changed_makes_every_pass_say_less():
    def chance_of_none(survivals):
        seen = Lifetimes.of([39.0, 39.0], survivals)
        posterior = Posterior(build_hypotheses(CHANGES), classify([39, 39], survivals), seen)
        posterior.observe(0b0001, 40.0, False)
        kinds = [weighed.hypothesis.kind for weighed in posterior.living]
        return posterior.probabilities()[kinds.index("none")]

    assert chance_of_none([20.0]) == pytest.approx(chance_of_none([]))
    assert chance_of_none([200.0]) > 3 * chance_of_none([])


@pytest.mark.parametrize(("exposure", "ended_itself", "counts"), [(3, 0, 0), (1, 1, 1), (20, 0, 1)])
def test_at_the_start_a_short_run_says_something_only_if_it_was_the_whole(
    exposure, ended_itself, counts
):
    posterior = Posterior(build_hypotheses(CHANGES), classify([1, 1]), Lifetimes.of([1.0, 1.0]))
    before = posterior.probabilities()
    posterior.observe(0b0001, exposure, False, bool(ended_itself))
    assert (posterior.probabilities() != pytest.approx(before)) == bool(counts)


def test_values_of_one_thing_are_never_needed_together():
    found = build_hypotheses(CHANGES, exclusive=[0b0011])
    assert 0b0011 not in {h.mask for h in found if h.kind == "together"}
    assert 0b0011 in {h.mask for h in found if h.kind == "either"}
    assert math.fsum(hypothesis.prior for hypothesis in found) == pytest.approx(1.0)


def test_a_change_that_a_diagnosis_names_makes_none_of_these_less_likely():
    def none_of(weights):
        return next(h.prior for h in build_hypotheses(CHANGES, weights) if h.kind == "none")

    assert none_of({"a": 7.0, "b": 1.0}) < none_of(None) == none_of(dict.fromkeys(CHANGES, 3.0))


def test_a_pair_is_judged_as_if_pairs_were_rarer():
    nothing = [0.0] * 4
    standing = Standing(nothing, nothing, nothing, 0b0011, 0.98, 0.01, 0.0, 0.99)
    # Half as likely: 0.49 against 0.495 of pairs in all and 0.01 of the rest.
    assert standing.pair_at_least == pytest.approx(0.49 / (0.495 + 0.01))
    assert standing.pair_at_least < standing.pair_chance
