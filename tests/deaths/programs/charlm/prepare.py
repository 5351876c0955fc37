"""Write train.bin, val.bin and meta.pkl for the character-level model."""
import pickle
import sys

import numpy as np

WORDS = "the cat sat on a mat and the dog ate the hat of zed who ran far away to quiz a vexed jockey".split()


def main(path="data", n=6000, alphabet=None):
    import os

    os.makedirs(path, exist_ok=True)
    rng = np.random.default_rng(1)
    text = " ".join(rng.choice(WORDS, size=n))
    chars = sorted(set(text if alphabet is None else alphabet))
    stoi = {c: i for i, c in enumerate(sorted(set(text)))}
    ids = np.array([stoi[c] for c in text], dtype=np.uint16)
    cut = int(0.9 * len(ids))
    ids[:cut].tofile(f"{path}/train.bin")
    ids[cut:].tofile(f"{path}/val.bin")
    with open(f"{path}/meta.pkl", "wb") as f:
        pickle.dump({"vocab_size": len(chars), "chars": chars}, f)
    print(f"vocab size {len(chars)}, train has {cut:,} tokens, val has {len(ids) - cut:,} tokens")


if __name__ == "__main__":
    main(alphabet=sys.argv[1] if len(sys.argv) > 1 else None)
