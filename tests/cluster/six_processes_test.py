"""The same workflow files in one process and as six processes (a home and five machines): the same bytes.

    python3 six_processes_test.py SLUICE ROOT

SmolLM2's chat too where `fetched/` has the model. Nothing sleeps: conditions are polled.
"""
from __future__ import annotations

import glob
import json
import os
import subprocess
import sys
import tempfile

from cluster_test import ROOT, SLUICE, check, children, failures, picture, run_and_clean, started

PROCESSES = 6


def text(words: str) -> dict:
    return {"type": "text", "text": words}


QUESTION = [picture(), text("what color is the circle")]
CAPITAL = [text("What is the capital of France?")]
# Name: workflow, roles of the machines besides the home, turns (session and what is said).
CASES = {
    "image_chat": ("image_chat", ["parser", "vit", "vit", "vae", "llm, diffusion"],
                   [("q", QUESTION), ("d", [text("draw a red circle")]), ("q", [text("what color is the square")])]),
    "vlm_split": ("vlm_split", ["parser", "eyes", "eyes", "llm", "llm"],
                  [("a", [picture(), text("What is there?")]), ("b", [text("And here?")]), ("a", [text("What else?")])]),
    "prefill_decode": ("prefill_decode", ["parser", "reader, writer", "writer", "reader", "writer"],
                       [("a", [text("What is there?")]), ("b", [text("And here?")]), ("c", [text("What else?")]),
                        ("a", [text("Go on.")])]),
    "smollm2": ("chat", ["parser", "llm", "llm", "llm", "llm"],
                [("a", CAPITAL), ("b", [text("Name three colors.")]), ("a", [text("And of Italy?")])]),
}


def write_cluster(path: str, workflow: str, machines: list[str]) -> None:
    with open(path, "w", encoding="utf-8") as out:
        out.write(f"cluster: 1\nworkflows: [ {workflow} ]\nmachines:\n  front: {{ home: true }}\n")
        for number, roles in enumerate(machines):
            out.write(f"  m{number}: {{ roles: [ {roles} ] }}\n")


def run(words: list[str], calls: str, outputs: str) -> tuple[dict, dict, int]:
    """(results by id, files by name, the most processes at once)"""
    os.mkdir(outputs)
    process = subprocess.Popen([SLUICE, "run", *words, "--calls", calls, "--out", outputs, "--concurrency", "1"],
                               cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    started.append(process)
    most = 1
    while process.poll() is None:
        most = max(most, 1 + len(children(process.pid)))
        try:
            process.wait(0.01)
        except subprocess.TimeoutExpired:
            pass
    said, errors = process.communicate()
    check(process.returncode == 0, f"run {words}: {errors}")
    results = {json.loads(line)["id"]: line.replace(outputs, "") for line in said.splitlines()}
    files = {}
    for name in os.listdir(outputs):
        with open(os.path.join(outputs, name), "rb") as file:
            files[name] = file.read()
    return results, files, most


def compare(name: str, folder: str, sets: list[str]) -> None:
    workflow, machines, turns = CASES[name]
    path = f"{ROOT}/workflows/{workflow}.yaml"
    cluster, calls = os.path.join(folder, f"{name}.yaml"), os.path.join(folder, f"{name}.jsonl")
    write_cluster(cluster, path, machines)
    with open(calls, "w", encoding="utf-8") as out:
        for number, (session, content) in enumerate(turns):
            inputs = {"request": {"content": content, "options": {"max_tokens": 12}}}
            out.write(json.dumps({"id": number, "session": session, "inputs": inputs}) + "\n")
    one, one_files, _ = run([path, *sets], calls, os.path.join(folder, f"{name}-one"))
    six, six_files, most = run(["--cluster", cluster, *sets], calls, os.path.join(folder, f"{name}-six"))
    check(most == PROCESSES, f"{name}: {most} processes")
    check(len(one) == len(turns) and all(json.loads(line)["outputs"] for line in one.values()), f"{name}: {one}")
    check(one == six, f"{name}: one process: {one}, six: {six}")
    check(one_files == six_files, f"{name}: one process and six do not draw the same")
    size = sum(map(len, [*six.values(), *six_files.values()]))
    print(f"{name}: the same bytes as {most} processes and as one ({size} in all)")


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_RUNTIME_DIR"] = folder
        for name in ("image_chat", "vlm_split", "prefill_decode"):
            compare(name, folder, [])
        if found := glob.glob(os.path.join(ROOT, "fetched/**/SmolLM2*.gguf"), recursive=True):
            compare("smollm2", folder, ["--set", f"roles.llm.model={found[0]}",
                                        "--set", f"global_params.kv.model={found[0]}"])
        else:
            print("SmolLM2 is not in fetched/: skipped")
    return 1 if failures else 0


if __name__ == "__main__":
    run_and_clean(main)
