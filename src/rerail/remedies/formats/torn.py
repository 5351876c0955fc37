"""What a reader says of a file that would not load."""

from __future__ import annotations


class Torn(Exception):
    """Why a checkpoint would not load, as half a sentence: "the archive ends too early"."""
