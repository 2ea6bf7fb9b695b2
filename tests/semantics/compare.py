"""The engine's answers beside the evaluator's, on generated workflows.

    python3 compare.py SLUICE --count 500 --seed 1 [2 ...] [--seeds 3] [--keep FOLDER]

Exit status 1 on the first differences, which are printed with the files that show them.
"""
from __future__ import annotations

import argparse
import collections
import concurrent.futures
import contextlib
import glob
import io
import json
import os
import re
import subprocess
import sys
import tempfile

from evaluate import TooLarge, evaluate, too_wide, waits_for_ever
from generate import generate

BATCH = 100
REFUSED_FOR_WAITING = ("can wait for ever", "wait for each other for ever",
                       "would wait for frames that only its own firing can bring")


def cause_of(call: dict) -> tuple | None:
    """What failed, and how. What the caller of a real call is told has the node only."""
    cause = call.get("cause")
    if isinstance(cause, str):
        return (cause,)
    return (cause["node"], cause["kind"]) if cause else None


def is_told(ours: tuple | None, theirs: tuple | None) -> bool:
    """True when `ours` says `theirs`, as far as it says anything."""
    return ours == (theirs and theirs[:len(ours or theirs)])


def plain(warning: str) -> str:
    """What did not come and why, without from whom (that is in the tests of graph/)."""
    if warning.startswith("the call brought no output: "):
        return "the call brought no output" + reasons(warning)
    join = re.match(r"(\w+): (?:group (\d+): )?(.*) (?:did not come from|never came for one)", warning)
    if not join:
        return warning
    fields = sorted(re.findall(r"(\w+) did not come from", warning) or re.split(", | and ", join[3]))
    return f"{join[1]} {join[2] or 0}: {' '.join(fields)} did not come" + reasons(warning)


def reasons(warning: str) -> str:
    """As `Call.why` says them."""
    names = r"((?:'\w+'(?:, | and | or )?)+)"
    told = re.findall(rf"inputs? {names} (?:was|were) not given|"
                      rf"node '(\w+)' ran and yielded nothing on {names}|and (\d+ more)$", warning)
    found = [(node or "inputs", sorted(re.findall(r"\w+", re.sub(" (and|or) ", " ", given + left_out))), more)
             for given, node, left_out, more in told]
    if all(more for *_, more in found):
        return ""  # of outputs there are more
    return "".join(f"; {more}" if more else f"; {node}: {' '.join(fields)}" for node, fields, more in found)


def counted(warnings: list[str]) -> list[str]:
    """Those that both know, each once, with how often it came."""
    known = ("left over", "max_age", "did not come", "never came", "no output", "on_full")
    times = collections.Counter(plain(w) for w in warnings if any(k in w for k in known))
    return sorted(w if n == 1 else f"{w} ({n} times)" for w, n in times.items())


def normal(call: dict) -> dict:
    """What both must say alike."""
    return {"status": call["status"], "cause": cause_of(call),
            "outputs": {k: v for k, v in call["outputs"].items() if v},
            "warnings": counted(call["warnings"]),
            "firings": sorted(json.dumps(f, sort_keys=True) for f in call["firings"])}


def describe(ours: dict, theirs: dict) -> list[str]:
    lines = []
    for key in ours:
        if ours[key] == theirs[key] or key == "cause" and is_told(ours[key], theirs[key]):
            continue
        if key != "firings":
            lines.append(f"{key}: engine {ours[key]}, evaluator {theirs[key]}")
            continue
        only = lambda a, b: [x for x in a if x not in b][:4]
        lines.append(f"firings: {len(ours[key])} and {len(theirs[key])}; only the engine: "
                     f"{only(ours[key], theirs[key])}; only the evaluator: "
                     f"{only(theirs[key], ours[key])}")
    return lines


def cut_short(ours: dict, theirs: dict) -> list[str]:
    """With `on_error: cancel` a failed call stops somewhere: what holds wherever that is."""
    lines = []
    if ours["status"] != theirs["status"]:
        lines.append(f"status: engine {ours['status']}, evaluator {theirs['status']}")
    if not any(is_told(cause_of(ours), failure) for failure in theirs["failures"]):
        lines.append(f"cause: engine {cause_of(ours)}, what fails: {theirs['failures']}")
    lines += [f"output {name}: {n} frames, at most {theirs['outputs'][name]}"
              for name, n in ours["outputs"].items() if n > theirs["outputs"][name]]
    return lines


