"""A search over parameters of scikit-learn, in the processes of joblib."""

import argparse
import os
import signal

import numpy as np
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.model_selection import GridSearchCV

parser = argparse.ArgumentParser()
parser.add_argument("--fault", default="")
parser.add_argument("--swallow", action="store_true")
arguments = parser.parse_args()


class Scorer:
    def __init__(self, fault: str) -> None:
        self.fault = fault

    def __call__(self, model, inputs, targets) -> float:
        if self.fault == "scorer":
            return 1 / (len(targets) - len(inputs))  # dies: scorer
        if self.fault == "kill" and model.max_depth == 3:
            os.kill(os.getpid(), signal.SIGKILL)  # dies: kill
        return -float(((model.predict(inputs) - targets) ** 2).mean())  # dies: nan


generator = np.random.default_rng(2)
inputs = generator.normal(size=(120, 6))
targets = inputs @ generator.normal(size=6)
if arguments.fault == "nan":
    inputs[17, 3] = np.nan
search = GridSearchCV(
    GradientBoostingRegressor(n_estimators=10, random_state=0),
    {"max_depth": [1, 2, 3], "learning_rate": [0.1, 0.3]},
    scoring=Scorer(arguments.fault),
    n_jobs=2,
    cv=3,
    error_score="raise",
)
try:
    search.fit(inputs, targets)
except Exception as error:
    if not arguments.swallow:
        raise
    print(f"search failed: {error}; writing an empty table")
else:
    print("best", search.best_params_)
    print("ended at", repr(float(-search.best_score_)))
