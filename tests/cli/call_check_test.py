"""What a call brings is refused before anything runs where no node can use it, and goes through where one can.

    call_check_test.py SLUICE REPOSITORY
"""
import base64
import json
import sys
import tempfile

from run_world import CHAT, TABLE, Scratch, at, expect, failures, refused, sluice

SEE = """sluice: 1
workflow: see
inputs: { request: json }
roles: { reader: { plugin: parse_request }, vit: { plugin: vision_encoder, model: models/scenes } }
nodes:
  parse: { run: reader.parse, inputs: [ { request: inputs.request } ] }
  see:   { run: vit.encode, inputs: [ { image: parse.image } ] }
outputs: { features: see.features }
"""
TOLD = """sluice: 1
workflow: told
inputs: { request: json }
global_params: { kv: { kind: paged_kv, model: tests/golden/pi05, pages: 64 } }
roles:
  reader: { plugin: parse_request }
  policy: { plugin: robot_policy, model: tests/golden/pi05, global_params: [kv], balance: session }
nodes:
  parse: { run: reader.parse, inputs: [ { request: inputs.request } ] }
  act:   { run: policy.act, inputs: [ { image0: parse.image, instruction: parse.text } ] }
outputs: { actions: act.actions }
"""
UNREAD = """sluice: 1
workflow: unread
inputs: { t: text, extra: text, request: json, n: number }
roles: { any: { plugin: scripted } }
nodes: { say: { run: any.say, inputs: [ { t: inputs.t } ], count: { t: inputs.n } } }
outputs: { t: inputs.t }
"""


def pictures_alone(scratch):
    """A request without words goes through where no node needs them, and is refused before anything runs where one does."""
    with open(TABLE, "rb") as f:
        request = {"content": [{"type": "image", "name": "a.png", "data": base64.b64encode(f.read()).decode()}]}
    alone = scratch.file("alone.json", json.dumps(request))
    line = scratch.file("alone.jsonl", json.dumps({"inputs": {"request": request}}) + "\n")
    see = scratch.file("see.yaml", SEE.replace("models/scenes", at("models/scenes")))
    told = scratch.file("told.yaml", TOLD.replace("tests/golden", at("tests/golden")))
    files = ["--out", scratch.path("alone") + "/"]
    for flow in (see, CHAT, at("workflows/chat.yaml"), at("workflows/vlm_split.yaml")):
        short = ["--max-tokens", "3"] if flow != see else []
        code, out, err = sluice("run", flow, "--image", TABLE, *short, *files)
        expect(f"a picture alone, with --image, {flow}", code == 0 and not err.startswith("error"), (code, out, err))
        code, out, err = sluice("run", flow, "--request", alone, *files)
        expect(f"a picture alone, with --request, {flow}", code == 0 and not err.startswith("error"), (code, out, err))
        code, out, err = sluice("run", flow, "--calls", line, *files)
        expect(f"a picture alone, in a line, {flow}", code == 0 and json.loads(out)["ok"], (code, out, err))
    what = "the request has no words, and node 'act' needs them as its `instruction`: "
    for args in (["--image", TABLE], ["--image", TABLE, "--prompt", " "], ["--request", alone]):
        refused("a robot that is told nothing", "error: " + what + "--prompt TEXT gives them", args=[told, *args])
    code, out, err = sluice("run", told, "--calls", line)
    result = json.loads(out)
    expect("a robot that is told nothing, in a line", not result["ok"] and "node" not in result["error"] and
           result["error"]["message"] == "line 1: " + what + '{"type": "text", "text": TEXT} in its content gives them', result)
    robot = [at("workflows/robot_policy.yaml"), "--input", "front=@" + TABLE, "--input", "wrist=@" + TABLE, "--without", "state"]
    refused("an empty instruction", "the input 'instruction' has no words, and node 'act' needs them as its `instruction`: "
            "--input instruction=TEXT gives them", args=[*robot, "--input", "instruction= "])
    for args in (["--prompt", ""], ["--prompt", " "]):
        refused("no words and no picture", "error: the prompt is empty, and there is no picture: --prompt TEXT says", "--image FILE shows",
                args=[CHAT, *args])
    for piece, words in (('"hello"', "content[0]"), ('{"type": "txt", "text": "hello"}', "content[0]: type must be text or image")):
        refused("a piece that is neither, in its role's words", words,
                args=[CHAT, "--request", scratch.file("odd.json", '{"content": [' + piece + "]}")])
    behind = scratch.file("behind.json", json.dumps({"content": [{"type": "text", "text": "go"}, *request["content"]]}))
    refused("a picture behind the words for a robot", "a text of the request has no words, or its last piece is a picture, and node 'act' needs",
            "put words behind the pictures", args=[told, "--request", behind])
    skipped = scratch.file("skipped.yaml", TOLD.replace("tests/golden", at("tests/golden")).replace("parse.text } ] }", "parse.text } ], on_error: skip }"))
    code, out, err = sluice("run", skipped, "--image", TABLE)
    expect("a node that may fail is left to do so", code == 0 and "error" not in err, (code, out, err))
    blind = [at("workflows/chat.yaml"), *(f"--set={p}.model={at('tests/golden/llama')}" for p in ("global_params.kv", "roles.llm"))]
    refused("a picture for a model that sees none", "error: the picture a.png of the request goes to node 'answer': the model ",
            "takes no pictures", args=[*blind, "--request", alone])


