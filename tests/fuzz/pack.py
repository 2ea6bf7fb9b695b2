#!/usr/bin/env python3
"""Packs a folder of inputs into one file, or unpacks it: each input behind its length in four bytes.

Usage: pack.py pack FOLDER FILE | pack.py unpack FILE FOLDER
"""
import pathlib
import struct
import sys


def pack(folder, target):
    inputs = sorted(p.read_bytes() for p in pathlib.Path(folder).iterdir() if p.is_file())
    pathlib.Path(target).write_bytes(b"".join(struct.pack("<I", len(i)) + i for i in inputs))
    print(f"{len(inputs)} inputs")


def unpack(source, folder):
    data, at, number = pathlib.Path(source).read_bytes(), 0, 0
    while at + 4 <= len(data):
        (length,) = struct.unpack_from("<I", data, at)
        (pathlib.Path(folder) / f"found-{number}").write_bytes(data[at + 4:at + 4 + length])
        at, number = at + 4 + length, number + 1


if __name__ == "__main__":
    {"pack": pack, "unpack": unpack}[sys.argv[1]](*sys.argv[2:4])
