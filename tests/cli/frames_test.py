"""A loop whose turns multiply their frames, as `sluice run` runs it: the call fails by its limit of frames, which names
the node, not by its deadline, and in little memory; a call after it ends well. Frames that multiply without a loop
are cut short by the deadline.

    frames_test.py SLUICE ROOT PLUGINS here|machines [sanitized]

`here` in one process, by a role that is built in too; `machines` over two processes.
"""
import json
import os
import resource
import subprocess
import sys
import tempfile

SLUICE, ROOT, PLUGINS, WHERE = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), os.path.abspath(sys.argv[3]), sys.argv[4]
MOST, DEADLINE = 3000, 20  # frames, seconds
# A run takes 20 to 40 MB; one that nothing stops grows by some 300 MB a second.
MEGABYTES = 1000 if "sanitized" in sys.argv[5:] else 200
COPIES = f"""sluice: 1
workflow: copies
inputs: {{ text: text, plain: text }}
roles:
  one: {{ plugin: copies, replicas: 2, options: {{ times: 2 }} }}
  two: {{ plugin: copies, replicas: 2, options: {{ times: 3 }} }}
nodes:
  there: {{ run: one.copy, inputs: [ {{ text: inputs.text }}, {{ text: back.text }} ] }}
  back: {{ run: two.copy, inputs: [ {{ text: there.text }} ] }}
outputs: {{ text: [back.text, inputs.plain] }}
limits: {{ deadline: {DEADLINE}s, loop_iterations: 1000, frames: {MOST} }}
"""
MODEL = os.path.join(ROOT, "tests/golden/gguf/llama.gguf")
ANSWERS = f"""sluice: 1
workflow: answers
inputs: {{ text: text, plain: text }}
global_params: {{ kv: {{ kind: paged_kv, model: {MODEL} }} }}
roles:
  talk: {{ plugin: chat_model, model: {MODEL}, global_params: [kv], balance: session, options: {{ max_tokens: 3 }} }}
nodes:
  say: {{ run: talk.answer, inputs: [ {{ text: inputs.text }}, {{ text: say.token }} ] }}
outputs: {{ token: [say.token, inputs.plain] }}
limits: {{ deadline: {DEADLINE}s, loop_iterations: 1000, frames: 40 }}
"""
CLUSTER = """cluster: 1
workflows: [ flow.yaml ]
machines:
  front: { home: true, roles: [ one ] }
  other: { roles: [ two ] }
"""
NODES = 22  # of a chain without a loop, each of which gives out two frames for one: 2^22 of the last, which nobody reads
CHAIN = "".join(f"  n{i}: {{ run: one.copy, inputs: [ {{ text: {f'n{i - 1}' if i else 'inputs'}.text }} ] }}\n" for i in range(NODES))
DOUBLES = f"""sluice: 1
workflow: doubles
inputs: {{ text: text }}
roles: {{ one: {{ plugin: copies, replicas: 2, options: {{ times: 2 }} }} }}
nodes:
{CHAIN}  last: {{ run: one.copy, inputs: [ {{ text: inputs.text }} ] }}
outputs: {{ text: last.text }}
limits: {{ deadline: DEADLINE, frames: FRAMES }}
"""
failures = []


def check(condition, what):
    if not condition:
        failures.append(what)


def run(folder, flow, nodes, most, arguments):
    """Two calls, of which the first multiplies: what is said of each."""
    with open(os.path.join(folder, "flow.yaml"), "w", encoding="utf-8") as out:
        out.write(flow)
    calls = "".join(json.dumps({"inputs": inputs}) + "\n" for inputs in ({"text": "ab", "plain": None}, {"text": None, "plain": "whole"}))
    done = subprocess.run([SLUICE, "run", *arguments, "--plugins", PLUGINS, "--calls", "-", "--concurrency", "1"], cwd=folder,
                          input=calls, capture_output=True, text=True, timeout=120, env={**os.environ, "XDG_RUNTIME_DIR": folder})
    said = [json.loads(line) for line in done.stdout.splitlines()]
    check(len(said) == 2 and done.returncode == 1, f"{arguments}: {done.returncode}, {done.stdout[:500]!r} {done.stderr[:500]!r}")
    if len(said) != 2:
        return
    error = said[0].get("error") or {}
    check(not said[0]["ok"] and error.get("code") == "exhausted" and error.get("node") in nodes and error["message"].startswith(
        f"node '{error['node']}' reached the limit of {most} frames for a node of a loop (limits: frames)"),
          f"the call that multiplies: {error}")
    check(said[1]["ok"] and "whole" in json.dumps(said[1]["outputs"]), f"the call after it: {said[1]}")
    used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
    check(used < MEGABYTES, f"it took {used} MB")


def doubles(folder, deadline, frames, words):
    """Frames without end, which would end well: the call ends at a limit, long before all are handled, and says it."""
    with open(os.path.join(folder, "flow.yaml"), "w", encoding="utf-8") as out:
        out.write(DOUBLES.replace("DEADLINE", deadline).replace("FRAMES", frames))
    done = subprocess.run([SLUICE, "run", "flow.yaml", "--plugins", PLUGINS, "--input", "text=ab"], cwd=folder,
                          capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
    check(done.returncode == 1 and words in done.stderr, f"{NODES} nodes that double: {done.returncode}, {done.stderr[-500:]}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        if WHERE == "machines":
            cluster = os.path.join(folder, "cluster.yaml")
            with open(cluster, "w", encoding="utf-8") as out:
                out.write(CLUSTER)
            run(folder, COPIES, ("there", "back"), MOST, ["--cluster", cluster])
        else:
            run(folder, COPIES, ("there", "back"), MOST, ["flow.yaml"])
            run(folder, ANSWERS, ("say",), 40, ["flow.yaml"])
            doubles(folder, "500ms", "1000000000", "the call did not end within its deadline of 500 ms (limits: deadline)")
            doubles(folder, "60m", "3000", "reached the limit of 3000 frames that come to a node in one call (limits: frames)")
    print("\n".join(failures) if failures else "all as expected")
    sys.exit(1 if failures else 0)


main()
