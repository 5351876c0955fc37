"""Boosted trees of LightGBM with a metric of its own."""

import argparse

import lightgbm
import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--fault", default="")
arguments = parser.parse_args()

GROUPS = {0: "rest", 1: "sale"}


def group_error(predictions, data):
    if arguments.fault == "metric":
        print(GROUPS[int(data.get_label().max()) + 7])  # dies: metric
    return "group_error", float(np.abs(predictions - data.get_label()).mean()), False


generator = np.random.default_rng(6)
inputs = generator.normal(size=(400, 6))
targets = inputs @ generator.normal(size=6)
train = lightgbm.Dataset(inputs[:300], targets[:300], free_raw_data=False)
valid = lightgbm.Dataset(inputs[300:], targets[300:], reference=train)
history: dict = {}
model = lightgbm.train(
    {"objective": "l2", "num_leaves": 7, "num_threads": 1, "verbose": -1, "seed": 1},
    train,
    num_boost_round=20,
    valid_sets=[valid],
    valid_names=["valid"],
    feval=group_error,
    callbacks=[lightgbm.log_evaluation(5), lightgbm.record_evaluation(history)],
)
if arguments.fault == "width":
    inputs = inputs[:, :5]
model.predict(inputs)  # dies: width
print("ended at", repr(float(history["valid"]["l2"][-1])))
