"""The records that pass between rooms: plain data, no input or output, no logic.

The recorder writes them into a run folder (docs/run-folder.md says how), the store reads
them back, and everything later works on these alone. Units are in the names; `t_seconds`
is time since the start of the run on the monotonic clock, so that a clock jump moves nothing.
A field that was not observed is None or empty, never a guess.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from rerail.bounded import Count, Pid, Time
from rerail.vitals_columns import ProcessVitals as ProcessVitals

OutcomeKind = Literal["ok", "exit", "signal", "hang", "unknown"]
# Signals that a process brings on itself: a fault or an abort, not somebody else's doing.
CRASH_SIGNALS = ("SIGSEGV", "SIGBUS", "SIGABRT", "SIGFPE", "SIGILL", "SIGTRAP", "SIGSYS")
RunState = Literal["running", "ended", "lost"]  # lost: the recorder itself was killed


@dataclass(frozen=True)
class Outcome:
    """How the command ended, as the contract's JSON has it."""

    kind: OutcomeKind
    summary: str
    signal: str | None = None
    exit_code: int | None = None
    process: str | None = None


@dataclass(frozen=True)
class RunInfo:
    """`run.json`: which run this is, and how it stands."""

    schema: int
    id: str
    command: list[str]
    cwd: str
    started_unix: Time
    host: str
    rerail_version: str
    recorder_pid: int
    root_pid: int | None
    has_terminal: bool
    state: RunState
    settings: dict[str, Any] = field(default_factory=dict)
    fingerprint: str = ""  # equal for two runs of the same command in the same folder
    elapsed_seconds: Time | None = None
    outcome: Outcome | None = None
    t0_ns: int = 0  # monotonic clock at the start of the run
    recorder_start_ticks: int = 0  # with recorder_pid: tells a reused pid apart
    recorder_scope: str = ""  # boot and pid namespace in which recorder_pid means something


@dataclass(frozen=True)
class Event:
    """One line of `events.jsonl`. `data` holds the fields of its kind."""

    t_seconds: float
    kind: str
    data: dict[str, Any]


@dataclass(frozen=True)
class ProcessRecord:
    """One process of the tree, put together from its events."""

    pid: int
    start_ticks: int  # field 22 of /proc/PID/stat: tells a reused pid apart
    parent_pid: int | None
    role: str  # main, shell, launcher, rank, loader-worker, multiprocessing, helper, daemon, child
    name: str
    command: list[str]
    started_t_seconds: float
    ended_t_seconds: float | None = None
    exit_code: int | None = None
    signal: str | None = None
    dumped_core: bool = False
    ending_source: str | None = None  # wait, pidfd, netlink, zombie, None: nobody told
    rank: int | None = None
    world_size: int | None = None  # of how many ranks
    node: int | None = None  # the number of its machine among those of the job
    worker: int | None = None  # of a loader worker: which one, as torch counts

    @property
    def key(self) -> str:
        return f"{self.pid}-{self.start_ticks}"


@dataclass(frozen=True)
class NativeFrame:
    """One native frame; `function` is None where the library is stripped."""

    address: int
    library: str | None = None  # full path as mapped
    offset: int | None = None  # within the library file
    function: str | None = None


@dataclass(frozen=True)
class PythonFrame:
    file: str
    line: int
    function: str


@dataclass(frozen=True)
class ThreadStack:
    """What one thread was doing: native frames, Python frames, or both; innermost first."""

    thread_id: int
    name: str | None = None
    native: list[NativeFrame] = field(default_factory=list)
    python: list[PythonFrame] = field(default_factory=list)
    is_crashed: bool = False
    waits_for: str | None = None  # wait channel, lock, futex, pipe: in words


@dataclass(frozen=True)
class MappedLibrary:
    """A native library mapped into a process."""

    path: str
    kind: str | None = None  # openmp, blas, cuda, cxx, python, threading, allocator, None
    flavour: str | None = None  # libgomp, libomp, libiomp5, openblas, mkl, …: by content
    base: int | None = None
    soname: str | None = None
    build_id: str | None = None


@dataclass(frozen=True)
class FaultMapping:
    """The mapping of a file that a fault address lies in, and how large the file was afterwards."""

    path: str
    start: int
    end: int
    file_offset: int = 0
    file_size_bytes: int | None = None  # None: the file was gone or could not be read


