"""A registry on one of three hosts of namespaces, reached by the others with CURVE keys, also while a wire is cut.

    python3 registry_hosts_test.py SLUICE ROOT

Ends with 77 (skipped, with the reason) where no namespaces can be made. Nothing sleeps: conditions are polled.
"""
from __future__ import annotations

import os
import subprocess
import sys

from cluster_test import ROOT, SLUICE, check, failures, run_and_clean, started, until

SCRIPT = os.path.join(ROOT, "examples", "cluster", "three_hosts.sh")
ON = os.path.join("/run", "bin", "on")  # made by the script
SOCKET = "/run/redis.socket"  # each host has a /run of its own
CLUSTER = f"""cluster: 1
workflows: [ {ROOT}/workflows/image_chat.yaml ]
machines:
  front: {{ home: true, roles: [ parser ], address: "tcp://10.77.0.1:7000" }}
  eyes:  {{ roles: [ vit, vae ], address: "tcp://10.77.0.2:7000" }}
  talk:  {{ roles: [ llm, diffusion ], address: "tcp://10.77.0.3:7000" }}
keys: keys
registry: {{ address: "unix://{SOCKET}", at: talk, forward: "tcp://10.77.0.3:7404" }}
lease: 1s
"""


def outside() -> int:
    done = subprocess.run([SCRIPT, SLUICE, "--", sys.executable, __file__, SLUICE, ROOT, "--inside"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=200)
    if done.returncode == 77:
        print("skipped:", done.stderr.strip())
        return 77
    check(done.returncode == 0, f"a registry on three hosts: {done.stdout}{done.stderr}")
    print(f"a registry on three hosts: {len(failures)} failures")
    return 1 if failures else 0


# ---- beside the hosts

def begin(host: str, *words: str) -> subprocess.Popen:
    process = subprocess.Popen([ON, host, *words], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                               text=True)
    started.append(process)
    return process


def on(host: str, *words: str, text: str | None = None) -> subprocess.CompletedProcess:
    return subprocess.run([ON, host, *words], cwd=ROOT, input=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=60)


def draw(patience: int) -> subprocess.CompletedProcess:
    return on("front", SLUICE, "run", "--cluster", "/tmp/lab.yaml", "--prompt", "draw a star", "--out", "/tmp/star.png",
              "--join-within", str(patience))


def inside() -> int:
    for host in ("front", "eyes", "talk"):
        on(host, "tee", "/tmp/lab.yaml", text=CLUSTER)
    begin("talk", "redis-server", "--port", "0", "--unixsocket", SOCKET, "--save", "", "--dir", "/tmp")
    until(lambda: on("talk", "test", "-S", SOCKET).returncode == 0, 20, "a server on one host")
    check(on("front", "test", "-e", SOCKET).returncode != 0, "no other host has its socket")
    for host in ("talk", "eyes"):
        node = begin(host, SLUICE, "node", "--cluster", "/tmp/lab.yaml", "--name", host)
        check(node.stdout.readline() == f"machine '{host}' is ready\n", f"machine '{host}' enters")
    done = draw(20)
    check(done.returncode == 0, f"a call: {done}")

    subprocess.run(["ip", "link", "set", "talk", "down"], check=True)
    done = draw(2)
    check(done.returncode == 1 and f"the registry at unix://{SOCKET} of machine 'talk' has not let machine 'front' in: "
          "machine 'talk', which forwards to it at tcp://10.77.0.3:7404, has not answered" in done.stderr,
          f"a cut wire is named: {done}")
    subprocess.run(["ip", "link", "set", "talk", "up"], check=True)
    done = draw(20)
    check(done.returncode == 0, f"a call over the healed wire: {done}")
    print(f"beside three hosts: {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    run_and_clean(inside if "--inside" in sys.argv else outside)
