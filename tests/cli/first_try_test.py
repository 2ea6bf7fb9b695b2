"""What somebody types who has not read the documents yet: nothing is dropped without a word, and every refusal says which
option or file it is about and what to do.

    first_try_test.py SLUICE REPOSITORY
"""
import json
import os
import re
import subprocess
import sys
import tempfile

SLUICE, ROOT = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
CHAT, GGUF = "workflows/image_chat.yaml", "tests/golden/gguf/llama.gguf"
failures = []
WORDS = """sluice: 1
workflow: words
inputs: { request: json, n: number, j: json }
roles: { reader: { plugin: parse_request } }
nodes:
  parse: { run: reader.parse, inputs: [ { request: inputs.request } ] }
OTHERoutputs: { text: parse.text, n: inputs.n, j: inputs.j }
"""
COUNTED = "  second: { run: reader.parse, inputs: [ { request: inputs.request } ], count: { request: inputs.n } }\n"


def sluice(*args, stdin=b""):
    done = subprocess.run([SLUICE, *args], cwd=ROOT, capture_output=True, input=stdin, timeout=120)
    # How far it is, is said of what takes some seconds.
    err = re.sub(r"(?m)^.*, \d+ s\n", "", done.stderr.decode(errors="replace"))
    return done.returncode, done.stdout.decode(errors="replace"), err


def expect(what, condition, seen):
    if not condition:
        failures.append(f"{what}: {seen}")


def refused(what, status, *needles, args, **how):
    """One error, with all these words."""
    code, out, err = sluice(*args, **how)
    errors = [line for line in (out + err).splitlines() if "error: " in line]
    expect(what, code == status and len(errors) == 1 and all(n in errors[0] for n in needles), (code, out, err))


def command_line(flow):
    refused("help of no command", 2, "no command 'nix'", args=["help", "nix"])
    refused("help of nearly a command", 2, "did you mean 'run'?", args=["help", "runn"])
    expect("help of a command", "--prompt" in sluice("help", "run")[1], "")
    expect("help of a group of commands", "sluice validate" not in sluice("model", "--help")[1], "")
    code, out, err = sluice("validate", "--set", "limits.deadline=5s", CHAT, CHAT)
    expect("--set takes one value", code == 0 and out == "2 files, 0 errors, 0 warnings\n", (code, out, err))
    refused("--concurrency of one call", 2, "--concurrency", "--calls", args=["run", flow, "--concurrency", "2"])
    refused("--join-within of no cluster", 2, "--join-within", "--cluster", args=["run", flow, "--join-within", "2"])
    refused("--explain in a format", 2, "--explain", "--format",
            args=["plan", CHAT, "--explain", "generate", "--format", "json"])
    refused("a session without a name", 2, "--session", "empty", args=["run", CHAT, "--prompt", "x", "--session", ""])
    huge = "99999999999999999999"
    for what, args in (("simulate", [CHAT]), ("test", ["workflows"]), ("chat", [GGUF]), ("run", [CHAT, "--prompt", "x"])):
        refused(f"a seed beyond 64 bits: {what}", 2, "--seed", huge, "of 64 bits at most", args=[what, *args, "--seed", huge])
    refused("half a token", 2, "--max-tokens", "is '5.5', it must be a whole number", args=["run", CHAT, "--prompt", "x", "--max-tokens", "5.5"])


def no_such_file(scratch):
    nowhere = os.path.join(scratch, "nowhere")
    for args in (["model", "inspect", nowhere], ["model", "check", nowhere], ["model", "ask", nowhere, "hi"],
                 ["model", "bench", nowhere], ["chat", nowhere], ["run", nowhere], ["validate", nowhere], ["test", nowhere],
                 ["model", "ask", GGUF, "hi", "--image", nowhere], ["model", "check", GGUF, "--inputs", nowhere]):
        refused(f"{args[:2]} of no file", 1, nowhere, "no such file", args=args)
    refused("a text as a checkpoint", 1, "README.md: this is no checkpoint", ".gguf", args=["model", "ask", "README.md", "hi"])
    refused("a trace that cannot be written", 1, "--trace", "No such file", args=["simulate", CHAT, "--trace", nowhere + "/x"])


