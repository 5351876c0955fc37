"""Secrets in the command, the environment, the output, a traceback, file names, git, a config.

A real run prints and carries them; then every byte of the store (but the one private file), of the
page and of the package is searched for each of them.
"""

from __future__ import annotations

import base64
import json
import os
import random
import shlex
import shutil
import stat
import subprocess
import sys
import zipfile
from pathlib import Path
from urllib.parse import quote

import pytest

PROGRAMS = Path(__file__).parent.parent / "programs"
sys.path[:0] = [str(PROGRAMS.parent), str(PROGRAMS.parent / "privacy")]
from planted import Planted, all_named, all_shapes, make  # noqa: E402
from planted_second_set import second_set  # noqa: E402
from planted_set import planted_set  # noqa: E402

from chat_completions import naming, serving  # noqa: E402

pytestmark = pytest.mark.thorough

ORDINARY = [
    "epoch 3 step 1200/5000 loss 0.1234 lr 1.0e-04 tokens/s 12345 token_acc=0.9",
    "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "nvidia-cublas-cu12==12.4.5.8 libfoo version 1.2.3.4 at 0x7f12deadbeef01",
    "Missing key(s) in state_dict: encoder.layers.0.self_attn.in_proj_weight",
    "max_tokens=512 pad_token=<pad> eos_token='</s>' num_tokens: 1024",
    "saved /data/runs/2026-01-02/checkpoint-00500.pt in 3.2 s (12:30:45)",
    "tensor AAAAgD8AAABAAABAQAAAgEAAAKBAAADAQAAA4EAAAABBAAAQQQAAIEE=",
    "wandb: Run data is saved locally in wandb/run-20260102_103045-a1b2c3d4",
    "GPU-8f2c3b1a-1111-2222-3333-444455556666 at 12:30:45",
    "what(): std::terminate c10::Error at::Tensor a::b",
    "KeyError: 'token_type_ids'",
]


# What docs/secrets.md says that it is not found.
STAY = ("paths: name in a folder", "exceptions: redis")


def _is_set_before(planted, entry) -> bool:
    """Of a variable that both sets have, only the first can be set."""
    name = entry.planted.text.partition("=")[0]
    others = planted.get(entry.place, ()) if entry.place == "environment" else ()
    return any(each.text.partition("=")[0] == name for each in others)


