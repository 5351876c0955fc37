"""The measures: a perfect result is the best there is, and what is written is JSON."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from lowlight.darkening import Darkening
from lowlight.evaluate import as_table, contact_sheet, equalise, evaluate
from lowlight.model import Enhancer
from lowlight.pairs import Pair, held_out_pairs
from lowlight.pictures import open_pictures

CPU = torch.device("cpu")


def test_equal_pictures_are_a_hundred_decibels_apart_from_nothing() -> None:
    black = np.zeros((24, 24, 3), np.float32)
    grey = np.full((24, 24, 3), 0.5, np.float32)
    pairs = [Pair("black", black, black, False), Pair("grey", grey, grey, True)]
    results = evaluate(Enhancer(4), pairs, CPU)
    assert results["input"]["all"] == {"psnr": 100.0, "ssim": pytest.approx(1.0)}
    json.dumps(results, allow_nan=False)
    assert set(results["model"]) == {"all", "pictures", "faces"}
    assert contact_sheet(Enhancer(4), pairs, CPU).shape == (256, 512, 3)


def test_an_untrained_network_is_its_input_and_equalisation_is_better() -> None:
    pairs = held_out_pairs(open_pictures("bundled", 64).held_out, 0, 64)[:4]
    results = evaluate(Enhancer(4), pairs, CPU)
    untrained, dark = results["model"]["all"], results["input"]["all"]
    assert untrained["psnr"] == pytest.approx(dark["psnr"], abs=0.01)
    assert results["equalised"]["all"]["psnr"] > dark["psnr"] + 3
    table = as_table(results).splitlines()
    assert len(table) == 4 and all(len(line) <= 80 for line in table)


def test_equalisation_uses_the_whole_range_and_keeps_hues() -> None:
    random = np.random.default_rng(0)
    bright = random.random((48, 48, 3), np.float32)
    dark = Darkening(2.2, 0.1, (1.0, 1.0, 1.0), 1e6, 0.0).apply(bright, random)
    result = equalise(dark)
    assert result.max() > 0.95 and result.min() >= 0
    busy = dark.min(2) > 0.05
    assert np.array_equal(result.argmax(2)[busy], dark.argmax(2)[busy])
