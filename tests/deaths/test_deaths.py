"""Deaths in programs written as people write them: what rerail says against what a colleague would.

In: programs/ and expectations/*.toml, written before rerail's answers were seen. DEATHS_OUT
names a folder to keep every output in; DEATHS_PYTHON an interpreter with requirements.txt.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from pathlib import Path

import death_stages as stage
import pytest

DEATHS = stage.load()
pytestmark = pytest.mark.slow


def keep(death: dict, result: stage.Death, problems: list[str]) -> None:
    """Write what the terminal showed and what `explain` gave, where that was asked for."""
    if not (where := os.environ.get("DEATHS_OUT")):
        return
    out = Path(where) / f"{death['program']}-{death['name']}"
    out.mkdir(parents=True, exist_ok=True)
    (out / "terminal.txt").write_text(result.output)
    shutil.copytree(result.folder / ".rerail", out / "home", dirs_exist_ok=True)
    (out / "explain.txt").write_text(result.text)
    (out / "explain.json").write_text(json.dumps(result.document, indent=1))
    (out / "verdict.json").write_text(
        json.dumps(
            {"returncode": result.returncode, "victim": result.victim, "problems": problems},
            indent=1,
        )
    )


def judge(death: dict, result: stage.Death, values: dict[str, str]) -> list[str]:
    """Return what a colleague would object to."""

    def wanted(key: str) -> list[str]:
        return [stage.resolve(p, death["program"], values) for p in death.get(key, [])]

    everything = "\n".join([result.headline, result.text])
    problems = [f"never shown: {p!r}" for p in wanted("never_shown") if re.search(p, everything)]
    if not re.fullmatch(death["outcome"], result.outcome):
        problems.append(f"outcome: {result.outcome!r} instead of {death['outcome']!r}")
    if death["outcome"] == "ok":
        if result.document.get("causes"):
            problems.append(f"cause: {result.leading.get('id')} for a run that ended well")
        return problems
    if death.get("action") and result.victim in ("", "timeout"):
        problems.append("harness: the action was not done")
    cause = result.leading.get("id")
    if cause not in [death["cause"], *death.get("also_ok", [])]:
        problems.append(f"cause: {cause} instead of {death['cause']}")
    problems += [f"says: no {p!r}" for p in wanted("says") if not re.search(p, result.headline)]
    problems += [f"shows: no {p!r}" for p in wanted("shows") if not re.search(p, everything)]
    problems += [f"never: {p!r}" for p in wanted("never") if re.search(p, result.headline)]
    fixes = result.fixes()
    if (good := wanted("fix")) and not any(re.search(p, fixes) for p in good):
        problems.append(f"fix: none of {good}")
    problems += [f"fix_never: {p!r}" for p in wanted("fix_never") if re.search(p, fixes)]
    return problems


@pytest.mark.parametrize("death", DEATHS, ids=lambda d: f"{d['program']}-{d['name']}")
def test_death(death: dict) -> None:
    if reason := stage.missing(death):
        pytest.skip(reason)
    folder = Path(tempfile.mkdtemp(prefix="deaths-"))  # not tmp_path: nothing is left of it
    try:
        result, values = stage.die(death, folder)
        problems = judge(death, result, values)
        keep(death, result, problems)
        assert not problems, "\n".join([result.headline, *problems])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
