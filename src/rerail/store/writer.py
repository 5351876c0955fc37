"""Writing one run down while it happens.

In: what the recorder saw. Out: the files of docs/run-folder.md. Promises: no method raises OSError,
whatever the disk does; what could not be written is in `missing`, once per artefact; nothing waits
in a buffer of ours when the disk takes it, so a killed recorder loses nothing; a full disk still
gets the ending, from space that was set aside at the start.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rerail.privacy import Masker, blank, mask_file
from rerail.records import Outcome, RunInfo
from rerail.store import agent_memory, layout, liveness
from rerail.store.agent_files import AgentFiles
from rerail.store.appending import FaultLog, LineLog
from rerail.store.bounds import document_bytes
from rerail.store.codec import DecodeError, decode, dump_line, dumps, encode, loads
from rerail.store.jsonlines import read_objects, unreadable
from rerail.store.output_log import OutputLog
from rerail.store.private import read_private
from rerail.store.regular_files import open_append, read_regular

if TYPE_CHECKING:
    from rerail.store.vitals_files import VitalsFiles

# Room for the last events, run.json, after.json, crashes.json and diagnosis.json of a usual death,
# and for the black box and the crash record of a process that kept them in memory.
RESERVE_BYTES = 768 * 1024
WRITEBACK_SECONDS = 5.0  # as often as ext4 commits its journal; what a power cut may cost


class RunWriter:
    """Streams one run into its folder; made by `Store.create_run` or `RunWriter.adopt`.

    Used by one thread of one process at a time.
    """

    def __init__(
        self, path: Path, info: RunInfo, faults: FaultLog | None = None, *, is_resumed: bool = False
    ) -> None:
        self.path = path
        self.agent_dir = AgentFiles(path)
        self._memory_lock = -1
        self._info = info
        self._faults = faults or FaultLog()
        self._lock = liveness.hold(path)
        self._lines: dict[str, LineLog] = {}
        self.masker = Masker(self._keep_secret)
        make_output = OutputLog.resume if is_resumed else OutputLog
        self._output = make_output(path, self._faults, self.event, self.masker)
        self._has_started = is_resumed
        self._has_ended = False
        self._can_use_reserve = False
        self._writeback_at = WRITEBACK_SECONDS
        self._vitals: VitalsFiles | None = None

    @classmethod
    def adopt(cls, path: Path) -> RunWriter:
        """Go on with a run whose recorder was killed: same files, same clock, same counts."""
        try:
            info = decode(
                RunInfo, loads(read_regular(path / layout.RUN, document_bytes(layout.RUN)))
            )
        except (OSError, DecodeError) as error:
            raise unreadable(path / layout.RUN, str(error)) from None
        private = read_private(path)
        if private.command:
            info = dataclasses.replace(info, command=private.command)
        writer = cls(path, info, is_resumed=True)
        writer.masker.known.load(private.secrets)
        writer._has_ended = any(
            event.get("kind") == "run-ended" for event in read_objects(path / layout.EVENTS)
        )
        return writer

    @property
    def id(self) -> str:
        return self._info.id

    @property
    def info(self) -> RunInfo:
        return self._info

    @property
    def t0_ns(self) -> int:
        """Monotonic nanoseconds at the start of the run: RERAIL_T0 of the agent."""
        return self._info.t0_ns

    @property
    def lock_descriptor(self) -> int:
        """Says that the run is live while open; a forked guardian that keeps it keeps the lock."""
        return self._lock

    @property
    def descriptors(self) -> list[int]:
        """What a forked process has to keep open to go on with this writer."""
        logs = [log.descriptor for log in self._lines.values()]
        return [each for each in (self._lock, *logs) if each >= 0]

    @property
    def missing(self) -> list[tuple[str, str]]:
        """What the record lacks, and why: each artefact once."""
        return self._faults.entries()

    def now(self) -> float:
        """Seconds since the start of the run."""
        return (time.monotonic_ns() - self._info.t0_ns) / 1e9

    def event(self, kind: str, *, t_seconds: float | None = None, **data: Any) -> None:
        """Append one event. Beginning and end are on the disk when this returns."""
        if kind == "run-started":
            if self._has_started:
                return
            self._has_started = True
        if kind == "run-ended":
            if self._has_ended:
                return
            self._has_ended = True
        is_root_end = kind == "process-ended" and data.get("pid") == self._info.root_pid
        t = self.now() if t_seconds is None else t_seconds
        line = {"t": round(t, 3), "kind": kind, **self.masker.mask_value(data)}
        is_durable = kind in ("run-started", "run-ended") or is_root_end
        if is_root_end or kind == "run-ended":
            self._release_reserve()
        self._log(layout.EVENTS).append(dump_line(line), is_durable)
        if t >= self._writeback_at:
            self._start_writeback(t)

    def together(self) -> AbstractContextManager[None]:
        """Events within this block go out in one write at its end; those that must be on the disk
        at once do not belong into it."""
        return self._log(layout.EVENTS).together()

    def output(self, data: bytes, stream: str, t_seconds: float) -> None:
        """Keep bytes that the command printed, in order of arrival."""
        self._output.write(data, stream, t_seconds)
        if t_seconds >= self._writeback_at:
            self._start_writeback(t_seconds)

    def skip_output(self, byte_count: int, newline_count: int) -> None:
        """Count output that cannot be kept."""
        self._output.skip(byte_count, newline_count)

    def look_at_output(self) -> None:
        """Ten times a second: a flood of output is written once it has passed."""
        self._output.look(self.now())

    @property
    def holds_output(self) -> bool:
        return self._output.holds_output

    @property
    def vitals(self) -> VitalsFiles:
        if self._vitals is None:
            from rerail.store.vitals_files import VitalsFiles

            self._vitals = VitalsFiles(
                self.path, lambda what, why: self.event("missing", what=what, why=why)
            )
        return self._vitals

    def append(self, name: str, value: Any) -> bool:
        """Append one record or object to a .jsonl artefact such as `stalls.jsonl`."""
        plain = value if isinstance(value, dict) else encode(value)
        if not name.startswith("vitals"):  # numbers, many of them
            plain = self.masker.mask_value(plain)
        return self._log(name).append(dump_line(plain))

    def write_json(self, name: str, value: Any) -> bool:
        """Replace an artefact as a whole: the old text or the new one, never a half.

        An object or a record gets the schema number; a list becomes {"schema", "items"}.
        """
        return self._replace_json(name, self.masker.mask_value(encode(value)))

    def _replace_json(self, name: str, value: Any) -> bool:
        plain = encode(value)
        if isinstance(plain, list):
            plain = {"items": plain}
        if isinstance(plain, dict):
            plain = {"schema": layout.SCHEMA, **plain}
        data = dumps(plain, indent=1).encode("ascii") + b"\n"
        path = self.path / name
        try:
            if path.parent != self.path:
                path.parent.mkdir(mode=layout.FOLDER_MODE, exist_ok=True)
            layout.replace_file(path, data)
            return True
        except OSError as error:
            if self._can_use_reserve and self._drop_reserve():
                return self._replace_json(name, value)
            if self._can_use_reserve and name == layout.RUN and _overwrites(path, data):
                return True
            self._faults.add(name, error)
            return False

    def update_info(self, **fields: Any) -> None:
        """Change fields of run.json (root_pid, settings, …)."""
        self._info = info = dataclasses.replace(self._info, **fields)
        self._replace_json(
            layout.RUN,
            dataclasses.replace(  # the other fields are of our own making
                info,
                command=self.masker.mask_command(info.command),
                cwd=self.masker.mask_text(info.cwd),
                settings=self.masker.mask_value(info.settings),
                outcome=self.masker.mask_value(info.outcome),
            ),
        )

    def begin(self) -> None:
        """Write run.json for the first time, and the command as it was typed into the private file.

        The command waits to be started: what may hold a secret is left blank for now, and masked
        with care at the next change, when it runs.
        """
        info = self._info
        self._replace_json(
            layout.RUN,
            dataclasses.replace(
                info,
                command=blank(info.command),
                cwd=blank(info.cwd),
                settings=blank(info.settings),
            ),
        )
        self._keep_private(schema=layout.SCHEMA, command=info.command)

    def keep_environment(self, environ: Mapping[str, str], addresses: Iterable[str] = ()) -> None:
        """Know the secrets of the environment; those by name go into the private file.

        `addresses`: where notifications go.
        """
        self.masker.learn_addresses(addresses)
        hidden = self.masker.learn_environment(environ)
        if hidden:
            self._keep_private(environment=hidden)

    def _keep_private(self, **fields: Any) -> None:
        self._log(layout.PRIVATE).append(dump_line(fields))

    def _keep_secret(self, number: int, value: str, kind: str) -> None:
        self._keep_private(secret=number, value=value, what=kind)

    def keep_agent_in_memory(self) -> Path | None:
        """From now on the processes write of themselves into this folder; None: no place for it."""
        made = agent_memory.make(self.path)
        if made is None:
            return None
        memory, self._memory_lock = made
        self.agent_dir = AgentFiles(self.path, memory)
        return memory

    def copy_agent_files(self) -> bool:
        """Bring the copies on the disk up to date; whether a process writes there itself."""
        memory = self.agent_dir.memory
        if memory is None:
            return True
        agent_memory.copy_changed(memory, self.path)
        return agent_memory.has_others(memory, self.path)

    def bring_agent_files_home(self, gone: Sequence[str] = ()) -> None:
        """Copy what the processes wrote into the run folder, and remove the folder in memory.

        `gone`: names that were removed from memory, and whose copies go too. What does not fit onto
        the disk stays in memory, where readers look first.
        """
        memory = self.agent_dir.memory
        self.agent_dir = AgentFiles(self.path)
        for name in gone:
            with suppress(OSError):
                (self.path / layout.AGENT / name).unlink()
        if memory is not None:
            problem = agent_memory.copy_changed(memory, self.path)
            if problem is not None and self._drop_reserve():
                problem = agent_memory.copy_changed(memory, self.path)
            if problem is None or not self.path.is_dir():
                agent_memory.remove(memory)
            else:
                self._faults.add(layout.AGENT, problem)
        if self._memory_lock >= 0:
            os.close(self._memory_lock)
            self._memory_lock = -1

    def mask_agent_files(self) -> None:
        """What the processes wrote of themselves, once they have ended."""
        for path in self.agent_dir.everywhere():
            try:
                mask_file(path, self.masker)
            except OSError as error:
                self._faults.add(f"masking of {path.name}", error)

    def finish(self, outcome: Outcome, elapsed_seconds: float) -> None:
        """Write how the run ended, say what is missing, and let go of the folder."""
        self._release_reserve()
        self.bring_agent_files_home()
        self._output.close()
        for log in self._lines.values():
            log.flush(is_urgent=True)
        if not self.path.is_dir():
            self._faults.add("run folder", "it was removed during the run")
        for name in self._lines:
            if not (self.path / name).exists() and name not in dict(self.missing):
                self._faults.add(name, "it was removed during the run")
        self.update_info(state="ended", outcome=outcome, elapsed_seconds=round(elapsed_seconds, 3))
        for what, why in self.missing:
            self.event("missing", what=what, why=why)
        self.event("run-ended", outcome=encode(outcome))
        self._drop_reserve()
        layout.sync_folder(self.path)
        self.close()

    @property
    def has_answered(self) -> bool:
        """Whether the record is complete as far as its disk took it."""
        return True

    def let_go(self) -> None:
        """Write what waits in memory, and leave the folder to whoever adopts it."""
        self._output.let_go()
        for log in self._lines.values():
            log.flush(is_urgent=True)
        self.close()

    def close(self) -> None:
        """Let go of the folder without an ending: the run will read as lost."""
        self.close_files()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def close_files(self) -> None:
        """Close what this process has open, but for the lock; another process goes on writing."""
        for log in self._lines.values():
            log.close()

    def _log(self, name: str) -> LineLog:
        log = self._lines.get(name)
        if log is None:
            log = self._lines[name] = LineLog(self.path / name, self._faults)
        return log

    def _start_writeback(self, t_seconds: float) -> None:
        self._writeback_at = t_seconds + WRITEBACK_SECONDS
        self._output.start_writeback()
        for log in self._lines.values():
            log.start_writeback()

    def _release_reserve(self) -> None:
        """The command is over: from now on nobody but us competes for the last free bytes."""
        self._can_use_reserve = True
        if self._faults.entries():
            self._drop_reserve()
            for log in self._lines.values():
                log.flush(is_urgent=True)

    def _drop_reserve(self) -> bool:
        """True if there was a reserve and it is free space now."""
        try:
            (self.path / layout.RESERVE).unlink()
            return True
        except OSError:
            return False


def _overwrites(path: Path, data: bytes) -> bool:
    """How a run ended is worth more than a run.json that is never seen half-written."""
    try:
        layout.overwrite_file(path, data)
        return True
    except OSError:
        return False


def set_reserve_aside(path: Path) -> None:
    """Take the space now that the ending will need if the disk is full by then."""
    descriptor = open_append(path / layout.RESERVE)
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, RESERVE_BYTES)
        else:
            layout.write_all(descriptor, bytes(RESERVE_BYTES))
    finally:
        os.close(descriptor)
