"""Robots' policies over one paged_kv in several processes. Usage: apart_policies_test.py SLUICE ROOT PLUGINS [SEED]

An observation that one role host reads and another acts on: the same bytes as in one process, few pages that both want,
processes that are killed amid a call or when chance says so (by SEED), and what one sees of the pool.
"""
import json
import os
import random
import signal
import struct
import sys
import tempfile

from apart_chats_test import amid, checked_pool, kill, pid_of, stands_still
from apart_test import Cluster, outputs_of
from isolate_test import ROOT, TABLE, expect, failures, run

SEED = int(sys.argv[4]) if len(sys.argv) > 4 else 20261129
GONE = "the session has another prefix by now, or none"


def flow_of(folder, name):
    """The workflow, which waits for hosts that begin anew; its model is found from anywhere."""
    path = os.path.join(folder, f"{name}.yaml")
    with open(f"{ROOT}/workflows/{name}.yaml", encoding="utf-8") as file:
        text = file.read().replace("tests/golden", f"{ROOT}/tests/golden")
    at = text.index("limits: { deadline: ")
    with open(path, "w", encoding="utf-8") as out:
        out.write(text[:at] + "limits: { deadline: 120s }\n")
    return path


def state_of(folder, values):
    path = os.path.join(folder, "state.npy")
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({len(values)},), }}"
    head = head.ljust(128 - 10 - 1) + "\n"
    with open(path, "wb") as out:
        out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + struct.pack(f"<{len(values)}f", *values))
    return path


def numbers_of(result):
    """The actions of a call: 6 steps of 32 values."""
    [actions] = result["outputs"]["actions"]
    with open(actions["file"], "rb") as file:
        return struct.unpack("<192f", file.read()[-192 * 4:])


class Robot:
    def __init__(self, folder, states=True):
        self.state = state_of(folder, [0.25, -1.0, 0.5]) if states else None

    def call(self, name, session, text, end=False):
        inputs = {"front": {"file": TABLE}, "wrist": {"file": TABLE}, "instruction": text}
        if self.state is not None:
            inputs["state"] = {"file": self.state}
        return json.dumps({"id": name, "session": session, "inputs": inputs, "end_session": end}) + "\n"

    def turns(self, sessions=2, count=3):
        """Prefixes that end within a page, at its end and behind it."""
        return "".join(self.call(f"{session}-{turn}", f"s{session}", f"Open drawer {'o' * (5 * turn)}") for turn in range(count)
                       for session in range(sessions))


def one_machine(folder, flow, name, elsewhere=False):
    """With two hosts; `elsewhere`: on a machine that is a process of its own."""
    path = os.path.join(folder, f"{name}_machine.yaml")
    robot = "roles: [ brain, hand ]\n    hosts: { words: [ brain ], acts: [ hand ] }\n"
    with open(path, "w", encoding="utf-8") as out:
        out.write(f"cluster: 1\nworkflows: [ {flow} ]\nmachines:\n")
        if elsewhere:
            out.write(f"  front: {{ home: true, roles: [ eyes ] }}\n  robot:\n    {robot}")
        else:
            out.write("  one:\n    home: true\n    " + robot.replace("[ brain, hand ]", "[ eyes, brain, hand ]"))
    return path


def same_bytes(folder, flow, robot, ways):
    lines, seen = robot.turns(), []
    for at, where in enumerate(ways):
        code, out, files, err = outputs_of(folder, f"{os.path.basename(flow)}{at}", *where, lines=lines)
        expect(f"run {where}", code == 0 and len(out) == 6 and not err, (code, err))
        seen.append(([json.loads(line) for line in out], files))  # whichever output was the first
    expect("six chunks of actions", len(seen[0][1]) == 6, seen[0][1].keys())
    for where, one in zip(ways, seen):
        expect(f"the same bytes: {where}", one == seen[0], (one[0], seen[0][0]))


def few_pages(folder, flow, robot):
    """Both processes want more than there is: each call ends, well or because of the pages. A prefix takes four."""
    lines = "".join(robot.call(f"{number}", f"s{number % 6}", "Take number 1", end=number % 6 != 0) for number in range(18))
    [want] = outputs_of(folder, "wanted", flow, lines=robot.call("one", "a", "Take number 1"))[2].values()
    for pages, together in ((9, 1), (9, 6), (14, 6)):
        outputs = os.path.join(folder, f"few{pages}{together}")
        os.mkdir(outputs)
        code, out, err = run(flow, "--isolate", "brain,hand", "--set", f"global_params.kv.pages={pages}", "--calls", "-",
                             "--concurrency", f"{together}", "--out", outputs, lines=lines)
        results = [json.loads(line) for line in out.splitlines()]
        expect("each call ends", len(results) == 18 and code in (0, 1), (code, out, err))
        for one in results:
            if not one["ok"]:
                expect("what is short is named", "the KV pool is full" in one["error"]["message"], one)
            elif together == 1:  # else the last bits may differ
                with open(one["outputs"]["actions"][0]["file"], "rb") as file:
                    expect("what ends well is right", file.read() == want, one)
        well = sum(one["ok"] for one in results)
        expect(f"{pages} pages, {together} together: they end well", well == 18 if together == 1 else well > 0, results)
    code, out, err = run(flow, "--isolate", "brain,hand", "--set", "global_params.kv.pages=8", "--calls", "-", "--out", folder,
                         "--concurrency", "1", lines=robot.call("1", "a", "Take number 1") + robot.call("2", "b", "Take number 1"))
    results = [json.loads(line) for line in out.splitlines()]
    expect("no page is left to act with", len(results) == 2 and results[0]["ok"] and not results[1]["ok"]
           and results[1]["error"]["message"].startswith("the KV pool is full: 1 pages are needed, 0 of 8 are free"), results)


