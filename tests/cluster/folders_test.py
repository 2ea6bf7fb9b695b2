"""A pool over machines of which each keeps a folder, too: after a restart of one machine, or of all, a prompt's pages
come from its own folder, and without that from the other machine; the words are those of one process.

    python3 folders_test.py SLUICE ROOT

Nothing sleeps: conditions are polled until a deadline.
"""
from __future__ import annotations

import collections
import os
import shutil
import subprocess
import tempfile

from cluster_test import CALM, ROOT, SLUICE, check, failures, run_and_clean, until
from histories_test import kill
from pages_test import Up
from preload_test import in_one_process, pool
from replicas_test import ChatHome, write_cluster

SAID = "Tell me what is on the table, and what is under it, and who has put it there, and when."
MACHINES = ("one", "two")


def write_workflow(folder: str) -> str:
    """A chat as the one of the workflows, with a folder beside its file and small pages."""
    with open(f"{ROOT}/workflows/chat.yaml", encoding="utf-8") as file:
        text = file.read().replace("tests/golden", f"{ROOT}/tests/golden")
    small = text.replace("page_tokens: 16", "page_tokens: 8, ssd: pages, ssd_bytes: 64MiB")
    check(small != text, "the chat's pages are as they were")
    path = os.path.join(folder, "chat.yaml")
    with open(path, "w", encoding="utf-8") as out:
        out.write(small)
    return path


class World:
    def __init__(self, folder: str):
        self.folder = folder
        self.want = in_one_process(folder, [SAID])[0]
        self.cluster = write_cluster(folder, CALM, write_workflow(folder))
        self.sessions = 0
        self.start()

    def start(self):
        self.up = Up(self.cluster)
        self.home = ChatHome(self.cluster, self.folder)

    def stop(self):
        self.home.stop()
        self.up.stop()

    def place(self, machine: str) -> str:
        return os.path.join(self.folder, "pages", f"machine-{machine}")

    def meet(self):
        """Until then each computes for itself: what only one of them has heard is pulled."""
        for number in range(200):
            words = f"{number} is a number that nobody has said yet, and so is all that is said of it here."
            self.say_to("two", words)
            if self.say_to("one", words)["from_machines"] > 0:
                return
        check(False, "the machines do not meet")

    def kill_one(self):
        kill(self.up, self.home, "one")
        until(lambda: os.path.isdir(self.place("one")) and self.up.machine("one").get("process") == "ready", 30, "it is started again")

    def say(self, words: str):
        """To a session that has said nothing yet."""
        self.sessions += 1
        said = self.home.say(f"s{self.sessions}", words)
        check(said.get("ok") and (words != SAID or said.get("outputs") == self.want), f"session {self.sessions}: {said}")

    def say_to(self, machine: str, words: str = SAID) -> dict:
        """Sessions take turns. Returns what its pool says when it has answered one; zeros: it was asked nothing."""
        for _ in range(8):
            before = pool(self.up, machine).get("prompts", 0)
            self.say(words)
            seen = pool(self.up, machine)
            if seen.get("prompts", 0) > before and "from_machines" in seen:
                return seen
        return collections.defaultdict(int, disk=collections.defaultdict(int))


def first_words(world: World):
    """The second machine pulls what the first has computed, and both keep it."""
    world.meet()
    for machine in MACHINES:
        world.say_to(machine)
    seen = {name: pool(world.up, name) for name in MACHINES}
    check(sum(one["from_machines"] for one in seen.values()) > 0, f"nothing was pulled: {seen}")
    check(all(one["from_disk"] == 0 for one in seen.values()), f"nothing was read: {seen}")
    # That a write has ended is noticed with the next call.
    for name in MACHINES:
        until(lambda: world.say_to(name)["disk"]["pages"] > 0, 20, f"pages of '{name}' are written")
    text = subprocess.run([SLUICE, "pool", "status", "--cluster", world.cluster], cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=20).stdout
    lines = [line.split()[0] for line in text.splitlines() if line.startswith("  ")]
    check([one for one in lines if one in ("disk", "machines")] == 2 * ["disk", "machines"], f"each in its line: {text}")
    check("from disk 0 (0.0 %), from other machines " in text, f"prompts: {text}")


def from_its_folder(world: World, machine: str, where: str):
    seen = world.say_to(machine)
    check(seen["from_disk"] > 0 and seen["disk"]["read_pages"] > 0, f"{where}: its folder is read: {seen}")
    check(seen["from_machines"] == 0 and seen["brought_pages"] == 0, f"{where}: nothing is pulled: {seen}")
    check(seen["from_memory"] + seen["from_disk"] + seen["computed"] == seen["prompt_tokens"], f"{where}: {seen}")


def one_is_killed(world: World):
    world.kill_one()
    from_its_folder(world, "one", "one is killed")


def its_folder_is_lost(world: World):
    shutil.rmtree(world.place("one"))
    world.kill_one()
    world.meet()
    before = pool(world.up, "one")["from_machines"]
    seen = world.say_to("one")
    check(seen["from_disk"] == 0 and seen["from_machines"] > before, f"its folder is lost: {seen}")
    until(lambda: world.say_to("one")["disk"]["pages"] > 0, 20, "it has a folder again")


def all_begin_anew(world: World):
    """Nothing stays of such a cluster but the folders: they have its secret."""
    world.stop()
    for name in MACHINES:
        told = subprocess.run([SLUICE, "pool", "verify", world.place(name)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=20)
        check(told.returncode == 0, f"the folder of '{name}': {told.stdout}")
    world.start()
    for name in MACHINES:
        from_its_folder(world, name, f"all begin anew, '{name}'")
    world.stop()


def another_secret(world: World):
    """Of two folders with different secrets the first is taken, and the other one's machine says what to do."""
    with open(os.path.join(world.place("one"), "secret"), "wb") as out:
        out.write(bytes(range(32)))
    def node(name: str) -> subprocess.CompletedProcess:
        return subprocess.run([SLUICE, "node", "--cluster", world.cluster, "--name", name], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=20)
    done = node("two")
    words = f"global parameter 'kv': {world.place('two')}/secret: its pages are kept under another secret than that of these machines"
    check(done.returncode == 1 and words in done.stderr and "remove the folder" in done.stderr, f"another secret: {done.stderr}")


def main() -> int:
    base = tempfile.mkdtemp(prefix="sluice-folders-")
    os.environ["XDG_RUNTIME_DIR"] = base
    try:
        world = World(base)
        for test in (first_words, one_is_killed, its_folder_is_lost, all_begin_anew, another_secret):
            test(world)
    finally:
        shutil.rmtree(base)
    print("all well" if not failures else f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    run_and_clean(main)
