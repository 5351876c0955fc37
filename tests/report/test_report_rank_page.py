"""What one rank printed, picked from the merged output by the marks of launchers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rerail.report.rank_page import MOST_LINES, has_marks, own_output
from rerail.store import OutputLine


def lines(*texts: bytes) -> list[OutputLine]:
    return [OutputLine(number, text, 0) for number, text in enumerate(texts, 1)]


def test_marks_of_torch_torchrun_and_srun() -> None:
    merged = lines(b"[rank1]: a", b"[default1]:b", b"1: c", b"[rank11]: d", b"epoch 1: e", b"[1]:")
    assert own_output(merged, 1) == [(1, "a"), (2, "b"), (3, "c")]


def test_marks_of_mpirun() -> None:
    merged = lines(b"[1,1]<stdout>:a", b"[1,0]<stderr>:b", b"[prterun-n1-77@1,1]<stderr>: c")
    assert own_output(merged, 1) == [(1, "a"), (3, "c")]
    assert has_marks(merged) and not has_marks(lines(b"step 1 loss 2", b"[2026] x"))


def test_the_last_lines_are_kept() -> None:
    merged = lines(*(b"[rank0]: %d" % n for n in range(100)))
    assert [text for _, text in own_output(merged, 0)] == [
        str(n) for n in range(100 - MOST_LINES, 100)
    ]


@given(st.lists(st.binary(max_size=40)), st.integers(0, 12))
def test_any_bytes(texts: list[bytes], rank: int) -> None:
    assert len(own_output(lines(*texts), rank)) <= MOST_LINES
