"""The kill matrix: each kind of process dies, crashes or stands still at each point of the protocol.

    python3 kill_matrix_test.py SLUICE ROOT [--seed N] [--extra CASES] [--only GROUP] [--every N] [--jobs N]

A file SIGNALS.PLACE in the folder of SLUICE_FAILPOINTS makes a process send a signal, to itself or another, when it
passes a place (base/failpoint.h). After each case: every call had one outcome within a lease and a second, which is
right or names the machine and why; a new call works; the home has the descriptors that it had. Behind each cluster:
no process, file, socket or shared memory is left. Nothing sleeps: conditions are polled until a deadline.
"""
from __future__ import annotations

import argparse
import base64
import ctypes
import json
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
import zlib

from cluster_test import MACHINES, ROOT, SLUICE, check, failures, line, request, run_and_clean, started
from kill_world import World, cases, counted, slow

SIGNALS = (signal.SIGKILL, signal.SIGSEGV, signal.SIGSTOP)
CALL_PLACES = ("session_named", "message_taken", "message_sent", "activation_begun", "yield", "activation_ended")
START_PLACES = ("life_began", "dialed", "hello_heard", "link_up", "asked", "admitted", "before_ready", "ready")
HOME_PLACES = ("call_begins", "session_named", "message_sent", "activation_begun", "yield", "part_sent",
               "activation_ended", "message_taken", "abort_sent", "call_ended", "call_answered",
               "session_ended")
HOME_MEMBER_PLACES = ("hello_heard", "link_up", "joined", "lost")
# What cannot be, and why.
SKIPPED = {
    ("any machine", "bytes_returned"): "calls of this size do not always give back bytes of a window",
    ("any machine", "told_to_end, SIGSTOP"): "`up` lets go on what stands still when it ends",
    ("paint", "session_named"): "it sends to machines that heard of the session before it",
    ("talk", "session_named"): "the same, and to the home, which numbers sessions",
    ("talk", "hello_heard"): "it has the highest number, and dials all others",
}


# ---- what makes places be passed

def calls(world: World, kinds=(0, 1, 0)):
    def trigger() -> int:
        for kind in kinds:
            world.home.ask(kind)
        return len(kinds)
    return trigger


def large(world: World):
    """Questions about a picture whose bytes go in several parts."""
    size = 640
    rows = b"".join(b"\0" + bytes(random.Random(row).randbytes(3 * size)) for row in range(size))

    def piece(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    png = b"\x89PNG\r\n\x1a\n" + piece(b"IHDR", struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)) \
        + piece(b"IDAT", zlib.compress(rows, 1)) + piece(b"IEND", b"")
    image = {"type": "image", "data": base64.b64encode(png).decode(), "name": "large.png"}

    def trigger() -> int:
        for _ in range(2):
            number = 2 * world.home.next + 1
            world.home.next += 1
            text = {"id": number, "session": f"b{number}",
                    "inputs": {"request": {"content": [image, {"type": "text", "text": "draw a red circle"}]}}}
            world.home.process.stdin.write((json.dumps(text) + "\n").encode())
            world.home.process.stdin.flush()
        return 2
    return trigger


def ended_session(world: World):
    """A line without a session has one of its own."""
    def trigger() -> int:
        number = 2 * world.home.next
        world.home.next += 1
        text = json.loads(line(number, "x"))
        del text["session"]
        world.home.process.stdin.write((json.dumps(text) + "\n").encode())
        world.home.process.stdin.flush()
        return 1
    return trigger


def late(world: World):
    """Calls whose deadline passes on the way."""
    def trigger() -> int:
        for wait in (10, 20, 40, 60):
            number = 2 * world.home.next + 1
            world.home.next += 1
            text = {"id": number, "session": f"l{number}", "deadline_ms": wait,
                    "inputs": request("draw a red circle", False)}
            world.home.process.stdin.write((json.dumps(text) + "\n").encode())
        world.home.process.stdin.flush()
        return 4
    return trigger


def restart_of(world: World, machine: str):
    def trigger() -> int:
        os.kill(world.pid_of(machine), signal.SIGKILL)
        return 0
    return trigger


# ---- groups

def is_skipped(process: str, place: str) -> bool:
    return (process, place) in SKIPPED


def group_calls(base: str, places):
    """Machines, while calls are under way."""
    for place in places:
        world = World(base)
        world.begin()
        for machine in MACHINES:
            for how in SIGNALS:
                if not is_skipped(machine, place):
                    world.strike("machines, calls", (machine, place), how, calls(world))
        world.end()