def kinds_of_files(file):
    profile = file("dp.yaml", "profile: slow\nnodes: { parse: { latency: 5ms } }\n")
    nameless = file("nameless.yaml", "nodes: { parse: { latency: 5ms } }\n")
    for command in ("validate", "plan", "simulate", "run", "test"):
        refused(f"{command} of a profile", 1, "this is a profile", "--profile", args=[command, profile])
    refused("a workflow as a profile", 1, "this is a workflow, not a profile", args=["simulate", CHAT, "--profile", CHAT])
    refused("a profile without its name", 1, "`profile: NAME`", args=["simulate", CHAT, "--profile", nameless])
    misspelt = file("mp.yaml", "profil: slow\nnodes: { parse: { latency: 5ms } }\n")
    code, out, err = sluice("simulate", CHAT, "--profile", misspelt)
    expect("a misspelt profile", code == 1 and "mp.yaml:1:1: error: unknown key 'profil'" in err
           and "did you mean 'profile'?" in err, (code, out, err))
    code, out, err = sluice("simulate", CHAT, "--profile", profile, "--calls", "2")
    expect("a profile", code == 0 and not err, (code, out, err))
    code, out, err = sluice("simulate", CHAT, "--calls", "4", "--seeds", "3")
    expect("no faults, no counts of them", code == 0 and out.count("\n") == 1, (code, out, err))


def texts(file, flow):
    bad = b"a\xffb\n"
    for what, args, stdin in (("a prompt", ["run", CHAT, "--prompt", b"\xff"], b""), ("a prompt's file", ["run", CHAT, "--prompt", "-"], bad),
                              ("a line of chat", ["chat", GGUF], bad), ("chat's system", ["chat", GGUF, "--system", b"\xff"], b""),
                              ("a question", ["model", "ask", GGUF, b"\xff"], b""), ("a question's file", ["model", "ask", GGUF, "-"], bad),
                              ("a system", ["model", "ask", GGUF, "hi", "--system", b"\xff"], b"")):
        refused(f"{what} that is no text", 1, "is not UTF-8", args=args, stdin=stdin)
    refused("a session's name that is no text", 2, "--session: it is no text", "is not UTF-8", args=["run", CHAT, "--prompt", "x", "--session", b"a\xff"])
    refused("an empty question", 1, "PROMPT is empty", args=["model", "ask", GGUF, ""])
    refused("a call that asks nothing", 1, "--prompt TEXT", args=["run", CHAT])
    refused("no pieces", 1, "'content' is empty", args=["run", CHAT, "--input", 'request={"content": []}'])
    twice = '{"content": [{"type": "text", "text": "x"}], "content": []}'
    rest = ["--prompt", "x", "--without", "n"]
    refused("a key twice", 1, "--input j (json)", "'a' stands twice", args=["run", flow, *rest, "--input", 'j={"a": 1, "a": 2}'])
    refused("a key twice in a request", 1, "--request", "'content' stands twice", args=["run", CHAT, "--request", file("twice.json", twice)])
    refused("no file behind @", 1, "--input j: @ needs", args=["run", flow, *rest, "--input", "j=@"])
    refused("an input twice", 2, "'j' is given twice", args=["run", flow, *rest, "--input", "j=1", "--input", "j=2"])


def left_out(file, flow):
    given = ["--prompt", "hello", "--input", "j=1"]
    code, out, err = sluice("run", flow, *given, "--without", "n")
    expect("what an input left out takes with it", code == 0 and "text: hello" in out and
           err == "warning: without the input 'n', the output 'n' does not come\n", (code, out, err))
    refused("a number left out", 1, "second: the call's input 'n' did not come", "counts the frames of 'request' by it",
            args=["run", file("counted.yaml", WORDS.replace("OTHER", COUNTED)), *given, "--without", "n"])
    refused("a prompt for a request that is left out", 1, "--without request", "--prompt",
            args=["run", flow, *given, "--without", "request", "--without", "n"])
    code, out, err = sluice("run", CHAT, "--without", "request")
    expect("nodes that cannot run", "without the input 'request', the nodes 'parse', 'embed'" in err and
           "the outputs 'text', 'image' do not come" in err, (code, out, err))
    calls = b'{"inputs": {"n": null, "j": null, "request": {"content": [{"type": "text", "text": "x"}]}}}\n'
    code, out, err = sluice("run", flow, "--calls", "-", stdin=calls)
    expect("the same in a line", code == 0 and json.loads(out)["warnings"] ==
           ["without the inputs 'n', 'j', the outputs 'n', 'j' do not come"], (code, out, err))


