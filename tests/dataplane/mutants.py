"""Plants mistakes in the pool's pure parts, one at a time, and sees to it that each breaks its own invariant.

    python3 mutants.py ROOT BUILD [--only PATTERN]

A mutant is one changed piece of a source or header, compiled beside the real objects and linked as the (Ninja) build
links. Its name begins with an invariant of docs/POOL.md; it is killed when the tests name that one as broken. Without
a change they must pass (or they would prove nothing).
"""
from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile

# The cases that look at invariants; up to their first comma.
CASES = ["whatever sequences do*", "where keys meet in their first word*", "whatever is written*", "under random schedules*",
         "a key depends on*"]
TABLE = ["dataplane/page_table.cpp"]  # what uses the private parts of page_table.h

# name, file, what is there, what is planted, sources to compile
MUTANTS = [
    ("K1 a page that is used may be given up", "dataplane/page_table.h",
     "pages_[page].references > 0 || pages_[page].children > 0;", "pages_[page].children > 0;", TABLE),
    ("K1 a page is free while one still uses it", "dataplane/page_table.cpp",
     "if (--state.references > 0) return;", "if (--state.references > 1) return;", None),
    ("K2 a key is taken for another that begins alike", "dataplane/page_table.cpp",
     "return page != KeyTable::none && pages_[page].key == key ? page : no_page;",
     "return page != KeyTable::none ? page : no_page;", None),
    ("K2 a pulled page's bytes are not checked", "dataplane/page_puller.cpp",
     "if (!is_asked_for || crc32c(page.content) != head.crc32c)", "if (!is_asked_for)", None),
    ("K3 a page that is given up keeps its generation", "dataplane/page_table.cpp",
     ".generation = state.generation + 1};", ".generation = state.generation};", None),
    ("K3 a restart gives numbers of segments again", "dataplane/segment_index.cpp",
     "  next_.number = std::max(next_.number, number);\n", "", None),
    ("K4 what the disk refused is there", "dataplane/segment_index.cpp", "  if (written) {\n",
     "  if (written || page.slot > 0) {\n", None),
    ("K6 who is gone is waited for", "dataplane/page_puller.cpp",
     "    else if (was_asked && pull.finds.empty() && !pull.is_fetching)\n      ended.push_back(id);\n", "", None),
    ("K6 what who is gone was owed stays", "dataplane/page_server.cpp", "  peers_.erase(peer);\n", "", None),
    ("K7 a page that nobody uses is lost", "dataplane/page_table.cpp",
     "  ++state.generation;\n  free_.push_back(page);\n", "  ++state.generation;\n", None),
    ("K7 bytes of a removed segment count", "dataplane/segment_index.cpp", "  bytes_ -= it->second.bytes;\n",
     "", None),
    ("K8 a pull waits for ever for a page", "dataplane/page_puller.cpp", "if (finds || pulls) late.push_back(id);",
     "if (finds) late.push_back(id);", None),
    ("K9 what is published is written on", "dataplane/page_table.h",
     "return pages_[page].references > 1 || pages_[page].is_published;", "return pages_[page].references > 1;", TABLE),
    ("K9 what others share is written on", "dataplane/page_table.h",
     "return pages_[page].references > 1 || pages_[page].is_published;", "return pages_[page].is_published;", TABLE),
    ("K10 a page goes before those that follow it", "dataplane/page_table.h",
     "pages_[page].references > 0 || pages_[page].children > 0;", "pages_[page].references > 0;", TABLE),
    ("K11 a fragment that is copied loses its last row", "dataplane/page_table.cpp",
     "{sequence.pages_[at], to, used}", "{sequence.pages_[at], to, used - 1}", None),
    ("K11 a fork is cut to whole pages", "dataplane/page_table.cpp",
     "sequence.pages_.begin() + pages_for(sequence.rows_));",
     "sequence.pages_.begin() + sequence.rows_ / rows_per_page_);", None),
    ("K12 of two records of a page the older counts", "dataplane/segment_index.cpp",
     "head.generation > record.head.generation) continue;", "head.generation < record.head.generation) continue;", None),
    ("K13 a copy begins with what was in its page", "dataplane/page_table.cpp",
     "    if (used > 0) copies.push_back({sequence.pages_[at], to, used});\n", "", None),
    ("K13 tenants have the same keys", "dataplane/page_key.cpp", "{&scope.tenant, &scope.model,", "{&scope.model,", None),
    ("K14 a record without its end counts", "dataplane/segment_scan.cpp",
     "if (check.state == RecordState::whole) whole_", "if (check.state != RecordState::empty) whole_", None),
    ("K15 a sequence that goes leaves a page behind", "dataplane/page_table.cpp",
     "  for (; !sequence.pages_.empty(); sequence.pages_.pop_back()) unrefer",
     "  for (; sequence.pages_.size() > 1; sequence.pages_.pop_back()) unrefer", None),
    ("K15 a fork counts twice", "dataplane/page_table.cpp",
     "for (const Page page : copy.pages_) refer(page);",
     "for (const Page page : copy.pages_) {\n    refer(page);\n    refer(page);\n  }", None),
]


