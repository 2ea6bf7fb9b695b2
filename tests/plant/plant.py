#!/usr/bin/env python3
"""Plants mistakes at random, one at a time, and says which test notices each.

    plant.py BUILD [--count 100] [--seed 1] [--from 0] [--areas base,kernels,...] [--json REPORT] [--only FILE:LINE]
             [--class REGEX] [--again REPORT] [--quick]

BUILD is a build folder made with ninja and tests, and up to date. No source is touched: the changed file is compiled
elsewhere, and the test programs of its area are linked again with that object before the library that has the right
one. A mistake that compiles to the same object as the source changes nothing and is counted apart, as is one that does
not compile. Each survivor is printed: it is a test that is missing, a change of speed only, or no change at all that
the compiler can see; a person says which. The same seed plants the same mistakes in the same sources, and `--from N`
goes on behind the first N that it drew, so that a run can be made in pieces. `--class` plants every mistake whose
lines, before and after, match the pattern (lines are joined by " -> "), and runs the first test of the area only: for
a look at one class of mistakes everywhere. `--again REPORT` tries once more what survived in a report of `--json`:
behind new tests, or in a build with sanitizers. `--quick` leaves out the slower tests (`SLOWER`), which take minutes for a survivor.
"""
import argparse
import itertools
import json
import os
import random
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import mistakes as mistakes_of  # noqa: E402

