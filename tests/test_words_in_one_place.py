"""Each of these questions is answered in one place; a second answer would drift from the first."""

from __future__ import annotations

import re

import pytest
from tests.test_house import MODULES, STUB, name_of

# Question: a pattern of the code that answers it, and the modules that may, with the reason.
ONE_PLACE = {
    "a size or a length of time that a person typed": (
        r'"h": *3600|"[km](?:i?b)?": *(?:1|60|10[02][04])\b|\bkmgt|\[kmgt',
        {
            "platform/typed_quantities.py": "the one parser",
            "evidence/text/memory.py": "sizes that libraries print, in their own units",
        },
    ),
    "what is safe to print on a terminal": (
        r"\bisprintable\b",
        {
            "platform/os_text.py": "printable and printable_line",
            "bare.py": "may not import anything",
            "checkpoints/formats/pickle_stream.py": "is it the name of a function?",
            "diagnosis/lines_to_send.py": 'text before masking: a "?" in it would hide a secret',
            "evidence/text/lines.py": "a log that is read, not shown: asked for every line",
        },
    ),
    "the name of a signal": (
        r'\b\d+: *"SIG[A-Z]+|"SIG[A-Z]+": *\d|signal\.Signals\(|"killed": *\d',
        {"platform/signal_names.py": "signal_name and OF_LINUX"},
    ),
    "how a probability or a share is written": (
        r"[.\d]%\}|\} %|\}%[\"' )<]|\"<1 ?%|replace\(\"%\"",
        {"wording.py": "percent and share_in_percent"},
    ),
}


@pytest.mark.parametrize("question", ONE_PLACE)
def test_a_question_is_answered_in_one_place(question: str) -> None:
    pattern, places = ONE_PLACE[question]
    found = {
        name_of(path): number
        for path in MODULES
        if STUB not in path.parents
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if re.search(pattern, line, re.IGNORECASE)
    }
    elsewhere = [f"{name}:{line}" for name, line in found.items() if name not in places]
    assert elsewhere == [], f"{question}: use {next(iter(places))}"
    assert sorted(set(places) - set(found)) == [], "no longer answers it: take it out"
