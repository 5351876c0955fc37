"""Tracebacks whole and cut, chained, folded, interleaved, and the forms of IPython and pytest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.evidence.text.lines import to_lines
from rerail.evidence.text.tracebacks import TracebackText, find_tracebacks

PLAIN = """\
epoch 1
Traceback (most recent call last):
  File "train.py", line 31, in <module>
    main()
  File "train.py", line 12, in main
    y = labels[name]
        ~~~~~~^^^^^^
KeyError: 'cat'
"""


def found(text: str) -> list[TracebackText]:
    return find_tracebacks(list(to_lines(enumerate(text.split("\n"), 1))))


def test_a_plain_traceback() -> None:
    [one] = found(PLAIN)
    assert (one.type, one.message, one.first_line, one.last_line) == ("KeyError", "'cat'", 2, 8)
    assert one.frames == [("train.py", 31, "<module>"), ("train.py", 12, "main")]


def test_without_its_header_or_its_end() -> None:
    body = PLAIN.split("\n")
    [headless] = found("\n".join(body[2:]))
    assert (headless.type, len(headless.frames), headless.has_header) == ("KeyError", 2, False)
    [cut] = found("\n".join(body[:6]))
    assert cut.is_cut and cut.frames[-1][2] == "main"


def test_a_chain_is_one_after_the_other() -> None:
    text = PLAIN + (
        "\nDuring handling of the above exception, another exception occurred:\n\n"
        'Traceback (most recent call last):\n  File "b.py", line 1, in g\n    h()\n'
        "torch.cuda.OutOfMemoryError: CUDA out of memory.\nTried to allocate 2 GiB\n"
    )
    first, second = found(text)
    assert first.is_chained and not second.is_chained
    assert (second.type, second.full_type) == ("OutOfMemoryError", "torch.cuda.OutOfMemoryError")
    assert second.message == "CUDA out of memory.\nTried to allocate 2 GiB"


def test_ranks_that_write_at_the_same_time_are_kept_apart() -> None:
    ranks = [
        "[rank0]: Traceback (most recent call last):",
        "[rank1]: Traceback (most recent call last):",
        '[rank1]:   File "t.py", line 2, in f', '[rank0]:   File "t.py", line 1, in g',
        "[rank0]:     g()", "[rank1]: ValueError: one", "[rank0]: KeyError: 'zero'",
    ]  # fmt: skip
    assert {(one.stream, one.type, one.frames[0][2]) for one in found("\n".join(ranks))} == {
        ("rank 0", "KeyError", "g"),
        ("rank 1", "ValueError", "f"),
    }


def test_a_worker_is_named() -> None:
    text = (
        'Traceback (most recent call last):\n  File "t.py", line 3, in <module>\n'
        "ValueError: Caught ValueError in DataLoader worker process 2.\n"
        "Original Traceback (most recent call last):\n"
        '  File "torch/utils/data/_utils/worker.py", line 302, in _worker_loop\n'
        "ValueError: bad sample\n"
    )
    outer, inner = found(text)
    assert outer.worker == inner.worker == "DataLoader worker 2"
    assert outer.is_chained and inner.message == "bad sample"


def test_ipython_windows_and_lone_lines() -> None:
    text = (
        "OSError                                   Traceback (most recent call last)\n"
        "----> 1 a=Image.open(img)\n\n"
        "/venv/lib/python3.6/site-packages/PIL/ImageFile.py in load(self)\n"
        "--> 226      raise IOError()\n\n"
        "OSError: image file is truncated (54 bytes not processed)\n"
    )
    [one] = found(text)
    assert (one.type, one.frames[-1][2]) == ("OSError", "load")
    [windows] = found('  File "C:\\a b\\t.py", line 3, in <module>\nValueError: x')
    assert windows.frames == [("C:\\a b\\t.py", 3, "<module>")]
    [lone] = found("2024 ERROR trainer - RuntimeError: CUDA error: out of memory")
    assert (lone.type, lone.message) == ("RuntimeError", "CUDA error: out of memory")


@pytest.mark.parametrize(
    "below",
    ["step 3 loss 1.8", "  3%|▎ | 3/100 [00:01<00:40]", "saved out/ckpt.pt", "Evaluating", ""],
)
def test_the_message_of_a_lone_exception_line_ends_with_it(below: str) -> None:
    """A program that prints an exception and goes on says other things in the lines below it."""
    [one] = found(f"step 2 loss 1.9\nValueError: bad\n{below}\nstep 4 loss 1.7")
    assert (one.message, one.message_lines) == ("bad", [2])


@pytest.mark.parametrize(
    "below",
    [
        "\tsize mismatch for head.weight: copying a param",
        "For debugging consider passing CUDA_LAUNCH_BLOCKING=1",
        "(0) Invalid argument: logits and labels must be broadcastable",
    ],
)
def test_known_words_below_a_lone_exception_line_belong_to_it(below: str) -> None:
    [one] = found(f"RuntimeError: CUDA error: no\n{below}\nstep 4 loss 1.7")
    assert one.message.endswith(below.strip()) and one.message_lines == [1, 2]


def test_a_broken_line_and_a_colon_go_on() -> None:
    long = "OutOfMemoryError: CUDA out of memory. Tried to allocate 1.55 GiB (20.44 GiB already"
    [wrapped] = found(f"{long}\nallocated; 0 bytes free)\nstep 4 loss 1.7")
    assert wrapped.message.endswith("already\nallocated; 0 bytes free)")
    [announced] = found("RuntimeError: ResourceExhaustedError:\n\nOut of memory\nstep 4 loss 1.7")
    assert announced.message.endswith("Out of memory")
    [progress] = found(f"{long}\nstep 4 loss 1.7")
    assert progress.message_lines == [1]


def test_an_exception_line_below_another_is_one_of_its_own() -> None:
    assert [one.message for one in found("ValueError: a\nKeyError: b\nstep 3")] == ["a", "b"]


def test_what_python_ignored_is_marked() -> None:
    [one] = found(
        "Exception ignored in: <function Pool.__del__>\nTraceback (most recent call last):\n"
        '  File "pool.py", line 2, in __del__\nTypeError: x'
    )
    assert one.is_ignored


def test_the_place_of_a_text_that_exec_ran_is_the_file_that_ran_it() -> None:
    [one] = found(
        'Traceback (most recent call last):\n  File "/home/me/train.py", line 39, in <module>\n'
        '    exec(open("configurator.py").read())\n  File "<string>", line 8, in <module>\n'
        "FileNotFoundError: [Errno 2] No such file or directory: 'config/tinny.py'"
    )
    assert one.where is not None
    assert (one.where["file"], one.where["line"]) == ("/home/me/train.py", 39)


def test_words_are_not_exceptions() -> None:
    assert found("No error: all fine\nthe error rate is 0.3\n# ValueError: in a comment") == []


@given(st.text(alphabet="TrackbFile \"'.py,line0123in\n:E(<>)~^[] rank", max_size=400))
def test_any_text_is_read(text: str) -> None:
    for one in found(text):
        assert 1 <= one.first_line <= one.last_line


def test_the_last_words_of_native_code_count_as_an_exception() -> None:
    for line, message in [
        ("F0526 09:56:35.899184 22934 Mem.cpp:49] Check failed: size != 0", "Check failed: size"),
        ("2024-01-01 10:00:00.1: F tensorflow/core/a.cc:12] Non-OK-status: x", "Non-OK-status"),
        ("[LightGBM] [Fatal] Cannot open file", "Cannot open file"),
        ("[07:25:16] /x/dmlc/logging.h:300: [07:25:16] b.cu:5: Check failed: y", "Check failed: y"),
        ("  what():  parallel_for failed", "parallel_for failed"),
        ("thread 'main' panicked at src/main.rs:4:5:", "src/main.rs"),
        ("/usr/bin/luajit: /x/File.lua:210: write error", "write error"),
        ("ERROR: LoadError: MethodError: no method", "no method"),
    ]:
        [one] = found(f"epoch 1 loss 0.3\n{line}\nAborted")
        assert message in one.message and not one.frames, line
    assert found("Fall 2024 results\nFinished 3 epochs\nF1 score: 0.7\ncheck failed?") == []


def test_a_notebook_that_is_cut_still_names_the_type() -> None:
    [one] = found(
        "ImportError                               Traceback (most recent call last)\n"
        "File /x/site-packages/transformers/utils.py:1603, in _Lazy._get_module(self, name)\n"
        "   1602 try:\n-> 1603     return importlib.import_module(name)\n"
    )
    assert (one.type, one.is_cut, one.frames[-1][2]) == ("ImportError", True, "_Lazy._get_module")


def test_an_assertion_without_words_says_its_code() -> None:
    head = 'Traceback (most recent call last):\n  File "prepare.py", line 3, in build\n'
    [one] = found(f"{head}    assert len(clips) > 1  # a batch\n           ^^^^^\nAssertionError\n")
    assert one.message == "assert len(clips) > 1"
    [flat] = found(f"{head}assert os.path.exists(self.index)\nAssertionError\n")
    assert flat.message == "assert os.path.exists(self.index)"
    [told] = found(f"{head}    assert clips, 'none'\nAssertionError: none\n")
    assert told.message == "none"


def test_what_rust_says_stands_below_its_place() -> None:
    [one] = found("thread 'main' panicked at src/handle.rs:9:3:\nno handle 4\n\nepoch 1\n")
    assert one.message.split("\n")[:2] == ["no handle 4", "src/handle.rs:9:3:"]


def test_the_arrow_of_a_notebook_marks_the_line() -> None:
    [one] = found(
        "KeyError                       Traceback (most recent call last)\n"
        "~/project/hooks.py in after_step(self)\n    348     due = step % 2 == 0\n"
        "--> 349     self.evaluate()\nKeyError: 'm'\n"
    )
    assert one.frames == [("~/project/hooks.py", 349, "after_step")]
    assert one.sources == ["self.evaluate()"]
