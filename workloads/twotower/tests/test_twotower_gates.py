"""Gates: a decision and its reasons, from the record alone."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from twotower.config import build_config, load_profiles, write_config
from twotower.errors import TwotowerError
from twotower.gates import judge

NOBODY = 2**22 + 1  # above any pid


def write_run(folder: Path, rows: list[dict[str, Any]], **settings: Any) -> Path:
    folder.mkdir()
    profile = settings.pop("profile", "")
    write_config(build_config({"pairs": "p", "bank": "b", **settings}, profile), folder)
    lines = [json.dumps({"unix": 0, **row}) for row in rows]
    (folder / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def steps(count: int, start: float = 5.0, end: float = 2.0, rate: float = 50.0) -> list[Any]:
    return [
        {
            "event": "step",
            "step": i + 1,
            "loss": start + (end - start) * i / count,
            "rows_per_second": rate,
        }
        for i in range(count)
    ]


def recall(epoch: int, value: float) -> dict[str, Any]:
    return {"event": "eval", "epoch": epoch, "step": 1, "method": "model", "recall@500": value}


END = {"event": "end", "step": 60}
START = {"event": "start", "pid": NOBODY}


@pytest.mark.parametrize(
    ("rows", "settings", "decision", "profile", "words"),
    [
        ([START, *steps(60), recall(1, 0.4), END], {}, "go on", None, "no gate failed"),
        ([START, *steps(60, 5, 5.1), END], {}, "stop", None, "loss falling: 5.0"),
        ([START, *steps(60), recall(1, 0.01), END], {}, "stop", None, "0.0100 after epoch 1"),
        (
            [START, *steps(5), {"event": "not-finite", "step": 5, "what": "loss", "file": "x.pt"}],
            {},
            "stop",
            None,
            "Lower --lr",
        ),
        (
            [START, *steps(60)],
            {"profile": "mps-no-accum", "accum": 32},
            "use profile",
            "mps-safe",
            "died after step 60",
        ),
        ([START, *steps(60)], {"profile": "mps-safe"}, "use profile", "cpu", "died"),
        ([START, *steps(60)], {"profile": "cpu"}, "stop", None, "rerail run"),
        (
            [START, *steps(8), {"event": "mining-started", "step": 8, "miner": "faiss"}],
            {"miner": "faiss", "device": "cpu"},
            "stop",
            None,
            "--resume --miner exact",
        ),
        (
            [START, *steps(60), recall(1, 0.4), END],
            {"profile": "mps-no-accum"},
            "use profile",
            "mps-safe",
            "without accumulation",
        ),
        ([START, *steps(60, rate=0.2), END], {"profile": "mps-safe"}, "use profile", "cpu", "mps"),
    ],
)
def test_the_decision(
    tmp_path: Path,
    rows: list[Any],
    settings: dict[str, Any],
    decision: str,
    profile: str | None,
    words: str,
) -> None:
    verdict = judge(write_run(tmp_path / "run", rows, **settings))
    assert (verdict.decision, verdict.profile) == (decision, profile)
    assert words in verdict.why
    assert json.loads(json.dumps(verdict.to_json()))["decision"] == decision


def test_of_two_rows_for_a_step_the_resumed_one_counts(tmp_path: Path) -> None:
    diverged = [{"event": "step", "step": s, "loss": 99.0, "rows_per_second": 9} for s in (50, 51)]
    again = [START, *steps(49), *diverged, {"event": "resumed", "step": 49}, *steps(60)[49:], END]
    assert judge(write_run(tmp_path / "run", again)).decision == "go on"


def test_too_little_to_tell_is_not_a_failure(tmp_path: Path) -> None:
    running = {"event": "start", "pid": os.getpid()}
    verdict = judge(write_run(tmp_path / "run", [running, *steps(5)]))
    states = {gate.name: gate.state for gate in verdict.gates}
    assert states["loss falling"] == states["recall@500"] == states["step rate"] == "open"


def test_other_gates_and_no_run(tmp_path: Path) -> None:
    strict = tmp_path / "strict.yaml"
    strict.write_text(
        "loss_falling: {window_steps: 5, at_least: 0.9}\n"
        "recall_500: {by_epoch: {}}\nstep_rate: {at_least: 1, slowdown: 3}\n"
    )
    run = write_run(tmp_path / "run", [START, *steps(60), END])
    assert judge(run, strict).decision == "stop"
    with pytest.raises(TwotowerError, match="not a run"):
        judge(tmp_path)


def test_the_profiles_are_the_incidents() -> None:
    sizes = {name: (p["batch_size"], p["accum"]) for name, p in load_profiles().items()}
    assert sizes == {
        "cpu": (8, 64),
        "mps-safe": (24, 4),
        "mps-no-accum": (16, 1),
        "seed": (32, 16),
    }
