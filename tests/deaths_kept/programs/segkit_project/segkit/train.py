"""python -m segkit.train CONFIG [--set key=value ...]"""

import argparse
import logging

import torch

from . import callbacks, config, data, models  # noqa: F401
from .registry import CALLBACKS, DATASETS, MODELS, OPTIMIZERS
from .trainer import Trainer

OPTIMIZERS.register("adamw")(torch.optim.AdamW)
OPTIMIZERS.register("sgd")(torch.optim.SGD)


def main():
    parser = argparse.ArgumentParser(prog="segkit.train")
    parser.add_argument("config")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE")
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s,%(name)s,%(levelname)s: %(message)s")
    torch.set_num_threads(1)

    cfg = config.load(args.config, args.set)
    torch.manual_seed(cfg["seed"])
    spec = {k: v for k, v in cfg["data"].items() if k != "batch_size"}
    dataset = DATASETS.build(spec, seed=cfg["seed"])
    model = MODELS.build(cfg["model"], classes=cfg["data"]["classes"])
    optimizer = OPTIMIZERS.build(cfg["optimizer"], params=model.parameters())
    hooks = [CALLBACKS.build(item) for item in cfg["callbacks"]]
    trainer = Trainer(model, dataset, optimizer, hooks, cfg)
    trainer.fit()
    folder = next(c["folder"] for c in cfg["callbacks"] if c["kind"] == "checkpoint")
    trainer.export(folder)


if __name__ == "__main__":
    main()
