"""The command line: `twotower COMMAND`. Thin; each command is a few lines over the library.

Exit status: 0 done, 1 answered and the answer is bad news, 2 wrong usage or data, 3 not finite.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from twotower.config import CHOICES, Config, load_profiles
from twotower.errors import TwotowerError

NEWEST = Path()  # --resume without a file


def main(argv: list[str] | None = None) -> None:
    arguments = _parser().parse_args(argv)
    command: Callable[[argparse.Namespace], int] = arguments.command
    try:
        status = command(arguments)
    except TwotowerError as error:
        print(f"twotower: {error}", file=sys.stderr)
        status = error.exit_status
    except KeyboardInterrupt:
        status = 130
    sys.exit(status)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="twotower", description="A two-tower retriever.")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def add(name: str, run: Callable[..., int], text: str, example: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(
            name,
            help=text,
            description=text,
            epilog=f"example:\n  {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        sub.set_defaults(command=run)
        return sub

    prepare = add(
        "prepare",
        _prepare,
        "make training data from text, or synthetic data of any size",
        "twotower prepare --text /usr/share/doc/linux-doc --out data/linux",
    )
    source = prepare.add_mutually_exclusive_group(required=True)
    source.add_argument("--text", type=Path, metavar="DIR", help="a folder of text, read in order")
    source.add_argument("--synthetic", action="store_true", help="data with known structure")
    prepare.add_argument("--out", type=Path, required=True, metavar="DIR")
    prepare.add_argument("--length", type=int, default=16, help="vectors per query (16)")
    prepare.add_argument("--val", type=int, default=0, help="validation pairs (a twentieth)")
    prepare.add_argument("--seed", type=int, default=0)
    prepare.add_argument("--rows", type=int, default=10_000, help="synthetic: training pairs")
    prepare.add_argument("--bank", type=int, default=50_000, help="synthetic: documents")
    prepare.add_argument("--dimension", type=int, default=768, help="width of a vector (768)")
    prepare.add_argument("--words", type=int, default=80, help="text: words per chunk (80)")
    prepare.add_argument("--embedder", choices=("tfidf", "sentence"), default="tfidf")
    prepare.add_argument(
        "--sentence-model", default="all-mpnet-base-v2", help="name or folder, for sentence"
    )

    train = add(
        "train",
        _train,
        "train, or go on with a run (--resume)",
        "twotower train --data data/linux --out runs/linux --profile seed",
    )
    train.add_argument("--data", type=Path, metavar="DIR", help="holds pairs.npz and bank.npz")
    train.add_argument("--pairs", type=Path, help="instead of --data: the pairs")
    train.add_argument("--bank", type=Path, help="instead of --data: the bank")
    train.add_argument("--out", type=Path, required=True, metavar="RUN", help="the run's folder")
    train.add_argument(
        "--resume",
        nargs="?",
        type=Path,
        const=NEWEST,
        metavar="CHECKPOINT",
        help="go on from --out's last checkpoint, or from this one in its own run's folder",
    )
    train.add_argument("--no-bar", action="store_true", help="no progress bar")
    train.add_argument("--profile", default="", choices=load_profiles(), help="a launch profile")
    short = {"batch_size": ["--bs"], "memory_bank": ["--memory-bank-size"]}
    for setting in fields(Config):
        if setting.default is MISSING or "why" not in setting.metadata:
            continue
        train.add_argument(
            "--" + setting.name.replace("_", "-"),
            *short.get(setting.name, []),
            dest=setting.name,
            type=type(setting.default),
            choices=CHOICES.get(setting.name),
            default=argparse.SUPPRESS,
            metavar=None if setting.name in CHOICES else type(setting.default).__name__.upper(),
            help=f"{setting.metadata['why']} ({setting.default})",
        )

    evaluate = add(
        "evaluate",
        _evaluate,
        "Recall@k and MRR of a run over the whole bank, beside the baselines",
        "twotower evaluate runs/linux",
    )
    evaluate.add_argument("run", type=Path, help="a run's folder or a checkpoint")
    evaluate.add_argument("--rows", type=int, default=0, help="queries to measure (all)")
    evaluate.add_argument(
        "--with-context", action="store_true", help="rank a query's own sequence as well"
    )
    evaluate.add_argument("--json", action="store_true")

    search = add(
        "search",
        _search,
        "the chunks nearest to a query",
        'twotower search runs/linux "how does the scheduler pick the next task"',
    )
    search.add_argument("run", type=Path, help="a run's folder or a checkpoint")
    search.add_argument("text", nargs="*", help="one or more passages, in reading order")
    search.add_argument("--vector", type=Path, metavar="FILE.npy", help="(D,) or (L, D) instead")
    search.add_argument("-k", type=int, default=5)
    search.add_argument("--json", action="store_true")

    export = add(
        "export",
        _export,
        "write the query tower as ONNX or TorchScript, and compare it with the original",
        "twotower export runs/linux tower.onnx",
    )
    export.add_argument("run", type=Path, help="a run's folder or a checkpoint")
    export.add_argument("out", type=Path, help="tower.onnx or tower.pt")

    gates = add(
        "gates",
        _gates,
        "check a run against its gates: go on, stop, or which profile to use instead",
        "twotower gates runs/linux",
    )
    gates.add_argument("run", type=Path)
    gates.add_argument("--gates", type=Path, metavar="FILE.yaml", help="other gates than stated")
    gates.add_argument("--json", action="store_true")

    profiles = add("profiles", _profiles, "the launch profiles", "twotower profiles")
    profiles.add_argument("--json", action="store_true")

    unpack = add(
        "unpack",
        _unpack,
        "rewrite a compressed .npz so that it can be mapped",
        "twotower unpack pairs.npz pairs-stored.npz",
    )
    unpack.add_argument("source", type=Path)
    unpack.add_argument("target", type=Path)
    return parser


def _prepare(a: argparse.Namespace) -> int:
    if a.synthetic:
        from twotower.synthetic import write_synthetic

        val = a.val or max(1, a.rows // 20)
        paths: tuple[Path, ...] = write_synthetic(
            a.out, a.rows, a.length, a.bank, val, a.dimension, a.seed
        )
        print(f"{a.rows:,} + {val:,} pairs of length {a.length}, bank of {a.bank:,}")
    else:
        from twotower.text import write_text_data

        paths = write_text_data(
            a.text,
            a.out,
            a.length,
            a.words,
            a.val,
            a.dimension,
            a.embedder,
            a.sentence_model,
            a.seed,
        )
    for path in paths:
        print(f"{path}  {path.stat().st_size / 1e6:,.1f} MB")
    return 0


def _train(a: argparse.Namespace) -> int:
    from twotower.checkpoint import newest_checkpoint
    from twotower.config import build_config, check_same_run, read_config
    from twotower.train import run_training

    given = {f.name: getattr(a, f.name) for f in fields(Config) if hasattr(a, f.name)}
    for name, path in (("pairs", a.pairs), ("bank", a.bank)):
        if path is None and a.data is not None:
            path = a.data / f"{name}.npz"
        if path is not None:
            given[name] = str(path)
        else:
            given.pop(name, None)
    profile = given.pop("profile", "")
    run: Path = a.out
    checkpoint: Path | None = a.resume
    if checkpoint is not None:
        if checkpoint == NEWEST:
            checkpoint = newest_checkpoint(run)
        elif not checkpoint.is_file():
            raise TwotowerError(f"there is no checkpoint {checkpoint}")
        run = checkpoint.parent.parent
        stored = read_config(run)
        # What the command does not say stays as it was; what it says must be the same training.
        asked = {**{f.name: getattr(stored, f.name) for f in fields(Config)}, **given}
        config = check_same_run(stored, build_config(asked, profile), run)
    else:
        if "pairs" not in given or "bank" not in given:
            raise TwotowerError("say where the data is: --data DIR, or --pairs FILE --bank FILE")
        config = build_config(given, profile)
    run_training(config, run, checkpoint, not a.no_bar)
    return 0


def _evaluate(a: argparse.Namespace) -> int:
    from twotower.evaluate import as_table, evaluate
    from twotower.search import open_run

    model, data = open_run(a.run)
    results = evaluate(model, data.val, data.bank_MD, a.rows, with_context=a.with_context)
    print(json.dumps(results) if a.json else as_table(results))
    return 0


def _search(a: argparse.Namespace) -> int:
    from twotower.search import search

    if bool(a.text) == (a.vector is not None):
        raise TwotowerError('give a text, as in: twotower search RUN "some passage"; or --vector')
    hits = search(a.run, a.text, a.vector, a.k)
    if a.json:
        print(json.dumps(hits, ensure_ascii=False))
        return 0
    for place, hit in enumerate(hits, 1):
        print(f"{place}. {hit['score']:.4f}  bank row {hit['row']}  {hit.get('source', '')}")
        if "text" in hit:
            print(f"   {hit['text'][:200]}")
    return 0


def _export(a: argparse.Namespace) -> int:
    from twotower.export import export

    difference = export(a.run, a.out)
    print(f"{a.out}: largest difference from the original {difference:.1e} over 3 shapes")
    return 0


def _gates(a: argparse.Namespace) -> int:
    from twotower.gates import judge

    verdict = judge(a.run, a.gates)
    print(json.dumps(verdict.to_json()) if a.json else verdict.to_text())
    return 0 if verdict.decision == "go on" else 1


def _profiles(a: argparse.Namespace) -> int:
    profiles: dict[str, dict[str, Any]] = load_profiles()
    if a.json:
        print(json.dumps(profiles))
        return 0
    for name, profile in profiles.items():
        size = f"{profile['batch_size']} x {profile['accum']}"
        print(f"{name:14}{profile['device']:6}{size:9}{profile['why']}")
    return 0


def _unpack(a: argparse.Namespace) -> int:
    from twotower.archive import unpack_archive

    unpack_archive(a.source, a.target)
    print(f"{a.target}  {a.target.stat().st_size / 1e6:,.1f} MB")
    return 0
