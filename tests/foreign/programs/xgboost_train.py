"""Boosted trees of XGBoost with an objective and a callback of its own."""

import argparse

import numpy as np
import xgboost

parser = argparse.ArgumentParser()
parser.add_argument("--fault", default="")
parser.add_argument("--rounds", type=int, default=20)
arguments = parser.parse_args()


def squared_error(predictions, matrix):
    labels = matrix.get_label()
    if arguments.fault == "objective":
        labels = labels[:-1]
    gradient = predictions - labels  # dies: objective
    return gradient, np.ones_like(gradient)


class Watch(xgboost.callback.TrainingCallback):
    def after_iteration(self, model, epoch, evals_log) -> bool:
        if arguments.fault == "callback" and epoch == 5:
            print(evals_log["valid"]["rmse"][-1])  # dies: callback
        return False


generator = np.random.default_rng(4)
inputs = generator.normal(size=(300, 8))
targets = inputs @ generator.normal(size=8)
if arguments.fault == "labels":
    targets = targets[:299]
matrix = xgboost.DMatrix(inputs, targets)  # dies: labels
history: dict = {}
xgboost.train(
    {"max_depth": 3, "eta": 0.3, "nthread": 1, "disable_default_eval_metric": False},
    matrix,
    num_boost_round=arguments.rounds,
    obj=squared_error,
    evals=[(matrix, "train")],
    evals_result=history,
    callbacks=[Watch()],
    verbose_eval=5,
)
print("ended at", repr(history["train"]["rmse"][-1]))
