"""Settings of the environment, a project and a user: their order, and that none hurts a run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rerail
from rerail.cli._discovery import command_names, load_command
from rerail.cli._project_trust import EFFECTS, allow
from rerail.cli._settings import (
    EFFECT_OF,
    NAMES,
    OTHER_VARIABLES,
    Settings,
    settable,
    setting_name,
    variable_of,
)


class Place:
    """A project in a folder, a user's home beside it, and a shell in a folder of the project."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "project"
        self.cwd = self.project / "inside"
        self.cwd.mkdir(parents=True)
        self.home = folder / "user"
        (self.home / ".config").mkdir(parents=True)

    def writes(self, project: str = "", user: str = "") -> None:
        (self.project / "pyproject.toml").write_text(project)
        (self.home / ".config" / "rerail.toml").write_text(user)

    def types(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environ = {n: v for n, v in os.environ.items() if not n.startswith(("RERAIL_", "XDG_"))}
        return subprocess.run(
            [sys.executable, "-m", "rerail", *arguments],
            cwd=self.cwd,
            env={**environ, "HOME": str(self.home), **variables},
            capture_output=True,
            text=True,
            timeout=240,
        )

    def in_force(self, **variables: str) -> dict[str, tuple[object, str]]:
        told = json.loads(self.types("config", "--json", **variables).stdout)
        return {s["name"]: (s["value"], s["where"]) for s in told["settings"]}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_the_environment_wins_over_the_project_and_that_over_the_user(place: Place) -> None:
    place.writes(
        project="[project]\nname = 'x'\n\n[tool.rerail]\nstall = 30\njobs = 2\n",
        user="stall = 10\njobs = 1\nno_census = true\n",
    )
    assert place.in_force(RERAIL_STALL="60") == {
        "stall": ("60", "RERAIL_STALL"),
        "jobs": (2, f"{place.project}/pyproject.toml:6"),
        "no-census": (True, "~/.config/rerail.toml:3"),
    }


def test_what_is_typed_wins_over_all(place: Place) -> None:
    place.writes(project="[tool.rerail]\nhome = 'kept'\n")
    assert place.types("config", "--allow").returncode == 0
    place.types("run", "-q", "--", "true", RERAIL_HOME="variable")
    assert (place.cwd / "variable" / "runs").is_dir()
    place.types("run", "-q", "--home", "typed", "--", "true", RERAIL_HOME="variable")
    assert len(list((place.cwd / "typed" / "runs").iterdir())) == 1
    place.types("run", "-q", "--", "true")
    assert (place.project / "kept" / "runs").is_dir(), "a path is relative to its file"
    assert len(json.loads(place.types("runs", "--json").stdout)["runs"]) == 1


def test_the_nearest_project_with_settings_is_read(place: Place) -> None:
    place.writes(project="[tool.rerail]\nstall = 30\n")
    (place.cwd / "pyproject.toml").write_text("[project]\nname = 'rerail-user'\n")
    assert place.in_force()["stall"] == (30, f"{place.project}/pyproject.toml:2")


def test_a_table_of_a_command_is_for_it_alone(place: Place) -> None:
    place.writes(user="budget = '10m'\n[isolate]\nbudget = '2h'\n")
    told = json.loads(place.types("config", "--json").stdout)
    assert [(s["name"], s["command"], s["value"]) for s in told["settings"]] == [
        ("budget", None, "10m"),
        ("budget", "isolate", "2h"),
    ]
    settings = Settings()
    settings._take({"isolate": {"budget": "2h"}}, "user", Path("/x/rerail.toml"), "", None)
    assert settings.defaults_of("isolate", load_command("isolate")) == {"budget": 7200.0}
    assert settings.defaults_of("verify", load_command("verify")) == {}


WRONG = {
    "a word": ("stal = 3", ":1: there is no setting 'stal'; did you mean stall?"),
    "a kind": ("restarts = true", ":1: restarts = True: it has to be a number"),
    "a value": ("stall = -1", ":1: stall = -1: -1.0 is not in the range x>0"),
    "a choice": ("allow = ['all']", ":1: allow = ['all']: 'all' is not one of"),
    "an event": ("notify-on = 'deaths'", "and 'deaths' is none of them"),
    "an empty text": ("on-stall = ' '", "on-stall = ' ': it is empty"),
    "a table": ("[isolate]\njob = 2", ":2: there is no setting 'job'; did you mean jobs?"),
    "a user that is not there": (
        "home = '~nosuchuser/x'",
        ":1: home: there is no user of that name",
    ),
    "no number": ("stall = nan", "stall = nan: nan is no finite number"),
    "the length": (f"stall = '{'x' * 90_000}'", "'" + "x" * 59 + ": "),
    "a key without end": (f"{'a.' * 300_000}a = 1", "a key has more than 16 parts"),
    "the syntax": ("stall = ", "is not used: Invalid value (at"),
    "the bytes": ("\ud800 = 3", "is not used: "),
}


@pytest.mark.thorough
@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_setting_is_said_and_the_command_runs(place: Place, what: str) -> None:
    written, says = WRONG[what]
    path = place.home / ".config" / "rerail.toml"
    path.write_text(written, encoding="utf-8", errors="surrogatepass")
    done = place.types("run", "--", "sh", "-c", "echo ran; exit 7")
    assert (done.returncode, done.stdout) == (7, "ran\n")
    about = [line for line in done.stderr.splitlines() if line.startswith("rerail: not used: ")]
    assert len(about) == 1 and says in about[0], done.stderr
    assert "~/.config/rerail.toml" in about[0]
    assert place.types("config").returncode == 1
    assert place.types("run", "-q", "--", "true").stderr == ""


def test_a_file_full_of_mistakes_takes_ten_lines_and_no_time(place: Place) -> None:
    place.writes(user="".join(f"key{number} = 1\n" for number in range(40_000)) + "quiet = true\n")
    done = place.types("run", "--", "sh", "-c", "echo ran; exit 7")
    assert (done.returncode, done.stdout) == (7, "ran\n")
    assert done.stderr.count("rerail: not used: ") == 10
    assert place.in_force()["quiet"] == (True, "~/.config/rerail.toml")


def test_a_wrong_variable_is_said_and_the_next_place_counts(place: Place) -> None:
    place.writes(user="restarts = 0\n")
    done = place.types("run", "--", "true", RERAIL_RESTARTS="x", RERAIL_STAL="3")
    assert done.returncode == 0
    assert "RERAIL_RESTARTS: restarts = 'x': 'x' is not a valid whole number" in done.stderr
    assert "there is no variable RERAIL_STAL; did you mean RERAIL_STALL?" in done.stderr


def test_a_checkpoint_that_is_set_is_no_order_to_restart(place: Place) -> None:
    place.writes(user="checkpoint = 'c/*.pt'\nresume-args = '--resume {checkpoint}'\nbackoff = 1\n")
    done = place.types("run", "--", "sh", "-c", "exit 3")
    assert done.returncode == 3 and "not used" not in done.stderr
    assert place.types("run", "--backoff", "2", "--", "true").returncode == 2, "typed, it is"


def test_settings_that_contradict_each_other_are_left_out_of_the_run(place: Place) -> None:
    place.writes(user="restarts = 1\nresume-args = '--resume'\n")
    done = place.types("run", "--json", "--", "sh", "-c", "exit 3")
    assert done.returncode == 3, done.stderr
    assert json.loads(done.stdout)["outcome"]["exit_code"] == 3
    assert "not used: the settings, in this run: " in done.stderr


@pytest.mark.parametrize("kind", ["folder", "pipe", "loop", "huge"])
def test_a_file_that_is_none_does_not_hold_up_a_run(place: Place, kind: str) -> None:
    path = place.home / ".config" / "rerail.toml"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "loop":
        path.symlink_to(path)
    else:
        path.write_bytes(b"#" * (2 << 20))
    done = place.types("run", "--", "sh", "-c", "exit 7")
    assert done.returncode == 7 and "rerail.toml is not used: " in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")
def test_a_file_of_somebody_else_is_not_used(place: Place) -> None:
    place.writes(project="[tool.rerail]\non-stall = 'sh'\n")
    os.chown(place.project / "pyproject.toml", 65534, -1)
    done = place.types("run", "--", "true")
    assert done.returncode == 0 and "belongs to another user (number 65534)" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")
def test_nothing_is_said_of_a_file_of_somebody_else_without_settings(place: Place) -> None:
    place.writes(project="[project]\ndependencies = ['rerail']\n")
    os.chown(place.project / "pyproject.toml", 65534, -1)
    assert place.types("run", "--", "true").stderr == ""


def test_a_project_runs_and_writes_nothing_before_it_is_allowed(place: Place) -> None:
    place.writes(project="[tool.rerail]\nnotify = 'touch told'\nhome = 'kept'\nstall = 30\n")
    done = place.types("run", "--", "sh", "-c", "exit 7")
    assert done.returncode == 7
    says = f"type `rerail config --allow` in {place.project} to allow them"
    about = [line for line in done.stderr.splitlines() if "--allow`" in line]
    assert about == [
        f"rerail: {place.project}/pyproject.toml sets notify, which runs commands; home, which"
        f" moves the store: not used; {says}"
    ]
    assert not (place.project / "kept").exists() and not list(place.project.rglob("told"))
    told = place.types("config", "--json")
    document = json.loads(told.stdout)
    assert [s["name"] for s in document["settings"]] == ["stall"] and told.returncode == 1
    assert document["problems"] == [about[0].removeprefix("rerail: ")]
    told = place.types("config", "--allow")
    assert told.returncode == 0 and "allowed: notify (" in told.stdout, told.stderr
    state = place.home / ".local" / "state" / "rerail"
    modes = [path.stat().st_mode & 0o777 for path in (state, *state.rglob("*"))]
    assert modes == [0o700, 0o700, 0o600]
    done = place.types("run", "--", "sh", "-c", "exit 7")
    assert "--allow" not in done.stderr and (place.project / "kept" / "runs").is_dir()


def _held(place: Place, folder: Path | None = None, **variables: str) -> list[str]:
    environ = {"HOME": str(place.home), **variables}
    return [s.name for s in Settings.read(environ, folder or place.cwd).held_back]


def test_a_permission_is_for_one_folder_and_the_values_that_were_read(place: Place) -> None:
    written = "[tool.rerail]\non-stall = 'sh a'\nstall = 3\n[tool.rerail.run]\nhome = 'x'\n"
    place.writes(project=written)
    environ = {"HOME": str(place.home)}
    held = Settings.read(environ, place.cwd).held_back
    assert [(s.name, s.command) for s in held] == [("on-stall", None), ("home", "run")]
    allow(place.project, held, environ)
    assert _held(place) == []
    place.writes(project=written.replace("stall = 3", "stall = 4"))
    assert _held(place) == [], "a harmless setting may change"
    place.writes(project=written.replace("sh a", "sh b"))
    assert _held(place) == ["on-stall", "home"]
    place.writes(project=written)
    other = place.project.with_name("other")
    other.mkdir()
    (other / "pyproject.toml").write_text(written)
    assert _held(place, other) == ["on-stall", "home"]
    assert _held(place, XDG_STATE_HOME=str(other)) == ["on-stall", "home"]
    (record,) = (place.home / ".local/state/rerail/allowed").iterdir()
    record.chmod(0o666)
    assert _held(place) == ["on-stall", "home"], "anybody could have written it"
    record.chmod(0o600)
    record.write_bytes(b"x" * 100)
    assert _held(place) == ["on-stall", "home"]


def test_a_users_own_file_and_a_named_one_need_no_permission(place: Place) -> None:
    place.writes(user="on-stall = 'sh a'\n")
    user_file = place.home / ".config" / "rerail.toml"
    for variables in ({}, {"RERAIL_CONFIG": str(user_file)}):
        settings = Settings.read({"HOME": str(place.home), **variables}, place.cwd)
        assert [s.name for s in settings.written] == ["on-stall"] and not settings.held_back


@pytest.mark.parametrize("value", ["0x" + "f" * 9000, "1979-05-27", "[[[1]]]", "nan"])
def test_any_value_that_is_held_back_is_said_and_hurts_nothing(place: Place, value: str) -> None:
    place.writes(project=f"[tool.rerail]\nnotify = {value}\n")
    settings = Settings.read({"HOME": str(place.home)}, place.cwd)
    assert "sets notify, which runs commands: not used" in (settings.refusal_for() or "")
    assert settings.refusal_for(load_command("causes")) is None, "it has no such option"


def test_without_a_home_nothing_is_allowed_and_it_is_said(place: Place) -> None:
    place.writes(project="[tool.rerail]\nhome = 'x'\n")
    done = place.types("config", "--allow", HOME="")
    assert done.returncode == 2 and "Set HOME or XDG_STATE_HOME" in done.stderr


def test_every_setting_says_what_a_project_could_do_with_it() -> None:
    assert set(EFFECT_OF.values()) <= {None, *EFFECTS}
    # A new setting belongs here only if it runs, sends, moves and writes nothing for a project.
    assert {name for name, effect in EFFECT_OF.items() if effect is None} == {
        *("notify-on", "stall", "backoff", "quiet", "no-explain", "no-agent", "no-census"),
        *("no-trackers", "preload", "jobs", "confidence", "budget", "keep", "port"),
    }


def test_a_named_file_stands_for_both_others(place: Place) -> None:
    place.writes(project="[tool.rerail]\nstall = 3\n", user="jobs = 2\n")
    (place.cwd / "other.toml").write_text("quiet = true\n")
    assert set(place.in_force(RERAIL_CONFIG="other.toml")) == {"quiet"}
    assert place.in_force(RERAIL_CONFIG="") == {}
    assert "there is no file none.toml" in place.types("runs", RERAIL_CONFIG="none.toml").stderr


def test_where_nothing_is_set_the_places_are_named(place: Place) -> None:
    place.writes()
    told = place.types("config").stdout
    assert "[tool.rerail] of the nearest pyproject.toml, and\n" in told


def test_addresses_are_not_shown(place: Place) -> None:
    secret = "abcdefghij1234567890"
    place.writes(user=f"notify = ['https://chat.example.com/hook/{secret}']\n")
    for arguments in (["config"], ["config", "--json"]):
        told = place.types(*arguments).stdout
        assert secret not in told and "https://chat.example.com" in told


def test_every_setting_is_an_option_of_some_command_and_no_other_variable() -> None:
    def leaves(command: click.Command) -> list[click.Command]:
        inner = command.commands.values() if isinstance(command, click.Group) else ()
        return [command, *(leaf for one in inner for leaf in leaves(one))]

    found = {
        setting_name(option)
        for name in command_names()
        for leaf in leaves(load_command(name))
        for option in settable(leaf)
    }
    assert found == set(NAMES)
    assert not {variable_of(name) for name in NAMES} & OTHER_VARIABLES


def test_no_variable_of_ours_is_taken_for_a_mistyped_one() -> None:
    named = {
        found
        for path in Path(rerail.__file__).parent.rglob("*.py")
        for found in re.findall(r"\"(RERAIL_[A-Z0-9_]*[A-Z0-9])\"", path.read_text("utf-8"))
    }
    assert len(named) > 10
    assert Settings.read(dict.fromkeys(named - {"RERAIL_CONFIG"}, "1"), None).problems == []


words = st.sampled_from([*NAMES, "run", "isolate", "tool", "nothing"])
values = st.one_of(
    st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.lists(st.text(max_size=3))
)


@given(st.dictionaries(words, st.one_of(values, st.dictionaries(words, values, max_size=3))))
def test_nothing_that_is_written_raises(table: dict[str, object]) -> None:
    settings = Settings()
    settings._take(table, "project", Path("/p/pyproject.toml"), "", None)
    for name in ("run", "isolate", "study"):
        settings.defaults_of(name, load_command(name))
    assert all("\n" not in problem for problem in settings.problems)


@given(st.one_of(st.binary(max_size=200), st.text(max_size=80).map(str.encode)))
def test_no_file_raises(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "pyproject.toml").write_bytes(b"[tool.rerail]\n" + content)
        (Path(name) / "rerail.toml").write_bytes(content)
        settings = Settings.read({"XDG_CONFIG_HOME": name}, Path(name))
        settings.defaults_of("run", load_command("run"))
    assert all(len(problem.splitlines()) == 1 for problem in settings.problems), settings.problems
