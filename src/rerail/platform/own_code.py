"""Which frames of a stack are the user's own code, and not a library's?

In: the file of a frame as an interpreter, a traceback or py-spy names it, and where known the
prefixes of the run's environment. Out: yes or no; the innermost frame that is the user's own.
Code of the standard library, of installed packages, of console scripts, of rerail's agent and
frozen or generated code is not. Promises: nothing is read from the disk, since logs and runs come
from other machines; an editable install counts as the user's own.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from rerail.platform.patterns import linear

_OF_A_LIBRARY = linear(
    r"(?:^|/)(?:site-packages|dist-packages)/"
    r"|(?:^|/)lib(?:64)?/(?:python|pypy)\d[0-9.]*t?/"
    r"|(?:^|/)python3\d+/lib/"  # Windows: C:\Python311\Lib\threading.py
    r"|(?:^|/)python\d+\.zip/"
    r"|^/(?:usr/)?(?:local/)?s?bin/"
    r"|/(?:[\w.-]*env[\w.-]*|envs/[^/]+|mini(?:conda|forge)\d?|anaconda\d?|conda)/(?:bin|scripts)/"
    r"|(?:^|/)(?:torchrun|accelerate|deepspeed|horovodrun|ipython3?|jupyter[\w-]*|streamlit|wandb)$"
    r"|(?:^|/)rerail/(?:agent|preflight/memory)/stub/"
    r"|/torchinductor_[^/]+/",
    re.I,
)
# An environment of Windows has no folder with Python's version: D:\envs\torch\lib\threading.py
_LIB_OF_WINDOWS = linear(r"^[a-z]:/(?:[^\n]*/)?lib/(?P<module>\w+)(?:/|\.py$)", re.I)
# What the user typed or pasted has no file, and is the user's own nevertheless.
_TYPED = linear(r"^<(?:string|stdin|console|input|ipython-input)[^>]*>$")
_NATIVE = linear(r"\.(?:so|dylib|dll|pyd)(?:\.[0-9.]+)?$|\.(?:c|cc|cpp|cu|h|hpp)$", re.I)
_WELL_KNOWN = linear(
    r"^(?:accelerate|bitsandbytes|cv2|dask|datasets|deepspeed|faiss|fairscale|flax|fsspec|h5py"
    r"|horovod|huggingface_hub|jax|jaxlib|keras|lightning|lightning_fabric|megatron|numba|numpy"
    r"|pandas|peft|PIL|pyarrow|pytorch_lightning|pytorch_metric_learning|ray|safetensors|scipy"
    r"|sentence_transformers|sklearn|tensorflow|tokenizers|torch|torch_geometric|torchaudio"
    r"|torchdata|torchmetrics|torchvision|tqdm|transformers|trl|triton|vllm|wandb|webdataset"
    r"|xformers|xgboost)$"
)


class Frame(Protocol):
    @property
    def file(self) -> str: ...


AnyFrame = TypeVar("AnyFrame", bound=Frame)


_OF_A_COMPREHENSION = ("<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>")


def named_function(function: str, callers: Iterable[tuple[str, str]], file: str) -> str:
    """Of a comprehension, which has no name, the function that it stands in.

    `callers`: file and function of the frames around it, the nearest first.
    """
    if function not in _OF_A_COMPREHENSION:
        return function
    near = next((name for where, name in callers if name not in _OF_A_COMPREHENSION), function)
    of_file = next((where for where, name in callers if name == near), None)
    return near if of_file == file else function


def is_own(path: str, prefixes: Sequence[str] = (), *, is_short: bool = False) -> bool:
    """Is this file the user's own code?

    `prefixes` are `sys.prefix` and `sys.base_prefix` of the run's interpreter. `is_short`: the name
    comes from a tool that cuts the folder of the library off, as py-spy prints `threading.py`.
    """
    if not path:
        return False
    if path.startswith("<"):
        return _TYPED.search(path) is not None
    path = path.replace("\\", "/")
    if _OF_A_LIBRARY.search(path) or _NATIVE.search(path):
        return False
    of_windows = _LIB_OF_WINDOWS.match(path) if path[1:2] == ":" else None
    if of_windows and of_windows["module"] in sys.stdlib_module_names:
        return False
    if any(_is_below_bin(path, prefix) for prefix in prefixes if len(prefix) > 1):
        return False
    is_relative = not path.startswith(("/", "~")) and path[1:2] != ":"
    if is_relative and path.endswith((".pyx", ".pxi", ".pxd")):
        return False  # compiled packages keep the relative name of their source
    if is_short and is_relative:
        first = path.partition("/")[0].removesuffix(".py")
        return not _WELL_KNOWN.match(first) and first not in sys.stdlib_module_names
    return True


def innermost_own(
    frames: Iterable[AnyFrame], prefixes: Sequence[str] = (), *, is_short: bool = False
) -> AnyFrame | None:
    """The first frame that is the user's own; `frames` are innermost first.

    What `exec` ran as a text has lines that nobody can open: the file that called it goes before.
    """
    own = [f for f in frames if is_own(f.file, prefixes, is_short=is_short)]
    return next((f for f in own if not is_text_without_a_file(f.file)), own[0] if own else None)


def is_text_without_a_file(path: str) -> bool:
    """Whether the code of a frame was a text in memory: of exec, python -c or standard input."""
    return path.startswith("<") and not path.startswith("<ipython-input")


def _is_below_bin(path: str, prefix: str) -> bool:
    """A program of the environment: torchrun, accelerate, pytest."""
    root = prefix.replace("\\", "/").rstrip("/")
    return path.startswith((f"{root}/bin/", f"{root}/Scripts/"))
