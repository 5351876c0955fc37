# A notebook for papermill, one cell per "# %%"; the test writes it as an .ipynb.
# %% parameters
fault = ""
# %%
import os
import signal

import torch

torch.manual_seed(18)
inputs = torch.randn(64, 4)
targets = inputs @ torch.randn(4, 1)


# %%
def train(steps):
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        rows = inputs[:, :3] if fault == "shape" and step == 5 else inputs
        if fault == "kill" and step == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        loss = torch.nn.functional.mse_loss(model(rows), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


# %%
final = train(20)
print("ended at", repr(final))
