"""A registry beside real processes: entries, refusals that name both, and a server that stands still or is killed.

    python3 registry_test.py SLUICE ROOT

Nothing sleeps: conditions are polled until a deadline.
"""
from __future__ import annotations

import os
import signal
import socket as socketlib
import subprocess
import sys
import tempfile

from cluster_test import (MACHINES, ROOT, SLUICE, Home, Up, check, children, command_of, failures, is_there,
                          run_and_clean, started, until, write_cluster)
from down_test import sluice, status

LEASE = 3.0


def with_registry(folder: str, name: str, registry: str, extra: str = "") -> str:
    path = write_cluster(folder, extra, name, LEASE)
    with open(path, "a", encoding="utf-8") as out:
        out.write(f"registry: {registry}\n")
    return path


def run_alone(folder: str, cluster: str, run: str):
    """`run` starts the private server, and stops it."""
    done = sluice("run", "--cluster", cluster, "--prompt", "draw a star", "--out", os.path.join(folder, "star.png"))
    check(done.returncode == 0, f"run with a registry of its own: {done.stderr}")
    check(not os.listdir(run), f"{[x for x in os.walk(run)]} is left")


def server_of(up: Up) -> int | None:
    servers = [child for child in children(up.process.pid)
               if any("redis-server" in word for word in command_of(child)[:1])]
    return servers[0] if servers else None


def troubles(folder: str, cluster: str):
    up = Up(cluster)
    home = Home(cluster, folder)
    until(lambda: (home.call(0, 20) or {}).get("ok"), 20, "the first call")
    seen = status(cluster)
    check(all(seen[name].get("registry") == "current" for name in ("front", *MACHINES)), f"{seen}")

    for how in (signal.SIGSTOP, signal.SIGKILL):
        server = server_of(up)
        os.kill(server, how)
        if how == signal.SIGKILL:  # it is started again at once, and empty
            until(lambda: server_of(up) not in (None, server), 10, "another server")
            result = home.call(0, 10)
            check(result is None or result["ok"] or "while the registry at unix://" in result["error"]["message"],
                  f"the server is killed: {result}")
        else:
            under_way = [home.ask(0) for _ in range(2)]
            for _ in under_way:
                result = home.answer(10)
                # Refused, where this machine is so slow that its entry lapsed before the call began.
                check(result is not None and (result["ok"] or "no call can begin" in result["error"]["message"]),
                      f"a call that had begun: {result}")

            def refused():
                home.pause()
                result = home.call(0, 10)
                if result is None or result["ok"]:
                    return False
                words = result["error"]
                check(words["code"] == "unavailable" and "no call can begin while the registry at unix://"
                      in words["message"] and "it does not answer" in words["message"], f"{result}")
                return True
            until(refused, 20, "calls are refused while the server stands still")
            # Nobody's life has ended by it.
            row = status(cluster)["eyes"]
            check(row["state"] == "there" and row["incarnation"] == seen["eyes"]["incarnation"], f"{row}")
            check("registry lapsed" in sluice("status", "--cluster", cluster).stdout, "status names it")
            os.kill(server, signal.SIGCONT)
        until(lambda: (home.pause(), home.call(0, 10) or {})[1].get("ok"), 20, f"calls after {how.name}")
    again = status(cluster)
    check(all(again[name]["incarnation"] == seen[name]["incarnation"] for name in MACHINES),
          f"the registry's troubles end nobody's life: {seen}, then {again}")
    done = sluice("down", "--cluster", cluster)
    check(done.returncode == 0, f"down: {done}")
    for process in (up.process, home.process):
        process.wait(timeout=10)
    for pipe in (home.process.stdin, home.process.stdout, up.process.stdout):
        pipe.close()


def killed_up(cluster: str, run: str):
    up = Up(cluster)
    up.stop(signal.SIGKILL)  # which looks that the server ended too
    left = [name for _, _, names in os.walk(run) for name in names]
    # Had the server ended in order it had removed this path, which may be its successor's by then.
    check("registry.socket" in left, f"a killed `up` leaves its server's socket: {left}")
    done = sluice("down", "--cluster", cluster)
    check(done.returncode == 0 and "had been killed" in done.stdout and not os.listdir(run),
          f"down after a kill: {done}, {[x for x in os.walk(run)]}")
    up = Up(cluster)
    up.stop(signal.SIGKILL)
    up = Up(cluster)  # over what the other has left
    up.stop(signal.SIGTERM)
    check(not os.listdir(run), f"{[x for x in os.walk(run)]} is left")


