#!/usr/bin/env python3
"""What a frame costs as a cluster grows: machines in the simulator, and processes of this computer.

Usage: scale.py SLUICE [--machines 1,10,100,1000] [--processes 3,8,16,32] [--runs 3]

In the simulator a workflow of 1,000 nodes (50 chains of 20) runs on so many machines with the product's engines, codec and
links; printed is the processor's time for each event (a frame or message that comes somewhere), the least of the runs.
As processes a workflow with one node a machine runs: the time until the first answer, what a call costs, and what
each machine needs while it only waits. docs/SCALE.md says what follows from it.
"""
import argparse
import json
import os
import pathlib
import re
import resource
import subprocess
import tempfile
import time


def chains(folder):
    lines = ["sluice: 1", "workflow: wide", "inputs: { x: text }", "roles: { r: { plugin: scripted } }", "nodes:"]
    for chain in range(50):
        for i in range(20):
            source = f"n{chain}_{i - 1}.y" if i else "inputs.x"
            lines.append(f"  n{chain}_{i}: {{ run: r.a, inputs: [ {{ x: {source} }} ], outputs: [y] }}")
    lines.append("outputs: { o: [" + ", ".join(f"n{chain}_19.y" for chain in range(50)) + "] }")
    path = pathlib.Path(folder) / "wide.yaml"
    path.write_text("\n".join(lines) + "\n")
    return path


def simulate(sluice, path, machines):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    text = subprocess.run([sluice, "simulate", path, "--calls", "400", "--nodes", str(machines)], check=True,
                          stdout=subprocess.PIPE, text=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    events = int(re.search(r"\((\d+) events", text)[1])
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / events * 1e6


def cluster(folder, machines):
    roles = [f"  r{i}: {{ plugin: parse_request }}" for i in range(machines)]
    nodes = [f"  n{i}: {{ run: r{i}.parse, inputs: [ {{ request: inputs.request }} ] }}" for i in range(machines)]
    outputs = ", ".join(f"n{i}.text" for i in range(machines))
    (pathlib.Path(folder) / f"all{machines}.yaml").write_text("\n".join(
        ["sluice: 1", f"workflow: all{machines}", "inputs: { request: json }", "roles:", *roles, "nodes:", *nodes,
         f"outputs: {{ text: [{outputs}] }}"]) + "\n")
    path = pathlib.Path(folder) / f"cluster{machines}.yaml"
    path.write_text("\n".join(["cluster: 1", f"workflows: [ all{machines}.yaml ]", "machines:"] + [
        f"  m{i}: {{ {'home: true, ' * (i == 0)}roles: [ r{i} ] }}" for i in range(machines)]) + "\n")
    return path


def ticks(pid):
    return sum(map(int, open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[11:13]))


def private_kb(pid):
    return sum(int(line.split()[1]) for line in open(f"/proc/{pid}/smaps_rollup") if line.startswith("Private_"))


def processes(sluice, path):
    """Milliseconds to the first answer and for a call; of one machine: KiB, open files, share of a core at rest."""
    call = json.dumps({"inputs": {"request": {"content": [{"type": "text", "text": "hi"}]}}}) + "\n"
    begin = time.monotonic()
    home = subprocess.Popen([sluice, "run", "--cluster", path, "--calls", "-", "--concurrency", "4"], text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    home.stdin.write(call)
    home.stdin.flush()
    assert json.loads(home.stdout.readline())["ok"]
    first = (time.monotonic() - begin) * 1e3
    threads = pathlib.Path(f"/proc/{home.pid}/task").iterdir()
    children = [child for thread in threads for child in (thread / "children").read_text().split()]
    rest, begin = sum(map(ticks, children)), time.monotonic()
    while time.monotonic() < begin + 10:  # what is measured is that nothing happens
        time.sleep(1)
    rest = (sum(map(ticks, children)) - rest) / os.sysconf("SC_CLK_TCK") / 10 / len(children)
    memory = sum(map(private_kb, children)) / len(children)
    files = max(len(os.listdir(f"/proc/{child}/fd")) for child in children)
    begin = time.monotonic()
    home.stdin.write(call * 400)
    home.stdin.close()
    answers = [json.loads(line)["ok"] for line in home.stdout]
    each = (time.monotonic() - begin) * 1e3 / 400
    assert home.wait() == 0 and answers == [True] * 400
    return first, each, memory, files, rest


def main():
    numbers = lambda text: [int(n) for n in text.split(",") if n]  # noqa: E731
    a = argparse.ArgumentParser()
    a.add_argument("sluice")
    a.add_argument("--machines", type=numbers, default=[1, 10, 100, 1000])
    a.add_argument("--processes", type=numbers, default=[3, 8, 16, 32])
    a.add_argument("--runs", type=int, default=3)
    a = a.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as folder:
        path, first = chains(folder), None
        for machines in a.machines:
            cost = min(simulate(a.sluice, path, machines) for _ in range(a.runs))
            first = first or cost
            print(f"simulated  {machines:5} machines  {cost:.2f} us an event  {cost / first:.2f} x")
        for machines in a.processes:
            answer, each, memory, files, rest = processes(a.sluice, cluster(folder, machines))
            print(f"processes  {machines:5} machines  first answer {answer:5.0f} ms  a call {each:.2f} ms, "
                  f"{each / machines * 1e3:.0f} us a machine  each: {memory / 1024:.1f} MiB of its own, {files} files, "
                  f"{rest:.2%} of a core at rest")


if __name__ == "__main__":
    main()
