"""Which file or server was in hand when an exception ended the process, and in which folder it was.

Comes in: the exception and its traceback. Goes out: pairs of a word and a path or an address. "No
space left on device" and "pickle data was truncated" name no file, "Connection refused" and "Name
or service not known" no server; the frames that they passed through hold it.
Promises: looks at names and at Python's own file objects alone, calls nothing of the program's and
reads no file; says nothing rather than a guess between two.
"""

import _io
import os
import sys

_FILES = (_io.FileIO, _io.BufferedReader, _io.BufferedWriter, _io.BufferedRandom, _io.TextIOWrapper)
_NAMES = ("f", "file", "path", "filename", "fname", "fn", "name", "filepath", "checkpoint")
_ADDRESSES = ("address", "server_address", "addr", "sockaddr", "sa")
_HOSTS = ("host", "hostname", "server", "master_addr")
_NETWORK_ERRORS = ("EADDRINUSE", "EADDRNOTAVAIL", "ENETUNREACH", "EHOSTUNREACH", "ETIMEDOUT")
# What reading a file raises. These may come from a file that a `with` has closed on the way out.
# For any other exception a closed file is only one that was read some time before.
_READING_ERRORS = (OSError, EOFError, UnicodeError)
_READERS = ("json", "_pickle", "pickle", "zipfile", "tarfile", "struct", "zlib", "gzip", "_csv")
_STARTERS = ("runpy.py", "<frozen runpy>", "<frozen importlib._bootstrap>")
_MOST_FRAMES = 40
_MOST_VALUES = 64


def find(value, traceback):
    """[("cwd", …), ("file", …)], as far as they tell something that the message does not."""
    if not isinstance(value, Exception):
        return []
    found = []
    named = getattr(value, "filename", None) if isinstance(value, OSError) else None
    if isinstance(named, str):
        if not named.startswith("/"):
            found.append(("cwd", os.getcwd()))
        return found
    frames = []
    while traceback is not None and len(frames) < 20000:
        frames.append(traceback.tb_frame)
        traceback = traceback.tb_next
    frames = list(reversed(frames))[:_MOST_FRAMES]
    if _is_of_the_network(value):
        peer = _peer_of(frames)
        return [("peer", peer)] if peer else []
    path = _file_of(frames, may_be_closed=_is_of_reading(value))
    if path:
        found.append(("file", os.path.abspath(path)))
    return found


def _is_of_the_network(value):
    reason = value.__dict__.get("reason", value)  # urllib's own exception holds the system's
    if not isinstance(reason, OSError):
        return False
    socket = sys.modules.get("_socket")
    failed = (ConnectionError, TimeoutError) + ((socket.gaierror,) if socket else ())
    names = getattr(sys.modules.get("errno"), "errorcode", {})  # not loaded for the program
    return isinstance(reason, failed) or names.get(reason.errno) in _NETWORK_ERRORS


def _peer_of(frames):
    """ "db.example:5432", of the innermost variables that hold such."""
    for frame in frames:
        variables = frame.f_locals
        own = variables.get("self")
        try:
            attributes = object.__getattribute__(own, "__dict__")
        except Exception:  # no such thing, or one that has no dictionary
            attributes = {}
        for held in (variables, attributes):
            peer = _peer_in(held)
            if peer:
                return peer
    return None


def _peer_in(held):
    for name in _ADDRESSES:
        address = held.get(name)
        if type(address) is tuple and len(address) >= 2 and type(address[1]) is int:
            return "%s:%d" % (address[0], address[1]) if _is_host(address[0]) else None
    host = next((held[name] for name in _HOSTS if _is_host(held.get(name))), "")
    port = held.get("port")
    if type(port) is int:
        return "%s:%d" % (host, port) if host else "port %d" % port
    return host or None


def _is_host(value):
    return type(value) is str and 0 < len(value) < 200 and not set(value) & set("/ \n\0@")


def _is_of_reading(value):
    module = str(type(value).__module__).partition(".")[0]
    return isinstance(value, _READING_ERRORS) or module in _READERS


def _file_of(frames, may_be_closed):
    """Return the innermost open file, else the innermost variable that is called like one."""
    for look in (_open_files, _paths):
        for frame in frames:
            if frame.f_code.co_filename.endswith(_STARTERS):
                break  # it holds the script itself
            is_library = "/lib/python" in frame.f_code.co_filename
            found = look(frame.f_locals, may_be_closed or is_library)
            paths = {path for path in found if not path.endswith((".py", ".pyc"))}
            if paths:
                return paths.pop() if len(paths) == 1 else None
    return None


def _open_files(variables, may_be_closed):
    values = list(variables.values())[:_MOST_VALUES]
    own = variables.get("self")
    try:
        values += list(object.__getattribute__(own, "__dict__").values())[:_MOST_VALUES]
    except Exception:  # no such thing, or one that has no dictionary
        pass
    return {path for path in (_name_of(value, may_be_closed) for value in values) if path}


def _name_of(value, may_be_closed):
    if type(value) not in _FILES:
        return None
    try:
        name = value.name if may_be_closed or not value.closed else None
    except Exception:  # detached
        return None
    return name if _is_path(name) and not name.startswith("<") else None


def _paths(variables, may_be_closed):
    pathlib = sys.modules.get("pathlib")
    found = set()
    for name in _NAMES:
        value = variables.get(name)
        if pathlib is not None and type(value) in (pathlib.PosixPath, pathlib.PurePosixPath):
            value = str(value)
        if _is_path(value) and ("/" in value or "." in value[1:-1]):
            found.add(value)
    return found


def _is_path(value):
    return type(value) is str and 0 < len(value) < 4096 and "\n" not in value and "\0" not in value
