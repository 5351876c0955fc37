"""A cart on a track that has to reach a flag, with the gymnasium calling convention, and a vectorised
version that runs one process per environment."""
import multiprocessing as mp

import numpy as np


class Track:
    def __init__(self, seed, length=40, shaping=None, friction=0.05):
        self.rng = np.random.default_rng(seed)
        self.length, self.shaping, self.friction = length, shaping, friction
        self.episode = 0

    def reset(self):
        self.episode += 1
        self.pos, self.vel, self.t = 0.0, 0.0, 0
        self.goal = float(self.rng.integers(5, 15))
        return self._obs()

    def _obs(self):
        return np.array([self.pos, self.vel, self.goal - self.pos, self.t / self.length], dtype=np.float32)

    def _distance_reward(self):
        if self.shaping is not None:
            return self.shaping(self.goal - self.pos)
        return -abs(self.goal - self.pos) / self.goal

    def step(self, action):
        push = (-1.0, 0.0, 1.0)[action]
        self.vel = (self.vel + push) * (1.0 - self.friction)
        self.pos += self.vel
        self.t += 1
        done = self.t >= self.length or abs(self.goal - self.pos) < 0.5
        return self._obs(), self._distance_reward(), done, {"episode": self.episode}


class WindyTrack(Track):
    """Gusts get stronger with each episode; the wind table was made for the first few."""

    GUSTS = (0.0, 0.1, 0.2, 0.35)

    def step(self, action):
        gust = self.GUSTS[self.episode - 1]
        self.pos += gust * float(self.rng.normal())
        return super().step(action)


ENVS = {"track": Track, "windy": WindyTrack}


def _worker(conn, env_name, seed, kwargs):
    env = ENVS[env_name](seed, **kwargs)
    while True:
        cmd, data = conn.recv()
        if cmd == "step":
            obs, reward, done, info = env.step(data)
            if done:
                obs = env.reset()
            conn.send((obs, reward, done, info))
        elif cmd == "reset":
            conn.send(env.reset())
        elif cmd == "close":
            conn.close()
            break


class SubprocVecEnv:
    def __init__(self, env_name, n, start_method="fork", **kwargs):
        ctx = mp.get_context(start_method)
        self.conns, self.procs = [], []
        for i in range(n):
            here, there = ctx.Pipe()
            proc = ctx.Process(target=_worker, args=(there, env_name, i, kwargs), daemon=True, name=f"env-{i}")
            proc.start()
            there.close()
            self.conns.append(here)
            self.procs.append(proc)

    def reset(self):
        for conn in self.conns:
            conn.send(("reset", None))
        return np.stack([conn.recv() for conn in self.conns])

    def step_async(self, actions):
        for conn, action in zip(self.conns, actions):
            conn.send(("step", int(action)))

    def step_wait(self):
        obs, rew, done, info = zip(*[conn.recv() for conn in self.conns])
        return np.stack(obs), np.array(rew, dtype=np.float32), np.array(done), info

    def close(self):
        for conn in self.conns:
            conn.send(("close", None))
        for proc in self.procs:
            proc.join()
