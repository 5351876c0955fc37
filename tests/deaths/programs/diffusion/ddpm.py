"""A toy denoising diffusion model: EMA weights, bf16 autocast, tqdm bars.

  python ddpm.py --config ddpm.yaml
"""
import copy
import math

import click
import numpy as np
import torch
import torch.nn.functional as F
import yaml
from torch import nn
from torch.utils.data import DataLoader, Dataset
from tqdm import tqdm


class Shapes(Dataset):
    def __init__(self, n, size, shared=False):
        rng = np.random.default_rng(0)
        yy, xx = np.mgrid[:size, :size]
        images = []
        for _ in range(n):
            cx, cy, r = rng.uniform(4, size - 4, 2).tolist() + [rng.uniform(2, 5)]
            disc = (xx - cx) ** 2 + (yy - cy) ** 2 < r * r
            square = (abs(xx - cx) < r) & (abs(yy - cy) < r)
            images.append((disc if rng.random() < 0.5 else square).astype(np.float32) * 2 - 1)
        self.images = torch.from_numpy(np.stack(images))[:, None]
        if shared:
            self.images = self.images.share_memory_()

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.images[i]


class Denoiser(nn.Module):
    def __init__(self, ch, steps):
        super().__init__()
        self.time = nn.Sequential(nn.Embedding(steps, ch), nn.SiLU(), nn.Linear(ch, ch))
        self.inp = nn.Conv2d(2, ch, 3, padding=1)
        self.mid = nn.ModuleList([nn.Conv2d(ch, ch, 3, padding=1) for _ in range(2)])
        self.out = nn.Conv2d(ch, 1, 3, padding=1)

    def forward(self, x, t, cond):
        h = self.inp(torch.cat([x, cond], dim=1)) + self.time(t)[:, :, None, None]
        for conv in self.mid:
            h = h + conv(F.silu(h))
        return self.out(F.silu(h))


class Diffusion:
    def __init__(self, steps):
        t = torch.arange(steps + 1) / steps
        bar = torch.cos((t + 0.008) / 1.008 * math.pi / 2) ** 2
        self.bar = (bar / bar[0]).clamp(1e-4, 0.9999)[1:]
        self.steps = steps

    def noisy(self, x, t, eps, fused):
        a, b = self.bar[t].sqrt(), (1 - self.bar[t]).sqrt()
        if fused:
            from fused import add_noise

            return add_noise(x, eps, a, b, torch.empty_like(x))
        return a[:, None, None, None] * x + b[:, None, None, None] * eps

    @torch.no_grad()
    def sample(self, model, n, size, dtype):
        x = torch.randn(n, 1, size, size, dtype=dtype)
        for step in reversed(range(0, self.steps, 10)):
            t = torch.full((n,), step)
            eps = model(x, t, torch.zeros_like(x))
            x = (x - (1 - self.bar[step]).sqrt() * eps) / self.bar[step].sqrt()
        return x


@click.command()
@click.option("--config", type=click.Path(exists=True), default="ddpm.yaml", show_default=True)
@click.option("--fused", is_flag=True, help="use libfused.so")
@click.option("--fused-ema", is_flag=True, help="average the weights with libfused.so")
@click.option("--share", is_flag=True, help="put the images into shared memory")
@click.option("--half-samples", is_flag=True, help="sample in bfloat16")
@click.option("--consistency", is_flag=True, help="add the consistency term")
@click.option("--cache", is_flag=True, help="keep the first epoch's batches")
def main(config, fused, fused_ema, share, half_samples, consistency, cache):
    cfg = yaml.safe_load(open(config))
    torch.manual_seed(cfg["seed"])
    torch.set_num_threads(1)
    data = Shapes(cfg["data"]["n"], cfg["data"]["size"], shared=share)
    loader = DataLoader(data, cfg["train"]["batch_size"], shuffle=True, num_workers=cfg["data"]["workers"])
    model = Denoiser(cfg["model"]["channels"], cfg["model"]["steps"])
    ema = copy.deepcopy(model)
    diff = Diffusion(cfg["model"]["steps"])
    opt = torch.optim.AdamW(model.parameters(), lr=cfg["train"]["lr"])
    tqdm.write(f"{sum(p.numel() for p in model.parameters()):,} parameters, {len(loader)} batches per epoch")
    cached = []
    for epoch in range(cfg["train"]["epochs"]):
        last = None
        bar = tqdm(loader, desc=f"epoch {epoch}", ncols=90)
        for i, x in enumerate(bar):
            t = torch.randint(0, diff.steps, (len(x),))
            eps = torch.randn_like(x)
            noisy = diff.noisy(x, t, eps, fused)
            cond = torch.zeros_like(x)
            if epoch >= cfg["train"]["self_condition_from"] and last is not None:
                cond = cond + last
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=cfg["train"]["amp"]):
                pred = model(noisy, t, cond)
                loss = F.mse_loss(pred.float(), eps)
            last = pred.detach().float()
            opt.zero_grad()
            loss.backward()
            if consistency:
                again = F.mse_loss(pred.float(), eps.roll(1, 0)) * 0.01
                again.backward()
            opt.step()
            for e, p in zip(ema.parameters(), model.parameters()):
                if fused_ema:
                    from fused import ema_

                    ema_(e.data, p.data, cfg["train"]["ema"])
                else:
                    e.data.lerp_(p.data, 1 - cfg["train"]["ema"])
            if cache and epoch == 0:
                cached.append(list(x))
            bar.set_postfix(loss=f"{loss.item():.4f}")
        if (epoch + 1) % cfg["train"]["sample_every"] == 0:
            dtype = torch.bfloat16 if half_samples else torch.float32
            grid = diff.sample(ema, 8, cfg["data"]["size"], dtype)
            tqdm.write(f"epoch {epoch}: samples mean {grid.float().mean():+.3f} std {grid.float().std():.3f}")
    torch.save({"model": model.state_dict(), "ema": ema.state_dict(), "config": cfg}, "ddpm.pt")
    tqdm.write("done, wrote ddpm.pt")


if __name__ == "__main__":
    main()
