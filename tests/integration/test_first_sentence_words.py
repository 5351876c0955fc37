"""The record knows more than the last line: the first sentence has it, of real programs."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "recorder"))
from run_driver import PROGRAMS, compiled_library, run_recorded

from rerail.diagnosis import Diagnosis, explain_run

PROGRAM = PROGRAMS / "fails_in_words.py"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def at(code: str, of: Path = PROGRAM) -> str:
    lines = of.read_text(encoding="utf-8").splitlines()
    return f"{of.name}:{next(n for n, line in enumerate(lines, 1) if code in line)}"


def explained(
    folder: Path, *words: str, program: Path = PROGRAM, options: tuple[str, ...] = ()
) -> Diagnosis:
    (folder / "work").mkdir()
    command = [sys.executable, str(program), *words]
    done = run_recorded(folder / "home", *command, options=options, cwd=folder / "work")
    return explain_run(done.folder)


def test_what_was_raised_first_is_told_before_what_was_raised_from_it(tmp_path: Path) -> None:
    found = explained(tmp_path, "chain")
    assert found.causes[0].id == "file-missing"
    place = at("with open(path) as file:")
    assert found.headline.endswith(
        f"'shards/6.txt' in {place} read() (step 5); then DataError: no batch 6."
    )
    assert found.facts["where"]["function"] == "read"
    assert found.facts["exception"] == "FileNotFoundError"


def test_a_mishap_while_tidying_up_does_not_hide_the_failure(tmp_path: Path) -> None:
    found = explained(tmp_path, "tidies")
    place = at('raise ValueError(f"batch')
    said = f"ValueError: batch 6 has no pair in {place} mine() (step 5); then AttributeError: "
    assert found.headline.startswith(said)


def test_words_that_a_program_chose_come_before_the_key_that_it_missed(tmp_path: Path) -> None:
    found = explained(tmp_path, "converts")
    place, missed = at('raise DataError("there is no such'), at('return {"cosine"')
    assert found.headline == (
        f"DataError: there is no such schedule in {place} schedule() (step 5); "
        f"before that KeyError: 'cosinus' in {missed} schedule()."
    )


def test_an_exception_that_the_program_hid_stays_hidden(tmp_path: Path) -> None:
    found = explained(tmp_path, "hides")
    assert "KeyError" not in found.headline
    assert "there is no optimizer 'adamm' in" in found.headline


def test_the_file_that_could_not_be_read_is_named(tmp_path: Path) -> None:
    found = explained(tmp_path, "rows")
    assert found.causes[0].id == "data-corrupt"
    assert found.headline.endswith(" rows() (step 5): train.jsonl.")


def test_the_server_that_refused_is_named(tmp_path: Path) -> None:
    found = explained(tmp_path, "refused")
    assert found.causes[0].id == "network-unavailable"
    place = at("return socket.create_connection")
    assert re.search(
        rf"refused in {re.escape(place)} send\(\) \(step 5\): 127\.0\.0\.1:\d+\.$", found.headline
    ), found.headline


def test_a_comprehension_is_told_by_the_function_that_it_stands_in(tmp_path: Path) -> None:
    found = explained(tmp_path, "nameless")
    assert f" in {at('return sum(abs(')} norm() (step 5)" in found.headline
    assert found.facts["where"]["code"].startswith("return sum(")


def test_a_thread_that_died_beside_a_run_that_went_on_is_told(tmp_path: Path) -> None:
    found = explained(tmp_path, "thread")
    assert found.outcome.kind == "ok"
    assert found.headline == (
        f"KeyError: 'f1' in {at('return scores')} evaluate() (thread evaluator, step 5); "
        "the command went on, and ended with exit code 0."
    )


@pytest.mark.thorough
def test_a_pipe_that_nobody_empties_is_told_by_who_should(tmp_path: Path) -> None:
    found = explained(tmp_path, "pipe", options=("--stall", "2", "--on-stall", "kill"))
    assert found.causes[0].id == "deadlock"
    assert (
        f" in {at('child.wait()')} tokens() (step 5), waiting for child process" in found.headline
    )
    assert f"waits in {at('sys.stdout.write(')} write_much() for somebody to read" in found.headline


def test_a_child_that_its_parent_waited_for_no_longer_was_not_killed_from_outside(
    tmp_path: Path,
) -> None:
    found = explained(tmp_path, "impatient")
    assert found.causes[0].id == "python-exception"
    place = at("timeout=1")
    assert f"sleeps` timed out after 1.0 seconds in {place} encode() (step 5)." in found.headline


def test_the_job_that_failed_is_named_and_the_step_of_another_is_not(tmp_path: Path) -> None:
    found = explained(tmp_path, "jobs")
    place = at('raise ValueError(f"width')
    said = rf"in {re.escape(place)} job\(\) \(child process {PROGRAM.name} job 2, pid \d+\)\.$"
    assert re.search(said, found.headline), found.headline


def test_an_assertion_of_a_library_stands_in_the_sentence(tmp_path: Path) -> None:
    (tmp_path / "asserts.cpp").write_text(
        '#include <cassert>\nextern "C" int asserts(int n) { assert(n < 7); return n; }\n'
    )
    library = compiled_library(tmp_path / "asserts.cpp", tmp_path)
    found = explained(tmp_path, "assertion", str(library))
    assert found.headline.startswith("SIGABRT in ")
    assert "assertion `n < 7` failed in " in found.headline


TRAINS = """
import numpy, torch
from torch.utils.data import DataLoader, Dataset

class Rows(Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, at):
        return torch.from_numpy(numpy.load(f"part_{at // 20}.npy")[at % 20])

if __name__ == "__main__":
    for part in range(2):
        numpy.save(f"part_{part}.npy", numpy.zeros((20, 4), "f4"))
    with open("part_1.npy", "r+b") as file:
        file.truncate(200)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for rows in DataLoader(Rows(), batch_size=4, num_workers=1):
        loss = model(rows).sum()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.thorough
def test_the_file_that_a_loader_worker_could_not_read_is_named(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    program = tmp_path / "trains.py"
    program.write_text(TRAINS)
    found = explained(tmp_path, program=program)
    assert found.causes[0].id == "data-corrupt"
    place = at("numpy.load(", program)
    assert f" in {place} __getitem__() (DataLoader worker 0, step 5): part_1.npy." in found.headline
