"""What scikit-learn trains step by step: a network, a linear model, boosted trees, a forest."""

import argparse

import numpy as np
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import SGDRegressor
from sklearn.neural_network import MLPRegressor

parser = argparse.ArgumentParser()
parser.add_argument("--model", default="network")
parser.add_argument("--verbose", type=int, default=0)
arguments = parser.parse_args()

generator = np.random.default_rng(21)
inputs = generator.normal(size=(200, 6))
targets = inputs @ generator.normal(size=6)
if arguments.model == "network":
    model = MLPRegressor(hidden_layer_sizes=(8,), max_iter=30, random_state=0, n_iter_no_change=99)
    model.verbose = bool(arguments.verbose)
    loss = model.fit(inputs, targets).loss_
elif arguments.model == "linear":
    model = SGDRegressor(random_state=0)
    for number in range(25):
        model.partial_fit(inputs, targets)
        loss = float(((model.predict(inputs) - targets) ** 2).mean())
        if arguments.verbose:
            print(f"pass {number + 1}: loss {loss}", flush=True)
elif arguments.model == "boosting":
    model = GradientBoostingRegressor(n_estimators=20, random_state=0, verbose=arguments.verbose)
    loss = model.fit(inputs, targets).train_score_[-1]
else:
    model = RandomForestRegressor(n_estimators=15, random_state=0, verbose=arguments.verbose)
    model.fit(inputs, targets)
    loss = float(((model.predict(inputs) - targets) ** 2).mean())
print("ended at", repr(float(loss)))