class Plan:
    """What is planted where."""

    def __init__(self) -> None:
        chance = random.Random(11)
        self.lines = [planted for planted in all_shapes(1) if "\n" not in planted.text]
        self.lines += all_named(2)
        self.several = [planted for planted in all_shapes(3) if "\n" in planted.text]
        shapes = all_shapes(4)
        plain = [p for p in shapes if " " not in p.text and "\n" not in p.text]
        self.arguments = plain[:14]
        self.variables = plain[14:40]
        self.set = {}  # the planted set by place
        for entry in [*planted_set(), *second_set()]:
            if entry.planted.kind in STAY or _is_set_before(self.set, entry):
                continue
            self.set.setdefault(entry.place, []).append(entry.planted)
        self.pieces = make("in pieces", "using hf_<a34> to push\n", chance)
        self.bare = make("announced later", "<a24>", chance)
        self.command_words = [
            make("flag", "<a16>", chance),
            make("sshpass", "<a12>", chance),
            make("-p", "X9!<a10>", chance),
            make("curl -u", "<a13>", chance),
        ]
        self.named_variables = {
            name: make(f"variable {name}", "<a22>", chance)
            for name in ("HF_TOKEN", "DB_PASSWORD", "MY_SECRET", "KAGGLE_KEY", "AZURE_STORAGE_KEY")
        }
        self.source_line = make("source line", "ghp_<a36>", chance)
        self.error = make("exception", "https://ada:<a14>@db.example.org/x", chance)
        self.file = make("file name", "glpat-<a20>", chance)
        self.dirty = make("git file", "hf_<a34>", chance)
        self.branch = make("git branch", "npm_<a36>", chance)
        self.remote = make("git remote", "ada:ghp_<a36>", chance)
        self.label = make("label", "pypi-<a60>", chance)

    def all(self) -> list[Planted]:
        return [
            *self.lines,
            *self.several,
            *self.arguments,
            *self.variables,
            *self.command_words,
            *self.named_variables.values(),
            *(planted for entries in self.set.values() for planted in entries),
            *(self.pieces, self.bare, self.source_line, self.error, self.file),
            *(self.dirty, self.branch, self.remote, self.label),
        ]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """One run, its page, its Markdown and its package."""
    if shutil.which("git") is None:
        pytest.skip("there is no git here")
    folder = tmp_path_factory.mktemp("planted")
    work = folder / "work"
    work.mkdir()
    plan = Plan()
    module = work / "configured.py"
    module.write_text(f"def connect():\n    raise ConnectionError()  # {plan.source_line.text}\n")
    late = plan.bare.text
    lines = [f"the value is {late} here", *ORDINARY]
    lines += [planted.text for planted in plan.lines]
    lines += [line for planted in plan.several for line in planted.text.splitlines()]
    for place in ("lines", "documents", "tables", "exceptions", "addresses", "paths"):
        for planted in plan.set[place]:
            lines += [*planted.text.splitlines(), "end of the entry"]
    lines += [f"db_password={late}", "after"]
    document = {
        "lines": lines,
        "pieces": [plan.pieces.text[i : i + 7] for i in range(0, len(plan.pieces.text), 7)],
        "file": str(work / f"{plan.file.text}.bin"),
        "module": str(module),
        "error": f"cannot reach {plan.error.text}",
    }
    (folder / "plan.json").write_text(json.dumps(document))
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@y", "-C", str(work)]
    for words in (
        ["init", "-q"],
        ["commit", "-q", "--allow-empty", "-m", "x"],
        ["checkout", "-q", "-b", plan.branch.text],
        ["remote", "add", "origin", f"https://{plan.remote.text}@example.org/x.git"],
    ):
        subprocess.run([*git, *words], check=True, capture_output=True)
    (work / f"{plan.dirty.text}.txt").write_text("x")
    flag, sshpass, dash_p, curl = plan.command_words
    program = PROGRAMS / "privacy_prints_secrets.py"
    command = [sys.executable, str(program), str(folder / "plan.json")]
    command += ["--db-password", flag.text, "-p", dash_p.text, "--lr", "0.1"]
    command += [word for planted in plan.arguments for word in ("--extra", planted.text)]
    for planted in plan.set["flags"]:
        flag_name, _, value = planted.text.partition(" ")
        command += [planted.text] if "=" in flag_name else [flag_name, value]
    command += [planted.text for planted in plan.set["paths"]]
    command += ["sshpass", "-p", sshpass.text, "curl", "-s", "-u", f"ada:{curl.text}", "http://x"]
    environ = {**os.environ, "RERAIL_HOME": str(folder / "home")}
    environ |= {f"SETTING_{i}": planted.text for i, planted in enumerate(plan.variables)}
    for planted in plan.set["environment"]:
        name, _, value = planted.text.partition("=")
        environ[name] = value
    environ |= {name: planted.text for name, planted in plan.named_variables.items()}
    shown = {}

    def rerail(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "rerail", *words],
            cwd=work,
            env=environ,
            capture_output=True,
            timeout=300,
        )
        assert b"Traceback (most recent call last)" not in done.stderr or words[0] == "run"
        return (done.stdout + done.stderr).decode("utf-8", "replace")

    told = folder / "told.jsonl"
    notify = shlex.join(["sh", "-c", 'cat >>"$0"', str(told)])
    words = ["run", "--quiet", "--notify", notify, "--label", plan.label.text]
    words += ["--job", "planted", "--job-dir", str(folder / "jobs")]
    rerail(*words, "--", *command)
    for name, words in {
        "show": ("show", "last"),
        "show.json": ("show", "last", "--json"),
        "runs": ("runs",),
        "runs.json": ("runs", "--json"),
        "explain": ("explain", "last"),
        "explain.json": ("explain", "last", "--json"),
    }.items():
        shown[name] = rerail(*words)
    with serving(naming("network-unavailable", "ConnectionError")) as server:
        shown["ask"] = rerail("explain", "last", "--ask", server.url)
    (question,) = server.questions
    (folder / "question.json").write_bytes(question.raw)
    page, notes, package = (folder / name for name in ("page.html", "page.md", "package.zip"))
    rerail("report", "last", "-o", str(page))
    rerail("report", "last", "--md", "-o", str(notes))
    rerail("pack", "last", "-o", str(package))
    (run,) = (folder / "home" / "runs").iterdir()
    return plan, folder, run, shown


def guises(secret: str) -> set[bytes]:
    raw = secret.encode()
    return {
        raw,
        quote(secret, safe="").encode(),
        json.dumps(secret)[1:-1].encode(),
        base64.b64encode(raw).rstrip(b"="),
        secret.replace("+", "&#43;").encode(),
    }


def found_in(plan: Plan, data: bytes) -> list[str]:
    return [
        f"{planted.kind}: {secret[:4]}…"
        for planted in plan.all()
        for secret in planted.secrets
        if any(guise in data for guise in guises(secret))
    ]


@pytest.mark.thorough
def test_enough_is_planted(recorded):
    plan, _, _, _ = recorded
    assert len(plan.all()) >= 420
    assert len({planted.kind for planted in plan.all()}) >= 110


