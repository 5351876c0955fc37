"""What a pickle may import and call when it is loaded.

In: the names in a pickle, and which of them it calls. Out: for each, one of three answers. Needed:
tensors, arrays, containers and dates are made of it. Foreign: the program's own classes, whose
loading is the program's business. Refused: it has effects, or it belongs to a library whose
functions no checkpoint has a reason to call. docs/design/which-checkpoint-really-loads.md says why.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from dataclasses import dataclass

from rerail.checkpoints.formats.outcome import Torn
from rerail.platform.patterns import linear


@dataclass(frozen=True, slots=True)
class Name:
    """A class or function that unpickling would import."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# To name one of these is enough: it can be handed to something that calls it.
_HOSTILE_ROOTS = _words("""
    os posix nt subprocess _posixsubprocess pty shutil socket _socket sys runpy importlib imp
    _frozen_importlib _frozen_importlib_external pkgutil zipimport ctypes _ctypes webbrowser
    commands asyncio multiprocessing concurrent pickle _pickle cPickle marshal shelve code codeop
    bdb pdb cProfile profile trace timeit doctest pydoc unittest idlelib lib2to3 venv ensurepip
    pip setuptools distutils http urllib ftplib smtplib telnetlib socketserver xmlrpc tempfile
    _thread atexit
""")
# As an attribute of another module (torch.os.system), where a plain word may be anybody's.
_HOSTILE_ATTRIBUTES = _words("""
    os posix nt sys subprocess importlib builtins shutil socket ctypes runpy pty pickle marshal
""")
_HOSTILE_NAMES = _words("""
    builtins.eval builtins.exec builtins.compile builtins.open builtins.input builtins.execfile
    builtins.breakpoint builtins.setattr builtins.delattr builtins.globals builtins.locals
    builtins.vars io.open _io.open io.open_code _io.open_code io.FileIO _io.FileIO
    operator.attrgetter operator.methodcaller _operator.attrgetter _operator.methodcaller
    types.CodeType types.FunctionType functools.reduce numpy.load numpy.fromfile
    torch.load torch.serialization.load torch.jit.load torch.package.PackageImporter
    joblib.load pandas.read_pickle cloudpickle.load cloudpickle.loads
""")
_HOSTILE_PREFIXES = (
    *("torch.hub.", "torch.utils.cpp_extension.", "torch.multiprocessing.", "torch._inductor."),
    *("torch._dynamo.", "torch.ops.", "torch.classes.", "torch.testing.", "torch.utils.bottleneck"),
    *("numpy.testing.", "numpy.f2py.", "numpy.distutils.", "numpy.ctypeslib."),
)
# A function of any other library that is called such a thing has effects by its own account.
_EFFECT = linear(
    r"_*(?:load|loads|open|exec|eval|system|popen|spawn|run|call|import|compile|download|urlopen|"
    r"read_pickle|unlink|remove|rmtree|getattr)(?:_.*)?"
)

