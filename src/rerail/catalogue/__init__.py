"""The catalogue of causes: one file per cause, and what loads and checks them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rerail.lazy import door

if TYPE_CHECKING:
    from rerail.catalogue.by_words import causes_with_words
    from rerail.catalogue.literals import spaced
    from rerail.catalogue.loader import load_catalogue, write_new_cause
    from rerail.catalogue.model import (
        SAFETY_ORDER,
        Catalogue,
        Cause,
        Experiment,
        Fix,
        HazardKnob,
        Policy,
        Remedy,
        Sign,
        Signature,
        Symptom,
    )
    from rerail.catalogue.schema import FAMILIES
    from rerail.catalogue.templates import fill, gaps

__all__ = [
    "FAMILIES",
    "SAFETY_ORDER",
    "Catalogue",
    "Cause",
    "Experiment",
    "Fix",
    "HazardKnob",
    "Policy",
    "Remedy",
    "Sign",
    "Signature",
    "Symptom",
    "causes_with_words",
    "fill",
    "gaps",
    "load_catalogue",
    "spaced",
    "write_new_cause",
]

__getattr__ = door(
    __name__,
    {
        "Catalogue": "model",
        "Cause": "model",
        "Experiment": "model",
        "Fix": "model",
        "FAMILIES": "schema",
        "HazardKnob": "model",
        "Policy": "model",
        "Remedy": "model",
        "SAFETY_ORDER": "model",
        "Sign": "model",
        "Signature": "model",
        "Symptom": "model",
        "causes_with_words": "by_words",
        "fill": "templates",
        "gaps": "templates",
        "load_catalogue": "loader",
        "spaced": "literals",
        "write_new_cause": "loader",
    },
)
