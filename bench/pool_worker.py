"""What the workers of pool_peers.py share: memory, keys of a shape, and the loop over commands.

A worker reads lines `OP SIZE COUNT REPEATS` from standard input (as `bench_page_pull --turns` does) and answers each
with a line of seconds, one number a repetition. What a peer's library prints goes to standard error.
"""
import ctypes
import mmap
import os
import sys

ALL = 64 << 20  # bytes of a command with several objects
SIZES = 64 << 10, 1 << 20, 16 << 20
SINGLES = 21  # repetitions of a command with one object at most


class Memory:
    """Memory that is not the interpreter's, touched; its address is what the peers' interfaces take."""

    def __init__(self, size):
        self.bytes = mmap.mmap(-1, size)
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self.bytes))
        self.clear()

    def clear(self):
        self.bytes[:] = bytes(len(self.bytes))


def content():
    """ALL bytes that differ from megabyte to megabyte."""
    block = os.urandom(1 << 20)
    return b"".join(i.to_bytes(8, "little") + block[8:] for i in range(ALL >> 20))


def places(base, size, count):
    return [base + i * size for i in range(count)]


def results():
    """A file for the answers; standard output becomes standard error."""
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return out


def answer(out, ops):
    """Until standard input ends. `ops`: by name, a function of size, count and repeats that gives seconds."""
    print("ready", file=out)
    for line in sys.stdin:
        op, *numbers = line.split()
        print(*(f"{seconds:.9f}" for seconds in ops[op](*map(int, numbers))), file=out)