def same_name(folder: str, socket: str):
    """Another cluster file that is called the same, at the same server: of the machine that does not come it is said why."""
    twin = os.path.join(folder, "twin")
    os.mkdir(twin)
    cluster = with_registry(twin, "lab.yaml", f"unix://{socket}")
    done = sluice("run", "--cluster", cluster, "--join-within", "4", "--prompt", "draw a star")
    check(done.returncode == 1 and "'eyes' did not join within 4000 ms" in done.stderr and "waiting for machine 'eyes', " in done.stderr
          and f"; the registry at unix://{socket} knows 'eyes' of cluster 'lab': perhaps of another cluster file of this name"
          in done.stderr, f"a cluster's twin: {done}")


def two_computers(folder: str):
    """The same machine twice, as on two computers: other folders for locks, one registry, one cluster file's name."""
    socket = os.path.join(folder, "shared.socket")
    server = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--dir", folder],
                              stdout=subprocess.DEVNULL)
    started.append(server)
    until(lambda: os.path.exists(socket), 10, "a shared server")
    where = os.path.join(folder, "meet")
    os.mkdir(where, 0o700)
    nodes = []
    texts = []
    for computer, override in (("one", []), ("two", []), ("three", ["--set", "roles.llm.options.precision=bf16",
                                                    "--set", "roles.diffusion.options.precision=bf16"])):
        run = os.path.join(folder, computer)
        os.mkdir(run, 0o700)
        cluster = with_registry(run, "lab.yaml", f"unix://{socket}",
                                f", address: \"ipc://{where}/{computer}-{{}}\"")
        name = "paint" if override else "eyes"
        node = subprocess.Popen([SLUICE, "node", "--cluster", cluster, "--name", name, *override], cwd=ROOT,
                                env={**os.environ, "XDG_RUNTIME_DIR": run}, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)
        started.append(node)
        nodes.append(node)
        if computer == "one":
            check(node.stdout.readline() == "machine 'eyes' is ready\n", "the first is in")
            same_name(folder, socket)
        else:
            texts.append(node.communicate(timeout=60)[1])
            check(node.returncode == 1, f"{computer} is refused: {texts[-1]}")
    check("another process is machine 'eyes', in life" in texts[0] and "; this waited for 10000 ms" in texts[0],
          texts[0])
    check("machine 'eyes' has other workflows, plugins, overrides or places: digest " in texts[1]
          and "machine 'paint' has" in texts[1], texts[1])
    # As when another took the name while this one could not reach the server.
    words = ("HSET", "sluice:lab:lives", "eyes", "4000000000 somebodyelse digest")
    with socketlib.socket(socketlib.AF_UNIX) as link:
        link.connect(socket)
        link.sendall(f"*{len(words)}\r\n".encode() + b"".join(f"${len(w)}\r\n{w}\r\n".encode() for w in words))
        check(link.recv(16) == b":0\r\n", "the name is somebody else's")
    text = nodes[0].communicate(timeout=30)[1]
    check(nodes[0].returncode == 1 and "another process has become machine 'eyes', in life 4000000000" in text,
          f"the first is fenced and ends: {nodes[0].returncode}, {text}")
    server.kill()
    server.wait()


def not_installed(cluster: str, run: str):
    for command in (["up", cluster], ["run", "--cluster", cluster, "--prompt", "draw a star"]):
        done = subprocess.run([SLUICE, *command], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env={**os.environ, "PATH": "/nonexistent"}, timeout=60)
        check(done.returncode == 1 and "apt-get install redis-server" in done.stderr, f"{command}: {done}")
    check(not os.listdir(run), f"{[x for x in os.walk(run)]} is left")


def wrong_addresses(folder: str):
    for registry, words in (("tcp://127.0.0.1", "is no address of a registry"),
                            ("tcp://127.evil.org:6379", "is no address of a registry"),
                            ("tcp://127.0.0.1:70000", "is no address of a registry"),
                            ("unix:///" + 107 * "x", "at most 107 bytes")):
        done = sluice("validate", with_registry(folder, "wrong.yaml", f'"{registry}"'))
        check(done.returncode == 1 and words in done.stdout + done.stderr and "wrong.yaml:" in done.stdout + done.stderr,
              f"{registry}: {done}")
    done = sluice("validate", with_registry(folder, "right.yaml", '"unix:///' + 106 * "x" + '"'))
    check(done.returncode == 0, f"a path of 107 bytes: {done}")


