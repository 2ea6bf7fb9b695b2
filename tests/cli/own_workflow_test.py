"""A newcomer's first workflow: a picture and a question as inputs of their own, without parse_request.

    own_workflow_test.py SLUICE REPOSITORY
"""
import json
import os
import subprocess
import sys
import tempfile

SLUICE, ROOT = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
TABLE = "models/scenes/samples/table.png"
LOOK = """sluice: 1
workflow: look
inputs: { picture: image, question: text }
global_params:
  kv: { kind: paged_kv, model: models/scenes }
roles:
  vit: { plugin: vision_encoder, model: models/scenes }
  llm: { plugin: language_model, model: models/scenes, global_params: [kv], balance: session }
nodes:
  see:    { run: vit.encode, inputs: [ { image: inputs.picture } ] }
  embed:  { run: llm.embed, inputs: [ { text: inputs.question } ] }
  answer: { run: llm.generate, inputs: [ { features: see.features, hidden: embed.hidden } ] }
outputs: { said: answer.token }
"""
CHAT = """sluice: 1
workflow: talk
inputs: { question: text }
global_params:
  kv: { kind: paged_kv, model: tests/golden/gguf/llama.gguf, pages: 64 }
roles:
  llm: { plugin: chat_model, model: tests/golden/gguf/llama.gguf, global_params: [kv], balance: session }
nodes:
  answer: { run: llm.answer, inputs: [ { text: inputs.question } ] }
outputs: { said: answer.token }
"""
# What a request brings beside its words goes nowhere.
WORDS = """sluice: 1
workflow: words
inputs: { request: json }
roles: { parser: { plugin: parse_request } }
nodes: { parse: { run: parser.parse, inputs: [ { request: inputs.request } ] } }
outputs: { said: parse.text }
"""
# Two answers that grow side by side.
TWO = """sluice: 1
workflow: two
inputs: { question: text, other: text }
global_params:
  kv: { kind: paged_kv, model: tests/golden/gguf/llama.gguf, pages: 64 }
roles:
  one: { plugin: chat_model, model: tests/golden/gguf/llama.gguf, global_params: [kv], balance: session }
  two: { plugin: chat_model, model: tests/golden/gguf/llama.gguf, global_params: [kv], balance: session }
nodes:
  answer: { run: one.answer, inputs: [ { text: inputs.question } ] }
  again:  { run: two.answer, inputs: [ { text: inputs.other } ] }
outputs: { said: answer.token, besides: again.token }
"""
failures = []


def expect(what, condition, seen):
    if not condition:
        failures.append(f"{what}: {seen!r}")


