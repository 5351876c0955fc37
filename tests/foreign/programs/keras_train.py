"""A Keras model on the backend of torch or of JAX, fed by a PyDataset."""

import argparse
import os

parser = argparse.ArgumentParser()
parser.add_argument("--fault", default="")
parser.add_argument("--weights")
parser.add_argument("--backend", default="torch")
arguments = parser.parse_args()
os.environ["KERAS_BACKEND"] = arguments.backend

import keras
import numpy as np


class Batches(keras.utils.PyDataset):
    def __init__(self) -> None:
        super().__init__()
        generator = np.random.default_rng(10)
        self.inputs = generator.normal(size=(64, 8)).astype("float32")
        self.targets = self.inputs @ generator.normal(size=(8, 1)).astype("float32")

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int):
        if arguments.fault == "batch" and index == 5:
            raise IndexError(f"batch {index} lies beyond the index file")  # dies: batch
        rows = slice(8 * index, 8 * index + 8)
        return self.inputs[rows], self.targets[rows]


class Report(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        if arguments.fault == "callback" and epoch == 1:
            print(f"validation {logs['val_loss']:.3f}")  # dies: callback


keras.utils.set_random_seed(12)
width = 6 if arguments.fault == "shape" else 8
model = keras.Sequential(
    [keras.Input((width,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)]
)
model.compile(optimizer="adam", loss="mse")
if arguments.weights:
    model.load_weights(arguments.weights)  # dies: weights
history = model.fit(  # dies: shape
    Batches(), epochs=3, shuffle=False, verbose=2, callbacks=[Report()]
)
print("ended at", repr(history.history["loss"][-1]))
