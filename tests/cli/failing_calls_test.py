"""Each call to the system that a command makes on the user's files fails, one at a time: what the user sees then.

    failing_calls_test.py SLUICE REPOSITORY LIBRARY

LIBRARY is faults/failing_call.cpp, which is loaded before the program's own. What comes of each call is compared, word
for word, with failing_calls.txt; with SLUICE_REWRITE set that is written anew: read the difference before it is committed.
"""
import concurrent.futures
import difflib
import errno
import os
import re
import shutil
import subprocess
import sys
import tempfile

SLUICE, ROOT, LIBRARY = map(os.path.abspath, sys.argv[1:4])
KEPT = os.path.join(ROOT, "tests/cli/failing_calls.txt")
# Each function, and how it fails. EINTR and "less" are no failures: a signal came, or it did less than was asked.
FUNCTIONS = {"open": "EIO ENOENT EEXIST", "read": "EIO EINTR less", "write": "EIO EINTR less", "stat": "EIO ENOENT", "lstat": "EIO ENOENT",
             **dict.fromkeys("close mmap fstat fsync fchmod ftruncate mkdir chmod bind listen unlink rmdir rename link".split(), "EIO")}
CALLS_MOST = 40

FLOW = """sluice: 1
workflow: lines
inputs: { t: text, b: bytes, request: json }
roles: { reader: { plugin: parse_request } }
nodes: { parse: { run: reader.parse, inputs: [ { request: inputs.request } ] } }
outputs: { t: inputs.t, b: inputs.b, out: parse.text }
"""
SCENARIO = """scenario: s
workflow: flow.yaml
calls: [ { session: a, inputs: { t: x, b: x, request: x } } ]
nodes: { parse: { yields: [ [text] ] } }
expect: { calls: [ { status: ok } ] }
"""
LIBRARY_FLOW = """sluice: 1
workflow: main
include: [ roles.yaml ]
inputs: { x: text }
nodes: { say: { run: any.say, inputs: [ { x: inputs.x } ], outputs: [y] } }
outputs: { y: say.y }
"""
PLACED_FLOW = """sluice: 1
workflow: placed
include: [ readers.yaml ]
inputs: { x: json }
nodes: { say: { run: any.parse, inputs: [ { request: inputs.x } ] } }
outputs: { y: say.text }
"""
REQUEST = '{"content": [{"type": "text", "text": "hello"}]}'
CALL = '{"inputs": {"t": {"file": "HERE/t.txt"}, "b": {"base64": "AAEC"}, "request": %s}}\n' % REQUEST
TRACE = """{"traceEvents": [{"ph": "X", "cat": "call", "name": "call", "ts": 0, "dur": 9, "args": {"call": 0, "session": "s", "status": "ok"}}]}"""
MANIFEST = """sluice_role: 1
name: shout
abi: 1.0
kind: plain
interfaces: { say: { inputs: { x: { type: text } }, outputs: { y: { type: text } } } }
"""
FILES = {"flow.yaml": FLOW, "s.yml": SCENARIO, "tests/s.yml": SCENARIO.replace("flow.yaml", "../flow.yaml"), "main.yaml": LIBRARY_FLOW, "placed.yaml": PLACED_FLOW,
         "readers.yaml": "sluice: 1\nroles: { any: { plugin: parse_request } }\n", "roles.yaml": "sluice: 1\nroles: { any: { plugin: scripted } }\n",
         "t.txt": "words", "request.json": REQUEST, "calls.jsonl": CALL + CALL, "trace.json": TRACE, "roles/shout.role.yaml": MANIFEST,
         "home.yaml": "cluster: 1\nworkflows: [ flow.yaml ]\nmachines:\n  m: { home: true, roles: [ reader ] }\n",
         "cluster.yaml": "cluster: 1\nworkflows: [ placed.yaml ]\nkeys: keys\nmachines:\n  m: { home: true, roles: [ any ] }\n"}


def commands():
    """What is typed, with HERE for the folder of the files."""
    one = ["run", "HERE/flow.yaml", "--input", "t=@HERE/t.txt", "--input", "b=@HERE/t.txt"]
    yield ["validate", "HERE/main.yaml"]
    yield ["validate", "HERE/cluster.yaml", "HERE/s.yml", "HERE/roles/shout.role.yaml"]
    yield ["plan", "HERE/main.yaml"]
    yield ["test", "HERE/tests", "--seeds", "2"]
    yield ["simulate", "HERE/main.yaml", "--calls", "2", "--profile", "HERE/s.yml"]
    yield ["simulate", "HERE/main.yaml", "--calls", "2", "--trace", "HERE/new.json"]
    yield ["why", "HERE/trace.json", "0"]
    yield [*one, "--request", "HERE/request.json", "--out", "b=HERE/b.bin", "--out", "t=HERE/t.out"]
    yield [*one, "--request", "HERE/request.json", "--trace", "HERE/new.json"]
    yield ["run", "HERE/flow.yaml", "--calls", "HERE/calls.jsonl", "--concurrency", "1", "--out", "HERE/outs"]
    yield ["keys", "HERE/keys", "--machine", "m", "--machine", "n"]
    yield ["new", "role", "shout", "HERE/shout"]
    over = ["--cluster", "HERE/home.yaml"]
    yield ["run", *over, *one[2:], "--request", "HERE/request.json"]
    yield ["status", *over]
    yield ["down", *over]
    yield ["roles", "shout", "--plugins", "HERE/roles"]


