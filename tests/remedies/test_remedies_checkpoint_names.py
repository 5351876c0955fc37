"""What a checkpoint may import and call: what programs save is sound, what does harm is not."""

from __future__ import annotations

import argparse
import collections
import dataclasses
import datetime
import decimal
import enum
import functools
import io
import logging
import operator
import pathlib
import pickle
import random
import re
import signal
import struct
import types
import uuid
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest

from rerail.checkpoints.check import check_checkpoint

torch = pytest.importorskip("torch")


class Mode(enum.Enum):
    FAST = "fast"


class Flags(enum.IntFlag):
    A = 1
    B = 2


@dataclasses.dataclass
class Config:
    lr: float = 0.1
    mode: Mode = Mode.FAST
    flags: Flags = Flags.A | Flags.B

    class Inner:
        pass

    def method(self) -> None:
        pass


class Marked(torch.Tensor):  # type: ignore[misc]
    pass


def model() -> Any:
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 2, 3),
        torch.nn.BatchNorm2d(2),
        torch.nn.LSTM(3, 3),
        torch.nn.TransformerEncoderLayer(8, 2, 16),
    )


def optimizers() -> list[Any]:
    found: list[Any] = []
    for name in ("SGD", "Adam", "AdamW", "Adagrad", "RMSprop", "NAdam", "RAdam", "LBFGS"):
        weights = torch.nn.Parameter(torch.ones(3))
        optimizer = getattr(torch.optim, name)([weights], lr=0.1)

        def loss(optimizer: Any = optimizer, weights: Any = weights) -> Any:
            optimizer.zero_grad()
            value = (weights**2).sum()
            value.backward()
            return value

        optimizer.step(loss)
        schedules = torch.optim.lr_scheduler
        found += [
            optimizer,
            optimizer.state_dict(),
            schedules.CosineAnnealingLR(optimizer, 10).state_dict(),
            schedules.LambdaLR(optimizer, lambda step: 1.0).state_dict(),
            schedules.ReduceLROnPlateau(optimizer).state_dict(),
        ]
    scaler = torch.amp.GradScaler("cpu")
    return [*found, scaler, scaler.state_dict(), torch.optim.swa_utils.AveragedModel(model())]


def tensors() -> list[Any]:
    ones = torch.ones(2)
    return [
        *(torch.nn.Parameter(ones), ones.to_sparse(), torch.ones(2, 2).to_sparse_csr()),
        *(ones.to(torch.complex64), ones.to(torch.bfloat16), torch.zeros(0), torch.float16),
        *(torch.device("cpu"), torch.Size([1]), torch.strided, torch.Generator()),
        *(torch.ones(2, device="meta"), torch.quantize_per_tensor(ones, 1.0, 0, torch.qint8)),
        torch.get_rng_state(),
    ]


def arrays() -> list[Any]:
    return [
        *(numpy.float64(1), numpy.bool_(True), numpy.arange(3), numpy.float32, numpy.dtype("f4")),
        *(numpy.array(["a", None], object), numpy.datetime64("2020"), numpy.random.get_state()),
        *(numpy.random.default_rng(1), numpy.random.RandomState(1)),
        *(numpy.ma.array([1, 2], mask=[0, 1]), numpy.asfortranarray(numpy.ones((3, 4)))),
    ]


def plain() -> list[Any]:
    endless: list[Any] = []
    endless.append((endless, endless))
    return [
        *(argparse.Namespace(a=1), types.SimpleNamespace(a=1), Path("x"), endless, ..., None),
        *(datetime.datetime(2020, 1, 1), datetime.timedelta(1), datetime.timezone.utc),
        *(decimal.Decimal(1), uuid.UUID(int=1), random.Random(1), random.getstate(), 10**40, 1j),
        *(collections.OrderedDict(a=1), collections.defaultdict(list), collections.deque([1], 3)),
        *(collections.Counter("a"), {1, 2}, frozenset([1]), bytearray(b"x"), slice(1), range(3)),
        *(re.compile("a"), logging.getLogger("x"), io.BytesIO(b"x"), signal.SIGTERM, list, int),
        functools.partial(torch.nn.functional.relu, inplace=True),
        *(pathlib.PurePosixPath("x"), b"\xff" * 5, "x" * 1000),
    ]


