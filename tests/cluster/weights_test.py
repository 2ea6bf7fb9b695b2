"""Machines that one launcher starts here, and their hosts, have a checkpoint's weights in memory once.

    python3 weights_test.py SLUICE ROOT

Memory without a name is counted by its inode, so what was made once is seen, not timed. Nothing sleeps: conditions are
polled until a deadline.
"""
from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile

from cluster_test import (ROOT, SLUICE, Home, Up, check, children, failures, is_there, no_more_descriptors,
                          run_and_clean, same_bytes, started, stat_of, until)

QWEN = [f"--set={where}.model={ROOT}/tests/golden/conversation_qwen" for where in ("roles.llm", "global_params.kv")]


def write(folder: str, name: str, workflow: str, machines: dict) -> str:
    path = os.path.join(folder, name + ".yaml")
    with open(path, "w", encoding="utf-8") as out:
        out.write(f"cluster: 1\nworkflows: [ {ROOT}/workflows/{workflow}.yaml ]\nmachines:\n")
        out.writelines(f"  {machine}: {{ {what} }}\n" for machine, what in machines.items())
    return path


def maps(pid: int) -> set[str]:
    """The memories with shared weights that a process maps, each to be read only."""
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as file:
            rows = [line.split() for line in file if "memfd:sluice-weights" in line]
    except (FileNotFoundError, ProcessLookupError):
        return set()
    check({row[1] for row in rows} <= {"r--s"}, f"weights are mapped to be read: {rows}")
    return {row[4] for row in rows}


def below(pid: int) -> list[int]:
    """The process, its machines, and their hosts."""
    return [pid] + [one for child in children(pid) for one in below(child)]


def status(cluster: str) -> dict:
    done = subprocess.run([SLUICE, "status", "--cluster", cluster, "--format", "json"], cwd=ROOT,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=20)
    return {"machines": [], "up": None, **json.loads(done.stdout or "{}")}


def weights_of(said: dict) -> list[dict]:
    """Of who starts machines: `up`, or a home."""
    return sum((one.get("weights", []) for one in [said["up"] or {}, *said["machines"]]), [])


def once(pid: int, cluster: str, holders: set[str]) -> dict[int, set[str]]:
    """Each part that processes have in common was made once, and is mapped by all whom the launcher names."""
    seen = {one: maps(one) for one in below(pid)}
    seen = {one: memories for one, memories in seen.items() if memories}
    weights = weights_of(status(cluster))
    check(len(set().union(*seen.values())) == len(weights), f"{weights} in {seen}")
    check(len({one["what"] for one in weights}) == len(weights), f"a part twice: {weights}")
    check({name for one in weights for name in one["holders"]} == holders and len(seen) == len(holders),
          f"{weights} of {seen}")
    check(sum(len(set(one["holders"])) for one in weights) == sum(map(len, seen.values())), f"{weights} of {seen}")
    return seen


def descriptors(pids: dict) -> dict:
    return {who: len(os.listdir(f"/proc/{pid}/fd")) for who, pid in pids.items()}


def killed_machines(folder: str):
    """Whoever is killed and started again has what the others kept; the launcher holds no more than before."""
    cluster = write(folder, "killed", "image_chat", {
        "front": "home: true, roles: [ parser ]", "eyes": "roles: [ vit ]",
        "paint": "roles: [ vae ], hosts: { brush: [ vae ] }", "talk": "roles: [ llm, diffusion ]"})
    up = Up(cluster)
    home = Home(cluster, folder)
    until(lambda: (home.call(0, 20) or {}).get("ok") and (home.call(1, 20) or {}).get("ok"), 20, "the first calls")
    all_ = {"machine 'eyes'", "host 'brush' of machine 'paint'", "machine 'talk'"}
    had = once(up.process.pid, cluster, all_)
    # The language model has all parts of the checkpoint, the encoder and the codec some of them each.
    check(had[up.pid_of("talk")] == set().union(*had.values()), f"{had}")
    before = descriptors({"up": up.process.pid})
    for victims in (["talk"], ["eyes", "paint"], ["eyes", "talk"]):
        pids = [up.pid_of(victim) for victim in victims]
        gone = [one for pid in pids for one in below(pid)]
        kept = set().union(*(memories for one, memories in had.items() if one not in gone))
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        until(lambda: not any(stat_of(one) for one in gone), 5, "they are dead, with all their threads and hosts")
        until(lambda: (home.call(0, 20) or {}).get("ok") and (home.call(1, 20) or {}).get("ok"), 20, "they are back")
        now = once(up.process.pid, cluster, all_)
        check(kept <= set().union(*now.values()), f"{kept} is used again: {now}")
        check(all(now[one] == had[one] for one in had if one not in gone), f"who stays keeps what it has: {now}")
        had = now
    no_more_descriptors(lambda: descriptors({"up": up.process.pid}), before, 10)
    stands_still(up, home)
    home.stop()
    everyone = below(up.process.pid)
    up.stop(signal.SIGKILL)
    until(lambda: not any(is_there(one) for one in everyone), 10, "nobody outlives a killed launcher")


