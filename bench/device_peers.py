#!/usr/bin/env python3
"""Ours and llama.cpp on one GPU, on the same random bf16 files, by turns; prints the ratios.

    device_peers.py SLUICE LLAMA_BENCH [--folder DIR] [--shapes 135M 1.5B] [--prompt 512] [--tokens 128] [--runs 3]

SLUICE and LLAMA_BENCH are built with CUDA. The peer gets its best settings here: all layers on the GPU, flash
attention, its own graphs. Medians of the runs. Both choose greedily or not at all, and write no text.

Not in the package lists: gguf, numpy
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys

import gguf
import numpy as np

from make_gguf import write

SHAPES = {  # layers, width, heads, key heads, head, inner, vocabulary; all are llamas with a tied head
    "135M": (30, 576, 9, 3, 64, 1536, 49152),
    "1.5B": (28, 1536, 12, 2, 128, 8960, 151936),
    "8B": (32, 4096, 32, 8, 128, 14336, 128256),
}


def write_random(path, shape):
    random = np.random.default_rng(1)

    def values_of(rows, columns):
        bits = random.integers(0, 1 << 16, (rows, columns), np.uint16)
        return (bits & 0x807f | 119 << 7).view(np.uint8)  # of either sign, 2^-8 to 2^-7

    write(path, SHAPES[shape], values_of, gguf.GGMLQuantizationType.BF16)


def ours(sluice, file, prompt, tokens):
    """Tokens per second of a prompt and of an answer."""
    said = subprocess.run([sluice, "model", "bench", file, "--device", "cuda", "--precision", "bf16", "--prompt",
                           str(prompt), "--tokens", str(tokens)], capture_output=True, text=True)
    found = re.findall(r"^(?:prefill|decode) .*?: ([\d.]+) tokens/s", said.stdout, re.M)
    if said.returncode != 0 or len(found) != 2:
        sys.exit(f"{sluice} ends with {said.returncode}: {said.stderr or said.stdout}")
    return [float(number) for number in found]


def peers(llama_bench, file, prompt, tokens):
    said = subprocess.run([llama_bench, "-m", file, "-p", str(prompt), "-n", str(tokens), "-ngl", "99", "-fa", "1", "-r",
                           "3", "-o", "json"], capture_output=True, text=True)
    if said.returncode != 0:
        sys.exit(f"{llama_bench} ends with {said.returncode}: {said.stderr}")
    results = json.loads(said.stdout)
    return [next(r["avg_ts"] for r in results if r[what] != 0) for what in ("n_prompt", "n_gen")]


def main():
    a = argparse.ArgumentParser()
    a.add_argument("sluice")
    a.add_argument("llama_bench")
    a.add_argument("--folder", default=".", help="where the files are made; they stay")
    a.add_argument("--shapes", nargs="+", default=["135M", "1.5B"], choices=SHAPES)
    a.add_argument("--prompt", type=int, default=512)
    a.add_argument("--tokens", type=int, default=128)
    a.add_argument("--runs", type=int, default=3)
    options = a.parse_args()
    print(f"{'bf16':6} {'':8} {'ours':>10} {'llama.cpp':>10} {'ratio':>6}   tokens/s, medians of {options.runs}")
    for shape in options.shapes:
        file = os.path.join(options.folder, f"random-{shape}.gguf")
        if not os.path.exists(file):
            write_random(file, shape)
        mine, others = [], []
        for _ in range(options.runs):
            mine.append(ours(options.sluice, file, options.prompt, options.tokens))
            others.append(peers(options.llama_bench, file, options.prompt, options.tokens))
        for what, at in (("prefill", 0), ("decode", 1)):
            here, there = (statistics.median(run[at] for run in side) for side in (mine, others))
            print(f"{shape:6} {what:8} {here:10.0f} {there:10.0f} {here / there:6.2f}", flush=True)


if __name__ == "__main__":
    main()