@dataclass(frozen=True)
class Crash:
    """`agent/*.crash` of one process, symbolised."""

    pid: int
    start_ticks: int
    thread_id: int
    thread_name: str | None
    is_main_thread: bool
    signal: str
    code: str | None  # SEGV_MAPERR, SI_TKILL, …
    address: int | None
    sender_pid: int | None
    t_seconds: float | None
    registers: dict[str, int] = field(default_factory=dict)
    threads: list[ThreadStack] = field(default_factory=list)  # the crashed one first
    libraries: list[MappedLibrary] = field(default_factory=list)
    message: str | None = None  # glibc's or the C++ runtime's last words
    stack_bounds: tuple[int, int] | None = None
    frame_total: int | None = None  # when the stack was deeper than what was kept
    fault_mapping: FaultMapping | None = None  # tells a data file that was cut while mapped
    is_complete: bool = True
    was_survived: bool = False  # an earlier handler dealt with it and the program went on


@dataclass(frozen=True)
class LoadedFile:
    """A data file that the program opened through a hooked loader."""

    path: str
    loader: str  # numpy.load, torch.load, faiss.read_index, …
    size_bytes: int
    is_mapped: bool
    is_compressed: bool = False


@dataclass(frozen=True)
class LoaderSettings:
    """A DataLoader as the program built it."""

    workers: int
    batch_size: int | None
    prefetch: int | None
    start_method: str | None
    pin_memory: bool
    persistent: bool


@dataclass(frozen=True)
class StepPoint:
    step: int
    t_seconds: float
    loss: float | None


@dataclass(frozen=True)
class StepRow(StepPoint):
    """A row of `steps.jsonl`: a step of the training process `pid`; 0 for a printed one."""

    pid: Pid = 0


@dataclass(frozen=True)
class CollectiveCall:
    """One of the last collectives that a process called, by its black box."""

    number: int  # from 1 on, over all groups of this process
    op: str  # all_reduce, …; gradients: those of DistributedDataParallel, within a backward call
    group: str  # its name, "" of the default one; of the gradients the same word
    sequence: int  # from 1 on, within its group: the same on every rank that keeps step
    entered_t_seconds: float
    left_t_seconds: float | None  # None: not left; the work may go on in the background
    has_raised: bool
    is_waited_for: bool  # right now
    size_bytes: int
    shape: list[int]  # the first three sides
    place: PythonFrame | None  # in the user's own code


@dataclass(frozen=True)
class BlackBox:
    """`agent/*.box` of one process: what it last said of itself."""

    pid: int
    start_ticks: int
    parent_pid: int
    python_version: str
    argv: list[str]
    started_t_seconds: float
    said_goodbye: bool
    handler_installed: bool
    handler_ran: bool = False  # the handler of fatal signals began its work
    rank: int | None = None
    world_size: int | None = None
    optimizer_steps: int = 0
    backward_calls: int = 0
    backward_per_step: float | None = None  # gradient accumulation as it really happened
    batches: int = 0
    epoch: int | None = None
    phase: str | None = None  # train, validate, forward, backward, step, data, mining, …
    loss: float | None = None
    first_nonfinite_step: int | None = None
    last_progress_t_seconds: float | None = None
    progress_text: str | None = None  # tqdm: "Training 472/1122"
    progress_total: int | None = None
    batch_shapes: str | None = None
    collective: str | None = None  # in progress; None between collectives
    loaders: list[LoaderSettings] = field(default_factory=list)
    files: list[LoadedFile] = field(default_factory=list)
    history: list[StepPoint] = field(default_factory=list)  # the last few hundred steps
    exception_type: str | None = None  # uncaught, as sys.excepthook saw it
    exception_text: str | None = None
    exception_thread: str | None = None  # its name, if it was not the main thread
    exception_frames: list[PythonFrame] = field(default_factory=list)  # innermost first
    thread_count: int | None = None
    fork_parent_had_threads: bool | None = None  # True in a child forked by a threaded parent
    notes: list[str] = field(default_factory=list)  # hooks that failed, frameworks seen
    exception_t_seconds: float | None = None
    exit_call: str | None = (
        None  # sys.exit(3), os._exit(3): the program ended itself, unless caught
    )
    exit_frames: list[PythonFrame] = field(default_factory=list)  # innermost first
    file_in_hand: str | None = None  # when the exception came, where its message names none
    peer_in_hand: str | None = None  # the server or port of a connection that failed, the same
    exception_cwd: str | None = None  # the folder in which a relative path was looked for
    error_file: str | None = None  # where its standard error went, if that is a file
    output_file: str | None = None  # the same of its standard output
    loader_worker: int | None = None  # which worker of a DataLoader it is, as torch counts
    collectives: list[CollectiveCall] = field(default_factory=list)  # the last twenty
    collective_count: int = 0
    collective_seconds: float = 0.0  # so far, in collectives and in waiting for them
    data_wait_seconds: float = 0.0  # so far, in waiting for the next batch
    backward_seconds: float = 0.0  # so far; holds DistributedDataParallel's reductions


