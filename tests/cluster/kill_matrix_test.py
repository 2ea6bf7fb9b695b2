"""The kill matrix: each kind of process dies, crashes or stands still at each point of the protocol.

    python3 kill_matrix_test.py SLUICE ROOT [--seed N] [--extra CASES] [--only GROUP] [--jobs N]

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
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import traceback
import zlib

from cluster_test import (MACHINES, ROOT, SLUICE, Home, check, children, command_of, failures, is_there, line, request,
                          run_and_clean, started, stat_of, until)

LEASE = 0.25
SIGNALS = (signal.SIGKILL, signal.SIGSEGV, signal.SIGSTOP)
EXPECTED = "the circle is red"
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
cases = {}  # group -> count
slow = []


def counted(group: str):
    cases[group] = cases.get(group, 0) + 1


class World:
    """A cluster file in a folder of its own; its `up`, its home and perhaps a proxy."""

    def __init__(self, base: str, registry: bool = False, proxied: bool = False):
        self.folder = tempfile.mkdtemp(dir=base)
        self.fail = os.path.join(self.folder, "fail")
        self.run = os.path.join(self.folder, "run")
        os.mkdir(self.fail)
        os.mkdir(self.run, 0o700)
        os.environ["XDG_RUNTIME_DIR"] = self.run
        os.environ["SLUICE_FAILPOINTS"] = self.fail
        self.shm = sorted(os.listdir("/dev/shm"))
        self.proxy = self.up = self.home = None
        self.drawn = self.last = None
        self.machines = {"front": "[ parser ]", **MACHINES}
        if proxied:
            ports = free_ports(5)
            self.listens, self.behind = ports[4], ports[0]
            where = dict(zip(self.machines, ports))
            self.file = self.write("home", registry, where)
            self.up_file = self.write("nodes", registry, {**where, "front": self.listens})
        else:
            self.file = self.up_file = self.write("cluster", registry, {})

    def write(self, name: str, registry: bool, ports: dict) -> str:
        path = os.path.join(self.folder, name + ".yaml")
        with open(path, "w", encoding="utf-8") as out:
            out.write(f"cluster: 1\nworkflows: [ {ROOT}/workflows/image_chat.yaml ]\nmachines:\n")
            for machine, roles in self.machines.items():
                home = "home: true, " if machine == "front" else ""
                address = f', address: "tcp://127.0.0.1:{ports[machine]}"' if ports else ""
                out.write(f"  {machine}: {{ {home}roles: {roles}{address} }}\n")
            out.write(f"lease: {int(LEASE * 1000)}ms\n" + ("registry: private\n" if registry else ""))
        return path

    def start_up(self):
        self.up = subprocess.Popen([SLUICE, "up", self.up_file], cwd=ROOT, stdout=subprocess.DEVNULL,
                                   stderr=open(os.path.join(self.folder, "up.log"), "ab"))
        started.append(self.up)
        # Else a home that is started meanwhile takes over, and starts the machines itself.
        until(lambda: any("up.status" in names for _, _, names in os.walk(self.run)), 10, "`up` listens")

    def start_home(self):
        self.home = Home(self.file, os.path.join(self.folder, "out"))

    def start_proxy(self):
        self.proxy = subprocess.Popen([sys.executable, os.path.join(os.path.dirname(__file__), "proxy.py"),
                                       str(self.listens), str(self.behind)])
        started.append(self.proxy)

    def begin(self):
        if hasattr(self, "listens"):
            self.start_proxy()
        self.start_up()
        self.start_home()
        self.works()
        self.descriptors = fds(self.home.process.pid)

    def pid_of(self, name: str) -> int | None:
        if name in ("up", "proxy"):
            return getattr(self, name).pid
        if name == "front":
            return self.home.process.pid
        for child in children(self.up.pid):
            words = command_of(child)
            if name == "redis" and "redis-server" in words[0]:
                return child
            if "--name" in words and words[words.index("--name") + 1] == name:
                return child
        return None

    # ---- calls

    def right(self, result: dict, alone: bool) -> bool:
        """What an answer that went well says. Beside other calls a drawing's last bits may differ."""
        if result["id"] % 2 == 0:
            return "".join(result["outputs"]["text"]).strip() == EXPECTED
        with open(result["outputs"]["image"][0]["file"], "rb") as file:
            drawn = file.read()
        if not alone:
            return drawn.startswith(b"\x89PNG") and len(drawn) > 200
        self.drawn = self.drawn or drawn
        return drawn == self.drawn

    def outcome(self, seconds: float, what: str, alone: bool = False) -> bool:
        """One answer: right, or an error that names a machine, or the registry, and why."""
        began = time.monotonic()
        result = self.home.answer(seconds)
        slow.append(time.monotonic() - began)
        if result is None:
            check(False, f"{what}: no answer")
            return False
        if result["ok"]:
            check(self.right(result, alone), f"{what}: {result}")
            return True
        words = self.last = result["error"]["message"]
        named = ("machine '" in words and "is lost: " in words) or "while the registry at unix://" in words \
            or result["error"]["code"] == "deadline"
        check(named, f"{what}: {result}")
        return False

    def works(self, seconds: float = 15):
        """A question and a drawing go well."""
        def once():
            self.home.pause()
            return all(self.home.ask(kind) >= 0 and self.outcome(20, "afterwards", True) for kind in (0, 1))
        if not until(once, seconds, "calls work again"):
            with open(os.path.join(self.folder, "up.log"), encoding="utf-8") as said:
                check(False, f"the last: {self.last}; {status_of(self.file)}{said.read()[-4000:]}")

    # ---- one case

    def arm(self, process: str, place: str, how: signal.Signals, pid: int | None = None, passage: int = 1) -> str:
        path = os.path.join(self.fail, f"{process}.{place}")
        with open(path + "~", "w", encoding="utf-8") as out:
            out.write(f"{int(how)} {passage} {pid or ''}")
        os.rename(path + "~", path)
        return path

    def passed(self, path: str, what: str, must: bool = True) -> bool:
        deadline = time.monotonic() + (8 if must else 2)
        while os.path.exists(path) and time.monotonic() < deadline:
            select.select([], [], [], 0.005)
        if not os.path.exists(path):
            return True
        check(not must, f"{what} is not passed")
        os.unlink(path)
        return False

    def stands(self, pid: int | None, what: str):
        """For three leases, from when it does."""
        if pid is None:
            check(False, f"{what}: it is gone")
            return
        until(lambda: stat_of(pid)[:1] == ["T"], 2, f"{what}: stands still")
        began = time.monotonic()
        until(lambda: time.monotonic() > began + 3 * LEASE, 3 * LEASE + 1, "three leases")
        os.kill(pid, signal.SIGCONT)

    def strike(self, group: str, at: tuple, how: signal.Signals, trigger, victim: str | None = None,
               must: bool = True):
        """`trigger` makes `at` (process, place) be passed, and tells how many calls are under way."""
        victim = victim or at[0]
        what = f"{how.name} of {victim} at {at[0]}.{at[1]}"
        pid = until(lambda: self.pid_of(victim), 10, f"{what}: {victim} runs")
        if pid is None:
            return
        path = self.arm(*at, how, None if victim == at[0] else pid)
        try:
            asked = trigger()
        except BrokenPipeError:  # the home has died meanwhile
            asked = 0
        if not self.passed(path, what, must):
            for _ in range(asked):
                self.outcome(LEASE + 1, what)
            return
        counted(group)
        under_way = range(asked)
        if victim == "front":
            if how == signal.SIGSTOP:
                self.stands(pid, what)
                for _ in under_way:
                    self.outcome(LEASE + 1, what)
            else:
                self.bury_home(what)
        else:
            for _ in under_way:
                self.outcome(LEASE + 1, what)
            if how == signal.SIGSTOP:
                self.stands(pid, what)
            elif victim == "up":
                self.up.wait(timeout=10)
                until(lambda: set(machines_of(self.folder)) <= {self.home.process.pid}, 10,
                      f"{what}: the machines end with `up`")
                self.start_up()
            elif victim == "proxy":
                self.proxy.wait(timeout=10)
                self.start_proxy()
            else:  # redis-server writes a report before it dies
                until(lambda: not is_there(pid), 10, f"{what}: it is gone")
        self.works()
        now = lambda: fds(self.home.process.pid)
        until(lambda: now() <= self.descriptors, 5, f"{what}: {now()} descriptors, {self.descriptors} before")

    def bury_home(self, what: str):
        """What it had answered stands there; behind that is nothing, and then another home."""
        home = self.home
        try:
            home.process.stdin.close()
        except BrokenPipeError:
            pass
        home.process.wait(timeout=10)
        while part := os.read(home.process.stdout.fileno(), 65536):
            home.text += part
        for text in home.text.splitlines():
            result = json.loads(text)
            check(result["id"] not in home.answered, f"{what}: call {result['id']} is answered twice")
            home.answered.add(result["id"])
        home.process.stdout.close()
        number = home.next
        self.start_home()
        self.home.next = number  # the drawings of both are in one folder

    def end(self):
        self.home.stop()
        self.end_up()

    def end_up(self, marked=()):
        """`marked`: places that processes pass when they are told to end."""
        self.up.send_signal(signal.SIGINT)
        for path, what in marked:
            if self.passed(path, what):
                counted("machines, end")
        self.up.wait(timeout=20)
        if self.proxy:
            self.proxy.kill()
            self.proxy.wait()
        until(lambda: not machines_of(self.folder), 10, f"nobody is left in {self.folder}")
        check(not os.listdir(self.run), f"{[x for x in os.walk(self.run)]} is left")
        check(sorted(os.listdir("/dev/shm")) == self.shm, f"/dev/shm has {os.listdir('/dev/shm')}, had {self.shm}")
        check(not os.listdir(self.fail), f"{os.listdir(self.fail)} was not passed")


def machines_of(folder: str) -> list[int]:
    return [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and is_there(int(pid))
            and any(folder in word for word in command_of(int(pid))[1:])
            and any(name in command_of(int(pid))[0] for name in ("sluice", "redis-server"))]


def status_of(file: str) -> str:
    done = subprocess.run([SLUICE, "status", "--cluster", file], cwd=ROOT, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=20)
    return done.stdout


def fds(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


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
        for number, (name, job) in enumerate(jobs()):
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
    if not options.only and cases_done < 250:
        failed += 1
        print(f"FAILED: {cases_done} cases, 250 are wanted")
    print(f"{cases_done} cases in {time.monotonic() - began:.0f} s, {failed} failures; "
          f"the slowest answer took {slowest:.2f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    run_and_clean(main)
