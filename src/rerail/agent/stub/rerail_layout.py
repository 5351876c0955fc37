"""Where each field of the black box lies: the one table that writer and reader share.

The stub writes through it inside the user's process (any CPython from 3.8 on, so: standard
library only, nothing of rerail), rerail.store.blackbox reads through it afterwards. The first 256
bytes belong to the C library (struct box_head in native/agent.h; a test compares the two).
Every number is eight bytes, aligned, native byte order, so that a store is one instruction and a
killed process leaves no half-written one. A text is a two-byte length and that many bytes of
UTF-8; length 0 means that it was never written.
"""

MAGIC = b"RERAILBX"
VERSION = 1
SIZE = 32768
# Of the C library and the stub: one more whenever what they hand to each other changes
# (AGENT_INTERFACE in native/agent.h). A library of another number is left out.
INTERFACE = 4

# struct box_head: offsets in bytes. `version` and `size` are four bytes each.
HEAD = {
    "magic": 0,
    "version": 8,
    "size": 12,
    "pid": 16,
    "start_ticks": 24,
    "parent_pid": 32,
    "started_ns": 40,
    "said_goodbye": 48,
    "handler_installed": 56,
    "crash_signal": 64,
    "stacks_signal": 72,
    "python_signal": 80,
    "fork_parent_had_threads": 88,
    "generation": 96,
    "thread_count": 104,
    "trouble": 112,
    "is_native": 120,
    "stacks_fd": 128,
    "is_kept": 136,
}
HEAD_SIZE = 256

# Bits of `trouble`, in the order of enum trouble.
TROUBLES = (
    "no black box file: not enough room, or the folder cannot be written",
    "no crash file",
    "no stacks file",
    "no alternate signal stack",
    "no free real-time signal",
    "a fatal signal was ignored by the parent and is left ignored",
    "another handler uses a fatal signal for its own work",
    "RLIMIT_FSIZE is too low to write files",
)

# The file of boxes that a process sets aside for its children (struct boxes_head in
# native/lent_boxes.c): this head, then the boxes. A box that nobody has taken has no magic.
BOXES_MAGIC = b"RERAILBS"
BOXES_HEAD_SIZE = 4096
MOST_LENT = 64
OWNERS_AT = 16  # four bytes each: the pid of whoever has the box, 0 if nobody

UNKNOWN = -1  # of a counter or a number that can be absent

# 64-bit integers. `loss_at` and the like: which step a value belongs to.
NUMBERS = (
    "rank",
    "world_size",
    "optimizer_steps",
    "backward_calls",
    "batches",
    "epoch",
    "phase",  # index into PHASES
    "first_nonfinite_step",
    "last_progress_ns",
    "progress_count",
    "progress_total",
    "collective_count",
    "loader_count",
    "file_count",
    "note_count",
)
FLOATS = ("loss",)
TEXTS = (
    ("python_version", 32),
    ("argv", 1536),  # NUL between arguments
    ("progress_text", 126),
    ("batch_shapes", 254),
    ("collective", 62),
    ("exception_type", 126),
    ("exception_text", 1022),
)

# Behind everything else, so that a box of an older agent is read as ever.
LATER_TEXTS = (
    ("exception_frames", 3070),  # innermost first: file, line, function, NUL between, newline after
    ("exception_thread", 62),
    ("exception_more", 4094),  # of a text that is longer than exception_text holds
)

# Behind those, for the same reason: nanoseconds spent so far in collectives and in waiting for
# them, in waiting for the next batch, and in backward calls (which hold DistributedDataParallel's
# reduction of gradients); the collective that is waited for now, by its number in the ring
# (0: none); how many places and groups the two tables hold; when the exception came that nobody
# caught.
LATER_NUMBERS = (
    "collective_ns",
    "data_wait_ns",
    "backward_ns",
    "collective_waited_for",
    "place_count",
    "group_count",
    "exception_ns",
)

# The file that standard error goes to, if it is one; then NUL and that of standard output, if that
# is another: launchers may give each rank its own.
LAST_TEXTS = (("error_file", 222),)
# Which worker of its DataLoader this is, counted from 1 (torch counts from 0); 0: it is none. With
# this the box is full.
LAST_NUMBERS = ("loader_worker",)

PHASES = (
    "",
    "data",
    "forward",
    "backward",
    "step",
    "train",
    "validate",
    "mining",
    "indexing",
    "loading",
    "saving",
    "test",
    "predict",
)

HISTORY_LENGTH = 256  # steps in the ring
HISTORY_WORDS = 3  # step, monotonic ns, loss

