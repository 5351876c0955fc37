"""Closes a run in MLflow, wherever its store is: files, a database, a server."""

import os

from rerail_login import without_login
from rerail_not_done import NotDone

PACKAGE = "mlflow.tracking"  # what is imported first, while the report is being made
TERMINAL = ("FINISHED", "FAILED", "KILLED")


def close(run, asked):
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # the program has used it
    from mlflow.tracking import MlflowClient

    uri = run["uri"]
    typed = os.environ.get("MLFLOW_TRACKING_URI", "")
    if typed and without_login(typed) == uri:
        uri = typed  # with the login that was left out of the record
    client = MlflowClient(tracking_uri=uri)
    info = client.get_run(run["run"]).info
    if run["state"] == "open" and info.status in TERMINAL:
        raise NotDone("somebody has closed it as %s" % info.status)
    if info.lifecycle_stage == "deleted":
        raise NotDone("it was deleted")
    end_ms = info.end_time or int(asked["ended_unix"] * 1000)
    client.set_terminated(run["run"], status=asked["status"], end_time=end_ms)
    for name, text in asked["texts"].items():
        client.set_tag(run["run"], "rerail." + name, text)
    for path in asked["files"]:
        try:
            client.log_artifact(run["run"], path, "rerail")
        except Exception as error:
            return "%s, without the report (%s)" % (asked["status"], type(error).__name__)
    return asked["status"]
