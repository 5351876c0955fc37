"""A driver whose one actor dies as the word after it says; the cluster is somebody else's."""

import ctypes
import os
import signal
import sys

import ray

import rerail.ray

ray.init(runtime_env=rerail.ray.runtime_env(), log_to_driver=False)


@ray.remote(num_cpus=1)
class Server:
    def update(self, way: str) -> None:
        if way == "segfault":
            ctypes.string_at(0)  # dies here
        elif way == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif way == "exit":
            os._exit(3)
        elif way == "sys-exit":
            sys.exit(4)
        elif way == "raises":
            raise ValueError("no such column: label")


ray.get(Server.remote().update.remote(sys.argv[1]))
