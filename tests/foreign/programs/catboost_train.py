"""Boosted trees of CatBoost with a metric of its own."""

import argparse

import numpy as np
from catboost import CatBoostRegressor, Pool

parser = argparse.ArgumentParser()
parser.add_argument("--fault", default="")
arguments = parser.parse_args()


class MeanError:
    def is_max_optimal(self) -> bool:
        return False

    def evaluate(self, approxes, target, weight):
        if arguments.fault == "metric":
            raise RuntimeError("weights are missing for the metric")  # dies: metric
        return float(np.abs(np.array(approxes[0]) - np.array(target)).sum()), len(target)

    def get_final_error(self, error, weight) -> float:
        return error / weight


generator = np.random.default_rng(8)
inputs = generator.normal(size=(300, 5))
targets = inputs @ generator.normal(size=5)
if arguments.fault == "labels":
    targets[40] = np.nan
model = CatBoostRegressor(
    iterations=20,
    depth=3,
    random_seed=1,
    thread_count=1,
    allow_writing_files=False,
    eval_metric=MeanError(),
    verbose=5,
)
model.fit(Pool(inputs, targets))  # dies: fit
print("ended at", repr(model.evals_result_["learn"]["MeanError"][-1]))
