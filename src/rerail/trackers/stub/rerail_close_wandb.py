"""Closes a run in W&B: one on a server by W&B's own client, an offline one in its file.

Comes in: what the agent wrote down of a run, and what to say. Goes out: what was done. Promises: a
run that somebody else has closed is left alone; nothing is logged into its history, and its name,
tags, notes and config stay; nothing is written into the folder of the program.
"""

import json
import os
import time

from rerail_login import without_login
from rerail_not_done import NotDone
from rerail_wandb_log import TransactionLog

PACKAGE = "wandb"  # what is imported first, while the report is being made
OVER = ("finished", "failed", "killed")
REQUEST_SECONDS = 10
# Of a client that takes up a run for a moment: nothing of this process is to be seen in it.
UNSEEN = {
    "console": "off",
    "disable_code": True,
    "disable_git": True,
    "disable_job_creation": True,
    "save_code": False,
    "x_disable_machine_info": True,
    "x_disable_meta": True,
    "x_disable_stats": True,
    "x_save_requirements": False,
    "x_skip_transaction_log": True,
    "silent": True,
    "symlink": False,
    "init_timeout": 20.0,
}


def close(run, asked):
    wait_until_unused(run["file"], 5.0)
    return close_offline(run, asked) if run["mode"] == "offline" else close_online(run, asked)


def close_online(run, asked):
    """The cause comes first: to say it changes nothing else, and works whatever the state is."""
    find_server(run.get("uri"))
    os.environ["WANDB_SILENT"] = "true"
    os.environ["WANDB_DIR"] = asked["scratch"]
    import wandb

    name = "/".join([run["entity"], run["project"], run["run"]])
    found = wandb.Api(timeout=REQUEST_SECONDS).run(name)
    before = found.state
    if run["state"] == "open" and before in OVER:
        raise NotDone("somebody has closed it as %s" % before)
    found.summary.update({"rerail": dict(asked["texts"])})
    without = upload(found, asked)
    if before not in ("running", "finished"):
        return before + without  # W&B's own exit handler has told its server
    if before == "running" and is_marked_failed(found):
        return "failed" + without
    try:
        end(wandb, run, asked)
        found.update()
    except Exception as error:
        raise NotDone("it stays %s (%s); the cause is there" % (before, type(error).__name__))
    return "failed (exit code %d)%s" % (asked["exit_code"], without)


def upload(found, asked):
    """What to say of a report that did not arrive."""
    said = ""
    for path in asked["files"]:
        try:
            found.upload_file(path, asked["scratch"])
        except Exception as error:  # the cause matters more than the page
            said = ", without the report (%s)" % type(error).__name__
    return said


def is_marked_failed(found):
    """One question, which leaves all else alone; clients since 2026 know it, and W&B's server."""
    try:
        return found.update_state("failed")
    except Exception:
        return False


def end(wandb, run, asked):
    """What every client and server can: take it up, and end it with the exit code.

    W&B's client then forgets the machine that the run was on, and its last step; whoever calls this
    writes both back.
    """
    known = getattr(wandb.Settings, "model_fields", UNSEEN)
    settings = {name: value for name, value in UNSEEN.items() if name in known}
    resumed = wandb.init(
        id=run["run"],
        entity=run["entity"],
        project=run["project"],
        resume="must",
        mode="online",
        dir=asked["scratch"],
        settings=wandb.Settings(**settings),
    )
    resumed.finish(exit_code=asked["exit_code"])


def find_server(uri):
    """That of the program, which it may have named itself; with the login that was left out."""
    typed = os.environ.get("WANDB_BASE_URL", "")
    if uri and without_login(typed) != uri:
        os.environ["WANDB_BASE_URL"] = uri


def close_offline(run, asked):
    """Its transaction log, which `wandb sync` uploads later, gets the end that it lacks."""
    import wandb
    from wandb.proto import wandb_internal_pb2 as messages

    log = TransactionLog(run["file"])
    last = messages.Record.FromString(log.last) if log.last else messages.Record()
    records = []
    if not log.count:
        records += beginning(messages, run, asked, wandb.__version__)
    if last.WhichOneof("record_type") == "exit":
        ending = last
        log.cut_last()  # ours come before it: what follows an end is not read
    else:
        ending = messages.Record()
        ending.exit.exit_code = asked["exit_code"]
        ending.exit.runtime = int(asked["elapsed_seconds"])
    exit_code = ending.exit.exit_code or asked["exit_code"]
    ending.exit.exit_code = exit_code
    summary = messages.Record()
    for name, text in asked["texts"].items():
        item = summary.summary.update.add()
        item.nested_key.extend(["rerail", name])
        item.value_json = json.dumps(text)
    files = messages.Record()
    for name in attach(os.path.join(os.path.dirname(run["file"]), "files"), asked["files"]):
        files.files.files.add().path = name
    records += [summary, files, ending] if files.files.files else [summary, ending]
    number = last.num - 1 if ending is last else last.num
    for record in records:
        number += 1
        record.num = number
    log.append([record.SerializeToString() for record in records])
    was = "" if log.count else ", of which W&B had kept nothing"
    return "failed (exit code %d)%s" % (exit_code, was)


def beginning(messages, run, asked, version):
    """W&B keeps a block of 32 KiB in memory: of a young run that was killed nothing is left."""
    head = messages.Record()
    head.header.version_info.producer = version
    head.header.version_info.min_consumer = "0.40.0"
    first = messages.Record()
    first.run.run_id = run["run"]
    first.run.project = run.get("project") or ""
    first.run.entity = run.get("entity") or ""
    first.run.start_time.FromSeconds(int(asked["started_unix"]))
    return [head, first]


def attach(folder, paths):
    names = []
    for path in paths:
        name = "rerail/" + os.path.basename(path)
        try:
            os.makedirs(os.path.join(folder, "rerail"), exist_ok=True)
            with open(path, "rb") as source, open(os.path.join(folder, name), "wb") as target:
                target.write(source.read())
            names.append(name)
        except OSError:
            pass  # the cause matters more than the page
    return names


def wait_until_unused(path, seconds):
    """W&B's own process notices that the program is gone, and may still write."""
    until = time.monotonic() + seconds
    real = os.path.realpath(path)
    while _is_open_somewhere(real):
        if time.monotonic() > until:
            raise NotDone("another process still writes to it")
        time.sleep(0.1)


def _is_open_somewhere(path):
    for process in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if process.isdigit():
            try:
                folder = "/proc/%s/fd" % process
                if any(os.readlink("%s/%s" % (folder, fd)) == path for fd in os.listdir(folder)):
                    return True
            except OSError:
                continue
    return False
