#!/usr/bin/env python3
"""A robot's control cycle with its trunk and its expert in one process, in one role host, and in two over the same pages.

    python3 bench/policies_apart.py SLUICE [--model MODEL] [--cycles 200] [--rounds 5]

MODEL: a pi0, pi0.5 or SmolVLA with a tokenizer, or the tiny one of the repository, of which what is shown is all way and no
model. The workflow is policy_split: two cameras of one picture, read anew in each cycle. The ways take turns, so many cycles
each, one at a time; shown is the median of a cycle in milliseconds and its ratio to that in one process of the same round.
Exit status 1 if a way has other actions. Whoever waits sleeps; a cycle has the call's way through a pipe and JSON in it, and
the file of its actions.
"""
from __future__ import annotations

import argparse
import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TINY = f"{ROOT}/tests/golden/pi05"
PICTURE = f"{ROOT}/models/scenes/samples/table.png"
HOSTS = {"one process": "", "one host": "hosts: { both: [ brain, hand ] }",
         "two hosts": "hosts: { words: [ brain ], acts: [ hand ] }"}


class Program:
    """`sluice run` that is asked call by call."""

    def __init__(self, options, folder: str, flow: str, way: str):
        self.asked = 0
        self.folder = os.path.join(folder, way.replace(" ", "_"))
        os.mkdir(self.folder)
        self.state = os.path.join(self.folder, "state.npy")
        head = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }".ljust(117) + "\n"
        with open(self.state, "wb") as out:
            out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + struct.pack("<2f", 0.25, -0.5))
        cluster = os.path.join(self.folder, "cluster.yaml")
        with open(cluster, "w", encoding="utf-8") as out:
            out.write(f"cluster: 1\nworkflows: [ {flow} ]\nmachines:\n  one:\n    home: true\n"
                      f"    roles: [ eyes, brain, hand ]\n    {HOSTS[way]}\n")
        self.program = subprocess.Popen([options.sluice, "run", "--cluster", cluster, "--calls", "-", "--concurrency", "1", "--out",
                                         self.folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)

    def cycle(self, instruction: str) -> tuple[float, bytes]:
        """Milliseconds, and the file of the actions."""
        self.asked += 1
        picture = {"file": PICTURE}
        line = json.dumps({"id": self.asked, "session": "robot",
                           "inputs": {"front": picture, "wrist": picture, "instruction": instruction,
                                      "state": {"file": self.state}}}) + "\n"
        began = time.perf_counter()
        self.program.stdin.write(line)
        self.program.stdin.flush()
        said = self.program.stdout.readline()
        took = (time.perf_counter() - began) * 1e3
        result = json.loads(said or "{}")
        if not result.get("ok"):
            sys.exit(f"a cycle failed: {said}")
        path = result["outputs"]["actions"][0]["file"]
        with open(path, "rb") as file:
            actions = file.read()
        os.remove(path)
        return took, actions

    def end(self):
        self.program.stdin.close()
        self.program.wait()


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("sluice")
    options.add_argument("--model", default=TINY)
    options.add_argument("--cycles", type=int, default=200)
    options.add_argument("--rounds", type=int, default=5)
    options = options.parse_args()
    options.sluice = os.path.abspath(options.sluice)
    with tempfile.TemporaryDirectory() as folder:
        flow = os.path.join(folder, "flow.yaml")
        with open(f"{ROOT}/workflows/policy_split.yaml", encoding="utf-8") as file:
            text = file.read().replace("tests/golden/pi05", os.path.abspath(options.model))
        with open(flow, "w", encoding="utf-8") as out:
            out.write(text.replace("limits: { deadline: 2s }", "limits: { deadline: 120s }"))
        programs = {way: Program(options, folder, flow, way) for way in HOSTS}
        differs = False
        for _ in range(3):  # the first ones load and map
            seen = {way: program.cycle("open the drawer")[1] for way, program in programs.items()}
            differs = differs or len(set(seen.values())) > 1
        ratios = {way: [] for way in HOSTS}
        for number in range(options.rounds):
            took = {way: statistics.median(program.cycle(f"open drawer {number}")[0] for _ in range(options.cycles))
                    for way, program in programs.items()}
            for way in HOSTS:
                ratios[way].append(took[way] / took["one process"])
            print("  ".join(f"{way} {took[way]:.3f} ms" for way in HOSTS), flush=True)
        for program in programs.values():
            program.end()
    print("ratios: " + ", ".join(f"{way} {min(ratios[way]):.2f} to {max(ratios[way]):.2f}" for way in HOSTS))
    if differs:
        print("the actions differ")
    sys.exit(1 if differs else 0)


if __name__ == "__main__":
    main()
