"""What standard error gets: nothing that steers a terminal, and no file that took its number."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

_RUN = '"$PYTHON" -m rerail run --no-explain -- sh -c "exit 3"'


def _shell(script: str, home: Path) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "PYTHON": sys.executable, "RERAIL_HOME": str(home)}
    return subprocess.run(
        ["sh", "-c", script], env=environment, capture_output=True, timeout=60, check=False
    )


@pytest.mark.parametrize("closed", ["2>&-", "1>&- 2>&-", "0<&- 1>&- 2>&-"])
def test_closed_descriptors_leave_the_exit_status(closed: str, tmp_path: Path) -> None:
    assert _shell(f"{_RUN} {closed}", tmp_path).returncode == 3


def test_error_sentence_shows_controls_of_a_file_name(tmp_path: Path) -> None:
    script = '"$PYTHON" -m rerail explain "$(printf \'/none/\\033[31m\\342\\200\\256x\')"'
    done = _shell(script, tmp_path)
    assert done.returncode == 2
    assert b"\x1b" not in done.stderr and "\u202e".encode() not in done.stderr
    assert b"\\x1b[31m\\u202ex" in done.stderr


COMMANDS = """\
$N; runs --home $N; skill --install $N; run -- $N; run --home $N/f -- $N/f; rm $N; study $N;
study new -o $N -- true --lr 1; stacks $N; isolate -- $N; report -o $N"""


@pytest.mark.parametrize("words", COMMANDS.replace("\n", " ").split("; "))
@pytest.mark.parametrize("way", ["> out 2> err", "2>&1 >out | cat >err"])
def test_a_name_does_not_steer_the_terminal(words: str, way: str, tmp_path: Path) -> None:
    name = "N=$(printf 'x\\033[31m\\033]0;t\\007\\342\\200\\256y')"
    script = f'{name}; "$PYTHON" -m rerail {words.replace("$N", chr(34) + "$N" + chr(34))} {way}'
    environment = {**os.environ, "PYTHON": sys.executable, "RERAIL_HOME": str(tmp_path / "home")}
    subprocess.run(["sh", "-c", script], env=environment, cwd=tmp_path, timeout=60, check=False)
    said = (tmp_path / "out").read_bytes() + (tmp_path / "err").read_bytes()
    assert said
    for control in (b"\x1b", b"\x07", "\u202e".encode()):
        assert control not in said
