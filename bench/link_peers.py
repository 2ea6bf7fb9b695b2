#!/usr/bin/env python3
"""Frames between two processes of one computer, beside dora-rs and Ray, by turns.

Usage: link_peers.py BUILD [--rounds 3] [--folder DIR] [--beside links,dora,ray] [--install]

BUILD has bench_links and bench_values. The peers come from PyPI into a Python environment of their own, in a folder that
is removed afterwards or in DIR, where the next run finds them; --install only puts them there. Without PyPI: skipped.

What is compared, at 64 B to 16 MiB, each with one process that sends and one that reads the first and the last byte:
there and back is a frame there and a few bytes back, the median of single turns; frames/s is one way, with a bound on what
is on the way. "copied" means that the sender's bytes stand elsewhere and the library copies them once (Ray: `ray.put`, which
a call by value does by itself); "place" that they are written where the reader finds them, of which two bytes are written.
Ours (bench_values) is a call through two roles in two processes: C++ on both ends, and a turn is a whole call. The peers'
nodes and actors are Python. dora: pools of 256 MiB; frames above 4 KiB over its direct path, smaller ones with
`queue_policy: backpressure`, which goes through its daemon. It may lose frames of a burst without a word, so each is
counted; a rate at which some were lost, or no answer came for a second, is told of and measured again with half as many on
the way. Ray: an actor's method called by value, and the same as a compiled graph. Each round starts every program anew.
Figures are medians of the rounds, in brackets the least and the most; ratios are ours over the peer's best way of the same
kind.
Our raw links (bench_links, two threads, all bytes come back) stand beside, with ZeroMQ's, in no ratio to the peers.
Not in the package lists: dora, numpy, pyarrow, ray
"""
from __future__ import annotations

import argparse
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import venv

SIZES = {64: (1000, 20_000), 64 << 10: (500, 4000), 1 << 20: (200, 600), 16 << 20: (30, 120)}  # turns, frames
NAMES = {64: "64 B", 64 << 10: "64 KiB", 1 << 20: "1 MiB", 16 << 20: "16 MiB"}
PACKAGES = {"dora": ["dora-rs", "dora-rs-cli", "pyarrow", "numpy"], "ray": ["ray", "numpy"]}
POOL = 256 << 20
LONGEST = 100  # seconds of a program in a round
NO_NETWORK = re.compile(r"NewConnectionError|ConnectTimeout|name resolution|Name or service not known|Connection refused"
                        r"|Network is unreachable|ProxyError")


class Failed(Exception):
    pass