def overrides(file):
    mark = "--set roles.llm.balance=round_robin: "
    for more in ([], ["--set", "limits.deadline=5s"]):
        code, out, err = sluice("validate", CHAT, *more, "--set", "roles.llm.balance=round_robin", *more)
        expect("what an override brings about", code == 1 and mark + "role 'llm' keeps state" in out and
               "balance: session }" not in out, (code, out, err))
    wrong = file("wrong.yaml", WORDS.replace("OTHER", "").replace("parse.text", "parse.tex"))
    code, out, err = sluice("validate", wrong, "--set", "limits.deadline=5s")
    expect("what the file has wrong by itself", code == 1 and "wrong.yaml:7:" in out and "--set" not in out, (code, out, err))
    mended = file("mended.yaml", "sluice: 1\nworkflow: w\ninputs: { t: text, extra: text }\nroles: { p: { plugin: scripted } }\n"
                  "nodes: { a: { run: p.a, inputs: [ { t: inputs.t } ], outputs: [x] } }\noutputs: { o: a.x }\nlimits: { deadline: 5 }\n")
    code, out, err = sluice("validate", mended, "--set", "limits.deadline=5s")
    expect("what an override that mends the file lets be seen", code == 0 and "mended.yaml:3:20: warning: nothing reads the input 'extra'" in out
           and "--set" not in out, (code, out, err))
    file("many.yaml", "sluice: 1\nroles: { q: { plugin: scripted, replicas: 1000 } }\n")
    hidden = file("hidden.yaml", "sluice: 1\nworkflow: w\ninclude: [ many.yaml ]\ninputs: { t: text }\n"
                  "nodes: { a: { run: qq.a, inputs: [ { t: inputs.t } ] } }\noutputs: { o: a.x }\n")
    code, out, err = sluice("validate", hidden, "--set", "roles.q.replicas=2")
    expect("an error that an override which mends another lets be seen", code == 1 and "hidden.yaml:5:" in out and
           "'qq'" in out and "--set" not in out, (code, out, err))


def cascades(file, folder):
    os.makedirs(os.path.join(folder, "m"))
    file("m/config.json", "{}")
    with open(os.path.join(ROOT, CHAT), encoding="utf-8") as f:
        text = f.read()
    refused("a checkpoint of no family is said once", 1, "of which family",
            args=["validate", file("family.yaml", text.replace("models/scenes", os.path.join(folder, "m")))])
    unread = "".join(f"i{i}: number, " for i in range(64))
    many = file("many.yaml", WORDS.replace("OTHER", "").replace("j: json", unread + "j: json"))
    for command in ("validate", "plan", "run"):
        refused(f"{command}: errors before warnings", 1, "too-many-inputs", args=[command, many])
    twice = WORDS.replace("OTHER", COUNTED.replace("second", "parse").replace(", count: { request: inputs.n }", ""))
    code, out, err = sluice("validate", file("twice.yaml", twice.replace("text: parse.text", "text: elsewhere.text")))
    expect("a node twice is named once", code == 1 and "help: nodes: parse\n" in out, (code, out, err))
    scenario = f"scenario: counts\nworkflow: {os.path.join(ROOT, CHAT)}\ncalls: [ {{ inputs: {{ request: x }} }} ]\n"
    refused("more expected than called", 1, "five.yaml:5:", "makes 1 call and expects 2",
            args=["test", file("five.yaml", scenario + "expect:\n  calls: [ { status: ok }, { status: ok } ]\n")])
    code, out, err = sluice("test", file("silent.yaml", scenario), "--seeds", "2")
    expect("a scenario that expects nothing says so", code == 0 and "warning: the scenario expects nothing" in err, (code, out, err))


def talk():
    code, out, err = sluice("chat", GGUF, stdin=b"/help\n/exit\nnever said\n")
    expect("/help and /exit", code == 0 and out == "/image FILE shows a picture, /reset starts anew, /quit ends; Ctrl-C stops an answer\n",
           (code, out, err))


def main():
    with tempfile.TemporaryDirectory() as folder:
        def file(name, text):
            path = os.path.join(folder, name)
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
            return path

        flow = file("words.yaml", WORDS.replace("OTHER", ""))
        command_line(flow)
        no_such_file(folder)
        kinds_of_files(file)
        texts(file, flow)
        left_out(file, flow)
        overrides(file)
        cascades(file, folder)
        talk()
    print("\n".join(failures) if failures else "all as expected")
    sys.exit(1 if failures else 0)


main()
