import logging
from pathlib import Path

import torch

from .losses import DiceCE, mean_iou

log = logging.getLogger("segkit.trainer")


class Trainer:
    def __init__(self, model, dataset, optimizer, callbacks, config):
        self.model, self.optimizer, self.callbacks = model, optimizer, callbacks
        self.classes = config["data"]["classes"]
        self.epochs = config["epochs"]
        self.dtype = getattr(torch, config["precision"])
        self.loader = torch.utils.data.DataLoader(
            dataset, batch_size=config["data"]["batch_size"], shuffle=False
        )
        self.criterion = DiceCE(self.classes)
        self.n_batches = len(self.loader)
        self.epoch = self.batch = 0
        self.loss = self.iou = float("nan")

    def fire(self, event):
        for callback in self.callbacks:
            try:
                getattr(callback, event)(self)
            except Exception as err:
                if getattr(callback, "fatal", False):
                    raise
                log.warning("%s failed in %s: %s", type(callback).__name__, event, err)

    def fit(self):
        self.fire("on_start")
        for self.epoch in range(1, self.epochs + 1):
            self.model.train()
            for self.batch, (image, mask) in enumerate(self.loader, start=1):
                self.step(image.to(self.dtype), mask)
                self.fire("on_batch")
            self.fire("on_epoch")

    def step(self, image, mask):
        logits = self.model(image)
        loss = self.criterion(logits, mask)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.loss = loss.item()
        self.iou = mean_iou(logits.detach(), mask, self.classes)

    def export(self, folder):
        best = torch.load(Path(folder) / "best.pt", weights_only=True)
        self.model.load_state_dict(best["model"])
        torch.save(self.model.state_dict(), "exported.pt")
        log.info("exported the best model, iou %.3f", best["iou"])
