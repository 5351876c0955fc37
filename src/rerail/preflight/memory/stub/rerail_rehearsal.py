"""A dry run inside the user's process: count steps, note memory at each, then wait to be ended.

Comes in: RERAIL_REHEARSAL, a JSON object (`_task` in rehearsal.py). Goes out: one JSON file per
process that trained, in `folder`. Promises: standard library only, under any CPython from 3.8
on; files of the user's that were there before are neither written over nor removed as far as Python
is the one who does it: such an opening leads into `scratch`, such a removal ends the dry run before
it happens. New files and folders are listed, for whoever started the dry run to remove. After the
last step the process waits until it is told to end, and ends at once.
"""

import builtins
import io
import json
import os
import sys
import time

import rerail_next_epoch as next_epoch

_settings = {}
_marks = []
_optimizers = []
_moved = {}  # the user's file: the one in scratch that stands for it
_started = 0.0
_steps = 0
_log = -1
_open = io.open
_GIVE_UP_SECONDS = 60.0


def start():
    global _started, _log
    text = os.environ.get("RERAIL_REHEARSAL")
    if not text:
        return
    _settings.update(json.loads(text))
    _started = float(_settings["started_unix"])
    builtins.open = io.open = _guarded_open
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    _log = os.open(_settings["folder"] + "/created.log", flags, 0o600)
    sys.addaudithook(_on_audit)
    sys.meta_path.insert(0, _Finder())
    os.register_at_fork(after_in_child=_forget)
    import atexit

    atexit.register(_report_end)


def _forget():
    """A forked child has its own memory, and no steps of its own yet."""
    global _steps
    _steps = 0
    del _marks[:], _optimizers[:]


# -- memory ----------------------------------------------------------------------------------------


def _status():
    """Bytes by name from /proc/self/status; empty where there is none."""
    found = {}
    try:
        with _open("/proc/self/status", "rb") as file:
            for line in file.read().split(b"\n"):
                if line[:5] in (b"VmHWM", b"VmRSS", b"RssAn", b"RssFi", b"RssSh"):
                    name, _, value = line.partition(b":")
                    found[name.decode()] = int(value.split()[0]) * 1024
    except OSError:
        pass
    return found


def _mark(name):
    """Memory now, and the highest since the last mark."""
    note = {"mark": name, "step": _steps, "t": time.monotonic()}
    note.update(_status())
    if len(_marks) < 4000:
        _marks.append(note)
    try:
        with _open("/proc/self/clear_refs", "w") as file:
            file.write("5")  # VmHWM begins anew
    except OSError:
        pass


# -- steps -----------------------------------------------------------------------------------------


def _on_torch(torch):
    _mark("torch imported")
    module = sys.modules["torch.optim.optimizer"]
    made = module.Optimizer.__init__

    def made_and_noted(self, *args, **kwargs):
        made(self, *args, **kwargs)
        _optimizers.append(self)
        _mark("optimizer made")

    module.Optimizer.__init__ = made_and_noted
    module.register_optimizer_step_pre_hook(_before_step)
    module.register_optimizer_step_post_hook(_after_step)
    loaders = sys.modules.get("torch.utils.data.dataloader")
    if loaders is not None:
        next_epoch.watch(loaders, lambda: _steps, _mark)
    save = torch.save

    def save_aside(obj, f, *args, **kwargs):
        _mark("before save")
        if isinstance(f, (str, os.PathLike)):
            _note_new(f)  # torch's own writer opens the file: Python sees nothing of it
        done = save(obj, _aside(f, "wb"), *args, **kwargs)
        _mark("save")
        return done

    torch.save = torch.serialization.save = save_aside


def _is_traced():
    """torch.compile looks at the hooks to compile them: then they are to do nothing."""
    compiler = getattr(sys.modules["torch"], "compiler", None)
    return compiler is not None and compiler.is_dynamo_compiling()


def _before_step(optimizer, args, kwargs):
    if not _is_traced():
        _mark("backward done")


def _after_step(optimizer, args, kwargs):
    global _steps
    if _is_traced():
        return
    _steps += 1
    _mark("step done")
    left = _steps_left()
    may_go_on = left > 0 or int(_settings["more_steps"]) > 0
    if left <= next_epoch.ENOUGH_STEPS and may_go_on and _begin_next_epoch():
        return
    if left <= 0:
        _wait_for_the_end("steps")


def _steps_left():
    """Steps that are quick cost nothing more, and show how the allocator settles."""
    least, most = int(_settings["steps"]), int(_settings["steps"]) + int(_settings["more_steps"])
    times = [mark["t"] for mark in _marks if mark["mark"] in ("optimizer made", "step done")]
    done = [mark["t"] for mark in _marks if mark["mark"] == "step done"]
    soon = next_epoch.ENOUGH_STEPS * (times[-1] - times[-2]) if len(times) > 1 else 0.0
    is_quick = done[-1] - done[0] + soon < float(_settings["more_seconds"])
    return (most if is_quick else least) - _steps


def _begin_next_epoch():
    """Whether a step or two are to be taken beside workers of the second epoch."""
    try:
        own = _status().get("RssAnon", 0)
        return next_epoch.begin(_steps, own, int(_settings["room"]))
    except Exception:
        return False  # such workers cannot be begun: the plan reckons with them all the same


