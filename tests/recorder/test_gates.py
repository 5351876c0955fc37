"""Gates: what is typed, what is read from output, and when each is judged."""

from __future__ import annotations

import math
import signal
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_driver import Finished, python, run_recorded

from rerail.diagnosis import explain_run
from rerail.errors import UsageError
from rerail.live import build, take_snapshot
from rerail.recorder.run.gates import Gate, Gates, Judged, parse_gate
from rerail.recorder.run.printed_metrics import (
    MOST_LINES,
    PrintedMetrics,
    read_counts,
    read_metrics,
)
from rerail.records import StepPoint

NAMES = st.builds(
    str.__add__,
    st.sampled_from(string.ascii_letters + "_"),
    st.text(string.ascii_letters + string.digits + "_./@%+-", max_size=20),
)
NUMBERS = st.floats(-1e12, 1e12, allow_nan=False)


# -- what is typed -------------------------------------------------------------------------------


@given(
    NAMES,
    st.sampled_from(["<", "<=", ">", ">="]),
    NUMBERS,
    st.sampled_from(["step", "epoch"]),
    st.integers(0, 10**14),
    st.sampled_from(["", " ", "  "]),
)
def test_a_gate_is_read_as_it_is_written(
    name: str, sign: str, bound: float, unit: str, at: int, space: str
) -> None:
    gate = parse_gate(f"{space}{name}{space}{sign}{space}{bound!r}{space}@{space}{unit} {at}")
    assert gate == Gate(name, sign, bound, unit, at)  # type: ignore[arg-type]
    assert parse_gate(str(gate)) == gate


@given(st.text(max_size=80) | st.text("lossrecall@<>=0123456789. step epoch", max_size=60))
def test_any_text_is_a_gate_or_a_clear_mistake(text: str) -> None:
    try:
        gate = parse_gate(text)
    except UsageError as error:
        assert "--gate 'loss < 2 @ step 500'" in error.help_text
    else:
        assert parse_gate(str(gate)) == gate


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "has to end with"),
        ("loss < 2", "has to end with"),
        ("loss < 2 @ stp 5", "has to end with"),
        ("loss 2 @ step 5", "no comparison"),
        ("loss < two @ step 5", "needs a number"),
        ("loss == 2 @ step 5", "no comparison"),
        ("a b < 2 @ step 5", "something else"),
        ("loss < 1e999 @ step 5", "too large"),
    ],
)
def test_a_mistake_is_named(text: str, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        parse_gate(text)


def test_a_value_that_is_no_number_meets_no_gate() -> None:
    for sign in ("<", "<=", ">", ">="):
        assert not Gate("loss", sign, 2.0, "step", 1).is_met_by(math.nan)


# -- what is read --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("recall@500=0.43", "recall@500", 0.43),
        ("recall@500: 0.43", "recall@500", 0.43),
        ("{'recall@500': 0.43, 'x': 1}", "recall@500", 0.43),
        ('{"recall@500": 4.3e-1}', "recall@500", 0.43),
        ("eval recall@500 0.43.", "recall@500", 0.43),
        ("step 12 loss 0.5", "loss", 0.5),
        ("Epoch [3/10], Step [100/600], Loss: 0.43", "loss", 0.43),
        (" 37%|███▋ | 37/100 [00:12<00:20, 3.1it/s, loss=0.5]", "loss", 0.5),
        ("loss: nan", "loss", math.nan),
        ("LOSS=-1.5e+03", "loss", -1500.0),
        ("\x1b[31mloss\x1b[0m: \x1b[1m0.25\x1b[0m", "loss", 0.25),
        ("loss: 1.0 loss: 2.0", "loss", 2.0),
        ("{'loss': '1.25', 'epoch': '0.4'}", "loss", 1.25),
    ],
)
def test_a_metric_is_read_by_its_name(line: str, name: str, value: float) -> None:
    assert read_metrics(line, [name]) == pytest.approx({name: value}, nan_ok=True)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("val_loss: 0.3", "loss"),
        ("train/loss 0.3", "loss"),
        ("loss_scale: 1024", "loss"),
        ("recall@5000=0.4", "recall@500"),
        ("recall@500=0.4", "recall@50"),
        ("loss is fine", "loss"),
        ("lossless 3", "loss"),
        ("loss v2.1beta", "loss"),
    ],
)
def test_another_metric_is_not_taken_for_it(line: str, name: str) -> None:
    assert read_metrics(line, [name]) == {}


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ("step 12/100 loss 1", {"step": 12}),
        ("Epoch 3/10", {"epoch": 3}),
        ("Epoch [3/10], Step [100/600]", {"epoch": 3, "step": 100}),
        ("{'loss': 1.2, 'epoch': 1.3}", {"epoch": 1}),
        ("iter 100: loss 2.31", {"step": 100}),
        ("global_step=7", {"step": 7}),
        ("epochs 2/3", {"epoch": 2}),
        ("epochs: 10", {}),
        ("steps per epoch = 46", {}),
        ("max_steps=500", {}),
        ("footstep 3", {}),
    ],
)
def test_how_far_the_run_is_by_its_own_words(line: str, counts: dict[str, int]) -> None:
    assert read_counts(line) == counts


