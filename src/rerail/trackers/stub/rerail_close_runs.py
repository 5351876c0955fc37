"""Closes runs in the trackers of a program that died: run by the interpreter that it ran in.

Comes in: on standard input one JSON document: what to say, and which runs. Goes out: one line of
JSON for each run, with `did`, what was done, or `why`, why nothing was. Promises: CPython 3.8 on,
nothing but the standard library and the tracker's own package; standard output holds those lines
alone; one run that fails does not keep the others open. Whoever starts this bounds its time.
"""

import json
import os
import sys
import time

TERMINAL = ("FINISHED", "FAILED", "KILLED")


class NotDone(Exception):
    """Why a run was left as it is, in words."""


def main(tracker, package):
    answers = os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (1, 2):  # what the libraries print is nobody's concern
        os.dup2(nothing, descriptor)
    if package and package not in sys.path:
        sys.path.append(package)
    try:
        __import__(IMPORTED[tracker])  # takes a second or two, while the report is made
    except BaseException:
        pass  # told below, of each run
    asked = json.loads(sys.stdin.buffer.read())
    for run in asked["runs"]:
        answer = {"tracker": run["tracker"], "run": run["run"]}
        try:
            answer["did"] = CLOSERS[run["tracker"]](run, asked)
        except NotDone as error:
            answer["why"] = str(error)
        except BaseException as error:
            first = (str(error).strip().splitlines() or [""])[0]
            answer["why"] = ("%s: %s" % (type(error).__name__, first))[:300].rstrip(": ")
        os.write(answers, json.dumps(answer).encode("ascii") + b"\n")
    os._exit(0)  # an atexit of a tracker may wait for a server


def close_mlflow(run, asked):
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


def without_login(uri):
    """Without name and password, and without the query, where some put them."""
    before, sign, rest = str(uri).partition("://")
    if not sign or rest.startswith("/"):
        return str(uri)
    if before.startswith("http"):
        host, slash, path = rest.partition("/")
        rest = host.rpartition("@")[2] + slash + path
    else:  # SQLAlchemy takes a password with a slash or a question mark in it
        rest = rest.rpartition("@")[2]
    return before + sign + rest.partition("?")[0]


def close_wandb(run, asked):
    """Its transaction log, which `wandb sync` uploads later, gets the end that it lacks."""
    if run["mode"] != "offline":
        raise NotDone("it is not an offline run; W&B's server will call it crashed")
    path = run["file"]
    wait_until_unused(path, 5.0)
    import wandb
    from wandb.proto import wandb_internal_pb2 as messages

    log = TransactionLog(path)
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
    for name in attach(os.path.join(os.path.dirname(path), "files"), asked["files"]):
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


class TransactionLog:
    """W&B's file of records, framed as in LevelDB's log: what is whole in it, and a new end.

    W&B's package has no writer in Python any more. A file begins with seven bytes of its own, then
    come blocks of 32 KiB; a record is one piece, or several across blocks, each with a checksum,
    its length and its kind.
    """

    BLOCK, HEAD, PIECE = 32768, 7, 7
    WHOLE, FIRST, MIDDLE, LAST = 1, 2, 3, 4

    def __init__(self, path):
        self.path = path
        self.count = 0
        self.last = b""  # the last record that is whole
        self.last_at = self.end = self.HEAD  # where it begins; where the next one goes
        with open(path, "rb") as file:
            if file.read(self.HEAD)[:4] != b":W&B":
                raise NotDone("its file is not one of W&B's")
            self._read(file)

    def _read(self, file):
        from struct import unpack
        from zlib import crc32

        at, parts, began = self.HEAD, None, self.HEAD
        while True:
            left = self.BLOCK - at % self.BLOCK
            if left < self.PIECE:
                file.seek(left, 1)
                at += left
                continue
            head = file.read(self.PIECE)
            if len(head) < self.PIECE:
                return
            checksum, length, kind = unpack("<LHB", head)
            data = file.read(length)
            is_sound = len(data) == length and crc32(data, crc32(bytes([kind]))) == checksum
            if not is_sound or kind not in (1, 2, 3, 4):
                return
            if kind in (self.WHOLE, self.FIRST):
                parts, began = [], at
            elif parts is None:
                return
            parts.append(data)
            at += self.PIECE + length
            if kind in (self.WHOLE, self.LAST):
                self.last, self.last_at, self.end = b"".join(parts), began, at
                self.count += 1
                parts = None

    def cut_last(self):
        self.end = self.last_at

    def append(self, records):
        """In one write, in place of what was torn: half a record that no reader can use."""
        octets = bytearray()
        for record in records:
            octets += self._framed(record, self.end + len(octets))
        descriptor = os.open(self.path, os.O_WRONLY | os.O_NOFOLLOW)
        try:
            os.ftruncate(descriptor, self.end)
            os.pwrite(descriptor, bytes(octets), self.end)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _framed(self, record, at):
        from struct import pack
        from zlib import crc32

        octets, is_first = bytearray(), True
        while record or is_first:
            left = self.BLOCK - (at + len(octets)) % self.BLOCK
            if left < self.PIECE:
                octets += bytes(left)
                continue
            data, record = record[: left - self.PIECE], record[left - self.PIECE :]
            if is_first:
                kind = self.FIRST if record else self.WHOLE
            else:
                kind = self.MIDDLE if record else self.LAST
            is_first = False
            octets += pack("<LHB", crc32(data, crc32(bytes([kind]))), len(data), kind) + data
        return octets


CLOSERS = {"mlflow": close_mlflow, "wandb": close_wandb}

IMPORTED = {"mlflow": "mlflow.tracking", "wandb": "wandb.proto.wandb_internal_pb2"}

if __name__ == "__main__":
    main(*sys.argv[1:3])
