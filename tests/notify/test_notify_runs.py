"""Real runs that die, stand still and end, and who hears of it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from receiving import (
    GUARD_SECONDS,
    last_run,
    never,
    notified,
    python,
    rerail,
    web_server,
    with_status,
    without_end,
)

HANGS = Path(__file__).parents[1] / "programs" / "stalls_hangs.py"
STEPS = "for step in range(9): print(f'step {step} loss 0.5', flush=True)\n"
DIES = STEPS + "raise ValueError('the label is 7')"
with_proc = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_a_death(tmp_path: Path) -> None:
    with web_server() as server:
        words = ("run", "--label", "try-3", "--notify", f"{server.url}/hook/abc")
        done = rerail(*words, *python(DIES), home=tmp_path, cwd=tmp_path)
        sent = server.next()
    assert done.returncode == 1
    run = last_run(tmp_path)
    short = run.id.rpartition("-")[2]
    fact, where, command = sent.text.splitlines()
    assert fact == "died: ValueError: the label is 7 in <string>:2 (step 8)."
    assert "step 8" in where and f"run {short} (try-3)" in where
    assert command == f"rerail explain {short}"
    document = sent.document
    assert (document["event"], document["step"], document["run"]) == ("death", 8, run.id)
    assert document["host"] == run.info().host
    assert sent.path == "/hook/abc" and server.arrived.empty()
    (event,) = notified(run)
    assert event["sent"] is True and event["text"] == sent.text
    assert event["to"] == "http://127.0.0.1/…"
    assert run.info().settings["notify"] == ["http://127.0.0.1/…"]
    assert "notified" not in done.stderr


def test_an_end_is_one_line_and_can_be_left_out(tmp_path: Path) -> None:
    with web_server() as server:
        words = ("run", "--notify", server.url)
        assert rerail(*words, *python(STEPS), home=tmp_path, cwd=tmp_path).returncode == 0
        sent = server.next()
        assert re.fullmatch(
            r"finished after [\d.]+ s, step 8, loss 0\.5 · run \w{4} on .+", sent.text
        )
        assert (sent.document["event"], sent.document["step"]) == ("end", 8)
        rerail(*words, "--notify-on", "death,stall", *python(STEPS), home=tmp_path, cwd=tmp_path)
        assert server.arrived.empty()
        assert notified(last_run(tmp_path)) == []


@pytest.mark.thorough
@pytest.mark.parametrize("options", [["--quiet"], ["--no-explain"], ["--json"]])
def test_it_is_explained_whatever_the_terminal_is_told(tmp_path: Path, options: list[str]) -> None:
    with web_server() as server:
        words = ("run", *options, "--notify", server.url)
        rerail(*words, *python(DIES), home=tmp_path, cwd=tmp_path)
        assert server.next().text.startswith("died: ValueError: the label is 7")


def test_by_variable_to_a_command(tmp_path: Path) -> None:
    command = f"cat > {tmp_path}/text; env | grep ^RERAIL_ > {tmp_path}/variables"
    variables = {"RERAIL_NOTIFY": command}
    rerail("run", *python(DIES), home=tmp_path, cwd=tmp_path, environ=variables)
    text = (tmp_path / "text").read_text()
    assert text.splitlines()[0].startswith("died: ValueError")
    found = dict(line.split("=", 1) for line in (tmp_path / "variables").read_text().splitlines())
    assert (found["RERAIL_EVENT"], found["RERAIL_STEP"]) == ("death", "8")
    assert found["RERAIL_RUN_ID"] == last_run(tmp_path).id
    assert found["RERAIL_NEXT"] == text.splitlines()[-1]
    assert "RERAIL_NOTIFY" not in found  # or a rerail in it would notify in its turn


def test_by_the_mail_of_this_machine(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "sendmail"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/words\ncat > {tmp_path}/mail\n')
    program.chmod(0o755)
    variables = {"PATH": f"{program.parent}:{os.environ['PATH']}"}
    words = ("run", "--notify", "mailto:ada@example.org", *python(DIES))
    rerail(*words, home=tmp_path, cwd=tmp_path, environ=variables)
    mail = (tmp_path / "mail").read_text()
    assert (tmp_path / "words").read_text() == "-i -t\n"
    assert "To: ada@example.org\nSubject: died: ValueError: the label is 7" in mail
    assert notified(last_run(tmp_path))[0]["sent"] is True


@pytest.mark.thorough
@with_proc
def test_a_stall_is_told_while_it_lasts_and_once(tmp_path: Path) -> None:
    with web_server() as server:
        words = ("run", "--stall", "2", "--notify", server.url, "--")
        command = [sys.executable, "-m", "rerail", *words, sys.executable, str(HANGS)]
        child = subprocess.Popen(
            [*command, "held_by_a_thread", "60"],
            env={**os.environ, "RERAIL_HOME": str(tmp_path)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            stall = server.next()
            assert child.poll() is None
        finally:
            child.send_signal(signal.SIGTERM)
            child.wait(GUARD_SECONDS)
        death = server.next()
        assert server.arrived.empty()
    first, _, last = stall.text.splitlines()
    assert re.match(r"stuck for [\d.]+ s in stalls_hangs\.py:\d+ ", first)
    run = last_run(tmp_path)
    assert last == f"rerail stacks {run.id.rpartition('-')[2]}"
    assert death.document["event"] == "death"
    assert [event["event"] for event in notified(run)] == ["stall", "death"]
    # Our own process beside the run is none of the run's.
    assert not any("rerail.notify" in " ".join(process.command) for process in run.processes())


@pytest.mark.thorough
@with_proc
def test_a_run_that_is_ended_for_a_stall_is_told_of_once(tmp_path: Path) -> None:
    program = (sys.executable, str(HANGS), "held_by_a_thread", "60")
    words = ("run", "--stall", "2", "--on-stall", "kill", "--notify")
    with web_server() as server:
        rerail(*words, server.url, "--", *program, home=tmp_path, cwd=tmp_path)
        assert [sent.document["event"] for sent in server.all()] == ["death"]
        rerail(
            *(*words, server.url, "--notify-on", "stall", "--", *program),
            home=tmp_path,
            cwd=tmp_path,
        )
        assert server.next().document["event"] == "stall"


def test_every_attempt_that_dies_is_told_with_what_follows(tmp_path: Path) -> None:
    program = (
        "from pathlib import Path\nseen = Path('seen')\nfirst = not seen.exists()\n"
        f"seen.touch()\n{STEPS}if first: raise RuntimeError('the label is 7')\n"
    )
    with web_server() as server:
        words = ("run", "--restarts", "2", "--backoff", "0", "--notify", server.url)
        done = rerail(*words, *python(program), home=tmp_path, cwd=tmp_path)
        first, second = server.all()
    assert done.returncode == 0
    assert first.document["event"] == "death"
    assert "goes on by itself: attempt 2 of at most 3 begins anew" in first.text
    assert second.document["event"] == "end"


def test_an_attempt_that_is_the_last_says_why(tmp_path: Path) -> None:
    with web_server() as server:
        words = ("run", "--restarts", "2", "--backoff", "0", "--notify", server.url)
        rerail(*words, *python(DIES), home=tmp_path, cwd=tmp_path)
        sent = server.all()
    assert [each.document["event"] for each in sent] == ["death"] * len(sent)
    assert "not started again: " in sent[-1].text
    assert all("goes on by itself: " in each.text for each in sent[:-1])


FAILING: dict[str, Any] = {
    "500": (with_status(500), "it answers with status 500"),
    "redirects for ever": (with_status(307, {"Location": "/"}), "another address (status 307)"),
}


@pytest.mark.parametrize("answer", FAILING)
def test_a_receiver_that_fails_is_one_line_and_an_event(tmp_path: Path, answer: str) -> None:
    behaviour, why = FAILING[answer]
    with web_server(behaviour) as server:
        words = ("run", "--notify", f"{server.url}/s3cretpath")
        done = rerail(*words, *python("raise SystemExit(7)"), home=tmp_path, cwd=tmp_path)
        assert len(server.all()) == 1
    assert done.returncode == 7
    (line,) = [line for line in done.stderr.splitlines() if "notified" in line]
    assert line.startswith("rerail: http://127.0.0.1/… was not notified: ") and why in line
    (event,) = notified(last_run(tmp_path))
    assert event["sent"] is False and why in event["why"]
    assert "s3cretpath" not in done.stderr


def test_a_receiver_that_is_not_there_and_one_that_fails_beside_one_that_works(
    tmp_path: Path,
) -> None:
    with web_server() as server:
        with web_server() as gone:
            pass
        receivers = ("--notify", gone.url, "--notify", "exit 3", "--notify", server.url)
        done = rerail("run", *receivers, *python("pass"), home=tmp_path, cwd=tmp_path)
        assert server.next().document["event"] == "end"
    assert done.returncode == 0
    assert "cannot be reached (connection refused)" in done.stderr
    assert "the command exit was not notified: it ended with status 3" in done.stderr
    assert sorted(event["sent"] for event in notified(last_run(tmp_path))) == [False, False, True]


def test_an_answer_without_end_is_not_read(tmp_path: Path) -> None:
    with web_server(without_end) as server:
        words = ("run", "--notify", server.url)
        done = rerail(*words, *python("pass"), home=tmp_path, cwd=tmp_path)
    assert done.returncode == 0 and "notified" not in done.stderr
    assert notified(last_run(tmp_path))[0]["sent"] is True


@pytest.mark.thorough
def test_a_receiver_that_never_answers_does_not_hold_the_run(tmp_path: Path) -> None:
    with web_server(never) as server:
        words = ("run", "--notify", server.url)
        done = rerail(*words, *python("raise SystemExit(7)"), home=tmp_path, cwd=tmp_path)
        # It has ended, and the receiver is still silent: nobody waited for it.
        assert done.returncode == 7
        run = last_run(tmp_path)
        assert f"has not answered yet; {run.path.name}/events.jsonl will say" in done.stderr
        assert len(server.all()) == 1
        events = run.path / "events.jsonl"
        wait = ["/bin/sh", "-c", f"until grep -q notified {events}; do sleep 0.2; done"]
        subprocess.run(wait, timeout=GUARD_SECONDS, check=True)
    (event,) = notified(run)
    assert (event["sent"], event["why"]) == (False, "no answer within 10 s")


def test_what_cannot_be_notified_is_said_at_once_and_the_run_goes_on(tmp_path: Path) -> None:
    words = ("run", "--notify", "http://192.0.2.1/x", *python("print('trained')"))
    done = rerail(*words, home=tmp_path, cwd=tmp_path)
    assert done.returncode == 0 and done.stdout == "trained\n"
    assert "will not be notified: plain http to another machine" in done.stderr


def test_wrong_usage_runs_nothing(tmp_path: Path) -> None:
    for options in (["--notify", ""], ["--notify", "true", "--notify-on", "birth"]):
        done = rerail("run", *options, *python("print('trained')"), home=tmp_path, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")


@with_proc
def test_the_guardian_tells_when_the_recorder_was_killed(tmp_path: Path) -> None:
    program = "import os, signal, sys\nos.kill(os.getppid(), signal.SIGKILL)\nsys.exit(3)"
    with web_server() as server:
        words = ("run", "--notify", server.url)
        done = rerail(*words, *python(program), home=tmp_path, cwd=tmp_path)
        sent = server.next()
    assert done.returncode == -signal.SIGKILL
    assert sent.document["event"] == "death"
    assert sent.document["run"] == last_run(tmp_path).id


def test_secrets_and_names_do_not_leave(tmp_path: Path) -> None:
    token = "ghp_" + "a1B2" * 9
    program = (
        "import os\nprint('step 3 loss 1', flush=True)\n"
        f"raise ValueError('cannot read /home/lovelace/data with {token}, password=hunter2hunter'"
        " ', key ' + os.environ['MY_API_KEY'] + ' of ' + os.environ['WHOM'])"
    )
    with web_server() as server:
        address = f"{server.url}/hook/t0psecretpath"
        variables = {
            "MY_API_KEY": "zx81zx81zx",
            "WHOM": address,
            "RERAIL_NOTIFY": f"{address}\ncat > {tmp_path}/text",
        }
        words = ("run", "--label", f"for {token}", *python(program), "--wandb-key", "k9k9k9k9k9")
        done = rerail(*words, home=tmp_path / "home", cwd=tmp_path, environ=variables)
        sent = server.next()
    assert done.returncode == 1
    run = last_run(tmp_path / "home")
    assert notified(run)
    secrets = [token, "hunter2", "zx81", "t0psecret", "k9k9k9", "lovelace"]
    texts = {"sent": sent.raw.decode(), "command": (tmp_path / "text").read_text()}
    assert {(where, s) for where, text in texts.items() for s in secrets if s in text} == set()
    # The number depends on whether the name of whoever runs the tests was masked first.
    assert "[secret-" in sent.text and re.search(r"/home/user-\d+/data", sent.text)
    # In the record only the private file knows them, and what the user's own folder is called.
    for path in run.path.rglob("*"):
        if path.is_file() and path.name != "private.jsonl":
            kept = path.read_bytes()
            assert [s for s in secrets[:-1] if s.encode() in kept] == [], path.name
