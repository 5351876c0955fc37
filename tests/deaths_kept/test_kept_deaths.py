"""Deaths of programs written as people write them, kept apart as a measure.

One case per death: the sentence has the facts it has to have and claims nothing false, the cause
is right, the first fix is one that a colleague would give.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

if sys.version_info < (3, 11):
    pytest.skip("the expectations are read with tomllib", allow_module_level=True)

from tests.deaths_kept import stage

pytestmark = pytest.mark.slow
CASES = stage.load_cases()


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_says_why_it_died(case: dict[str, Any], tmp_path: Path) -> None:
    if reason := stage.what_is_missing(case):
        pytest.skip(reason)
    for package in case.get("packages", []):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"needs {package}")
    folder = tmp_path / case["program"]
    scene = stage.play(case, folder)
    faults = stage.judge(case, scene, folder)
    assert not faults, "\n".join([*faults, "", scene.explained, "", scene.output[-3000:]])
