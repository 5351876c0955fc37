"""The command without rerail: what `rerail run` becomes when it cannot record.

In: the arguments that `rerail` was started with. Out: nothing while all is well; else this process
becomes the command, with the signals, descriptors and environment that rerail was started with.
Promises: the command is started once at most, here or by the recorder; what is typed wrong is not
run; nothing is imported that the interpreter has not loaded by then, since files, memory and
modules may be just what is lacking.
"""

import _signal  # type: ignore[import-not-found]  # what `signal` wraps; that one needs `enum` and six other files
import errno
import os
import sys

SHELL = "/bin/sh"

# Python ignores these two at its own start; a command that inherits that never dies of SIGPIPE.
IGNORED_BY_PYTHON = (_signal.SIGPIPE, _signal.SIGXFSZ)

# The options of `rerail run`; a test compares them with the command's own.
FLAGS = {
    *("--quiet", "-q", "--no-explain", "--no-agent", "--no-census", "--preload", "--no-preload"),
    *("--json", "--no-trackers"),
}
WITH_VALUE = {
    *("--home", "--stall", "--on-stall", "--label", "--name", "--restarts", "--checkpoint"),
    *("--resume-args", "--allow", "--backoff", "--folder-to", "--gate", "--on-gate"),
    *("--notify", "--notify-on", "--metrics-file", "--job", "--job-dir", "--nnodes"),
}


class Request:
    """A `rerail run` as it was typed."""

    def __init__(self, command: list[str], *, is_quiet: bool, as_json: bool) -> None:
        self.command = command
        self.is_quiet = is_quiet
        self.as_json = as_json


def parse(arguments: list[str]) -> Request | None:
    """None for anything else than `run`, options that exist, and a command."""
    if arguments[:1] != ["run"]:
        return None
    seen: set[str] = set()
    rest = iter(range(1, len(arguments)))
    for at in rest:
        word = arguments[at]
        if word == "--":
            return _request(arguments[at + 1 :], seen)
        if word == "-" or not word.startswith("-"):
            return _request(arguments[at:], seen)
        name, has_value, _ = word.partition("=")
        if name in WITH_VALUE:
            if not has_value and next(rest, None) is None:
                return None
        elif word in FLAGS:
            seen.add(word)
        elif not word.startswith("--") and not word.strip("-q"):
            seen.add("-q")  # -qq
        else:
            return None
    return None


def _request(command: list[str], seen: set[str]) -> Request | None:
    if not command:
        return None
    return Request(command, is_quiet=bool(seen & {"-q", "--quiet"}), as_json="--json" in seen)


def fill_closed_descriptors() -> None:
    """Open /dev/null for each of the descriptors 0, 1 and 2 that this process was started without.

    Else the next file that rerail opens gets the number, and messages are written into that file.
    The command does not inherit the replacement: it finds the descriptor closed, as it was.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            try:
                os.fstat(number)
            except OSError:
                if (opened := os.open(os.devnull, os.O_RDWR)) != number:
                    os.dup2(opened, number, inheritable=False)
                    os.close(opened)
            if getattr(sys, name) is None:
                stream = open(number, "w" if number else "r", closefd=False)  # noqa: SIM115
                setattr(sys, name, stream)
        except OSError:
            continue  # without /dev/null the command is still run


def give_back_variables() -> None:
    """Put back into the environment what `launcher/rerail` kept from our interpreter."""
    if value := sys._xoptions.get("rerail_executable"):
        os.environ["PYTHONEXECUTABLE"] = str(value)


class StartingSignals:
    """The mask and dispositions that this process was started with, as far as Python lets see."""

    def __init__(self) -> None:
        self._mask = _signal.pthread_sigmask(_signal.SIG_BLOCK, ())
        self._ignored = {
            number
            for number in _signal.valid_signals()
            if number not in IGNORED_BY_PYTHON and _signal.getsignal(number) == _signal.SIG_IGN
        }
        self._ignored |= _ignored_before_us()

    def restore(self) -> None:
        """Before exec. Handlers of ours fall away there; ignored signals would stay ignored."""
        for number in {*IGNORED_BY_PYTHON, _signal.SIGCHLD, *self._ignored}:
            is_ignored = number in self._ignored
            _signal.signal(number, _signal.SIG_IGN if is_ignored else _signal.SIG_DFL)
        _signal.pthread_sigmask(_signal.SIG_SETMASK, self._mask)


def _ignored_before_us() -> set[int]:
    """Which signals were ignored, of those that whoever started this interpreter hides.

    Python hides SIGPIPE and SIGXFSZ (systemd services, trap '' PIPE), but `launcher/rerail` has
    looked before. In front of `python -m rerail` nobody has, so the parent is asked. A Python
    parent ignores them for itself and restores them for its children, so it says nothing. The shell
    of the launcher hides SIGCHLD, which it handles itself, so there the parent is asked for that.
    """
    parent = f"/proc/{os.getppid()}"
    try:
        seen = str(sys._xoptions.get("rerail_ignored") or "")
        if seen:
            by_parent = {_signal.SIGCHLD} & _ignored_in(read_small(f"{parent}/status"))
            return by_parent | ({*IGNORED_BY_PYTHON} & _ignored_in(f"SigIgn: {seen}"))
        if "python" not in os.path.basename(os.readlink(f"{parent}/exe")):  # noqa: PTH115, PTH119
            return {*IGNORED_BY_PYTHON} & _ignored_in(read_small(f"{parent}/status"))
    except Exception:
        pass  # no /proc, no descriptor, no memory: most were not ignored
    return set()


def _ignored_in(status: str) -> set[int]:
    """The ignored signals in the status of a process, as the kernel shows it."""
    for line in status.splitlines():
        if line.startswith("SigIgn:"):
            ignored = int(line.split()[1], 16)
            return {number for number in _signal.valid_signals() if ignored >> (number - 1) & 1}
    return set()


def read_small(path: str) -> str:
    """A small file of the kernel's, with one descriptor and nothing imported."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 65536).decode("ascii", "replace")
    finally:
        os.close(descriptor)