def _sizes():
    """Bytes of parameters, gradients and optimizer state, each tensor once."""
    counted = {"parameters": {}, "gradients": {}, "optimizer_state": {}}
    for optimizer in _optimizers:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                _add(counted["parameters"], parameter)
                if parameter.grad is not None:
                    _add(counted["gradients"], parameter.grad)
        for state in optimizer.state.values():
            for value in state.values() if isinstance(state, dict) else ():
                if hasattr(value, "element_size"):
                    _add(counted["optimizer_state"], value)
    return {name: sum(sizes.values()) for name, sizes in counted.items()}


def _add(sizes, tensor):
    if getattr(tensor, "is_cpu", False):
        try:
            sizes[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
        except (RuntimeError, AttributeError):
            pass  # sparse, or without storage


def _report(reason, detail="", first_workers=None):
    path = "%s/%d.json" % (_settings["folder"], os.getpid())
    report = {
        "pid": os.getpid(),
        "reason": reason,
        "detail": detail,
        "steps": _steps,
        "marks": _marks,
        "sizes": _sizes(),
        "moved": sorted(_moved),
        "first_workers_bytes": first_workers,
        "workers_begun_step": next_epoch.begun(),
        "loop_comes_again": next_epoch.comes_again(),
    }
    with _open(path + ".part", "w") as file:
        json.dump(report, file)
    os.rename(path + ".part", path)


def _report_end():
    """A program that is over before its last step of the dry run."""
    try:
        if _steps:
            _mark("end")
            _report("finished")
    except Exception:
        pass


def _wait_for_the_end(reason, detail=""):
    """Say what was seen, then stand still: the one who watches measures, and gives the word."""
    try:
        first_workers = next_epoch.end_first()
    except Exception:
        first_workers = None  # then they count as well
    _report(reason, detail, first_workers)
    end = _settings["folder"] + "/end"
    deadline = time.monotonic() + _GIVE_UP_SECONDS
    while not os.path.exists(end) and time.monotonic() < deadline:
        time.sleep(0.02)
    os._exit(0)  # at once: no atexit, no signal handler of the program's that would save


# -- the user's files ------------------------------------------------------------------------------


def _is_cache(text):
    """What another run would only have to make again, or download."""
    return any(part in text for part in ("/__pycache__", "/.cache/", "/.triton/"))


def _is_old_file(path):
    """A regular file that was there before the dry run and is not a cache or a scratch file."""
    try:
        text = os.path.abspath(os.fsdecode(path))
        if text.startswith(tuple(_settings["free"])) or _is_cache(text):
            return False
        status = os.stat(text)
        return (status.st_mode & 0o170000) == 0o100000 and status.st_mtime < _started
    except (OSError, TypeError, ValueError):
        return False


def _aside(path, mode):
    """The file in scratch that stands for one of the user's."""
    if not isinstance(path, (str, bytes, os.PathLike)):
        return path
    try:
        text = os.path.abspath(os.fsdecode(path))
    except (TypeError, ValueError):
        return path
    if text in _moved:
        return _moved[text]
    if not any(letter in mode for letter in "wa+") or not _is_old_file(text):
        return path
    name = "%s/%d-%d-%s" % (
        _settings["scratch"],
        os.getpid(),
        len(_moved),
        os.path.basename(text),
    )
    if "w" not in mode:
        import shutil

        shutil.copyfile(text, name)
    _moved[text] = name
    return name


def _guarded_open(file, mode="r", *args, **kwargs):
    if isinstance(mode, str) and not isinstance(file, int) and _settings:
        file = _aside(file, mode)
    return _open(file, mode, *args, **kwargs)


def _on_audit(event, args):
    if event == "open":
        flags = args[2] or 0
        if flags & os.O_CREAT:
            _note_new(args[0])
        if args[1] is None and flags & os.O_TRUNC:
            _refuse(args[0], "write over")
    elif event == "os.mkdir":
        _note_new(args[0])
    elif event == "os.remove":
        _refuse(args[0], "remove")
    elif event == "os.rename":
        _refuse(args[0], "move")
        _refuse(args[1], "write over")
        _note_new(args[1])
    elif event == "os.truncate":
        _refuse(args[0], "cut")
    elif event in ("os.symlink", "os.link"):
        _note_new(args[1])


def _note_new(path):
    """A file or folder that was not there: whoever started the dry run takes it away again."""
    try:
        text = os.path.abspath(os.fsdecode(path))
        if text.startswith(tuple(_settings["free"])) or _is_cache(text):
            return
        if not os.path.lexists(text):
            os.write(_log, json.dumps(text).encode() + b"\n")
    except (OSError, TypeError, ValueError):
        pass


def _refuse(path, verb):
    if not isinstance(path, int) and _settings and _is_old_file(path):
        _wait_for_the_end("write", "%s %s" % (verb, os.fsdecode(path)))


# -- import ----------------------------------------------------------------------------------------


class _Finder:
    """First in sys.meta_path: adds one step to the loading of torch, and finds nothing itself."""

    is_asking = False  # the agent's finder asks the others too, this one among them

    def find_spec(self, name, path=None, target=None):
        if name != "torch" or self.is_asking:
            return None
        self.is_asking = True
        try:
            for finder in list(sys.meta_path):
                find = getattr(finder, "find_spec", None)
                spec = find(name, path, target) if finder is not self and find else None
                if spec is not None:
                    self._add_step(spec.loader)
                    return spec
        finally:
            self.is_asking = False
        return None

    def _add_step(self, loader):
        load = loader.exec_module

        def load_and_hook(module):
            vars(loader).pop("exec_module", None)
            load(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                try:
                    _on_torch(module)
                except Exception:
                    pass

        loader.exec_module = load_and_hook