def most_on_the_way(size):
    return max(4, min((8 << 20) // (size + 64), 800))


def line(out, way, size, rate, turns):
    print(way, size, "per_second", round(rate), "us", round(statistics.median(turns) * 1e6, 2), file=out, flush=True)


# What runs inside the peers.

class DoraSource:
    """Sends frames of bytes 1 or 2; the sink answers a 2 with how many frames it has read."""

    def __init__(self):
        from dora import Node
        self.node = Node()
        self.sent = self.read = 0

    def wait(self, seconds):
        """Whether an answer came."""
        event = self.node.next(timeout=seconds)
        while event is not None and event["type"] not in ("INPUT", "ERROR"):
            event = self.node.next(timeout=seconds)
        if event is None or event["type"] == "ERROR":  # an error is how it says that time is up
            return False
        self.read = event["value"][0].as_py()
        return True

    def send(self, way, frames, mark):
        size = len(frames[mark])
        output = "direct" if size > 4096 else "queued"
        self.sent += 1
        if way == "copied":
            self.node.send_output(output, frames[mark])
            return
        sample = self.node.send_output_raw(output, size)
        view = sample.as_memoryview()
        view[0], view[size - 1] = mark, 1
        view.release()
        sample.send()

    def turn(self, way, frames):
        start = time.perf_counter()
        self.send(way, frames, 2)
        if not self.wait(5) or self.read != self.sent:
            sys.exit(f"of {self.sent} frames the sink has read {self.read}")
        return time.perf_counter() - start

    def rate(self, way, frames, count, most):
        """Frames a second with `most` on the way, or None: some were lost, or no answer came for a second."""
        every = max(most // 4, 1)
        count, start, open_marks = count // every * every, time.perf_counter(), 0
        for i in range(1, count + 1):
            self.send(way, frames, 2 if i % every == 0 else 1)
            open_marks += i % every == 0
            while open_marks == max(most // every, 1) or (i == count and open_marks):
                if not self.wait(1):
                    return None
                open_marks -= 1
        took = time.perf_counter() - start
        return count / took if self.read == self.sent else None

    def again(self):
        """How many frames were lost: what is under way arrives, one turn asks, and both count alike again."""
        while self.wait(2):
            pass
        self.send("copied", self.small, 2)
        if not self.wait(5):
            sys.exit("the sink does not answer any more")
        lost, self.sent = self.sent - self.read, self.read
        return lost


def dora_source(out):
    import numpy
    import pyarrow
    source = DoraSource()

    def frames_of(size):
        return {mark: pyarrow.array(numpy.full(size, mark, numpy.uint8)) for mark in (1, 2)}

    source.small = frames_of(64)
    for size, (turns, count) in SIZES.items():
        frames, most = frames_of(size), min(most_on_the_way(size), 32 if size > 4096 else 800)
        for way in ("copied", "place"):
            took = [source.turn(way, frames) for _ in range(turns + turns // 10 + 3)]
            rate = None
            while rate is None:
                rate = source.rate(way, frames, count, most)
                if rate is None:
                    print(f"lost {source.again()} {way} {size} most {most}", file=out, flush=True)
                    if most == 1:
                        sys.exit(f"frames of {size} bytes are lost one by one")
                    most //= 2
            line(out, way, size, rate, took[-turns:])


def dora_sink(out):
    import pyarrow
    from dora import Node
    node = Node()
    read = 0
    for event in node:
        if event["type"] in ("STOP", "INPUT_CLOSED", "ALL_INPUTS_CLOSED"):
            break
        if event["type"] != "INPUT":
            continue
        view = event["value"].to_numpy(zero_copy_only=True)
        read += 1
        if view[0] + view[-1] > 2 and view[0] == 2:
            node.send_output("back", pyarrow.array([read]))
        del view, event


def ray_calls(out):
    import numpy
    import ray
    from ray.dag import InputNode
    ray.init(include_dashboard=False, log_to_driver=False, object_store_memory=1 << 30, _temp_dir=os.environ["RAY_FOLDER"])

    @ray.remote
    class Sink:
        def take(self, frame):
            return int(frame[0]) + int(frame[-1])

    def measure(way, size, ask, most):
        turns, frames = SIZES[size]
        frame = numpy.full(size, 1, numpy.uint8)
        took = []
        for _ in range(turns + turns // 10 + 3):
            start = time.perf_counter()
            if ray.get(ask(frame)) != 2:
                sys.exit("the bytes are not what was sent")
            took.append(time.perf_counter() - start)
        frames, waiting = max(frames // 10, 40), []
        start = time.perf_counter()
        for _ in range(frames):
            if len(waiting) == most:
                ray.get(waiting.pop(0))
            waiting.append(ask(frame))
        for answer in waiting:
            ray.get(answer)
        line(out, way, size, frames / (time.perf_counter() - start), took[-turns:])

    for size in SIZES:
        sink = Sink.remote()
        measure("call", size, sink.take.remote, most_on_the_way(size))
        with InputNode() as frame:
            made = sink.take.bind(frame)
        most = min(most_on_the_way(size), 10)
        graph = made.experimental_compile(_buffer_size_bytes=size + 65_536, _max_inflight_executions=most,
                                          _max_buffered_results=most)
        measure("graph", size, graph.execute, most)
        graph.teardown()
        ray.kill(sink)
    ray.shutdown()


INSIDE = {"dora-source": dora_source, "dora-sink": dora_sink, "ray": ray_calls}
DATAFLOW = """nodes:
  - id: source
    path: {script}
    args: --inside dora-source {out}
    inputs: {{ back: {{ source: sink/back, queue_size: 1000 }} }}
    outputs: [direct, queued]
    shared_memory_pool_size: {pool}
  - id: sink
    path: {script}
    args: --inside dora-sink /dev/null
    inputs:
      direct: {{ source: source/direct, queue_size: 1000 }}
      queued: {{ source: source/queued, queue_size: 1000, queue_policy: backpressure }}
    outputs: [back]
    shared_memory_pool_size: {pool}
"""


# What starts them.

def run(command, **more):
    """What it prints. A program that fails or does not end is stopped with all that it started, and said with its words."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
                               **more)
    try:
        said, _ = process.communicate(timeout=LONGEST)
        failed = f"ended with {process.returncode}" if process.returncode else ""
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        said, _ = process.communicate()
        failed = f"did not end within {LONGEST} s"
    if failed:
        raise Failed(f"{pathlib.Path(command[0]).name} {failed}: {said[-1500:].strip()}")
    return said


def figures(text):
    """{(way, size): (frames a second, microseconds)} of lines `WAY SIZE per_second X us Y`."""
    found = re.findall(r"^(\w+) (\d+) per_second ([\d.]+) us ([\d.]+)", text, re.M)
    return {(way, int(size)): (float(rate), float(us)) for way, size, rate, us in found}


def say_losses(text):
    for lost, way, size, most in re.findall(r"^lost (\d+) (\w+) (\d+) most (\d+)", text, re.M):
        what = f"lost {lost} frames" if int(lost) else "gave no answer for a second amid frames"
        print(f"dora {what} of {NAMES[int(size)]} ({way}) with {most} on the way: again with half as many")


def complete(got, ways, what):
    missing = [f"{way} at {NAMES[size]}" for way in ways for size in SIZES if (way, size) not in got]
    if missing:
        raise Failed(f"{what} has no figure for {', '.join(missing)}")
    return got


def run_dora(python, folder):
    out = pathlib.Path(folder) / "dora.txt"
    out.write_text("")
    flow = pathlib.Path(folder) / "flow.yml"
    flow.write_text(DATAFLOW.format(script=os.path.abspath(__file__), out=out, pool=POOL))
    environment = {**os.environ, "PATH": f"{python.parent}:{os.environ['PATH']}", "VIRTUAL_ENV": str(python.parent.parent)}
    said = run([str(python.parent / "dora"), "run", str(flow)], cwd=folder, env=environment)
    say_losses(out.read_text())
    try:
        return complete(figures(out.read_text()), ["copied", "place"], "dora")
    except Failed as why:
        raise Failed(f"{why}: {said[-1500:].strip()}") from None


def run_ray(python, folder):
    out = pathlib.Path(folder) / "ray.txt"
    out.write_text("")
    with tempfile.TemporaryDirectory(prefix="ray-") as short:  # its sockets' paths may not be long
        run([str(python), os.path.abspath(__file__), "--inside", "ray", str(out)],  # HOME: it writes a token there
            env={**os.environ, "RAY_FOLDER": short, "HOME": short, "RAY_USAGE_STATS_ENABLED": "0"})
    return complete(figures(out.read_text()), ["call", "graph"], "Ray")


def run_ours(build):
    said = re.sub(r"^values ", "", run([str(build / "bench/bench_values"), "--plain"]), flags=re.M)
    for size, copied, in_message in re.findall(r"^place (\d+) .* copied (\d+) in_message (\d+)", said, re.M):
        if int(size) >= 64 << 10 and int(copied) + int(in_message):
            print(f"ours: of the frames of {NAMES[int(size)]} to be written in place {copied} were copied and {in_message} "
                  "went in messages, for no memory was free")
    return complete(figures(said), ["copied", "place"], "bench_values")


def run_links(build):
    said = run([str(build / "bench/bench_links"), "--plain", "--runs", "1"])
    found = {}
    for way, size, *numbers in re.findall(
            r"^link (\w+) (\d+) per_second ([\d.]+) us ([\d.]+) zeromq_per_second ([\d.]+) zeromq_us ([\d.]+)", said, re.M):
        rate, us, raw_rate, raw_us = map(float, numbers)
        found[way, int(size)], found[f"ZeroMQ_{way}", int(size)] = (rate, us), (raw_rate, raw_us)
    return complete(found, ["ipc", "tcp"], "bench_links")


def version(python, peer):
    """Of its packages, or "" where one is missing."""
    code = f"import importlib.metadata as m; print(*(f'{{p}} {{m.version(p)}}' for p in {PACKAGES[peer]!r}), sep=', ')"
    try:
        return run([str(python), "-c", code]).strip()
    except Failed:
        return ""


def install(folder, peers):
    """The environment's Python. Ends the program, as skipped, where PyPI cannot be reached."""
    python = pathlib.Path(folder) / "python" / "bin" / "python3"
    if not python.exists():
        venv.create(python.parent.parent, with_pip=True)
    errors = {}
    for peer in peers:
        if version(python, peer):
            continue
        said = subprocess.run(
            [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES[peer]],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if said.returncode and NO_NETWORK.search(said.stdout):
            print("PyPI cannot be reached, so there is no peer: skipped")
            sys.exit(0)
        if said.returncode:
            errors[peer] = f"is not installed: {said.stdout[-800:].strip()}"
    return python, errors


# What is said of them.

def spread(values, form):
    return f"{form(statistics.median(values))} ({form(min(values))} to {form(max(values))})"


def say_figures(results):
    for size, name in NAMES.items():
        for (who, way), of_size in results.items():
            if size in of_size:
                rates, times = zip(*of_size[size])
                print(f"{name:>7}  {who:5} {way:11}  {spread(rates, lambda v: f'{v:,.0f}'):>38} frames/s"
                      f"  {spread(times, lambda v: f'{v:,.1f}'):>36} us")


def best(results, who, ways, size, which):
    """The median of the way that is best: the most frames/s (which 0), or the fewest microseconds (1)."""
    medians = [statistics.median(v[which] for v in results[who, way][size]) for way in ways if (who, way) in results]
    return (max, min)[which](medians) if medians else None


def say_ratios(results):
    print("\nours over the peer's: frames/s (above 1: ours is faster), there and back (below 1: ours is faster)")
    pairs = [("dora", "copied", ["copied"]), ("dora", "place", ["place"]), ("ray", "copied", ["call", "graph"])]
    for peer, mine, theirs in pairs:
        for size, name in NAMES.items():
            of_peer = [best(results, peer, theirs, size, which) for which in (0, 1)]
            if None in of_peer:
                continue
            of_ours = [best(results, "ours", [mine], size, which) for which in (0, 1)]
            print(f"{name:>7}  {mine:6} over {peer:4} {' or '.join(theirs):13}  {of_ours[0] / of_peer[0]:7.2f} frames/s"
                  f"  {of_ours[1] / of_peer[1]:7.3f} there and back")


def measure(options, folder, python, errors):
    programs = {"links": lambda: run_links(options.build), "ours": lambda: run_ours(options.build),
                "dora": lambda: run_dora(python, folder), "ray": lambda: run_ray(python, folder)}
    results = {}
    for _ in range(options.rounds):
        for who in ("ours", *options.beside):
            if who in errors:
                continue
            try:
                got = programs[who]()
            except (Failed, OSError) as why:
                errors[who] = f"does not run: {why}"
                continue
            for (way, size), figure in got.items():
                results.setdefault((who, way), {}).setdefault(size, []).append(figure)
    return {key: value for key, value in results.items() if key[0] not in errors}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, help="the build folder")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", help="where the peers' environment is kept")
    parser.add_argument("--beside", type=lambda text: text.split(","), default=["links", *PACKAGES],
                        help="what runs beside bench_values: links, dora, ray")
    parser.add_argument("--install", action="store_true", help="only install the peers in --folder")
    options = parser.parse_args()
    if unknown := [who for who in options.beside if who not in ("links", *PACKAGES)]:
        parser.error(f"--beside has {unknown[0]}; known are links, {', '.join(PACKAGES)}")
    peers = [who for who in options.beside if who in PACKAGES]
    if options.rounds < 1:
        parser.error(f"--rounds is {options.rounds}; it has to be at least 1")
    if options.install and not options.folder:
        parser.error("--install needs --folder")
    with tempfile.TemporaryDirectory(prefix="link-peers-") as folder:
        python, errors = install(options.folder or folder, peers)
        if not options.install:
            for peer in peers:
                print(f"{peer}: {version(python, peer) or 'not installed'}")
            results = measure(options, folder, python, errors)
            say_figures(results)
            if any(who == "ours" for who, _ in results):
                say_ratios(results)
    for who, why in errors.items():
        print(f"error: {who} {why}", file=sys.stderr)
    return 1 if errors else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        with open(sys.argv[3], "a", encoding="utf-8") as file:
            INSIDE[sys.argv[2]](file)
        sys.exit(0)
    sys.exit(main())
