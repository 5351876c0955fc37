"""Gates while the command runs: read, judged, written down, and acted upon.

In: the command's output, the agents' black boxes and the gates that were asked for. Out: one `gate`
event and one line on the terminal per gate; with `--on-gate stop` the command is interrupted where
one is not met. Promises: without gates none of this is loaded; what fails here is missing in the
record, and the command goes on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from rerail.recorder.run.gates import Gates, Judged, parse_gate
from rerail.recorder.run.printed_metrics import PrintedMetrics
from rerail.recorder.saying import say
from rerail.store import BoxReader, RunWriter


class GateWatch:
    def __init__(
        self,
        gates: Iterable[str],
        on_gate: str,
        writer: RunWriter,
        interrupt: Callable[[str], None],
        *,
        is_quiet: bool,
    ) -> None:
        parsed = [parse_gate(text) for text in gates]
        self._gates = Gates(parsed)
        self._printed = PrintedMetrics(gate.metric for gate in parsed)
        self._on_gate = on_gate
        self._writer = writer
        self._interrupt = interrupt
        self._is_quiet = is_quiet
        self._boxes = BoxReader(writer.agent_dir, writer.t0_ns)
        self.stopped_because: str | None = None  # the gate that we ended the command for

    def note_output(self, data: bytes, stream: str) -> None:
        if not self._gates.are_judged:
            self._printed.feed(data, stream)

    def look(self) -> None:
        """Twice a second."""
        if self._gates.are_judged:
            return
        self._read_printed(may_stop=True)
        # Rank 0 of those that train speaks for all.
        training = [box for box in self._boxes.read() if box.optimizer_steps or box.epoch]
        box = min(training, key=lambda b: (b.rank or 0, -b.optimizer_steps), default=None)
        if box is not None:
            judged = self._gates.note_agent(box.optimizer_steps, box.epoch, box.loss, box.history)
            self._tell(judged, may_stop=True)

    def close(self) -> None:
        """The command has ended: what it said last, and what was never judged."""
        if self._gates.are_judged:
            return
        self._printed.close()
        self._read_printed(may_stop=False)
        judged, left = self._gates.end()
        self._tell(judged, may_stop=False)
        for gate, why in left:
            text = f"not judged: {why} ({gate})"
            self._writer.event("gate", gate=str(gate), text=text)

    def _read_printed(self, *, may_stop: bool) -> None:
        for metrics, counts in self._printed.read():
            self._tell(self._gates.note_line(metrics, counts), may_stop=may_stop)

    def _tell(self, judged: Iterable[Judged], *, may_stop: bool) -> None:
        for each in judged:
            stops = not each.is_met and self._on_gate == "stop" and may_stop
            stops = stops and self.stopped_because is None
            known = {"value": each.value} if math.isfinite(each.value) else {}
            self._writer.event(
                "gate",
                gate=str(each.gate),
                metric=each.gate.metric,
                asks=each.gate.asks,
                unit=each.gate.unit,
                at=each.at,
                is_met=each.is_met,
                action="stop" if stops else "warn",
                source=each.source,
                text=each.text,
                **known,
            )
            mark = "gate met" if each.is_met else "GATE NOT MET"
            more = "; stopping the run" if stops else ""
            say(f"{mark}: {each.text}{more}", self._is_quiet)
            if stops:
                self.stopped_because = each.text
                self._interrupt(str(each.gate))
