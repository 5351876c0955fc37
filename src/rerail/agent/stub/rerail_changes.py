"""Changes of a trial that have to be made inside the process: RERAIL_CHANGES, a JSON object.

Comes in: names and values as `rerail isolate` knows them. Goes out: the program runs with them, and
the black box notes `change applied: NAME=VALUE` when one has really made a difference. Without the
variable this file is never loaded. Each function that makes a change says above itself which one,
and the import of which module it waits for; rerail's changes/known.py names the same function, and
a test compares.
"""

import json
import os
import sys

import rerail_box as box

_noted = set()
_pid = [0]
_AT_START = ""
_DATALOADER = "torch.utils.data.dataloader"
HANDLERS = {}  # change -> {module: function}, with _AT_START where no module is waited for


def _makes(change, module):
    """The function below makes the change, with the module once it is imported and the value."""

    def register(function):
        HANDLERS.setdefault(change, {})[module] = function
        return function

    return register


def start(hooks):
    """Put our hooks beside those of the agent in its table of modules."""
    wanted = json.loads(os.environ["RERAIL_CHANGES"])
    for change, functions in HANDLERS.items():
        if change not in wanted:
            continue
        for module, function in functions.items():
            if module == _AT_START:
                function(None, wanted[change])
            else:
                _chain(hooks, module, function, wanted[change])


def _chain(hooks, module, function, value):
    """The agent's own hook on the module first, then ours."""
    before = hooks.get(module)
    name = "_on_%s_%d" % (module.replace(".", "_"), len(_noted) + len(globals()))

    def both(loaded):
        if before is not None:
            import rerail_imports

            getattr(rerail_imports.hook_module(before[0]), before[1])(loaded)
        function(loaded, value)

    globals()[name] = both
    hooks[module] = ("rerail_changes", name)


def note(change, value=""):
    """Once per process; a forked child has a box of its own."""
    if _pid[0] != os.getpid():
        _pid[0] = os.getpid()
        _noted.clear()
    text = change + "=" + value if value else change
    if text not in _noted:
        _noted.add(text)
        box.note("change applied: " + text)


class _Without:
    """A module that is not there, as an ImportError says it."""

    def __init__(self, name):
        self.name = name

    def find_spec(self, name, path=None, target=None):
        if name == self.name or name.startswith(self.name + "."):
            note("without-module", self.name)
            raise ModuleNotFoundError("No module named %r" % name, name=name)


@_makes("without-module", _AT_START)
def without_module(_, value):
    sys.meta_path.insert(0, _Without(value))


def _on_loader_class(dataloader, change):
    """Let `change` edit the arguments by name of every DataLoader that is made."""
    import functools
    import inspect

    kind = dataloader.DataLoader
    made = kind.__init__
    signature = inspect.signature(made)

    @functools.wraps(made)
    def made_with_change(self, *args, **kwargs):
        bound = signature.bind(self, *args, **kwargs)
        change(bound.arguments)
        return made(*bound.args, **bound.kwargs)

    kind.__init__ = made_with_change


@_makes("dataloader-workers", _DATALOADER)
def loader_workers(dataloader, value):
    def change(arguments):
        if int(arguments.get("num_workers") or 0) == int(value):
            return
        arguments["num_workers"] = int(value)
        if value == "0":
            for name in ("prefetch_factor", "persistent_workers", "multiprocessing_context"):
                arguments.pop(name, None)
            arguments.pop("timeout", None)
        note("dataloader-workers", value)

    _on_loader_class(dataloader, change)


@_makes("start-method", _DATALOADER)
def loader_start_method(dataloader, value):
    def change(arguments):
        if arguments.get("num_workers"):
            arguments["multiprocessing_context"] = value
            note("start-method", value)

    _on_loader_class(dataloader, change)


@_makes("start-method", "multiprocessing")
def default_start_method(multiprocessing, value):
    """Also for processes that the program starts itself, whatever it asks for."""
    multiprocessing.set_start_method(value, force=True)

    def set_start_method(method, force=False):
        return None

    multiprocessing.set_start_method = set_start_method
    process = sys.modules.get("multiprocessing.process")
    if process is not None:
        started = process.BaseProcess.start

        def start(self):
            note("start-method", value)
            return started(self)

        process.BaseProcess.start = start


@_makes("sharing-strategy", "torch.multiprocessing")
def sharing_strategy(multiprocessing, value):
    multiprocessing.set_sharing_strategy(value)
    note("sharing-strategy", value)

    def set_sharing_strategy(strategy):
        return None

    multiprocessing.set_sharing_strategy = set_sharing_strategy


@_makes("pin-memory", _DATALOADER)
def loader_pin_memory(dataloader, value):
    def change(arguments):
        if arguments.get("pin_memory"):
            arguments["pin_memory"] = False
            note("pin-memory", value)

    _on_loader_class(dataloader, change)


@_makes("torch-threads", "torch")
def torch_threads(torch, value):
    set_num_threads = torch.set_num_threads
    set_num_threads(int(value))
    note("torch-threads", value)

    def ignore_the_program(count):
        set_num_threads(int(value))

    torch.set_num_threads = ignore_the_program


@_makes("deterministic", "torch")
def deterministic(torch, value):
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = False
    note("deterministic")


@_makes("npz-rows", "numpy")
def npz_rows(numpy, value):
    """The first rows of every array of an .npz that has more."""
    kind = numpy.lib.npyio.NpzFile
    got = kind.__getitem__
    count = int(value)

    def first_rows(self, key):
        array = got(self, key)
        if getattr(array, "ndim", 0) >= 1 and len(array) > count:
            note("npz-rows", value)
            return array[:count].copy()
        return array

    kind.__getitem__ = first_rows
