"""The file that a new cause begins as: every part that a cause has, to be filled in.

`new_cause` gives its text. Each line that somebody has to write carries the mark FILL IN, and the
loader refuses a file that still has one: `unfilled_lines` names them.
"""

from __future__ import annotations

from rerail.catalogue.schema import FAMILIES
from rerail.errors import UsageError
from rerail.platform.os_text import is_printable
from rerail.platform.patterns import linear

_MARK = "FILL IN"
_ID = linear(r"[a-z][a-z0-9]*(-[a-z0-9]+)+")
_KEY = linear(r"(\w+)\s*=")

_TEMPLATE = '''\
id = "{id}"
title = "{title}"
# The sentence that stands first, with the facts: who, what, where, when, how much. The first one
# whose facts are known is said; the last must need none. docs/evidence.md lists the facts.
headline = [
  "{{exception}}{{at}}",
  "FILL IN a plain sentence for when nothing more is known{{at}}",
]
family = "{family}"
what_happened = """
FILL IN what the user saw and what it means, in the user's words: two or three sentences.
"""
mechanism = """
FILL IN how it comes about, why there and then, and what decides whether it happens.
"""
# What is only its echo when both are seen.
outranks = ["python-exception", "peer-died"]
references = ["FILL IN the page of the library that explains it"]
# Lines as the software prints them, over its versions and platforms: each alone must be diagnosed
# as this cause. Then lines that look alike and are something else.
matches = [
  "FILL IN a line that it prints",
  "FILL IN another one",
]
near_misses = [
  "FILL IN a line that looks alike and is something else",
]

# All that may stand here, and what it means: `Policy` in src/rerail/catalogue/model.py.
[policy]
# FILL IN why: the reason stands above the decision.
retry = "FILL IN unchanged, from-checkpoint or with-remedy"

# Weights are natural-log likelihood ratios: 6 says it by itself, 4.5 leaves little doubt, 3 is
# strong, 1.5 is a hint. Signatures of one group say the same thing; only the heaviest counts.
# A pattern with several alternatives lists them, `any = [...]`, and has a line for each: `matches`.
# Beside signatures on text there are signs on recorded evidence: docs/evidence.md.
[[signature]]
name = "message"
pattern = \'\'\'FILL IN a pattern that RE2 takes\'\'\'
weight = 5.0
group = "says-so"

[[experiment]]
change = []  # as `rerail isolate --try` takes it
expect = "FILL IN what is changed, and what its result says about this cause"

# Safe ones first, then those that change results; those that only hide it last.
[[remedy]]
id = "FILL IN a short name"
title = "FILL IN what to do"
safety = "safe"
change = []
note = ""  # what it does not do
'''


def new_cause(cause_id: str, family: str, title: str) -> str:
    if not _ID.fullmatch(cause_id):
        raise UsageError(
            f"{cause_id!r} is no id of a cause",
            "An id is two or more words in lower case, with hyphens: port-in-use.",
        )
    if family not in FAMILIES:
        raise UsageError(f"there is no family {family!r}", f"There are: {', '.join(FAMILIES)}.")
    if not title.strip() or not is_printable(title):
        raise UsageError("the title is one line of text")
    quoted = title.replace("\\", "\\\\").replace('"', '\\"')
    return _TEMPLATE.format(id=cause_id, title=quoted, family=family)


def unfilled_lines(text: str) -> list[str]:
    """The lines of a cause file that nobody has written yet, with the key that they belong to."""
    found = []
    key = ""
    for number, line in enumerate(text.split("\n"), 1):
        key = named[1] if (named := _KEY.match(line)) else key
        if _MARK in line:
            what = line.partition(_MARK)[2].strip(" \"',]")
            found.append(f"line {number}: {'comment' if line.startswith('#') else key}: {what}")
    return found
