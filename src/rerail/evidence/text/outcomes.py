"""How it ended, as far as a log can tell.

In: exit lines, tracebacks, whether it says that it finished. Out: `Outcome`. The first signal that
was not survived counts, because launchers echo it; a traceback that ends the log is an exit with 1.
"""

from __future__ import annotations

from collections.abc import Sequence

from rerail.evidence.text.exits import ExitLine
from rerail.evidence.text.resumption import Resumption
from rerail.evidence.text.tracebacks import TracebackText
from rerail.records import Outcome


def outcome_of(
    exits: Sequence[ExitLine],
    tracebacks: Sequence[TracebackText],
    finished: bool,
    resumption: Resumption,
) -> Outcome:
    lasting = [e for e in exits if not resumption.after(e.line.number, is_fatal=True)]
    for exit_line in lasting:
        if exit_line.signal:
            who = f"rank {exit_line.rank}" if exit_line.rank is not None else "The process"
            return Outcome(
                "signal",
                f"{who} ended by {exit_line.signal}, says line {exit_line.line.number}.",
                signal=exit_line.signal,
                process=f"rank {exit_line.rank}" if exit_line.rank is not None else None,
            )
    code = next((e.exit_code for e in lasting if e.exit_code), None)
    fatal = [
        t
        for t in tracebacks
        if not (t.is_ignored or (t.is_dump and not t.type))
        and not resumption.after(t.last_line, is_fatal=True)
    ]
    if fatal:
        last = fatal[-1]
        what = last.type or "an exception"
        return Outcome(
            "exit", f"It ended with {what}, says line {last.last_line}.", exit_code=code or 1
        )
    if code is not None:
        return Outcome("exit", f"It ended with exit code {code}.", exit_code=code)
    if finished or any(e.exit_code == 0 for e in lasting):
        return Outcome("ok", "The log says that it finished.", exit_code=0)
    return Outcome("unknown", "The log does not say how it ended.")
