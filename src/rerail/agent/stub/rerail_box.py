"""Writing the black box from Python: stores into mapped memory, no system call, no allocation kept.

Comes in: the address (or a mapping) of the box. Goes out: `numbers` and `floats`, views of the
whole box as eight-byte words, indexed by rerail_layout.WORD. Promises: a write never raises for
a value that does not fit; texts are cut.
"""

import os
from time import monotonic_ns

import rerail_in_hand
import rerail_layout as layout

numbers = None  # memoryview of int64; None until `use` was called
floats = None  # the same memory as doubles
octets = None
_owner = None  # keeps a mapping alive

WORD = layout.WORD
epoch_is_told = False  # by a framework that counts its epochs; then nobody guesses


def use(owner, view):
    """Write into `view`, a memoryview of bytes; `owner` is whatever must outlive it."""
    global numbers, floats, octets, _owner
    _owner = owner
    octets = view
    numbers = view.cast("q")
    floats = view.cast("d")


def clear():
    """A process that has just begun to be one: nothing known yet. Its box is all zeros so far."""
    for name in (
        "rank",
        "world_size",
        "epoch",
        "first_nonfinite_step",
        "progress_count",
        "progress_total",
    ):
        numbers[WORD[name]] = layout.UNKNOWN
    floats[WORD["loss"]] = float("nan")


def put_text_at(offset, capacity, text):
    raw = text if isinstance(text, bytes) else text.encode("utf-8", "replace")
    raw = raw[:capacity]
    end = offset + 2
    octets[offset:end] = b"\0\0"
    octets[end : end + len(raw)] = raw
    octets[offset:end] = len(raw).to_bytes(2, "little")


def put_text(name, text):
    offset, capacity = layout.TEXT[name]
    put_text_at(offset, capacity, text)


def put_epoch(epoch):
    """The epoch as the framework itself counts it."""
    global epoch_is_told
    epoch_is_told = True
    numbers[WORD["epoch"]] = int(epoch)


def note(text):
    """Something the record should say: a hook that failed, a framework that was seen."""
    try:
        index = WORD["note_count"]
        count = numbers[index]
        if count >= layout.NOTE_LENGTH:
            return
        size = 2 + layout.NOTE_CAPACITY
        put_text_at(layout.AREA["notes"] + count * size, layout.NOTE_CAPACITY, text)
        numbers[index] = count + 1
    except Exception:
        pass


def note_failure(what, error):
    note("%s: %s: %s" % (what, type(error).__name__, error))


_MOST_WALKED = 20000  # frames of a traceback; a recursion has a thousand
_INNERMOST = 6  # kept whoever wrote them; of the others only those of the program's own code
_LIBRARY = ("site-packages", "dist-packages", "<frozen", os.path.dirname(os.__file__) + os.sep)


def put_exception(kind, value, traceback=None, thread=""):
    """An exception that nobody caught, and the frames that it passed through."""
    try:
        put_text("exception_thread", thread)
        put_frames(traceback or getattr(value, "__traceback__", None))
    except Exception as error:
        note_failure("exception frames", error)
    try:
        module = getattr(kind, "__module__", "")
        name = getattr(kind, "__qualname__", str(kind))
        if module not in ("builtins", "__main__", ""):
            name = module + "." + name
        put_text("exception_type", name)
        numbers[WORD["exception_ns"]] = monotonic_ns()
        put_rank_if_unknown(os.environ.get("RANK"))  # a program may set it for itself
        text = str(value).encode("utf-8", "replace")
        put_text("exception_text", text)
        put_text("exception_more", text[layout.TEXT["exception_text"][1] :])
    except Exception as error:
        note_failure("exception text", error)
    put_in_hand(value, traceback or getattr(value, "__traceback__", None))


def put_in_hand(value, traceback):
    """What the exception's message does not name, and its frames hold."""
    try:
        for what, path in rerail_in_hand.find(value, traceback):
            put_file(path, layout.IN_HAND + what, 0, False)
    except Exception as error:
        note_failure("file in hand", error)


