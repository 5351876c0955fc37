"""Names of signals, by number."""

from __future__ import annotations

import signal

# The signals that end programs, as Linux numbers them on the usual processors: for logs and
# statuses, which may come from another machine than this one.
OF_LINUX = {
    1: "SIGHUP",
    2: "SIGINT",
    3: "SIGQUIT",
    4: "SIGILL",
    5: "SIGTRAP",
    6: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    9: "SIGKILL",
    11: "SIGSEGV",
    13: "SIGPIPE",
    15: "SIGTERM",
}
# Who sends one of these wants the run to end, and would be annoyed to find it running again.
STOPPING_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")


def signal_name(number: int) -> str:
    """Return this machine's name of a signal, as SIGTERM or SIGRTMIN+3."""
    try:
        return signal.Signals(number).name
    except ValueError:
        lowest = getattr(signal, "SIGRTMIN", None)
        if lowest is not None and lowest <= number <= signal.SIGRTMAX:
            return f"SIGRTMIN+{number - lowest}"
        return f"signal {number}"