def group_start(base: str, places, registry: bool = False):
    """All machines at once, each by another signal, as they start."""
    for place in places:
        for turn in range(3):
            world = World(base, registry)
            armed = []
            for i, machine in enumerate(MACHINES):
                how = SIGNALS[(i + turn) % 3]
                if not is_skipped(machine, place):
                    armed.append((machine, how, world.arm(machine, place, how)))
            world.start_up()
            world.start_home()
            for machine, how, path in armed:
                what = f"{how.name} of {machine} at its start, {place}"
                if world.passed(path, what):
                    counted("machines, start")
                    if how == signal.SIGSTOP:
                        world.stands(world.pid_of(machine), what)
            world.works(30)
            world.end()


def group_end(base: str, place: str):
    for turn in range(2):
        world = World(base)
        world.begin()
        world.home.stop()
        marked = []
        for i, machine in enumerate(MACHINES):
            how = SIGNALS[(i + turn) % 2]
            marked.append((world.arm(machine, place, how), f"{how.name} of {machine} at its end, {place}"))
        world.end_up(marked)


def group_home(base: str, places):
    for place in places:
        # Over TCP large values travel in messages; on one computer they would be read where they stand.
        world = World(base, proxied=place == "part_sent")
        world.begin()
        trigger = {"abort_sent": late(world), "session_ended": ended_session(world),
                   "part_sent": large(world)}.get(place)
        for how in SIGNALS:
            world.strike("home, calls", ("front", place), how,
                         trigger or calls(world, (0, 1, 0)))
        world.end()


def group_home_members(base: str, places):
    for place in places:
        world = World(base)
        world.begin()
        for how, machine in zip(SIGNALS, MACHINES):
            world.strike("home, members", ("front", place), how, restart_of(world, machine))
        world.end()


def group_home_start(base: str):
    """The home as it starts; `run` begins no call before."""
    for place in ("life_began", "ready"):
        for how in SIGNALS:
            world = World(base)
            world.start_up()
            path = world.arm("front", place, how)
            world.start_home()
            what = f"{how.name} of front at its start, {place}"
            if world.passed(path, what):
                counted("home, start")
                if how == signal.SIGSTOP:
                    world.stands(world.pid_of("front"), what)
                else:
                    world.bury_home(what)
            world.works()
            world.end()


def group_up(base: str):
    at = (("up", "process_died"), ("up", "process_started"), ("up", "status_asked"), ("front", "call_begins"),
          ("eyes", "activation_begun"), ("talk", "yield"), ("paint", "message_sent"), ("front", "message_taken"))
    for process, place in at:
        world = World(base)
        world.begin()
        for how, machine in zip(SIGNALS, MACHINES):
            trigger = calls(world)
            if place.startswith("process_"):
                trigger = restart_of(world, machine)
            elif place == "status_asked":
                trigger = lambda: ask_status(world)
            world.strike("up", (process, place), how, trigger, "up")
        world.end()


def ask_status(world: World) -> int:
    subprocess.run([SLUICE, "status", "--cluster", world.file], cwd=ROOT, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, timeout=20)
    return 0


def group_redis(base: str):
    at = (("front", "registry_renew"), ("eyes", "registry_renew"), ("talk", "registry_answered"),
          ("front", "call_begins"), ("front", "session_named"), ("talk", "activation_begun"), ("talk", "yield"),
          ("paint", "activation_ended"), ("front", "call_ended"), ("eyes", "registry_enter"))
    for process, place in at:
        world = World(base, registry=True)
        world.begin()
        for how in SIGNALS:
            trigger = restart_of(world, "eyes") if place == "registry_enter" else calls(world)
            world.strike("redis-server", (process, place), how, trigger, "redis")
        world.end()


def group_registry(base: str):
    """Processes that have an entry."""
    for place in ("registry_renew", "registry_answered"):
        world = World(base, registry=True)
        world.begin()
        for process in ("front", *MACHINES):
            for how in SIGNALS:
                world.strike("registry, entries", (process, place), how, calls(world, (0,)))
        world.end()


def group_leave(base: str):
    """Machines that are told to end give their names back."""
    world = World(base, registry=True)
    world.begin()
    for machine in MACHINES:
        for how in SIGNALS:
            def trigger() -> int:
                os.kill(world.pid_of(machine), signal.SIGTERM)
                return 0
            # One that is told amid a question to the registry ends without a word to it.
            world.strike("registry, entries", (machine, "registry_leave"), how, trigger, must=False)
    world.end()


def group_proxy(base: str):
    at = (("front", "call_begins"), ("front", "session_named"), ("front", "message_sent"), ("front", "part_sent"),
          ("eyes", "message_taken"), ("talk", "activation_begun"), ("talk", "yield"), ("paint", "activation_ended"))
    for process, place in at:
        world = World(base, proxied=True)
        world.begin()
        for how in SIGNALS:
            trigger = large(world) if place == "part_sent" else calls(world)
            world.strike("proxy between", (process, place), how, trigger, "proxy")
        world.end()