def stands_still(up: Up, home: Home):
    """While the launcher does, a host that is started again loads what it needs by itself, and says so."""
    paint = up.pid_of("paint")
    host = children(paint)[0]
    os.kill(up.process.pid, signal.SIGSTOP)
    os.kill(host, signal.SIGKILL)
    until(lambda: (home.call(1, 20) or {}).get("ok"), 20, "a host goes on")
    check([maps(one) for one in children(paint)] == [set()], "its weights are its own")
    os.kill(up.process.pid, signal.SIGCONT)


def killed_makers(folder: str):
    """Who makes a part stands still, and others wait, as `status` says by name; it is killed, and the next makes it."""
    cluster = write(folder, "makers", "chat", {"front": "home: true, roles: [ parser ]",
                                               **{name: "roles: [ llm ]" for name in "abc"}})
    fail = os.path.join(folder, "fail")
    os.mkdir(fail)
    for name in "abc":
        with open(os.path.join(fail, f"{name}.makes_weights"), "w", encoding="utf-8") as file:
            file.write("19 1")
    process = subprocess.Popen([SLUICE, "up", cluster, *QWEN], cwd=ROOT, env={**os.environ, "SLUICE_FAILPOINTS": fail},
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    started.append(process)
    names, makers = [f"machine '{name}'" for name in "abc"], []

    def pid_of(said: dict, name: str) -> int:
        return next(one["pid"] for one in said["up"]["processes"] if f"machine '{one['machine']}'" == name)

    def waits() -> str | None:
        """Who makes the part, when all others wait for it."""
        said = status(cluster)
        weights = weights_of(said)
        if len(weights) != 1 or len(weights[0]["waiting"]) != 2 or weights[0]["maker"] in makers:
            return None
        pid = pid_of(said, weights[0]["maker"])
        return weights[0]["maker"] if stat_of(pid)[:1] == ["T"] else None
    for last in (False, False, True):
        makers.append(until(waits, 20, "one makes the part and two wait"))
        os.kill(pid_of(status(cluster), makers[-1]), signal.SIGCONT if last else signal.SIGKILL)
    check(sorted(makers) == names, f"each had its turn: {makers}")
    until(lambda: [one["process"] for one in status(cluster)["machines"]] == ["none"] + 3 * ["ready"], 20, "all ready")
    seen = once(process.pid, cluster, set(names))
    check(len(set(map(frozenset, seen.values()))) == 1, f"all have the same: {seen}")
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=20)


def nobody_pays(folder: str):
    """One process of each model, or one that was started by hand: nothing is shared."""
    alone = write(folder, "alone", "chat", {"front": "home: true, roles: [ parser ]", "talk": "roles: [ llm ]"})
    up = Up(alone, 1, options=QWEN)
    check(not any(map(maps, below(up.process.pid))) and weights_of(status(alone)) == [], "one process of a model")
    up.stop()
    two = write(folder, "two", "chat", {"front": "home: true, roles: [ parser ]", "left": "roles: [ llm ]",
                                        "right": "roles: [ llm ]"})
    node = subprocess.Popen([SLUICE, "node", "--cluster", two, "--name", "left", *QWEN], cwd=ROOT,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    started.append(node)
    check("is ready" in node.stdout.readline() and not maps(node.pid), "one that was started by hand")
    node.terminate()
    node.wait(timeout=20)
    node.stdout.close()


def by_run(folder: str):
    """`run` starts the machines: it takes part itself, and its hosts. The same bytes as in one process."""
    cluster = write(folder, "by_run", "image_chat", {
        "front": "home: true, roles: [ parser, vit, vae ], hosts: { eye: [ vit ] }",
        "talk": "roles: [ llm, diffusion ]"})
    same_bytes(folder, cluster)
    home = Home(cluster, folder)
    until(lambda: (home.call(0, 20) or {}).get("ok"), 20, "the first call")
    once(home.process.pid, cluster, {"machine 'front'", "host 'eye' of machine 'front'", "machine 'talk'"})
    everyone = below(home.process.pid)
    home.stop()
    until(lambda: not any(is_there(one) for one in everyone), 10, "all end with `run`")


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_RUNTIME_DIR"] = folder
        killed_machines(folder)
        killed_makers(folder)
        nobody_pays(folder)
        by_run(folder)
    print("\n".join(failures) if failures else "weights: clean")
    return 1 if failures else 0


if __name__ == "__main__":
    run_and_clean(main)
