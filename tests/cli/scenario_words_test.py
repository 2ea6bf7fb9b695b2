"""What `sluice test` and `simulate` say where time, a bound or a file decides, not the workflow.

    scenario_words_test.py SLUICE REPOSITORY
"""
import os
import subprocess
import sys
import tempfile

SLUICE, ROOT = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
failures = []
# `a` and `b` behind each other; %A and %B stand for what more these nodes say.
TWO = """sluice: 1
workflow: two
inputs: { q: text }
roles: { any: { plugin: scripted } }
nodes:
  a: { run: any.a, inputs: [ { x: inputs.q } ], outputs: [y]%A }
  b: { run: any.b, inputs: [ { x: a.y } ], outputs: [z]%B }
outputs: { o: b.z }
"""


def expect(what, condition, seen):
    if not condition:
        failures.append(f"{what}: {seen}")


def sluice(*args, seconds=120):
    done = subprocess.run([SLUICE, *args], capture_output=True, timeout=seconds, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")


def write(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def scenario(folder, a, b, does, wanted):
    """A scenario of TWO: `does` is the script of `a`, `wanted` what is expected of its call."""
    write(folder, "two.yaml", TWO.replace("%A", a).replace("%B", b))
    return write(folder, "two.scenario.yaml", "scenario: two\nworkflow: two.yaml\ncalls: [ { inputs: { q: x } } ]\n"
                 f"nodes: {{ a: {does} }}\nexpect: {{ calls: [ {wanted} ] }}\n")


def passes(what, file, *args, fails=""):
    """It passes; with `fails` it fails, and says so."""
    code, out, err = sluice("test", file, "--seeds", "60", *args)
    expect(what, code == (1 if fails else 0) and fails in out, (code, out, err))


def nothing(scratch):
    """That a call brings no output at all is said in one word, and an empty map says nothing."""
    silent = "{ yields: [] }"
    passes("no output", scenario(scratch, "", "", silent, "{ status: ok, outputs: none }"))
    passes("an output after all", scenario(scratch, "", "", "{}", "{ outputs: none }"),
           fails="output o brought 1 frame, expected no output")
    code, out, err = sluice("test", scenario(scratch, "", "", silent, "{ outputs: {} }"))
    expect("an empty map", code == 1 and "two.scenario.yaml:5:31: error: outputs is empty" in out + err
           and "outputs: none expects no output at all" in out + err, (code, out, err))
    # Why there is none is said too.
    code, out, err = sluice("test", scenario(scratch, "", "", silent, "{ status: ok, outputs: none }"))
    expect("the reason", "the call brought no output: o did not come from b.z: node 'a' ran and yielded nothing on 'y'"
           in out + err, (code, out, err))


def deadlines(scratch):
    """What comes at a node's deadline itself may stand on either side of it."""
    for does in ("{ latency: [5ms, 5ms] }", "{ latency: [1ms, 9ms] }", "{ latency: 4ms }",
                 "{ latency: [5ms, 5ms], yields: [ [y], [y], [y] ] }",
                 "{ latency: [6ms, 12ms], yields: [ [y], [y], [y] ] }", "{ latency: 5ms, fail: true }"):
        passes(f"time decides: {does}", scenario(scratch, ", deadline: 5ms", "", does, "{ outputs: { o: 3 } }"))
    # What is expected of a call must hold in every order.
    hopes = scenario(scratch, ", deadline: 5ms", "", "{ latency: [5ms, 5ms] }", "{ status: ok }")
    passes("in time by chance", hopes, fails="status is error, expected ok (node 'a' was not done within its deadline of "
           "5 ms; with the latency of its script it does in some orders only)")
    # Sure to be late, or to be in time: everything is compared.
    late = scenario(scratch, ", deadline: 5ms", "", "{ latency: [6ms, 9ms] }", "{ outputs: { o: 1 } }")
    passes("it is always late", late, fails="output o brought 0 frames, expected 1")
    soon = scenario(scratch, ", deadline: 5ms", "", "{ latency: [1ms, 3ms] }", "{ outputs: { o: 2 } }")
    passes("it is never late", soon, fails="output o brought 1 frame, expected 2")


def ages(scratch):
    """`max_age` is a limit of time as a node's deadline is."""
    old = ", max_age: 50ms"
    passes("sometimes too old", scenario(scratch, "", old, "{ latency: [10ms, 100ms] }",
                                         "{ status: ok, outputs: { o: 1 } }"))
    passes("as old as may be", scenario(scratch, "", old, "{ latency: 50ms }", "{ outputs: { o: 1 } }"))
    never = scenario(scratch, "", old, "{ latency: [10ms, 40ms] }", "{ outputs: { o: 2 } }")
    passes("never too old", never, fails="output o brought 1 frame, expected 2")
    always = scenario(scratch, "", old, "{ latency: [51ms, 90ms] }", "{ outputs: { o: 1 } }")
    passes("always too old", always, fails="output o brought 0 frames, expected 1")
    more = scenario(scratch, "", old, "{ latency: [10ms, 100ms] }", "{ outputs: { o: 0 } }")
    passes("no more than expected", more, fails="output o brought 1 frame, expected 0")


def outputs_limit(scratch):
    """The limit of frames at an output is the call's own: its cause is `inputs`."""
    nodes = "".join(f"  {name}: {{ run: up.{name}, inputs: [ {{ t: {source} }} ] }}\n"
                    for name, source in (("a", "inputs.text"), ("b", "a.x"), ("c", "b.x")))
    write(scratch, "many.yaml", "sluice: 1\nworkflow: many\ninputs: { text: text }\nroles: { up: { plugin: scripted } }\n"
          f"nodes:\n{nodes}outputs: {{ o: c.x }}\nlimits: {{ frames: 10 }}\n")
    for cause, fails in (("inputs", ""), ("c", "the cause is inputs, expected c")):
        passes("27 frames of 10", write(scratch, "many.scenario.yaml", "scenario: 27\nworkflow: many.yaml\n"
               "calls: [ { inputs: { text: q } } ]\nnodes:\n" +
               "".join(f"  {name}: {{ yields: [ [x], [x], [x] ] }}\n" for name in "abc") +
               f"expect: {{ calls: [ {{ status: error, cause: {cause} }} ] }}\n"), fails=fails)


def multiplied(scratch):
    """A loop of which each turn makes two frames ends at the limit of frames, in the same words in every order."""
    flow = write(scratch, "multiplied.yaml", """sluice: 1
workflow: multiplied
inputs: { q: text }
roles: { any: { plugin: scripted } }
nodes:
  a: { run: any.a, inputs: [ { x: inputs.q }, { x: b.y } ] }
  b: { run: any.b, inputs: [ { y: a.y } ] }
outputs: { o: b.y }
limits: { frames: 2000 }
""")
    file = write(scratch, "multiplied.scenario.yaml", "scenario: m\nworkflow: multiplied.yaml\ncalls: [ { inputs: { q: x } } ]\n"
                 "nodes: { b: { yields: [ [y], [y] ] } }\nexpect: { calls: [ { status: %s } ] }\n")
    text = open(file, encoding="utf-8").read()
    write(scratch, "multiplied.scenario.yaml", text % "error")
    code, out, err = sluice("test", file)
    expect("a loop that multiplies", code == 0 and "20 seeds each" in out, (code, out, err))
    write(scratch, "multiplied.scenario.yaml", text % "ok")
    code, out, err = sluice("test", file)
    limit = "reached the limit of 2000 frames for a node of a loop (limits: frames)"
    expect("a loop that should not multiply", code == 1 and limit in out and "C7" not in out, (code, out, err))
    profile = write(scratch, "profile.yaml", "profile: p\nnodes:\n  b: { yields: [ [y], [y] ] }\n")
    code, out, err = sluice("simulate", flow, "--profile", profile, "--calls", "1")
    expect("simulated", code == 1 and limit in out and "VIOLATION" not in out, (code, out, err))


def found_in_a_folder(scratch):
    """What was meant to be a scenario is one; what shows nothing of it is passed over."""
    folder = os.path.join(scratch, "folder")
    os.mkdir(folder)
    write(folder, "two.yaml", TWO.replace("%A", "").replace("%B", ""))
    write(folder, "good.yaml", "scenario: good\nworkflow: two.yaml\ncalls: [ { inputs: { q: x } } ]\n")
    write(folder, "broken.yaml", "scenario: x\nworkflow: [\n")
    write(folder, "misspelt.yaml", "scenaro: x\nworkflow: two.yaml\n")
    write(folder, "called.yaml", "scenarios: x\ncalls: []\n")
    write(folder, "other.yaml", "foo: [\n")
    write(folder, "bytes.yaml", "\x01\n")
    code, out, err = sluice("test", folder, "--seeds", "2")
    said = {os.path.basename(line.split()[1]): line.split()[0] for line in out.splitlines()
            if line.startswith(("ok ", "FAILED "))}
    expect("scenarios of a folder", code == 1 and said == {"good.yaml": "ok", "broken.yaml": "FAILED", "misspelt.yaml": "FAILED",
                                                           "called.yaml": "FAILED"}, (code, said, out, err))


def shapes_of_yaml(scratch):
    """What the parser gives up on is said as what it is."""
    for name, text, words in (
            ("deep", "sluice: 1\nworkflow: " + "[" * 600 + "]" * 600 + "\n", "nesting is deeper than 64"),
            ("deeper", "sluice: 1\nworkflow: " + "[" * 5000 + "]" * 5000 + "\n", "nesting is deeper than 64"),
            ("key", "sluice: 1\nnodes:\n  " + "b" * 300000 + ": { run: any.b }\n", ":3:3: error: this key is longer than 1024 bytes")):
        code, out, err = sluice("validate", write(scratch, name + ".yaml", text))
        expect(name, code == 1 and words in out + err and "help: " in out + err, (code, out[-300:], err[-300:]))


def said_once(scratch):
    """One mistake is one error."""
    plain = TWO.replace("%A", "").replace("%B", "")
    inputs = ", ".join(f"i{i}: text" for i in range(65))
    for name, text, words in (
            ("capital", plain.replace("  b: {", "  B: {"), "'B' cannot be a node's name"),
            ("complex", plain + "? [a, b]\n: c\n", "a key must be a word, this is a map or a list"),
            ("merge", plain.replace("{ plugin: scripted }", "{ <<: { plugin: scripted } }"), "merge keys are not allowed"),
            ("inputs", plain.replace("{ q: text }", f"{{ q: text, {inputs} }}"), "the limit is 64")):
        code, out, err = sluice("validate", write(scratch, name + ".yaml", text))
        expect(name, code == 1 and words in out + err and "1 file, 1 error, 0 warnings" in out + err, (code, out[-900:], err[-900:]))


def unsaid_counts(folder):
    """A count by a number that the scenario gives nowhere is warned of, at the script of the node that makes it."""
    counted = TWO.replace("outputs: [y]%A", "outputs: [y, n]").replace("{ x: a.y } ]", "{ x: a.y } ], count: { x: a.n }").replace("%B", "")
    write(folder, "counted.yaml", counted)
    head = "scenario: s\nworkflow: counted.yaml\ncalls: [ { inputs: { q: x } } ]\n"
    for nodes, place in (("", "1:1"), ("nodes: { a: { yields: [ [y, n] ] } }\n", "4:10"), ("nodes: { a: { values: { n: 1 } } }\n", ""),
                         ("nodes: { a: { fail: true } }\n", "")):
        path = write(folder, "counted.scenario.yaml", head + nodes + "expect: { calls: [ { status: ok } ] }\n")
        code, out, err = sluice("test", path, "--seeds", "2")
        code = 0 if "fail" in nodes else code  # what it expects is not what this is about
        want = f"{path}:{place}: warning: node 'b' counts by a.n, a number that no `values` give: it is 0, or never comes [unsaid-count]"
        expect(f"a count by a number that is given or not: {nodes}", code == 0 and (err.startswith(want) if place else not err), (out, err))


def missing_workflow(folder):
    path = write(folder, "astray.scenario.yaml", "scenario: s\nworkflow: astray.yaml\ncalls: [ { inputs: { q: x } } ]\nexpect: { calls: [ { status: ok } ] }\n")
    code, out, err = sluice("test", path)
    expect("a workflow that is not there, at its line", code == 1 and f"{path}:2:11: error: there is no file " in err and
           err.count("error:") == 1, (out, err))
    code, out, err = sluice("simulate", write(folder, "one.yaml", TWO.replace("%A", "").replace("%B", "")), "--profile", path, "--calls", "3")
    expect("a profile is of the workflow that is given", code == 0, (code, out, err))


def main():
    with tempfile.TemporaryDirectory() as scratch:
        nothing(scratch)
        unsaid_counts(scratch)
        missing_workflow(scratch)
        deadlines(scratch)
        ages(scratch)
        outputs_limit(scratch)
        multiplied(scratch)
        found_in_a_folder(scratch)
        shapes_of_yaml(scratch)
        said_once(scratch)
    for failure in failures:
        print(f"FAILED {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