def run(*arguments, lines=""):
    done = subprocess.run([SLUICE, "run", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=300, input=lines)
    return done.returncode, done.stdout, done.stderr


def lengths(flow):
    """A workflow whose input is a text has no request to say how long the answer may be: its role's option does."""
    question = ("--input", "question=hello")
    said = {}
    for tokens in ("3", "9"):
        code, said[tokens], err = run(flow, *question, "--set", f"roles.llm.options.max_tokens={tokens}")
        expect("an answer of the role's length", code == 0 and "reached its most tokens" in err, (code, said, err))
    expect("more tokens say more", len(said["3"]) < len(said["9"]) and said["9"].startswith(said["3"].strip()), said)
    for wrong in ("0", "x", "100000"):
        code, out, err = run(flow, *question, "--set", f"roles.llm.options.max_tokens={wrong}")
        expect("a length that is none", code == 1 and not out and "max_tokens is '" + wrong + "'" in err and
               "from 1 to 99999" in err, (code, out, err))


def sessions(flow):
    """A line of --calls can end its session: who comes behind begins anew."""
    def said(*ends):
        lines = "".join(json.dumps({"session": "a", "inputs": {"question": "hello"}, "end_session": end}) + "\n" for end in ends)
        code, out, err = run(flow, "--calls", "-", "--set", "roles.llm.options.max_tokens=6", lines=lines)
        expect("calls of a session", code == 0, (code, out, err))
        return [json.loads(line)["outputs"]["said"] for line in out.splitlines()]

    first, second = said(False, False)
    expect("a second turn knows the first", first != second, (first, second))
    expect("behind its end a session is new", said(True, True, False) == [first] * 3, first)
    expect("and goes on from there", said(True, False, False) == [first, first, second], (first, second))
    # A line that is wrong ends its session too, also as the last one.
    good = {"session": "a", "inputs": {"question": "hello"}}
    for wrong in ({"inputs": {"qestion": "x"}}, {"inputs": {"question": 3}}, {"inputs": {}}, {"inputs": {}, "deadline_ms": 0},
                  {"inputs": {"question": "x"}, "sesion": "b"}):
        lines = [good, {**wrong, "session": "a", "end_session": True}, good, {**wrong, "session": "a", "end_session": True}]
        code, out, err = run(flow, "--calls", "-", "--set", "roles.llm.options.max_tokens=6",
                             lines="".join(json.dumps(line) + "\n" for line in lines))
        results = sorted((json.loads(line) for line in out.splitlines()), key=lambda result: result["line"])
        expect("a wrong line ends its session", code == 1 and [r["ok"] for r in results] == [True, False, True, False]
               and results[0]["outputs"] == results[2]["outputs"] == {"said": first}, (code, out, err))
    code, out, err = run(flow, "--calls", "-", lines=json.dumps({"session": 3, "inputs": {"question": "x"}, "end_session": True}))
    expect("a session that is none", code == 1 and "'session' must be a string" in out, (code, out, err))
    code, out, err = run(flow, "--calls", "-", lines='{"inputs": {"question": "x"}, "end_session": 1}\n')
    expect("what is neither true nor false", code == 1 and "'end_session' must be true or false" in out, (code, out, err))


def pictures(flow):
    """A picture that no node reads is said to be lost, whichever way it comes."""
    code, out, err = run(flow, "--prompt", "hello", "--image", TABLE)
    expect("--image for nobody", code == 1 and not out and f"no node reads the picture {TABLE}" in err, (code, out, err))
    request = {"content": [{"type": "image", "data": "AAAA"}, {"type": "text", "text": "x"}]}
    code, out, err = run(flow, "--input", "request=" + json.dumps(request))
    expect("a request's picture for nobody", code == 1 and "no node reads the picture of the request" in err, (code, out, err))
    lines = "".join(json.dumps({"inputs": {"request": one}}) + "\n" for one in (request, {"content": request["content"][1:]}))
    code, out, err = run(flow, "--calls", "-", lines=lines)
    results = {r["line"]: r for r in map(json.loads, out.splitlines())}
    expect("a line's picture for nobody", code == 1 and sorted(results) == [1, 2] and "no node reads the picture" in results[1]["error"]["message"] and
           results[2]["outputs"] == {"said": "x"}, (code, out, err))
    code, out, err = run(flow, "--prompt", "hello")
    expect("words alone", code == 0 and out == "hello\n", (code, out, err))
    code, out, err = run("workflows/image_chat.yaml", "--input", "picture=@" + TABLE)
    expect("how a picture gets into a request", code == 1 and "--image FILE and --prompt TEXT" in err, (code, out, err))


def outputs(two, one):
    """Two texts that grow at once stand in lines of their own."""
    short = [word for role in ("one", "two") for word in ("--set", f"roles.{role}.options.max_tokens=12")]
    code, alone, err = run(one, "--input", "question=hello", "--set", "roles.llm.options.max_tokens=12")
    code, out, err = run(two, "--input", "question=hello", "--input", "other=hello", *short)
    lines = {name: "\n".join(line.removeprefix(name + ": ") for line in out.splitlines() if line.startswith(name + ": "))
             for name in ("said", "besides")}
    expect("each answer is whole, behind its name", code == 0 and lines["said"].strip() == alone.strip() and
           lines["besides"].strip() == alone.strip() and
           all(line.startswith(("said: ", "besides: ")) for line in out.splitlines()), (code, out, alone, err))


def main():
    with tempfile.TemporaryDirectory() as folder:
        paths = {}
        for name, text in (("look", LOOK), ("talk", CHAT), ("words", WORDS), ("two", TWO)):
            paths[name] = os.path.join(folder, name + ".yaml")
            with open(paths[name], "w", encoding="utf-8") as file:
                file.write(text)
        code, out, err = run(paths["look"], "--input", f"picture=@{TABLE}", "--input", "question=what color is the circle")
        expect("a question about a picture", code == 0 and out.strip() == "the circle is red" and "warning" not in err,
               (code, out, err))
        code, out, err = run(paths["talk"], "--input", "question=hello")
        expect("a text without options is answered", code == 0 and out.strip() and "warning" not in err, (code, out, err))
        lengths(paths["talk"])
        sessions(paths["talk"])
        pictures(paths["words"])
        outputs(paths["two"], paths["talk"])
    code, out, err = run("workflows/image_chat.yaml", "--input", 'request={"content":[{"type":"text","text":"x"}],"y":1e999}')
    expect("a number out of range", code == 1 and "out of range" in err and not out, (code, out, err))
    for failure in failures:
        print(failure)
    sys.exit(1 if failures else 0)


main()
