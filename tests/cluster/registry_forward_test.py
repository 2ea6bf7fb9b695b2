"""A registry that one machine forwards: real processes with CURVE keys, of which that one alone reaches the server.

    python3 registry_forward_test.py SLUICE ROOT

Nothing sleeps: conditions are polled until a deadline.
"""
from __future__ import annotations

import os
import select
import signal
import socket as socketlib
import struct
import subprocess
import sys
import tempfile
import threading

from cluster_test import (MACHINES, ROOT, SLUICE, Home, Up, check, failures, run_and_clean, started, until,
                          write_cluster)
from down_test import sluice, status
from kill_world import free_ports

LEASE = 1.5
FORWARDS = "machine 'paint', which forwards to it"


class Gate:
    """Stands before the server's socket, and lets in only the process that may be there."""

    def __init__(self, path: str, behind: str, may_enter):
        self.behind, self.may_enter = behind, may_enter
        self.entered, self.strangers, self.pairs = set(), set(), {}
        self.listener = socketlib.socket(socketlib.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen(64)
        self.ended, self.end = os.pipe()
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def accept(self):
        client, _ = self.listener.accept()
        pid = struct.unpack("3i", client.getsockopt(socketlib.SOL_SOCKET, socketlib.SO_PEERCRED, 12))[0]
        if not self.may_enter(pid):
            self.strangers.add(pid)
            return client.close()
        self.entered.add(pid)
        server = socketlib.socket(socketlib.AF_UNIX)
        try:
            server.connect(self.behind)
        except OSError:
            server.close()
            return client.close()
        self.pairs[client], self.pairs[server] = server, client

    def close(self, one):
        for end in (one, self.pairs.pop(one)):
            self.pairs.pop(end, None)
            end.close()

    def serve(self):
        while True:
            ready, _, _ = select.select([self.listener, self.ended, *self.pairs], [], [])
            if self.ended in ready:
                return
            for one in ready:
                if one is self.listener:
                    self.accept()
                elif one in self.pairs:
                    try:
                        data = one.recv(65536)
                        if not data:
                            raise OSError
                        self.pairs[one].sendall(data)
                    except OSError:
                        self.close(one)

    def stop(self):
        os.write(self.end, b"x")
        self.thread.join()
        for one in list(self.pairs):
            one.close()
        self.listener.close()
        os.close(self.end)
        os.close(self.ended)


def begin_server(folder: str) -> tuple[subprocess.Popen, str]:
    socket = os.path.join(folder, "redis.socket")
    if os.path.exists(socket):
        os.remove(socket)
    server = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--dir", folder],
                              stdout=subprocess.DEVNULL)
    started.append(server)
    until(lambda: os.path.exists(socket), 10, "a server")
    return server, socket


def make_cluster(folder: str, gate: str, lease: float = LEASE) -> str:
    names = ("front", *MACHINES)
    keys = [SLUICE, "keys", f"{folder}/keys"]
    for name in names:
        keys += ["--machine", name]
    subprocess.run(keys, check=True, stdout=subprocess.DEVNULL)
    ports = free_ports(len(names) + 1)
    cluster = write_cluster(folder, "@{}@", "forwarded.yaml", lease)
    with open(cluster, encoding="utf-8") as file:
        text = file.read()
    for name, port in zip(names, ports):
        text = text.replace(f"@{name}@", f", address: \"tcp://127.0.0.1:{port}\"")
    text += (f"keys: keys\nregistry: {{ address: \"unix://{gate}\", at: paint, "
             f"forward: \"tcp://127.0.0.1:{ports[-1]}\" }}\n")
    with open(cluster, "w", encoding="utf-8") as file:
        file.write(text)
    return cluster


def refused(home: Home, gate: str, why: str):
    """A call that the registry does not let begin, for this reason; others before it may do anything."""
    def once():
        home.pause()
        result = home.call(0, 15)
        if result is None or result["ok"]:
            return False
        words = result["error"]
        begins = f"no call can begin while the registry at unix://{gate} of machine 'paint' does not confirm this " \
                 f"machine: "
        return words["code"] == "unavailable" and words["message"].startswith(begins) and why in words["message"]
    return until(once, 20, f"calls are refused: {why}")


def works(home: Home, what: str):
    until(lambda: (home.pause(), home.call(0, 15) or {})[1].get("ok"), 30, what)


