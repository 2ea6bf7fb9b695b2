"""Memory of a cluster's machines that have one model: one, and several that a launcher has started, which have the
weights once, or that were started one by one, each with its own.

    python3 bench/machines_weights.py SLUICE MODEL [--precision bf16] [--machines 3]

MODEL: a checkpoint that chats. Each line is of all its processes (and `up`), when each machine has answered: Pss, in
which what processes share is divided among them, what of that is in no file, and Pss beside that of one machine; then
how long `status` had to wait until all machines were ready, and, killed and started again, one of them.
"""
from __future__ import annotations

import argparse
import json
import os
import select
import signal
import subprocess
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def children(pid: int) -> list[int]:
    found = []
    for one in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{one}/stat", encoding="utf-8", errors="replace") as file:
                if file.read().rsplit(")", 1)[1].split()[1] == str(pid):
                    found.append(int(one))
        except FileNotFoundError:
            pass
    return found


def memory(pids: list[int]) -> tuple[float, float]:
    """MB of Pss, and of that in no file."""
    pss = anonymous = 0
    for pid in pids:
        with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as file:
            rows = {line.split(":")[0]: int(line.split()[1]) for line in file.readlines()[1:]}
        pss, anonymous = pss + rows["Pss"], anonymous + rows["Pss_Anon"]
    return pss / 1024, anonymous / 1024


class Cluster:
    def __init__(self, folder: str, options, count: int, shares: bool):
        self.options, self.names = options, [f"m{i}" for i in range(count)]
        self.path = os.path.join(folder, f"{count}{shares}.yaml")
        with open(self.path, "w", encoding="utf-8") as out:
            out.write(f"cluster: 1\nworkflows: [ {ROOT}/workflows/chat.yaml ]\nmachines:\n"
                      "  front: { home: true, roles: [ parser ] }\n")
            out.writelines(f"  {name}: {{ roles: [ llm ] }}\n" for name in self.names)
        self.sets = [f"--set=roles.llm.model={options.model}", f"--set=global_params.kv.model={options.model}",
                     "--set=global_params.kv.pages=16", f"--set=roles.llm.options={{precision: {options.precision}}}"]
        self.started, began = [], time.monotonic()
        for words in [["up", self.path]] if shares else [
                ["node", "--cluster", self.path, "--name", name, "--quiet"] for name in self.names]:
            self.started.append(subprocess.Popen([options.sluice, *words, *self.sets], stdout=subprocess.DEVNULL,
                                                 stderr=subprocess.DEVNULL))
        self.until(lambda: self.ready() == set(self.names))
        self.took = time.monotonic() - began

    def until(self, condition):
        while not condition():
            select.select([], [], [], 0.005)

    def machines(self) -> list[dict]:
        done = subprocess.run([self.options.sluice, "status", "--cluster", self.path, "--format", "json"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
        return json.loads(done.stdout or '{"machines": []}')["machines"]

    def ready(self) -> set[str]:
        return {one["name"] for one in self.machines() if one["process"] == "ready"}

    def ask(self):
        """As many sessions as machines, which get one each."""
        calls = "".join(json.dumps({"id": i, "session": name, "inputs": {"request": {
            "content": [{"type": "text", "text": "Name three colors."}], "options": {"max_tokens": 8}}}}) + "\n"
            for i, name in enumerate(self.names))
        done = subprocess.run([self.options.sluice, "run", "--cluster", self.path, "--calls", "-", *self.sets],
                              input=calls.encode(), stdout=subprocess.PIPE, check=True)
        return [json.loads(line)["outputs"] for line in done.stdout.splitlines()]

    def start_again(self) -> float:
        pid = next(one["pid"] for one in self.machines() if one["name"] == "m0")
        began = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        self.until(lambda: any(one["name"] == "m0" and one["process"] == "ready" and one["pid"] != pid
                               for one in self.machines()))
        return time.monotonic() - began

    def pids(self) -> list[int]:
        return [pid for one in self.started for pid in [one.pid, *children(one.pid)]]

    def end(self):
        for one in self.started:
            one.terminate()
        for one in self.started:
            one.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sluice")
    parser.add_argument("model")
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--machines", type=int, default=3)
    options = parser.parse_args()
    options.sluice, options.model = map(os.path.abspath, (options.sluice, options.model))
    print(f"{os.path.basename(options.model)}, {options.precision}; MB and seconds\n"
          f"{'':36}{'Pss':>8}{'in no file':>12}{'of one':>8}{'ready':>8}{'again':>8}")
    one_machine = None
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_RUNTIME_DIR"] = folder
        for what, count, shares in (("one machine", 1, True),
                                    (f"{options.machines}, each its own", options.machines, False),
                                    (f"{options.machines} of one launcher", options.machines, True)):
            cluster = Cluster(folder, options, count, shares)
            answers = cluster.ask()
            assert all(answers), answers
            pss, anonymous = memory(cluster.pids())
            one_machine = one_machine or pss
            again = f"{cluster.start_again():8.2f}" if shares else ""
            print(f"{what:36}{pss:8.1f}{anonymous:12.1f}{pss / one_machine:8.2f}{cluster.took:8.2f}{again}", flush=True)
            cluster.end()


if __name__ == "__main__":
    main()
