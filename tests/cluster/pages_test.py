"""One role reads prompts, another answers them on another machine: the words of one process, over ipc
and tcp with keys, a reader that is killed, and pages that really were pulled.

    python3 pages_test.py SLUICE ROOT
"""
from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time

from cluster_test import (ROOT, SLUICE, check, children, command_of, failures, run_and_clean, stat_of, until)
from cluster_test import Up as AnyUp
from kill_world import free_ports

WORKFLOW = f"{ROOT}/workflows/prefill_decode.yaml"
TURNS = [("a", "Tell me what is on the table, and what is under it, and who has put it there."),
         ("b", "Hello there"), ("a", "And who sits at it?"), ("b", "Go on, please"), ("a", "Why?")]


def write_cluster(folder: str, ways=("", "", ""), more: str = "lease: 3s\n",
                  workflow: str = WORKFLOW) -> str:
    path = os.path.join(folder, "cluster.yaml")
    with open(path, "w", encoding="utf-8") as out:
        out.write(f"cluster: 1\nworkflows: [ {workflow} ]\nmachines:\n"
                  f"  front: {{ home: true, roles: [ parser ]{ways[0]} }}\n"
                  f"  read: {{ roles: [ reader ]{ways[1]} }}\n"
                  f"  write: {{ roles: [ writer ]{ways[2]} }}\n{more}")
    return path


def write_calls(folder: str, turns) -> str:
    path = os.path.join(folder, "calls.jsonl")
    with open(path, "w", encoding="utf-8") as out:
        for number, (session, text) in enumerate(turns):
            request = {"content": [{"type": "text", "text": text}], "options": {"max_tokens": 24}}
            out.write(json.dumps({"id": number, "session": session,
                                  "inputs": {"request": request}}) + "\n")
    return path