WRITERS: dict[str, Callable[[Any, Path, int], None]] = {
    "zip": lambda value, path, protocol: torch.save(value, path, pickle_protocol=protocol),
    "before 1.6": lambda value, path, protocol: torch.save(
        value, path, pickle_protocol=protocol, _use_new_zipfile_serialization=False
    ),
    "pickle": lambda value, path, protocol: path.write_bytes(pickle.dumps(value, protocol)),
}


@pytest.mark.parametrize("protocol", [2, 4, 5])
@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("make", [optimizers, tensors, arrays, plain, lambda: [model()]])
def test_what_programs_save_is_sound(
    make: Callable[[], list[Any]], writer: str, protocol: int, tmp_path: Path
) -> None:
    path = tmp_path / "a.ckpt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for value in make():
            try:
                WRITERS[writer](value, path, protocol)
            except (RuntimeError, TypeError, AttributeError, NotImplementedError):
                continue  # of a kind that this version of torch cannot save in this format
            found = check_checkpoint(path)
            assert found.problem is None, (value, found.problem)
            assert not found.foreign, value


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize(
    ("value", "name"),
    [
        (Config(), "Config"),
        (Config.Inner(), "Config.Inner"),
        (Mode.FAST, "Mode"),
        (Config().method, "Config"),
        (torch.ones(2).as_subclass(Marked), "Marked"),
        (functools.partial(Config, lr=1.0), "Config"),
    ],
)
def test_the_program_s_own_classes_are_named_and_left_to_the_program(
    value: Any, name: str, writer: str, protocol: int, tmp_path: Path
) -> None:
    path = tmp_path / "a.ckpt"
    WRITERS[writer](value, path, protocol)
    found = check_checkpoint(path)
    assert found.is_sound
    assert any(each.endswith(f".{name}") for each in found.foreign)
    [remark] = found.remarks
    assert remark.startswith("holds objects of ") and remark.endswith("structure sound")


