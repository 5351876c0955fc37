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
elif tracker == "tensorboard":
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter("logs/first")
    writer.add_event(Event(step=41))
    writer.flush()
    end()
