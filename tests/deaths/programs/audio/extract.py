"""Log-spectrum features from wav files, in processes."""
import time
import wave
from multiprocessing import Pool, Process, Queue

import numpy as np


def spectrum(path):
    with wave.open(str(path), "rb") as w:
        raw = w.readframes(w.getnframes())
        expected = w.getnframes()
    x = np.frombuffer(raw, dtype="<i2").astype(np.float32) / 32768
    if len(x) < expected:
        raise ValueError(f"{path}: {len(x)} samples, the header says {expected}")
    frames = x[: len(x) // 400 * 400].reshape(-1, 400) * np.hanning(400)
    return np.log1p(np.abs(np.fft.rfft(frames, axis=1))).astype(np.float32)


def one(job):
    path, delay = job
    time.sleep(delay)
    return path.stem, spectrum(path)


def with_pool(paths, jobs, delay):
    done = {}
    with Pool(jobs) as pool:
        for name, feats in pool.imap_unordered(one, [(p, delay) for p in paths]):
            done[name] = feats
            print(f"\rextracted {len(done)}/{len(paths)}", end="", flush=True)
    print()
    return done


def _drain(paths, out):
    for path in paths:
        out.put((path.stem, spectrum(path)))
    out.put(None)


def with_queue(paths, jobs):
    """One process per slice of the files; results come back over a queue."""
    out = Queue()
    procs = [Process(target=_drain, args=(paths[j::jobs], out)) for j in range(jobs)]
    for p in procs:
        p.start()
    for p in procs:
        p.join()
    done, open_ = {}, jobs
    while open_:
        item = out.get()
        if item is None:
            open_ -= 1
        else:
            done[item[0]] = item[1]
    return done