def with_password(folder: str):
    """A shared server that asks for a password: what `validate` finds, what a machine says, and that nothing shows it."""
    secret, socket = "open-sesame-5521", os.path.join(folder, "locked.socket")
    config = os.path.join(folder, "locked.conf")
    rule = "resetchannels -@all +hello +eval +time +get +set +hget +hset +zadd +zrem +zscore +zrangebyscore"
    with open(config, "w", encoding="utf-8") as out:
        out.write(f"port 0\nunixsocket {socket}\nsave \"\"\ndir {folder}\nrequirepass another\n"
                  f"user lab on >{secret} {rule} ~sluice:locked:*\n")
    server = subprocess.Popen(["redis-server", config], stdout=subprocess.DEVNULL)
    started.append(server)
    until(lambda: os.path.exists(socket), 10, "a server with a password")
    file = os.path.join(folder, "redis.password")
    login = f'{{ address: "unix://{socket}", user: lab, password_file: redis.password }}'
    cluster = with_registry(folder, "locked.yaml", login)

    def write(text: str, mode: int):
        if os.path.exists(file):
            os.remove(file)
        with open(file, "w", encoding="utf-8") as out:
            out.write(text)
        os.chmod(file, mode)

    def validated() -> str:
        done = sluice("validate", cluster)
        check(secret not in done.stdout + done.stderr, f"the password is shown: {done}")
        return "" if done.returncode == 0 else done.stdout + done.stderr
    check("redis.password: cannot be opened" in validated(), "no file")
    for text, mode, words in ((secret + "\n", 0o640, "is open to others: chmod 0600 closes it"),
                              ("", 0o600, "is no password: one line of 1 to 128 printable characters"),
                              (secret + "\nmore\n", 0o600, "is no password: one line"),
                              (129 * "x", 0o600, "is no password: one line")):
        write(text, mode)
        check(words in validated(), f"{mode:o} {words}: {validated()}")
    write(secret + "\n", 0o400)
    check(validated() == "", f"a stricter mode is taken: {validated()}")

    def node(path: str) -> subprocess.Popen:
        made = subprocess.Popen([SLUICE, "node", "--cluster", path, "--name", "eyes"], cwd=ROOT,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started.append(made)
        return made
    plain = with_registry(folder, "plain.yaml", f"unix://{socket}")
    waiting = [(node(plain), "it asks for a password: add `user: NAME, password_file: FILE` to the cluster file's `registry: {")]
    good = node(cluster)
    check(good.stdout.readline() == "machine 'eyes' is ready\n", "the right password")
    check(secret not in " ".join(command_of(good.pid)), "the password is in no command line")
    check(secret not in sluice("status", "--cluster", cluster, "--format", "json").stdout, "nor in what status says")
    good.send_signal(signal.SIGTERM)
    text = good.communicate(timeout=30)[1]
    check(good.returncode == 0 and secret not in text, f"the right password: {text}")
    write("wrong-5521\n", 0o600)
    waiting.append((node(cluster), "it does not take user 'lab' with the password in "))
    for process, words in waiting:
        text = process.communicate(timeout=60)[1]
        check(process.returncode == 1 and words in text and text.count("\n") == 1 and "5521" not in text,
              f"{words}: {process.returncode}, {text}")
    server.kill()
    server.wait()


def main():
    with tempfile.TemporaryDirectory() as folder:
        run = os.path.join(folder, "run")
        os.mkdir(run, 0o700)
        os.environ["XDG_RUNTIME_DIR"] = run
        cluster = with_registry(folder, "cluster.yaml", "private")
        wrong_addresses(folder)
        not_installed(cluster, run)
        run_alone(folder, cluster, run)
        troubles(folder, cluster)
        check(not os.listdir(run), f"{[x for x in os.walk(run)]} is left")
        killed_up(cluster, run)
        two_computers(folder)
        with_password(folder)
        check(not [pid for pid in os.listdir("/proc") if pid.isdigit() and is_there(int(pid))
                   and any(folder in word for word in command_of(int(pid)))], "processes are left")
    print(f"a registry beside processes: {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    run_and_clean(main)
