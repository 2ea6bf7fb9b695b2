"""`sluice run` ends though a role never returns. Usage: given_up_test.py SLUICE PLUGINS

The role `trouble` reads a pipe to which nobody writes, and looks at no cancellation.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

SLUICE, PLUGINS = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
WORKFLOW = """sluice: 1
workflow: troubling
inputs: { text: text }
roles: { actor: { plugin: trouble } }
nodes: { act: { run: actor.act, inputs: [ { text: inputs.text } ] } }
outputs: { words: act.word }
limits: { deadline: 500ms }
"""
FAILURES = []


def expect(what, condition, seen):
    if not condition:
        FAILURES.append(f"{what}: {seen}")


def run(folder, wait, *args, stdin=""):
    """Exit status, standard output, lines of standard error; no status: it did not end."""
    command = [SLUICE, "run", os.path.join(folder, "flow.yaml"), "--plugins", PLUGINS, *args]
    try:
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60, pass_fds=[wait])
    except subprocess.TimeoutExpired:
        return None, "", ["it did not end"]
    # How far it is, is said of what takes some seconds.
    return done.returncode, done.stdout, [line for line in done.stderr.splitlines() if not re.search(r", \d+ s$", line)]


def main():
    wait, nobody_writes = os.pipe()
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, "trace.json")
        with open(os.path.join(folder, "flow.yaml"), "w", encoding="utf-8") as flow:
            flow.write(WORKFLOW)
        deed = f"wait {wait}"
        code, out, err = run(folder, wait, "--input", "text=" + deed, "--trace", trace)
        note = "note: what 1 call had begun still runs (act); the program ends without waiting for it"
        expect("one call", code == 1 and not out and len(err) == 3 and err[0].startswith("error: act: ") and
               err[1].startswith("trace: ") and err[2] == note, (code, out, err))
        with open(trace, encoding="utf-8") as written:
            ends = [e["args"] for e in json.load(written)["traceEvents"] if e.get("cat") == "call"]
        expect("its trace", [e["cause"] for e in ends] == ["act"], ends)
        calls = "".join(json.dumps({"session": text, "inputs": {"text": text}}) + "\n" for text in ("well", deed))
        code, out, err = run(folder, wait, "--calls", "-", "--concurrency", "1", stdin=calls)
        results = [json.loads(line) for line in out.splitlines()]
        expect("many calls", code == 1 and [r["ok"] for r in results] == [True, False] and results[1]["error"]["node"] == "act" and
               err == [note], (code, out, err))
        # Its session cannot end: that is an error, and what comes behind is not run.
        lines = [{"session": deed, "inputs": {"text": deed}, "deadline_ms": 50}, {"session": deed, "inputs": {"txt": "x"}, "end_session": True},
                 {"session": "b", "inputs": {"text": "well"}}]
        code, out, err = run(folder, wait, "--calls", "-", "--concurrency", "1", stdin="".join(json.dumps(line) + "\n" for line in lines))
        results = [(r["line"], r["ok"]) for r in map(json.loads, out.splitlines())]
        expect("a session that cannot end", code == 1 and results == [(1, False), (2, False)] and len(err) == 2 and note in err and
               err[0].startswith(f"error: line 2: end_session: session '{deed}' "), (code, out, err))
        code, out, err = run(folder, wait, "--input", "text=well")
        expect("a call that ends", (code, out, err) == (0, "well\n", []), (code, out, err))
    os.close(wait)
    os.close(nobody_writes)
    print("\n".join(FAILURES) if FAILURES else "all as expected")
    sys.exit(1 if FAILURES else 0)


main()
