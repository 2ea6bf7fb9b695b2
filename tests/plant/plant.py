#!/usr/bin/env python3
"""Plants mistakes at random, one at a time, and says which test notices each.

    plant.py BUILD [--count 100] [--seed 1] [--from 0] [--areas base,kernels,...] [--json REPORT] [--only FILE:LINE]

BUILD is a build folder made with ninja and tests, and up to date. No source is touched: the changed file is compiled
elsewhere, and the test programs of its area are linked again with that object before the library that has the right
one. A mistake that compiles to the same object as the source changes nothing and is counted apart, as is one that does
not compile. Each survivor is printed: it is a test that is missing, a change of speed only, or no change at all that
the compiler can see; a person says which. The same seed plants the same mistakes in the same sources, and `--from N`
goes on behind the first N that it drew, so that a run can be made in pieces.
"""
import argparse
import itertools
import json
import os
import random
import re
import shlex
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import mistakes as mistakes_of  # noqa: E402

# Folder of sources -> the quick tests that should notice: programs of the build, or `sluice` with what runs it.
# Scripts get the program as {sluice}.
AREAS = {
    "base": ["test_base", "test_roles", "test_graph"],
    "dataplane": ["test_dataplane", "script:pool"],
    "kernels": ["test_kernels"],
    "roles": ["test_roles", "test_runtime", "script:cli", "script:request_options"],
    **{f"engine/{room}": ["test_model", "test_roles", "test_workflows", "script:transcripts"]
       for room in ("checkpoint", "layers", "family", "picture", "text", "policy", "check", "plan")},
    # Decoders and policies on a device are run as tasks too: on the emulation, so that no GPU is needed.
    "engine/tasks": ["test_model", "test_roles", "test_workflows", "script:transcripts", "test_cuda"],
    "engine/device": ["test_cuda"],
    "runtime": ["test_runtime", "script:cli", "script:run"],
    "runtime/wire": ["test_wire", "test_sim"],
    "runtime/inproc": ["test_runtime", "script:cli"],
    "runtime/node": ["test_runtime", "script:cluster"],
    "runtime/zmq": ["test_zmq", "test_runtime", "script:cluster"],
    "runtime/redis": ["test_redis", "script:registry"],
    "runtime/registry": ["test_redis", "script:registry"],
    "runtime/sim": ["test_sim", "script:transcripts", "script:scenarios", "script:cli"],
    "cli": ["cli/test_cli_parts", "script:transcripts", "script:failures", "script:cli", "script:run",
            "script:request_options", "script:help", "script:chat", "script:interrupt", "script:down", "script:cluster"],
    "plugin": ["plugin/test_plugin"],
    "workflows": ["test_workflows", "plugin/test_plugin", "script:author_errors", "script:scenarios"],
    "graph": ["test_graph", "test_workflows", "test_sim", "test_runtime", "script:transcripts", "script:semantics",
              "script:scenarios"],
}
SCRIPTS = {
    "cli": ["python3", "tests/cli/cli_test.py", "{sluice}", "."],
    "chat": ["python3", "tests/cli/chat_test.py", "{sluice}", "."],
    "transcripts": ["python3", "tests/cli/transcripts_test.py", "{sluice}", "."],
    "run": ["python3", "tests/cli/run_test.py", "{sluice}", "."],
    "help": ["python3", "tests/cli/help_test.py", "{sluice}", "."],
    "request_options": ["python3", "tests/cli/request_options_test.py", "{sluice}", "."],
    "pool": ["python3", "tests/cli/pool_test.py", "{sluice}"],
    "failures": ["python3", "tests/cli/failures_test.py", "{sluice}", "."],
    "author_errors": ["python3", "tests/mutants/mutate.py", "{sluice}", "."],
    "scenarios": ["{sluice}", "test", "workflows", "--seeds", "50"],
    "interrupt": ["python3", "tests/cli/interrupt_test.py", "{sluice}", "."],
    "cluster": ["python3", "tests/cluster/cluster_test.py", "{sluice}", "."],
    "down": ["python3", "tests/cluster/down_test.py", "{sluice}", "."],
    "registry": ["python3", "tests/cluster/registry_test.py", "{sluice}", "."],
    "semantics": ["python3", "tests/semantics/compare.py", "{sluice}", "--count", "200", "--seed", "100"],
}
# Programs of some files of an area only.
OF_PARTS = {"cli/test_cli_parts"}
# What this machine's processor may not have, or its library picks; tests elsewhere see it.
LEFT_OUT = re.compile(r"_amx\.cpp$")
# Processes with leases: on a busy machine one may fail by itself, so it has to fail twice.
TIMED = {"script:cluster", "script:down", "script:registry", "test_zmq"}
SECONDS_MAX = 300  # of a test with nothing planted; with a mistake ten times what it took then


