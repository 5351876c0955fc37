"""Survival arithmetic: crash times in, what they prove out. Imports nothing of rerail.

`classify` says what kind of failure the crash times show; `clean_stretch_needed` and
`probability_of_luck` say what a clean stretch is worth for that kind; `Hazard` is the
arithmetic of a constant rate.
"""

from rerail.survival.ageing import age_test, fit_weibull, laplace_trend
from rerail.survival.classify import classify
from rerail.survival.hazard import Hazard
from rerail.survival.lifetimes import Lifetimes
from rerail.survival.model import FailureModel, Finding, Kind, constant_rate, fixed_step
from rerail.survival.passes import chance_of_misses, log_likelihood, passes_for
from rerail.survival.proof import CleanStretch, clean_stretch_needed, probability_of_luck

__all__ = [
    "CleanStretch",
    "FailureModel",
    "Finding",
    "Hazard",
    "Kind",
    "Lifetimes",
    "age_test",
    "chance_of_misses",
    "classify",
    "clean_stretch_needed",
    "constant_rate",
    "fit_weibull",
    "fixed_step",
    "laplace_trend",
    "log_likelihood",
    "passes_for",
    "probability_of_luck",
]