# Folder of sources -> the quick tests that should notice: programs of the build, or `sluice` with what runs it.
# Scripts get the program as {sluice}.
AREAS = {
    "base": ["test_base", "test_graph", "test_roles", "script:failing_calls"],
    "dataplane": ["test_dataplane", "test_index", "script:pool", "test_model"],
    "kernels": ["test_kernels", "test_model"],
    "roles": ["test_roles", "script:transcripts", "script:request_options", "script:cli", "test_runtime",
              "test_cuda_roles"],
    **{f"engine/{room}": ["test_model", "test_roles", "test_workflows", "script:transcripts"]
       for room in ("checkpoint", "layers", "family", "picture", "text", "policy", "check", "plan")},
    # Decoders and policies on a device are run as tasks too: on the emulation, so that no GPU is needed.
    "engine/tasks": ["test_model", "test_roles", "test_workflows", "script:transcripts", "test_cuda"],
    "engine/device": ["test_cuda", "test_cuda_roles"],
    "engine/storage": ["test_model", "test_roles", "script:kv_folder", "script:transcripts"],
    "runtime": ["test_runtime", "script:cli", "script:run"],
    "runtime/wire": ["test_wire", "test_sim", "test_runtime"],
    "runtime/inproc": ["test_runtime", "test_graph", "script:given_up", "script:cli", "script:isolate"],
    "runtime/node": ["test_runtime", "script:restart", "script:cluster"],
    "runtime/shm": ["test_shm", "script:isolate", "script:restart"],
    "runtime/hosts": ["plugin/test_plugin", "script:isolate"],
    "runtime/zmq": ["test_zmq", "test_runtime", "script:restart", "script:cluster"],
    "runtime/redis": ["test_redis", "script:registry"],
    "runtime/registry": ["test_redis", "script:registry"],
    "runtime/sim": ["test_sim", "script:transcripts", "script:scenarios", "script:cli"],
    "cli": ["cli/test_cli_parts", "cli/test_cli_given", "cli/test_pool_snapshot", "cli/test_page_secret", "script:interrupt",
            "script:transcripts", "script:first_try", "script:own_workflow",
            "script:given_up", "script:chat", "script:pool", "script:isolate", "script:cli", "script:why", "script:kv_folder", "script:request_options",
            "script:help", "script:restart", "script:failing_calls", "script:failures", "script:down", "script:run", "script:cluster",
            "script:numbers", "script:scenario_words"],
    "plugin": ["plugin/test_plugin", "script:isolate"],
    "workflows": ["test_workflows", "test_cluster", "script:scenarios", "script:author_errors", "plugin/test_plugin",
                  "script:transcripts"],
    "graph": ["test_graph", "test_workflows", "script:scenarios", "script:transcripts", "test_sim", "test_wire", "test_runtime",
              "script:semantics"],
}
# What CI runs besides, for what the quick ones let pass. By the beginning of the area's name.
SLOWER = {
    "": ["script:cli", "script:run", "script:kv_folder", "script:chat", "script:failures"],
    "engine": ["test_alloc", "script:pages", "script:whole_semantics"],
    "engine/storage": ["test_ways", "test_index_pools"],
    "dataplane": ["test_ways", "test_index_pools", "script:kv_folder", "script:pages", "test_roles"],
    "graph": ["test_alloc", "script:whole_semantics", "script:scenario_words", "script:frames", "script:replicas",
              "script:hunt"],
    "runtime": ["script:restart", "script:end", "script:down", "script:pages", "script:three_hosts", "script:kill_matrix",
                "script:failing_calls", "script:homes", "script:replicas", "script:frames", "script:frames_machines"],
    "runtime/sim": ["script:scenario_words", "script:hunt"],
    "runtime/inproc": ["test_alloc", "script:whole_semantics", "script:interrupt"],
    "cli": ["script:frames", "script:homes", "script:replicas", "script:end", "script:pages", "script:three_hosts",
            "script:kill_matrix"],
    "plugin": ["script:given_up", "script:restart"],
    "workflows": ["script:schema", "script:whole_semantics", "script:scenario_words", "script:frames", "script:replicas",
                  "script:cluster"],
    "base": ["test_alloc", "test_model", "test_shm", "test_zmq", "script:pages", "script:kill_matrix"],
}
SCRIPTS = {
    "cli": ["python3", "tests/cli/cli_test.py", "{sluice}", "."],
    "why": ["python3", "tests/cli/why_test.py", "{sluice}", "."],
    "first_try": ["python3", "tests/cli/first_try_test.py", "{sluice}", "."],
    "own_workflow": ["python3", "tests/cli/own_workflow_test.py", "{sluice}", "."],
    "kv_folder": ["python3", "tests/cli/kv_folder_test.py", "{sluice}", "."],
    "isolate": ["python3", "tests/plugin/isolate_test.py", "{sluice}", ".", "{build}/tests/plugin/roles"],
    "given_up": ["python3", "tests/plugin/given_up_test.py", "{sluice}", "{build}/tests/plugin/roles"],
    "restart": ["python3", "tests/cluster/restart_test.py", "{sluice}", "."],
    "chat": ["python3", "tests/cli/chat_test.py", "{sluice}", "."],
    "transcripts": ["python3", "tests/cli/transcripts_test.py", "{sluice}", "."],
    "run": ["python3", "tests/cli/run_test.py", "{sluice}", "."],
    "call_check": ["python3", "tests/cli/call_check_test.py", "{sluice}", "."],
    "help": ["python3", "tests/cli/help_test.py", "{sluice}", "."],
    "request_options": ["python3", "tests/cli/request_options_test.py", "{sluice}", "."],
    "pool": ["python3", "tests/cli/pool_test.py", "{sluice}"],
    "failures": ["python3", "tests/cli/failures_test.py", "{sluice}", "."],
    "failing_calls": ["python3", "tests/cli/failing_calls_test.py", "{sluice}", ".", "{build}/tests/cli/failing_call.so"],
    "author_errors": ["python3", "tests/mutants/mutate.py", "{sluice}", "."],
    "scenarios": ["{sluice}", "test", "workflows", "--seeds", "50"],
    "interrupt": ["python3", "tests/cli/interrupt_test.py", "{sluice}", "."],
    "cluster": ["python3", "tests/cluster/cluster_test.py", "{sluice}", "."],
    "down": ["python3", "tests/cluster/down_test.py", "{sluice}", "."],
    "registry": ["python3", "tests/cluster/registry_test.py", "{sluice}", "."],
    "end": ["python3", "tests/cluster/end_test.py", "{sluice}", "."],
    "pages": ["python3", "tests/cluster/pages_test.py", "{sluice}", "."],
    "three_hosts": ["python3", "tests/cluster/three_hosts_test.py", "{sluice}", "."],
    "kill_matrix": ["python3", "tests/cluster/kill_matrix_test.py", "{sluice}", ".", "--every", "2"],
    "scenario_words": ["python3", "tests/cli/scenario_words_test.py", "{sluice}", "."],
    "numbers": ["python3", "tests/cli/numbers_test.py", "{sluice}"],
    "frames": ["python3", "tests/cli/frames_test.py", "{sluice}", ".", "{build}/tests/plugin/roles", "here"],
    "frames_machines": ["python3", "tests/cli/frames_test.py", "{sluice}", ".", "{build}/tests/plugin/roles", "machines"],
    "homes": ["python3", "tests/cluster/homes_test.py", "{sluice}", "."],
    "replicas": ["python3", "tests/cluster/replicas_test.py", "{sluice}", "."],
    "schema": ["python3", "tests/mutants/schema_test.py", "{sluice}", "."],
    "hunt": ["python3", "tests/sim/hunt.py", "{sluice}", "--workflows", "100", "--seeds", "2000", "--shipped",
             "workflows/agent_loop.yaml", "workflows/chat.yaml"],
    "whole_semantics": ["python3", "tests/semantics/compare.py", "{sluice}", "--count", "3200", "--seed", "100"],
    "semantics": ["python3", "tests/semantics/compare.py", "{sluice}", "--count", "200", "--seed", "100"],
}
# Programs of some files of an area only.
OF_PARTS = {"cli/test_cli_parts", "cli/test_cli_given", "cli/test_pool_snapshot", "cli/test_page_secret"}
# What this machine's processor may not have, or its library picks; tests elsewhere see it.
LEFT_OUT = re.compile(r"_amx\.cpp$")
# Processes with leases: on a busy machine one may fail by itself, so it has to fail twice.
TIMED = {"script:cluster", "script:down", "script:registry", "script:restart", "script:isolate", "test_zmq", "test_redis",
         "script:interrupt", "plugin/test_plugin", "script:end", "script:pages", "script:three_hosts", "script:kill_matrix",
         "script:failing_calls", "script:chat", "script:homes", "script:replicas", "script:frames_machines",
         "test_index_pools"}