LOADER_LENGTH = 8
# workers, batch_size, prefetch, start_method (index), pin_memory, persistent
LOADER_WORDS = 6
START_METHODS = ("", "fork", "spawn", "forkserver")

FILE_LENGTH = 32
FILE_WORDS = 2  # size_bytes, flags
FILE_IS_MAPPED = 1
FILE_IS_COMPRESSED = 2
FILE_LOADER_CAPACITY = 30
FILE_PATH_CAPACITY = 254
EXIT_CALL = "call of exit"  # instead of an exception's type: not raised, the program ended itself
IN_HAND = "exception:"  # instead of a loader's name: not loaded, but held when the exception came

NOTE_LENGTH = 16
NOTE_CAPACITY = 158

# The last collectives. Words of one: number (from 1 on, over all groups; 0 is an empty row),
# entered ns, left ns (0: not left; below 0: it raised then), what (op, group and place, see below),
# number within its group, bytes, shape (see pack_shape).
COLLECTIVE_LENGTH = 20
COLLECTIVE_WORDS = 7
COLLECTIVES = (
    "",
    "all_reduce",
    "broadcast",
    "all_gather",
    "reduce",
    "gather",
    "scatter",
    "reduce_scatter",
    "all_to_all",
    "barrier",
    "send",
    "recv",
    "gradients",  # DistributedDataParallel's all_reduce of them, somewhere within backward
)
# "what" is op + group << 8 + place << 16; group and place count from 1, 0 is unknown.
GROUP_SHIFT = 8
PLACE_SHIFT = 16
PLACE_LENGTH = 20  # places in the user's own code: end of the file, line, function, NUL between
PLACE_CAPACITY = 78
GROUP_LENGTH = 8
GROUP_CAPACITY = 14
MOST_SIDES = 3


def pack_shape(shape):
    # type: (tuple[int, ...]) -> int
    """Up to three sides of 20 bits each and how many there are; larger ones are cut."""
    packed = min(len(shape), 7)
    for i, side in enumerate(shape[:MOST_SIDES]):
        packed |= min(int(side), 0xFFFFF) << (3 + 20 * i)
    return packed


def unpack_shape(packed):
    # type: (int) -> list[int]
    count = packed & 7
    return [packed >> (3 + 20 * i) & 0xFFFFF for i in range(min(count, MOST_SIDES))]


def _lay_out():
    # type: () -> tuple[dict[str, int], dict[str, tuple[int, int]], dict[str, int]]
    at = HEAD_SIZE
    words = {}
    texts = {}
    areas = {}
    for name in NUMBERS + FLOATS:
        words[name] = at // 8
        at += 8
    for name, capacity in TEXTS:
        texts[name] = (at, capacity)
        at += 2 + capacity
    at = (at + 63) // 64 * 64
    for name, size in (
        ("history", HISTORY_LENGTH * HISTORY_WORDS * 8),
        ("loaders", LOADER_LENGTH * LOADER_WORDS * 8),
        ("files", FILE_LENGTH * FILE_SIZE),
        ("notes", NOTE_LENGTH * (2 + NOTE_CAPACITY)),
    ):
        areas[name] = at
        at += (size + 63) // 64 * 64
    for name, capacity in LATER_TEXTS:
        texts[name] = (at, capacity)
        at += 2 + capacity
    at = (at + 63) // 64 * 64
    for name in LATER_NUMBERS:
        words[name] = at // 8
        at += 8
    for name, size in (
        ("collectives", COLLECTIVE_LENGTH * COLLECTIVE_WORDS * 8),
        ("places", PLACE_LENGTH * (2 + PLACE_CAPACITY)),
        ("groups", GROUP_LENGTH * (2 + GROUP_CAPACITY)),
    ):
        areas[name] = at
        at += size
    for name, capacity in LAST_TEXTS:
        texts[name] = (at, capacity)
        at += 2 + capacity
    at = (at + 7) // 8 * 8
    for name in LAST_NUMBERS:
        words[name] = at // 8
        at += 8
    if at > SIZE:
        raise ValueError("the black box is too small for its fields")
    return words, texts, areas


# One file: its numbers, then the loader's name, then the path.
FILE_SIZE = FILE_WORDS * 8 + 2 + FILE_LOADER_CAPACITY + 2 + FILE_PATH_CAPACITY
FILE_SIZE = (FILE_SIZE + 7) // 8 * 8

# WORD: index of a number or float when the box is seen as an array of eight-byte words.
# TEXT: offset and capacity in bytes. AREA: offset in bytes.
WORD, TEXT, AREA = _lay_out()