@given(NAMES.filter(lambda name: name[-1] not in "+-."), NUMBERS, st.sampled_from(["=", ": ", " "]))
def test_every_name_and_number_is_found_again(name: str, value: float, between: str) -> None:
    line = f"step 3 | {name}{between}{value!r}, other"
    found = read_metrics(line, [name.lower()])
    assert found[name.lower()] == value or name.lower() in ("step", "other")


@given(st.text(max_size=300), NAMES)
def test_no_line_raises(line: str, name: str) -> None:
    read_metrics(line, [name.lower()])
    read_counts(line)


@given(st.lists(st.binary(max_size=60), max_size=12))
def test_how_output_is_cut_into_chunks_changes_nothing(chunks: list[bytes]) -> None:
    text = b"step 1 loss 0.5\n" + b"".join(chunks) + b"\nstep 2 loss 0.25\n"
    whole, pieces = PrintedMetrics(["loss"]), PrintedMetrics(["loss"])
    whole.feed(text, "stdout")
    for i in range(0, len(text), 7):
        pieces.feed(text[i : i + 7], "stdout")
    assert repr(list(whole.read())) == repr(list(pieces.read()))


def test_a_flood_is_read_at_its_end_in_bounded_memory() -> None:
    metrics = PrintedMetrics(["loss"])
    for i in range(200):
        metrics.feed(b"step %d loss 1\n" % i * 5000, "stdout")
    metrics.feed(b"x" * 10_000_000, "stdout")
    found = list(metrics.read())
    assert len(found) <= MOST_LINES
    assert found[-1] == ({"loss": 1.0}, {"step": 199})


# -- when it is judged ---------------------------------------------------------------------------


def judged(gate: str, *lines: str, ends: bool = True) -> list[tuple[float, int, bool]]:
    gates = Gates([parse_gate(gate)])
    found: list[Judged] = []
    for line in lines:
        found += gates.note_line(read_metrics(line, [parse_gate(gate).metric]), read_counts(line))
    if ends:
        found += gates.end()[0]
    return [(each.value, each.at, each.is_met) for each in found]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["step 4 loss 9", "step 5 loss 3", "step 6 loss 1"], [(3.0, 5, False)]),
        (["step 4 loss 9", "step 8 loss 1"], [(1.0, 8, True)]),
        (["step 5", "loss 3", "loss 1", "step 6"], [(1.0, 5, True)]),
        (["loss 1", "step 5", "step 6", "loss 9"], [(1.0, 5, True)]),
        (["step 5", "step 6", "loss 1.5", "loss 9"], [(1.5, 5, True)]),
        (["step 5", "loss 1"], [(1.0, 5, True)]),
        (["step 4 loss 1"], []),
        (["step 5"], []),
        (["loss 1"], []),
        (["step 5 loss nan"], [(math.nan, 5, False)]),
    ],
)
def test_the_value_of_that_step_counts(
    lines: list[str], expected: list[tuple[float, int, bool]]
) -> None:
    assert repr(judged("loss < 2 @ step 5", *lines)) == repr(expected)


def test_an_epoch_s_value_comes_at_its_end_or_on_its_line() -> None:
    header = ["Epoch 1/3", "recall@5: 0.1", "recall@5: 0.6", "Epoch 2/3"]
    assert judged("recall@5 > 0.5 @ epoch 1", *header, ends=False) == [(0.6, 1, True)]
    summary = ["epoch 0 recall@5=0.1", "epoch 1 recall@5=0.2"]
    assert judged("recall@5 > 0.5 @ epoch 1", *summary, ends=False) == [(0.2, 1, False)]


def test_the_agent_s_loss_of_that_very_step_counts() -> None:
    gates = Gates([parse_gate("loss < 2 @ step 5"), parse_gate("acc > 1 @ step 5")])
    history = [StepPoint(i, float(i), 10.0 - i) for i in range(1, 9)]
    (found,) = gates.note_agent(8, None, 2.0, history)
    assert (found.value, found.at, found.source) == (5.0, 5, "agent")
    assert [str(gate) for gate, _ in gates.end()[1]] == ["acc > 1 @ step 5"]


def test_the_program_s_own_count_goes_before_the_agent_s() -> None:
    gates = Gates([parse_gate("loss < 2 @ step 5")])
    assert gates.note_line({}, {"step": 1}) == []
    assert gates.note_agent(50, None, 9.0, [StepPoint(5, 1.0, 9.0)]) == []
    (found,) = gates.note_line({"loss": 1.0}, {"step": 5})
    assert (found.value, found.source) == (1.0, "output")


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(0, 9)), max_size=30))
def test_each_gate_is_judged_once_or_said_not_to_be(
    lines: list[tuple[bool, bool, int]],
) -> None:
    gates = Gates([parse_gate("m < 5 @ step 4"), parse_gate("m > 5 @ epoch 2")])
    found = []
    for has_value, is_step, number in lines:
        metrics = {"m": float(number)} if has_value else {}
        found += gates.note_line(metrics, {"step" if is_step else "epoch": number})
    last, left = gates.end()
    assert sorted([str(j.gate) for j in found + last] + [str(gate) for gate, _ in left]) == [
        "m < 5 @ step 4",
        "m > 5 @ epoch 2",
    ]
    assert gates.are_judged


