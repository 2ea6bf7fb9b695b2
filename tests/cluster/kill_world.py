"""For kill_matrix_test.py: a cluster that faults strike, what is asked of it, and what must be left behind."""
from __future__ import annotations

import contextlib
import itertools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time

from cluster_test import MACHINES, ROOT, SLACK, SLUICE, Home, check, children, command_of, is_there, started, stat_of, until

LEASE = 0.25
next_port = itertools.count(97 * os.getpid())
# How long an outcome may take. What is computed meanwhile takes several times as long with sanitizers.
OUTCOME = (LEASE + 1) * SLACK
EXPECTED = "the circle is red"
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

    def passed(self, path: str, what: str, must: bool = True, patience: float = 8) -> bool:
        deadline = time.monotonic() + patience
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

    def reached(self, at: tuple, how: signal.Signals, pid: int | None, trigger, what: str, must: bool):
        """How many calls are under way when `at` is passed; None: it was not. Behind a registry's death calls go on until
        the home notices it, and are refused until it has met the next registry. Those of the case that follows may be
        refused so, and never come to `at`: then calls are asked once more."""
        for last in (not must, True):
            path = self.arm(*at, how, pid)
            try:
                asked = trigger()
            except BrokenPipeError:  # the home has died meanwhile
                asked = 0
            if self.passed(path, what, must and last, 8 if must else 2):
                return asked
            for _ in range(asked):
                self.outcome(OUTCOME, what)
            if last:
                return None
            self.works()
        return None

    def strike(self, group: str, at: tuple, how: signal.Signals, trigger, victim: str | None = None,
               must: bool = True):
        """`trigger` makes `at` (process, place) be passed, and tells how many calls are under way."""
        victim = victim or at[0]
        what = f"{how.name} of {victim} at {at[0]}.{at[1]}"
        pid = until(lambda: self.pid_of(victim), 10, f"{what}: {victim} runs")
        if pid is None:
            return
        asked = self.reached(at, how, None if victim == at[0] else pid, trigger, what, must)
        if asked is None:
            return
        counted(group)
        under_way = range(asked)
        if victim == "front":
            if how == signal.SIGSTOP:
                self.stands(pid, what)
                for _ in under_way:
                    self.outcome(OUTCOME, what)
            else:
                self.bury_home(what)
        else:
            for _ in under_way:
                self.outcome(OUTCOME, what)
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
    """Below those that the kernel gives to whoever connects, and elsewhere for each process."""
    found = []
    while len(found) < count:
        port = 20_000 + next(next_port) % 10_000
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            found.append(port)
    return found
