"""Hooks on experiment trackers: which runs of MLflow, W&B and TensorBoard this process has open.

Comes in: the modules that open and close such runs, once the program has imported them. Goes out:
<pid>-<start>.trackers beside the black box, written anew whenever a run is opened or closed (which
takes those libraries milliseconds), so that it is there after SIGKILL. Promises: nothing is sent,
nothing of the tracker is called that would; no login is written down.
"""

import os
import sys

import rerail_box as box
import rerail_imports
import rerail_native as native

login = rerail_imports.hook_module("rerail_login")

MOST_RUNS = 32  # of those that are of interest: the newest
_MOST_TEXT = 1000
OPEN, CLOSED_AT_EXIT, CLOSED_FAILING = "open", "closed at exit", "closed failing"

_runs = {}  # (tracker, run) -> what is written down of it
_failing = {}  # the same key -> id of the exception that passed through as it was closed
_is_ending = False
_whose = 0  # pid of the process that these are of


def opened(tracker, run, package, **about):
    _forget_parent()
    row = {"tracker": tracker, "run": _text(run), "state": OPEN, "package": _home_of(package)}
    row.update((name, _text(value)) for name, value in about.items() if value is not None)
    _runs.pop((tracker, row["run"]), None)
    _failing.pop((tracker, row["run"]), None)
    _runs[tracker, row["run"]] = row
    while len(_runs) > MOST_RUNS:
        del _runs[next(iter(_runs))]
    _be_first_at_exit()
    _write()


def closed(tracker, run):
    """A run that ended before the program did is no longer of interest."""
    _forget_parent()
    key = tracker, _text(run)
    if key not in _runs:
        return
    passing = sys.exc_info()[1]
    if _is_ending:
        _runs[key]["state"] = CLOSED_AT_EXIT
    elif passing is not None:
        _runs[key]["state"] = CLOSED_FAILING
        _failing[key] = id(passing)
    else:
        del _runs[key]
    _write()


def _forget_parent():
    """What a forked child has from its parent is for the parent to write down."""
    global _whose
    if _whose != os.getpid():
        _whose = os.getpid()
        _runs.clear()
        _failing.clear()


def _at_exit():
    """Before the trackers' own: they close what is open, as if all were well."""
    global _is_ending
    try:
        _is_ending = True
        _forget_parent()
        last = getattr(sys, "last_value", None)
        for key, known in _failing.items():
            if last is not None and known != id(last):  # that one was caught
                _runs.pop(key, None)
        for row in _runs.values():
            if row["tracker"] == "wandb" and row["state"] == OPEN:
                row["state"] = CLOSED_AT_EXIT  # by W&B's own process: nothing here sees it happen
        if _runs or _failing:
            _write()
    except Exception as error:
        box.note_failure("trackers", error)


def _be_first_at_exit():
    import atexit

    atexit.unregister(_at_exit)
    atexit.register(_at_exit)


def _text(value):
    return str(value)[:_MOST_TEXT]


def _home_of(package):
    """The folder that it was imported from: where a process after this one finds it too."""
    file = getattr(sys.modules.get(package), "__file__", None)
    return os.path.dirname(os.path.dirname(os.path.abspath(file))) if file else ""


def _write():
    if not native.may_open():
        return
    import json

    path = native.path_of(".trackers")
    head = {"schema": 1, "python": sys.executable or "", "cwd": os.getcwd()}
    # Whether the program dies of the exception that closed a run is known at its exit.
    rows = [row for key, row in _runs.items() if _is_ending or key not in _failing]
    lines = [json.dumps(row) + "\n" for row in [head, *rows]]
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path + ".new", flags, 0o600)
    try:
        os.write(descriptor, "".join(lines).encode("ascii", "replace"))
    finally:
        os.close(descriptor)
    os.replace(path + ".new", path)


def on_mlflow_client(client):
    """Whoever makes a run, the program itself or a trainer's logger, makes it through this."""
    service = client.TrackingServiceClient

    def created(args, kwargs, result):
        if result is not ...:
            _mlflow_run(result.info, args[0].tracking_uri)

    def terminated(args, kwargs, result):
        if result is not ...:
            closed("mlflow", args[1] if len(args) > 1 else kwargs["run_id"])

    service.create_run = native.wrap(service.create_run, after=created, is_method=True)
    service.set_terminated = native.wrap(service.set_terminated, after=terminated, is_method=True)


def on_mlflow_fluent(fluent):
    """A run that is taken up again is not made."""

    def started(args, kwargs, result):
        if result is not ... and ("mlflow", result.info.run_id) not in _runs:
            utils = sys.modules["mlflow.tracking._tracking_service.utils"]
            _mlflow_run(result.info, utils.get_tracking_uri())

    fluent.start_run = native.wrap(fluent.start_run, after=started)


def _mlflow_run(info, uri):
    opened(
        "mlflow",
        info.run_id,
        "mlflow",
        uri=login.without_login(uri),
        experiment=getattr(info, "experiment_id", None),
    )


def on_wandb_init(module):
    def began(args, kwargs, result):
        settings = getattr(result, "settings", None)
        mode = getattr(settings, "mode", None)
        if result is ... or settings is None or mode == "disabled":
            return
        is_offline = mode == "offline" or bool(getattr(settings, "_offline", False))
        opened(
            "wandb",
            result.id,
            "wandb",
            file=settings.sync_file,
            mode="offline" if is_offline else "online",
            uri=login.without_login(getattr(settings, "base_url", None) or ""),
            # Of an online run the server has said whose it is.
            project=getattr(result, "project", None) or getattr(settings, "project", None),
            entity=getattr(result, "entity", None) or getattr(settings, "entity", None),
        )

    module.init = native.wrap(module.init, after=began)


def on_wandb_run(module):
    name = "_atexit_cleanup" if hasattr(module.Run, "_atexit_cleanup") else "finish"

    def finished(args, kwargs, result):
        if result is not ...:
            closed("wandb", args[0].id)

    wrapped = native.wrap(getattr(module.Run, name), after=finished, is_method=True)
    setattr(module.Run, name, wrapped)


def on_event_writer(module):
    """TensorBoard's and tensorboardX's, below the SummaryWriter of torch and of Lightning."""
    writer = module.EventFileWriter

    def made(args, kwargs, result):
        if result is not ...:
            folder = os.fspath(args[1] if len(args) > 1 else kwargs["logdir"])
            if "://" not in folder:
                folder = os.path.abspath(folder)
                opened("tensorboard", folder, module.__name__.partition(".")[0])
                args[0].__dict__["_rerail_folder"] = folder

    def shut(args, kwargs, result):
        folder = getattr(args[0], "_rerail_folder", None)
        if folder is not None:
            closed("tensorboard", folder)

    writer.__init__ = native.wrap(writer.__init__, after=made, is_method=True)
    writer.close = native.wrap(writer.close, after=shut, is_method=True)