def run(where: list[str], calls: str) -> dict[int, dict]:
    done = subprocess.run([SLUICE, "run", *where, "--calls", calls, "--concurrency", "1"], cwd=ROOT,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    return {one["id"]: one for one in map(json.loads, done.stdout.splitlines())}


def same(want: dict, got: dict, where: str):
    for number, one in want.items():
        check(got.get(number) == one, f"{where}: call {number}: {got.get(number)} and not {one}")


class Up(AnyUp):
    """Of the two machines, which count their pages."""

    def __init__(self, cluster: str, failpoints: str | None = None, machines: int = 2):
        more = {"SLUICE_FAILPOINTS": failpoints} if failpoints else {}
        super().__init__(cluster, machines=machines, env=dict(os.environ, **more))

    def machine(self, name: str) -> dict:
        done = subprocess.run([SLUICE, "status", "--cluster", self.cluster, "--format", "json"],
                              cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=20)
        machines = json.loads(done.stdout or "{}").get("machines", [])
        return next((one for one in machines if one["name"] == name), {})

    def count(self, name: str, counter: str) -> int:
        return self.machine(name).get("pages", {}).get("kv", {}).get(counter, 0)


def pools_are_seen(up: Up, where: str):
    """What `pool` tells of both machines is what `status` counts, and adds up."""
    def ask(*words: str) -> subprocess.CompletedProcess:
        return subprocess.run([SLUICE, "pool", words[0], "--cluster", up.cluster, *words[1:]], cwd=ROOT,
                              stdout=subprocess.PIPE, text=True, timeout=20)
    rows = {one["machine"]: one for one in json.loads(ask("status", "--format", "json").stdout)["pools"]}
    check(sorted(rows) == ["read", "write"], f"{where}: pools of {sorted(rows)}")
    for name, one in rows.items():
        check(one["name"] == "kv" and one["free"] + one["cached"] + one["used"] == one["pages"], f"{where}: {one}")
        check(one["from_memory"] + one["from_machines"] + one["computed"] == one["prompt_tokens"] > 0, f"{where}: {one}")
        check(one["brought_pages"] == up.count(name, "pulled_pages"), f"{where}: {one}")
    check(rows["read"]["given_pages"] >= rows["write"]["brought_pages"], f"{where}: {rows}")
    check(0 < rows["write"]["from_machines"] <= rows["write"]["brought_pages"] * rows["write"]["page_tokens"], f"{where}: {rows['write']}")
    sessions = json.loads(ask("sessions", "--format", "json").stdout)["pools"]
    held = {one["machine"]: {row["name"]: row for row in one["session_list"]} for one in sessions}
    check(sorted(held.get("read", {})) == ["a", "b"], f"{where}: sessions {held}")
    check(all(row["tokens"] > 20 for row in held["read"].values()), f"{where}: {held}")
    check("a (reader): " in ask("sessions").stdout, f"{where}: {ask('sessions').stdout}")


def pulled(folder: str, want: dict, ways, more: str, where: str, served: str = "served_pages", few_are_sent: bool = False):
    # Whoever does not hear from another in time computes for itself, and asks for the rest in messages where a read
    # is late: on a slow machine all may.
    for last in (False, False, True):
        up = Up(write_cluster(folder, ways, more))
        same(want, run(["--cluster", up.cluster], write_calls(folder, TURNS)), where)
        pages = {name: up.count(name, "pulled_pages") for name in ("read", "write")}
        reads = {name: up.count(name, "pulled_by_reading") for name in pages}
        by_reading = pages if served == "served_places" else dict.fromkeys(pages, 0)
        # Where they are far, those of a prompt that lacks few come with the answer.
        as_wanted = 0 < reads["write"] <= pages["write"] if few_are_sent else reads == by_reading
        if last or (pages["write"] > 0 and as_wanted):
            break
        up.stop()
    check(pages["write"] > 0, f"{where}: no page was pulled")
    check(as_wanted, f"{where}: {reads} of {pages} were read")
    pools_are_seen(up, where)
    for one, other in (("read", "write"), ("write", "read")):
        sent = up.count(other, "served_pages") if few_are_sent else 0
        check(up.count(one, "pulled_pages") <= up.count(other, served) + sent,
              f"{where}: {one} pulled more pages than {other} served")
        check(up.count(one, "pulls_broken") == 0, f"{where}: {one} got broken pages")
    up.stop()


def by_ucx(place, want: dict):
    """Read where they stand, in memory of UCX's own; over a network by RDMA alone, of which there is none here."""
    way = ", pages: { by: ucx }"
    pulled(place("ucx"), want, ("", way, way), "lease: 3s\n", "ucx", "served_places")
    # One that reads by itself, and one that does not, exchange pages in messages.
    pulled(place("ucx_half"), want, ("", "", ", pages: { by: ucx }"), "lease: 3s\n", "half ucx")
    for device in ("nowhere0", "lo"):
        other = f", pages: {{ by: ucx, fabric: trusted, devices: {device} }}"
        cluster = write_cluster(place(f"ucx_{device}"), ("", other, other))
        done = subprocess.run([SLUICE, "node", "--cluster", cluster, "--name", "read"], cwd=ROOT,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=20)
        check(done.returncode == 1 and f"no RDMA device '{device}'" in done.stderr, f"no such device: {done.stderr}")


def indexed(folder: str):
    """The registry's server says who has which pages: of prompts that begin alike, read on two machines, one is found.
    When the server is killed, what it knew comes from the machines again. Who may look into the other's memory has no
    need of the index: here none may."""
    path = os.path.join(folder, "cluster.yaml")
    with open(path, "w", encoding="utf-8") as out:
        out.write(f"cluster: 1\nworkflows: [ {WORKFLOW} ]\nmachines:\n  front: {{ home: true, roles: [ parser ] }}\n"
                  "  one: { roles: [ reader ], pages: { by: message } }\n  two: { roles: [ reader ], pages: { by: message } }\n"
                  "  write: { roles: [ writer ], pages: { by: message } }\n"
                  "lease: 3s\nregistry: private\n")
    up = Up(path, machines=3)

    def servers() -> list[int]:
        return [child for child in children(up.process.pid) if "redis-server" in " ".join(command_of(child)[:1])]

    def index() -> dict:
        done = subprocess.run([SLUICE, "pool", "status", "--cluster", path, "--format", "json"], cwd=ROOT,
                              stdout=subprocess.PIPE, text=True, timeout=20)
        return {one["machine"]: one.get("index", {}) for one in json.loads(done.stdout)["pools"]}

    until(lambda: [one.get("down") for one in index().values()] == 3 * [""], 20, "all machines tell the index")

    def told() -> int:
        return sum(one.get("told", 0) for name, one in index().items() if name != "write")

    def said(calls: dict) -> list:
        return [[one.get(key) for key in ("ok", "outputs", "warnings")] for one in calls.values()]

    # As above: on a slow machine all may compute for themselves. What the first has read is in the index before the
    # others ask.
    for names in ("abcdef", "mnopqr", "stuvwx"):
        turns = [(name, f"To {names}: {TURNS[0][1]}") for name in names]
        want = run([WORKFLOW], write_calls(folder, turns))
        knew = told()
        got = said(run(["--cluster", path], write_calls(folder, turns[:1])))
        until(lambda: told() > knew, 20, "the index is told")
        got += said(run(["--cluster", path], write_calls(folder, turns[1:])))
        check(got == said(want), f"with an index: {got} and not {want}")
        seen = index()
        found = sum(one.get("found", 0) for one in seen.values())
        brought = sum(up.count(name, "pulled_pages") for name in seen)
        if found > 0 and brought > 0:
            break
    check(found > 0, f"a prompt that begins alike is found: {seen}")
    check(brought > 0, "its pages are pulled")
    before = servers()
    check(len(before) == 1, f"one server: {before}")
    os.kill(before[0], signal.SIGKILL)
    until(lambda: all(one["anew"] > seen[name]["anew"] and one["down"] == "" for name, one in index().items()), 20,
          "all is told anew")
    again = [(name, turns[0][1]) for name in "ghijkl"]
    got = run(["--cluster", path], write_calls(folder, again))
    same({number: one["outputs"] for number, one in want.items()},
         {number: one.get("outputs") for number, one in got.items()}, "after the server was killed")
    up.stop()


def with_keys(folder: str, want: dict):
    ports = free_ports(5)
    subprocess.run([SLUICE, "keys", f"{folder}/keys", "--machine", "front", "--machine", "read",
                    "--machine", "write"], check=True, stdout=subprocess.DEVNULL)
    ways = [f", address: tcp://127.0.0.1:{ports[0]}"] + [
        f", address: tcp://127.0.0.1:{ports[1 + 2 * i]}, pages: tcp://127.0.0.1:{ports[2 + 2 * i]}"
        for i in range(2)]
    # Read where they stand, encrypted; in messages if one of the two says so.
    pulled(folder, want, ways, "keys: keys\n", "tcp with keys", "served_places", few_are_sent=True)
    in_messages = ways[:2] + [ways[2].replace("pages: ", "pages: { by: message, address: ") + " }"]
    pulled(folder, want, in_messages, "keys: keys\n", "tcp with keys, in messages")
    pulled(folder, want, ways, "", "tcp without keys", "served_places", few_are_sent=True)
    write_cluster(folder, ways, "keys: keys\n")
    os.unlink(f"{folder}/keys/kv-pages.secret")
    done = subprocess.run([SLUICE, "node", "--cluster", f"{folder}/cluster.yaml", "--name", "read"],
                          cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=20)
    check(done.returncode == 1 and "kv-pages.secret" in done.stderr,
          f"without the secret: {done.stderr}")


def reader_is_killed(folder: str, want: dict):
    points = os.path.join(folder, "points")
    os.mkdir(points)
    up = Up(write_cluster(folder, more="lease: 1s\n"), points)
    pid = up.machine("read")["pid"]
    with open(f"{points}/write.prefix_came", "w", encoding="utf-8") as out:
        out.write(f"{int(signal.SIGKILL)} 1 {pid}")
    got = run(["--cluster", up.cluster], write_calls(folder, TURNS[:1]))
    one = got.get(0, {})
    answered = one.get("ok") and one.get("outputs") == want[0]["outputs"]
    check(answered or "'read'" in json.dumps(one), f"killed: {one}")
    until(lambda: up.machine("read").get("process") == "ready", 20, "the reader is back")
    again = run(["--cluster", up.cluster], write_calls(folder, TURNS[:1])).get(0, {})
    is_same = all(again.get(key) == want[0][key] for key in ("ok", "outputs", "warnings"))
    check(is_same, f"after that: {again}")
    up.stop()


def two_workflows(folder: str, want: dict):
    """Of one cluster, with parameters of one name: each has a pool of its own."""
    with open(WORKFLOW, encoding="utf-8") as text:
        second = text.read().replace("workflow: prefill_decode", "workflow: second")
    paths = [os.path.join(folder, name) for name in ("a.yaml", "b.yaml", "c.yaml")]
    shutil.copy(WORKFLOW, paths[0])
    for path, ends in zip(paths[1:], ("", "2")):
        with open(path, "w", encoding="utf-8") as out:
            out.write(second.replace("reader", f"reader{ends}").replace("writer", f"writer{ends}"))
    # On the same machines; and where only one of them has both.
    for other, machines in ((paths[1], 2), (paths[2], 3)):
        more = "  apart: { roles: [ writer2 ] }\nlease: 3s\n" if machines == 3 else "lease: 3s\n"
        cluster = write_cluster(folder, ("", "", ""), more, f"{paths[0]}, {other}")
        if machines == 3:
            with open(cluster, encoding="utf-8") as text:
                placed = text.read().replace("roles: [ reader ]", "roles: [ reader, reader2 ]")
            with open(cluster, "w", encoding="utf-8") as out:
                out.write(placed)
        up = Up(cluster, machines=machines)
        for workflow in ("second", "prefill_decode"):
            got = run([workflow, "--cluster", up.cluster], write_calls(folder, TURNS))
            same(want, got, f"two workflows on {machines} machines, {workflow}")
        up.stop()


def stands_still(folder: str, want: dict, name: str):
    """For three leases, as its link to the other's pages comes up: they meet all the same."""
    points = os.path.join(folder, "points")
    os.mkdir(points)
    with open(f"{points}/{name}.link_up", "w", encoding="utf-8") as out:
        out.write(f"{int(signal.SIGSTOP)} 1")
    cluster = write_cluster(folder, more="lease: 1s\n")

    def stopped() -> int | None:
        for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
            words = command_of(pid)
            if cluster in words and name in words and stat_of(pid)[:1] == ["T"]:
                return pid
        return None

    def go_on():
        pid = until(stopped, 20, f"{name} stands still")
        began = time.monotonic()
        until(lambda: time.monotonic() > began + 3, 4, "three leases")
        if pid is not None:
            os.kill(pid, signal.SIGCONT)
    other = threading.Thread(target=go_on)
    other.start()
    up = Up(cluster, points)
    other.join()
    same(want, run(["--cluster", up.cluster], write_calls(folder, TURNS)), f"{name} stood still")
    up.stop()


def too_large(folder: str, path: str):
    """A page that no message holds is told with its place, by the shape that the model says; one of 32 MiB is none."""
    model = os.path.join(folder, "deep")
    shutil.copytree(f"{ROOT}/tests/golden/conversation_qwen", model)
    with open(os.path.join(model, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    config["text_config"].update(num_hidden_layers=64, layer_types=["full_attention"] * 64)
    with open(os.path.join(model, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    workflow = os.path.join(folder, "deep.yaml")
    write_cluster(folder, workflow=workflow)
    for tokens, wanted in ((2048, 0), (2049, 1)):
        with open(WORKFLOW, encoding="utf-8") as shipped, open(workflow, "w", encoding="utf-8") as out:
            out.write(shipped.read().replace("tests/golden/conversation_qwen", model).replace("page_tokens: 16", f"page_tokens: {tokens}"))
        done = subprocess.run([SLUICE, "validate", path], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=20)
        check(done.returncode == wanted, f"pages of {tokens} tokens: {done.stdout}")
    check(f"{path}:6:21: error: " in done.stdout and "help: put both on one machine: a page of 2049 tokens has 33570816 bytes, and machines exchange "
          "pages of at most 33554432: give it fewer `page_tokens`" in done.stdout, f"pages too large to travel: {done.stdout}")


def refused(folder: str):
    """What cannot be pulled must be on one machine."""
    path = os.path.join(folder, "cluster.yaml")
    with open(path, "w", encoding="utf-8") as out:
        out.write(f"cluster: 1\nworkflows: [ {ROOT}/workflows/image_chat.yaml ]\nmachines:\n"
                  "  front: { home: true, roles: [ parser, vit, vae, llm ] }\n"
                  "  paint: { roles: [ diffusion ] }\n")
    done = subprocess.run([SLUICE, "validate", path], cwd=ROOT, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=20)
    check(done.returncode == 1 and "must-be-together" in done.stdout, f"a drawing: {done.stdout}")
    on_gpu = os.path.join(folder, "on_gpu.yaml")
    with open(f"{ROOT}/workflows/prefill_decode.yaml", encoding="utf-8") as shipped, \
            open(on_gpu, "w", encoding="utf-8") as out:
        out.write(shipped.read().replace("pages: 256", "pages: 256, device: cuda, host_bytes: 0"))
    write_cluster(folder, workflow=on_gpu)
    done = subprocess.run([SLUICE, "validate", path], cwd=ROOT, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=20)
    check(done.returncode == 1 and "its pages are on a GPU alone (`device: cuda`, and `host_bytes: 0`)" in done.stdout,
          f"pages of a GPU alone: {done.stdout}")
    with open(on_gpu, encoding="utf-8") as alone:
        text = alone.read()
    with open(on_gpu, "w", encoding="utf-8") as out:
        out.write(text.replace(", host_bytes: 0", ""))
    done = subprocess.run([SLUICE, "validate", path], cwd=ROOT, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=20)
    check(done.returncode == 0, f"pages of a GPU, through the host's memory: {done.stdout}")
    too_large(folder, path)
    ports = free_ports(3)
    write_cluster(folder, [f", address: tcp://127.0.0.1:{port}" for port in ports])
    done = subprocess.run([SLUICE, "validate", path], cwd=ROOT, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=20)
    check(done.returncode == 1 and done.stdout.count("missing-pages") == 2,
          f"no way to the pages: {done.stdout}")


def main() -> int:
    base = tempfile.mkdtemp(prefix="sluice-pages-")
    os.environ["XDG_RUNTIME_DIR"] = base
    try:
        def place(name: str) -> str:
            os.mkdir(os.path.join(base, name))
            return os.path.join(base, name)
        want = run([WORKFLOW], write_calls(place("alone"), TURNS))
        check(len(want) == len(TURNS) and all(one.get("ok") for one in want.values()), f"{want}")
        # Out of memory that both map; copied for the reader where one of the two does not want that.
        pulled(place("ipc"), want, ("", "", ""), "lease: 3s\n", "ipc", "served_places")
        pulled(place("ipc_half"), want, ("", "", ", pages: { by: message }"), "lease: 3s\n", "half ipc")
        left = os.path.join(base, "sluice")
        check(not os.path.exists(left), f"left behind: {list(os.walk(left))}")
        by_ucx(place, want)
        with_keys(place("tcp"), want)
        two_workflows(place("two"), want)
        indexed(place("index"))
        reader_is_killed(place("killed"), want)
        for name in ("read", "write"):
            stands_still(place(f"stands_{name}"), want, name)
        refused(place("refused"))
    finally:
        shutil.rmtree(base)
    print("all well" if not failures else f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    run_and_clean(main)
