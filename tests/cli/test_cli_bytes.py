"""Bytes that are not UTF-8, and control characters, in every text of a run: every view copes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile

import pytest

RERAIL = [sys.executable, "-m", "rerail"]
ODD = b"caf\xe9-\xff\x80"
# A C1 control that starts a terminal sequence, an escape, and markup that a page would run.
HOSTILE = "\x9b31m \x1b]0;x\x07 </script><script>alert(1)</script> <img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A run whose command, environment, folder, output and error hold such bytes."""
    top = os.fsencode(tmp_path_factory.mktemp("bytes"))
    folder = os.path.join(top, ODD)  # noqa: PTH118 - bytes
    try:
        os.mkdir(folder)  # noqa: PTH102
    except OSError:
        pytest.skip("this file system takes no such name")
    script = (
        "import os, sys; os.write(1, b'out \\xff\\x80 ' + sys.argv[2].encode() + b'\\n');"
        "raise ValueError(os.fsdecode(b'bad \\xfe ') + sys.argv[2])"
    )
    environ = {**os.environb, b"ODD": ODD, b"RERAIL_HOME": os.path.join(top, b"home")}  # noqa: PTH118
    command = [os.fsencode(word) for word in [*RERAIL, "run", "--label"]]
    command += [b"l\xff", b"--", os.fsencode(sys.executable), b"-c", script.encode()]
    subprocess.run([*command, ODD, HOSTILE.encode()], cwd=folder, env=environ, timeout=240)
    return folder, environ


def rerail(home, *words):
    folder, environ = home
    return subprocess.run(
        [*RERAIL, *words], cwd=folder, env=environ, capture_output=True, timeout=240
    )


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@pytest.mark.parametrize(
    "words",
    [
        ("show", "last"),
        ("runs",),
        ("explain", "last"),
        ("report", "last", "-o", "-"),
        ("report", "last", "--md", "-o", "-"),
        ("report", "last"),
        ("report", "last", "--md"),
        ("pack", "last"),
        ("pack", "last", "--dry-run"),
    ],
    ids=" ".join,
)
def test_every_view_is_written(home, words, encoding):
    folder, environ = home
    done = rerail((folder, {**environ, b"PYTHONIOENCODING": encoding.encode()}), *words)
    assert done.returncode in (0, 1), done.stderr.decode(errors="replace")
    assert b"defect" not in done.stderr and b"Traceback" not in done.stderr
    done.stdout.decode(encoding)


@pytest.mark.parametrize(
    "words",
    [("show", "last"), ("runs",), ("explain", "last"), ("pack", "last"), ("report", "last")],
    ids=" ".join,
)
def test_every_json_is_json_that_every_reader_takes(home, words):
    done = rerail(home, *words, "--json")
    assert done.returncode in (0, 1), done.stderr.decode(errors="replace")
    document = json.loads(done.stdout.decode("utf-8"))
    json.dumps(document, ensure_ascii=False).encode("utf-8")  # no lone surrogate


def test_the_byte_can_be_seen(home):
    document = json.loads(rerail(home, "show", "last", "--json").stdout)
    assert r"caf\xe9-\xff\x80" in json.dumps(document).replace("\\\\", "\\")


@pytest.mark.parametrize("words", [(), ("--md",)], ids=["page", "Markdown"])
def test_no_control_character_and_no_markup_gets_through(home, words):
    text = rerail(home, "report", "last", *words, "-o", "-").stdout.decode("utf-8")
    assert not [c for c in text if c < " " and c not in "\n\t"]
    assert not [c for c in text if "\x7f" <= c <= "\x9f"]
    assert "<script>alert" not in text and "<img src=x" not in text
    assert "alert(1)" in text  # it is told, not dropped


def test_the_package_is_utf8(home):
    folder, _ = home
    assert rerail(home, "pack", "last", "-o", "p.zip").returncode == 0
    with zipfile.ZipFile(os.path.join(os.fsdecode(folder), "p.zip")) as archive:  # noqa: PTH118
        for name in archive.namelist():
            text = archive.read(name).decode("utf-8")
            if name.endswith(".json"):
                json.dumps(json.loads(text), ensure_ascii=False).encode("utf-8")
