"""The engine's answers beside the evaluator's, on generated workflows.

    python3 compare.py SLUICE --count 500 --seed 1 [--seeds 3] [--keep FOLDER]

Exit status 1 on the first differences, which are printed with the files that show them.
"""
from __future__ import annotations

import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile

from evaluate import TooLarge, evaluate
from generate import generate

BATCH = 200


def normal(call: dict) -> dict:
    """What both must say alike."""
    cause = call.get("cause")
    return {"status": call["status"], "cause": cause.get("node") if isinstance(cause, dict) else cause,
            "outputs": {k: v for k, v in call["outputs"].items() if v},
            "left over": sorted(w for w in call["warnings"] if w.endswith("left over")),
            "firings": sorted(json.dumps(f, sort_keys=True) for f in call["firings"])}


def describe(ours: dict, theirs: dict) -> list[str]:
    lines = []
    for key in ours:
        if ours[key] == theirs[key]:
            continue
        if key != "firings":
            lines.append(f"{key}: engine {ours[key]}, evaluator {theirs[key]}")
            continue
        only = lambda a, b: [x for x in a if x not in b][:4]
        lines.append(f"firings: {len(ours[key])} and {len(theirs[key])}; only the engine: "
                     f"{only(ours[key], theirs[key])}; only the evaluator: "
                     f"{only(theirs[key], ours[key])}")
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
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--seeds", type=int, default=3)
    a.add_argument("--keep")
    a = a.parse_args()
    sys.setrecursionlimit(100_000)
    totals = {"compared": 0, "refused": 0, "too large": 0, "calls": 0, "errors": 0, "firings": 0}
    wrong = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = a.keep or temporary
        generate(a.seed, a.count, folder)
        names = [os.path.join(folder, f"s{i:05d}.yaml") for i in range(a.count)]
        cases = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cases")
        names = sorted(glob.glob(f"{cases}/s_*.yaml")) + [n for n in names if small(n, totals)]
        for at in range(0, len(names), BATCH):
            batch = names[at:at + BATCH]
            for name, result in zip(batch, run_engine(a.sluice, batch, a.seeds)):
                wrong += compare(name, result, totals)
                if wrong >= 10:
                    break
    print(", ".join(f"{value} {key}" for key, value in totals.items()) + f", {wrong} different")
    enough = totals["compared"] >= 0.5 * a.count
    if not enough:
        print("too few workflows were accepted")
    return 1 if wrong or not enough else 0


def small(name: str, totals: dict) -> bool:
    """False when it fires so often that the comparison would take for ever."""
    try:
        evaluate(name)
    except TooLarge:
        totals["too large"] += 1
        return False
    except (AssertionError, AttributeError):
        pass  # a workflow that validation must refuse: `compare` sees to it
    return True


def compare(name: str, result: dict, totals: dict) -> int:
    if not result["calls"] and result["failures"] and result["failures"][0].startswith("workflow:"):
        totals["refused"] += 1
        return 0
    totals["compared"] += 1
    expected = evaluate(name)
    problems = [f"engine: {f}" for f in result["failures"]]
    for i, (ours, theirs) in enumerate(zip(result["calls"], expected["calls"])):
        totals["calls"] += 1
        totals["errors"] += theirs["status"] == "error"
        totals["firings"] += len(theirs["firings"])
        problems += [f"call {i}: {line}" for line in describe(normal(ours), normal(theirs))]
    if problems:
        print(name)
        for problem in problems[:6]:
            print("   ", problem)
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
