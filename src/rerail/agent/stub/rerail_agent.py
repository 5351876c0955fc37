"""The agent's beginning and end in a process: files, handlers, identity, hooks, goodbye.

Comes in: RERAIL_AGENT from the environment (nothing happens without it); without the C library the
box is made there, and never in memory. Goes out: the black box
and the crash file of this process, and of every child that Python forks. Promises: no output, no
exception, no thread; the standard library only.
"""

import os
import sys

import rerail_box as box
import rerail_layout as layout
import rerail_native as native

GOODBYE_PYTHON = 1
GOODBYE_UNDERSCORE_EXIT = 2
GOODBYE_WORKER = 3


def start(folder):
    if not os.environ.get("RERAIL_AGENT"):
        return
    import _signal  # reads the dispositions as they are now, before ours

    if not _is_main_interpreter(_signal) or not _open_box(folder):
        return
    _say_who()
    native.remember_first_page()
    if native.library is None:
        box.note("the native library could not be loaded: no crash capture in this process")
    for step in (_register_stacks, _keep_place, _watch_the_end, _watch_imports):
        try:
            step(folder)
        except Exception as error:
            box.note_failure(step.__name__.strip("_"), error)
    if native.library is None:
        os.register_at_fork(after_in_child=_after_fork)
    else:
        os.register_at_fork(before=native.fork_function())


def _is_main_interpreter(_signal):
    """Return False in a subinterpreter, where the agent must not start.

    CPython 3.10 and 3.11 end a living subinterpreter while the main one is finalized. An exit
    function there that takes the GIL again ends the main thread, and the status becomes 0.
    Signal number 0 is never valid, so this call changes nothing: only its message differs.
    """
    try:
        _signal.signal(0, _signal.SIG_DFL)
    except ValueError as error:
        return "main thread" not in str(error)
    return True


def _open_box(folder):
    try:
        native.load(os.path.join(os.path.dirname(folder), "native.abi3.so"))
        address = native.library.rerail_start()
    except (OSError, AttributeError, ImportError):
        native.library = None
        return _open_box_without_library()
    if not address:
        return False
    box.use(*native.view_of(address, layout.SIZE))
    return True


