"""`sluice status` and `sluice down`: what they say of real processes, and that nothing is left.

    python3 down_test.py SLUICE ROOT

Nothing sleeps: conditions are polled until a deadline.
"""
from __future__ import annotations

import errno
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile

from cluster_test import (CALM, LEASE, MACHINES, ROOT, SLUICE, Home, Up, check, command_of, failures, is_there,
                          run_and_clean, started, until, write_cluster)


def sluice(*words) -> subprocess.CompletedProcess:
    return subprocess.run([SLUICE, *words], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=60)


def status(cluster: str) -> dict:
    """By machine, and `up`. Empty when nobody runs."""
    done = sluice("status", "--cluster", cluster, "--format", "json")
    if done.returncode != 0:
        return {}
    said = json.loads(done.stdout)
    rows = {row["name"]: row for row in said["machines"]}
    check(list(rows) == ["front", *MACHINES], f"status names {list(rows)}")
    return {**rows, "up": said["up"]}


def nobody(run: str, cluster: str):
    for command in ("status", "down"):
        done = sluice(command, "--cluster", cluster)
        check(done.returncode == 1 and "no process of" in done.stderr and "sluice up" in done.stderr
              and f"by {run}/sluice/" in done.stderr and "XDG_RUNTIME_DIR" in done.stderr,
              f"{command} where nobody runs: {done}")
    for wrong in ("", "here"):  # /tmp is taken
        done = subprocess.run([SLUICE, "down", "--cluster", cluster], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env={**os.environ, "XDG_RUNTIME_DIR": wrong}, cwd=ROOT, timeout=60)
        check(done.returncode == 1 and "by /tmp/sluice-" in done.stderr and "is no absolute path here" in done.stderr, f"{done}")
    done = subprocess.run([SLUICE, "up", cluster], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env={**os.environ, "XDG_RUNTIME_DIR": os.path.join(run, "none")}, cwd=ROOT, timeout=60)
    check(done.returncode == 1 and f"{run}/none/sluice: cannot be made" in done.stderr and "set XDG_RUNTIME_DIR" in done.stderr, f"{done}")
    base = os.path.join(run, "sluice")
    os.mkdir(base)
    for mode, owner, words in ((0o755, os.getuid(), "no folder of mode 0700"), (0o700, 12345, "belongs to user 12345")):
        if owner != os.getuid() and os.getuid() != 0:
            continue  # only root can give a folder away
        os.chmod(base, mode)
        os.chown(base, owner, -1)
        for command in ("status", "down"):
            done = sluice(command, "--cluster", cluster)
            check(done.returncode == 1 and words in done.stderr, f"{command}: {words}: {done}")
    os.rmdir(base)
    wrong = os.path.join(os.path.dirname(cluster), "wrong.yaml")
    with open(wrong, "w", encoding="utf-8") as out:
        out.write("cluster: 1\nmachines: 3\n")
    done = sluice("down", "--cluster", wrong)
    check(done.returncode == 1 and "wrong.yaml:2:" in done.stderr, f"a wrong file: {done}")