def test_nothing_is_on_the_disk_but_in_the_private_file(recorded):
    plan, folder, run, _ = recorded
    leaks = {}
    for path in sorted((folder / "home").rglob("*")):
        if path.is_file() and path != run / "private.jsonl":
            found = found_in(plan, path.read_bytes() + os.fsencode(path.name))
            if found:
                leaks[str(path.relative_to(folder))] = found
    assert leaks == {}


def test_the_private_file_has_what_it_takes_to_run_it_again(recorded):
    from rerail.store import RunFolder

    plan, _, run, _ = recorded
    path = run / "private.jsonl"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    private = RunFolder(run).private()
    assert plan.command_words[0].text in private.command
    assert private.environment["HF_TOKEN"] == plan.named_variables["HF_TOKEN"].text
    assert "[secret-" in " ".join(RunFolder(run).info().command)


def test_nothing_is_on_the_page_or_in_a_view(recorded):
    plan, folder, _, shown = recorded
    for name in ("page.html", "page.md"):
        assert found_in(plan, (folder / name).read_bytes()) == [], name
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600
    for name, text in shown.items():
        assert found_in(plan, text.encode()) == [], name


def test_nothing_is_in_the_package(recorded):
    plan, folder, _, _ = recorded
    with zipfile.ZipFile(folder / "package.zip") as archive:
        assert "private.jsonl" not in archive.namelist()
        for name in archive.namelist():
            assert found_in(plan, archive.read(name)) == [], name


def test_nothing_is_in_the_folder_of_the_job(recorded):
    plan, folder, _, _ = recorded
    shared = [path for path in (folder / "jobs").rglob("*") if path.is_file()]
    assert any(b"[secret-" in path.read_bytes() for path in shared)
    for path in shared:
        assert found_in(plan, path.read_bytes() + os.fsencode(path.name)) == [], path


def test_nothing_is_in_the_answers_of_the_ui(recorded):
    answers = pytest.importorskip("rerail.ui.answers")
    from rerail.store import encode
    from rerail.ui.library import Library

    plan, folder, run, _ = recorded
    library = Library(folder / "home")
    lines = answers.output(library, run.name, 1, 2000)
    seen = [lines, *(ask(library, run.name) for ask in (answers.run, answers.details))]
    assert len(json.dumps(encode(lines))) > 20_000
    assert found_in(plan, json.dumps(encode(seen), ensure_ascii=False).encode()) == []


def test_an_assistant_is_told_nothing(recorded, monkeypatch):
    from rerail.assistants.tools import Tools

    plan, folder, _, _ = recorded
    monkeypatch.setenv("RERAIL_HOME", str(folder / "home"))
    tools = Tools(folder / "home")
    count = sum(1 for _ in tools._folder("last").output().lines())
    seen = [tools.runs(), tools.explain(), tools.stacks(), tools.vitals()]
    seen += [tools.output(first=first) for first in range(1, count + 1, 400)]
    text = json.dumps(seen, ensure_ascii=False)
    assert "[secret-" in text
    assert found_in(plan, text.encode()) == []


def test_nothing_is_in_a_notification(recorded):
    plan, folder, _, _ = recorded
    sent = (folder / "told.jsonl").read_bytes()
    assert sent
    assert found_in(plan, sent) == []


def test_nothing_is_in_a_question_to_a_model(recorded):
    plan, folder, _, shown = recorded
    sent = (folder / "question.json").read_bytes()
    assert b"cannot reach" in sent and b"[secret-" in sent
    assert found_in(plan, sent) == []
    assert "second opinion of tiny-model: network-unavailable" in " ".join(shown["ask"].split())


def test_ordinary_lines_stay_readable_everywhere(recorded):
    from rerail.store import RunFolder

    _, folder, run, _ = recorded
    with zipfile.ZipFile(folder / "package.zip") as archive:
        packed = archive.read("output.txt").decode()
    on_disk = b"\n".join(line.text for line in RunFolder(run).output().lines()).decode()
    for line in ORDINARY:
        assert line in packed
        assert line in on_disk


def test_what_was_recognised_has_one_mask_everywhere(recorded):
    plan, folder, run, _ = recorded
    numbers = {
        line["value"]: line["secret"]
        for line in map(json.loads, (run / "private.jsonl").read_text().splitlines())
        if "secret" in line
    }
    mask = f"[secret-{numbers[plan.bare.text]}]"
    with zipfile.ZipFile(folder / "package.zip") as archive:
        packed = archive.read("output.txt").decode()
    assert f"the value is {mask} here" in packed
    assert f"db_password={mask}" in packed
