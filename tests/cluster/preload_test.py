"""Pages that come before anybody asks for them: a spare machine has a chat's pages when its twin is lost, and asks nobody
for them; so has the twin in its next life, and another process. One that is killed when it has told of pages costs the others nothing.
Where one machine reads prompts and another writes answers the words are those of one process.

    python3 preload_test.py SLUICE ROOT

Nothing sleeps: conditions are polled until a deadline.
"""
from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile

from cluster_test import CALM, ROOT, SLUICE, check, failures, run_and_clean, until
from histories_test import go_on, kill, stop_until_lost
from pages_test import TURNS, Up, run, same, write_calls
from pages_test import WORKFLOW as TWO_ROLES
from replicas_test import ChatHome, moves
from replicas_test import WORKFLOW as CHAT

SAID = ["Tell me what is on the table, and what is under it, and who has put it there, and when.", "Go on, please", "Why?"]


def write_cluster(folder: str, workflow: str, machines: dict[str, str]) -> str:
    path = os.path.join(folder, "cluster.yaml")
    with open(path, "w", encoding="utf-8") as out:
        out.write(f"cluster: 1\nworkflows: [ {workflow} ]\nmachines:\n  front: {{ home: true, roles: [ parser ] }}\n")
        for name, rest in machines.items():
            out.write(f"  {name}: {{ {rest} }}\n")
        out.write(f"lease: {int(CALM * 1000)}ms\n")
    return path


def pool(up: Up, name: str) -> dict:
    return next(iter(up.machine(name).get("pools", [])), {})


def ahead(up: Up, name: str) -> dict:
    return pool(up, name).get("preloads", {})


def is_quiet(up: Up, name: str) -> bool:
    """All that it was told of has come, or never will."""
    seen = ahead(up, name)
    return seen.get("told", 0) > 0 and seen["told"] == seen["had"] + seen["taken"] + seen["missed"]


def has_all_of(up: Up, name: str, other: str) -> bool:
    return is_quiet(up, name) and pool(up, name).get("published") == pool(up, other).get("published", 0) > 0


def pulled_by_calls(up: Up, name: str) -> int:
    return pool(up, name)["brought_pages"] - ahead(up, name)["taken"]


def in_one_process(folder: str, turns: list[str]) -> list:
    path = os.path.join(folder, "alone.jsonl")
    with open(path, "w", encoding="utf-8") as out:
        for number, text in enumerate(turns):
            request = {"content": [{"type": "text", "text": text}], "options": {"max_tokens": 8}}
            out.write(json.dumps({"id": number, "session": "a", "inputs": {"request": request}}) + "\n")
    return [one.get("outputs") for _, one in sorted(run([CHAT], path).items())]


def spare(folder: str):
    """Two machines of a chat, each of which has what the other says."""
    want = in_one_process(folder, SAID)
    cluster = write_cluster(folder, CHAT, {name: "roles: [ llm ], pages: { preload: true }" for name in ("one", "two")})
    up = Up(cluster)
    home = ChatHome(cluster, folder)
    said = home.say("a", SAID[0])
    check(said.get("outputs") == want[0], f"the first turn: {said}")
    until(lambda: has_all_of(up, "two", "one"), 20, "the spare has all pages")
    seen = ahead(up, "two")
    check(seen["taken"] == pool(up, "two")["published"] and seen["missed"] == seen["useful"] == 0, f"the spare: {seen}")
    check(pool(up, "one")["given_pages"] >= seen["taken"], f"its twin: {pool(up, 'one')}")
    told = subprocess.run([SLUICE, "pool", "status", "--cluster", cluster], cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=20)
    line = f"  preloads {seen['told']} page{'s' if seen['told'] > 1 else ''} told, {seen['had']} were here, {seen['taken']} taken, 0 missed; "
    check(line in told.stdout, f"{line!r} in {told.stdout}")

    # Its twin stands still until it is lost: the session moves.
    pid = stop_until_lost(up, home, "one")
    moved = home.say("a", SAID[1])
    go_on(home, "one", pid)
    check(moved.get("outputs") == want[1] and len(moves(moved)) == 1 and "'two'" in moves(moved)[0], f"the second turn: {moved}")
    used = ahead(up, "two")
    check(used["useful"] == seen["taken"] and used["wasted"] == 0, f"what came is used: {used}")
    check(pulled_by_calls(up, "two") == 0 and pool(up, "two")["from_machines"] == 0, f"nothing is pulled: {pool(up, 'two')}")
    check(pool(up, "two")["from_memory"] == used["useful"] * pool(up, "two")["page_tokens"], f"from memory: {pool(up, 'two')}")
    # It is there in another life, and has what was said meanwhile; so has a process that is started again.
    until(lambda: has_all_of(up, "one", "two"), 20, "the twin has all pages again")
    check(ahead(up, "one")["taken"] > 0, f"the twin: {ahead(up, 'one')}")
    kill(up, home, "two")
    until(lambda: has_all_of(up, "two", "one"), 20, "another process has all pages")
    check(ahead(up, "two")["taken"] == pool(up, "two")["published"], f"another process: {ahead(up, 'two')}")
    again = home.say("a", SAID[2])
    check(again.get("outputs") == want[2] and len(moves(again)) == 1, f"the third turn: {again}")
    check(pulled_by_calls(up, "two") == 0 and ahead(up, "two")["useful"] > 0, f"another process answers: {pool(up, 'two')}")
    home.stop()
    up.stop()


def killed_when_it_has_told(folder: str):
    points = os.path.join(folder, "points")
    os.mkdir(points)
    cluster = write_cluster(folder, CHAT, {"one": "roles: [ llm ]", "two": "roles: [ llm ], pages: { preload: true }"})
    up = Up(cluster, points)
    pid = up.pid_of("one")
    with open(f"{points}/two.told_pages", "w", encoding="utf-8") as out:
        out.write(f"{int(signal.SIGKILL)} 1 {pid}")
    home = ChatHome(cluster, folder)
    first = home.say("a", SAID[0])
    check(first.get("ok") or "'one'" in json.dumps(first), f"a call whose machine is killed: {first}")
    until(lambda: home.count("machine 'one' is lost") > 0, 20, "it is killed")
    until(lambda: is_quiet(up, "two"), 20, "what it told of is taken or missed")
    for session in ("a", "b", "c"):
        said = home.say(session, SAID[0])
        check(said.get("ok"), f"{session} goes on: {said}")
    until(lambda: is_quiet(up, "two"), 20, "and so is what is told later")
    home.stop()
    up.stop()


def two_roles(folder: str):
    want = run([TWO_ROLES], write_calls(folder, TURNS))
    cluster = write_cluster(folder, TWO_ROLES, {"read": "roles: [ reader ]", "write": "roles: [ writer ], pages: { preload: true }"})
    up = Up(cluster)
    same(want, run(["--cluster", cluster], write_calls(folder, TURNS)), "two roles")
    until(lambda: is_quiet(up, "write"), 20, "all that was told has come")
    seen = ahead(up, "write")
    check(seen["taken"] + seen["had"] > 0, f"some of it came: {seen}")
    check("preloads" not in pool(up, "read"), f"who does not preload: {pool(up, 'read')}")
    up.stop()


def main() -> int:
    base = tempfile.mkdtemp(prefix="sluice-preload-")
    os.environ["XDG_RUNTIME_DIR"] = base
    try:
        for test in (spare, killed_when_it_has_told, two_roles):
            folder = os.path.join(base, test.__name__)
            os.mkdir(folder)
            test(folder)
    finally:
        shutil.rmtree(base)
    print("all well" if not failures else f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    run_and_clean(main)