class _Standby:
    """What is needed to become the command, taken down before anything can go wrong."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.pid = os.getpid()
        self.environ = dict(os.environ)
        self.signals = StartingSignals()
        self.standard_output: int | None = None  # where --json set it aside
        self.is_armed = True


_standby: _Standby | None = None


def arm(arguments: list[str]) -> bool:
    """From here on the command can be run bare, if this is a `rerail run` with one."""
    global _standby
    request = parse(arguments)
    _standby = _Standby(request) if request is not None else None
    return _standby is not None


def is_armed() -> bool:
    """Whether the command still has to be started, and by this process (no forked copy of it)."""
    return _standby is not None and _standby.is_armed and _standby.pid == os.getpid()


def hold_fire(is_started: bool) -> None:
    """The recorder starts the command just now (True), or could not (False)."""
    if _standby is not None:
        _standby.is_armed = not is_started


def set_standard_output_aside() -> int:
    """For --json: the document alone goes there; what the command prints goes to standard error."""
    if _standby is not None and _standby.standard_output is not None:
        return _standby.standard_output
    saved = os.dup(1)
    os.dup2(2, 1)
    if _standby is not None:
        _standby.standard_output = saved
    return saved


def run(why: str) -> int:
    """Say why, and become the command; the exit status of a shell where it cannot be run."""
    standby = _standby
    assert standby is not None
    standby.is_armed = False
    request = standby.request
    say(f"cannot record this run: {why}; the command runs without rerail", request.is_quiet)
    _flush()
    if request.as_json:
        _answer_in_json(standby, why)
    standby.signals.restore()
    places = candidates(request.command[0], standby.environ)
    problem = execute(places, request.command, standby.environ)
    message, status = why_not_started(request.command[0], problem)
    say(message)
    return status


def execute(places: list[str], command: list[str], environ: dict[str, str]) -> int:
    """Try each place as execvp(3) does; what went wrong if none works."""
    problem = errno.ENOENT
    for path in places:
        try:
            try:
                os.execve(path, command, environ)
            except OSError as error:
                if error.errno != errno.ENOEXEC:
                    raise
                # A script without a first line that names its interpreter: shells run it.
                os.execve(SHELL, [SHELL, path, *command[1:]], environ)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                problem = error.errno or errno.EIO
    return problem


def candidates(program: str, environ: dict[str, str]) -> list[str]:
    """Where a shell would look for it."""
    if "/" in program:
        return [program]
    path = environ.get("PATH", os.defpath)
    return [os.path.join(folder or ".", program) for folder in path.split(os.pathsep)]  # noqa: PTH118


def why_not_started(program: str, problem: int) -> tuple[str, int]:
    """The sentence and the exit status that a shell gives."""
    if problem == errno.ENOENT:
        if "/" in program:
            return f"there is no program {program}", 127
        return f"command not found: {program}", 127
    return f"cannot run {program}: {os.strerror(problem).lower()}", 126


def say(text: str, is_quiet: bool = False) -> None:
    if is_quiet:
        return
    # As `platform.os_text.shown`, without an import: a name is not to move the cursor.
    plain = "".join(c if c.isprintable() or c in "\n\t " else repr(c)[1:-1] for c in text)
    try:
        os.write(2, f"rerail: {plain}\n".encode(errors="backslashreplace"))
    except (OSError, ValueError):
        pass


def in_one_line(error: BaseException) -> str:
    """The kind of failure and its text, in one line; what the system says, in its own words."""
    if isinstance(error, OSError) and error.strerror:
        where = f": {error.filename}" if error.filename else ""
        return f"{error.strerror.lower()}{where}"
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:300] if text else type(error).__name__


def _answer_in_json(standby: _Standby, why: str) -> None:
    """One document, as always; written by hand, since `json` may not be there to import."""
    text = f"the run was not recorded ({why}); the command ran without rerail"
    plain = "".join(c if " " <= c <= "~" and c not in '"\\' else "?" for c in text)
    document = (
        '{"schema": 1, "outcome": {"kind": "unknown", "signal": null, "exit_code": null,'
        f' "process": null, "summary": "{plain}"}}, "causes": [], "headline": "{plain}",'
        ' "facts": {}, "run": null}\n'
    )
    try:
        is_set_aside = standby.standard_output is not None
        os.write(standby.standard_output if is_set_aside else 1, document.encode())  # type: ignore[arg-type]
        if not is_set_aside:
            os.dup2(2, 1)
    except OSError:
        pass


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):  # closed, or never there
            pass
