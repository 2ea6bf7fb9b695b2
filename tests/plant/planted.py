"""Plants mistakes in sources, one at a time, and says which of them a test notices: the driver of the tables
tests/sim/mutants.py, tests/dataplane/mutants.py and tests/index/mutants.py, whose command line is

    mutants.py ROOT BUILD [--jobs N] [--only PATTERN]

A row is a mutant: its name, a source or header, a piece of it that stands there once, what is planted in its place, and
for a header the sources to compile (None: the file itself). It is compiled beside the real objects and linked as the
(Ninja) build links. What is built without a change must pass, or the tests would prove nothing.
"""
from __future__ import annotations

import argparse
import concurrent.futures
import os
import re
import resource
import shutil
import subprocess
import tempfile
import threading
import time


MEMORY_MAX = 4 << 30  # bytes of address space, for each process of a mutant's tests
# What most sources read of the standard library is parsed once for all mutants.
PARSED_ONCE = ["algorithm", "array", "atomic", "chrono", "functional", "map", "memory", "optional", "set", "span",
               "string", "unordered_map", "utility", "variant", "vector"]


def bound_memory() -> None:
    """Of the process that calls it, and of those that it starts: a mistake may make a program grow for ever."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))


class Bench:
    """Builds a program of the build with one mutant in it."""

    def __init__(self, root: str, build: str, target: str, folder: str):
        self.root, self.build_folder, self.target, self.folder = root, build, target, folder
        self.compiler = ["c++", "-std=c++20", "-O1", "-w"]
        with open(f"{folder}/parsed.h", "w", encoding="utf-8") as f:
            f.writelines(f"#include <{name}>\n" for name in PARSED_ONCE)
        subprocess.run([*self.compiler, "-x", "c++-header", f.name, "-o", f"{f.name}.gch"], check=True)
        self.line = subprocess.run(["ninja", "-C", build, "-t", "commands", target], check=True,
                                   capture_output=True, text=True).stdout.splitlines()[-1]

    def text(self, name: str) -> str:
        with open(f"{self.root}/{name}", encoding="utf-8") as f:
            return f.read()

    def build(self, number: int, mutant) -> str:
        _, name, old, new, sources = mutant
        here = f"{self.folder}/{number}"
        texts = {source: self.text(source) for source in sources or [name]}
        texts[name] = self.text(name).replace(old, new, 1)
        for path, text in texts.items():
            # Here all of them: a source looks for headers beside itself first.
            os.makedirs(os.path.dirname(f"{here}/{path}"), exist_ok=True)
            with open(f"{here}/{path}", "w", encoding="utf-8") as f:
                f.write(text)
        objects = []
        for source in sources or [name]:
            objects.append(f"{here}/{source}.o")
            subprocess.run([*self.compiler, "-include", f"{self.folder}/parsed.h", f"-I{here}", f"-I{self.root}", "-c",
                            f"{here}/{source}", "-o", objects[-1]], check=True)
        return self.link(f"{here}/{self.target}", objects)

    def link(self, out: str, objects: list[str]) -> str:
        """The build's own link line, with the mutant's objects before the archives that hold them."""
        line, count = re.subn(r" -o \S+", lambda _: " ".join(["", *objects, "-o", out]), self.line)
        if count != 1:
            raise SystemExit(f"the link line of {self.target} has {count} outputs, not one: {self.line}")
        subprocess.run(line, shell=True, cwd=self.build_folder, check=True)
        return out


def misplaced(mutants, root: str) -> list[str]:
    """The rows whose piece does not stand in its file once, in words."""
    found = []
    for name, file, old, *_ in mutants:
        with open(f"{root}/{file}", encoding="utf-8") as f:
            if (count := f.read().count(old)) != 1:
                found.append(f"{name}: {file} holds {count} times\n{old}")
    return found


def by_invariant(runs: list[str], patience: float):
    """A judge: killed is what breaks the invariant that its name begins with, as the test's cases print it; each of `runs`
    is some of them, in a process of their own, for what crashes in one says nothing of the next. They are ended when they
    have named it: what else is broken is not of interest, and failing takes long.
    """
    def judge(program: str, mutant) -> tuple[bool, str]:
        own = mutant and mutant[0].split()[0]
        named = {}  # in order
        passes = True
        for cases in runs:
            with subprocess.Popen([program, cases], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  preexec_fn=bound_memory) as tests:
                late = threading.Timer(patience, tests.kill)
                late.start()
                for line in tests.stdout:
                    if found := re.fullmatch(r"broken invariant: (\w+)\n", line):
                        named[found[1]] = True
                    if own in named:
                        tests.kill()
                        break
            late.cancel()
            passes = passes and tests.returncode == 0
            if own in named:
                break
        words = ", ".join(named) or ("none, and the tests pass" if passes else "none, but the tests fail")
        if mutant is None:
            return not passes or bool(named), "; broken: " + words
        return own in named, "; broken: " + words
    return judge


def main(mutants, target: str, judge, jobs: int) -> int:
    """`judge(program, mutant)`: whether it was noticed, and words about it; `mutant` is None for what is unchanged."""
    a = argparse.ArgumentParser()
    a.add_argument("root")
    a.add_argument("build", help="the folder of a Ninja build")
    a.add_argument("--jobs", type=int, default=jobs)
    a.add_argument("--only", default="", help="a regular expression over names")
    a = a.parse_args()
    root, build = os.path.abspath(a.root), os.path.abspath(a.build)
    if wrong := misplaced(mutants, root):
        print("\n".join(wrong))
        return 1
    chosen = [mutant for mutant in mutants if re.search(a.only, mutant[0])]
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(root, build, target, folder)
        noticed, words = judge(bench.link(f"{folder}/{target}", []), None)
        if noticed:
            print(f"{target} without a change does not pass{words}")
            return 1
        killed = 0

        def tried_once(number, mutant):
            began = time.monotonic()
            noticed, words = judge(bench.build(number, mutant), mutant)
            shutil.rmtree(f"{folder}/{number}")  # eighty programs would fill a small disk
            return noticed, f"{words}, {time.monotonic() - began:.0f} s"

        with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
            tried = pool.map(tried_once, range(len(chosen)), chosen)
            for mutant, (noticed, words) in zip(chosen, tried):
                print("killed  " if noticed else "SURVIVED", mutant[0] + words, flush=True)
                killed += noticed
    print(f"{killed} of {len(chosen)} mutants killed")
    return 0 if chosen and killed == len(chosen) else 1
