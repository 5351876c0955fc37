"""The command line: `lowlight COMMAND`. Thin; each command is a few lines over the library.

Exit status: 0 done, 2 wrong usage or data, 3 not finite.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

from lowlight.config import Config, flag
from lowlight.errors import LowlightError


def main(argv: list[str] | None = None) -> None:
    arguments = _parser().parse_args(argv)
    command: Callable[[argparse.Namespace], None] = arguments.command
    status = 0
    try:
        command(arguments)
    except LowlightError as error:
        print(f"lowlight: {error}", file=sys.stderr)
        status = error.exit_status
    except KeyboardInterrupt:
        status = 130
    sys.exit(status)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="lowlight", description="Brightens dark pictures.")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, (run, text, example, add_arguments) in _COMMANDS.items():
        sub = commands.add_parser(name, help=text, epilog=f"example: lowlight {name} {example}")
        sub.description = text
        sub.set_defaults(command=run)
        add_arguments(sub)
    return parser


def _arguments_of_train(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, required=True, metavar="RUN", help="the run's folder")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on from --out's last checkpoint; without one, begin",
    )
    for setting in fields(Config):
        kind = type(setting.default)
        default = f" ({setting.default})" if setting.default != "" else ""
        parser.add_argument(
            flag(setting.name),
            type=kind,
            default=argparse.SUPPRESS,  # resuming has to know what was said
            metavar=kind.__name__.upper(),
            help=setting.metadata["why"] + default,
        )


def _arguments_of_evaluate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, help="the folder of a finished run")
    parser.add_argument("--json", action="store_true")


def _arguments_of_enhance(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, help="the folder of a finished run")
    parser.add_argument("source", type=Path, help="a dark picture")
    parser.add_argument("target", type=Path, help="where the bright one goes; not over a file")


def _train(a: argparse.Namespace) -> None:
    from lowlight.train import run_training

    given = {f.name: getattr(a, f.name) for f in fields(Config) if hasattr(a, f.name)}
    run_training(a.out, given, a.resume)


def _evaluate(a: argparse.Namespace) -> None:
    from lowlight.apply import evaluate_run
    from lowlight.evaluate import as_table

    results = evaluate_run(a.run)
    print(json.dumps(results) if a.json else as_table(results))


def _enhance(a: argparse.Namespace) -> None:
    from lowlight.apply import enhance_file

    enhance_file(a.run, a.source, a.target)
    print(a.target)


_COMMANDS = {
    "train": (
        _train,
        "train, or go on with a run (--resume)",
        "--out runs/face --face-weight 0.5 --d-weight 1.5",
        _arguments_of_train,
    ),
    "evaluate": (
        _evaluate,
        "PSNR and SSIM on the held-out pairs, beside the input and histogram equalisation",
        "runs/face",
        _arguments_of_evaluate,
    ),
    "enhance": (
        _enhance,
        "brighten a picture",
        "runs/face dark.jpg bright.png",
        _arguments_of_enhance,
    ),
}
