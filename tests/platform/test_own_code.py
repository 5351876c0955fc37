"""The user's own frames are told from those of libraries by their file alone."""

import sys
import threading
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rerail.platform.own_code import innermost_own, is_own
from rerail.records import PythonFrame


@pytest.mark.parametrize(
    "path",
    [
        "train.py",
        "/home/me/project/train.py",
        "/home/me/project/lib/data.py",
        "src/model/layers.py",
        "profile.py",  # the name of a standard module, but a path as a traceback gives it
        "<string>",
        "<stdin>",
        "<ipython-input-3-abc>",
        "/tmp/ipykernel_12/345.py",
        "C:\\Users\\me\\train.py",
        "D:\\work\\lib\\datasets.py",
        "/workspace/python/lib/train.py",
        "/home/me/bin/train",
        "/usr/src/app/main.py",
        "/opt/conda-project/run.py",
    ],
)
def test_the_users_own_files(path: str) -> None:
    assert is_own(path)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/usr/lib/python3.11/threading.py",
        "/usr/lib/python3/dist-packages/numpy/core.py",
        "/opt/conda/lib/python3.10/multiprocessing/queues.py",
        "/home/me/.venv/lib/python3.12/site-packages/torch/utils/data/dataloader.py",
        "/home/me/.venv/lib/python3.13t/asyncio/base_events.py",
        "/home/me/.venv/bin/torchrun",
        "/home/me/.venv-torch2/bin/papermill",
        "/srv/my_env/bin/papermill",
        "/usr/local/bin/accelerate",
        "C:\\Python311\\Lib\\threading.py",
        "D:\\envs\\torch\\lib\\multiprocessing\\context.py",
        "/shared/tools/torchrun",
        "C:\\env\\Lib\\site-packages\\torch\\nn\\module.py",
        "<frozen importlib._bootstrap>",
        "<__array_function__ internals>",
        "<eval_with_key>.3",
        "numpy/random/mtrand.pyx",
        "/x/src/rerail/agent/stub/rerail_hooks_torch.py",
        "/tmp/torchinductor_me/ab/cabc.py",
        "/opt/thing/_ext.cpython-311-x86_64-linux-gnu.so",
    ],
)
def test_files_of_libraries(path: str) -> None:
    assert not is_own(path)


def test_programs_of_the_environment_are_not_the_users() -> None:
    assert is_own("/data/setup/bin/papermill")
    assert not is_own("/data/setup/bin/papermill", ["/data/setup"])
    assert is_own("/data/setup/train.py", ["/data/setup", "/usr"])


def test_names_that_py_spy_has_cut() -> None:
    assert not is_own("threading.py", is_short=True)
    assert not is_own("multiprocessing/connection.py", is_short=True)
    assert not is_own("torch/utils/data/dataloader.py", is_short=True)
    assert is_own("train.py", is_short=True)
    assert is_own("project/data.py", is_short=True)


def test_the_running_interpreter_itself() -> None:
    assert not is_own(threading.__file__, [sys.prefix, sys.base_prefix])
    assert not is_own(pytest.__file__, [sys.prefix, sys.base_prefix])


def test_the_innermost_own_frame_comes_first() -> None:
    frames = [
        PythonFrame("/usr/lib/python3.11/threading.py", 300, "wait"),
        PythonFrame("/home/me/data.py", 7, "load"),
        PythonFrame("/home/me/train.py", 20, "main"),
    ]
    assert innermost_own(frames) == frames[1]
    assert innermost_own(frames[:1]) is None


@given(st.text(max_size=200), st.booleans())
def test_any_text_is_answered(path: str, is_short: bool) -> None:
    assert is_own(path, ["/usr"], is_short=is_short) in (True, False)


@dataclass(frozen=True)
class _Frame:
    file: str


def test_the_file_that_ran_a_text_goes_before_the_text() -> None:
    """exec(open("configurator.py").read()) raises in line 8 of `<string>`: no file has it."""
    inner_first = [_Frame("<string>"), _Frame("/home/me/train.py"), _Frame("/home/me/main.py")]
    assert innermost_own(inner_first) == _Frame("/home/me/train.py")
    assert innermost_own([_Frame("<string>")]) == _Frame("<string>")
    cell = _Frame("<ipython-input-3-abc>")
    assert innermost_own([cell, _Frame("/home/me/main.py")]) == cell