# Each mistake is linked into several programs: the quickest linker that is installed, or the usual one.
LINKER = next((name for name in ("mold", "lld") if shutil.which(name)), "")
SECONDS_MAX = 600  # of a test with nothing planted; with a mistake ten times what it took then
FILE_MAX = 8 << 30  # bytes
SKIPPED = 77  # a test's exit status, where it cannot run


class Seconds:
    """How long each test took that was seen to pass with nothing planted. Kept from run to run, while its program is the
    same file."""

    def __init__(self, path):
        self.path = path
        try:
            with open(path, encoding="utf-8") as f:
                self.known = json.load(f)
        except (OSError, ValueError):
            self.known = {}

    def of(self, test, program):
        when, seconds = self.known.get(test, (None, None))
        return seconds if when == os.stat(program).st_mtime_ns else None

    def keep(self, test, program, seconds):
        self.known[test] = os.stat(program).st_mtime_ns, seconds
        beside = f"{self.path}.{os.getpid()}"
        with open(beside, "w", encoding="utf-8") as f:
            json.dump(self.known, f)
        os.replace(beside, self.path)


def units(root):
    """For each header the stems of the Catch2 files that include it: what most likely notices a mistake in its source."""
    found = {}
    for folder, _, names in os.walk(os.path.join(root, "tests")):
        for name in names:
            if name.endswith(".cpp"):
                with open(os.path.join(folder, name), encoding="utf-8") as f:
                    for header in re.findall(r'^#include "(.+)"', f.read(), re.M):
                        found.setdefault(header, set()).add(name[:-4])
    return found


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
        self.seconds = Seconds(os.path.join(self.folder, "plant_seconds.json"))
        self.units = units(self.root)

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

    def has_target_of(self, program, path):
        """Whether the program is linked with the library, or has the objects, that the source is part of."""
        target = re.search(r"CMakeFiles/([^/]+)\.dir", self.compiles[path][1]).group(1)
        words = " ".join(self.link_of(program))
        return f"lib{target}.a" in words or f"/{target}.dir/" in words

    def check_table(self, found):
        """A program that does not link an area's sources could not be linked with a changed one: an error before any is."""
        for area, places in found.items():
            for test in set(tests_of(area)) - OF_PARTS:
                for path in sorted({m.path for m in places}):
                    if not self.has_target_of(program_of(test), path):
                        raise SystemExit(f"AREAS, SLOWER: {test} does not link what {path} is part of")

    def link(self, program, path, changed, to):
        """The program with `changed` in place of the file's own object."""
        own = self.compiles[path][1]
        words = [changed if w == own or w.endswith(f"/{path}.o") else w for w in self.link_of(program)]
        if changed not in words:
            first = next(i for i, w in enumerate(words) if w.endswith(".a"))
            words.insert(first, changed)
        words[words.index("-o") + 1] = to
        if LINKER:
            words.append("-fuse-ld=" + LINKER)
        done = subprocess.run(words, cwd=self.folder, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{program} does not link with a changed {path}: {done.stderr[-2000:]}")


def case_that_failed(output):
    """The name of Catch2's test case that failed, also by a signal. None: the output is not Catch2's, or tells none."""
    found = re.findall(r"^-{20,}\n(.+)\n(?:.*\n)?-{20,}\n", output, re.M)
    return found[-1].strip() if found else None


def who_failed(output):
    """The name of Catch2's test case that failed, or the last line of a script."""
    if (case := case_that_failed(output)) is not None:
        return case
    lines = [line for line in output.strip().split("\n") if line.strip()]
    return lines[-1].strip()[:120] if lines else "no word"


def program_of(test):
    return "sluice" if test.startswith("script:") else test


def prepare():
    """A child as a terminal starts it, also where this program was started to go on without one."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_MAX, FILE_MAX))
    for one in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(one, signal.SIG_DFL)


def run_program(build, test, linked, seconds, cases=()):
    """None: the test passes with that program. Otherwise what failed. `cases`: which of Catch2's, files as tags."""
    if test.startswith("script:"):
        words = [w.replace("{sluice}", linked).replace("{build}", build.folder) for w in SCRIPTS[test[7:]]]
    else:
        words = [linked, "--abort", "-#", *cases]
    # What a mistake leaves behind goes with the folder, and one that writes without end is ended by the limit.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        environment = dict(os.environ, OMP_WAIT_POLICY="passive", OMP_NUM_THREADS="2", SLUICE_FIRST_FAILURE_ENDS="1",
                           TMPDIR=folder,
                           SLUICE_CASE_SECONDS=str(max(1, int(0.9 * seconds))))  # what waits for ever fails by its name
        try:
            done = subprocess.run(words, cwd=build.root, capture_output=True, text=True, errors="replace",
                                  timeout=seconds, env=environment, stdin=subprocess.DEVNULL,
                                  preexec_fn=prepare)
        except subprocess.TimeoutExpired:
            return f"{test}: did not end in {seconds:.0f} s"
    if done.returncode in (0, SKIPPED):
        return None
    if done.returncode < 0:
        case = case_that_failed(done.stdout)
        return f"{test}: {case or 'no word'} (signal {-done.returncode})"
    return f"{test}: {who_failed(done.stdout or done.stderr)}"