def run(arguments, fault):
    """What is seen, and whether a call failed. `fault`: function, its place from 1, number of the error; or nothing."""
    with tempfile.TemporaryDirectory() as place:
        here, hit = os.path.join(place, "here"), os.path.join(place, "hit")
        for name, text in FILES.items():
            os.makedirs(os.path.dirname(os.path.join(here, name)), exist_ok=True)
            with open(os.path.join(here, name), "w", encoding="utf-8") as file:
                file.write(text.replace("HERE", here))
        run_time = os.path.join(here, "run")
        os.makedirs(run_time, mode=0o700)
        environment = {**os.environ, "XDG_RUNTIME_DIR": run_time, "OMP_NUM_THREADS": "1"}
        if fault:
            function, at, number = fault
            environment |= {"LD_PRELOAD": LIBRARY, "FAIL_UNDER": here, "FAIL_HIT": hit, "FAIL_FUNCTION": function,
                            "FAIL_AT": str(at), "FAIL_ERRNO": str(number)}
        done = subprocess.run([SLUICE, *(word.replace("HERE", here) for word in arguments)], cwd=here, capture_output=True, text=True,
                              timeout=120, stdin=subprocess.DEVNULL, env=environment)
        err = "".join(line for line in done.stderr.splitlines(True) if not re.search(r", \d+ s$", line))
        seen = f"[{done.returncode}]\n{done.stdout}{err}" + left(here)
        seen = re.sub(r"(?<=\.public  )\S{40}$", "KEY", seen, flags=re.M)
        seen = re.sub(r"(?<=\.secret\.)\d+", "PROCESS", seen)
        seen = re.sub(r"sluice/[0-9a-f]{16}\b", "sluice/CLUSTER", seen)  # by where the files lie
        seen = re.sub(r" +$", "", seen, flags=re.M)
        return seen.replace(here, "HERE").replace(place, "PLACE"), os.path.exists(hit)


def left(here):
    """What has changed in the folder."""
    text = ""
    for at, _, names in sorted(os.walk(here)):
        for path in sorted(os.path.join(at, name) for name in names):
            size, name = os.path.getsize(path), os.path.relpath(path, here)
            if name not in FILES or size != len(FILES[name].replace("HERE", here)):
                # A trace has times in it, a lock the number of its process.
                varies = size > 0 and name.endswith((".json", ".lock"))
                text += f"left: {name}, " + ("not empty\n" if varies else f"{size} bytes\n")
    return text


def ranges(numbers):
    """[1, 2, 3, 5] -> "1-3, 5" """
    parts = []
    for number in numbers:
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def difference(well, seen):
    """What is said that is not said when all is well, and how many lines of that are gone."""
    lines = list(difflib.unified_diff(well.splitlines(True), seen.splitlines(True), n=0))[2:]
    gone = sum(line.startswith("-") for line in lines)
    more = "".join(line[1:] for line in lines if line.startswith("+"))
    return more + (f"({gone} lines are gone)\n" if gone else "") or "as if nothing were\n"


def outcomes(arguments):
    """The command's part of the text: what is seen when all is well, and how each failing call changes it."""
    well, _ = run(arguments, None)
    text, by_seen = f"$ sluice {' '.join(arguments)}\n{well}", {}
    for function, ways in FUNCTIONS.items():
        for how in ways.split():
            for at in range(1, CALLS_MOST + 1):
                seen, hit = run(arguments, (function, at, getattr(errno, how, 0)))
                if not hit:
                    break
                by_seen.setdefault(difference(well, seen), {}).setdefault(f"{function} {how}", []).append(at)
            if not hit and at == 1:
                break  # nor does it in another way
    for seen, calls in by_seen.items():
        text += "# " + "; ".join(f"{call} {ranges(numbers)}" for call, numbers in calls.items()) + "\n" + seen
    return text + "\n"


def main():
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        seen = "".join(pool.map(outcomes, commands()))
    if os.environ.get("SLUICE_REWRITE"):
        with open(KEPT, "w", encoding="utf-8") as file:
            file.write(seen)
    with open(KEPT, encoding="utf-8") as file:
        kept = file.read()
    for line in list(difflib.unified_diff(kept.splitlines(), seen.splitlines(), "read", "now", lineterm="", n=2))[:80]:
        print(line)
    sys.exit(0 if kept == seen else 1)


main()
