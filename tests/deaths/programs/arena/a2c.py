#!/usr/bin/env python
"""Advantage actor-critic on the track environment.

    python a2c.py --num-envs 4 --updates 60
"""
import argparse
import logging
import os
import sys

import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

from env import ENVS, SubprocVecEnv

log = logging.getLogger("a2c")


class ActorCritic(nn.Module):
    def __init__(self, obs_dim, n_actions, hidden=64):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs_dim, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.pi, self.v = nn.Linear(hidden, n_actions), nn.Linear(hidden, 1)

    def forward(self, x):
        h = self.body(x)
        return Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)


def parse_args(argv=None):
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--env", choices=sorted(ENVS), default="track")
    p.add_argument("--num-envs", type=int, default=4)
    p.add_argument("--updates", type=int, default=60)
    p.add_argument("--horizon", type=int, default=16)
    p.add_argument("--lr", type=float, default=7e-4)
    p.add_argument("--gamma", type=float, default=0.97)
    p.add_argument("--start-method", choices=["fork", "spawn"], default="fork")
    p.add_argument("--shaping", action="store_true", help="dense reward")
    p.add_argument("--keep-rollouts", action="store_true", help="keep every rollout for the replay at the end")
    p.add_argument("--overlap", action="store_true", help="step the environments while the network learns")
    return p.parse_args(argv)


def rollout(model, venv, obs, args, pending):
    logps, values, rewards, dones, entropies = [], [], [], [], []
    for _ in range(args.horizon):
        dist, value = model(torch.from_numpy(obs))
        action = dist.sample()
        if not (args.overlap and pending):
            venv.step_async(action.tolist())
        obs, reward, done, _ = venv.step_wait()
        pending = args.overlap
        logps.append(dist.log_prob(action))
        entropies.append(dist.entropy())
        values.append(value)
        rewards.append(torch.from_numpy(reward))
        dones.append(torch.from_numpy(done.astype(np.float32)))
    return obs, pending, [torch.stack(x) for x in (logps, values, rewards, dones, entropies)]


def main():
    args = parse_args()
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(asctime)s | %(levelname)-7s | %(name)s | %(message)s")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    log.warning("CUDA driver not found, falling back to CPU: training will be slow")
    kwargs = {"shaping": lambda gap: float(np.exp(-abs(gap)))} if args.shaping else {}
    venv = SubprocVecEnv(args.env, args.num_envs, args.start_method, **kwargs)
    log.info("pid %d, environments %s", os.getpid(), [p.pid for p in venv.procs])
    model = ActorCritic(4, 3)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    obs, pending, memory, replay = venv.reset(), False, [], None
    for update in range(1, args.updates + 1):
        obs, pending, (logp, value, rew, done, ent) = rollout(model, venv, obs, args, pending)
        with torch.no_grad():
            ret = model(torch.from_numpy(obs))[1]
        returns = []
        for r, d in zip(rew.flip(0), done.flip(0)):
            ret = r + args.gamma * ret * (1 - d)
            returns.insert(0, ret)
        adv = torch.stack(returns) - value
        loss = -(logp * adv.detach()).mean() + 0.5 * adv.pow(2).mean() - 0.01 * ent.mean()
        opt.zero_grad()
        loss.backward(retain_graph=args.keep_rollouts)
        opt.step()
        if args.keep_rollouts:
            # the frames, as the replay wants them, with the loss that they had
            memory.append((rew[..., None, None] + torch.zeros(40, 40) + loss, loss))
        log.info("update %3d/%d  return %+.3f  loss %.4f  entropy %.3f", update, args.updates, rew.mean().item(), loss.item(), ent.mean().item())
    venv.close()
    if args.keep_rollouts:
        replay = torch.stack([m[1] for m in memory]).mean()
        log.info("replay loss %.4f", replay.item())
    torch.save(model.state_dict(), "policy.pt")
    log.info("saved policy.pt")


if __name__ == "__main__":
    main()