def put_rank_if_unknown(rank):
    """Of a process that has not joined the others yet."""
    if numbers[WORD["rank"]] < 0 and str(rank).isdigit():
        numbers[WORD["rank"]] = int(rank)


def put_exit(call, frame):
    """The program ends itself, from `frame`; the readers do not take it for an exception."""
    try:
        if any(octets[slice(*_length_of("exception_type"))]):
            return  # it had failed before
        frames = []
        while frame is not None and len(frames) < _MOST_WALKED:
            frames.append((frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
            frame = frame.f_back
        put_innermost(frames)
        put_text("exception_thread", "")
        put_text("exception_text", call)
        numbers[WORD["exception_ns"]] = monotonic_ns()
        put_text("exception_type", layout.EXIT_CALL)
    except Exception as error:
        note_failure("exit call", error)


def has_failed():
    """Whether an exception of the main thread is on record: what threads raise then is its echo."""
    is_of_a_thread = any(octets[slice(*_length_of("exception_thread"))])
    return any(octets[slice(*_length_of("exception_type"))]) and not is_of_a_thread


def _length_of(name):
    offset = layout.TEXT[name][0]
    return offset, offset + 2


def is_of_a_library(file):
    return any(part in file for part in _LIBRARY)


def put_frames(traceback):
    """Innermost first, as many as there is room for."""
    frames = []
    while traceback is not None and len(frames) < _MOST_WALKED:
        code = traceback.tb_frame.f_code
        frames.append((code.co_filename, traceback.tb_lineno, code.co_name))
        traceback = traceback.tb_next
    frames.reverse()
    put_innermost(frames)


def put_innermost(frames):
    capacity = layout.TEXT["exception_frames"][1]
    kept = b""
    previous = None
    for at, frame in enumerate(frames):
        is_library = is_of_a_library(frame[0])
        if frame == previous or (at >= _INNERMOST and is_library):
            continue
        previous = frame
        line = ("%s\0%s\0%s\n" % frame).encode("utf-8", "replace")
        if len(kept) + len(line) > capacity:
            break
        kept += line
    put_text("exception_frames", kept)


def put_loader(workers, batch_size, prefetch, start_method, pin_memory, persistent):
    """A DataLoader that begins to be iterated; the same settings are written once."""
    row = (
        workers,
        layout.UNKNOWN if batch_size is None else batch_size,
        layout.UNKNOWN if prefetch is None else prefetch,
        layout.START_METHODS.index(start_method) if start_method in layout.START_METHODS else 0,
        int(pin_memory),
        int(persistent),
    )
    base = layout.AREA["loaders"] // 8
    count = numbers[WORD["loader_count"]]
    size = layout.LOADER_WORDS
    for i in range(min(count, layout.LOADER_LENGTH)):
        if tuple(numbers[base + i * size : base + (i + 1) * size]) == row:
            return
    if count < layout.LOADER_LENGTH:
        for i, value in enumerate(row):
            numbers[base + count * size + i] = value
        numbers[WORD["loader_count"]] = count + 1


def put_file(path, loader, size_bytes, is_mapped, is_compressed=False):
    """A data file that was loaded. The latest ones are kept."""
    raw = path if isinstance(path, bytes) else str(path).encode("utf-8", "replace")
    if len(raw) > layout.FILE_PATH_CAPACITY:
        raw = raw[-layout.FILE_PATH_CAPACITY :]  # the end of a path says more than its beginning
    count = numbers[WORD["file_count"]]
    offset = layout.AREA["files"] + count % layout.FILE_LENGTH * layout.FILE_SIZE
    word = offset // 8
    flags = layout.FILE_IS_MAPPED if is_mapped else 0
    numbers[word] = size_bytes
    numbers[word + 1] = flags | (layout.FILE_IS_COMPRESSED if is_compressed else 0)
    offset += layout.FILE_WORDS * 8
    put_text_at(offset, layout.FILE_LOADER_CAPACITY, loader)
    put_text_at(offset + 2 + layout.FILE_LOADER_CAPACITY, layout.FILE_PATH_CAPACITY, raw)
    numbers[WORD["file_count"]] = count + 1
