"""More calls than a cluster can serve, some of them faulty: who is refused, who is served, and what it costs.

    python3 overload.py SLUICE ROOT PLUGINS [--seconds 10] [--minutes 15]

Four processes (a home, a reader, a worker whose role is in a host) serve a workflow whose worker takes a few milliseconds,
as a device would. First a closed loop finds the peak; then calls come at twice that rate, whatever becomes of them, and of
20 calls one is faulty: its role errs, its deadline is too short, or its role host is killed under it. Each call has exactly
one outcome, which fits it; refusals are fast; as many calls end well as before; memory and descriptors stay where they are.
`--minutes` runs it that long and asks for the slope of memory.
"""
from __future__ import annotations

import argparse
import json
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import time

from cluster_test import (ROOT, SLUICE, Up, check, children, command_of, failures, no_more_descriptors, run_and_clean,
                          started, stat_of, until)

CALLS = 64  # that the workflow takes at once
WORK_MS = 4
REFUSED = f"workflow 'served' has {CALLS} calls under way, as many as it takes at once (limits: calls); " \
    "call again when some have ended"
WORKFLOW = f"""sluice: 1
workflow: served
inputs: {{ text: text }}
roles:
  reader: {{ plugin: device }}
  worker: {{ plugin: device, options: {{ milliseconds: {WORK_MS} }} }}
nodes:
  read: {{ run: reader.act, inputs: [ {{ text: inputs.text }} ] }}
  work: {{ run: worker.act, inputs: [ {{ text: read.word }} ] }}
outputs: {{ said: work.word }}
limits: {{ calls: {CALLS}, deadline: 5s }}
"""
CLUSTER = """cluster: 1
workflows: [ served.yaml ]
machines:
  front:  { home: true }
  first:  { roles: [ reader ] }
  second: { roles: [ worker ], hosts: { box: [ worker ] } }
lease: 3s
"""
ERRS, HURRIES = "errs", "hurries"  # what is wrong with a call; "": nothing
LONG = 2  # a call that is served waits for CALLS of WORK_MS; in that many seconds each has ended


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else 0.0


