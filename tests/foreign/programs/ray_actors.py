"""Ray without Train: an actor that holds the model, and tasks that give it gradients."""

import argparse
import ctypes

import numpy as np
import ray

parser = argparse.ArgumentParser()
parser.add_argument("--fault", default="")
arguments = parser.parse_args()


@ray.remote
class Server:
    def __init__(self) -> None:
        self.weights = np.zeros(4)
        self.updates = 0

    def update(self, gradient, fault: str):
        self.updates += 1
        if fault == "actor" and self.updates == 6:
            ctypes.string_at(0)  # dies: actor
        self.weights -= 0.1 * gradient
        return self.weights


@ray.remote
def gradient_of(weights, inputs, targets, fault: str):
    if fault == "task":
        inputs = inputs[:, :3]
    return inputs.T @ (inputs @ weights - targets) / len(inputs)  # dies: task


ray.init(address="local", num_cpus=2, include_dashboard=False)
generator = np.random.default_rng(14)
inputs = generator.normal(size=(64, 4))
targets = inputs @ generator.normal(size=4)
server = Server.remote()
weights = np.zeros(4)
for step in range(12):
    gradient = ray.get(gradient_of.remote(weights, inputs, targets, arguments.fault))  # dies: get
    weights = ray.get(server.update.remote(gradient, arguments.fault))  # dies: wait
    loss = float(((inputs @ weights - targets) ** 2).mean())
    print(f"step {step} loss {loss:.4f}", flush=True)
print("ended at", repr(loss))
ray.shutdown()
