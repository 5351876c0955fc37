"""Programs that no agent looks into: how far they are is read from what they print."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_driver import Terminal, python, rerail_run, run_recorded, wait_until

from rerail import live
from rerail.experiments.trials.exposure import measure
from rerail.recorder.run.output_progress import HEAD_BYTES, TAIL_BYTES, OutputProgress
from rerail.recorder.run_record import RunRecord
from rerail.records import PrintedPoint
from rerail.store import RunFolder, Store


def last(folder: RunFolder) -> PrintedPoint:
    point = folder.last_printed()
    assert point is not None
    return point


def test_a_shell_script_is_counted_in_steps(tmp_path: Path) -> None:
    script = 'for i in 1 2 3 4 5 6 7; do echo "step $i loss 0.$i"; done; exit 3'
    done = run_recorded(tmp_path, "sh", "-c", script)
    point = last(done.folder)
    assert (point.step, point.steps, point.every, point.loss) == (7, 7, 1, 0.7)
    distance = measure(done.folder, 1.0)
    assert (distance.unit(), distance.of("steps", died=True)) == ("steps", 8)


def test_code_that_a_traceback_quotes_is_no_progress(tmp_path: Path) -> None:
    code = (
        "def batch(n): raise SystemError(n)",
        "for n in range(1, 6): print(f'step {n} loss 0.{n}', flush=True)",
        "batch(6)",
    )
    script = tmp_path / "train.py"
    script.write_text("\n".join(code))
    done = run_recorded(tmp_path, *python(f"import runpy; runpy.run_path({str(script)!r})"))
    assert (last(done.folder).step, last(done.folder).loss) == (5, 0.5)


def test_lines_that_come_seldom_leave_the_clock(tmp_path: Path) -> None:
    script = 'for i in 100 200 300; do echo "step $i loss 0.5"; done; exit 3'
    distance = measure(run_recorded(tmp_path, "sh", "-c", script).folder, 1.0)
    assert (distance.steps, distance.unit()) == (300, "seconds")


@pytest.mark.parametrize("is_whole", [True, False])
def test_the_last_line_is_read_also_without_its_end(tmp_path: Path, is_whole: bool) -> None:
    text = "".join(f"step {n}/90 loss {1 / n:.3f}\n" for n in range(1, 78))
    text = text if is_whole else text[:-1]
    done = run_recorded(tmp_path, *python(f"import os; os.write(1, {text.encode()!r})"))
    assert (last(done.folder).step, last(done.folder).total) == (77, 90)


def test_of_a_long_output_the_beginning_and_the_end_are_known(tmp_path: Path) -> None:
    """More than is kept of it, at whatever moments it was looked at."""
    code = (
        "import sys\n"
        "for n in range(1, 200_001): sys.stdout.write(f'step {n} loss {1 / n:.6f} lr 0.001\\n')"
    )
    point = last(run_recorded(tmp_path, *python(code)).folder)
    assert (point.step, point.every, point.steps) == (200_000, 1, 200_000)


def test_a_bar_is_read_while_it_is_drawn(tmp_path: Path) -> None:
    """tqdm ends no line until it is done."""
    code = (
        "import sys, time\n"
        "for n in range(38):\n"
        "    sys.stderr.write(f'\\r{n}%|███▋      | {n}/100 [00:12<00:20, 3.1it/s, loss=0.5]')\n"
        "    sys.stderr.flush()\n"
        "sys.stdin.read()"
    )
    with Terminal(rerail_run(tmp_path, *python(code))) as terminal:
        terminal.expect("37/100")

        def is_read() -> bool:
            point = Store(tmp_path).resolve("last").last_printed()
            said = point and (point.step, point.total, point.loss)
            return said == (37, 100, 0.5)

        wait_until(is_read, "the bar")
        terminal.type("\x04")
        assert terminal.wait() == 0


def test_a_loss_that_is_no_number(tmp_path: Path) -> None:
    done = run_recorded(tmp_path, "printf", r"step 1 loss 0.5\nstep 2 loss nan\n")
    loss = last(done.folder).loss
    assert loss is not None and math.isnan(loss)


def test_a_run_that_says_nothing_has_no_rows(tmp_path: Path) -> None:
    done = run_recorded(tmp_path, "echo", "hello")
    assert done.folder.last_printed() is None
    assert not (done.folder.path / "progress.jsonl").exists()


def test_it_is_shown(tmp_path: Path) -> None:
    script = 'for i in 1 2 3 4; do echo "Epoch [2/3], Step [$i/4], Loss: 0.5"; done'
    done = run_recorded(tmp_path, "sh", "-c", script)
    standing = live.build(live.take_snapshot(done.folder))
    assert standing.progress is not None and standing.loss is not None
    shown = standing.progress
    assert (shown.steps, shown.epoch, shown.done, shown.total) == (4, 2, 4, 4)
    assert (shown.counted_by, standing.loss.latest) == ("output", 0.5)
    [row] = Store(tmp_path).summaries()
    assert row.last_step == 4


@pytest.mark.thorough
def test_the_printed_number_is_told_and_the_agent_s_count_measures(
    tmp_path: Path,
) -> None:
    pytest.importorskip("torch")
    code = (
        "import torch\n"
        "weight = torch.nn.Parameter(torch.ones(1))\n"
        "optimizer = torch.optim.SGD([weight], lr=0.1)\n"
        "for epoch in range(2):\n"
        "    for step in range(3):\n"
        "        (weight ** 2).sum().backward(); optimizer.step()\n"
        "    print(f'epoch {epoch} step {1000 * epoch + step}')"
    )
    done = run_recorded(tmp_path, *python(code))
    standing = live.build(live.take_snapshot(done.folder))
    assert standing.progress is not None
    assert (standing.progress.steps, standing.progress.counted_by) == (1002, "output")
    assert standing.progress.epoch == 1  # only the output tells it
    assert measure(done.folder, 1.0).steps == 6


PIECES = st.sampled_from(
    [
        *(
            b"step 12 loss 0.5\n",
            b"\r 37%|##   | 37/100 [00:12<00:20, 3.1it/s]",
            b"\r",
            b"\n",
            b"\0",
        ),
        *(b"\xff\xfe", b"Epoch 3/10\n", b"\x1b[31m", b"x" * TAIL_BYTES, b"9" * HEAD_BYTES),
    ]
)


@given(chunks=st.lists(st.tuples(PIECES, st.sampled_from(["stdout", "stderr"])), max_size=30))
def test_any_bytes_in_any_pieces_are_read(
    chunks: list[tuple[bytes, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    home = tmp_path_factory.mktemp("home")
    writer = Store(home).create_run(["true"], home, {}, has_terminal=False)
    progress = OutputProgress(RunRecord(writer))
    for data, stream in chunks:
        progress.feed(data, stream)
        progress._look_at = 0.0
        progress.look()
    progress.close()
    point = RunFolder(writer.path).last_printed()
    assert (point is None) == (progress.latest is None)
    writer.close()


@pytest.mark.parametrize("first_look", [1, 999, 1001, 1100, 1200, 5000])
def test_the_beginning_is_known_however_much_came_before_the_first_look(
    tmp_path: Path, first_look: int
) -> None:
    writer = Store(tmp_path).create_run(["true"], tmp_path, {}, has_terminal=False)
    progress = OutputProgress(RunRecord(writer))
    lines = [f"step {n} loss 0.5 lr 0.001\n".encode() for n in range(1, 10_001)]
    for part in (lines[:first_look], lines[first_look:]):
        progress.feed(b"".join(part), "stdout")
        progress._look_at = 0.0
        progress.look()
    progress.close()
    assert progress.latest is not None
    assert (progress.latest.step, progress.latest.steps) == (10_000, 10_000)
    writer.close()
