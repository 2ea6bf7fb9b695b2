"""Machines as processes: the same bytes as in one process, and calls when processes die or stand still.

    python3 cluster_test.py SLUICE ROOT

Nothing sleeps: conditions are polled until a deadline.
"""
from __future__ import annotations

import base64
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time

SLUICE, ROOT = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
# How many times as long an answer may take as on a machine that does nothing else.
SLACK = float(os.environ.get("SLUICE_SLACK", "1"))
LEASE = 0.8  # where machines die; elsewhere nobody may be suspected: CALM
CALM = 3.0
MACHINES = {"eyes": "[ vit ]", "paint": "[ vae ]", "talk": "[ llm, diffusion ]"}
failures, suspected, started = [], [], []


def check(condition, what: str):
    if not condition:
        failures.append(what)
        print("FAILED:", what, flush=True)


def until(condition, seconds: float, what: str):
    """What the condition gives, as soon as it is true."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if result := condition():
            return result
        select.select([], [], [], 0.005)
    check(False, f"{what}: not within {seconds} s")
    return None


def no_more_descriptors(held, before: dict, seconds: float):
    """`held()` comes down to what each process had before. A count taken while connections are still being made is one
    too high and comes to less; what leaks is more, each time again."""
    if not until(lambda: all(count <= before[who] for who, count in held().items()), seconds, "descriptors come back"):
        check(False, f"descriptors: {held()}, {before} before")


def write_cluster(folder: str, extra: str = "", name: str = "cluster.yaml",
                  lease: float = CALM) -> str:
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as out:
        out.write(f"cluster: 1\nworkflows: [ {ROOT}/workflows/image_chat.yaml ]\nmachines:\n"
                  f"  front: {{ home: true, roles: [ parser ]{extra.format('front')} }}\n")
        for machine, roles in MACHINES.items():
            out.write(f"  {machine}: {{ roles: {roles}{extra.format(machine)} }}\n")
        out.write(f"lease: {int(lease * 1000)}ms\n")
    return path


def picture() -> dict:
    with open(f"{ROOT}/models/scenes/samples/table.png", "rb") as file:
        return {"type": "image", "data": base64.b64encode(file.read()).decode(), "name": "table.png"}


def request(text: str, with_picture: bool) -> dict:
    content = ([picture()] if with_picture else []) + [{"type": "text", "text": text}]
    return {"request": {"content": content}}


QUESTION = "what color is the circle"


def line(number: int, session: str) -> str:
    """Questions need every machine but `paint`, which codes the picture; drawings need `paint`."""
    inputs = request("draw a red circle", False) if number % 2 else request(QUESTION, True)
    return json.dumps({"id": number, "session": session, "inputs": inputs})


def same_bytes(folder: str, cluster: str):
    calls = os.path.join(folder, "calls.jsonl")
    with open(calls, "w", encoding="utf-8") as out:
        for number in range(8):
            out.write(line(number, f"d{number}" if number % 2 else f"q{number % 4}") + "\n")
    seen = []
    for where in ([f"{ROOT}/workflows/image_chat.yaml"], ["--cluster", cluster]):
        outputs = os.path.join(folder, f"out{len(seen)}")
        os.mkdir(outputs)
        done = subprocess.run([SLUICE, "run", *where, "--calls", calls, "--out", outputs,
                               "--concurrency", "1"], cwd=ROOT,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
        check(done.returncode == 0, f"run {where}: {done.stderr}")
        results = {json.loads(text)["id"]: text.replace(outputs, "")
                   for text in done.stdout.splitlines()}
        check(len(results) == 8, f"{len(results)} results of 8 calls")
        files = {}
        for name in sorted(os.listdir(outputs)):
            with open(os.path.join(outputs, name), "rb") as file:
                files[name] = file.read()
        check(len(files) == 4, f"{sorted(files)} were drawn")
        seen.append((results, files))
    for key in seen[0][0]:
        check(seen[0][0][key] == seen[1][0].get(key),
              f"one process: {seen[0][0][key]}, four: {seen[1][0].get(key)}")
    check(seen[0][1] == seen[1][1], "one process and four do not draw the same")


class Up:
    """A running `sluice up`, once its machines are ready."""

    def __init__(self, cluster: str, machines: int = len(MACHINES), env: dict | None = None, options=()):
        self.cluster = cluster
        self.process = subprocess.Popen([SLUICE, "up", cluster, *options], cwd=ROOT, env=env,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        started.append(self.process)
        ready = b""
        while ready.count(b"is ready") < machines:
            can, _, _ = select.select([self.process.stdout], [], [], 20)
            part = os.read(self.process.stdout.fileno(), 4096) if can else b""
            if not part:
                check(False, f"up: {ready!r}")
                break
            ready += part

    def pid_of(self, machine: str) -> int | None:
        for child in children(self.process.pid):
            words = command_of(child)
            if "--name" in words and words[words.index("--name") + 1] == machine:
                return child
        return None

    def stop(self, how=signal.SIGINT):
        nodes = children(self.process.pid)
        self.process.send_signal(how)
        self.process.wait(timeout=20)
        until(lambda: not any(is_there(node) for node in nodes), 10, "the machines end with `up`")
        self.process.stdout.close()


def children(pid: int) -> list[int]:
    """By their parent: not every kernel lists the children of a process."""
    return [int(child) for child in os.listdir("/proc") if child.isdigit()
            and stat_of(int(child))[1:2] == [str(pid)]]


def stat_of(pid: int) -> list[str]:
    """What follows its name: the state, the parent, and more. Empty: it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def command_of(pid: int) -> list[str]:
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
            return file.read().split("\0")
    except (FileNotFoundError, ProcessLookupError):
        return []


