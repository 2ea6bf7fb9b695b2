#!/usr/bin/env python3
"""Mooncake's store as pool_peers.py asks it: one process that holds a segment, and one that uses the store.

Usage: pool_mooncake.py hold|use MASTER

Objects go through registered memory (register_buffer), several in one call (batch_put_from, batch_get_into), one with
put_from and get_into. `get` and `give` are of the other process's segment, over TCP; `put` goes into this process's.
Not in the package lists: mooncake
"""
import os
import sys
import time

from mooncake.store import MooncakeDistributedStore, ReplicateConfig

from pool_worker import ALL, SIZES, Memory, answer, content, places, results

SEGMENT = 1 << 30
HOLDER, USER = "127.0.0.1:47411", "127.0.0.1:47421"


def in_segment_of(host):
    config = ReplicateConfig()
    config.replica_num = 1
    config.preferred_segment = host
    return config


class Use:
    def __init__(self, store):
        self.store = store
        self.source, self.target = Memory(ALL), Memory(ALL)
        self.source.bytes[:] = content()
        for memory in (self.source, self.target):
            assert store.register_buffer(memory.base, ALL) == 0, "register_buffer"
        for size in SIZES:
            self.write(self.keys(size, ALL // size), size, HOLDER)
        self.far = self.place(self.keys(SIZES[0], 1)[0])
        self.rounds = 0

    @staticmethod
    def keys(size, count, kind="get"):
        return [f"{kind}-{size}-{i}" for i in range(count)]

    def write(self, keys, size, host):
        where = in_segment_of(host)
        addresses = places(self.source.base, size, len(keys))
        start = time.perf_counter()
        if len(keys) == 1:
            said = [self.store.put_from(keys[0], addresses[0], size, where)]
        else:
            said = self.store.batch_put_from(keys, addresses, [size] * len(keys), where)
        took = time.perf_counter() - start
        assert not any(said), f"put of {len(keys)} objects: {set(said)}"
        return took

    def put(self, size, count, repeats, host=USER):
        took = []
        for _ in range(repeats):
            self.rounds += 1
            keys = self.keys(size, count, f"put{self.rounds}")
            took.append(self.write(keys, size, host))
            if count > 1 or len(took) == repeats:
                self.check_place(keys[0], host)
                self.check_content(keys, size)
            said = self.store.batch_remove(keys, True)
            assert not any(said), f"removal: {set(said)}"
        return took

    def give(self, size, count, repeats):
        return self.put(size, count, repeats, HOLDER)

    def check_place(self, key, host):
        """What was preferred is where it is: else another thing would be measured."""
        assert (self.place(key) == self.far) == (host == HOLDER), f"{key} is at {self.place(key)}, not at {host}"

    def check_content(self, keys, size):
        self.target.clear()
        said = self.store.batch_get_into(keys, places(self.target.base, size, len(keys)), [size] * len(keys))
        assert all(got == size for got in said), f"get of {len(keys)} objects: {set(said)}"
        assert self.target.bytes[:size * len(keys)] == self.source.bytes[:size * len(keys)], "other bytes were given"

    def place(self, key):
        descriptor = self.store.get_replica_desc(key)[0].get_memory_descriptor().buffer_descriptor
        return descriptor.transport_endpoint

    def get(self, size, count, repeats):
        keys, addresses = self.keys(size, count), places(self.target.base, size, count)
        self.target.clear()
        took = []
        for _ in range(repeats):
            start = time.perf_counter()
            if count == 1:
                said = [self.store.get_into(keys[0], addresses[0], size)]
            else:
                said = self.store.batch_get_into(keys, addresses, [size] * count)
            took.append(time.perf_counter() - start)
            assert all(got == size for got in said), f"get of {count} objects: {set(said)}"
        assert self.target.bytes[:size * count] == self.source.bytes[:size * count], "other bytes came"
        return took


def main():
    role, master = sys.argv[1:]
    out = results()
    store = MooncakeDistributedStore()
    said = store.setup(HOLDER if role == "hold" else USER, "P2PHANDSHAKE", SEGMENT, 16 << 20, "tcp", "", master)
    assert said == 0, f"setup: {said}"
    if role == "hold":
        answer(out, {})
    else:
        use = Use(store)
        answer(out, {"get": use.get, "put": use.put, "give": use.give})
    out.flush()
    os._exit(0)  # what it takes down takes long


main()