_NEEDED_NAMES = frozenset(
    f"{module}.{name}"
    for module, names in {
        "builtins": "set frozenset complex bytearray bytes slice range object list dict tuple int "
        "float bool str type getattr xrange long unicode",
        "copyreg": "_reconstructor __newobj__ __newobj_ex__",
        "_codecs": "encode",
        "argparse": "Namespace",
        "types": "SimpleNamespace MappingProxyType",
        "functools": "partial",
        # or_: Python 3.11.0 to 3.11.3 write Flag.A | Flag.B as its call. pickle_stream.py takes it
        # for members of enumerations alone, where it makes another member and nothing else.
        "operator": "itemgetter or_",
        "_operator": "or_",
        "re": "_compile",
        "random": "Random",
        "array": "array _array_reconstructor",
        "itertools": "count cycle chain repeat",
        "time": "struct_time",
        "signal": "Signals",
        "logging": "getLogger",
        "io": "BytesIO StringIO",
        "_io": "BytesIO StringIO",
        "torch": "Size device Generator Tensor dtype",
        "torch._C": "Generator",
        "torch._tensor": "Tensor _rebuild_from_type _rebuild_from_type_v2",
        "torch.serialization": "_get_layout",
        "torch.storage": "TypedStorage UntypedStorage _load_from_bytes",
        "torch.amp.grad_scaler": "GradScaler _refresh_per_optimizer_state",
        "torch.cuda.amp.grad_scaler": "GradScaler _refresh_per_optimizer_state",
        "torch.jit._pickle": "build_intlist build_tensorlist build_doublelist build_boollist "
        "build_tensor_from_id restore_type_tag",
        "numpy": "ndarray dtype matrix recarray record datetime64 timedelta64 longdouble",
        "numpy.core.multiarray": "_reconstruct scalar",
        "numpy._core.multiarray": "_reconstruct scalar",
        "numpy.core.numeric": "_frombuffer",
        "numpy._core.numeric": "_frombuffer",
        "numpy.ma.core": "_mareconstruct MaskedArray",
    }.items()
    for name in names.split()
)
# Modules that hold nothing but data, and families of functions that build tensors.
_NEEDED = linear(
    r"(?:collections|_collections|datetime|_datetime|decimal|_decimal|fractions|uuid|zoneinfo)\..*"
    r"|pathlib\.(?:_local\.|_abc\.)?\w*Path"
    r"|torch\._utils\._rebuild_\w+"
    r"|torch\.\w+Storage|torch\.cuda\.\w+Storage"
    r"|torch\.(?:nn|optim|ao|quantization|utils\.data\.(?:dataset|sampler|dataloader|distributed)"
    r"|distributed\.(?:checkpoint|tensor|_tensor|_shard|fsdp|optim|device_mesh))\.(?:\w+\.)*_*[A-Z]\w*"
    r"|torch\.nn\.modules\.(?:\w+\.)*_*[A-Z]\w*"
    r"|numpy\.random\.(?:\w+\.)*(?:_*[A-Z]\w*|__\w+_ctor|__pyx_unpickle_\w+)"
    r"|numpy\.dtypes\.\w+"
    r"|__torch__\..*"  # TorchScript's types, which no interpreter imports
)
# As attributes these lead from a harmless object to the interpreter's insides.
_DUNDER = linear(r"__\w+__")
_STDLIB = frozenset(sys.stdlib_module_names) | {"cPickle", "commands", "imp", "distutils"}
_OLD_MODULES = {"__builtin__": "builtins", "copy_reg": "copyreg"}
_KNOWN_LIBRARIES = _STDLIB | {"torch", "numpy"}


def judge(names: Collection[Name], called: Collection[Name]) -> frozenset[str]:
    """The foreign names; raises `Torn` for the first that is refused."""
    foreign = set()
    for name in sorted(names, key=str):
        is_called = name in called
        if _is_hostile(name) or (is_called and _is_uncalled_for(name)):
            verb = "loading it would call" if is_called else "it names"
            raise Torn(f"{verb} {_printable(name)}, which no checkpoint needs")
        if _root(name) not in _KNOWN_LIBRARIES and not _is_needed(name):
            foreign.add(_printable(name))
    return frozenset(foreign)


def leads_inside(attribute: str) -> bool:
    """Whether an attribute of any object leads to the interpreter: __globals__, os."""
    parts = attribute.split(".")
    return any(each in _HOSTILE_ATTRIBUTES or _DUNDER.fullmatch(each) for each in parts)


def _dotted(name: Name) -> str:
    return f"{_OLD_MODULES.get(name.module, name.module)}.{name.name}"


def _root(name: Name) -> str:
    return _dotted(name).partition(".")[0]


def _is_needed(name: Name) -> bool:
    dotted = _dotted(name)
    return dotted in _NEEDED_NAMES or _NEEDED.fullmatch(dotted) is not None


def _is_hostile(name: Name) -> bool:
    dotted = _dotted(name)
    if dotted in _NEEDED_NAMES:
        return False
    return (
        _root(name) in _HOSTILE_ROOTS
        or dotted in _HOSTILE_NAMES
        or dotted.startswith(_HOSTILE_PREFIXES)
        or leads_inside(name.name)
    )


def _is_uncalled_for(name: Name) -> bool:
    if _is_needed(name):
        return False
    last = name.name.rpartition(".")[2]
    return _root(name) in _KNOWN_LIBRARIES or _EFFECT.fullmatch(last) is not None


def _printable(name: Name) -> str:
    return str(name)[:100]
