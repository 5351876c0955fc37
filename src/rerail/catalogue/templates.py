"""Sentences with gaps: the headlines and remedies of the cause files, filled from facts.

`{name}` is a fact, `{name|otherwise}` one that may be missing, and `[…]` a part that is left out
when one of its facts is missing. Hand-written: `str.format` has neither of the last two, and a
template language would be a dependency for two rules.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_OPTIONAL = re.compile(r"\[([^\[\]]*)\]")  # on our own templates: short and trusted
_GAP = re.compile(r"\{(\w+)(?:\|([^{}]*))?\}")


def fill(template: str, words: Mapping[str, str]) -> str | None:
    """The sentence; None when a fact that it needs is missing."""
    while found := _OPTIONAL.search(template):
        inside = found.group(1)
        kept = inside if _is_complete(inside, words) else ""
        template = template[: found.start()] + kept + template[found.end() :]
    if not _is_complete(template, words):
        return None
    return _GAP.sub(lambda gap: words.get(gap.group(1)) or gap.group(2) or "", template)


def gaps(template: str) -> set[str]:
    """The facts that it cannot do without."""
    while found := _OPTIONAL.search(template):
        template = template[: found.start()] + template[found.end() :]
    return {gap.group(1) for gap in _GAP.finditer(template) if gap.group(2) is None}


def _is_complete(part: str, words: Mapping[str, str]) -> bool:
    return all(
        gap.group(2) is not None or words.get(gap.group(1)) is not None
        for gap in _GAP.finditer(part)
    )