def troubles(folder: str):
    server, socket = begin_server(folder)
    path = os.path.join(folder, "gate")
    up = None
    ended = set()  # a process that has just been killed may have knocked before
    gate = Gate(path, socket, lambda pid: up is None or pid in ended or pid == up.pid_of("paint"))
    try:
        cluster = make_cluster(folder, path)
        done = sluice("validate", cluster)
        check(done.returncode == 0, f"validate: {done}")
        up = Up(cluster)
        home = Home(cluster, folder)
        works(home, "the first call")
        seen = status(cluster)
        check(all(seen[name].get("registry") == "current" for name in ("front", *MACHINES)), f"{seen}")

        # The server stands still: who has begun goes on.
        under_way = [home.ask(0) for _ in range(2)]
        server.send_signal(signal.SIGSTOP)
        for _ in under_way:
            result = home.answer(15)
            # Refused, where this machine is so slow that its entry lapsed before the call began.
            check(result is not None and (result["ok"] or "no call can begin" in result["error"]["message"]),
                  f"a call that had begun: {result}")
        refused(home, path, f"it does not answer {FORWARDS}")
        server.send_signal(signal.SIGCONT)
        works(home, "calls when the server goes on")

        # It is killed, and another begins empty.
        server.kill()
        server.wait()
        refused(home, path, FORWARDS)
        server, _ = begin_server(folder)
        works(home, "calls with another server")
        again = status(cluster)
        check(all(again[name]["incarnation"] == seen[name]["incarnation"] for name in MACHINES),
              f"the registry's troubles end nobody's life: {seen}, then {again}")

        # The machine that forwards stands still for longer than its lease, and then dies.
        paint = up.pid_of("paint")
        ended.add(paint)
        os.kill(paint, signal.SIGSTOP)
        refused(home, path, FORWARDS)
        os.kill(paint, signal.SIGCONT)
        works(home, "calls when the machine that forwards goes on")
        os.kill(paint, signal.SIGKILL)
        until(lambda: up.pid_of("paint") not in (None, paint), 20, "it is started again")
        works(home, "calls through its next process")
        until(lambda: status(cluster)["eyes"].get("registry") == "current", 20, "entries hold again")
        home.stop()
        done = sluice("down", "--cluster", cluster)
        check(done.returncode == 0, f"down: {done}")
        up.process.wait(timeout=10)
        up.process.stdout.close()
    finally:
        gate.stop()
        server.kill()
        server.wait()
    check(gate.entered and not gate.strangers,
          f"only the machine that has the server reaches it: {gate.entered}, others {gate.strangers}")


def another_key(folder: str):
    """A home whose key the machine that forwards does not know waits in vain, and says so."""
    server, socket = begin_server(folder)
    cluster = make_cluster(folder, socket, 8)  # an attempt takes a part of it
    forwarder = subprocess.Popen([SLUICE, "node", "--cluster", cluster, "--name", "paint"], cwd=ROOT,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    started.append(forwarder)
    check(forwarder.stdout.readline() == "machine 'paint' is ready\n", "the machine that forwards")
    for end in ("secret", "public"):
        os.remove(f"{folder}/keys/front.{end}")
    subprocess.run([SLUICE, "keys", f"{folder}/keys", "--machine", "front"], check=True, stdout=subprocess.DEVNULL)
    done = sluice("run", "--cluster", cluster, "--prompt", "draw a star", "--join-within", "4")
    check(done.returncode == 1 and f"of machine 'paint' has not let machine 'front' in: {FORWARDS} at tcp://"
          in done.stderr and "it does not know this machine's key" in done.stderr, f"{done}")
    forwarder.send_signal(signal.SIGTERM)
    text = forwarder.communicate(timeout=30)[1]
    check(forwarder.returncode == 0 and "its key is nobody's" in text, f"the one that forwards: {text}")
    server.kill()
    server.wait()


def main():
    with tempfile.TemporaryDirectory() as folder:
        run = os.path.join(folder, "run")
        os.mkdir(run, 0o700)
        os.environ["XDG_RUNTIME_DIR"] = run
        for part in (troubles, another_key):
            inside = os.path.join(folder, part.__name__)
            os.mkdir(inside, 0o700)
            part(inside)
        check(not os.listdir(run), f"{[x for x in os.walk(run)]} is left")
    print(f"a registry that is forwarded: {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    run_and_clean(main)
