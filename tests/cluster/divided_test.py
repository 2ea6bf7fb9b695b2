"""A role whose replicas all run each set of inputs, on two machines: the bytes of one process, replicas that die or stand
still at each place of what is said of them, and nothing left behind.

    python3 divided_test.py SLUICE ROOT

Nothing sleeps: conditions are polled until a deadline.
"""
from __future__ import annotations

import base64
import glob
import json
import os
import re
import signal
import socket
import struct
import subprocess
import tempfile
import time
import zlib

from cluster_test import CALM, LEASE, ROOT, SLACK, SLUICE, Up, check, failures, run_and_clean, started, stat_of, until
from restart_test import HeardHome

WORKFLOW = """sluice: 1
workflow: divided
inputs: { request: json }
roles:
  judge: { plugin: parse_request, replicas: 3, balance: broadcast }
nodes:
  ask: { run: judge.parse, inputs: [ { request: inputs.request } ], on_error: skip }
outputs: { text: ask.text, image: ask.image }
limits: { deadline: 60s }
"""
# Where a machine is struck: 'one' has the engine and replicas 0 and 1, 'two' has replica 2.
PLACES = {"one": ("replica_asked", "replica_said"), "two": ("replica_begun", "replica_yielded", "replica_ended")}


def picture(side: int) -> dict:
    """A PNG of so many pixels each way, which decodes to three bytes each."""
    def part(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    rows = b"".join(b"\0" + bytes((x * y + z) % 251 for x in range(side) for z in range(3)) for y in range(side))
    data = (b"\x89PNG\r\n\x1a\n" + part(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)) +
            part(b"IDAT", zlib.compress(rows, 1)) + part(b"IEND", b""))
    return {"type": "image", "data": base64.b64encode(data).decode(), "name": "large.png"}


LARGE = picture(400)


def line(number: int) -> str:
    content = [{"type": "text", "text": f"question {number}"}, LARGE, {"type": "text", "text": "?"}]
    return json.dumps({"id": number, "session": f"s{number}", "inputs": {"request": {"content": content}}})


class DividedHome(HeardHome):
    def ask(self, kind: int = 0) -> int:
        number = self.next
        self.next += 1
        self.process.stdin.write((line(number) + "\n").encode())
        self.process.stdin.flush()
        return number


def write_cluster(folder: str, lease: float, more: str = "") -> str:
    with open(os.path.join(folder, "divided.yaml"), "w", encoding="utf-8") as out:
        out.write(WORKFLOW)
    path = os.path.join(folder, f"cluster{int(lease * 1000)}{'more' if more else ''}.yaml")
    with open(path, "w", encoding="utf-8") as out:
        out.write("cluster: 1\nworkflows: [ divided.yaml ]\nmachines:\n  front: { home: true }\n"
                  f"  one: {{ roles: [ judge ] }}\n  two: {{ roles: [ judge ]{more} }}\n"
                  f"lease: {int(lease * 1000)}ms\n")
    return path


def status(cluster: str) -> dict:
    done = subprocess.run([SLUICE, "status", "--cluster", cluster, "--format", "json"], cwd=ROOT,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=30)
    return {one["name"]: one for one in json.loads(done.stdout)["machines"]} if done.returncode == 0 else {}


