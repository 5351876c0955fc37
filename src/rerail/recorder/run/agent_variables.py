"""The variables that bring the agent into the command's processes.

In: the command and what the user allowed. Out: variables to set; none where the agent is not wanted
or cannot be brought in, and then the record says why.
"""

from __future__ import annotations

from collections.abc import Sequence

from rerail.recorder.run.recording import RunOptions
from rerail.recorder.run_record import RunRecord
from rerail.recorder.saying import say
from rerail.store import layout


def agent_variables(
    command: Sequence[str], options: RunOptions, record: RunRecord
) -> dict[str, str]:
    if not options.use_agent:
        return {}

    def inject() -> dict[str, str]:
        from rerail.agent import inject

        writer = record.writer
        injection = inject(
            writer.path / layout.AGENT,
            options.environ,
            command,
            writer.t0_ns,
            preload=options.preload,
            use_census=options.use_census,
            memory=writer.keep_agent_in_memory(),
        )
        for note in injection.notes:
            writer.event("note", text=note)
        if injection.warning is not None:
            say(injection.warning, options.is_quiet)
        return dict(injection.variables)

    return record.attempt("agent", inject) or {}