class Calls:
    """Pickles as a call of a function."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return self.call


def in_a_tensor(value: Any) -> Calls:
    """Loading a pickled tensor loads what is in its bytes."""
    buffer = io.BytesIO()
    torch.save([value, "x" * 100], buffer, _use_new_zipfile_serialization=False)
    return Calls(torch.storage._load_from_bytes, buffer.getvalue())


@pytest.mark.parametrize("protocol", [2, 4])
def test_flags_are_read_as_every_python_writes_them(protocol: int, tmp_path: Path) -> None:
    """Python 3.11.0 to 3.11.3 write a union of flags as calls of or_, the others as one number."""
    first, second = Calls(getattr, Flags, "A"), Calls(getattr, Flags, "B")
    for value in (
        Flags.A | Flags.B,
        Calls(operator.or_, first, second),
        Calls(operator.or_, Calls(operator.or_, first, second), second),
        Calls(operator.or_, first, 8),
    ):
        path = tmp_path / "a.pkl"
        path.write_bytes(pickle.dumps(value, protocol))
        found = check_checkpoint(path)
        assert found.problem is None
        assert any(".Flags" in each for each in found.foreign)


@pytest.mark.parametrize("digits", range(1, 21))
def test_a_small_tensor_is_read_wherever_it_lay_in_memory(digits: int, tmp_path: Path) -> None:
    """Its address is its key, and in protocol 2 decides how long the text is that it becomes."""
    storage = torch.zeros(0).untyped_storage()
    buffer = io.BytesIO()
    torch.save(storage, buffer, _use_new_zipfile_serialization=False)
    address = str(storage._cdata).encode()
    written = struct.pack("<I", len(address)) + address
    assert written in buffer.getvalue()
    inner = buffer.getvalue().replace(written, struct.pack("<I", digits) + b"1" * digits)
    path = tmp_path / "a.pkl"
    path.write_bytes(pickle.dumps(Calls(torch.storage._load_from_bytes, inner), 2))
    assert check_checkpoint(path).problem is None


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize(
    ("value", "words"),
    [
        (Calls(torch.load, "other.pt"), "torch.serialization.load"),
        (Calls(numpy.load, "other.npy"), "load"),
        (Calls(torch.hub.load, "repository", "model"), "torch.hub.load"),
        (Calls(eval, "1"), "eval"),
        (Calls(getattr, Config, "__init__"), "Config.__init__"),
        (Calls(getattr, Config(), "__class__"), "__class__"),
        (Calls(map, print, [1]), "map"),
        (Calls(numpy.memmap, "file", "u1", "w+"), "memmap"),
        (functools.partial(eval, "1"), "eval"),
        (in_a_tensor(Calls(eval, "1")), "eval"),
        (in_a_tensor(in_a_tensor(in_a_tensor(in_a_tensor(in_a_tensor(1))))), "deeper"),
        (Calls(logging.getLogger("x").info, "called"), "makes up"),
        (Calls(operator.or_, {1: 2}, {3: 4}), "or_ on what is no flag"),
        (Calls(operator.or_, Calls(getattr, Flags, "A"), torch.ones(2)), "or_ on what is no flag"),
    ],
)
def test_a_call_with_effects_is_refused(
    value: Any, words: str, writer: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.ckpt"
    WRITERS[writer](value, path, 4)
    found = check_checkpoint(path)
    assert found.problem is not None and words in found.problem


@pytest.mark.parametrize(
    ("pickled", "words"),
    [
        (b"\x80\x04\x8c\x05torch\x8c\x09os.system\x93\x8c\x04true\x85R.", "torch.os.system"),
        (b"\x80\x04(S'true'\nios\nsystem\n.", "no pickler writes"),
        (b"\x80\x04\x82\x01.", "no pickler writes"),
        (b"\x80\x04cmymodule\nConfig\n}b.", "would change mymodule.Config"),
        (b"\x80\x04NN\x93.", "makes up the names"),
        (b"\x80\x04N)R.", "makes up"),
        (b"\x80\x04cmymodule\nload_weights\n)R.", "mymodule.load_weights"),
        (b"\x80\x04ccopyreg\n_reconstructor\n(cmultiprocessing\nProcess\ncx\ny\nNtR.", "Process"),
    ],
)
def test_what_no_pickler_writes_is_refused(pickled: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "a.pkl"
    path.write_bytes(pickled)
    assert words in str(check_checkpoint(path).problem)


def test_a_distributed_checkpoint_of_torch_is_sound(tmp_path: Path) -> None:
    dcp = pytest.importorskip("torch.distributed.checkpoint")
    folder = tmp_path / "step-10"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.save(
            {"model": model().state_dict(), "step": 3}, checkpoint_id=str(folder), no_dist=True
        )
    found = check_checkpoint(folder)
    assert found.problem is None and not found.foreign
    [data] = folder.glob("*.distcp")
    whole = data.read_bytes()
    data.write_bytes(whole[: len(whole) // 2])
    assert not check_checkpoint(folder).is_sound
    data.write_bytes(whole)
    (folder / ".metadata").unlink()
    assert ".metadata is missing" in str(check_checkpoint(folder).problem)


def test_arrays_between_opcodes_are_not_called_damage(tmp_path: Path) -> None:
    joblib = pytest.importorskip("joblib")
    path = tmp_path / "a.pkl"
    joblib.dump({"a": numpy.arange(100.0)}, path)
    assert "not checked to the end: joblib" in str(check_checkpoint(path).problem)