def seconds_of(build, test):
    """What the test takes with nothing planted; it has to pass."""
    program = program_of(test)
    path = os.path.join(build.folder, program if program == "sluice" else "tests/" + program)
    if build.seconds.of(test, path) is None:
        for _ in range(3):
            began = time.monotonic()
            failed = run_program(build, test, path, SECONDS_MAX)
            if failed is None:
                break
        if failed is not None:
            raise SystemExit(f"without any mistake {failed}")
        build.seconds.keep(test, path, time.monotonic() - began)
    return build.seconds.of(test, path)


def run_test(build, test, mistake, changed, scratch):
    """None: it passes. Otherwise what noticed. The unit's own cases come first."""
    seconds = 10 + 10 * seconds_of(build, test)
    linked = os.path.join(scratch, os.path.basename(program_of(test)))
    build.link(program_of(test), mistake.path, changed, linked)
    unit = [] if test.startswith("script:") else sorted(build.units.get(mistake.path[:-4] + ".h", []))
    its_own, others = ",".join(f"[#{stem}]" for stem in unit), "".join(f"~[#{stem}]" for stem in unit)
    for cases in ([its_own], [others]) if unit else ([],):
        for _ in range(2 if test in TIMED else 1):
            failed = run_program(build, test, linked, seconds, cases)
            if failed is None:
                break
        if failed is not None:
            return failed
    return None


