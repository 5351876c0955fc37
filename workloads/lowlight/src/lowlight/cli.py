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

    def add(
        name: str, run: Callable[[argparse.Namespace], None], text: str, example: str
    ) -> argparse.ArgumentParser:
        sub = commands.add_parser(
            name,
            help=text,
            description=text,
            epilog=f"example:\n  {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        sub.set_defaults(command=run)
        return sub

    train = add(
        "train",
        _train,
        "train, or go on with a run (--resume)",
        "lowlight train --out runs/face --face-weight 0.5 --d-weight 1.5",
    )
    train.add_argument("--out", type=Path, required=True, metavar="RUN", help="the run's folder")
    train.add_argument(
        "--resume",
        action="store_true",
        help="go on from --out's last checkpoint; without one, begin",
    )
    for setting in fields(Config):
        kind = type(setting.default)
        train.add_argument(
            flag(setting.name),
            type=kind,
            default=argparse.SUPPRESS,
            metavar=kind.__name__.upper(),
            help=f"{setting.metadata['why']} ({setting.default})".replace(" ()", ""),
        )

    evaluate = add(
        "evaluate",
        _evaluate,
        "PSNR and SSIM on the held-out pairs, beside the input and histogram equalisation",
        "lowlight evaluate runs/face",
    )
    evaluate.add_argument("run", type=Path, help="the folder of a finished run")
    evaluate.add_argument("--json", action="store_true")

    enhance = add(
        "enhance", _enhance, "brighten a picture", "lowlight enhance runs/face dark.jpg bright.png"
    )
    enhance.add_argument("run", type=Path, help="the folder of a finished run")
    enhance.add_argument("source", type=Path, help="a dark picture")
    enhance.add_argument("target", type=Path, help="where the bright one goes; not over a file")
    return parser


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