class Home:
    """A running `sluice run --cluster --calls -`: lines go in without waiting for anybody, answers come with their times."""

    def __init__(self, cluster: str, plugins: str, folder: str):
        self.process = subprocess.Popen(
            [SLUICE, "run", "--cluster", cluster, "--plugins", plugins, "--calls", "-", "--concurrency", "1024",
             "--out", folder, "--join-within", "20"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=open(os.path.join(folder, "home.log"), "wb"))
        started.append(self.process)
        os.set_blocking(self.process.stdin.fileno(), False)
        self.unsent, self.text = b"", b""
        self.open = {}  # by number: when it was sent, and what is wrong with it
        self.next = 0
        self.padding = "x" * 1000
        self.ended = {}  # kind of outcome -> seconds that each took

    def ask(self, fault: str = ""):
        number, self.next = self.next, self.next + 1
        words = f"{'fail' if fault == ERRS else 'say'} {number} {self.padding}"
        line = {"id": number, "inputs": {"text": words}, **({"deadline_ms": 5} if fault == HURRIES else {})}
        self.open[number] = (time.monotonic(), fault)
        self.unsent += json.dumps(line).encode() + b"\n"
        self.send()

    def send(self):
        try:
            self.unsent = self.unsent[os.write(self.process.stdin.fileno(), self.unsent):] if self.unsent else b""
        except BlockingIOError:
            pass

    def answers(self, seconds: float) -> int:
        """Those that come within that time, at least one look."""
        can, writable, _ = select.select([self.process.stdout], [self.process.stdin] if self.unsent else [], [],
                                         max(0.0, seconds))
        if writable:
            self.send()
        if not can:
            return 0
        part = os.read(self.process.stdout.fileno(), 1 << 20)
        check(part, "the home ends")
        if not part:
            raise SystemExit(1)
        *lines, self.text = (self.text + part).split(b"\n")
        for line in lines:
            self.take(json.loads(line), time.monotonic())
        return len(lines)

    def take(self, result: dict, now: float):
        sent, fault = self.open.pop(result["id"], (None, ""))
        if sent is None:
            return check(False, f"call {result['id']} has another outcome: {result}")
        kind = self.kind(result, fault)
        check(kind, f"what is that: {fault!r}, {result}"[:600])
        self.ended.setdefault(kind, []).append(now - sent)

    def kind(self, result: dict, fault: str) -> str:
        """Empty: it does not fit what was asked."""
        if result["ok"]:
            said = result["outputs"]["said"] == f"say {result['id']} {self.padding}"
            return "served" if said and fault != ERRS else ""
        code, words = result["error"]["code"], result["error"]["message"]
        if words == REFUSED:
            return "refused" if code == "exhausted" else ""
        if "as told" in words:
            return "erred" if fault == ERRS else ""
        if code == "deadline":
            return "late" if fault == HURRIES else ""
        return "host killed" if "host 'box' died by SIGKILL" in words else ""

    def drain(self):
        until(lambda: self.answers(0.1) >= 0 and not self.open, 15, "each call ends")
        check(not self.open, f"{len(self.open)} calls have no outcome")

    def stop(self):
        self.process.stdin.close()
        check(self.process.wait(timeout=20) in (0, 1), "the home ends in order")
        check(not self.process.stdout.read(), "nothing is answered after the last call")
        self.process.stdout.close()


PROCESSES = ("home", "up", "first", "second", "host")


class Watch:
    """The processes of the cluster: what memory and descriptors they have."""

    def __init__(self, up: Up, home: Home):
        self.up, self.home = up, home
        self.samples = []  # (seconds, KiB of each of PROCESSES)

    def processes(self) -> list[int]:
        nodes = sorted(children(self.up.process.pid))
        return [self.home.process.pid, self.up.process.pid, *nodes, *(pid for node in nodes for pid in children(node))]

    def host(self) -> int | None:
        """Of the worker's role."""
        for node in children(self.up.process.pid):
            if "second" in command_of(node):
                return next(iter(children(node)), None)
        return None

    def sample(self):
        sizes = []
        for pid in self.processes():
            fields = {}
            try:
                with open(f"/proc/{pid}/status", encoding="utf-8") as file:
                    fields = dict(line.split(":", 1) for line in file)
            except (FileNotFoundError, ProcessLookupError):
                pass
            if "VmRSS" in fields:
                sizes.append(int(fields["VmRSS"].split()[0]))
        if len(sizes) == len(PROCESSES):  # else the host is being started again
            self.samples.append((time.monotonic(), sizes))

    def descriptors(self) -> dict:
        """Of those that stay: not of the host."""
        return {pid: len(os.listdir(f"/proc/{pid}/fd")) for pid in self.processes()[:4]}

    def slopes(self, after: float) -> list[float]:
        """Of each process, per minute, as a part of all memory: the lines through the samples after that moment."""
        points = [(at, sizes) for at, sizes in self.samples if at >= after]
        middle = sum(at for at, _ in points) / len(points)
        size = sum(sum(sizes) for _, sizes in points) / len(points)
        over = sum((at - middle) ** 2 for at, _ in points)
        return [60 * sum((at - middle) * sizes[one] for at, sizes in points) / over / size
                for one in range(len(PROCESSES))]


def peak(home: Home, seconds: float) -> float:
    """Calls that end well in a second, when there are always as many as are taken."""
    for _ in range(CALLS):
        home.ask()
    begin = time.monotonic()
    ended = 0
    while time.monotonic() < begin + seconds:
        for _ in range(home.answers(0.1)):
            ended += 1
            home.ask()
    rate = ended / (time.monotonic() - begin)
    home.drain()
    check(set(home.ended) == {"served"}, f"at its peak: {({k: len(v) for k, v in home.ended.items()})}")
    return rate


def overload(home: Home, watch: Watch, rate: float, seconds: float, draw: random.Random) -> float:
    """Calls served in a second, while they come at that rate."""
    home.ended = {}
    begin = now = time.monotonic()
    kill_every = min(15.0, seconds / 3)  # more than five deaths in a minute are too many
    next_call, next_kill, next_sample = begin, begin + kill_every / 2, begin
    while now < begin + seconds:
        home.answers(min(next_call, next_sample) - now)
        now = time.monotonic()
        while next_call <= now:
            fault = draw.random()
            home.ask(ERRS if fault < 0.025 else HURRIES if fault < 0.05 else "")
            next_call += draw.expovariate(rate)
        if now >= next_sample:
            watch.sample()
            next_sample += 0.25
        if now >= next_kill and (host := watch.host()):
            os.kill(host, signal.SIGKILL)
            next_kill += kill_every
    served = len(home.ended.get("served", [])) / (now - begin)
    home.drain()
    return served


def judge(home: Home, watch: Watch, peak_rate: float, served: float, begin: float, minutes: float):
    counts = {kind: len(times) for kind, times in sorted(home.ended.items())}
    refusal = percentile(home.ended.get("refused", []), 0.99)
    wait = percentile(home.ended.get("served", []), 0.99)
    print(f"peak {peak_rate:.0f} calls/s, at twice that {served:.0f} served ({served / peak_rate:.2f}); {counts}; "
          f"p99: refused after {1000 * refusal:.1f} ms, served after {1000 * wait:.0f} ms")
    # The short form runs with all other tests, on any machine: its bounds find what is broken, `--minutes` what is slow.
    least, longest = (0.9, 0.05) if minutes else (0.6, 0.5)
    check(served >= least * peak_rate, f"{served:.0f} calls/s end well, {peak_rate:.0f} at the peak")
    check(refusal < longest, f"refusals take {1000 * refusal:.0f} ms")
    check(wait < (LONG if minutes else 5), f"calls that are served take {wait:.1f} s")
    for kind in ("refused", "erred", "late", "host killed"):
        check(counts.get(kind, 0) > 0, f"no call was {kind}")
    sizes = [sum(one) for _, one in watch.samples]
    warm = begin + (120 if minutes else 0) + 2
    first = [sum(one) for at, one in watch.samples if at >= warm][:8]
    last = sizes[-8:]
    grown = sum(last) / len(last) / (sum(first) / len(first)) - 1
    slopes = watch.slopes(warm)
    print(f"memory of all five processes: {first[0] / 1024:.1f} MiB when warm, {last[-1] / 1024:.1f} at the end, at most "
          f"{max(sizes) / 1024:.1f}; {100 * sum(slopes):+.2f} %/min, {100 * grown:+.2f} % in all; of this "
          + ", ".join(f"{name} {100 * slope:+.3f}" for name, slope in zip(PROCESSES, slopes)))
    if minutes:
        check(sum(slopes) < 0.005, "memory grows")
    check(grown < (0.05 if minutes else 0.25), "memory has grown")


def main() -> int:
    parser = argparse.ArgumentParser()
    for name in ("sluice", "root", "plugins"):
        parser.add_argument(name)
    parser.add_argument("--seconds", type=float, default=10, help="of overload")
    parser.add_argument("--minutes", type=float, default=0, help="likewise; and memory's slope is asked for")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    seconds = 60 * options.minutes or options.seconds
    shm = sorted(os.listdir("/dev/shm"))
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "run"), 0o700)
        os.environ["XDG_RUNTIME_DIR"] = os.path.join(folder, "run")
        cluster = os.path.join(folder, "cluster.yaml")
        for path, text in ((cluster, CLUSTER), (os.path.join(folder, "served.yaml"), WORKFLOW)):
            with open(path, "w", encoding="utf-8") as out:
                out.write(text)
        up = Up(cluster, 2, options=["--plugins", os.path.abspath(options.plugins)])
        home = Home(cluster, os.path.abspath(options.plugins), folder)
        watch = Watch(up, home)
        home.ask()
        home.drain()
        before = watch.descriptors()
        peak_rate = peak(home, min(20.0, seconds / 3))
        begin = time.monotonic()
        served = overload(home, watch, 2 * peak_rate, seconds, random.Random(options.seed))
        judge(home, watch, peak_rate, served, begin, options.minutes)
        status = json.loads(subprocess.run([SLUICE, "status", "--cluster", cluster, "--format", "json"], cwd=ROOT,
                                           capture_output=True, text=True, timeout=20).stdout)["machines"][0]
        check(status["calls"] == 0 and status["given_up"] == 0 and status["activations"] == 0, f"left over: {status}")
        check(status["refused"] == len(home.ended["refused"]), f"status counts {status['refused']} refusals")
        no_more_descriptors(watch.descriptors, before, 5)
        home.stop()
        up.stop()
    check(sorted(os.listdir("/dev/shm")) == shm, f"/dev/shm has {os.listdir('/dev/shm')}, had {shm}")
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    run_and_clean(main)
