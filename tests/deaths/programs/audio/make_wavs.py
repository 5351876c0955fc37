"""Write wavs/NNN.wav: tones with noise, the class is in labels.json."""
import json
import sys
import wave
from pathlib import Path

import numpy as np

n = int(sys.argv[1]) if len(sys.argv) > 1 else 48
out = Path("wavs")
out.mkdir(exist_ok=True)
rng = np.random.default_rng(0)
labels = {}
for i in range(n):
    label = i % 3
    t = np.arange(8000) / 8000
    signal = np.sin(2 * np.pi * (220, 330, 550)[label] * t) * 0.4 + rng.normal(scale=0.1, size=t.size)
    with wave.open(str(out / f"{i:03d}.wav"), "wb") as w:
        w.setnchannels(1)
        w.setsampwidth(2)
        w.setframerate(8000)
        w.writeframes((signal * 20000).clip(-32768, 32767).astype("<i2").tobytes())
    labels[f"{i:03d}"] = label
Path("labels.json").write_text(json.dumps(labels))
Path("taxonomy.json").write_text(json.dumps({"name": "root", "children": [{"name": str(c), "children": []} for c in range(3)]}))
