"""Exit lines, kernel lines, progress, memory, native stacks and who failed first."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.evidence.first.lines import Trouble, find_first
from rerail.evidence.text.exits import find_exits, from_code
from rerail.evidence.text.kernel_lines import find_kernel_lines
from rerail.evidence.text.lines import Line, to_lines
from rerail.evidence.text.memory import find_printed_growth, find_shortages
from rerail.evidence.text.native_stacks import find_native_stacks
from rerail.evidence.text.progress import find_finish, find_progress, first_nonfinite
from rerail.evidence.text.resumption import Resumption
from rerail.evidence.text.tracebacks import find_tracebacks


def lines(text: str) -> list[Line]:
    return list(to_lines(enumerate(text.split("\n"), 1)))


@pytest.mark.parametrize(
    ("text", "signal", "code"),
    [
        ("Killed", "SIGKILL", None),
        ("**Killed**", "SIGKILL", None),
        ("Segmentation fault (core dumped)", "SIGSEGV", None),
        ("Abort trap: 6", "SIGABRT", None),
        ("run.sh: line 40: 53306 Killed                  python train.py", "SIGKILL", None),
        ("[1]    31148 abort      python lora.py --train", "SIGABRT", None),
        ("zsh: segmentation fault  python train.py", "SIGSEGV", None),
        ("fish: Job 1, 'x' terminated by signal SIGABRT (Abort)", "SIGABRT", None),
        ("Process finished with exit code 139 (interrupted by signal 11:SIGSEGV)", "SIGSEGV", 139),
        ("Process finished with exit code -1073741819 (0xC0000005)", "SIGSEGV", -1073741819),
        ("failed (exitcode: -9) local_rank: 0 (pid:1) of binary: python", "SIGKILL", None),
        ("  exitcode  : 2 (pid: 13137)", None, 2),
        ("process 1 terminated with signal SIGABRT", "SIGABRT", None),
        ("died with <Signals.SIGKILL: 9>.", "SIGKILL", None),
        ("srun: error: n1: task 3: Killed", "SIGKILL", None),
        ("      Exit Code:    137", "SIGKILL", 137),
        ("DataLoader worker (pid 2) is killed by signal: Bus error.", "SIGBUS", None),
        ('Thread 1 "python3" received signal SIGILL, Illegal instruction.', "SIGILL", None),
        ("Process 20304 got signal: 1", "SIGHUP", None),
        ("Fatal Python error: Segmentation fault", "SIGSEGV", None),
        # Shells in other languages.
        ("已杀死", "SIGKILL", None),
        ("段错误 (核心已转储)", "SIGSEGV", None),
        ("run.sh: Zeile 3: 4711 Getötet          python3 train.py", "SIGKILL", None),
        ("Speicherzugriffsfehler (Speicherabzug geschrieben)", "SIGSEGV", None),
        ("./run.sh: ligne 7: 311 Processus arrêté      python train.py", "SIGKILL", None),
        # A negative status that was kept in a byte, and codes in brackets.
        ("Process 3 exit with status code 247", "SIGKILL", 247),
        ("[pod-0] terminated with exit code (137). Reason [Error].", "SIGKILL", 137),
        ('        "ExitCode": 139,', "SIGSEGV", 139),
        ("[n1:mpi_rank_4] Caught error: Segmentation fault (signal 11)", "SIGSEGV", None),
    ],
)
def test_what_is_said_of_an_ending(text: str, signal: str | None, code: int | None) -> None:
    [one] = find_exits(lines(text))
    assert (one.signal, one.exit_code) == (signal, code)


REPORT = """
=======================================================
train.py FAILED
-------------------------------------------------------
Failures:
[1]:
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 4102)  (SIGTERM)
  traceback : Signal 15 (SIGTERM) received by PID 4102
-------------------------------------------------------
Root Cause (first observed failure):
[0]:
  rank      : 1 (local_rank: 1)
  exitcode  : {code} (pid: 4103)  ({signal})
  traceback : Signal {code} ({signal}) received by PID 4103
