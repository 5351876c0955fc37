"""Which of the lines that sound like a failure are one: warnings, quoted code, broken lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.evidence import observe_text
from rerail.evidence.text.lines import Line, to_lines
from rerail.evidence.text.wrapped import unwrapped, without_columns
from rerail.records import Observation


def observed(text: str, kind: str) -> list[Observation]:
    found = observe_text(enumerate(text.split("\n"), 1))
    return [one for one in found.observations if one.kind == kind]


def lasting(text: str) -> set[str]:
    """Causes whose words stand there and were not survived."""
    return {one.data["cause"] for one in observed(text, "line") if not one.data.get("resumed")}


def test_a_line_that_is_excused_does_not_hide_the_next() -> None:
    excused = (
        "W bfc_allocator.cc:219] Allocator (GPU_0_bfc) ran out of memory trying to allocate 2GiB."
        " The caller indicates that this is not a failure but may mean that gains are possible."
    )
    failed = "OOM when allocating tensor with shape[4,96,288,512] and type float on GPU:0"
    assert "gpu-oom" not in lasting(excused)
    assert "gpu-oom" in lasting(f"{excused}\n{failed}")


@pytest.mark.parametrize(
    "text",
    [
        "train: WARNING: Ignoring corrupted image and/or label a.jpg: corrupted JPEG",
        "wandb: Network error (ConnectionError), entering retry loop.",
        "n1:1:1 [0] misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]",
        "n1:1:1 [0] NCCL INFO NET/Plugin : Plugin load (libnccl-net.so) returned 2 : "
        "libnccl-net.so: cannot open shared object file: No such file or directory",
    ],
)
def test_a_line_that_says_what_was_done_instead_is_no_failure(text: str) -> None:
    assert not lasting(text) & {
        *("data-corrupt", "network-unavailable", "file-missing", "missing-shared-library"),
    }


def test_a_word_in_quoted_code_is_no_message_but_in_a_raise_it_is() -> None:
    frame = 'Traceback (most recent call last):\n  File "/x/hub.py", line 3, in load\n    {}\n'
    call = frame.format("state = torch.load(path, weights_only=True)")
    raised = frame.format('raise RuntimeError("Weights only load failed")')
    assert "checkpoint-incompatible" not in lasting(call)
    assert "checkpoint-incompatible" in lasting(raised)


@pytest.mark.parametrize(
    ("frame", "phase"),
    [
        ('"/x/torch/utils/data/dataloader.py", line 978, in _shutdown_workers', "sample-loading"),
        ('"/x/torch/distributed/rendezvous.py", line 90, in _env_handler', "rendezvous"),
        ('"/x/torch/distributed/distributed_c10d.py", line 9, in barrier', "collective"),
    ],
)
def test_where_ctrl_c_met_it_is_told_with_or_without_the_last_line(frame: str, phase: str) -> None:
    cut = f"^CTraceback (most recent call last):\n  File {frame}\n    wait()"
    for text in (cut, f"{cut}\nKeyboardInterrupt"):
        told = {(o.data["symptom"], o.data["phase"]) for o in observed(text, "symptom")}
        assert ("interrupted", phase) in told


def test_a_traceback_that_is_broken_off_says_where() -> None:
    text = (
        'Traceback (most recent call last):\n  File "/x/urllib3/connection.py", line 9, in request'
    )
    [one] = observed(text, "symptom")
    assert (one.data["symptom"], one.data["phase"]) == ("broken-off", "download")


def test_a_frame_behind_a_piece_of_another_process_line_is_a_frame() -> None:
    text = (
        'Traceback (most recent call last):\n  File "/x/a.py", line 1, in f\n'
        '    retry = retry.next(  File "/x/urllib3/pool.py", line 9, in urlopen\n'
    )
    [one] = observed(text, "traceback")
    assert [frame.rpartition(" ")[2] for frame in one.data["frames"]] == ["f", "urlopen"]


def broken(text: str, width: int) -> list[str]:
    return [text[at : at + width] for at in range(0, len(text), width)]


def test_a_console_that_breaks_words_is_read_as_if_it_did_not() -> None:
    message = (
        "tensorflow.errors_impl.InvalidArgumentError: Incompatible shapes: [1,63,4] vs. [1,64,4]"
    )
    rest = "node_gradients_loss_boxes_classifier_sub_grad_broadcast_gradient_arguments" * 4
    text = "\n".join([*broken(message, 61), *broken(rest, 61)])
    assert "shape-mismatch" in lasting(text)
    [joined, *_] = unwrapped(list(to_lines(enumerate(broken(rest, 61), 1))))
    assert (joined.number, joined.text) == (1, rest)


def test_rows_of_a_table_stay_rows() -> None:
    rows = [f"{'Mem:':<30}{at:>50}" for at in range(8)]
    found = list(to_lines(enumerate(rows, 1)))
    assert unwrapped(found) == found


@given(st.lists(st.text(max_size=90), max_size=30))
def test_joining_loses_nothing(raw: list[str]) -> None:
    found = [Line(number, text.replace("\n", " ")) for number, text in enumerate(raw, 1)]
    joined = unwrapped(found)
    assert "".join(line.text for line in joined) == "".join(line.text for line in found)


def test_a_record_of_rich_is_one_line() -> None:
    text = (
        "[07:37:50] INFO     the model has 3 layers                train.py:98\n"
        "           ERROR    no pictures were found: give the      train.py:112\n"
        "                    folder above them                                 \n"
        "epoch 1"
    )
    lines = without_columns(list(to_lines(enumerate(text.split("\n"), 1))))
    assert [line.text for line in lines] == [
        "INFO: the model has 3 layers",
        "ERROR: no pictures were found: give the folder above them",
        "epoch 1",
    ]
    assert [line.number for line in lines] == [1, 2, 4]


def test_a_warning_before_training_begins_accuses_nobody() -> None:
    warns = "W tensorflow/x/dso_loader.cc:64] Could not load dynamic library 'libcudart.so.11.0'"
    text = f"{warns}; dlerror: libcudart.so.11.0: cannot open shared object file\n"
    began = observe_text(enumerate(f"{text}Starting training from scratch".split("\n"), 1))
    stays = observe_text(enumerate(text.split("\n"), 1))
    assert all(o.data["resumed"] for o in began.observations if o.kind == "line")
    assert not all(o.data["resumed"] for o in stays.observations if o.kind == "line")
