"""Where a program ends itself: the call of sys.exit or os._exit, and the exception behind it.

Comes in: calls with a code other than 0. Goes out: in the black box the exception that is being
handled, as if nobody had caught it, since the program ends for it; without one the call
itself and the frames that it was made from. Promises: the call does what it did; of
a child that a library ends with os._exit nothing is written.
"""

import sys

import rerail_box as box
import rerail_native as native


def watch(os):
    """`os` is handed in: its own hook on os._exit stays the inner one."""
    sys.exit = native.wrap(sys.exit, before=_leaves_by_sys_exit)
    os._exit = native.wrap(os._exit, before=_leaves_by_underscore_exit)
    sys.modules["posix"]._exit = os._exit  # where a pickle of it looks


def _leaves_by_sys_exit(args, kwargs):
    code = args[0] if args else None
    if code is None or (isinstance(code, int) and not code):
        return
    handled = sys.exc_info()[1]
    if isinstance(handled, Exception):
        box.put_exception(type(handled), handled)
    elif handled is None and getattr(sys, "last_value", None) is None:
        box.put_exit("sys.exit(%s)" % _shown(code), _caller())


def _leaves_by_underscore_exit(args, kwargs):
    code = args[0] if args else (kwargs or {}).get("status")
    frame = _caller()
    if not code or box.is_of_a_library(frame.f_code.co_filename):
        return
    if isinstance(sys.exc_info()[1], Exception):
        box.put_exception(*sys.exc_info())
    else:
        box.put_exit("os._exit(%s)" % _shown(code), frame)


def _caller():
    """The frame that made the call; without the C library there are frames of ours between."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename == native.__file__:
        frame = frame.f_back
    return frame


def _shown(code):
    """A number or a text as it was given; of anything else only what it is."""
    if type(code) in (int, str, bool):
        return repr(code)[:200]
    return type(code).__name__