class Bench:
    """Builds and tries one pool."""

    def __init__(self, a, folder: str):
        self.a, self.folder = a, folder
        self.line = subprocess.run(["ninja", "-C", a.build, "-t", "commands", "test_dataplane"], check=True,
                                   capture_output=True, text=True).stdout.splitlines()[-1]

    def build(self, number: int, mutant) -> str:
        _, name, old, new, sources = mutant
        with open(f"{self.a.root}/{name}", encoding="utf-8") as f:
            text = f.read()
        here = f"{self.folder}/{number}"
        os.makedirs(os.path.dirname(f"{here}/{name}"), exist_ok=True)
        with open(f"{here}/{name}", "w", encoding="utf-8") as f:
            f.write(text.replace(old, new, 1))
        objects = []
        for source in sources or [name]:
            # A source looks for headers beside itself first.
            path = f"{here}/{source}"
            if source != name:
                with open(f"{self.a.root}/{source}", encoding="utf-8") as f, open(path, "w", encoding="utf-8") as out:
                    out.write(f.read())
            objects.append(f"{path}.o")
            subprocess.run(["c++", "-std=c++20", "-O1", "-w", f"-I{here}", f"-I{self.a.root}", "-c", path, "-o", objects[-1]],
                           check=True)
        return self.link(f"{here}/test_dataplane", objects)

    def link(self, out: str, objects: list[str]) -> str:
        """The build's own link line, with the mutant's objects before the archives that hold them."""
        line, count = re.subn(r" -o \S+", lambda _: " ".join(["", *objects, "-o", out]), self.line)
        if count != 1:
            raise SystemExit(f"the link line of test_dataplane has {count} outputs, not one: {self.line}")
        subprocess.run(line, shell=True, cwd=self.a.build, check=True)
        return out

    def broken(self, program: str) -> tuple[bool, list[str]]:
        """Whether the tests pass, and which invariants they name as broken."""
        with tempfile.TemporaryFile("w+") as said:
            try:
                passes = subprocess.run([program, ",".join(CASES)], stdout=said, stderr=subprocess.STDOUT,
                                        timeout=60).returncode == 0
            except subprocess.TimeoutExpired:
                passes = False
            said.seek(0)
            return passes, list(dict.fromkeys(re.findall(r"^broken invariant: (\w+)$", said.read(), re.M)))


def main() -> int:
    a = argparse.ArgumentParser()
    a.add_argument("root")
    a.add_argument("build", help="the folder of a Ninja build")
    a.add_argument("--only", default="", help="a regular expression over names")
    a = a.parse_args()
    a.root, a.build = os.path.abspath(a.root), os.path.abspath(a.build)
    for name, file, old, _, _ in MUTANTS:
        with open(f"{a.root}/{file}", encoding="utf-8") as f:
            if (count := f.read().count(old)) != 1:
                print(f"{name}: {file} holds {count} times\n{old}")
                return 1
    chosen = [mutant for mutant in MUTANTS if re.search(a.only, mutant[0])]
    killed = 0
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(a, folder)
        passes, broken = bench.broken(bench.link(f"{folder}/test_dataplane", []))
        if not passes or broken:
            print(f"the pool without a change does not pass; broken: {broken}")
            return 1
        for number, mutant in enumerate(chosen):
            passes, broken = bench.broken(bench.build(number, mutant))
            is_killed = not passes and mutant[0].split()[0] in broken
            killed += is_killed
            said = ", ".join(broken) or ("none, and the tests pass" if passes else "none, but the tests fail")
            print("killed  " if is_killed else "SURVIVED", mutant[0] + "; broken:", said, flush=True)
    print(f"{killed} of {len(chosen)} mutants killed by their own invariant")
    return 0 if chosen and killed == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
