"""Three hosts of namespaces: the same bytes as in one process, and calls while wires are cut, one way too, and healed.

    python3 three_hosts_test.py SLUICE ROOT

Ends with 77 (skipped, with the reason) where no namespaces can be made. Nothing sleeps: conditions are polled.
"""
from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time

from cluster_test import (ROOT, SLACK, SLUICE, Home, check, command_of, failures, run_and_clean, started, until)

LEASE = 0.6
HOSTS = ("front", "eyes", "talk")
SCRIPT = os.path.join(ROOT, "examples", "cluster", "three_hosts.sh")
ON = os.path.join("/run", "bin", "on")  # made by the script
MARK = "SLUICE_THREE_HOSTS_TEST"


def left() -> list[str]:
    """Processes of such hosts, by what the test has put in their environment."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if int(pid) != os.getpid() and f"{MARK}={os.getpid()}".encode() in file.read().split(b"\0"):
                    found.append(" ".join(command_of(int(pid))))
        except OSError:
            continue
    return found


def outside() -> int:
    os.environ[MARK] = str(os.getpid())
    done = subprocess.run([SCRIPT, SLUICE], cwd="/", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=300)
    if done.returncode == 77:
        print("skipped:", done.stderr.strip())
        return 77
    check(done.returncode == 0, f"three hosts: {done.stdout}{done.stderr}")
    check("smollm2: left out" in done.stdout or "smollm2: the same bytes" in done.stdout, done.stdout)
    for name in ("question", "drawing", "vlm_split"):
        check(f"{name}: the same bytes on three hosts and in one process" in done.stdout, f"{name}: {done.stdout}")
    check("the circle is red" in done.stdout, done.stdout)
    check(not left(), f"the script leaves {left()}")

    killed = subprocess.Popen([SCRIPT, SLUICE, "--", "sh", "-c", "echo all; exec sleep infinity"],
                              stdout=subprocess.PIPE)
    started.append(killed)
    check(killed.stdout.readline() == b"all\n", "the hosts are there")
    check(len(left()) >= 4, f"what runs can be seen: {left()}")
    killed.kill()
    killed.wait()
    killed.stdout.close()
    until(lambda: not left(), 10, f"a killed script leaves {left()}")

    inside = subprocess.run([SCRIPT, SLUICE, "--", sys.executable, __file__, SLUICE, ROOT, "--inside"],
                            env={**os.environ, "LEASE": f"{int(LEASE * 1000)}ms"}, timeout=200)
    check(inside.returncode == 0, "with wires that are cut")
    check(not left(), f"the hosts leave {left()}")
    print(f"three hosts: {len(failures)} failures")
    return 1 if failures else 0


# ---- beside the hosts

class FarHome(Home):
    """The home, on its host."""

    def __init__(self):
        self.process = subprocess.Popen(
            [ON, "front", SLUICE, "run", "--cluster", "/tmp/image_chat.yaml", "--calls", "-", "--out", "/tmp/out",
             "--join-within", "30"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL)
        started.append(self.process)
        self.text = b""
        self.next = 0
        self.answered = set()


def on(host: str, *words):
    subprocess.run([ON, host, *words], check=True, stdout=subprocess.DEVNULL, timeout=20)


def cut_wire(host: str):
    """Both ways, as when a cable is drawn."""
    return (lambda: subprocess.run(["ip", "link", "set", host, "down"], check=True),
            lambda: subprocess.run(["ip", "link", "set", host, "up"], check=True))


def cut_way(host: str, to: str):
    """What `host` sends to `to` goes nowhere; the other way works."""
    address = address_of(to) + "/32"
    return (lambda: on(host, "ip", "route", "add", "blackhole", address),
            lambda: on(host, "ip", "route", "del", "blackhole", address))


def address_of(host: str) -> str:
    with open(os.path.join(os.environ["WIRES"], host), encoding="utf-8") as file:
        return file.read().strip()


def named(result: dict | None, what: str):
    check(result is not None and (result["ok"] or ("machine '" in result["error"]["message"]
                                                   and "is lost: " in result["error"]["message"])), f"{what}: {result}")


def works(home: Home, what: str):
    def once():
        home.pause()
        result = home.call(0, LEASE + 5)
        named(result, what)
        return result is not None and result["ok"]
    began = time.monotonic()
    until(once, 20, f"{what}: calls work again")
    return time.monotonic() - began


def cut(home: Home, what: str, ways: tuple) -> float:
    """Calls under way and calls meanwhile end once, by name, within a lease and a second; then all is well again."""
    asked = [home.ask(0) for _ in range(4)]
    ways[0]()
    deadline = time.monotonic() + (LEASE + 1) * SLACK
    for _ in asked:
        named(home.answer(max(0.1, deadline - time.monotonic())), what)
    lost = []

    def is_lost():
        result = home.call(0, (LEASE + 1) * SLACK)
        named(result, what)
        lost.append(result)
        return result is not None and not result["ok"]
    until(is_lost, 3 * LEASE + 3, f"{what}: a call fails meanwhile")
    ways[1]()
    return works(home, what)


def inside() -> int:
    for host in HOSTS[1:]:
        node = subprocess.Popen([ON, host, SLUICE, "node", "--cluster", "/tmp/image_chat.yaml", "--name", host],
                                cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        started.append(node)
        ready, _, _ = select.select([node.stdout], [], [], 30)
        check(bool(ready) and b"is ready" in node.stdout.readline(), f"{host} is ready")
    subprocess.run([ON, "eyes", "sh", "-c", "echo eyes > /tmp/whose; echo eyes > /run/whose"], check=True)
    for where in ("/tmp/whose", "/run/whose"):
        check(subprocess.run([ON, "talk", "test", "-e", where]).returncode == 1, f"{where} is shared")
    home = FarHome()
    works(home, "before")
    cases = {
        "the wire of eyes": cut_wire("eyes"),
        "the wire of talk": cut_wire("talk"),
        "the wire of front": cut_wire("front"),
        "front to eyes": cut_way("front", "eyes"),
        "eyes to front": cut_way("eyes", "front"),
        "talk to front": cut_way("talk", "front"),
        "eyes to talk": cut_way("eyes", "talk"),
        "talk to eyes": cut_way("talk", "eyes"),
    }
    for what, ways in cases.items():
        print(f"{what} was cut and healed: calls work {cut(home, what, ways):.1f} s later", flush=True)
    home.stop()
    for node in started[:2]:
        node.send_signal(signal.SIGTERM)
        node.wait(timeout=20)
        node.stdout.close()
    return 1 if failures else 0


if __name__ == "__main__":
    run_and_clean(inside if "--inside" in sys.argv else outside)