# -- in a run ------------------------------------------------------------------------------------

# Goes on until somebody stops it, so that the gate has to be what ends it.
PRINTS_FOR_EVER = """
import sys, time
step = 0
while True:
    step += 1
    print(f"step {step} loss {10 / step:.3f} {sys.argv[1]}", flush=True)
    time.sleep(0.01)
"""


def gated(tmp_path: Path, code: str, *options: str, argument: str = "") -> Finished:
    command = [*python(code), argument]
    return run_recorded(tmp_path / "store", *command, options=options)


def test_a_gate_that_is_not_met_stops_the_run_and_is_the_reason(tmp_path: Path) -> None:
    done = gated(tmp_path, PRINTS_FOR_EVER, "--gate", "loss < 1e-6 @ step 5", "--on-gate", "stop")
    assert done.status == -signal.SIGINT
    (event,) = done.events("gate")
    assert (event.data["is_met"], event.data["action"], event.data["at"]) == (False, "stop", 5)
    reason = "stopped by rerail: loss was 2 at step 5, the gate asks for < 1e-06"
    outcome = done.folder.info().outcome
    assert outcome is not None
    assert outcome.summary.startswith(reason)
    diagnosis = explain_run(done.folder)
    assert diagnosis.headline.startswith(f"S{reason[1:]}")
    assert diagnosis.causes == ()
    assert b"GATE NOT MET: loss was 2 at step 5" in done.stderr
    (sent,) = done.events("signal-forwarded")
    assert sent.data["sender_name"].startswith("rerail, for the gate")


def test_who_ignores_ctrl_c_is_terminated(tmp_path: Path) -> None:
    ignores = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + PRINTS_FOR_EVER
    done = gated(tmp_path, ignores, "--gate", "loss > 99 @ step 3", "--on-gate", "stop")
    assert done.status == -signal.SIGTERM


def test_a_gate_warns_and_the_run_goes_on(tmp_path: Path) -> None:
    code = "for i in range(1, 9): print(f'step {i} loss {i} acc=0.{i}')"
    done = gated(
        tmp_path,
        code,
        *("--gate", "loss < 2 @ step 5", "--gate", "acc > 0.3 @ step 4"),
        *("--gate", "f1 > 0 @ step 1", "--gate", "loss < 1 @ epoch 3"),
    )
    assert done.status == 0
    texts = [event.data["text"] for event in done.events("gate")]
    assert texts == [
        "acc was 0.4 at step 4, as the gate asks (> 0.3)",
        "loss was 5 at step 5, the gate asks for < 2",
        "not judged: no f1 was seen at step 1 (f1 > 0 @ step 1)",
        "not judged: epoch 3 was not reached (loss < 1 @ epoch 3)",
    ]
    view = build(take_snapshot(done.folder))
    assert [gate.is_met for gate in view.gates] == [False, True, None, None]
    assert done.stderr.count(b"GATE NOT MET") == 1
    assert done.folder.info().settings["gates"][0] == "loss < 2 @ step 5"


def test_quiet_means_quiet(tmp_path: Path) -> None:
    done = gated(tmp_path, "print('step 1 loss 1')", "--quiet", "--gate", "loss < 0 @ step 1")
    assert done.stderr == b""
    assert len(done.events("gate")) == 1


@pytest.mark.parametrize(
    "options",
    [["--gate", "loss"], ["--on-gate", "stop"], ["--gate", "loss < 1 @ step 1", "--on-gate", "x"]],
)
def test_a_mistake_is_said_before_anything_runs(tmp_path: Path, options: list[str]) -> None:
    mark = tmp_path / "ran"
    done = gated(tmp_path, f"open({str(mark)!r}, 'w')", *options)
    assert done.status == 2
    assert not mark.exists()


@pytest.mark.thorough
@pytest.mark.torch
def test_a_training_that_prints_nothing_is_judged_by_the_agent(tmp_path: Path) -> None:
    code = """
import torch, time
weight = torch.nn.Parameter(torch.tensor([4.0]))
optimizer = torch.optim.SGD([weight], 0.0)
while True:
    optimizer.zero_grad()
    (weight ** 2).sum().backward()
    optimizer.step()
    time.sleep(0.01)
"""
    done = gated(tmp_path, code, "--gate", "loss < 2 @ step 20", "--on-gate", "stop")
    (event,) = done.events("gate")
    assert (event.data["value"], event.data["at"], event.data["source"]) == (16.0, 20, "agent")
    assert done.status == -signal.SIGINT