def other_files(folder: str):
    """A file that is no cluster file is named once, with what it is and what to do, by each command that wants one."""
    written = {"services.yaml": ("version: '3'\nservices: { web: { image: x } }\n",
                                 "not a cluster file: it begins with 'version', 'services'; a cluster file has `cluster: 1`"),
               "scenario.yaml": ("scenario: one\nworkflow: two.yaml\n", "a scenario, not a cluster file; `sluice test"),
               "profile.yaml": ("profile: one\nnodes: {}\n", "a profile, not a cluster file; `sluice simulate"),
               "role.yaml": ("sluice_role: 1\nname: x\n", "a role's manifest, not a cluster file; `sluice validate")}
    files = [("workflows/image_chat.yaml", "a workflow, not a cluster file; `sluice run workflows/image_chat.yaml`")]
    for name, (text, words) in written.items():
        files.append((os.path.join(folder, name), words))
        with open(files[-1][0], "w", encoding="utf-8") as out:
            out.write(text)
    for path, words in files:
        for command in (("status", "--cluster", path), ("down", "--cluster", path), ("up", path),
                        ("node", "--name", "eyes", "--cluster", path), ("run", "--cluster", path)):
            done = sluice(*command)
            lines = done.stderr.splitlines()
            check(done.returncode != 0 and len(lines) == 1 and lines[0].startswith(f"error: {path}: ")
                  and words in lines[0] and not done.stdout, f"{command}: {done}")
    path = os.path.join(folder, "misspelt.yaml")
    with open(path, "w", encoding="utf-8") as out:
        out.write("clustr: 1\nworkflows: [ a.yaml ]\nmachines: { front: { home: true } }\n")
    done = sluice("status", "--cluster", path)
    check(done.returncode == 1 and "did you mean 'cluster'?" in done.stderr, f"a key that is misspelt: {done}")
    path = os.path.join(folder, "several.yaml")
    with open(path, "w", encoding="utf-8") as out:
        out.write(f"cluster: 1\nworkflows: [ {ROOT}/workflows/image_chat.yaml ]\nlease: 1ms\nmachines:\n"
                  "  front: { home: true, roles: [ parser, vit, vae ] }\n  talk: { roles: [ llm, difusion, llm ] }\n")
    done = sluice("up", path)
    check(done.returncode == 1 and [f"{path}:{place}: error:" in done.stderr for place in ("3:8", "6:25", "6:35")] == [True] * 3
          and done.stderr.count("error:") == 3, f"several mistakes: {done.stderr}")


def life_and_end(folder: str, cluster: str):
    up = Up(cluster)
    seen = status(cluster)
    check([seen[name]["process"] for name in ("front", *MACHINES)] == ["none", "ready", "ready", "ready"],
          f"only `up` runs: {seen}")
    check("state" not in seen["eyes"], "without a home nobody says who is a member")
    text = sluice("status", "--cluster", cluster).stdout
    check("front  none here; calls begin here\n" in text and text.count("the home does not run here, so nobody says") == 3, text)
    check([one["starts"] for one in seen["up"]["processes"]] == [1, 1, 1], f"{seen['up']}")
    check(not any(one["other"] for one in seen["up"]["processes"]), f"`up` has started them all: {seen['up']}")
    check(seen["eyes"]["pid"] == up.pid_of("eyes") and seen["up"]["pid"] == up.process.pid, f"{seen}")

    home = Home(cluster, folder)
    until(lambda: (home.call(0, 20) or {}).get("ok"), 20, "the first call")
    def all_there() -> bool:
        now = status(cluster)
        seen.update(now)
        return all(now[name]["state"] == "there" for name in ("front", *MACHINES))
    until(all_there, 20, "all are there")
    check(seen["front"]["calls"] == 0 and seen["front"]["pid"] == home.process.pid, f"{seen['front']}")
    check(all(0 <= seen[name]["heard_ms"] and seen[name]["window_bytes"] > 0 for name in MACHINES), f"{seen}")
    text = sluice("status", "--cluster", cluster).stdout
    check(all(f"{name:5}  pid {seen[name]['pid']}" in text for name in MACHINES) and "up, life" in text, text)

    killed = seen["eyes"]
    os.kill(killed["pid"], signal.SIGKILL)
    until(lambda: status(cluster)["eyes"].get("incarnation", 0) > killed["incarnation"], 20, "eyes in another life")
    again = [one for one in status(cluster)["up"]["processes"] if one["machine"] == "eyes"][0]
    check(again["starts"] == 2 and again["ended"] == "died by SIGKILL", f"eyes was killed: {again}")

    stopped = status(cluster)["paint"]
    os.kill(stopped["pid"], signal.SIGSTOP)
    lost = until(lambda: (row := status(cluster)["paint"])["state"] == "lost" and row, 20, "paint is lost")
    check(lost is None or (lost["process"] == "silent" and lost["incarnation"] == stopped["incarnation"]
                           and "nothing was heard" in lost["why"]), f"paint stands still: {lost}")
    text = sluice("status", "--cluster", cluster).stdout
    row = next((line for line in text.splitlines() if line.startswith("paint")), "")
    check("does not answer within" in row and "s ago: " in row and "nothing was heard of" in row and "; heard " in row, text)

    pids = [status(cluster)[name]["pid"] for name in ("front", *MACHINES)]
    home.ask(0)
    done = sluice("down", "--cluster", cluster)
    ended = [line.split(" (pid")[0] for line in done.stdout.splitlines()]
    check(done.returncode == 0 and ended == ["machine 'front'", "`sluice up`",
                                             *(f"machine '{name}'" for name in MACHINES)], f"down: {done}")
    check(not any(is_there(pid) for pid in pids if pid != home.process.pid), "machines are left after `down`")
    check(up.process.wait(timeout=5) == 0, "`up` that was told to end")
    home.process.wait(timeout=5)
    for pipe in (home.process.stdin, home.process.stdout, up.process.stdout):
        pipe.close()