def same_bytes(folder: str, *clusters: str):
    calls = os.path.join(folder, "calls.jsonl")
    with open(calls, "w", encoding="utf-8") as out:
        for number in range(6):
            out.write(line(number) + "\n")
    seen = []
    for where in ([os.path.join(folder, "divided.yaml")], *(["--cluster", cluster] for cluster in clusters)):
        outputs = os.path.join(folder, f"out{len(seen)}")
        os.mkdir(outputs)
        done = subprocess.run([SLUICE, "run", *where, "--calls", calls, "--out", outputs], cwd=ROOT,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
        check(done.returncode == 0, f"run {where}: {done.stderr}")
        results = {json.loads(text)["id"]: text.replace(outputs, "") for text in done.stdout.splitlines()}
        files = {}
        for name in sorted(os.listdir(outputs)):
            with open(os.path.join(outputs, name), "rb") as file:
                files[name] = file.read()
        check(len(results) == 6 and len(files) == 18, f"{len(results)} results, {sorted(files)}")
        seen.append((results, files))
    for key, want in seen[0][0].items():
        check(want.count("question") == 3, f"three replicas: {want}")
        for results, _ in seen[1:]:
            check(want == results.get(key), f"one process: {want}, three: {results.get(key)}")
    check(all(files == seen[0][1] for _, files in seen), "one process and three do not show the same pictures")


def pictures_in_place():
    """Those of replica 2 are read where they stand by the machine that has the engine, as its own status says."""
    found = glob.glob(os.path.join(os.environ["XDG_RUNTIME_DIR"], "**", "2.status"), recursive=True)
    said = b""
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(found[0])
        while part := link.recv(65536):
            said += part
    counts = re.findall(rb'"in_place":([0-9]+)', said)
    check(any(int(count) > 0 for count in counts), f"no picture was read in place: {said!r}")


def is_whole(result: dict | None) -> bool:
    return bool(result and result["ok"] and json.dumps(result).count("question") == 3 and not result.get("warnings"))


def is_right(result: dict | None, victim: str) -> bool:
    """Whole; or, where the victim has replica 2 alone, without its frames and with a warning that names it; or, where
    the victim has the engine, an error that names it."""
    if result is None or is_whole(result):
        return result is not None
    if victim == "one":
        return not result["ok"] and "machine 'one'" in result["error"]["message"]
    lost = [one for one in result.get("warnings", []) if "machine 'two', where replica 2 of node 'ask' runs, is lost" in one]
    return result["ok"] and len(lost) == 1 and 2 <= json.dumps(result).count("question") <= 3


def strike(cluster: str, folder: str, up: Up, home: DividedHome, victim: str, place: str, how: signal.Signals):
    what = f"{how.name} of {victim} at {place}"
    pid = until(lambda: up.pid_of(victim), 10, f"{what}: it runs")
    path = os.path.join(folder, "fail", f"{victim}.{place}")
    with open(path + "~", "w", encoding="utf-8") as out:
        out.write(f"{int(how)} 1 ")
    os.rename(path + "~", path)
    for _ in range(3):
        home.ask()
    until(lambda: not os.path.exists(path), 8, f"{what}: it is passed")
    began = time.monotonic()
    for _ in range(3):
        result = home.answer((LEASE + 1.5) * SLACK + 20)  # those that had not begun may wait for the machine
        check(is_right(result, victim), f"{what}: {result}")
    if how == signal.SIGSTOP:
        until(lambda: stat_of(pid)[:1] == ["T"], 2, f"{what}: it stands still")
        until(lambda: time.monotonic() > began + 3 * LEASE, 3 * LEASE + 1, "three leases")
        os.kill(pid, signal.SIGCONT)

    def whole_again():
        home.pause()
        home.ask()
        result = home.answer(20)
        check(is_right(result, victim), f"{what}: afterwards {result}")
        return is_whole(result)
    until(whole_again, 15, f"{what}: all replicas again")
    idle = lambda: all(status(cluster).get(name, {}).get("activations", 1) == 0 for name in ("one", "two"))
    until(idle, 5, f"{what}: nothing runs any more")


def strikes(folder: str, cluster: str) -> int:
    fail = os.path.join(folder, "fail")
    os.mkdir(fail)
    up = Up(cluster, 2, {**os.environ, "SLUICE_FAILPOINTS": fail})
    home = DividedHome(cluster, folder)
    first = until(lambda: home.ask() + 1 and home.answer(20), 20, "the first call")
    check(is_whole(first), f"the first call: {first}")
    pictures_in_place()
    cases = 0
    for victim, places in PLACES.items():
        for place in places:
            for how in (signal.SIGKILL, signal.SIGSTOP):
                strike(cluster, folder, up, home, victim, place, how)
                cases += 1
    home.stop()
    up.stop()
    return cases


def main():
    with tempfile.TemporaryDirectory() as folder:
        run = os.path.join(folder, "run")
        os.mkdir(run, 0o700)
        os.environ["XDG_RUNTIME_DIR"] = run
        memory = sorted(os.listdir("/dev/shm"))
        # Also where the replica is in a process of its own beside its machine.
        same_bytes(folder, write_cluster(folder, CALM), write_cluster(folder, CALM, ", hosts: { apart: [ judge ] }"))
        cases = strikes(folder, write_cluster(folder, LEASE))
        check(not os.listdir(run), f"`up` leaves {[x for x in os.walk(run)]}")
        check(sorted(os.listdir("/dev/shm")) == memory, f"/dev/shm: {sorted(os.listdir('/dev/shm'))}, {memory} before")
    print(f"{cases} times a machine with replicas was struck, {len(failures)} checks failed")
    return 1 if failures else 0


if __name__ == "__main__":
    run_and_clean(main)
