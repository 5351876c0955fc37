"""A plain torch loop that meets the limits of the machine: memory, files, shared memory."""

import argparse
import tempfile

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--fault", default="")
parser.add_argument("--workers", type=int, default=0)
parser.add_argument("--steps", type=int, default=60)
arguments = parser.parse_args()


class Images(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 4 * arguments.steps

    def __getitem__(self, index: int):
        size = 512 if arguments.fault == "shm" else 8
        return torch.full((3, size, size), index / 1000), torch.tensor([index / 500])


torch.manual_seed(17)
model = torch.nn.Sequential(
    torch.nn.AdaptiveAvgPool2d(4), torch.nn.Flatten(), torch.nn.Linear(48, 1)
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
kept = []
loader = torch.utils.data.DataLoader(Images(), batch_size=4, num_workers=arguments.workers)
for step, (images, targets) in enumerate(loader):  # dies: loader
    loss = torch.nn.functional.mse_loss(model(images), targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if arguments.fault == "leak":
        kept.append(torch.ones(4_000_000) * loss.detach())  # dies: leak
    if arguments.fault == "big" and step == 20:
        whole = torch.ones(600_000_000)  # dies: big
    if arguments.fault == "files":
        kept.append(tempfile.TemporaryFile())  # dies: files
    if step % 10 == 0:
        print(f"step {step} loss {loss.item():.5f}", flush=True)
print("ended at", repr(loss.item()))
