"""What a line of a rank, a launcher, a scheduler or a kernel says about who failed.

In: one line of text. Out: `Said`s: what kind of statement it is, with its numbers. Lines that
differ in their digits only are of one shape and say the same kind of thing, so the patterns are
tried once for each shape; a thousand ranks that fail alike cost as much as one. Wordings:
PyTorch's NCCL and Gloo process groups, torchrun, Horovod, JAX's coordination service, TensorFlow's
collectives, Open MPI, Slurm, DeepSpeed's launcher, Kubernetes and the Linux kernel.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from rerail.evidence.text.lines import clean, split_prefix
from rerail.platform.patterns import LinearPattern, linear
from rerail.platform.printed_progress import read_line

MOST_SHAPES = 20_000
MOST_CHARS = 1200  # of a line
_RANKS = r"(?P<ranks>\d[\d, ]*)"
_NODE = r"(?P<node>[\w.-]+)"

# What is said, and how. The name before the dash is what the judge asks for.
_STATEMENTS: list[tuple[str, LinearPattern]] = [
    (name, linear(pattern))
    for name, pattern in (
        (
            "waits-nccl",
            r"Watchdog caught collective operation timeout: \w+\(SeqNum=(?P<number>\d+), OpType="
            r"(?P<operation>\w+)(?:, NumelIn=(?P<elements>\d+), NumelOut=(?P<out>\d+))?"
            r"(?:, Timeout\(ms\)=(?P<timeout_ms>\d+))?",
        ),
        ("waits-gloo", r"Timed out waiting (?P<timeout_ms>\d+) ?ms for (?:recv|send)"),
        ("waits-pair", r"Application timeout caused pair closure"),
        ("waits-tf", r"Collective has timed out (?:waiting for other workers|during execution)"),
        ("waits-barrier", r"DEADLINE_EXCEEDED: Barrier timed out|failed to pass monitoredBarrier"),
        (
            "waits-store",
            r"(?:waiting for clients|wait timeout after \d+ ?ms|store.based.barrier|Timed out after"
            r" \d+ seconds waiting)",
        ),
        (
            "status-nccl",
            r"(?:\[PG (?:ID )?(?P<group>\d+)[^\]]*\] )?.*[Ll]ast enqueued (?:\w+ )?work: "
            r"(?P<enqueued>-?\d+), last completed (?:\w+ )?work: (?P<completed>-?\d+)",
        ),
        ("joined-world", r"(?P<joined>\d+)/(?P<world>\d+) (?:clients|workers) joined"),
        ("joined-barrier", r"tasks that reached the barrier: (?P<joined>\d+)/(?P<world>\d+)"),
        ("world-size", r"\b(?:dist_)?world[_ ]size[=: ]+(?P<world>\d{1,7})\b"),
        ("accuses-horovod", r"^(?P<ranks>\d+)!?: \[.+\]?$"),
        ("accuses-horovod", rf"\[missing ranks: {_RANKS}\]"),
        ("list-horovod", r"^(?:Missing|Stalled) ranks:\s*$"),
        ("list-gone", r"tasks are unhealthy"),
        ("list-late", r"timed out task names:\s*$"),
        ("accuses-listed", r"^/job:\w+/replica:\d+/task:(?P<ranks>\d+)\s*$"),
        ("accuses-gone", r"[Tt]ask /job:\w+/replica:\d+/task:(?P<ranks>\d+) (?:is un|heartbeat t)"),
        ("accuses-gone", r"/task:(?P<ranks>\d+) is down|/task:(?P<more>\d+): Socket closed"),
        ("accuses-desync", rf"ranks \[{_RANKS}\] are the lagging ranks"),
        ("accuses-desync", rf"\[{_RANKS}\] (?:joined but didn't finish|finished) collective #"),
        ("accuses-barrier", rf"Ranks? {_RANKS} failed to pass monitoredBarrier"),
        (
            "ended-mpirun",
            rf"noticed that process rank (?P<rank>\d+) with PID \d+ on node {_NODE}\s+exited on"
            rf" signal"
            r" (?P<signal>\d+)",
        ),
        ("ended-mpi", r"Process name: \[\[\d+,\d+\],(?P<rank>\d+)\]"),
        ("ended-mpi", r"MPI_ABORT was invoked on rank (?P<rank>\d+)"),
        ("lost-node", rf"Remote daemon: \[\[\d+,\d+\],\d+\] on node {_NODE}"),
        ("lost-node", rf"Node failure on {_NODE}"),
        ("lost-node", rf"[Nn]ode {_NODE} status is now: NodeNotReady"),
        ("ended-srun", rf"srun: error: {_NODE}: task (?P<rank>\d+): (?P<how>[A-Z][\w ]+)"),
        (
            "ended-torchrun",
            r"failed \(exitcode: (?P<code>-?\d+)\) local_rank: (?P<local>\d+) \(pid:"
            r" (?P<pid>\d+)\)",
        ),
        ("table-rank", r"^\s*rank\s+: (?P<rank>\d+) \(local_rank: (?P<local>\d+)\)"),
        ("table-code", r"^\s*exitcode\s+: (?P<code>-?\d+) \(pid: (?P<pid>\d+)\)"),
        ("table-root", r"Root Cause \(first observed failure\)"),
        ("ended-deepspeed", r"exits with return code = (?P<code>-?\d+)"),
        ("killed-kernel", r"[Oo]ut of memory: Killed process (?P<pid>\d+) \("),
        ("xid-kernel", r"NVRM: Xid \(PCI:[^)]{1,40}\): \d+(?:, pid='?(?P<pid>\d+))?"),
        ("pod-name", r"^Name:\s+\S*?-(?P<rank>\d+)\s*$"),
        ("pod-code", r"^\s*Exit Code:\s+(?P<code>\d+)"),
        ("oom-slurm", r"Detected \d+ oom[_-]kill event"),
        ("peer-host", rf"Connection closed by remote peer {_NODE}<"),
        (
            "peer-ip",
            r"completion from peer (?P<ip>[\d.]{7,15})<|closed by peer \[(?P<ip2>[\d.]{7,15})\]",
        ),
        ("peer-ip", r"UNAVAILABLE: ipv4:(?P<ip>[\d.]{7,15}):"),
        ("me-nccl", r"^(?P<node>[\w.-]{1,80}):(?P<pid>\d+):\d+ \[(?P<local>\d+)\] NCCL "),
        ("me-ip", r"NCCL INFO Bootstrap : Using \S{1,40}?:(?P<ip>[\d.]{7,15})<"),
        ("me-rank", r"\[PG (?:ID )?0\b[^\]]*Rank (?P<rank>\d+)\]"),
        (
            "signals-dump",
            r"Observed flight recorder dump signal from another rank|dump signal due to",
        ),
        ("node-of-pod", r"^Node:\s+(?P<node>[\w.-]+)/(?P<ip>[\d.]{7,15})"),
    )
]
_STREAM = linear(r"^\[rank(?P<rank>\d{1,7})\]:")
# Words with which a rank says that somebody else is gone or did not come.
_ECHO = linear(
    r"(?i)closed by (?:remote )?peer|reset by peer|broken pipe|remote process exit|ncclRemoteError"
    r"|network error or a remote process|socketProgress|communicator was aborted|Horovod has been"
    r" shut down"
    r"|Collective ops is aborted|could be from a previous operation|distributed service detected"
    r" fatal"
    r"|coordination service|Watchdog caught|watchdog thread terminated|failure detected by watchdog"
    r"|timeout\) detected by watchdog|Timeout at NCCL work|NCCL operations have failed or timed out"
    r"|taking the entire process down|dump signal|flight ?recorder|preparing to dump|signal dumping"
    r"|clients joined|workers joined|waiting for clients|wait timeout after|store.based.barrier"
    r"|Timed out waiting \d+ ?ms|pair closure|Socket closed|failed to connect to all addresses"
    r"|got 0 bytes|recvValue failed|sendBytes failed|ChildFailedError|SignalException"
    r"|DistBackendError'"
    r"|cluster check alive failed|Broken\w+Error|Connection\w+Error|completion from peer"
    r"|should dump|HeartbeatMonitor|heartbeat timeout|lagging|submitted to be reduced|EOFError"
    r"|NCCL version .{0,60}remote|monitoredBarrier|closing signal SIGTERM|is unhealthy|are"
    r" unhealthy"
)
# Words that are somebody's own failure, wherever they stand.
_OWN = linear(
    r"^\s*(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Interrupt|Exit)\b(?::|\s*$)"
    r"|Fatal Python error|SIG(?:SEGV|BUS|ILL|FPE|ABRT) received|Segfault encountered|Segmentation"
    r" fault"
    r"|CUDA error|out of memory|No space left|double free|corrupted|terminate called"
    r"|NCCL WARN .*(?:async (?:fatal )?event|Call to \w+ failed)|async (?:fatal )?event"
    r"|ncclSystemError|ncclInternalError|ncclUnhandledCudaError|Bus error|Illegal instruction"
    r"|\bzlib\.error\b|\bstruct\.error\b|\bsocket\.\w+error\b|^Killed$|^Aborted"
)
_FRAME = linear(r'^\s*File "(?P<file>[^"]{1,300})", line (?P<line>\d+),? in ')
_HEADER = "Traceback (most recent call last)"
_FINISHED = linear(
    r"(?i)^\W*(?:\[?[\d:. T-]+\]?\W*)?(?:training (?:is )?(?:complete|finished|done)|finished"
    r" training"
    r"|train(?:ing)? (?:complete|finished)|done training|all done|run (?:complete|finished))"
)
_HARMLESS = linear(r"(?i)warning|retry|deprecat|NCCL INFO|attempt \d+ of")


@dataclass(frozen=True)
class Shape:
    """What every line of one shape is."""

    is_progress: bool = False
    is_echo: bool = False
    is_own: bool = False
    is_header: bool = False
    is_finish: bool = False
    is_frame: bool = False
    statements: tuple[int, ...] = ()

    @property
    def says_nothing(self) -> bool:
        return not (
            self.is_echo or self.is_own or self.is_header or self.is_finish or self.statements
        )


_SILENT = Shape()


class Shapes:
    """The shapes seen so far; a bounded number."""

    def __init__(self) -> None:
        self._known: dict[bytes, Shape] = {}

    def of(self, raw: bytes) -> Shape:
        key = raw[:MOST_CHARS].translate(None, b"0123456789")
        shape = self._known.get(key)
        if shape is None:
            if len(self._known) >= MOST_SHAPES:
                self._known.clear()
            shape = self._known[key] = _shape(text_of(raw))
        return shape


# Horovod lists a rank and its tensors as srun labels a line with its task.
_TENSORS = linear(r"^\d{1,7}!?: \[[A-Za-z]\w*[./]\w")


def text_of(raw: bytes) -> str:
    text = clean(raw[:MOST_CHARS].decode("utf-8", "replace"))
    if b": [" in raw[:12] and _TENSORS.match(text):
        return text
    text, _, _ = split_prefix(text)
    return text


def _shape(text: str) -> Shape:
    if not text.strip():
        return _SILENT
    statements = tuple(at for at, (_, form) in enumerate(_STATEMENTS) if form.search(text))
    is_echo = _ECHO.search(text) is not None
    is_harmless = _HARMLESS.search(text) is not None
    is_frame = _FRAME.match(text) is not None
    is_own = not is_echo and not is_harmless and not is_frame and _OWN.search(text) is not None
    is_header = text.lstrip().startswith(_HEADER)
    is_progress = (
        not (is_echo or is_own or is_header or is_frame or statements)
        and (said := read_line(text)) is not None
        and said.step is not None
    )
    return Shape(
        is_progress=is_progress,
        is_echo=is_echo,
        is_own=is_own,
        is_header=is_header,
        is_finish=_FINISHED.search(text) is not None,
        is_frame=is_frame,
        statements=statements,
    )


def statements_of(shape: Shape, text: str) -> list[tuple[str, dict[str, str]]]:
    """(name, its numbers and names) of everything that a line states."""
    found = []
    for at in shape.statements:
        name, form = _STATEMENTS[at]
        if match := form.search(text):
            found.append((name, {k: v for k, v in match.groupdict().items() if v is not None}))
    return found


def stream_rank(raw: bytes) -> int | None:
    """Of `[rank3]: …`, as PyTorch writes it before what a rank says."""
    if b"[rank" not in raw[:40]:
        return None
    text = raw[:60].decode("utf-8", "replace")
    found = _STREAM.match(text[text.index("[rank") :])
    return int(found.group("rank")) if found else None


def ranks_in(text: str) -> list[int]:
    """ "3, 5, 9" as numbers; a bounded number of them."""
    return [int(part) for part in re.findall(r"\d{1,7}", text[:4000])][:64]