@dataclass(frozen=True)
class PrintedPoint:
    """A row of `progress.jsonl`: how far the training was, by what it had printed."""

    t_seconds: Time
    step: Count | None = None  # as printed
    total: Count | None = None  # of the steps of an epoch, or of all
    epoch: float | None = None
    epochs: Count | None = None
    loss: float | None = None
    phase: str | None = None
    steps: Count = 0  # that this run has done, over epochs that begin anew and since a resume
    every: Count | None = None  # steps between two lines; None where it is not known

    @property
    def tells_life(self) -> bool:
        """Whether `steps` are fine enough to say how long the run has lived."""
        return self.every == 1 or (self.every is not None and self.steps >= 10 * self.every)


MemoryNotion = Literal["proportional", "private, shared counted once", "resident, added up"]


@dataclass(frozen=True)
class VitalsRow:
    """The tree and the machine at one moment, or over one thinned bucket.

    `minimum` and `maximum` hold the bucket's extremes of `tree` and `machine` values by name
    (tree.rss_bytes, machine.available_bytes, …); both are empty for a 10 Hz row.
    """

    t_seconds: float
    span_seconds: float  # 0.0 for a 10 Hz row
    tree: ProcessVitals
    process_count: int
    processes: dict[str, ProcessVitals]  # by ProcessRecord.key
    machine: dict[str, float]  # names in vitals_columns.py; absent where the machine has none
    minimum: dict[str, float] = field(default_factory=dict)
    maximum: dict[str, float] = field(default_factory=dict)

    @property
    def memory_notion(self) -> MemoryNotion:
        """How `tree.rss_bytes` is counted: shared out by the kernel, estimated between two looks,
        or (recordings before there were such columns) with shared pages in every process."""
        tree = self.tree
        if self.process_count <= 1 or tree.proportional >= self.process_count:
            return "proportional"
        elsewhere = tree.anon_elsewhere_bytes + tree.file_elsewhere_bytes
        if elsewhere + tree.shared_elsewhere_bytes > 0:
            return "private, shared counted once"
        return "resident, added up"


@dataclass(frozen=True)
class LockHolder:
    """The thread that holds the lock which another one waits for, and where it is."""

    thread: str  # as a sentence has it: the main thread, thread 2 (flush), the same thread
    thread_id: int
    file: str
    line: int
    function: str


@dataclass(frozen=True)
class TensorGroup:
    """Tensors in main memory that are alike; `bytes` counts each storage once."""

    shape: list[int]
    dtype: str
    has_graph: bool
    count: int
    bytes: int


@dataclass(frozen=True)
class Container:
    """Something that holds many things, and a sample of what came into it last.

    Of a `buffer` (one large array or text) the lengths are bytes. Without a `name` it is not known
    by what name the program knows it.
    """

    kind: str  # list, dict, set, deque, buffer
    length: int
    before: int  # at the first census
    bytes_each: int  # of an element that came since, with what it alone refers to
    objects_each: float = 1.0
    holds: str = ""  # what most of them are: "arrays (256, 512) float64"
    alike: int = 0  # how many of those looked at are that
    looked_at: int = 0
    graphs: int = 0  # how many carry an autograd graph
    class_name: str | None = None  # of a subclass
    of: str | None = None  # local, global, attribute, closure, lru_cache
    name: str | None = None
    path: str | None = None
    file: str | None = None
    function: str | None = None
    line: int | None = None  # that makes it grow, or where the cached function begins
    owner: str | None = None  # class of an attribute