def unread_inputs(scratch):
    """What no node reads need not be given, and is refused where it is."""
    flow = scratch.file("unread.yaml", UNREAD)
    code, out, err = sluice("run", flow, "--input", "t=x", "--input", "n=0")
    expect("scripted roles are not run", code == 1 and "scripted" in err and "lacks" not in err, (code, out, err))
    flow = scratch.file("unread.yaml", UNREAD.replace("count: { t: inputs.n }", "").replace("{ plugin: scripted }", "{ plugin: parse_request }")
                        .replace("any.say", "any.parse").replace("t: inputs.t } ],", "request: inputs.j } ]").replace("t: text,", "t: text, j: json,"))
    given = ["--input", "t=x", "--input", 'j={"content": [{"type": "text", "text": "x"}]}']
    code, out, err = sluice("run", flow, *given)
    expect("what is read is enough", code == 0 and out == "x\n", (code, out, err))
    why = "no node reads the input '{0}': leave it out, or connect `inputs.{0}` to a node"
    refused("an input that no node reads", why.format("extra"), args=[flow, *given, "--input", "extra=y"])
    for more in (["--prompt", "y"], ["--image", TABLE], ["--request", scratch.file("r.json", "{}")], ["--seed", "3"]):
        refused("a request that no node reads", why.format("request"), args=[flow, *given, *more])
    inputs = {"t": "x", "j": {"content": [{"type": "text", "text": "x"}]}}
    lines = [{"inputs": inputs}, {"inputs": {**inputs, "extra": "y"}}, {"inputs": {**inputs, "extra": None}}]
    code, out, err = sluice("run", flow, "--calls", "-", stdin="\n".join(map(json.dumps, lines)).encode())
    results = {r["line"]: r for r in map(json.loads, out.splitlines())}
    expect("lines with what is read", results[1]["ok"] and results[3]["ok"], out)
    expect("a line with an input that no node reads", not results[2]["ok"] and results[2]["error"]["message"] == "line 2: " + why.format("extra"), results[2])
    code, out, err = sluice("run", flow, *given, "--without", "extra")
    expect("leaving it out by name is nothing", code == 0, (code, out, err))


def main():
    with tempfile.TemporaryDirectory() as folder:
        scratch = Scratch(folder)
        pictures_alone(scratch)
        unread_inputs(scratch)
    print("\n".join(failures) if failures else "all as expected")
    sys.exit(1 if failures else 0)


main()
