"""What was said in a session outlives the machine that answers it: killed between turns and amid one, standing still,
beginning anew in place; with a picture, and where one role reads and another writes. What is said next is always what
one process says that nothing happened to.

    python3 histories_test.py SLUICE ROOT

Nothing sleeps: conditions are polled until a deadline.
"""
from __future__ import annotations

import json
import os
import signal
import tempfile

from cluster_test import CALM, ROOT, check, failures, picture, run_and_clean, stat_of, until
from pages_test import Up as PagesUp
from pages_test import run
from pages_test import WORKFLOW as TWO_ROLES
from replicas_test import WORKFLOW as CHAT
from replicas_test import moves
from restart_test import HeardHome

TURNS = ["Tell me what is on the table, and who has put it there.", "And who sits at it?", "Why?",
         "Go on, please", "And then?", "What else?"]
KEPT = "with what was said"


def content(turn: int, with_picture: bool) -> dict:
    text = [{"type": "text", "text": TURNS[turn]}]
    return {"content": ([picture()] if with_picture and turn == 0 else []) + text, "options": {"max_tokens": 12}}


def uninterrupted(folder: str, workflow: str, with_picture: bool) -> list:
    """What one process says, turn by turn."""
    path = os.path.join(folder, "alone.jsonl")
    with open(path, "w", encoding="utf-8") as out:
        for turn in range(len(TURNS)):
            out.write(json.dumps({"id": turn, "session": "alone",
                                  "inputs": {"request": content(turn, with_picture)}}) + "\n")
    said = run([workflow], path)
    check(len(said) == len(TURNS) and all(one["ok"] for one in said.values()), f"one process says {said}")
    answers = [said[turn]["outputs"] for turn in range(len(TURNS))]
    check(len({json.dumps(one) for one in answers}) == len(TURNS), f"answers that nothing tells apart: {answers}")
    return answers


class Chat(HeardHome):
    """A home whose sessions say the turns one after the other, each beside what one process said."""

    def __init__(self, cluster: str, folder: str, want: list, with_picture: bool):
        super().__init__(cluster, folder)
        self.want, self.with_picture = want, with_picture

    def ask_turn(self, session: str, turn: int, seconds: float = 30) -> dict:
        line = {"id": self.next, "session": session, "inputs": {"request": content(turn, self.with_picture)}}
        self.next += 1
        self.process.stdin.write((json.dumps(line) + "\n").encode())
        self.process.stdin.flush()
        return self.answer(seconds) or {}

    def say(self, session: str, turn: int, where: str) -> list[str]:
        said = self.ask_turn(session, turn)
        check(said.get("outputs") == self.want[turn], f"{where}, turn {turn}: {said} and not {self.want[turn]}")
        return moves(said)

    def begin(self, session: str, where: str):
        for turn in (0, 1):
            check(not self.say(session, turn, where), f"{where}: it begins with warnings")


def write_cluster(folder: str, workflow: str, machines: dict[str, str], lease: float = CALM) -> str:
    path = os.path.join(folder, "cluster.yaml")
    with open(path, "w", encoding="utf-8") as out:
        out.write(f"cluster: 1\nworkflows: [ {workflow} ]\nmachines:\n  front: {{ home: true, roles: [ parser ] }}\n")
        for name, role in machines.items():
            out.write(f"  {name}: {{ roles: [ {role} ] }}\n")
        out.write(f"lease: {int(lease * 1000)}ms\n")
    return path


def kill(up: PagesUp, home: Chat, machine: str):
    """And waits until it is there again, as another process."""
    pid, lost, back = up.pid_of(machine), f"machine '{machine}' is lost", f"machine '{machine}' is there"
    lives = home.count(back)
    os.kill(pid, signal.SIGKILL)
    until(lambda: not stat_of(pid) and home.count(lost) > 0 and home.count(back) > lives, 30, f"{machine} is killed")


def stop_until_lost(up: PagesUp, home: Chat, machine: str) -> int:
    lost = home.count(f"machine '{machine}' is lost")
    pid = up.pid_of(machine)
    os.kill(pid, signal.SIGSTOP)
    until(lambda: home.count(f"machine '{machine}' is lost") > lost, 30, f"{machine} stands still and is lost")
    return pid


def go_on(home: Chat, machine: str, pid: int):
    lives = home.count(f"machine '{machine}' is there")
    os.kill(pid, signal.SIGCONT)
    until(lambda: home.count(f"machine '{machine}' is there") > lives, 30, f"{machine} is there again")


def is_said_to_go_on(warnings: list[str], session: str, machine: str, where: str):
    check(len(warnings) == 1 and f"session '{session}' was on machine '{machine}', which" in warnings[0]
          and KEPT in warnings[0], f"{where}: {warnings}")