def _open_box_without_library():
    """No compiler where rerail was installed, or another processor: the box alone, no handler."""
    import mmap
    import time

    pid, start_ticks = os.getpid(), 0
    try:
        with open("/proc/self/stat", "rb") as stat:
            start_ticks = int(stat.read().rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        pass
    path = "%s/%d-%d.box" % (os.environ["RERAIL_AGENT"], pid, start_ticks)
    try:
        os.unlink(path)
    except OSError:
        pass
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        if os.write(fd, bytes(layout.SIZE)) != layout.SIZE:
            os.unlink(path)
            return False
        mapping = mmap.mmap(fd, layout.SIZE)
    finally:
        os.close(fd)
    box.use(mapping, memoryview(mapping))
    head = layout.HEAD
    box.octets[:8] = layout.MAGIC
    box.octets[8:16] = layout.VERSION.to_bytes(4, "little") + layout.SIZE.to_bytes(4, "little")
    for name, value in (
        ("pid", pid),
        ("start_ticks", start_ticks),
        ("parent_pid", os.getppid()),
        ("started_ns", time.monotonic_ns()),
        ("fork_parent_had_threads", layout.UNKNOWN),
    ):
        box.numbers[head[name] // 8] = value
    return True


_SECRET_WORDS = ("token", "secret", "pass", "pwd", "cred", "key", "auth")
_HIDDEN = "[...]"


def _without_secrets(argv):
    """Hide what may be one: the box lies on the disk while the process runs.

    Coarser than the recorder, which has the true command from outside and masks it with care. This
    one is read only of a process that was gone before anybody could look at it.
    """
    found = []
    before = ""
    for word in argv:
        name, sign, _ = word.partition("=")
        if before == "-c" or _is_text(word):
            is_ours = word.startswith(("from multiprocessing", "from joblib"))
            found.append(word if is_ours else _HIDDEN)
        elif before.startswith("-") and not word.startswith("-") and _sounds_secret(before):
            found.append(_HIDDEN)
        elif sign and (_sounds_secret(name) or _looks_secret(word)):
            found.append(name + "=" + _HIDDEN)
        else:
            found.append(_HIDDEN if _looks_secret(word) else word)
        before = word
    return found


def _is_text(word):
    return ("\n" in word or " " in word) and not _is_file(word)


def _is_file(word):
    """The interpreter and the script: folders may have a space, or long names with capitals."""
    return "/" in word and os.path.exists(word)


def _sounds_secret(name):
    lowered = name.lower()
    return name in ("-p", "-P", "-u") or any(word in lowered for word in _SECRET_WORDS)


def _looks_secret(word):
    """A login in a URL, or a long stretch of letters with digits or capitals that is no path."""
    if "://" in word and "@" in word:
        return True
    parts = word
    for character in "/.:=?&,":
        parts = parts.replace(character, " ")
    return any(
        (len(part) >= 16 and part != part.lower())
        or (len(part) >= 16 and any(map(str.isdigit, part)))
        for part in parts.split()
    ) and not _is_file(word)


def _say_who():
    box.clear()
    box.put_text("python_version", sys.version.split()[0])
    argv = getattr(sys, "orig_argv", None) or getattr(sys, "argv", None) or []
    box.put_text("argv", "\0".join(_without_secrets(argv)))
    for name, variable in (("rank", "RANK"), ("world_size", "WORLD_SIZE")):
        value = os.environ.get(variable, "")
        if value.isdigit():
            box.numbers[layout.WORD[name]] = int(value)
    errors, output = _file_behind(2), _file_behind(1)
    both = errors + ("\0" + output if output not in ("", errors) else "")
    box.put_text("error_file", both if len(both) <= layout.TEXT["error_file"][1] else errors)


def _file_behind(descriptor):
    """The regular file that a descriptor leads to; "" where it is none, or closed, or no /proc."""
    try:
        if os.fstat(descriptor).st_mode & 0o170000 == 0o100000:
            return os.readlink("/proc/self/fd/%d" % descriptor)
    except OSError:
        pass
    return ""


def _register_stacks(folder):
    """Python's own traceback dump, for a crash and on request; faulthandler's public interface."""
    if native.library is None:
        return
    import faulthandler

    library = native.library
    stacks, crash = library.rerail_stacks_fd(), library.rerail_crash_fd()
    for which, (fd, all_threads) in enumerate(((stacks, True), (crash, True), (crash, False))):
        signum = library.rerail_free_signal(which)
        if signum <= 0 or fd < 0:
            continue
        faulthandler.register(signum, file=fd, all_threads=all_threads, chain=False)
        if which == 0:
            library.rerail_stacks_answer_to(signum)
        else:
            library.rerail_use_python_dump(signum, int(all_threads))


def _keep_place(folder):
    """faulthandler.enable() takes our place and its own alternate stack: take ours back, on top."""
    if native.library is None:
        return
    import _signal
    import faulthandler

    library = native.library
    fatal = (_signal.SIGSEGV, _signal.SIGBUS, _signal.SIGFPE, _signal.SIGILL, _signal.SIGABRT)
    its_function = [
        library.rerail_handler_of(_signal.SIGFPE) if faulthandler.is_enabled() else None
    ]

    def enabled(args, kwargs, result):
        function = library.rerail_handler_of(_signal.SIGFPE)
        if result is not ... and function:
            its_function[0] = function
        library.rerail_keep_place()

    def disabled(args, kwargs, result):
        if its_function[0]:
            for signum in fatal:
                library.rerail_forget_handler_of(signum, its_function[0])
        library.rerail_keep_place()

    faulthandler.enable = native.wrap(faulthandler.enable, after=enabled)
    faulthandler.disable = native.wrap(faulthandler.disable, after=disabled)
    library.rerail_keep_place()  # register() above may have set a small alternate stack


def _watch_the_end(folder):
    import atexit

    def excepthook(args, kwargs):
        if len(args) >= 2:
            box.put_exception(args[0], args[1])

    # Both names, so that a program which asks whether anybody has replaced the hook gets no.
    is_standard = sys.excepthook is sys.__excepthook__
    wrapped = native.wrap(sys.__excepthook__, before=excepthook)
    sys.__excepthook__ = wrapped
    if is_standard:
        sys.excepthook = wrapped
    else:
        sys.excepthook = native.wrap(sys.excepthook, before=excepthook)

    os._exit = native.wrap(os._exit, goodbye=GOODBYE_UNDERSCORE_EXIT)
    import rerail_exit_calls

    rerail_exit_calls.watch(os)
    atexit.register(_at_exit)


def _at_exit():
    """Registered first, so it runs last: what comes after is the interpreter's own ending."""
    try:
        offset = layout.TEXT["exception_type"][0]
        if not any(box.octets[offset : offset + 2]) and not hasattr(sys, "ps1"):
            value = getattr(sys, "last_value", None)  # the user's own excepthook kept ours away
            if value is not None:
                box.put_exception(type(value), value)
        say_goodbye(GOODBYE_PYTHON)
    except Exception:
        pass


def say_goodbye(how):
    if native.library is not None:
        native.library.rerail_goodbye(how)
    else:
        box.numbers[layout.HEAD["said_goodbye"] // 8] = how


def _watch_imports(folder):
    import rerail_imports

    rerail_imports.watch(folder)


def _after_fork():
    """Without the library."""
    try:
        had = box.numbers
        if _open_box_without_library():
            _say_who()
        else:
            box.use(None, memoryview(bytearray(layout.SIZE)))  # never the parent's
        for module in list(sys.modules.values()):
            if getattr(module, "numbers", None) is had:
                module.numbers, module.floats = box.numbers, box.floats
    except BaseException:
        pass