class Build:
    """What the build folder knows: how each file is compiled and each program linked."""

    def __init__(self, folder):
        self.folder = os.path.abspath(folder)
        with open(os.path.join(self.folder, "compile_commands.json"), encoding="utf-8") as f:
            entries = json.load(f)
        self.root = None
        for line in open(os.path.join(self.folder, "CMakeCache.txt"), encoding="utf-8"):
            if line.startswith("CMAKE_HOME_DIRECTORY:"):
                self.root = line.strip().split("=", 1)[1]
        self.compiles = {}
        for entry in entries:
            path = os.path.relpath(entry["file"], self.root)
            words = shlex.split(entry["command"])
            output = words[words.index("-o") + 1]
            # A test may compile a source once more, in a way of its own. A device's is changed where it is emulated.
            emulated = path.startswith("engine/device/")
            if path not in self.compiles or output.startswith("tests/") == emulated:
                self.compiles[path] = words, output
        self.links = {}
        self.seconds = {}  # of each test that was seen to pass with nothing planted

    def compile(self, path, text, to):
        """Compiles `text` as `path`. False: it does not compile."""
        words, _ = self.compiles[path]
        source = to + ".cpp"
        with open(source, "w", encoding="utf-8") as f:
            f.write(text)
        words = [w for w in words if w not in ("-Werror", "-g", "-g1") and not w.startswith("-W")]
        original = os.path.join(self.root, path)
        words = [source if os.path.abspath(os.path.join(self.folder, w)) == original else w for w in words]
        words[words.index("-o") + 1] = to
        words += ["-w", "-fno-diagnostics-show-caret", f"-ffile-prefix-map={source}={original}", "-O1"]
        done = subprocess.run(words, cwd=self.folder, capture_output=True, text=True)
        return done.returncode == 0

    def link_of(self, program):
        if program not in self.links:
            name = program if program == "sluice" else "tests/" + program
            lines = subprocess.run(["ninja", "-t", "commands", name], cwd=self.folder, capture_output=True, text=True,
                                   check=True).stdout.strip().split("\n")
            command = re.sub(r"^:\s*&&\s*|\s*&&\s*:\s*$", "", lines[-1])
            self.links[program] = shlex.split(command)
        return self.links[program]

    def compiles_itself(self, program, path):
        """Whether an object of that source stands in the program's link line: no library brings it."""
        return any(w.endswith(f"/{path}.o") for w in self.link_of(program))

    def check_table(self, found):
        """A program that does not link an area's sources could not be linked with a changed one: an error before any is."""
        for area, places in found.items():
            targets = {re.search(r"CMakeFiles/([^/]+)\.dir", self.compiles[path][1]).group(1) for path in {m.path for m in places}}
            for test in set(AREAS[area]) - OF_PARTS:
                words = " ".join(self.link_of(program_of(test)))
                for target in sorted(targets):
                    if f"lib{target}.a" not in words and f"/{target}.dir/" not in words:
                        raise SystemExit(f"AREAS: {test} does not link {target}, which has sources of {area}")

    def link(self, program, path, changed, to):
        """The program with `changed` in place of the file's own object."""
        own = self.compiles[path][1]
        words = [changed if w == own or w.endswith(f"/{path}.o") else w for w in self.link_of(program)]
        if changed not in words:
            first = next(i for i, w in enumerate(words) if w.endswith(".a"))
            words.insert(first, changed)
        words[words.index("-o") + 1] = to
        done = subprocess.run(words, cwd=self.folder, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{program} does not link with a changed {path}: {done.stderr[-2000:]}")


def who_failed(output):
    """The name of Catch2's test case that failed, or the last line of a script."""
    found = re.findall(r"^-{20,}\n(.+)\n(?:.*\n)?-{20,}\n", output, re.M)
    if found:
        return found[-1].strip()
    lines = [line for line in output.strip().split("\n") if line.strip()]
    return lines[-1].strip()[:120] if lines else "no word"


def program_of(test):
    return "sluice" if test.startswith("script:") else test


def run_program(build, test, linked, seconds):
    """None: the test passes with that program. Otherwise what failed."""
    if test.startswith("script:"):
        words = [w.replace("{sluice}", linked) for w in SCRIPTS[test[7:]]]
    else:
        words = [linked, "--abort"]
    environment = dict(os.environ, OMP_WAIT_POLICY="passive", OMP_NUM_THREADS="2", SLUICE_FIRST_FAILURE_ENDS="1")
    try:
        done = subprocess.run(words, cwd=build.root, capture_output=True, text=True, errors="replace",
                              timeout=seconds, env=environment, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return f"{test}: did not end in {seconds:.0f} s"
    if done.returncode == 0:
        return None
    if done.returncode < 0:
        return f"{test}: ended by signal {-done.returncode}"
    return f"{test}: {who_failed(done.stdout or done.stderr)}"


def run_test(build, test, mistake, changed, scratch):
    """None: it passes. Otherwise what noticed."""
    tries = 2 if test in TIMED else 1
    if test not in build.seconds:
        program = program_of(test)
        for attempt in range(tries):
            began = time.monotonic()
            failed = run_program(build, test, os.path.join(build.folder, program if program == "sluice" else "tests/" + program),
                                 SECONDS_MAX)
            if failed is None:
                break
        if failed is not None:
            raise SystemExit(f"without any mistake {failed}")
        build.seconds[test] = time.monotonic() - began
    linked = os.path.join(scratch, os.path.basename(program_of(test)))
    build.link(program_of(test), mistake.path, changed, linked)
    for attempt in range(tries):
        failed = run_program(build, test, linked, 10 + 10 * build.seconds[test])
        if failed is None:
            break
    return failed


def stripped(path):
    """What an object comes to: its code and data, not its file's name."""
    copy = path + ".stripped"
    subprocess.run(["objcopy", "--strip-debug", "--remove-section=.comment", path, copy], check=True)
    with open(copy, "rb") as f:
        return f.read()


def try_one(build, mistake, originals, scratch):
    text = open(os.path.join(build.root, mistake.path), encoding="utf-8").read()
    if mistake.path not in originals:
        sound = os.path.join(scratch, "m.o")
        if not build.compile(mistake.path, text, sound):
            raise SystemExit(f"{mistake.path} does not compile as it is")
        originals[mistake.path] = stripped(sound)
    changed = os.path.join(scratch, "m.o")
    if not build.compile(mistake.path, mistakes_of.planted(text, mistake), changed):
        return "no build", ""
    if stripped(changed) == originals[mistake.path]:
        return "same object", ""
    area = os.path.dirname(mistake.path)
    for test in AREAS[area]:
        if test in OF_PARTS and not build.compiles_itself(test, mistake.path):
            continue
        noticed = run_test(build, test, mistake, changed, scratch)
        if noticed is not None:
            return "noticed", noticed
    return "survived", ""


def candidates(root, areas, known):
    """By area, in an order that depends on the sources only."""
    found = {}
    for area in areas:
        found[area] = []
        for name in sorted(os.listdir(os.path.join(root, area))):
            path = os.path.join(area, name)
            if name.endswith(".cpp") and path in known and not LEFT_OUT.search(path):
                with open(os.path.join(root, path), encoding="utf-8") as f:
                    found[area] += mistakes_of.of_text(path, f.read())
    return found


def draw(found, seed):
    """An endless sequence: an area, then a place in it, each place once. Areas weigh by the root of their size, so that
    the small ones are seen too."""
    chance = random.Random(seed)
    left = {area: list(places) for area, places in found.items() if places}
    while left:
        areas = sorted(left)
        area = chance.choices(areas, [len(found[a]) ** 0.5 for a in areas])[0]
        place = left[area].pop(chance.randrange(len(left[area])))
        if not left[area]:
            del left[area]
        yield place


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build")
    parser.add_argument("--count", type=int, default=100, help="mistakes that change what is compiled")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--from", dest="first", type=int, default=0, help="how many of the seed's drawings to pass over")
    parser.add_argument("--areas", default=",".join(AREAS))
    parser.add_argument("--only", help="FILE:LINE, all mistakes of that line")
    parser.add_argument("--json", help="where the report goes as JSON, a line for each mistake")
    options = parser.parse_args()
    build = Build(options.build)
    found = candidates(build.root, options.areas.split(","), build.compiles)
    build.check_table(found)
    if options.only:
        path, line = options.only.split(":")
        chosen = iter([m for places in found.values() for m in places if m.path == path and m.line == int(line)])
    else:
        chosen = itertools.islice(draw(found, options.seed), options.first, None)
    print(f"{sum(map(len, found.values()))} places: " + ", ".join(f"{a} {len(p)}" for a, p in found.items()), flush=True)
    counts = {"noticed": 0, "survived": 0, "no build": 0, "same object": 0}
    survivors, originals, drawn = [], {}, options.first
    with tempfile.TemporaryDirectory() as scratch:
        for mistake in chosen:
            began = time.monotonic()
            outcome, who = try_one(build, mistake, originals, scratch)
            counts[outcome] += 1
            drawn += 1
            took = time.monotonic() - began
            print(f"{outcome:11s} {took:5.0f} s  {mistake.diff()}" + (f"\n  {who}" if who else ""), flush=True)
            if options.json:
                with open(options.json, "a", encoding="utf-8") as f:
                    f.write(json.dumps({**mistake._asdict(), "outcome": outcome, "by": who, "seed": options.seed}) + "\n")
            if outcome == "survived":
                survivors.append(mistake)
            if not options.only and counts["noticed"] + counts["survived"] >= options.count:
                break
    changing = counts["noticed"] + counts["survived"]
    print(f"\nseed {options.seed}: of {changing} mistakes that change what is compiled {counts['noticed']} were noticed"
          f" ({100 * counts['noticed'] / max(changing, 1):.0f} %); {counts['same object']} changed nothing,"
          f" {counts['no build']} did not compile" + ("" if options.only else f"; --from {drawn} goes on"))
    for mistake in survivors:
        print("survived: " + mistake.diff())


if __name__ == "__main__":
    main()