def run_engine(sluice: str, files: list[str], seeds: int) -> list[dict]:
    out = subprocess.run([sluice, "test", "--json", "--seeds", str(seeds), *files],
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    results = [json.loads(line) for line in out.stdout.splitlines()]
    if len(results) != len(files):
        sys.exit(f"the engine stopped at {files[len(results)]} (status {out.returncode})")
    return results


def main():
    a = argparse.ArgumentParser()
    a.add_argument("sluice")
    a.add_argument("--count", type=int, default=500)
    a.add_argument("--seed", type=int, nargs="+", default=[1], help="as many drawings of each")
    a.add_argument("--seeds", type=int, default=3)
    a.add_argument("--keep")
    a.add_argument("--jobs", type=int, default=2)
    a = a.parse_args()
    totals = {"compared": 0, "refused": 0, "too large": 0, "calls": 0, "errors": 0, "firings": 0,
              "cut short": 0, "never run": 0}
    wrong = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = a.keep or temporary
        names = []
        for seed in a.seed:
            drawn = os.path.join(folder, str(seed)) if len(a.seed) > 1 else folder
            generate(seed, a.count, drawn, deadline="1440m")
            names += [os.path.join(drawn, f"s{i:05d}.yaml") for i in range(a.count)]
        cases = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cases")
        names = sorted(glob.glob(f"{cases}/s_*.yaml")) + names
        wrong += refuted(a.sluice, cases, a.seeds)
        batches = [names[at:at + BATCH] for at in range(0, len(names), BATCH)]
        with concurrent.futures.ProcessPoolExecutor(a.jobs, initializer=deep) as pool:
            jobs = [pool.submit(compare_batch, a.sluice, batch, a.seeds) for batch in batches]
            for job in jobs:
                text, different, counts = job.result()
                print(text, end="", flush=True)
                wrong += different
                for key, value in counts.items():
                    totals[key] += value
                if wrong >= 10:
                    for other in jobs:
                        other.cancel()
                    break
    print(", ".join(f"{value} {key}" for key, value in totals.items()) + f", {wrong} different")
    enough = totals["compared"] >= 0.5 * a.count * len(a.seed)
    if not enough:
        print("too few workflows were accepted")
    return 1 if wrong or not enough else 0


def deep():
    sys.setrecursionlimit(100_000)


def never_run(sluice: str, names: list[str]) -> dict:
    """Of each scenario the nodes of which a warning of its workflow says that they never run."""
    flows = collections.defaultdict(list)
    for name in names:
        with open(name) as f:
            flow = re.search(r"^workflow: (.+)$", f.read(), re.M)
        flows[os.path.join(os.path.dirname(name), flow[1])].append(name)
    out = subprocess.run([sluice, "validate", "--format", "json", *flows],
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    found = collections.defaultdict(set)
    for said in json.loads(out.stdout):
        if said["code"] == "count-never-reached":
            for name in flows[said["file"]]:
                found[name].add(re.match(r"node '(\w+)' waits for", said["message"])[1])
    return found


def compare_batch(sluice: str, names: list[str], seeds: int) -> tuple[str, int, dict]:
    """What differs, in words, how many workflows do, and what was seen."""
    totals, expected = collections.Counter(), {}
    for name in names:
        try:
            expected[name] = evaluate(name)
        except TooLarge:  # it fires so often that the comparison would take for ever
            totals["too large"] += 1
        except (AssertionError, AttributeError):
            expected[name] = None  # a workflow that validation must refuse: `compare` sees to it
    out = io.StringIO()
    wrong = 0
    idle = never_run(sluice, list(expected))
    with contextlib.redirect_stdout(out):
        for name, result in zip(expected, run_engine(sluice, list(expected), seeds)):
            wrong += compare(name, result, expected[name], totals, idle[name])
    return out.getvalue(), wrong, dict(totals)


def refuted(sluice: str, cases: str, seeds: int) -> int:
    """Scenarios that expect what does not happen: each must fail, in the words of its first line."""
    wrong = 0
    names = sorted(glob.glob(f"{cases}/refuted_*.yaml"))
    for name, result in zip(names, run_engine(sluice, names, seeds)):
        with open(name) as f:
            said = [part.strip() for part in f.readline().lstrip("# ").split(";")]
        missing = [part for part in said if not any(part in f for f in result["failures"])]
        if result["passed"] or missing:
            print(f"{name}\n    engine: {result['failures']}, it must say {missing}")
            wrong += 1
    return wrong


def compare(name: str, result: dict, expected: dict | None, totals: dict, idle: set = frozenset()) -> int:
    """1 where they differ; `idle` are the nodes of which validation says that they never run."""
    refused = not result["calls"] and any(f.startswith("workflow:") for f in result["failures"])
    if too_wide(name) and not refused:
        print(f"{name}\n    a node has too many fields, and the engine says {result['failures']}")
        return 1
    waits = any(words in f for f in result["failures"] for words in REFUSED_FOR_WAITING)
    if refused and waits and not waits_for_ever(name):
        print(f"{name}\n    none of its joins can wait for ever: {result['failures']}")
        return 1
    if refused:
        totals["refused"] += 1
        return 0
    totals["compared"] += 1
    problems = [f"engine: {f}" for f in result["failures"]]
    if expected is None or waits_for_ever(name):
        print(f"{name}\n    must be refused: its joins wait for each other")
        return 1
    totals["never run"] += len(idle)
    ran = {firing["node"] for call in expected["calls"] for firing in call["firings"]}
    problems += [f"{node} runs, and validation warns that it never does" for node in idle & ran]
    for i, (ours, theirs) in enumerate(zip(result["calls"], expected["calls"])):
        totals["calls"] += 1
        totals["errors"] += theirs["status"] == "error"
        totals["firings"] += len(theirs["firings"])
        if expected["cancels"] and theirs["status"] == "error":
            totals["cut short"] += 1
            lines = cut_short(ours, theirs)
        else:
            lines = describe(normal(ours), normal(theirs))
        problems += [f"call {i}: {line}" for line in lines]
    if problems:
        print(name)
        for problem in problems[:6]:
            print("   ", problem)
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
