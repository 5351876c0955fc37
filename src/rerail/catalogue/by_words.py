"""Causes by what a person types instead of an id, such as "oom" or "out of memory"."""

from __future__ import annotations

import re

from rerail.catalogue.loader import load_catalogue
from rerail.catalogue.model import Cause


def causes_with_words(typed: str) -> list[Cause]:
    """Return the causes with every typed word at the beginning of a word of their id or title."""
    wanted = _words(typed)
    return [
        cause
        for cause in load_catalogue()
        if wanted
        and all(
            any(word.startswith(each) for word in _words(f"{cause.id} {cause.title}"))
            for each in wanted
        )
    ]


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())