def jobs() -> list:
    """(name, function of a folder), none of which takes long."""
    all_jobs = [(f"calls {place}", lambda b, p=place: group_calls(b, [p])) for place in CALL_PLACES]
    all_jobs += [(f"start {place}", lambda b, p=place: group_start(b, [p])) for place in START_PLACES]
    all_jobs += [(f"start {place}", lambda b, p=place: group_start(b, [p], True))
                 for place in ("registry_enter", "registry_answered")]
    all_jobs += [("end told", lambda b: group_end(b, "told_to_end")), ("end leave", group_leave)]
    all_jobs += [(f"home {place}", lambda b, p=place: group_home(b, [p])) for place in HOME_PLACES]
    all_jobs += [(f"home {place}", lambda b, p=place: group_home_members(b, [p])) for place in HOME_MEMBER_PLACES]
    all_jobs += [("home start", group_home_start), ("up", group_up), ("redis", group_redis),
                 ("registry", group_registry), ("proxy", group_proxy)]
    return all_jobs


def extra(base: str, seed: int, count: int):
    """Cases drawn at random: any machine or the home, any place of a call, any passage of it."""
    chosen = random.Random(seed)
    done = 0
    while done < count:
        world = World(base)
        world.begin()
        for _ in range(5):
            process = chosen.choice(["front", *MACHINES])
            place = chosen.choice([p for p in CALL_PLACES if not is_skipped(process, p)])
            kinds = [chosen.randrange(2) for _ in range(chosen.randrange(2, 6))] + [0, 1]
            world.strike("drawn at random", (process, place), chosen.choice(SIGNALS), calls(world, kinds))
            done += 1
        world.end()


def work(options) -> int:
    """One of the processes that share the jobs; says what it counted. It ends, and cleans up, with who started it."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    ctypes.CDLL(None).prctl(1, int(signal.SIGTERM))  # PR_SET_PDEATHSIG
    if os.getppid() != options.parent:
        return 1
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="sluice-kill-") as base:
        for number, (name, job) in enumerate(jobs()[::options.every]):
            if options.only and options.only not in name:
                continue
            if number % options.jobs == options.part:
                began = time.monotonic()
                try:
                    job(base)
                except (OSError, subprocess.TimeoutExpired, KeyError, AttributeError, TypeError) as error:
                    check(False, f"{name}: {error!r}\n{traceback.format_exc()}")
                finally:
                    for process in started:
                        if process.poll() is None:
                            process.kill()
                            process.wait()
                print(f"{name}: {time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)
        if options.extra:
            extra(base, options.seed * options.jobs + options.part, options.extra // options.jobs)
    with open(options.result, "w", encoding="utf-8") as out:
        json.dump({"cases": cases, "failures": len(failures), "slowest": max(slow, default=0)}, out)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("sluice")
    parser.add_argument("root")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--extra", type=int, default=0, help="so many cases more, drawn at random")
    parser.add_argument("--only", default="", help="jobs whose name has this in it")
    parser.add_argument("--every", type=int, default=1, help="each such job only")
    parser.add_argument("--jobs", type=int, default=4, help="worlds side by side; most of a case is waiting")
    parser.add_argument("--part", type=int, default=-1)
    parser.add_argument("--result", default="")
    parser.add_argument("--parent", type=int, default=0)
    options = parser.parse_args()
    if options.part >= 0:
        return work(options)
    began = time.monotonic()
    total, failed, slowest = {}, 0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        results = [os.path.join(folder, str(part)) for part in range(options.jobs)]
        parts = [subprocess.Popen([sys.executable, __file__, *sys.argv[1:], "--part", str(part), "--result", result,
                                   "--parent", str(os.getpid())])
                 for part, result in enumerate(results)]
        started.extend(parts)
        for part, result in zip(parts, results):
            if part.wait() != 0:
                failed += 1
                continue
            with open(result, encoding="utf-8") as text:
                said = json.load(text)
            failed += said["failures"]
            slowest = max(slowest, said["slowest"])
            for group, count in said["cases"].items():
                total[group] = total.get(group, 0) + count
    for group, count in sorted(total.items()):
        print(f"{count:4} {group}")
    for (process, place), why in SKIPPED.items():
        print(f"   - {process} at {place} is left out: {why}")
    cases_done = sum(total.values())
    wanted = 250 // options.every * 2 // 3 if options.every > 1 else 250
    if not options.only and cases_done < wanted:
        failed += 1
        print(f"FAILED: {cases_done} cases, {wanted} are wanted")
    print(f"{cases_done} cases in {time.monotonic() - began:.0f} s, {failed} failures; "
          f"the slowest answer took {slowest:.2f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    run_and_clean(main)