def started_by_hand(cluster: str):
    """No `up`: a machine that something else has started."""
    node = subprocess.Popen([SLUICE, "node", "--cluster", cluster, "--name", "eyes"], cwd=ROOT,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    started.append(node)
    until(lambda: status(cluster).get("eyes", {}).get("process") == "ready", 20, "eyes is ready")
    check(status(cluster)["up"] is None, "nobody starts machines again")
    done = sluice("down", "--cluster", cluster)
    check(done.returncode == 0 and "machine 'eyes'" in done.stdout and node.wait(timeout=5) == 0, f"{done}")


def edited_file(cluster: str):
    """Machines are known by the names that they have, not by their places in a file that changed since."""
    with open(cluster, encoding="utf-8") as file:
        whole = file.read()
    nodes = {}
    for name in ("eyes", "paint"):
        nodes[name] = subprocess.Popen([SLUICE, "node", "--cluster", cluster, "--name", name], cwd=ROOT,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        started.append(nodes[name])
    until(lambda: all(status(cluster).get(name, {}).get("process") == "ready" for name in nodes), 20, "both are ready")
    with open(cluster, "w", encoding="utf-8") as file:
        file.write("".join(line for line in whole.splitlines(keepends=True) if not line.startswith("  eyes:")))
    said = json.loads(sluice("status", "--cluster", cluster, "--format", "json").stdout)
    pids = {row["name"]: row.get("pid") for row in said["machines"]}
    check(pids == {name: nodes[name].pid if name in nodes else None for name in ("front", *MACHINES) if name != "eyes"},
          f"rows after an edit: {said}")
    check([(row["name"], row["pid"]) for row in said["others"]] == [("eyes", nodes["eyes"].pid)], f"{said['others']}")
    with open(cluster, "w", encoding="utf-8") as file:
        file.write("cluster: 1\nmachines: 3\n")
    done = sluice("status", "--cluster", cluster)
    check(done.returncode == 0 and "calm.yaml:2:" in done.stderr and f"eyes   pid {nodes['eyes'].pid}; the file cannot be read"
          in done.stdout, f"status of a broken file: {done}")
    with open(cluster, "w", encoding="utf-8") as file:
        file.write("".join(line for line in whole.splitlines(keepends=True) if not line.startswith("  eyes:")))
    text = sluice("status", "--cluster", cluster).stdout
    check(f"eyes   pid {nodes['eyes'].pid}; not a machine of the file as it is now" in text, text)
    os.unlink(cluster)
    done = subprocess.run([SLUICE, "status", "--cluster", os.path.basename(cluster)], cwd=os.path.dirname(cluster),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    check(done.returncode == 0 and f"eyes   pid {nodes['eyes'].pid}; the file cannot be read" in done.stdout,
          f"status of a file that is gone, by its relative path: {done}")
    done = sluice("down", "--cluster", cluster)
    check("no such file" in done.stderr, f"down of a file that is gone: {done}")
    check(done.returncode == 0 and sorted(done.stdout.splitlines()) == [
        f"machine '{name}' (pid {node.pid}) has ended" for name, node in nodes.items()], f"down after an edit: {done}")
    for node in nodes.values():
        node.wait(timeout=10)
    with open(cluster, "w", encoding="utf-8") as file:
        file.write(whole)


def full_queue(run: str, cluster: str):
    """A machine that stands still, and whose socket takes no reader any more."""
    node = subprocess.Popen([SLUICE, "node", "--cluster", cluster, "--name", "eyes"], cwd=ROOT,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    started.append(node)
    until(lambda: status(cluster).get("eyes", {}).get("process") == "ready", 20, "eyes is ready")
    node.send_signal(signal.SIGSTOP)
    sockets = [os.path.join(at, name) for at, _, names in os.walk(run) for name in names if name.endswith(".status")]
    check(len(sockets) == 1, f"one process listens: {sockets}")
    for _ in range(100_000):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as reader:
            if reader.connect_ex(sockets[0]) == errno.EAGAIN:
                break
    else:
        check(False, "the queue is never full")
    row = status(cluster).get("eyes", {})
    check(row.get("process") == "silent" and row.get("pid") == node.pid and "stands still" in row.get("silent", ""),
          f"a full queue: {row}")
    done = sluice("down", "--cluster", cluster)
    check(done.returncode == 0 and f"machine 'eyes' (pid {node.pid}) has ended" in done.stdout, f"{done}")
    if done.returncode != 0:
        node.send_signal(signal.SIGCONT)
        node.terminate()
    check(node.wait(timeout=10) == 0, "a machine that is told to end while it stands still")


def same_addresses(folder: str):
    """Two clusters with the same ipc addresses: the first keeps them. Its sockets go with it, and a user's file stays."""
    sockets = os.path.join(folder, "sockets")
    os.mkdir(sockets, 0o700)
    first, second = (write_cluster(folder, f", address: 'ipc://{sockets}/{{}}'", name) for name in ("one.yaml", "two.yaml"))
    node = subprocess.Popen([SLUICE, "node", "--cluster", first, "--name", "eyes"], cwd=ROOT,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    started.append(node)
    until(lambda: status(first).get("eyes", {}).get("process") == "ready", 20, "eyes is ready")
    done = sluice("node", "--cluster", second, "--name", "eyes")
    check(done.returncode == 1 and f"socket {sockets}/eyes is in use by a process that runs" in done.stderr
          and "ready" not in done.stdout, f"an address of another cluster: {done}")
    check(status(first)["eyes"]["process"] == "ready", "the first has its address still")
    done = sluice("down", "--cluster", first)
    check(done.returncode == 0 and node.wait(timeout=10) == 0, f"{done}")
    check(os.listdir(sockets) == [], f"left at the addresses: {os.listdir(sockets)}")
    for name in ("eyes", "eyes.memory"):
        path = os.path.join(sockets, name)
        with open(path, "w", encoding="utf-8") as out:
            out.write("mine")
        done = sluice("node", "--cluster", first, "--name", "eyes")
        check(done.returncode == 1 and f"{path} is there and is no socket" in done.stderr, f"a file at {name}: {done}")
        with open(path, encoding="utf-8") as file:
            check(file.read() == "mine", f"the file at {name} is kept")
        os.unlink(path)


def leftovers(run: str, folder: str, cluster: str):
    up = Up(cluster)
    home = Home(cluster, folder)
    until(lambda: (home.call(0, 20) or {}).get("ok"), 20, "the first call")
    home.process.kill()
    home.process.wait()
    up.stop(signal.SIGKILL)
    check(os.listdir(run), "processes that were killed leave files")
    done = sluice("down", "--cluster", cluster)
    check(done.returncode == 0 and "had been killed" in done.stdout, f"down after kills: {done}")
    home.process.stdin.close()
    home.process.stdout.close()


def main():
    with tempfile.TemporaryDirectory() as folder:
        run = os.path.join(folder, "run")
        os.mkdir(run, 0o700)
        os.environ["XDG_RUNTIME_DIR"] = run
        cluster = write_cluster(folder, lease=LEASE)
        other_files(folder)
        calm = write_cluster(folder, name="calm.yaml", lease=CALM)
        nobody(run, cluster)
        for part in (lambda: life_and_end(folder, cluster), lambda: started_by_hand(calm),
                     lambda: full_queue(run, calm), lambda: edited_file(calm), lambda: same_addresses(folder),
                     lambda: leftovers(run, folder, calm)):
            part()
            check(not os.listdir(run), f"{[x for x in os.walk(run)]} is left")
        check(not [pid for pid in os.listdir("/proc") if pid.isdigit()
                   and {cluster, calm} & set(command_of(int(pid)))], "processes are left")
    print(f"status and down: {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    run_and_clean(main)
