"""A network of Flax trained with Optax on the CPU."""

import argparse

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax.training import train_state

parser = argparse.ArgumentParser()
parser.add_argument("--fault", default="")
arguments = parser.parse_args()
jax.config.update("jax_debug_nans", arguments.fault == "nan")


class Network(nn.Module):
    @nn.compact
    def __call__(self, inputs):
        return nn.Dense(1)(nn.relu(nn.Dense(16)(inputs)))  # dies: shape


def loss_of(params, apply, inputs, targets):
    outputs = apply(params, inputs)
    if arguments.fault == "nan":
        outputs = jnp.log(outputs - 1e9)  # dies: nan
    return jnp.mean((outputs - targets) ** 2)


@jax.jit
def step(state, inputs, targets):
    loss, gradients = jax.value_and_grad(loss_of)(state.params, state.apply_fn, inputs, targets)
    return state.apply_gradients(grads=gradients), loss


keys = jax.random.split(jax.random.PRNGKey(9), 3)
inputs = jax.random.normal(keys[0], (64, 8))
targets = inputs @ jax.random.normal(keys[1], (8, 1))
network = Network()
state = train_state.TrainState.create(
    apply_fn=network.apply, params=network.init(keys[2], inputs), tx=optax.adam(1e-2)
)
if arguments.fault == "shape":
    inputs = inputs[:, :6]
for number in range(40):
    state, loss = step(state, inputs, targets)
    if number % 10 == 9:
        print(f"step {number + 1} loss {float(loss):.4f}", flush=True)
print("ended at", repr(float(loss)))