def seen(folder, flow, robot):
    cluster = Cluster(one_machine(folder, flow, "seen"), folder)
    for turn in range(2):
        cluster.ask(robot.call(f"{turn}", "a", "Open the drawer"))
        expect("it acts", cluster.result()["ok"], turn)
    pool = checked_pool(cluster, "seen")
    expect("where it is", pool["layout"].endswith("in f32, in host 'acts' and in host 'words'"), pool)
    expect("the session's prefix is there", pool["used"] > 0 and pool["sessions"] == 1, pool)
    cluster.ask(robot.call("last", "a", "Open the drawer", end=True))
    expect("the last one", cluster.result()["ok"], "last")
    pool = checked_pool(cluster, "ended")
    expect("a session that ended has no pages", pool["used"] == 0 and pool["sessions"] == 0, pool)
    cluster.end()


def killed(folder, flow, robot):
    """Either process dies: the call in it fails by name, the other goes on, and what follows is right."""
    cluster = Cluster(one_machine(folder, flow, "killed"), folder)
    cluster.ask(robot.call("first", "a", "Open the drawer"))
    want = numbers_of(cluster.result())
    for name, other in (("acts", "words"), ("words", "acts")):
        stays = pid_of(cluster, other)
        os.kill(amid(cluster, name, robot.call(f"amid {name}", "a", "Open the drawer")), signal.SIGKILL)
        result = cluster.result()
        expect(f"amid {name}", not result["ok"] and f"host '{name}' died by SIGKILL" in result["error"]["message"], result)
        cluster.ask(robot.call(f"after {name}", "a", "Open the drawer"))
        result = cluster.result()
        expect("the next one is right", result["ok"] and numbers_of(result) == want, result)
        # Where the expert died nothing was lost; who has read says so of a session.
        warned = any("begins anew" in one for one in result["warnings"])
        expect("who has lost something", warned == (name == "words"), result)
        expect("the other goes on", cluster.host(other)["pid"] == stays, cluster.look("status"))
    # Who has read dies while who acts stands still, with the prefix in its hand.
    hand = amid(cluster, "acts", robot.call("between", "a", "Open the drawer"))
    expect("it stands still", stands_still(hand), hand)
    kill(cluster, "words")
    os.kill(hand, signal.SIGCONT)
    result = cluster.result()
    expect("a prefix whose process died", not result["ok"] and GONE in result["error"]["message"]
           and "nor one whose process has died since" in result["error"]["message"], result)
    kill(cluster, "acts")  # between two calls
    cluster.ask(robot.call("last", "a", "Open the drawer", end=True))
    result = cluster.result()
    expect("behind all that", result["ok"] and numbers_of(result) == want, result)
    expect("all pages are back", checked_pool(cluster, "killed")["used"] == 0, cluster.pool())
    cluster.end()


def killed_by_chance(folder, flow, robot, seed):
    """At any point of whatever is under way: each call ends, right or for a reason, and nothing is held in the end."""
    chance = random.Random(seed)
    cluster = Cluster(one_machine(folder, flow, f"chance{seed}"), folder, "--concurrency", "4")
    cluster.ask(robot.call("first", "s0", "Take it"))
    want = numbers_of(cluster.result())
    for number in range(30):
        cluster.ask(robot.call(f"{number}", f"s{number % 5}", "Take it"))
    died, well = {}, 0
    for _ in range(30):
        one = cluster.result()
        if one["ok"]:
            well += 1
            far = max(abs(x - y) for x, y in zip(numbers_of(one), want))
            expect(f"seed {seed}: what ends well is right", far < 1e-4, (far, one))
        else:
            message = one["error"]["message"]
            expect(f"seed {seed}: why one fails", "died by SIGKILL" in message or GONE in message, one)
        name = chance.choice(["acts", "words", None, None])
        # One that dies more than five times within a minute is refused for a while.
        pid = cluster.host(name)["pid"] if name and sum(one == name for one in died.values()) < 5 else 0
        try:
            if pid > 0:  # else it is being started again
                os.kill(pid, signal.SIGKILL)
                died[pid] = name
        except ProcessLookupError:  # it has died of the last one
            pass
    for pid, name in died.items():
        pid_of(cluster, name, but=pid)
    expect(f"seed {seed}: some die and some end well", died and well, (died, well))
    for session in range(5):
        cluster.ask(robot.call(f"behind {session}", f"s{session}", "Take it", end=True))
        one = cluster.result()
        expect(f"seed {seed}: behind them", one["ok"], one)
    expect(f"seed {seed}: all pages are back", checked_pool(cluster, "chance")["used"] == 0, cluster.pool())
    cluster.end()


def main():
    with tempfile.TemporaryDirectory() as folder:
        robot = Robot(folder)
        split = flow_of(folder, "policy_split")
        same_bytes(folder, split, robot,
                   [[split], [split, "--isolate", "brain,hand"], [split, "--isolate", "hand"], [split, "--isolate", "brain"],
                    [split, "--isolate", "all"], ["--cluster", one_machine(folder, split, "split")],
                    ["--cluster", one_machine(folder, split, "process", elsewhere=True)]])
        words = flow_of(folder, "robot_words")
        same_bytes(folder, words, Robot(folder, states=False),
                   [[words], [words, "--isolate", "eyes,brain,hand"], ["--cluster", one_machine(folder, words, "words")]])
        few_pages(folder, split, robot)
        seen(folder, split, robot)
        killed(folder, split, robot)
        for seed in (SEED, SEED + 1):
            killed_by_chance(folder, split, robot, seed)
    print("\n".join(failures) if failures else "apart policies: clean")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