=======================================================
"""


@pytest.mark.parametrize(("code", "signal"), [(-11, "SIGSEGV"), (-15, "SIGTERM")])
def test_ranks_that_the_launcher_ended_are_no_endings_of_their_own(code: int, signal: str) -> None:
    found = find_exits(lines(REPORT.format(code=code, signal=signal)))
    assert {one.signal for one in found} == {signal}
    assert all("4103" in one.line.text for one in found)


@pytest.mark.parametrize(
    "text",
    [
        "Killed 3 stale workers from an earlier session, continuing",
        "The job was killed yesterday, trying again",
        "segmentation model loaded, 21 classes",
        "Sending process 2410413 closing signal SIGTERM",
        "Aborted attempts so far: 0",
        "status: running",
    ],
)
def test_words_in_a_sentence_are_no_ending(text: str) -> None:
    assert [e for e in find_exits(lines(text)) if e.signal] == []


@given(st.integers(-(2**33), 2**33))
def test_any_status_has_a_meaning(code: int) -> None:
    signal, kept = from_code(code)
    assert signal is not None or kept == code or -64 < code < 0


def test_kernel_lines() -> None:
    text = (
        "[1.2] Out of memory: Killed process 99 (python) total-vm:1kB, anon-rss:2048kB, x\n"
        "python[7]: segfault at 8 ip 00007f sp 00007e error 4 in libfaiss.so[7f+1a]\n"
        "traps: python[8] trap invalid opcode ip:7f1b sp:7ffd error:0 in libx.so[7f+1]\n"
        "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus."
    )
    oom, segfault, trap, xid = find_kernel_lines(lines(text))
    assert (oom.what, oom.fields["rss_bytes"], oom.fields["scope"]) == (
        "oom-kill",
        2 << 20,
        "machine",
    )
    assert (segfault.what, segfault.fields["library"]) == ("segfault", "libfaiss.so")
    assert (trap.fields["trap"], xid.fields["xid"]) == ("invalid opcode", 79)


@pytest.mark.parametrize(
    ("text", "step", "epoch", "loss"),
    [
        ("step 39 loss 0.4213", 39, None, 0.4213),
        ("{'loss': 0.69, 'learning_rate': 1e-05, 'epoch': 0.5}", None, 0.5, 0.69),
        ("Epoch 3/10:  20%|## | 375/1881 [3:40:16<18:52:25, 35.55s/it]", 375, 3.0, None),
        ("Epoch: [1][2000/4682]\tTime 0.499s\tLoss 0.00067 (0.00070)", 2000, 1.0, 0.00067),
        ("iter 20 loss nan", 20, None, math.nan),
    ],
)
def test_progress(text: str, step: int | None, epoch: float | None, loss: float | None) -> None:
    [point] = find_progress(lines(text))
    assert (point.step, point.epoch) == (step, epoch)
    assert point.loss == loss or (loss is not None and math.isnan(loss) and math.isnan(point.loss))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "  Num update steps per epoch = 46",
        "Writing model shards: 100%|####| 1/1 [00:00<00:00, 4.5it/s]",
        "Loading checkpoint shards:  50%|##   | 1/2 [00:03<00:03,  3.1s/it]",
        "11/16/2026 10:02:03 - INFO - start",
        "***** eval metrics ***** perplexity = 577.1",
        "num_epochs: 3, max_steps: 100, save every 50",
        "steps = 4000",
        "epochs=3",
        "Total optimization steps = 138",
    ],
)
def test_settings_dates_and_side_bars_are_no_progress(text: str) -> None:
    assert find_progress(lines(text)) == []


@pytest.mark.parametrize(
    ("text", "step", "epoch", "loss"),
    [
        ("Steps 12/100 loss: 0.5", 12, None, 0.5),
        ("{'loss': 2.31, 'grad_norm': 1.2, 'epoch': '0.4348'}", None, 0.4348, 2.31),
        ("Train:  42%|####  | 472/1122 [02:10<03:00,  3.61it/s]", 472, None, None),
        ("[11/16/2026 10:02:03] step 7 loss 1.5", 7, None, 1.5),
        ("Epochs 3/10 - loss 0.25", None, 3, 0.25),
    ],
)
def test_progress_is_read_in_the_shapes_that_it_takes(
    text: str, step: int | None, epoch: float | None, loss: float | None
) -> None:
    [point] = find_progress(lines(text))
    assert (point.step, point.epoch, point.loss) == (step, epoch, loss)


def test_code_that_a_traceback_quotes_is_no_progress() -> None:
    text = (
        'Traceback (most recent call last):\n  File "t.py", line 3, in <module>\n    fit(epoch=3)\n'
    )
    found = list(to_lines(enumerate((text + "ValueError: x").split("\n"), 1)))
    [traceback] = find_tracebacks(found)
    assert find_progress(found, {(0, line) for line in traceback.source_lines}) == []


def test_only_a_loss_that_stays_bad_counts() -> None:
    points = find_progress(lines("step 1 loss 1.0\nstep 2 loss nan\nstep 3 loss inf"))
    bad = first_nonfinite(points)
    assert bad is not None and bad.step == 2
    assert first_nonfinite(find_progress(lines("step 1 loss nan\nstep 2 loss 0.5"))) is None


def test_who_says_that_it_finished() -> None:
    said = (
        "Training finished\nall done\nTraining complete in 0m 1s\n"
        "`Trainer.fit` stopped: `max_epochs=2` reached."
    )
    assert len(find_finish(lines(said))) == 4
    assert find_finish(lines("training not finished\nrun finished with exit code 1")) == []


def test_a_message_that_progress_follows_was_survived() -> None:
    text = "step 1 loss 1\nboom\nstep 2 loss 0.9\nstep 3 loss 0.8"
    survived = Resumption(find_progress(lines(text)), [])
    assert survived.after(2, is_fatal=True)
    torn_down = "step 1 loss 1\nboom\nstep 1 loss 1"
    assert not Resumption(find_progress(lines(torn_down)), []).after(2, is_fatal=True)


def test_gpu_memory_is_added_up() -> None:
    text = (
        "CUDA out of memory. Tried to allocate 1.12 GiB (GPU 0; 15.90 GiB total capacity; 9.72 GiB "
        "already allocated; 501.50 MiB free; 14.41 GiB reserved in total by PyTorch)"
    )
    [one] = find_shortages(lines(text))
    assert one.looks_fragmented and one.idle_share is not None and one.idle_share > 0.25
    [full] = find_shortages(lines("CUDA out of memory. Tried to allocate 2.00 GiB"))
    assert not full.looks_fragmented


def test_growth_is_told_from_a_plateau() -> None:
    growing = "\n".join(f"epoch {n} rss {1000 + 40 * n} MB" for n in range(8))
    creeping = "\n".join(f"memory_usage: {801 + n / 10:.3f}" for n in range(20))
    available = "\n".join(f"RAM available: {190 - 0.2 * n:.2f}GB" for n in range(8))
    for text in (growing, creeping, available):
        assert len(find_printed_growth(lines(text))) == 1
    plateau = "\n".join(f"epoch {n} rss {1500 if n else 900} MB" for n in range(8))
    wobble = "\n".join(f"step {n} rss {1500 + (n % 2) * 30} MB" for n in range(12))
    device = "\n".join(f"GPU memory {1000 + 40 * n} MB" for n in range(8))
    for text in (plateau, wobble, device):
        assert find_printed_growth(lines(text)) == []


def test_native_stacks_name_their_library() -> None:
    gdb = (
        "#0  0x7f in ?? ()\n#1  0x7f in c10::Log(int) ()\n   from /x/torch/lib/libc10.so\n"
        "#2 0x1 in main () from /x/libpython3.so"
    )
    [stack] = find_native_stacks(lines(gdb))
    assert stack.library == "libc10.so" and not stack.is_recursion
    deep = "\n".join(f"#{n} 0x1 in visit () from libtree.so" for n in range(40))
    assert find_native_stacks(lines(deep))[0].is_recursion
    lldb = (
        "  #0  libsystem_pthread`___chkstk_darwin\n  #1  libBNNS.dylib`BNNSGraphContextExecute_v2"
    )
    assert find_native_stacks(lines(lldb))[0].library == "libBNNS.dylib"


def test_a_debugger_on_a_process_that_stands_still_shows_no_crash() -> None:
    waiting = "(gdb) bt\n#0  futex_wait (x=1) at nptl/futex.c:57\n#1  __new_sem_wait (s=2) at a.c:3"
    crashed = "#0  0x00007f12 in at::add () from /x/libtorch_cpu.so\n#1  0x00007f13 in main ()"
    [one], [other] = find_native_stacks(lines(waiting)), find_native_stacks(lines(crashed))
    assert one.is_waiting and not other.is_waiting


def test_memory_in_tables_that_are_printed_again_and_again() -> None:
    header = "              total        used        free"
    rows = [f"Mem:       32000000    {4000000 + at * 900000}    {28000000}" for at in range(6)]
    [growth] = find_printed_growth(lines("\n".join(f"{header}\n{row}" for row in rows)))
    assert (growth.first_value, growth.points) == (4000000, 6)
    same = "\n".join(f"{header}\n{rows[0]}" for _ in range(6))
    assert find_printed_growth(lines(same)) == []
    top = "  PID USER      RES  COMMAND\n"
    grown = find_printed_growth(
        lines("".join(f"{top} 77 me  {at}.5g python\n" for at in range(1, 7)))
    )
    assert [one.points for one in grown] == [6]


def test_what_only_warns_is_survived_by_the_first_step() -> None:
    text = "step 1 loss 0.5\nWarning: NaN or Inf found in input tensor.\nstep 2 loss 0.4"
    resumption = Resumption(find_progress(lines(text)), [])
    assert resumption.after(2, is_fatal=False, is_warning=True)
    assert not resumption.after(2, is_fatal=False)
    assert not resumption.after(3, is_fatal=False, is_warning=True)


def test_what_is_written_to_a_file_is_no_step() -> None:
    assert find_progress(lines("INFO: Exporting the model at step 500 to /out")) == []
    assert find_progress(lines("saved at step 500, loss: 0.31"))


def test_the_first_to_fail_is_found_by_time_else_by_structure() -> None:
    late = Trouble("rank 0", 1, 20.0, False, "late")
    early = Trouble("rank 1", 9, 10.0, False, "early")
    assert find_first([late, early]).who == "rank 1"  # type: ignore[union-attr]
    echo = Trouble("rank 0", 1, None, True, "Connection closed by peer")
    own = Trouble("rank 1", 9, None, False, "IndexError")
    first = find_first([echo, own])
    assert first is not None and (first.who, first.others, first.by) == (
        "rank 1",
        ("rank 0",),
        "structure",
    )
    assert find_first([own]) is None
