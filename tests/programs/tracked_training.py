"""A training that logs to a tracker and ends in the way it is told: TRACKER ENDING [GROUP]."""

import ctypes
import os
import signal
import sys
import time

tracker, ending = sys.argv[1:3]


def end():
    if ending == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif ending == "segfault":
        ctypes.string_at(0)
    elif ending == "interrupt":
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)
    elif ending == "exception":
        raise ValueError("the label is 7")
    elif ending == "secret":
        raise ValueError("cannot log in with --password hunter2-of-somebody")
    elif ending == "exit":
        sys.exit(3)
    elif ending == "oom":
        with open(sys.argv[3], "w") as group:
            group.write(str(os.getpid()))
        held = []
        while True:
            held.append(bytearray(b"x" * (8 << 20)))


if tracker == "mlflow":
    import mlflow

    with mlflow.start_run(run_name="went well"):
        mlflow.log_metric("loss", 0.1)
    mlflow.start_run(run_name="dies")
    mlflow.log_metric("loss", 0.5, step=41)
    end()
elif tracker == "mlflow-with":
    import mlflow

    try:
        with mlflow.start_run(run_name="failed before"):
            raise KeyError("caught")
    except KeyError:
        pass
    with mlflow.start_run(run_name="dies"):
        end()
elif tracker == "wandb":
    import wandb

    wandb.init(project="shelf", mode="offline", dir=os.getcwd())
    wandb.log({"loss": 0.5})
    end()
elif tracker == "wandb-online":
    import wandb

    often = wandb.Settings(x_file_stream_transmit_interval=1)
    wandb.init(project="shelf", name="its own name", config={"rate": 0.1}, settings=often)
    for step in range(5):
        wandb.log({"loss": 1.0 / (step + 1)})
    # What W&B has not sent by then is lost with the program: wait until the server has the last.
    there = wandb.Api().run("/".join((wandb.run.entity, wandb.run.project, wandb.run.id)))
    while there.load(force=True)["summaryMetrics"].get("_step") != 4:
        time.sleep(0.1)
    if sys.argv[3:] == ["finally"]:
        try:
            end()
        finally:
            wandb.finish()
    end()
elif tracker == "tensorboard":
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter("logs/first")
    writer.add_event(Event(step=41))
    writer.flush()
    end()
