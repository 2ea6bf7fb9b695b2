#!/usr/bin/env python3
"""NIXL as pool_peers.py asks it: one process that holds memory, and one that reads and writes it.

Usage: pool_nixl.py hold|use FOLDER THREADS

The UCX backend between registered memory of both, one prepared request for all objects of a command; UCX_TLS in the
environment says by which ways. Nobody looks anything up here: who reads knows the addresses.
Not in the package lists: nixl_cu12
"""
import os
import pathlib
import sys
import time

from nixl_cu12._api import nixl_agent, nixl_agent_config

from pool_worker import ALL, SIZES, Memory, answer, content, places, results


def tell(folder, name, data):
    (folder / f".{name}").write_bytes(data)
    (folder / f".{name}").rename(folder / name)


def hear(folder, name):
    until = time.monotonic() + 20
    while not (folder / name).exists():
        assert time.monotonic() < until, f"nothing was heard of the other process's {name}"
        os.sched_yield()
    return (folder / name).read_bytes()


class Use:
    def __init__(self, agent, far, far_base, memory, expected):
        self.agent, self.memory, self.expected = agent, memory, expected
        self.prepared = {}
        for size in SIZES:
            for count in (1, ALL // size):
                near = agent.prep_xfer_dlist("", [(at, size, 0) for at in places(memory.base, size, count)], "DRAM")
                there = agent.prep_xfer_dlist(far, [(at, size, 0) for at in places(far_base, size, count)], "DRAM")
                every = list(range(count))
                for op in ("READ", "WRITE"):
                    request = agent.make_prepped_xfer(op, near, every, there, every)
                    self.prepared[op, size, count] = request, near, there

    def run(self, op, size, count, repeats):
        request = self.prepared[op, size, count][0]
        took = []
        for _ in range(repeats):
            start = time.perf_counter()
            state = self.agent.transfer(request)
            while state == "PROC":
                state = self.agent.check_xfer_state(request)
            took.append(time.perf_counter() - start)
            assert state == "DONE", f"{op} of {count} objects: {state}"
        return took

    def get(self, size, count, repeats):
        self.memory.clear()
        took = self.run("READ", size, count, repeats)
        assert self.memory.bytes[:size * count] == self.expected[:size * count], "other bytes came"
        return took

    def give(self, size, count, repeats):
        """What comes is read back, and what the other had before is written again; neither is timed."""
        given = self.expected[size // 2:] + self.expected[:size // 2]
        self.memory.bytes[:] = given
        took = self.run("WRITE", size, count, repeats)
        self.memory.clear()
        self.run("READ", size, count, 1)
        assert self.memory.bytes[:size * count] == given[:size * count], "other bytes were given"
        self.memory.bytes[:] = self.expected
        self.run("WRITE", size, count, 1)
        return took


def main():
    role, folder, threads = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3])
    out = results()
    agent = nixl_agent(role, nixl_agent_config(enable_prog_thread=role == "hold" or threads > 0, num_threads=threads,
                                               backends=["UCX"]))
    memory = Memory(ALL)
    assert agent.register_memory([(memory.base, ALL, 0, "")], "DRAM"), "register_memory"
    if role == "hold":
        memory.bytes[:] = content()
        tell(folder, "content", memory.bytes[:])
        tell(folder, "base", str(memory.base).encode())
    tell(folder, f"{role}.agent", agent.get_agent_metadata())
    far = agent.add_remote_agent(hear(folder, "use.agent" if role == "hold" else "hold.agent"))
    if role == "hold":
        answer(out, {})
    else:
        use = Use(agent, far.decode() if isinstance(far, bytes) else far, int(hear(folder, "base")), memory,
                  hear(folder, "content"))
        answer(out, {"get": use.get, "give": use.give})
    out.flush()
    os._exit(0)


main()
