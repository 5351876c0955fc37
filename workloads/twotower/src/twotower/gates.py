"""Should this run go on? A decision that the incidents left to a script, with its reasons.

Comes in: a run's folder (config.yaml, metrics.jsonl) and gates.yaml. Goes out: a `Verdict`: each
gate with what was measured, and one decision: go on, stop, or use another profile.

A verdict says what the record shows and no more. That a run died on a device does not prove that
the device was the reason: a change of profile is the cheap next trial, not a diagnosis.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from statistics import mean, median
from typing import Any

import yaml

from twotower.config import Config, read_config
from twotower.errors import TwotowerError
from twotower.journal import read_metrics


@dataclass(frozen=True)
class Gate:
    name: str
    state: str  # passed, failed, or open: not enough of the run is there to tell
    found: str


@dataclass
class Verdict:
    decision: str  # "go on", "stop" or "use profile"
    why: str
    profile: str | None = None
    gates: list[Gate] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return {
            "decision": self.decision,
            "profile": self.profile,
            "why": self.why,
            "gates": [vars(gate) for gate in self.gates],
        }

    def to_text(self) -> str:
        lines = [f"{gate.state:7} {gate.name:13} {gate.found}" for gate in self.gates]
        headline = self.decision + (f" {self.profile}" if self.profile else "")
        return "\n".join([*lines, "", f"{headline}: {self.why}"])


def judge(run: Path, gates_file: Path | None = None) -> Verdict:
    config = read_config(run)
    try:
        rows = list(read_metrics(run))
    except FileNotFoundError:
        raise TwotowerError(f"{run} holds no metrics.jsonl; has the run started?") from None
    text = (
        gates_file.read_text("utf-8")
        if gates_file
        else files("twotower").joinpath("gates.yaml").read_text("utf-8")
    )
    stated = yaml.safe_load(text)
    steps = _last_row_of_each_step(rows)
    gates = [
        _finite(rows),
        _alive(rows, steps),
        _loss_falling(steps, stated["loss_falling"]),
        *_recall(rows, stated["recall_500"]),
        _step_rate(steps, stated["step_rate"]),
    ]
    verdict = _decide({gate.name: gate for gate in gates}, config, rows)
    verdict.gates = gates
    return verdict


def _last_row_of_each_step(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    by_step = {row["step"]: row for row in rows if row["event"] == "step"}
    return [by_step[step] for step in sorted(by_step)]


def _finite(rows: list[dict[str, Any]]) -> Gate:
    bad = [row for row in rows if row["event"] == "not-finite"]
    if bad:
        found = (
            f"the {bad[-1]['what']} at step {bad[-1]['step']}; its batch is in {bad[-1]['file']}"
        )
        return Gate("finite", "failed", found)
    return Gate("finite", "passed", "no NaN, no Inf")


def _alive(rows: list[dict[str, Any]], steps: list[dict[str, Any]]) -> Gate:
    last = rows[-1] if rows else {"event": "nothing"}
    if last["event"] == "end":
        return Gate("alive", "passed", f"ended by itself after step {last['step']}")
    if last["event"] == "not-finite":
        return Gate("alive", "passed", "stopped by itself")
    pids = [row["pid"] for row in rows if "pid" in row]
    if pids and _is_running(pids[-1]):
        return Gate("alive", "passed", f"running as process {pids[-1]}")
    reached = steps[-1]["step"] if steps else 0
    where = (
        f"while mining ({last['miner']})" if last["event"] == "mining-started" else "while training"
    )
    return Gate("alive", "failed", f"died after step {reached}, {where}")


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    command = Path(f"/proc/{pid}/cmdline")  # a number may have gone to another program since
    return not command.exists() or b"twotower" in command.read_bytes()


def _loss_falling(steps: list[dict[str, Any]], gate: dict[str, Any]) -> Gate:
    window = gate["window_steps"]
    if len(steps) < 2 * window:
        return Gate("loss falling", "open", f"{len(steps)} steps; {2 * window} are needed to tell")
    first = mean(row["loss"] for row in steps[:window])
    last = mean(row["loss"] for row in steps[-window:])
    state = "passed" if last <= first * (1 - gate["at_least"]) else "failed"
    return Gate("loss falling", state, f"{first:.4f} over the first {window} steps, now {last:.4f}")


def _recall(rows: list[dict[str, Any]], gate: dict[str, Any]) -> list[Gate]:
    reached = {
        row["epoch"]: row["recall@500"]
        for row in rows
        if row["event"] == "eval" and row["method"] == "model"
    }
    gates = []
    for epoch, wanted in gate["by_epoch"].items():
        if epoch in reached:
            state = "passed" if reached[epoch] >= wanted else "failed"
            found = f"{reached[epoch]:.4f} after epoch {epoch}, {wanted} wanted"
            gates.append(Gate("recall@500", state, found))
    return gates or [Gate("recall@500", "open", "no epoch has ended yet")]


def _step_rate(steps: list[dict[str, Any]], gate: dict[str, Any]) -> Gate:
    rates = [row["rows_per_second"] for row in steps]
    if len(rates) < 10:
        return Gate("step rate", "open", f"{len(rates)} steps; 10 are needed to tell")
    usual, best, now = median(rates), median(sorted(rates)[-10:]), median(rates[-10:])
    found = f"{usual:.1f} rows/s, lately {now:.1f}, at best {best:.1f}"
    is_slow = usual < gate["at_least"] or now * gate["slowdown"] < best
    return Gate("step rate", "failed" if is_slow else "passed", found)


def _decide(gates: dict[str, Gate], config: Config, rows: list[dict[str, Any]]) -> Verdict:
    if gates["finite"].state == "failed":
        return Verdict(
            "stop", f"{gates['finite'].found}. Lower --lr (now {config.lr}) and start anew."
        )
    if gates["alive"].state == "failed":
        return _decide_after_death(gates["alive"].found, config)
    for name in ("loss falling", "recall@500"):
        if gates[name].state == "failed":
            return Verdict("stop", f"{name}: {gates[name].found}")
    if gates["step rate"].state == "failed":
        if config.device == "mps":
            return Verdict("use profile", f"{gates['step rate'].found} on mps", "cpu")
        return Verdict("stop", f"step rate: {gates['step rate'].found}")
    if config.profile == "mps-no-accum" and any(row["event"] == "eval" for row in rows):
        return Verdict(
            "use profile",
            "an epoch passed on mps without accumulation; mps-safe has the larger batch",
            "mps-safe",
        )
    return Verdict("go on", "no gate failed")


def _decide_after_death(found: str, config: Config) -> Verdict:
    if "while mining" in found and config.miner not in ("exact", "none"):
        return Verdict(
            "stop",
            f"{found}. Go on with --resume --miner exact, which searches in torch alone, "
            "and find the cause: rerail run -- COMMAND",
        )
    if config.device == "mps" and config.accum > 4:
        why = f"{found} on mps with {config.accum} backward passes per step; mps-safe has 4"
        return Verdict("use profile", why, "mps-safe")
    if config.device == "mps":
        return Verdict("use profile", f"{found} on mps; cpu has the full batch of 512", "cpu")
    return Verdict("stop", f"{found}. Find the cause before going on: rerail run -- COMMAND")