def stripped(path):
    """What an object comes to: its code and data, not its file's name."""
    copy = path + ".stripped"
    subprocess.run(["objcopy", "--strip-debug", "--remove-section=.comment", path, copy], check=True)
    with open(copy, "rb") as f:
        return f.read()


def tests_of(area):
    """Those that are quick and near first, each once."""
    emulated = area == "engine/device"  # `sluice` has it with a GPU only
    slower = [test for prefix, tests in SLOWER.items() if area.startswith(prefix) and not emulated for test in tests]
    return list(dict.fromkeys(AREAS[area] + slower))


def survivors_of(report, found):
    """What survived there, where it stands now; what does not stand any more is said."""
    left = {}
    with open(report, encoding="utf-8") as f:
        for row in map(json.loads, f):
            key = row["path"], row["before"], row["after"], row["line"]
            left.pop(key, None)
            if row["outcome"] == "survived":
                left[key] = row
    for path, before, after, line in left:
        same = [m for places in found.values() for m in places if (m.path, m.before, m.after) == (path, before, after)]
        if same:
            yield min(same, key=lambda m: abs(m.line - line))
        else:
            print(f"gone        {path}:{line}  {before.strip()}", flush=True)


def try_one(build, mistake, originals, scratch, tests):
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
    for test in tests:
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
    parser.add_argument("--class", dest="pattern", help="a regular expression over `line before -> line after`")
    parser.add_argument("--quick", action="store_true", help="without the slower tests")
    parser.add_argument("--again", help="a report whose survivors are tried once more")
    parser.add_argument("--json", help="where the report goes as JSON, a line for each mistake")
    options = parser.parse_args()
    drawing = not (options.only or options.pattern or options.again)
    build = Build(options.build)
    found = candidates(build.root, options.areas.split(","), build.compiles)
    build.check_table(found)
    if options.only:
        path, line = options.only.split(":")
        chosen = iter([m for places in found.values() for m in places if m.path == path and m.line == int(line)])
    elif options.again:
        chosen = survivors_of(options.again, found)
    elif options.pattern:
        chosen = iter([m for places in found.values() for m in places
                       if re.search(options.pattern, f"{m.before.strip()} -> {m.after.strip()}")])
    else:
        chosen = itertools.islice(draw(found, options.seed), options.first, None)
    print(f"{sum(map(len, found.values()))} places: " + ", ".join(f"{a} {len(p)}" for a, p in found.items()), flush=True)
    counts = {"noticed": 0, "survived": 0, "no build": 0, "same object": 0}
    survivors, originals, drawn = [], {}, options.first
    # Not in /tmp, of which some tests give each process its own.
    with tempfile.TemporaryDirectory(dir=build.folder) as scratch:
        for mistake in chosen:
            began = time.monotonic()
            area = os.path.dirname(mistake.path)
            tests = AREAS[area][:1] if options.pattern else AREAS[area] if options.quick else tests_of(area)
            outcome, who = try_one(build, mistake, originals, scratch, tests)
            counts[outcome] += 1
            drawn += 1
            took = time.monotonic() - began
            print(f"{outcome:11s} {took:5.0f} s  {mistake.diff()}" + (f"\n  {who}" if who else ""), flush=True)
            if options.json:
                with open(options.json, "a", encoding="utf-8") as f:
                    f.write(json.dumps({**mistake._asdict(), "outcome": outcome, "by": who, "seed": options.seed}) + "\n")
            if outcome == "survived":
                survivors.append(mistake)
            if drawing and counts["noticed"] + counts["survived"] >= options.count:
                break
    changing = counts["noticed"] + counts["survived"]
    print(f"\nseed {options.seed}: of {changing} mistakes that change what is compiled {counts['noticed']} were noticed"
          f" ({100 * counts['noticed'] / max(changing, 1):.0f} %); {counts['same object']} changed nothing,"
          f" {counts['no build']} did not compile" + ("" if not drawing else f"; --from {drawn} goes on"))
    for mistake in survivors:
        print("survived: " + mistake.diff())


if __name__ == "__main__":
    main()
