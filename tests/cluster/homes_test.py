"""Two homes before one cluster: the bytes of one process from both, calls of both at once, and the death of one, which
costs its own calls only.

    python3 homes_test.py SLUICE ROOT

Nothing sleeps: conditions are polled until a deadline.
"""
from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import tempfile
import time

from cluster_test import (CALM, MACHINES, ROOT, SLACK, SLUICE, Home, Up, check, failures, line, no_more_descriptors,
                          run_and_clean, started, stat_of, until)

HOMES = ("front", "side")


def write_cluster(folder: str, keeper: str, lease: float) -> str:
    """`parser` is with `eyes`, so no home has roles."""
    path = os.path.join(folder, "cluster.yaml")
    with open(path, "w", encoding="utf-8") as out:
        out.write(f"cluster: 1\nworkflows: [ {ROOT}/workflows/image_chat.yaml ]\nmachines:\n")
        for home in HOMES:
            out.write(f"  {home}: {{ home: true }}\n")
        for machine, roles in {**MACHINES, "eyes": "[ parser, vit ]"}.items():
            out.write(f"  {machine}: {{ roles: {roles}{', keeper: true' if machine == keeper else ''} }}\n")
        out.write(f"lease: {int(lease * 1000)}ms\n")
    return path


class NamedHome(Home):
    """One of several, whose notes are kept. Its sessions are its own: another home would say where they are."""

    def __init__(self, cluster: str, folder: str, name: str):
        self.notes = os.path.join(folder, name + ".notes")
        with open(self.notes, "w", encoding="utf-8") as notes:
            self.process = subprocess.Popen(
                [SLUICE, "run", "--cluster", cluster, "--name", name, "--calls", "-", "--out", folder, "--join-within",
                 "20"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=notes)
        started.append(self.process)
        self.text, self.next, self.answered, self.name = b"", 0, set(), name

    def ask(self, kind: int, session: str = "", more: dict | None = None) -> int:
        number = 2 * self.next + kind
        self.next += 1
        text = {**json.loads(line(number, session or f"{self.name}{number}")), **(more or {})}
        self.process.stdin.write((json.dumps(text) + "\n").encode())
        self.process.stdin.flush()
        return number

    def call_in(self, session: str, kind: int = 0, **more) -> dict:
        """How a call of this session ends."""
        number = self.ask(kind, session, more)
        result = self.answer(20) or {}
        check(result.get("id") == number, f"another call is answered: {result}")
        return result

    def count(self, words: str) -> int:
        with open(self.notes, encoding="utf-8") as notes:
            return notes.read().count(words)


def status(cluster: str) -> dict:
    done = subprocess.run([SLUICE, "status", "--cluster", cluster, "--format", "json"], cwd=ROOT,
                          stdout=subprocess.PIPE, text=True, timeout=20)
    return {one["name"]: one for one in json.loads(done.stdout or "{}").get("machines", [])}


def descriptors(cluster: str) -> dict:
    rows = status(cluster)
    return {name: len(os.listdir(f"/proc/{rows[name]['pid']}/fd")) for name in MACHINES}


def results_of(where: list[str], calls: str, outputs: str) -> tuple[dict, dict]:
    """What each call says, and the files it has made. One at a time, as in cluster_test.py."""
    os.mkdir(outputs)
    done = subprocess.run([SLUICE, "run", *where, "--calls", calls, "--out", outputs, "--concurrency", "1"], cwd=ROOT,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    check(done.returncode == 0, f"run {where}: {done.stderr}")
    said = {json.loads(text)["id"]: text.replace(outputs, "") for text in done.stdout.splitlines()}
    files = {}
    for name in sorted(os.listdir(outputs)):
        with open(os.path.join(outputs, name), "rb") as file:
            files[name] = file.read()
    return said, files


def same_bytes(folder: str):
    """Both homes, one after the other and at once, say what one process says, in sessions that are called alike."""
    cluster = write_cluster(folder, "talk", 3.0)
    calls = os.path.join(folder, "calls.jsonl")
    with open(calls, "w", encoding="utf-8") as out:
        for number in range(6):
            out.write(line(number, f"d{number}" if number % 2 else f"q{number % 4}") + "\n")
    want = results_of([f"{ROOT}/workflows/image_chat.yaml"], calls, os.path.join(folder, "alone"))
    check(len(want[0]) == 6 and len(want[1]) == 3, f"one process: {sorted(want[0])} {sorted(want[1])}")
    up = Up(cluster)
    for name in HOMES:
        got = results_of(["--cluster", cluster, "--name", name], calls, os.path.join(folder, name))
        check(got == want, f"'{name}' says {got[0]}, one process {want[0]}")
    # One session is at one home, so at once each has others.
    outputs = {name: os.path.join(folder, name + "-beside") for name in HOMES}
    beside = []
    for name, output in outputs.items():
        os.mkdir(output)
        own = os.path.join(folder, name + ".jsonl")
        with open(calls, encoding="utf-8") as text, open(own, "w", encoding="utf-8") as out:
            for each in text:
                call = json.loads(each)
                out.write(json.dumps({**call, "session": name + call["session"]}) + "\n")
        beside.append(subprocess.Popen([SLUICE, "run", "--cluster", cluster, "--name", name, "--calls", own, "--out",
                                        output, "--concurrency", "1"], cwd=ROOT, stdout=subprocess.PIPE,
                                       stderr=subprocess.DEVNULL, text=True))
        started.append(beside[-1])
    for (name, output), process in zip(outputs.items(), beside):
        said, _ = process.communicate(timeout=60)
        got = {json.loads(text)["id"]: text.replace(output, "").replace(f'"session":"{name}', '"session":"')
               for text in said.splitlines()}
        check(process.returncode == 0 and got == want[0], f"'{name}' beside the other says {got}")
    at_rest(cluster)
    check(all(row.get("lives") == 1 for name, row in status(cluster).items() if name not in HOMES),
          "homes come and go, and nobody begins anew")
    up.stop()


def at_rest(cluster: str):
    def is_at_rest() -> bool:
        return all(row.get("activations", 0) == 0 and row.get("calls", 0) == 0 for row in status(cluster).values())
    until(is_at_rest, 20, "nothing runs and nothing is open")


def one_dies(folder: str):
    """`side` is killed amid its calls, and stands still for longer than a lease; the calls of `front` end well."""
    cluster = write_cluster(folder, "talk", CALM)  # a short lease may end on a busy machine, and all begin anew
    up = Up(cluster)
    front = NamedHome(cluster, folder, "front")
    until(lambda: (front.call(0, 20) or {}).get("ok"), 20, "the first call")
    front.pause()
    before = descriptors(cluster)
    for how in (signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP):
        side = NamedHome(cluster, folder, "side")
        until(lambda: (side.call(0, 20) or {}).get("ok"), 20, "a call at the other home")
        rows = status(cluster)
        check([rows[name]["process"] for name in HOMES] == ["ready", "ready"], f"both homes are shown: {rows}")
        for _ in range(4):
            side.ask(1)
            front.ask(1)
        os.kill(side.process.pid, how)
        for _ in range(4):
            said = front.answer(20)
            check(said is not None and said["ok"], f"a call of the other home: {said}")
        until(lambda: front.count("machine 'side' is lost") > 0 or status(cluster)["side"].get("state") == "lost", 20,
              "the keeper finds out")
        if how == signal.SIGSTOP:
            os.kill(side.process.pid, signal.SIGCONT)
            until(lambda: status(cluster)["side"].get("state") == "there", 20, "it is let in again")
            for _ in range(4):
                said = side.answer(20)
                check(said is not None and (said["ok"] or "machine 'side'" in str(said)), f"a call amid it: {said}")
            until(lambda: (side.call(0, 20) or {}).get("ok"), 20, "it begins calls again")
            side.stop()
        else:
            side.process.wait(timeout=10)
        front.pause()
        at_rest(cluster)
    no_more_descriptors(lambda: descriptors(cluster), before, 20)
    check(all(status(cluster)[name]["lives"] == 1 for name in MACHINES), "no machine has begun anew")
    front.stop()
    up.stop()


def at(session: str, home: str) -> str:
    return f"session '{session}' is at machine '{home}': call it there"


def says(result: dict, words: str) -> bool:
    return not result.get("ok") and result.get("error", {}).get("message") == words


def one_session(folder: str):
    """The first caller has it, the other home says where it is; its end, and the loss of its home, give it free."""
    cluster = write_cluster(folder, "talk", CALM)
    up = Up(cluster)
    front, side = (NamedHome(cluster, folder, name) for name in HOMES)
    check(front.call_in("amy").get("ok"), "the first call")
    refused = side.call_in("amy")
    check(says(refused, at("amy", "front")) and refused["error"]["code"] == "unavailable", f"the wrong home: {refused}")
    check(side.call_in("bob").get("ok") and says(front.call_in("bob"), at("bob", "side")), "another session")
    # At once, many times: exactly one of the two gets it, and both say which.
    for turn in range(20):
        name = f"both{turn}"
        for home in (front, side):
            home.ask(0, name)
        results = {home.name: home.answer(20) for home in (front, side)}
        won = [home for home, result in results.items() if result and result["ok"]]
        check(len(won) == 1 and all(says(result, at(name, won[0])) for home, result in results.items()
                                    if home != won[0]), f"both homes at once: {results}")
    # It ends, and is the other's.
    check(front.call_in("amy", end_session=True).get("ok"), "its last call")
    until(lambda: side.call_in("amy").get("ok"), 20, "the other home has it")
    check(says(front.call_in("amy"), at("amy", "side")), "now it is there")
    # A line without a session asks for none: each home has its own.
    for home in (front, side):
        home.process.stdin.write((json.dumps({"id": -1, "inputs": json.loads(line(0, "x"))["inputs"]}) + "\n").encode())
        home.process.stdin.flush()
        result = home.answer(20)
        check(result is not None and result["ok"], f"a line without a session: {result}")
    # Its home dies: within a lease and a second it is another's, who says that it begins anew.
    side.process.kill()
    side.process.wait(timeout=10)
    began = time.monotonic()
    last = until(lambda: (lambda result: result if result.get("ok") else None)(front.call_in("amy")),
                 (CALM + 1) * SLACK, "the session is free")
    print(f"a session of a home that was killed is another's after {time.monotonic() - began:.2f} s")
    words = "session 'amy' was at machine 'side', which is lost: it begins anew at machine 'front'"
    check(last is not None and last["warnings"] == [words], f"it is said: {last}")
    check(front.count(words) == 1 and front.call_in("amy").get("warnings") == [], "and said once")
    side = NamedHome(cluster, folder, "side")
    check(says(side.call_in("amy"), at("amy", "front")), "the next process of the home")
    # A home that ends in order ends its sessions.
    front.stop()
    until(lambda: side.call_in("amy").get("ok"), 20, "the session of a home that has ended")
    side.stop()
    up.stop()


def sessions_without_their_keeper(folder: str):
    """All begin anew with the keeper, sessions too: the next call says so, and whoever comes first has it."""
    cluster = write_cluster(folder, "talk", CALM)
    up = Up(cluster)
    front, side = (NamedHome(cluster, folder, name) for name in HOMES)
    for name, home in (("amy", front), ("bob", side)):
        check(home.call_in(name).get("ok") and home.call_in(name).get("ok"), "the first calls")
    keeper = status(cluster)["talk"]["pid"]
    os.kill(keeper, signal.SIGKILL)
    until(lambda: not stat_of(keeper), 5, "it is dead, with all its threads")
    for home in (front, side):
        until(lambda home=home: status(cluster)[home.name].get("lives") == 2, 20, "the homes begin anew")
    result = front.call_in("amy")
    words = "session 'amy' was lost with an earlier life of machine 'front', where its calls begin: it begins anew"
    check(result.get("ok") and result["warnings"] == [words], f"its next call says so: {result}")
    result = front.call_in("bob")
    check(result.get("ok"), f"whoever comes first has it: {result}")
    check(says(side.call_in("bob"), at("bob", "front")), "the other says where it is")
    for home in (front, side):
        home.stop()
    up.stop()


def keeper_dies(folder: str):
    """Calls that come while the keeper's process is started again, and while a machine has not come back to it, wait
    and go well."""
    fail = os.path.join(folder, "fail")
    os.mkdir(fail)
    os.environ["SLUICE_FAILPOINTS"] = fail
    cluster = write_cluster(folder, "talk", CALM)
    up = Up(cluster)
    homes = {name: NamedHome(cluster, folder, name) for name in HOMES}
    for home in homes.values():
        until(lambda home=home: (home.call(1, 20) or {}).get("ok"), 20, "the first call")
        home.call(1, 20)  # by now it has seen all processes
    rows = status(cluster)
    paint = rows["paint"]["pid"]
    with open(os.path.join(fail, "point"), "w", encoding="utf-8") as out:
        out.write(f"{int(signal.SIGSTOP)} 1")
    os.rename(os.path.join(fail, "point"), os.path.join(fail, "paint.life_began"))
    os.kill(rows["talk"]["pid"], signal.SIGKILL)
    until(lambda: stat_of(paint)[:1] == ["T"], 20, "the machine stands still where it begins anew")
    until(lambda: all(status(cluster)[name].get("state") == "there" for name in HOMES), 20, "the homes are let in")
    for home in homes.values():
        home.ask(1)
    for name, home in homes.items():
        until(lambda home=home: home.count("and has not met machine 'paint' yet; new calls wait for it") == 1
              or select.select([home.process.stdout], [], [], 0)[0], 20, f"calls of '{name}' wait")
    os.kill(paint, signal.SIGCONT)
    for name, home in homes.items():
        result = home.answer(20)
        check(result is not None and result["ok"], f"'{name}': a call while a machine is not met yet: {result}")
    keeper = status(cluster)["talk"]["pid"]
    os.kill(keeper, signal.SIGKILL)
    until(lambda: not stat_of(keeper), 5, "it is dead, with all its threads")
    for _ in range(6):
        for home in homes.values():
            home.ask(0)
    for name, home in homes.items():
        for _ in range(6):
            result = home.answer(20)
            check(result is not None and result["ok"], f"'{name}': a call while the keeper is away: {result}")
        home.stop()
    up.stop()
    del os.environ["SLUICE_FAILPOINTS"]


def mistakes_are_told(folder: str):
    cluster = write_cluster(folder, "talk", 3.0)

    def told(*words: str) -> subprocess.CompletedProcess:
        return subprocess.run([SLUICE, *words], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=20)
    check(told("validate", cluster).returncode == 0, "two homes are no mistake")
    done = told("run", "--cluster", cluster, "--name", "talk", "--prompt", "x")
    check(done.returncode != 0 and "calls begin at no machine of that name" in done.stdout
          and "front, side" in done.stdout, done.stdout)
    done = told("node", "--cluster", cluster, "--name", "side")
    check(done.returncode != 0 and f"`sluice run --cluster {cluster} --name side` is that machine" in done.stdout,
          done.stdout)
    done = told("run", "--cluster", cluster, "--join-within", "1", "--prompt", "x")
    check(done.returncode != 0 and f"`sluice up {cluster}` starts those that are no homes, and each other home is" in done.stdout, done.stdout)


def main() -> int:
    for test in (mistakes_are_told, same_bytes, one_session, one_dies, keeper_dies, sessions_without_their_keeper):
        with tempfile.TemporaryDirectory() as folder:
            test(folder)
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    run_and_clean(main)
