"""Ray actors that die, each in its own way, recorded by the one line of docs/ray.md.

Prints a line of JSON for each: how it was to die, the actor's pid, and rerail's answer.
"""

import ctypes
import json
import os
import sys

import ray

import rerail.ray
from rerail.ray import explaining

explaining.PATIENCE_SECONDS = 60.0  # the recorders of the workers share a loaded machine
home, *ways = sys.argv[1:]
ray.init(
    address="local",
    num_cpus=1,
    include_dashboard=False,
    log_to_driver=False,
    object_store_memory=100 * 2**20,
    runtime_env=rerail.ray.runtime_env(home=home),
)


@ray.remote(num_cpus=1)
class Server:
    def __init__(self, way: str) -> None:
        if way == "init":
            raise ValueError("no weights in shard 3")

    def pid(self) -> int:
        return os.getpid()

    def die(self, way: str) -> None:
        if way == "segfault":
            ctypes.string_at(0)  # dies here
        elif way == "kill":
            os.kill(os.getpid(), 9)
        elif way == "exit":
            os._exit(3)
        elif way == "sys-exit":
            sys.exit(4)
        elif way == "memory":
            held = []
            while True:
                held.append(bytearray(os.urandom(1)) * 2**27)


for way in ways:
    pid = None
    try:
        server = Server.options(name=f"the-{way}").remote(way)
        pid = ray.get(server.pid.remote())
        if way == "ray-kill":
            ray.kill(server)
        ray.get(server.die.remote(way))
    except Exception as error:
        answer = rerail.ray.explain(error, home=home).to_json()
        print(json.dumps({"way": way, "pid": pid, "answer": answer}), flush=True)
        del server
ray.shutdown()
