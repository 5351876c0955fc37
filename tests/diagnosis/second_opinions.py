"""Asking a server of the test's own for a second opinion."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import rerail
from rerail.diagnosis import SecondOpinion, server_of

for folder in (Path(__file__).parent.parent, Path(__file__).parent.parent / "privacy"):
    sys.path.insert(0, str(folder))

from chat_completions import Asked, Exchange, serving  # noqa: E402

OOM = (
    'step 41 loss 0.3\nTraceback (most recent call last):\n  File "t.py", line 9, in main\n'
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
)
GOOD = '{"id": "gpu-oom", "lines": [4]}'
Answer = Callable[[Exchange, Asked], None]


def opinion(
    answer: Answer, log: str = OOM, **settings: object
) -> tuple[SecondOpinion, list[Asked]]:
    with serving(answer) as server:
        asks = replace(server_of(server.url), **settings)  # type: ignore[arg-type]
        found = rerail.explain(io.StringIO(log), ask=asks).second_opinion
    assert found is not None
    return found, server.asked


def refused(answer: Answer, **settings: object) -> str:
    found, _ = opinion(answer, **settings)
    assert (found.id, found.lines, found.model) == ("", (), "")
    assert found.to_json() == {"error": found.error}
    return found.error
