"""A machine that dies: calls wait for its next life; one that always dies is named, tried rarely, and waited for no more.

    python3 restart_test.py SLUICE ROOT

Nothing sleeps: conditions are polled until a deadline.
"""
from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile

from cluster_test import (CALM, ROOT, SLUICE, Home, Up, check, failures, line, run_and_clean, started, stat_of,
                          until, write_cluster)
from down_test import sluice, status


class HeardHome(Home):
    """A home whose notes are kept."""

    def __init__(self, cluster: str, folder: str, join_within: int = 20):
        self.notes = os.path.join(folder, "notes")
        with open(self.notes, "w", encoding="utf-8") as notes:
            self.process = subprocess.Popen(
                [SLUICE, "run", "--cluster", cluster, "--calls", "-", "--out", folder, "--join-within",
                 str(join_within)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=notes)
        started.append(self.process)
        self.text = b""
        self.next = 0
        self.answered = set()

    def count(self, words: str) -> int:
        with open(self.notes, encoding="utf-8") as notes:
            return notes.read().count(words)


def calls_wait(folder: str, cluster: str, by_run: bool):
    """Those that come while the machine is away go well, be it this `run` that starts it again or `up`."""
    up = None if by_run else Up(cluster)
    home = HeardHome(cluster, folder)
    until(lambda: (home.call(0, 20) or {}).get("ok"), 20, "the first call")
    home.call(0, 20)  # by now the home has seen all processes
    for round_ in (1, 2):
        pid = status(cluster)["eyes"]["pid"]
        os.kill(pid, signal.SIGKILL)
        until(lambda: not stat_of(pid), 5, "it is dead, with all its threads")
        for _ in range(6):
            home.ask(0)
        for _ in range(6):
            result = home.answer(20)
            check(result is not None and result["ok"], f"a call that came while the machine was away: {result}")
        said = home.count("machine 'eyes' has died and is being started again; new calls wait for it")
        check(said == round_, f"it is said {said} times in {round_} rounds")
    home.stop()
    if up is not None:
        up.stop()


def stands_still_afterwards(folder: str, cluster: str):
    """A machine that was started again while no call came, and then stands still, is not being started again: calls
    do not wait for it and end by name, be it on the list, lost, or not let in yet."""
    up = Up(cluster)
    home = HeardHome(cluster, folder)
    until(lambda: (home.call(0, 20) or {}).get("ok"), 20, "the first call")
    for when in ("on the list", "at its start"):
        home.call(0, 20)  # by now the home has seen all processes
        before = status(cluster)["eyes"]
        os.kill(before["pid"], signal.SIGKILL)
        until(lambda: not stat_of(before["pid"]), 5, "it is dead, with all its threads")

        def is_back() -> int | None:
            row = status(cluster).get("eyes", {})
            is_new = row.get("pid") not in (None, before["pid"])
            return row["pid"] if is_new and (when == "at its start" or row["incarnation"] > before["incarnation"]) else None
        eyes = until(is_back, 20, "it is there again")
        os.kill(eyes, signal.SIGSTOP)
        until(lambda: stat_of(eyes)[:1] == ["T"], 5, "it stands still")
        for _ in range(2):  # the second one when it is lost
            home.ask(0)
            result = home.answer(CALM + 5)
            check(result is not None and not result["ok"]
                  and "machine 'eyes', where node 'see' runs, is lost" in result["error"]["message"],
                  f"a call of a machine that stands still, {when}: {result}")
        check(home.count("is being started again") == 0, f"nobody waits for what is not being started, {when}")
        os.kill(eyes, signal.SIGCONT)
        until(lambda: (home.call(0, 20) or {}).get("ok"), 20, "it goes on")
    home.stop()
    up.stop()


def tokens_of(cluster: str, session: str) -> int | None:
    """That were said in the session, as its machine's pool says."""
    done = sluice("pool", "sessions", "--cluster", cluster, "--format", "json")
    pools = json.loads(done.stdout or '{"pools": []}')["pools"]
    return next((one["tokens"] for pool in pools for one in pool["session_list"] if one["name"] == session), None)


def sessions_begin_anew(folder: str, cluster: str):
    """A machine that begins another life in place has kept its sessions; of what another process of it does not know
    any more the next call of each session is warned, once."""
    up = Up(cluster)
    home = HeardHome(cluster, folder)

    def call(session: str) -> dict:
        number = home.next = home.next + 1
        home.process.stdin.write((line(2 * number, session) + "\n").encode())
        home.process.stdin.flush()
        return home.answer(20) or {}
    until(lambda: call("amy").get("ok"), 20, "the first call")
    first = tokens_of(cluster, "amy")
    check(call("bob").get("ok") and call("amy").get("ok"), "calls of two sessions")
    talk = status(cluster)["talk"]["pid"]
    os.kill(talk, signal.SIGSTOP)
    until(lambda: home.count("machine 'talk' is lost"), CALM + 10, "it is lost")
    os.kill(talk, signal.SIGCONT)
    until(lambda: status(cluster)["talk"].get("lives") == 2 and home.count("machine 'talk' is there"), 20, "it is back")
    result = call("amy")
    check(result.get("ok") and result["warnings"] == [], f"a session that was kept: {result}")
    tokens = tokens_of(cluster, "amy")
    check(first and tokens and tokens > 2 * first, f"it goes on: {tokens} tokens, {first} after one call")
    os.kill(talk, signal.SIGKILL)
    until(lambda: not stat_of(talk), 5, "it is dead, with all its threads")
    for session in ("amy", "bob"):
        words = f"session '{session}' was on machine 'talk', which was started again: it begins anew there"
        result = call(session)
        check(result.get("ok") and result["warnings"] == [words], f"a session that was lost: {result}")
        check(home.count(words) == 1 and call(session).get("warnings") == [], "it is said once")
    check(call("eve").get("warnings") == [], "a new session has lost nothing")
    home.stop()
    up.stop()


def keeps_failing(folder: str, cluster: str):
    """From five ends in a row on."""
    fail = os.path.join(folder, "fail")
    os.mkdir(fail)
    os.environ["SLUICE_FAILPOINTS"] = fail
    up = Up(cluster)
    home = HeardHome(cluster, folder)
    until(lambda: (home.call(0, 20) or {}).get("ok"), 20, "the first call")
    point = os.path.join(fail, "eyes.life_began")

    def dies_again() -> bool:
        if not os.path.exists(point):
            with open(point + "~", "w", encoding="utf-8") as out:
                out.write(f"{int(signal.SIGKILL)} 1")
            os.rename(point + "~", point)
        seen = status(cluster)
        row = [one for one in seen["up"]["processes"] if one["machine"] == "eyes"][0]
        if row["failing"] < 5 and seen["eyes"].get("process") == "ready":
            os.kill(seen["eyes"]["pid"], signal.SIGKILL)  # it began before the point was there
        return row["failing"] == 5 and row["starts"] == 5
    os.kill(up.pid_of("eyes"), signal.SIGKILL)
    dies_again()
    held = home.ask(0)
    until(dies_again, 30, "it keeps failing")
    if os.path.exists(point):
        os.unlink(point)
    result = home.answer(CALM + 5)
    check(result is not None and result["id"] == held and not result["ok"]
          and "machine 'eyes', where node 'see' runs, is lost" in result["error"]["message"],
          f"who is waited for in vain is named: {result}")
    home.stop()
    said = sluice("status", "--cluster", cluster).stdout
    check("eyes   does not run now; started 5 times; the last one died by SIGKILL; it keeps failing: 5 ends in a "
          "row, each within 10 s of its start; it is tried again every 60 s" in said, said)
    done = sluice("run", "--cluster", cluster, "--prompt", "draw a star", "--join-within", "30")
    check(done.returncode == 1 and "error: machine 'eyes' died by SIGKILL; it keeps failing: 5 ends in a row"
          in done.stderr, f"run: {done}")
    node, talk = by_hand(cluster), up.pid_of("talk")  # `up` still says that eyes keeps failing
    os.kill(talk, signal.SIGSTOP)
    done = sluice("run", "--cluster", cluster, "--prompt", "draw a star", "--join-within", "1")
    check(done.returncode == 1 and "error: machine 'talk' did not join within 1000 ms" in done.stderr, f"run: {done}")
    os.kill(talk, signal.SIGCONT)
    node.terminate()
    node.wait(timeout=20)
    up.stop()
    del os.environ["SLUICE_FAILPOINTS"]


def by_hand(cluster: str) -> subprocess.Popen:
    """A machine that neither `run` nor `up` has started."""
    node = subprocess.Popen([SLUICE, "node", "--cluster", cluster, "--name", "eyes"], cwd=ROOT,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    started.append(node)
    until(lambda: status(cluster).get("eyes", {}).get("process") == "ready", 20, "eyes is ready")
    return node


def beside_one_by_hand(folder: str, cluster: str):
    """`run` and `up` use it, say so, leave it when they end, and start it only when it has ended."""
    node = by_hand(cluster)
    used = f"machine 'eyes' is process {node.pid} already, which something else has started: it is used"
    home = HeardHome(cluster, folder)
    until(lambda: (home.call(0, 20) or {}).get("ok"), 20, "the first call")
    check(status(cluster)["eyes"]["pid"] == node.pid and home.count(used) == 1 and home.count("ended") == 0,
          f"it is used, and said: {open(home.notes, encoding='utf-8').read()}")
    said = sluice("status", "--cluster", cluster).stdout
    check(f"eyes   pid {node.pid}; started by something else" in said, said)
    home.stop()
    check(node.poll() is None, "it is left as it was")
    notes = os.path.join(folder, "up_notes")
    with open(notes, "w", encoding="utf-8") as out:
        up = subprocess.Popen([SLUICE, "up", cluster], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=out)
    started.append(up)

    def up_says(words: str) -> bool:
        with open(notes, encoding="utf-8") as file:
            return words + "\n" in file.read()
    until(lambda: up_says(used), 20, "`up` uses it too, and says so")
    home = HeardHome(cluster, folder)
    until(lambda: (home.call(0, 20) or {}).get("ok"), 20, "a call beside `up`")
    home.call(0, 20)
    node.kill()
    node.wait()
    result = home.call(0, 20)
    check(result is not None and result["ok"], f"a call that came while it was away: {result}")
    check(up_says(f"process 'eyes' ({node.pid}), which something else had started, has ended; it is started"),
          "`up` starts it now, and says so")
    check(status(cluster)["eyes"]["pid"] != node.pid, "another process is the machine")
    home.stop()
    up.terminate()
    check(up.wait(timeout=20) == 0, "`up` ends")


def main():
    with tempfile.TemporaryDirectory() as folder:
        run = os.path.join(folder, "run")
        os.mkdir(run, 0o700)
        os.environ["XDG_RUNTIME_DIR"] = run
        cluster = write_cluster(folder)
        calls_wait(folder, cluster, True)
        calls_wait(folder, cluster, False)
        beside_one_by_hand(folder, cluster)
        stands_still_afterwards(folder, cluster)
        sessions_begin_anew(folder, cluster)
        keeps_failing(folder, cluster)
        check(not os.listdir(run), f"{[x for x in os.walk(run)]} is left")
    print(f"machines that die: {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    run_and_clean(main)