def is_there(pid: int) -> bool:
    return stat_of(pid)[:1] not in ([], ["Z"], ["X"])


class Home:
    """A running `sluice run --cluster --calls -`, asked line by line."""

    def __init__(self, cluster: str, folder: str):
        self.process = subprocess.Popen(
            [SLUICE, "run", "--cluster", cluster, "--calls", "-", "--out", folder,
             "--join-within", "20"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL)
        started.append(self.process)
        self.text = b""
        self.next = 0
        self.answered = set()

    def ask(self, kind: int) -> int:
        number = 2 * self.next + kind
        self.next += 1
        self.process.stdin.write((line(number, f"t{number}") + "\n").encode())
        self.process.stdin.flush()
        return number

    def answer(self, seconds: float) -> dict | None:
        deadline = time.monotonic() + seconds
        while b"\n" not in self.text:
            can, _, _ = select.select([self.process.stdout], [], [],
                                      max(0.0, deadline - time.monotonic()))
            part = os.read(self.process.stdout.fileno(), 65536) if can else b""
            if not part:
                check(False, f"no answer within {seconds:.1f} s")
                return None
            self.text += part
        text, _, self.text = self.text.partition(b"\n")
        result = json.loads(text)
        check(result["id"] not in self.answered, f"call {result['id']} is answered twice")
        self.answered.add(result["id"])
        return result

    def pause(self):
        """Nothing is answered meanwhile; calls without a pause would starve who is to be heard."""
        select.select([self.process.stdout], [], [], 0.02)

    def call(self, kind: int, seconds: float = (LEASE + 1.5) * SLACK) -> dict | None:
        number = self.ask(kind)
        result = self.answer(seconds)
        check(result is None or result["id"] == number, "another call is answered")
        return result

    def stop(self):
        self.process.stdin.close()
        self.process.wait(timeout=20)
        self.process.stdout.close()


def is_named(result: dict | None, machine: str) -> bool:
    """It went well or names the machine, or another that this computer was too busy to hear."""
    if result is None or result["ok"]:
        return result is not None
    words = result["error"]["message"]
    if f"machine '{machine}'" in words:
        return True
    suspected.append(words)
    return result["error"]["code"] == "unavailable" and "is lost" in words


def works_again(home: Home, machine: str, kind: int):
    """Polls with calls, each of which ends well or names the machine."""
    def once():
        home.pause()
        result = home.call(kind)
        check(is_named(result, machine), f"{machine}: {result}")
        return result is not None and result["ok"]
    until(once, 15, f"calls after {machine} is back")


def kill_matrix(folder: str, cluster: str) -> int:
    up = Up(cluster)
    home = Home(cluster, folder)
    until(lambda: (home.call(0, 20) or {}).get("ok"), 20, "the first call")
    cases = 0
    for machine in MACHINES:
        kind = 1 if machine == "paint" else 0
        for how in (signal.SIGKILL, signal.SIGSTOP):
            for under_way in (0, 1, 4) if how == signal.SIGKILL else (0, 4):
                cases += 1
                pid = up.pid_of(machine)
                asked = [home.ask(kind) for _ in range(under_way)]
                os.kill(pid, how)
                began = time.monotonic()
                for _ in asked:
                    result = home.answer((LEASE + 1.5) * SLACK)
                    check(is_named(result, machine), f"{how.name} of {machine}: {result}")
                while how == signal.SIGSTOP and time.monotonic() < began + 3 * LEASE:
                    home.pause()
                    result = home.call(kind)
                    check(is_named(result, machine) and not result["ok"],
                          f"{machine} stands still, and {result}")
                if how == signal.SIGSTOP:
                    os.kill(pid, signal.SIGCONT)
                works_again(home, machine, kind)
    home.stop()
    up.stop()
    return cases


def killed_home(folder: str, cluster: str):
    """What it had begun is gone, the others take the next one."""
    up = Up(cluster)
    home = Home(cluster, folder)
    check((home.call(0, 20) or {}).get("ok"), "the first call, and nobody dies")
    home.ask(0)
    home.process.kill()
    home.process.wait()
    home.process.stdin.close()
    home.process.stdout.close()
    again = Home(cluster, folder)
    check((again.call(0, 20) or {}).get("ok"), "a home after a killed one")
    again.stop()
    up.stop()


def killed_up(cluster: str):
    up = Up(cluster)
    up.stop(signal.SIGKILL)
    up = Up(cluster)
    up.stop(signal.SIGTERM)


def nobody_joins(folder: str):
    os.mkdir(os.path.join(folder, "sockets"), 0o700)
    cluster = write_cluster(folder, f", address: \"ipc://{folder}/sockets/{{}}\"", "remote.yaml")
    done = subprocess.run([SLUICE, "run", "--cluster", cluster, "--prompt", "draw a star",
                           "--join-within", "1"], cwd=ROOT, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=30)
    check(done.returncode == 1 and "machines 'eyes', 'paint', 'talk' did not join within 1000 ms" in done.stderr,
          f"nobody joins: {done.stderr}")
    check("--name MACHINE`; one that runs says itself, or in what `sluice up` prints, what keeps it out" in done.stderr, f"nobody joins: {done.stderr}")


def kept_out(folder: str):
    """A machine with another `--set` is named by the home at once, and once, with what to do."""
    cluster = os.path.join(folder, "remote.yaml")
    node = subprocess.Popen([SLUICE, "node", "--cluster", cluster, "--name", "eyes", "--set", "limits.deadline=50s"], cwd=ROOT,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    started.append(node)
    check("is ready" in node.stdout.readline(), "a machine with another --set is ready")
    home = subprocess.Popen([SLUICE, "run", "--cluster", cluster, "--prompt", "draw a star"], cwd=ROOT,
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    started.append(home)
    said = []
    while not said or (said[-1] and "(workflow)" not in said[-1]):
        said.append(home.stderr.readline())
    check("note: machine 'eyes'" in said[-1] and said[-1].endswith("; start both with the same cluster file, workflows and --set\n"),
          f"kept out: {said}")
    home.send_signal(signal.SIGTERM)
    rest = home.communicate(timeout=60)[1]
    check("(workflow)" not in rest, f"kept out: said once: {said} {rest}")
    node.terminate()
    node.communicate(timeout=60)


def main():
    with tempfile.TemporaryDirectory() as folder:
        run = os.path.join(folder, "run")
        os.mkdir(run, 0o700)
        os.environ["XDG_RUNTIME_DIR"] = run
        cluster = write_cluster(folder)
        same_bytes(folder, cluster)
        check(not os.listdir(run), f"`run` leaves {os.listdir(run)}")
        killed_home(os.path.join(folder, "out0"), cluster)
        short = write_cluster(folder, "", "short.yaml", LEASE)
        cases = kill_matrix(os.path.join(folder, "out0"), short)
        check(not os.listdir(run), f"`up` leaves {[x for x in os.walk(run)]}")
        killed_up(cluster)
        check(not os.listdir(run), f"a killed `up` leaves {[x for x in os.walk(run)]}")
        nobody_joins(folder)
        kept_out(folder)
        check(not [pid for pid in os.listdir("/proc") if pid.isdigit()
                   and {cluster, short} & set(command_of(int(pid)))], "processes are left")
    print(f"{cases} cases of processes that died or stood still, {len(failures)} failures; "
          f"{len(suspected)} calls ended because a busy computer did not let a machine be heard")
    return 1 if failures else 0


def run_and_clean(test):
    """Runs it and ends; what a failed test has left is killed, and the machines end with `up`."""
    try:
        sys.exit(test())
    finally:
        for process in started:
            if process.poll() is None:
                process.kill()


if __name__ == "__main__":
    run_and_clean(main)
