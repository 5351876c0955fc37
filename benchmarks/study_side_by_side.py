"""The same ablation with a shell loop, Hydra multirun, Ray Tune and rerail, under the same faults.

Eight cells of the smallest training there is. One dies of a segmentation fault, one of SIGKILL, one
ends with exit code 0 and half a weights file; then the tool itself is killed while the sixth cell
runs, and started again in the way that its documentation shows. Prints for each tool which cells
have the artifacts of an undisturbed run, which have wrong ones or none, how many cells were started
in all, and what the tool ended with. Tools that are not installed are left out.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAM = Path(__file__).parents[1] / "tests" / "programs" / "study_train.py"
CELLS = [(lr, width) for lr in (0.1, 0.2, 0.3, 0.4) for width in (2, 4)]
FAULTS = {1: "segfault", 2: "kill", 4: "half-a-file"}
KILLED_AT = 6
LIMIT_SECONDS = 300.0

SHELL = """\
for lr in 0.1 0.2 0.3 0.4; do for width in 2 4; do
  export RERAIL_CELL=lr=${{lr}}_width=$width
  {python} {program} {more} --lr $lr --width $width
  mkdir -p results/$RERAIL_CELL
  mv weights/* metrics.json results/$RERAIL_CELL/
done; done
"""

IN_PROCESS = """\
import os, runpy, sys
def train(lr, width):
    os.environ["RERAIL_CELL"] = f"lr={{lr}}_width={{width}}"
    sys.argv = ["train", *{more!r}.split(), "--lr", str(lr), "--width", str(width)]
    runpy.run_path({program!r}, run_name="__main__")
"""

HYDRA = """\
import hydra
from omegaconf import DictConfig
from training import train
@hydra.main(version_base=None, config_path=None)
def main(config: DictConfig) -> None:
    train(config.lr, config.width)
main()
"""

TUNE = """\
import os, sys
from ray import tune
sys.path.insert(0, {here!r})
def trainable(config):
    sys.path.insert(0, {here!r})
    from training import train
    own = os.path.join({here!r}, "results", f"lr={{config['lr']}}_width={{config['width']}}")
    os.makedirs(own, exist_ok=True)
    os.chdir(own)
    train(config["lr"], config["width"])
    tune.report({{"done": 1}})
space = {{"lr": tune.grid_search([0.1, 0.2, 0.3, 0.4]), "width": tune.grid_search([2, 4])}}
path = os.path.join({here!r}, "tune", "study")
if tune.Tuner.can_restore(path):
    tuner = tune.Tuner.restore(path, trainable, resume_unfinished=True, resume_errored=True)
else:
    tuner = tune.Tuner(
        tune.with_resources(trainable, {{"cpu": 1}}),
        param_space=space,
        tune_config=tune.TuneConfig(max_concurrent_trials=1),
        run_config=tune.RunConfig(name="study", storage_path=os.path.join({here!r}, "tune")),
    )
found = tuner.fit()
print("errors:", found.num_errors)
for result in found:
    print(result.config, "ERROR" if result.error else "TERMINATED", str(result.error)[:300])
"""

RERAIL = """\
command = "{python} {program} {more}"
artifacts = ["weights/final.npz", "metrics.json"]
[axes]
"--lr" = [0.1, 0.2, 0.3, 0.4]
"--width" = [2, 4]
"""


def name_of(cell: tuple[float, int]) -> str:
    return f"lr={cell[0]}_width={cell[1]}"


class Contest:
    def __init__(self, folder: Path, python: str, pace: float) -> None:
        self.folder, self.python = folder, python
        folder.mkdir()
        (folder / "faults").mkdir()
        self.started = folder / "started"
        self.started.touch()
        self.more = f"--faults {folder / 'faults'} --started {self.started} --step-seconds {pace}"

    def fill(self, text: str) -> str:
        return text.format(
            python=sys.executable, program=str(PROGRAM), more=self.more, here=str(self.folder)
        )

    def prepare(self, tool: str) -> list[str]:
        write = {
            "shell": {"run.sh": SHELL},
            "hydra": {"training.py": IN_PROCESS, "app.py": HYDRA},
            "tune": {"training.py": IN_PROCESS, "app.py": TUNE},
            "rerail": {"s.toml": RERAIL},
        }[tool]
        for name, text in write.items():
            (self.folder / name).write_text(text if text is HYDRA else self.fill(text))
        return {
            "shell": ["bash", "run.sh"],
            "hydra": [
                *(self.python, "app.py", "-m", "+lr=0.1,0.2,0.3,0.4", "+width=2,4"),
                *("hydra.job.chdir=True", "hydra.sweep.subdir='lr=${lr}_width=${width}'"),
            ],
            "tune": [self.python, "app.py"],
            "rerail": [sys.executable, "-m", "rerail", "study", "s.toml"],
        }[tool]

    def start(self, command: list[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            cwd=self.folder,
            stdout=(self.folder / "said.txt").open("ab"),
            stderr=subprocess.STDOUT,
            env={**os.environ, "RAY_TRAIN_V2_ENABLED": "0", "RERAIL_HOME": str(self.folder / "h")},
        )

    def starts(self) -> int:
        return len(self.started.read_text().splitlines())

    def run(self, tool: str, faults: bool) -> dict[str, int | str]:
        command = self.prepare(tool)
        if faults:
            for at, what in FAULTS.items():
                (self.folder / "faults" / name_of(CELLS[at])).write_text(what + "\n")
        running = self.start(command)
        ended = "not killed: it had ended by itself"
        if faults:
            deadline = time.monotonic() + LIMIT_SECONDS
            while running.poll() is None and self.starts() < KILLED_AT:
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{tool} did not come so far")
                time.sleep(0.02)
            if running.poll() is None:
                running.send_signal(signal.SIGKILL)
                ended = "killed"
            first = running.wait()
            ended = f"{ended} ({first})" if ended != "killed" else ended
            running = self.start(command)
        status = running.wait(LIMIT_SECONDS)
        return {"first": ended, "status": status, "starts": self.starts()}

    def ask_again(self) -> int:
        """What rerail's last line says to type for cells that were given up."""
        command = [sys.executable, "-m", "rerail", "study", "s.toml", "--again"]
        return self.start(command).wait(LIMIT_SECONDS)

    def artifacts(self) -> dict[str, set[str]]:
        """Checksums of the weights files found for each cell, wherever the tool puts them."""
        found: dict[str, set[str]] = {}
        for cell in CELLS:
            name = name_of(cell)
            short = [f"lr={cell[0]},width={cell[1]}", name, f"lr={cell[0]:.4f},width={cell[1]}"]
            paths = [
                path
                for path in self.folder.rglob("final.npz")
                if any(each in str(path) for each in short)
                and "work" not in path.relative_to(self.folder).parts  # not collected by rerail
            ]
            found[name] = {hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
        return found


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--python", default=sys.executable, help="one with hydra-core and ray[tune]"
    )
    parser.add_argument("--pace", type=float, default=0.05)
    parser.add_argument("--keep", help="a new folder to work in, kept afterwards")
    parser.add_argument("--only", nargs="*", default=["shell", "hydra", "tune", "rerail"])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        scratch = Path(options.keep or temporary).absolute()
        scratch.mkdir(exist_ok=True)
        quiet = Contest(scratch / "undisturbed", options.python, 0.0)
        quiet.run("rerail", faults=False)
        wanted = quiet.artifacts()
        for tool in options.only:
            module = {"hydra": "hydra", "tune": "ray.tune"}.get(tool)
            check = [options.python, "-c", f"import {module}"]
            if module and subprocess.run(check, check=False, capture_output=True).returncode:
                print(f"{tool}: not installed for {options.python}")
                continue
            contest = Contest(scratch / tool, options.python, options.pace)
            told = contest.run(tool, faults=True)
            found = contest.artifacts()
            right = [name for name in wanted if found[name] == wanted[name]]
            none = [name for name in wanted if not found[name]]
            wrong = [name for name in wanted if name not in right and name not in none]
            afterwards = ""
            if tool == "rerail" and none:
                status = contest.ask_again()
                again = contest.artifacts()
                right_now = sum(again[name] == wanted[name] for name in wanted)
                afterwards = f"; with --again {right_now} of 8, ended with {status}"
            print(
                f"{tool}: first start {told['first']}, second ended with {told['status']};"
                f" {told['starts']} starts; right {len(right)} of 8, wrong {wrong}, none {none}"
                f"{afterwards}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