def between_turns(folder: str, want: list, with_picture: bool):
    """On two machines, of which each is lost once."""
    where = "moved" + (" with a picture" if with_picture else "")
    cluster = write_cluster(folder, CHAT, {"one": "llm", "two": "llm"})
    up = PagesUp(cluster)
    home = Chat(cluster, folder, want, with_picture)
    home.begin("a", where)
    pid = stop_until_lost(up, home, "one")
    is_said_to_go_on(home.say("a", 2, where), "a", "one", where)
    check(home.count("it goes on on machine 'two' with what was said") == 1, f"{where}: it was not said where")
    go_on(home, "one", pid)
    check(not home.say("a", 3, where), f"{where}: it stays where it is")
    pid = stop_until_lost(up, home, "two")
    is_said_to_go_on(home.say("a", 4, where), "a", "two", where)
    go_on(home, "two", pid)
    kill(up, home, "one")
    is_said_to_go_on(home.say("a", 5, where), "a", "one", where)
    home.stop()
    up.stop()


def in_place(folder: str, want: list):
    """On one machine: nothing moves it, and what a process kept or lost is what its home says."""
    cluster = write_cluster(folder, CHAT, {"one": "llm"})
    up = PagesUp(cluster, machines=1)
    home = Chat(cluster, folder, want, False)
    home.begin("a", "in place")
    go_on(home, "one", stop_until_lost(up, home, "one"))
    check(not home.say("a", 2, "in place"), "in place: it has lost nothing")
    kill(up, home, "one")
    is_said_to_go_on(home.say("a", 3, "in place, another process"), "a", "one", "in place")
    check(not home.say("a", 4, "in place, another process"), "in place: it is said once")
    home.stop()
    up.stop()


def amid_a_turn(folder: str, want: list):
    """A call that the machine's end has ended is no part of the conversation, whatever of it was said by then."""
    fail = os.path.join(folder, "fail")
    os.mkdir(fail)
    cluster = write_cluster(folder, CHAT, {"one": "llm", "two": "llm"})
    up = PagesUp(cluster, failpoints=fail)
    home = Chat(cluster, folder, want, False)
    for place, passage in (("yield", 3), ("history_told", 1), ("activation_ended", 1), ("history_settled", 0)):
        session = place
        if passage:
            home.begin(session, place)
        points = [os.path.join(fail, f"{machine}.{place}") for machine in ("one", "two")]
        for point in points:
            with open(point + "~", "w", encoding="utf-8") as out:
                out.write(f"{int(signal.SIGKILL)} {max(passage, 1)}")
            os.rename(point + "~", point)
        lives = [home.count(f"machine '{machine}' is there") for machine in ("one", "two")]
        turn = 2 if passage else 0
        said = home.ask_turn(session, turn)
        check(not said.get("ok") and "is lost" in str(said.get("error")), f"{place}: it was not lost: {said}")
        killed = [not os.path.exists(point) for point in points]
        check(killed.count(True) == 1, f"{place}: {killed} were killed")
        for point in points:
            if os.path.exists(point):
                os.unlink(point)
        until(lambda: any(home.count(f"machine '{machine}' is there") > before
                          for machine, before in zip(("one", "two"), lives)), 30, "it is there again")
        warnings = home.say(session, turn, f"killed at {place}")
        if passage:
            is_said_to_go_on(warnings, session, "one" if killed[0] else "two", place)
        check(not home.say(session, turn + 1, f"killed at {place}"), f"{place}: it is said once")
    home.stop()
    up.stop()


def of_two_roles(folder: str, want: list):
    """The conversation is the reader's, who is killed; then the writer, who has none."""
    cluster = write_cluster(folder, TWO_ROLES, {"read": "reader", "write": "writer"})
    up = PagesUp(cluster)
    home = Chat(cluster, folder, want, False)
    home.begin("a", "two roles")
    kill(up, home, "read")
    is_said_to_go_on(home.say("a", 2, "two roles, another reader"), "a", "read", "two roles")
    check(not home.say("a", 3, "two roles, another reader"), "two roles: it is said once")
    kill(up, home, "write")
    check(not home.say("a", 4, "two roles, another writer"), "two roles: the writer has no conversation")
    kill(up, home, "read")
    is_said_to_go_on(home.say("a", 5, "two roles, a third reader"), "a", "read", "two roles")
    home.stop()
    up.stop()


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        want, seen, written = (uninterrupted(folder, CHAT, False), uninterrupted(folder, CHAT, True),
                               uninterrupted(folder, TWO_ROLES, False))
    check(want[1] != seen[1], "the picture is no part of the conversation")
    for test, *more in ((between_turns, want, False), (between_turns, seen, True), (in_place, want),
                        (amid_a_turn, want), (of_two_roles, written)):
        with tempfile.TemporaryDirectory() as folder:
            test(folder, *more)
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    run_and_clean(main)
