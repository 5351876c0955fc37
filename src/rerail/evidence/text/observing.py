"""Turns what the finders found in one text into observations with their sources.

In: the matches, tracebacks, exits, progress and lines of one text. Out: `TextEvidence` in the words
of docs/evidence.md. Promises: of each kind of observation a bounded number, the last ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from rerail.evidence.first.lines import (
    ECHO_TYPES,
    SAYS_GONE,
    FirstFailure,
    Trouble,
    find_first,
    launcher_root,
)
from rerail.evidence.settle import Claim
from rerail.evidence.text import harmless
from rerail.evidence.text.collectives import find_disagreements
from rerail.evidence.text.exits import ExitLine
from rerail.evidence.text.kernel_lines import facts_of_kill, find_kernel_lines
from rerail.evidence.text.last_words import HINT_TYPE
from rerail.evidence.text.lines import Line
from rerail.evidence.text.memory import find_printed_growth, find_shortages
from rerail.evidence.text.native_stacks import (
    find_native_stacks,
    place_of_crash,
    place_of_hang,
)
from rerail.evidence.text.phases import phase_of_line, phase_of_traceback
from rerail.evidence.text.progress import (
    ProgressPoint,
    first_nonfinite,
    last_loss,
)
from rerail.evidence.text.resumption import Resumption
from rerail.evidence.text.signatures import SYMPTOM, SignatureMatch
from rerail.evidence.text.tracebacks import TracebackText
from rerail.records import Observation, Outcome

MOST_MESSAGE = 1000  # characters of an exception's message that are kept as a fact
SHOWN = 320  # characters of a line that an observation quotes
_KEPT_OF_SIGNATURE = 3
_KEPT_EXITS = 24
_KEPT_TRACEBACKS = 40
_KEPT_SYMPTOMS = 80
_BEFORE_STEPS = ("", "rendezvous", "launching")  # of a line: where steps were done, not there


@dataclass
class TextEvidence:
    """What one text shows."""

    observations: list[Observation] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    claims: list[Claim] = field(default_factory=list)  # of texts beside it, with their own source
    troubles: list[Trouble] = field(default_factory=list)
    outcome: Outcome = field(default_factory=lambda: Outcome("unknown", "The log does not say."))


@dataclass(frozen=True)
class Fatal:
    """The exceptions that nothing caught."""

    tracebacks: list[TracebackText]
    has_own_exception: bool  # one that is no echo
    cut_at: dict[str, Any] | None  # of a traceback whose last line is elsewhere


class TextObserver:
    """Turns what the finders found into observations with their sources."""

    def __init__(
        self,
        label: str,
        who: str,
        resumption: Resumption,
        echoes: frozenset[str],
        context: Set[int] = frozenset(),
        *,
        is_raised: bool = False,
        words: TracebackText | None = None,
    ) -> None:
        self.found = TextEvidence()
        self._label = label
        self._who = who
        self._resumption = resumption
        self._context = context  # numbers of lines that only inform
        self._silent = context if is_raised else frozenset[int]()  # of which no fact is taken
        self._echoes = echoes  # causes whose messages may only report another's end
        self._words = words  # what the end says as an error, where nothing was raised
        self._told = ""  # of those words the line by which a cause is known

    def _add(self, kind: str, text: str, line: int, **data: Any) -> None:
        data["is_context"] = line in self._context or None
        kept = {key: value for key, value in data.items() if value not in (None, "", ())}
        self.found.observations.append(
            Observation(kind, text[:SHOWN], f"{self._label}:{line}", kept)
        )

    def _trouble(
        self, stream: str, line: int, stamp: float | None, is_echo: bool, text: str
    ) -> None:
        who = stream or self._who
        self.found.troubles.append(Trouble(who, line, stamp, is_echo, text[:SHOWN]))

    def matches(self, matches: Sequence[SignatureMatch]) -> dict[int, set[str]]:
        """Return the causes that each line speaks for."""
        causes_at: dict[int, set[str]] = {}
        seen: dict[tuple[str, str], list[SignatureMatch]] = {}
        for match in matches:
            seen.setdefault((match.cause, match.signature.name), []).append(match)
        kept: list[SignatureMatch] = []
        for same in seen.values():
            kept += same[: _KEPT_OF_SIGNATURE - 1] + same[_KEPT_OF_SIGNATURE - 1 :][-1:]
        for match in sorted(kept, key=lambda one: one.line):
            resumed = self._resumption.after(
                match.line,
                is_fatal=match.traceback is not None,
                is_warning=harmless.only_warns(match),
            )
            resumed = resumed or harmless.is_dealt_with(match)
            self._add(
                "line",
                match.text,
                match.line,
                cause=match.cause,
                signature=match.signature.name,
                groups=match.groups or None,
                stream=match.stream or self._who,
                resumed=resumed,
                is_warning=harmless.is_python_warning(match.text) or None,
                is_logged_as_warning=harmless.is_logged_as_warning(match.text) or None,
                is_last_words=self._is_in_words(match),
            )
            for fact, group in match.signature.facts.items():
                if group in match.groups and not resumed and match.line not in self._silent:
                    self.found.facts.setdefault(fact, match.groups[group])
            causes_at.setdefault(match.line, set()).add(match.cause)
            if not resumed and match.signature.weight >= 2 and match.line not in self._silent:
                is_echo = match.cause in self._echoes
                self._trouble(match.stream, match.line, match.stamp, is_echo, match.text)
        return causes_at

    def symptoms(
        self,
        matches: Sequence[SignatureMatch],
        lines: Sequence[Line],
        tracebacks: Sequence[TracebackText],
    ) -> None:
        """What went wrong, and where in the life of the job: once for each pair, the last."""
        inside = {
            (found.file, line): found
            for found in tracebacks[-_KEPT_TRACEBACKS:]
            for line in (found.first_line, *found.source_lines, *found.message_lines)
        }
        index = {(line.file, line.number): at for at, line in enumerate(lines)}
        kept: dict[tuple[str, str], tuple[SignatureMatch, bool]] = {}
        for match in matches[-_KEPT_SYMPTOMS:]:
            traceback = match.traceback or inside.get((match.file, match.line))
            if traceback is not None and traceback.frames:
                numbers = (index.get((traceback.file, n)) for n in traceback.source_lines)
                quoted = [lines[at].text for at in numbers if at is not None]
                phase = phase_of_traceback(traceback, quoted)
            else:
                phase = phase_of_line(lines, index.get((match.file, match.line), 0))
                if phase in _BEFORE_STEPS and self._resumption.before(match.line):
                    phase = "forward"
            resumed = self._resumption.after(match.line, is_fatal=traceback is not None)
            if (traceback is not None and traceback.is_ignored) or harmless.is_dealt_with(match):
                resumed = True
            kept[match.cause, phase] = match, resumed
        for (symptom, phase), (match, resumed) in kept.items():
            self._add(
                "symptom",
                match.text,
                match.line,
                symptom=symptom.removeprefix(SYMPTOM),
                phase=phase or "unknown",
                stream=match.stream or self._who,
                resumed=resumed,
                is_last_words=self._is_in_words(match),
            )

    def tracebacks(
        self, tracebacks: Sequence[TracebackText], causes_at: Mapping[int, Set[str]]
    ) -> Fatal:
        cut_at = None
        fatal: list[tuple[TracebackText, bool]] = []
        for found in tracebacks[-_KEPT_TRACEBACKS:]:
            # Python says so of Ctrl-C too, where it comes during `__del__`; then the program ends.
            is_passed_over = found.is_ignored and found.type != "KeyboardInterrupt"
            handled = is_passed_over or self._resumption.after(found.last_line, is_fatal=True)
            is_echo = self._is_echo(found, causes_at)
            if not (found.type or handled or found.is_dump) and (where := self._where(found)):
                cut_at = where
            if found.type and not handled and found.last_line not in self._silent:
                fatal.append((found, is_echo))
                self._trouble(found.stream, found.last_line, found.stamp, is_echo, found.text)
            self._add(
                "traceback",
                found.text.partition("\n")[0] or "a traceback without its last line",
                found.last_line,
                type=found.type,
                full_type=found.full_type,
                message=found.message[:2000],
                frames=[f"{file}:{line} {name}" for file, line, name in found.frames[-12:]],
                raised_at=found.raised_at,
                where=self._where(found),
                is_raised_in_own_code=found.own_at == len(found.frames) - 1 or None,
                stream=found.stream or self._who,
                role=found.worker,
                is_chained=found.is_chained,
                is_echo=is_echo,
                is_cut=found.is_cut,
                is_lone=not found.frames and not found.has_header,
                was_handled=handled,
            )
        own = [found for found, is_echo in fatal if not is_echo]
        return Fatal(own or [found for found, _ in fatal], bool(own), cut_at)

    def _is_in_words(self, match: SignatureMatch) -> bool | None:
        if self._words is None or match.traceback is not self._words:
            return None
        line = match.text.removeprefix(f"{self._words.full_type}: ")
        self._told = self._told or (line if line in self._words.message.split("\n") else "")
        return True

    def last_words(self) -> None:
        if (words := self._words) is None:
            return
        is_marked = words.type != HINT_TYPE
        self._add(
            "last-words",
            words.message.partition("\n")[0],
            words.first_line,
            message=words.message[:2000],
            is_marked=is_marked,
            is_last_words=True,
            stream=words.stream or self._who,
        )
        if is_marked:
            said = [line for line in words.message.split("\n") if line != self._told]
            text = "\n".join([*filter(None, [self._told]), *said])
            self.found.facts.setdefault("exception_text", text[:MOST_MESSAGE])

    def raised(self, fatal: Fatal, stood_at: dict[str, Any] | None = None) -> None:
        """What ended it, and where; of several ranks, the one that failed first.

        Of a chain, the program's own frame says more than a library's.
        """
        facts = self.found.facts
        of_first = [
            f for f in fatal.tracebacks if f.stream and f.stream == facts.get("failed_first")
        ]
        for found in of_first or fatal.tracebacks:
            if found.frames:
                if found.is_in_own_code or "raised_at" not in facts:
                    facts["raised_at"] = found.raised_at
                if where := self._where(found):
                    facts["where"] = where
                facts["exception"] = found.type
            if found.frames or "exception" not in facts:
                facts["exception_text"] = found.text[:MOST_MESSAGE]
        if stood_at is not None and not fatal.has_own_exception:
            facts["where"] = stood_at
        elif fatal.cut_at is not None:
            facts.setdefault("where", fatal.cut_at)

    def _where(self, found: TracebackText) -> dict[str, Any] | None:
        where = found.where
        process = found.worker or found.stream or self._who
        return {**where, "process": process} if where and process else where

    def _is_echo(self, found: TracebackText, causes_at: Mapping[int, Set[str]]) -> bool:
        """Whether it only says that somebody else is gone."""
        if found.type in ECHO_TYPES:
            return True
        causes: set[str] = set()
        for line, named in causes_at.items():
            if found.first_line <= line <= found.last_line:
                causes |= named
        return causes <= self._echoes and bool(causes or SAYS_GONE.fullmatch(found.type))

    def exits(self, exits: Sequence[ExitLine]) -> None:
        for found in exits[-_KEPT_EXITS:]:
            line = found.line
            resumed = self._resumption.after(line.number, is_fatal=True)
            self._add(
                "exit-line",
                line.text.strip(),
                line.number,
                signal=found.signal,
                exit_code=found.exit_code,
                rank=found.rank,
                by=found.by,
                resumed=resumed,
                stream=line.stream or self._who,
            )

    def native(self, lines: Sequence[Line]) -> dict[str, Any] | None:
        """Return where it crashed or hung, if a dump says so."""
        for found in find_kernel_lines(lines):
            self._add(
                "kernel-line",
                found.line.text.strip(),
                found.line.number,
                what=found.what,
                **found.fields,
            )
            if library := found.fields.get("library"):
                self.found.facts.setdefault("library", library)
            if found.what == "oom-kill":
                self.found.facts.update(facts_of_kill(found))
        lasting = []
        for stack in find_native_stacks(lines):
            resumed = self._resumption.after(stack.first.number, is_fatal=True)
            kind = "faulthandler" if stack.tool in ("faulthandler", "py-spy") else "native-stack"
            shown = (
                stack.fatal
                or f"a {stack.tool} stack, innermost in {stack.library or 'the program'}"
            )
            self._add(
                kind,
                shown,
                stack.first.number,
                fatal=stack.fatal,
                tool=stack.tool,
                library=stack.library,
                frames=[f"{library}:{name}" for library, name in stack.frames[:40]],
                is_recursion=stack.is_recursion,
                is_waiting=stack.is_waiting or None,
                resumed=resumed,
            )
            if not resumed:
                lasting.append(stack)
                if stack.library:
                    self.found.facts.setdefault("library", stack.library)
        telling = place_of_crash(lasting) or place_of_hang(lasting)
        if telling is None or not telling.where:
            return None
        process = telling.first.stream or self._who
        return {**telling.where, **({"process": process} if process else {})}

    def memory(self, lines: Sequence[Line]) -> None:
        for shortage in find_shortages(lines):
            self._add(
                "gpu-memory",
                shortage.line.text.strip(),
                shortage.line.number,
                backend=shortage.backend,
                requested_bytes=shortage.requested_bytes,
                total_bytes=shortage.total_bytes,
                free_bytes=shortage.free_bytes,
                allocated_bytes=shortage.allocated_bytes,
                idle_bytes=shortage.idle_bytes,
                looks_fragmented=shortage.looks_fragmented,
                idle_share=shortage.idle_share,
                resumed=self._resumption.after(shortage.line.number, is_fatal=True),
            )
        for growth in find_printed_growth(lines)[:4]:
            self._add(
                "memory-growth",
                f"printed memory grew over {growth.points} lines, from line {growth.first.number}"
                f" ({growth.first.text.strip()[:80]}) to: {growth.last.text.strip()[:80]}",
                growth.last.number,
                shape="leak",
                ratio=round(growth.last_value / growth.first_value, 3)
                if growth.first_value
                else None,
                points=growth.points,
                printed=True,
            )

    def progress(self, points: Sequence[ProgressPoint], finishes: Sequence[Line]) -> None:
        facts = self.found.facts
        if points:
            last = points[-1]
            step, total, epoch = (
                next(
                    (v for p in reversed(points[-200:]) if (v := getattr(p, name)) is not None),
                    None,
                )
                for name in ("step", "total", "epoch")
            )
            loss = last_loss(points[-200:])
            self._add(
                "progress",
                last.line.text.strip(),
                last.line.number,
                step=step,
                total=total,
                epoch=epoch,
                loss=_json_number(loss),
                phase=last.phase,
            )
            for name, value in (
                ("last_step", step),
                ("total", total),
                ("epoch", epoch),
                ("loss", loss),
            ):
                if value is not None:
                    facts[name] = _json_number(value)
        if (bad := first_nonfinite(points)) is not None:
            self._add(
                "nonfinite-loss",
                bad.line.text.strip(),
                bad.line.number,
                step=bad.step,
                value=str(bad.loss if bad.loss is not None else bad.gradient_norm),
            )
        if finishes:
            self._add("healthy-end", finishes[-1].text.strip(), finishes[-1].number)

    def ranks(self, lines: Sequence[Line]) -> None:
        for found in find_disagreements(lines)[:3]:
            self._add(
                "collective-disagreement",
                f"collective {found.number} differs between ranks: {found.one}; {found.other}",
                found.line.number,
                number=found.number,
            )
        first = find_first(self.found.troubles)
        if first:
            self.found.observations.append(first_observation(first, self._label, first.position))
            self.found.facts["failed_first"] = first.who
            self.found.facts["echoes"] = list(first.others)
            return
        named = launcher_root([line.text for line in lines[-400:]])
        if named is not None:
            self.found.facts.setdefault("failed_first", f"rank {named}")


def first_observation(first: FirstFailure, label: str, line: int) -> Observation:
    return Observation(
        "failed-first",
        f"{first.who} failed first: {first.text}"[:SHOWN],
        f"{label}:{line}",
        {"who": first.who, "others": list(first.others), "by": first.by},
    )


def _json_number(value: float | int | None) -> float | int | str | None:
    """JSON has no NaN; a whole number stays whole."""
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            return str(value)
        return int(value) if value.is_integer() else value
    return value
