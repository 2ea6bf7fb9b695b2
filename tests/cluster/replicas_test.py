"""A role on two machines: the words of one process, both machines at work, and a session that moves when its machine
stands still for longer than a lease.

    python3 replicas_test.py SLUICE ROOT

Nothing sleeps: conditions are polled until a deadline.
"""
from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile

from cluster_test import CALM, ROOT, SLUICE, check, failures, run_and_clean, until
from pages_test import TURNS, run, same, write_calls
from pages_test import Up as PagesUp
from restart_test import HeardHome

WORKFLOW = f"{ROOT}/workflows/chat.yaml"


def write_cluster(folder: str, lease: float, workflow: str = WORKFLOW, roles: str = "llm") -> str:
    path = os.path.join(folder, "cluster.yaml")
    with open(path, "w", encoding="utf-8") as out:
        out.write(f"cluster: 1\nworkflows: [ {workflow} ]\nmachines:\n"
                  f"  front: {{ home: true, roles: [ parser ] }}\n  one: {{ roles: [ {roles} ] }}\n"
                  f"  two: {{ roles: [ {roles} ] }}\nlease: {int(lease * 1000)}ms\n")
    return path


class ChatHome(HeardHome):
    """A home that is asked in a session."""

    def say(self, session: str, text: str, seconds: float = 20) -> dict:
        request = {"content": [{"type": "text", "text": text}], "options": {"max_tokens": 8}}
        line = {"id": self.next, "session": session, "inputs": {"request": request}}
        self.next += 1
        self.process.stdin.write((json.dumps(line) + "\n").encode())
        self.process.stdin.flush()
        return self.answer(seconds) or {}


def moves(said: dict) -> list[str]:
    """Its warnings but that each answer is cut off."""
    return [one for one in said.get("warnings", []) if "its most tokens" not in one]


def same_words(folder: str):
    """Sessions take turns on the machines, and each goes on where it began."""
    cluster = write_cluster(folder, 3.0)
    calls = write_calls(folder, TURNS)
    want = run([WORKFLOW], calls)
    check(len(want) == len(TURNS), f"one process answers {len(want)}")
    up = PagesUp(cluster)
    got = run(["--cluster", cluster], calls)
    same(want, got, "over two machines")
    check(not any(moves(one) for one in got.values()), f"warnings: {got}")
    for machine in ("one", "two"):
        pools = up.machine(machine).get("pools", [])
        check([one["computed"] > 0 for one in pools] == [True], f"nothing was computed on '{machine}': {pools}")
    up.stop()


def a_session_moves(folder: str):
    cluster = write_cluster(folder, CALM)  # who is there must not be suspected on a busy machine
    up = PagesUp(cluster)
    home = ChatHome(cluster, folder)
    until(lambda: home.say("a", "Hello there").get("ok"), 20, "the first call")
    check(home.say("b", "Hello there").get("ok"), "the second session")
    pid = up.pid_of("one")
    os.kill(pid, signal.SIGSTOP)
    until(lambda: home.count("machine 'one' is lost") > 0, 20, "who stands still is lost")
    words = "session 'a' was on machine 'one', which is lost: it goes on on machine 'two' with what was said"
    moved = home.say("a", "Go on, please")
    check(moved.get("ok") and words in moved.get("warnings", []), f"it moves: {moved}")
    for session in ("a", "b", "c", "d"):
        said = home.say(session, "And now?")
        check(said.get("ok") and not moves(said), f"{session} goes on: {said}")
    os.kill(pid, signal.SIGCONT)
    until(lambda: home.count("machine 'one' is there") > 0, 20, "it is there again")
    check(home.say("a", "And then?").get("ok"), "the session that moved goes on")
    # New sessions go to the machine with fewer.
    check(home.say("e", "Hello").get("ok"), "a session on the machine that is back")
    os.kill(up.pid_of("two"), signal.SIGSTOP)
    until(lambda: home.count("machine 'two' is lost") > 0, 20, "the other is lost")
    check(not moves(home.say("e", "Go on")), "it was on the one that is there")
    back = home.say("b", "Go on")
    check(back.get("ok") and "it goes on on machine 'one' with what was said" in str(back.get("warnings")), f"b moves: {back}")
    os.kill(up.pid_of("two"), signal.SIGCONT)
    home.stop()
    up.stop()


def mistakes_are_told(folder: str):
    """Sessions of a model that draws are answered and drawn on the same machine: one role of it is not where the other is."""
    cluster = write_cluster(folder, 3.0, f"{ROOT}/workflows/image_chat.yaml", "vit, vae, llm, diffusion")
    with open(cluster, encoding="utf-8") as file:
        apart = file.read().replace("two: { roles: [ vit, vae, llm, diffusion ] }", "two: { roles: [ vit, vae, llm ] }")
    with open(cluster, "w", encoding="utf-8") as file:
        file.write(apart)
    done = subprocess.run([SLUICE, "validate", cluster], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=20)
    check(done.returncode != 0 and "role 'llm' is on 'two' and 'diffusion' on 'one' (line 5), but 'diffusion' is colocated with 'llm'"
          in done.stdout, f"validate says: {done.stdout}")


def main() -> int:
    for test in (mistakes_are_told, same_words, a_session_moves):
        with tempfile.TemporaryDirectory() as folder:
            test(folder)
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    run_and_clean(main)
