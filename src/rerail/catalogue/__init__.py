"""The catalogue of causes: one file per cause, and what loads and checks them."""

from rerail.catalogue.loader import load_catalogue
from rerail.catalogue.model import (
    SAFETY_ORDER,
    Catalogue,
    Cause,
    Experiment,
    Remedy,
    Sign,
    Signature,
)

__all__ = [
    "SAFETY_ORDER",
    "Catalogue",
    "Cause",
    "Experiment",
    "Remedy",
    "Sign",
    "Signature",
    "load_catalogue",
]
