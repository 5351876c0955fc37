"""Hooks on the standard library: threads get an alternate stack, signals leave us our place,
and multiprocessing's children say goodbye."""

import sys

import rerail_agent as agent
import rerail_box as box
import rerail_native as native


def on_threading(threading):
    """Python's threads overflow their stacks too: each gets an alternate one before its first line.

    Thread._bootstrap is the first Python code of a thread in every version from 3.8 on.
    """
    library = native.library
    if library is None:
        return

    def begins(args, kwargs):
        library.rerail_thread_enter()

    threading.Thread._bootstrap = native.wrap(
        threading.Thread._bootstrap, before=begins, is_method=True
    )

    def excepthook(args, kwargs):
        if args[0].exc_type is not SystemExit and not box.has_failed():
            name = str(getattr(args[0].thread, "name", "a thread"))
            text = "in %s: %s" % (name, args[0].exc_value)
            box.put_exception(args[0].exc_type, text, args[0].exc_traceback, name)

    wrapped = native.wrap(threading.excepthook, before=excepthook)
    if threading.excepthook is getattr(threading, "__excepthook__", None):
        threading.__excepthook__ = wrapped
    threading.excepthook = wrapped


def on_signal(signal):
    """A Python handler for a fatal signal becomes the one that ours hands over to."""
    library = native.library
    if library is None:
        return
    names = ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT", "SIGTRAP", "SIGSYS")
    fatal = {int(getattr(signal, name)) for name in names if hasattr(signal, name)}

    def after(args, kwargs, result):
        if args and args[0] in fatal:
            library.rerail_keep_place()

    signal.signal = native.wrap(signal.signal, after=after)


def on_multiprocessing_util(util):
    """A worker ends with os._exit after its finalizers: the last finalizer says goodbye."""

    def worker_ends():
        kind, value = sys.exc_info()[:2]
        if value is not None and not isinstance(value, SystemExit):
            box.put_exception(kind, value)
        agent.say_goodbye(agent.GOODBYE_WORKER)

    def worker_begins(_):
        if native.library is not None:
            native.library.rerail_complete_files()
        util.Finalize(None, worker_ends, exitpriority=-1000000)

    worker_begins(None)  # a spawned worker runs no after-fork functions
    util.register_after_fork(agent, worker_begins)


def on_traceback(traceback):
    """From Python 3.13 on a worker's finalizers run when its exception is forgotten already.

    What sees it last is the call that prints it, made by multiprocessing itself; other calls are
    the program's own, about exceptions that it caught.
    """

    def prints(args, kwargs):
        caller = sys._getframe(1)
        if (
            caller.f_code.co_name == "_bootstrap"
            and caller.f_globals.get("__name__") == "multiprocessing.process"
        ):
            kind, value = sys.exc_info()[:2]
            box.put_exception(kind, value)

    traceback.print_exc = native.wrap(traceback.print_exc, before=prints)
