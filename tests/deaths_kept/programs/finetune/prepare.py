"""Write a small sentiment set, a vocabulary and the weights of a pretrained encoder."""

import json
import random
from pathlib import Path

import torch

from model import Encoder

WORDS = [f"word{n}" for n in range(500)]
GOOD, BAD = WORDS[:120], WORDS[120:240]


def sentence(label: int, rng: random.Random) -> str:
    tilt = GOOD if label == 1 else BAD if label == 0 else WORDS[240:]
    return " ".join(rng.choice(tilt if rng.random() < 0.4 else WORDS) for _ in range(40))


def main() -> None:
    rng = random.Random(7)
    data = Path("data")
    data.mkdir(exist_ok=True)
    for name, rows in (("train", 3200), ("dev", 200)):
        with open(data / f"{name}.jsonl", "w") as out:
            for n in range(rows):
                label = rng.randrange(3)
                row = {"id": f"{name}-{n}", "text": sentence(label, rng), "label": label}
                out.write(json.dumps(row) + "\n")
    (data / "vocab.json").write_text(json.dumps({w: n + 1 for n, w in enumerate(WORDS)}))
    torch.manual_seed(3)
    torch.save(Encoder(len(WORDS) + 1, 64, 2).state_dict(), data / "base.pt")


if __name__ == "__main__":
    main()
