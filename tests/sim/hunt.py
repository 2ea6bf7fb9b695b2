"""Looks for trouble: generated workflows on simulated machines under every kind of fault.

    python3 hunt.py SLUICE --workflows 200 --seeds 50 [--seed 1] [--jobs 2]

Prints seeds, events and how often each fault happened; exit status 1 with the command that shows a
violation, or when a kind of fault was never reached.
"""
from __future__ import annotations

import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../semantics"))
from generate import generate  # noqa: E402


def run(sluice: str, workflow: str, profile: str, seeds: int, seed: int) -> tuple[int, str]:
    machines = 2 + seed % 4
    # Every third is busy: calls then begin in the few milliseconds between a machine's loss and the
    # news of it, which differ for each of the others.
    busy = seed // 1000 % 3 == 0
    command = [sluice, "simulate", workflow, "--calls", "32" if busy else "8", "--sessions", "3",
               "--rate", "240" if busy else "60", "--nodes", str(machines), "--faults",
               "--seeds", str(seeds // 2 if busy else seeds), "--seed", str(seed)]
    if busy and seed // 1000 % 2 == 0:  # more calls than are let in
        command += ["--set", "limits.calls=6"]
    if profile:
        command += ["--profile", profile]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        return done.returncode, done.stdout[-1500:] + "\n" + " ".join(command)
    return 0, done.stdout


def main() -> int:
    a = argparse.ArgumentParser()
    a.add_argument("sluice")
    a.add_argument("--workflows", type=int, default=200)
    a.add_argument("--seeds", type=int, default=50)
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--jobs", type=int, default=2)
    a.add_argument("--least", type=int, default=100, help="how often each kind of fault has to happen")
    a.add_argument("--shipped", nargs="*", default=[])
    a = a.parse_args()
    totals, seeds, events, tried = {}, 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        generate(a.seed, a.workflows, folder, queue=1)
        work = [(w, "") for w in a.shipped]
        work += [(f"{folder}/w{i:05d}.yaml", f"{folder}/s{i:05d}.yaml") for i in range(a.workflows)]
        accepted = [(w, p) for w, p in work
                    if subprocess.run([a.sluice, "validate", w], stdout=subprocess.DEVNULL,
                                      stderr=subprocess.DEVNULL).returncode == 0]
        with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
            jobs = [pool.submit(run, a.sluice, w, p, a.seeds, a.seed + 1000 * i)
                    for i, (w, p) in enumerate(accepted)]
            for job in jobs:
                status, text = job.result()
                if status != 0:
                    print(text)
                    for other in jobs:
                        other.cancel()
                    return 1
                tried += 1
                match = re.search(r"^(\d+) seeds?, (\d+) events?", text, re.M)
                seeds, events = seeds + int(match[1]), events + int(match[2])
                for count, kind in re.findall(r"^  (\d+) (.+)$", text, re.M):
                    totals[kind] = totals.get(kind, 0) + int(count)
    print(f"{tried} workflows, {seeds} seeds, {events} events, 0 violations")
    for kind, count in totals.items():
        print(f"  {count} {kind}")
    missing = [kind for kind, count in totals.items() if count < a.least]
    if missing:
        print("too rarely reached:", ", ".join(missing))
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