@dataclass(frozen=True)
class TrackedRun:
    """A line of `agent/*.trackers`: a run in an experiment tracker that its process left behind."""

    tracker: str  # mlflow, wandb, tensorboard
    run: str  # its id there; of TensorBoard the folder of its events
    state: str  # open, closed at exit, closed failing
    python: str = ""  # the interpreter that it was opened from
    cwd: str = ""
    package: str = ""  # the folder that the tracker's package was imported from
    uri: str | None = None  # of MLflow's store or W&B's server, without a login
    experiment: str | None = None
    file: str | None = None  # of W&B: its transaction log
    mode: str | None = None  # of W&B: offline, online
    project: str | None = None
    entity: str | None = None


@dataclass(frozen=True)
class Census:
    """A line of `agent/*.census`: what a process whose memory grew held after one of its steps.

    Steps are optimiser steps, of a DataLoader worker its batches. `used_bytes` is resident memory
    without files' pages; of a worker what it shares with nobody.
    """

    pid: int
    start_ticks: int
    t_seconds: Time
    step: int
    since_step: int  # of the first census
    used_bytes: int
    floor_bytes: int | None = None  # the least that it was before
    is_worker: bool = False
    resident_bytes: int | None = None
    blocks: int = 0  # of memory for small Python objects
    heap_bytes: int | None = None  # in use in the C heap
    mapped_files: int | None = None
    seen_share: float | None = None  # of the collector's objects; None: they were not looked at
    tracked: int | None = None  # how many those are
    tensor_bytes: int | None = None
    graph_tensor_bytes: int | None = None
    tensors: list[TensorGroup] = field(default_factory=list)
    walk_is_complete: bool = False
    grown: list[Container] = field(default_factory=list)
    unnamed: list[Container] = field(default_factory=list)
    read: list[Container] = field(default_factory=list)  # long ones that a worker reads
    took_seconds: Time = 0.0
    worked_seconds: Time = 0.0


@dataclass(frozen=True)
class Stall:
    """A stretch without progress, with everybody's stacks."""

    t_seconds: Time
    silent_seconds: Time
    threshold_seconds: Time
    action: str  # report, kill, or the command that was run
    stacks: dict[str, list[ThreadStack]]  # by ProcessRecord.key
    summary: str = ""
    kind: Literal["stuck", "busy"] = "stuck"  # busy: it worked all the while, and was only told of
    is_early: bool = False  # taken in case that somebody ends the run; nobody was told
    is_computing: bool = False  # False for a busy run that only reads or writes
    cpu_cores: float | None = None  # used on average during the silence
    pace_seconds: Time | None = None  # of the run's own steps before
    holders: dict[str, LockHolder] = field(default_factory=dict)  # by ProcessRecord.key


@dataclass(frozen=True)
class MemoryLimit:
    """A limit that the kernel enforces on a process of the tree."""

    source: str  # cgroup-v1:/path, cgroup-v2:/path, RLIMIT_AS, ram
    limit_bytes: int
    peak_bytes: int | None = None
    oom_kills: int = 0  # during the run
    fail_count: int = 0  # during the run


@dataclass(frozen=True)
class AfterDeath:
    """`after.json`: what the machine said once the tree had ended."""

    kernel_lines: list[str] = field(default_factory=list)
    memory_limits: list[MemoryLimit] = field(default_factory=list)
    task_limits: list[dict[str, Any]] = field(default_factory=list)  # pids cgroups: path, max, peak
    process_limits: dict[str, int] = field(default_factory=dict)  # lowest soft RLIMITs in the tree
    core_files: list[str] = field(default_factory=list)
    crash_reports: list[str] = field(default_factory=list)  # macOS .ips, as text
    # By the kernel, for memory, on the whole machine and during the run; None: not known.
    machine_oom_kills: int | None = None
    missing: list[str] = field(default_factory=list)  # sources that could not be read, and why


@dataclass(frozen=True)
class Observation:
    """One thing that was seen, and where it can be seen again.

    `kind` is one of the words of docs/evidence.md; `data` holds the fields of that kind.
    `source` is as in the contract: output:LINE, kernel:N, vitals:TIME, maps:PID, stack:PID:TID,
    exit:PID, box:PID, history:RUN.
    """

    kind: str
    text: str
    source: str
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Evidence:
    """Everything that was observed of one run or one set of logs."""

    outcome: Outcome
    observations: list[Observation]
    facts: dict[str, Any] = field(default_factory=dict)
    origin: Literal["run", "logs"] = "logs"
    incomplete: str = ""  # a sentence on what was not looked at, when the time for it was over
