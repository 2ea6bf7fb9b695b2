"""`sluice run` with inputs and outputs of every type, many calls from lines, and what goes wrong with them.

    run_test.py SLUICE REPOSITORY
"""
import base64
import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios

from run_world import CHAT, ROOT, SLUICE, TABLE, Scratch, at, closed_input, expect, failures, refused, sluice

# Every input goes to an output; `features` is a role's.
EVERY_TYPE = """sluice: 1
workflow: every_type
inputs: { t: text, j: json, i: image, a: audio, x: tensor, n: number, b: bytes }
roles: { vit: { plugin: vision_encoder, model: models/scenes } }
nodes: { see: { run: vit.encode, inputs: [ { image: inputs.i } ] } }
outputs: { t: inputs.t, j: inputs.j, i: inputs.i, a: inputs.a, x: inputs.x, n: inputs.n, b: inputs.b, features: see.features }
"""
DECODE = """sluice: 1
workflow: decode
inputs: { latents: tensor }
roles: { vae: { plugin: image_codec, model: models/scenes } }
nodes: { decode: { run: vae.decode, inputs: [ { latents: inputs.latents } ] } }
outputs: { image: decode.image }
"""


MIXED = """sluice: 1
workflow: mixed
inputs: { request: json }
roles: { reader: { plugin: parse_request } }
nodes: { parse: { run: reader.parse, inputs: [ { request: inputs.request } ] } }
outputs: { out: [parse.text, parse.image] }
"""


def npy(shape, values, descr="<f4", code="f", order="False"):
    header = f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {tuple(shape)}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack(f"<{len(values)}{code}", *values)


def every_type(scratch):
    flow = scratch.file("every_type.yaml", EVERY_TYPE.replace("models/scenes", at("models/scenes")))
    tensor, sound = npy((2, 3), range(6), "<i4", "i"), npy((4,), (0, 0.5, -0.5, 1))
    x, a = scratch.file("x.npy", tensor), scratch.file("a.npy", sound)
    anything = bytes(range(256))
    given = ["--input", "t=two words, @ and =", "--input", 'j={"deep": [1, {"x": null}]}', "--input", "i=@" + TABLE,
             "--input", "a=@" + a, "--input", "x=@" + x, "--input", "n=-12", "--input", "b=@" + scratch.file("b", anything)]
    out_folder = scratch.path("out")
    code, out, err = sluice("run", flow, *given, "--out", out_folder + "/", "--out", "b=" + scratch.path("b.out"))
    lines = sorted(out.splitlines())
    expect("every type runs", code == 0 and not err, (code, out, err))
    expect("text, JSON and a number on standard output, each behind its name",
           {"n: -12", "t: two words, @ and =", 'j: {"deep": [1, {"x": null}]}'} <= set(lines), out)
    expect("files are named", f"[features: {out_folder}/features.npy, f32[16, 256]]" in lines and
           f"[x: {out_folder}/x.npy, i32[2, 3]]" in lines and f"[i: {out_folder}/i.png, 256 x 256]" in lines, out)
    expect("a tensor as it was", scratch.read("out", "x.npy") == tensor, "")
    expect("a sound as it was", scratch.read("out", "a.npy") == sound, "")
    expect("bytes as they were", scratch.read("b.out") == anything, "")
    expect("a role's tensor", len(scratch.read("out", "features.npy")) == 128 + 4 * 16 * 256, "")
    code, again, err = sluice("run", flow, *given[:4], "--input", "i=@" + scratch.path("out", "i.png"), *given[6:],
                              "--out", out_folder, "--out", "t=" + scratch.path("t"), "--out", "n=" + scratch.path("n"),
                              "--out", "b=" + scratch.path("b.out"))
    expect("a second run", code == 0 and f"{out_folder}/x-2.npy" in again, (code, again, err))
    expect("the picture came out as it went in", scratch.read("out", "i.png") == scratch.read("out", "i-2.png"), "")
    expect("the same features", scratch.read("out", "features.npy") == scratch.read("out", "features-2.npy"), "")
    expect("a text by name", scratch.read("t") == b"two words, @ and =" and scratch.read("n") == b"-12\n" and "two" not in again, again)
    expect("a named file is written over", scratch.read("b.out") == anything, "")

    rest = [w for name in "jiaxnb" for w in ("--without", name)]
    for what, value, stdin, wanted in (("standard input", "-", b"from a pipe\n", "t: from a pipe\n"), ("an @", "@@home", b"", "t: @home\n"),
                                       ("nothing", "", b"", ""), ("a dash in a word", "a-", b"", "t: a-\n")):
        code, out, err = sluice("run", flow, "--input", "t=" + value, *rest, stdin=stdin)
        expect(f"a text: {what}", code == 0 and out == wanted, (code, out, err))

    decode = scratch.file("decode.yaml", DECODE.replace("models/scenes", at("models/scenes")))
    latents = scratch.file("latents.npy", npy((16, 32), [0.1] * 512))
    code, out, err = sluice("run", decode, "--input", "latents=@" + latents, "--out", scratch.path("decoded.png"))
    expect("a tensor in, a picture out", code == 0 and out == f"[image: {scratch.path('decoded.png')}, 64 x 64]\n" and
           scratch.read("decoded.png").startswith(b"\x89PNG"), (code, out, err))
    with open(latents, "rb") as piped:
        code, out, err = sluice("run", decode, "--input", "latents=-", "--out", scratch.path("piped.png"), stdin=piped.read())
    expect("a tensor through a pipe", code == 0 and scratch.read("piped.png") == scratch.read("decoded.png"), (code, out, err))
    refused("another shape", "decode: ", args=[decode, "--input", "latents=@" + x])
    return flow, rest


def wrong_inputs(scratch, flow, rest):
    def x(what, *needles, data, name="w.npy"):
        refused(what, "--input x=@", "(tensor)", *needles, args=[flow, "--input", "x=@" + scratch.file(name, data)])

    whole = npy((2, 3), range(6))
    x("a truncated tensor", "w.npy", "24 bytes, there are 23", data=whole[:-1])
    x("a truncated header", "ends in its header", data=whole[:40])
    x("a header that asks for gigabytes", "4000000000000 bytes, there are 24", data=npy((1000000, 1000000), range(6)))
    x("a header over all bounds", "damaged", data=npy((2**62, 2**62), range(6)))
    x("Fortran order", "ascontiguousarray", data=npy((2, 3), range(6), order="True"))
    x("doubles", "'<f8'", "float32", data=npy((3,), range(3), "<f8", "d"))
    x("a picture as a tensor", "no .npy file", data=open(TABLE, "rb").read())
    refused("a tensor as a picture", "--input i=@", "(image)", "not a PNG or JPEG", args=[flow, "--input", "i=@" + scratch.path("x.npy")])
    refused("a tensor typed", "--input x=@FILE, a .npy file", args=[flow, "--input", "x=[1, 2]"])
    refused("no such file", "--input x", "nowhere.npy: no such file", args=[flow, "--input", "x=@nowhere.npy"])
    refused("no such input", "'tt'", "did you mean 't'?", args=[flow, "--input", "tt=1"])
    refused("no input like it", "t (text), j (json)", args=[flow, "--input", "something=1"])
    refused("no JSON", "--input j (json)", "byte 7", args=[flow, "--input", 'j={"a": }'])
    refused("no number", "whole number", args=[flow, "--input", "n=1.5"])
    refused("no text", "byte 3 is not UTF-8", args=[flow, "--input", "t=@" + scratch.file("latin", b"ab\xe9")])
    refused("inputs that lack", "lacks 'j' (json), 'i' (image)", "--input j=VALUE", args=[flow, "--input", "t=x"])
    refused("given and left out", "--without t", args=[flow, "--input", "t=x", "--without", "t", *rest])
    refused("nothing like it left out", "did you mean 'x'?", args=[flow, "--without", "xx"])
    refused("twice", "'t' is given twice", status=2, args=[flow, "--input", "t=x", "--input", "t=y"])
    refused("a prompt for no request", "`request: json`", args=[flow, "--prompt", "x"])
    refused("a request and a prompt", "whole request", args=[CHAT, "--input", "request={}", "--prompt", "x"])
    refused("no such output", "no output 'y'", args=[flow, *rest, "--without", "t", "--out", "y=z"])
    refused("which of the outputs", "several outputs go to files (i, a, x, features)", args=[flow, "--out", "z.png"])
    refused("an output twice", "has a file already", args=[flow, "--out", "i=a", "--out", "i=b"])
    refused("a file for two outputs", "the output 'n' goes to that file",
            args=[flow, "--out", "n=" + scratch.path("same"), "--out", "j=" + scratch.path(".", "same")])
    refused("a file for an output and the trace", "--trace", "the output 'n' goes to that file",
            args=[flow, "--out", "n=" + scratch.path("same"), "--trace", scratch.path("same")])
    sealed = scratch.path("sealed")
    os.makedirs(sealed, exist_ok=True)
    os.chmod(sealed, 0o500)
    locked_file = scratch.file("locked_file", "as it was")
    os.chmod(locked_file, 0o400)
    cannot = [("no such folder", scratch.path("no", "folder"), "No such file"), ("a folder", sealed, "Is a directory"),
              ("below a file", os.path.join(TABLE, "x"), "Not a directory")]
    if os.geteuid() != 0:  # root writes everywhere
        cannot += [("a folder of others", os.path.join(sealed, "x"), "denied"), ("a file of others", locked_file, "denied")]
        refused("a folder for all that may not be written", "sealed: cannot be written: Permission denied", args=[flow, "--out", sealed])
    for what, path, why in cannot:
        refused(f"an output to {what}", f"{path}: cannot be written: {why}", args=[flow, "--out", "t=" + path])
        refused(f"a trace to {what}", f"--trace: {path}: cannot be written: {why}", args=[flow, "--trace", path])
    words = ["--input", "t=kept", *rest]
    code, out, err = sluice("run", flow, *words, "--out", "t=/dev/full")
    expect("a text on a full disk is shown", code == 1 and out == "t: kept\n" and err.endswith("error: /dev/full: cannot be written: No space left on device\n"),
           (code, out, err))
    code, out, err = sluice("run", flow, *words, "--out", "t=/dev/null", "--out", "n=/dev/null")
    expect("two outputs to nowhere", code == 0 and not out, (code, out, err))
    pipe = scratch.path("fifo")
    os.mkfifo(pipe)
    refused("a pipe as an input", "not a regular file", args=[flow, "--input", "x=@" + pipe], seconds=30)
    for kind, text in (("a workflow", "sluice: 1\nworkflow: w\n"), ("a scenario", "scenario: s\nworkflow: w.yaml\n"),
                       ("a cluster file", "# here\ncluster: 1\n"), ("YAML", "- inputs: {}\n  session: a\n"), ("YAML", "calls: [ {} ]\n")):
        path = scratch.file("calls.yaml", text)
        refused(f"{kind} as the calls", f"{path}: this is {kind}, not calls; --calls takes JSON, a call a line: {{\"inputs\": {{...}}}}",
                args=[flow, "--calls", path])
    for line, text in ((1, "# calls\n\n# of mine\n{\"inputs\": {}}\n"), (3, "\n \n  # calls\n{\"inputs\": {}}\n{}\n")):
        path = scratch.file("calls.jsonl", text)
        refused("a comment above the calls", f"{path}:{line}: JSON has no comments: remove this line, which begins with '#'", args=[flow, "--calls", path])
    refused("a pipe as the calls", "--calls -", args=[flow, "--calls", pipe], seconds=30)
    code, out, err = sluice("run", CHAT, "--prompt", "draw a red circle", "--steps", "2", "--out", pipe, seconds=60)
    expect("a pipe that nobody reads, as an output", code == 1 and "fifo: cannot be written" in err and not out, (code, out, err))
    for what, args in (("no =", ["--input", "x"]), ("standard input twice", ["--input", "t=-", "--input", "b=-"]),
                       ("calls and inputs", ["--calls", "-", "--input", "t=x"]), ("calls and a prompt", ["--calls", "-", "--prompt", "x"]),
                       ("calls into a named file", ["--calls", "-", "--out", "i=x.png"]), ("no concurrency", ["--calls", "-", "--concurrency", "0"]),
                       ("--request and --prompt", ["--request", "x", "--prompt", "y"]), ("--set without a value", ["--set", "roles"])):
        refused(what, status=2, args=[flow, *args])


def prompts(scratch):
    code, typed, err = sluice("run", CHAT, "--prompt", "what color is the circle", "--image", TABLE)
    code2, piped, err2 = sluice("run", CHAT, "--prompt", "-", "--image", TABLE, stdin=b"what color is the circle\n")
    expect("a prompt through a pipe", code == code2 == 0 and typed == piped and typed.strip(), (typed, piped, err2))
    code, out, err = sluice("run", CHAT, "--prompt", "what color is the crimson circle", "--image", TABLE,
                            "--out", scratch.folder)
    expect("words the model does not know", code == 0 and out.strip() and err.startswith("warning: embed: the model does not know the word 'crimson'; ") and
           "models/scenes/README.md" in err, (code, out, err))
    with open(TABLE, "rb") as f:
        code2, seen, err2 = sluice("run", CHAT, "--prompt", "what color is the circle", "--image", "-", stdin=f.read())
    expect("a picture through a pipe", code2 == 0 and seen == typed, (typed, seen, err2))
    code, out, err = sluice("run", CHAT, "--prompt", "-", "--image", "-", stdin=b"x")
    expect("a prompt and a picture through one pipe", code == 2 and "--image: standard input can be read once, and --prompt reads it" in err and not out, (code, out, err))
    request = json.dumps(question("what color is the circle")["inputs"]["request"])
    code, asked, err = sluice("run", CHAT, "--request", "-", stdin=request.encode())
    code2, given, err2 = sluice("run", CHAT, "--input", "request=" + request)
    expect("a request through a pipe, and as an input", code == code2 == 0 and asked == given and asked.strip(), (asked, given, err, err2))


def question(text, **more):
    """About the picture; it is answered in words."""
    with open(TABLE, "rb") as f:
        picture = {"type": "image", "data": base64.b64encode(f.read()).decode()}
    return {"inputs": {"request": {"content": [picture, {"type": "text", "text": text}]}}, **more}


def word(text, **more):
    """For the workflow of every type."""
    return {"inputs": {"t": text, **{name: None for name in "jiaxnb"}}, **more}


def ask(text, **more):
    options = {"options": {"steps": 2}} if text.startswith("draw") else {}
    return {"inputs": {"request": {"content": [{"type": "text", "text": text}], **options}}, **more}


def calls(scratch, flow):
    seen = question("what color is the circle", id="seen", session="a")
    again = ask("what color is the circle", id={"n": 2}, session="a")  # the session knows the picture
    other = ask("what color is the circle", id=3, session="b")
    lines = [json.dumps(seen), "", json.dumps(again), json.dumps(other), "no JSON", json.dumps(ask("draw a red circle", id="drawn")),
             json.dumps(ask("", id="empty")), json.dumps(ask("x", idd=1)), json.dumps({"id": "lacks", "inputs": {}}),
             json.dumps({"id": "bad", "inputs": {"request": None}, "deadline_ms": 0}), "[" * 100000,
             json.dumps(ask("draw a blue square", id="late", deadline_ms=1)), json.dumps(ask("hello", id="nameless", session="")),
             json.dumps(ask("hello", id=14, end_session="yes"))]
    source = scratch.file("calls.jsonl", "\n".join(lines))
    folder = scratch.path("pictures")
    code, out, err = sluice("run", CHAT, "--calls", source, "--out", folder)
    results = {r["line"]: r for r in map(json.loads, out.splitlines())}
    expect("a result for each line that is not blank", code == 1 and sorted(results) == [1, *range(3, 15)], (code, out, err))
    _, single, _ = sluice("run", CHAT, "--prompt", "what color is the circle", "--image", TABLE)
    expect("the answer is that of a single call", results[1]["ok"] and results[1]["outputs"] == {"text": single.strip()} and
           results[1]["id"] == "seen" and results[1]["session"] == "a", results[1])
    expect("a session goes on, another knows nothing of it", results[3]["outputs"] == results[1]["outputs"] and
           results[3]["id"] == {"n": 2} and results[4]["ok"] and results[4]["outputs"] != results[3]["outputs"], (results[3], results[4]))
    drawn = results[6]["outputs"]["image"][0]
    expect("a picture as a file", drawn["file"] == os.path.join(folder, "call-6-image.png") and drawn["shape"] == [64, 64, 3] and
           scratch.read("pictures", "call-6-image.png").startswith(b"\x89PNG"), drawn)
    for line, needle, id_ in ((5, "line 5: it is not JSON, as byte 2 of the line shows", None), (7, "line 7: the prompt is empty, and there is no picture: put", "empty"), (8, "did you mean 'id'?", None),
                              (9, "lacks 'request' (json)", "lacks"), (10, "'deadline_ms' is 0", "bad"), (11, "deeper than 64", None),
                              (12, "deadline of 1 ms", "late"), (13, "'session'", "nameless"),
                              (14, "'end_session'", 14)):
        r = results[line]
        expect(f"line {line}", not r["ok"] and needle in r["error"]["message"] and r["id"] == id_ and r["outputs"] == {}, r)
    expect("what no node was asked, and what was late", "node" not in results[7]["error"] and results[12]["error"]["code"] == "deadline", results[7])

    values = {"t": "x", "j": {"a": [1.5]}, "i": {"file": TABLE}, "a": None, "n": 7, "b": {"base64": "AAEC"},
              "x": {"file": scratch.path("x.npy")}}
    wrong = {"t": 1, "x": "x.npy", "n": 1.5, "b": {"base64": "*"}, "i": {"file": "nowhere.png"}, "a": {"file": scratch.path("x.npy"), "b": "c"}}
    text = json.dumps({"inputs": values}) + "\n" + "".join(json.dumps({"id": k, "inputs": {**values, k: v}}) + "\n" for k, v in wrong.items())
    text += json.dumps({"inputs": values})
    for concurrency in ("1", "3"):
        code, out, err = sluice("run", flow, "--calls", "-", "--concurrency", concurrency, "--out", scratch.path("values"), stdin=text.encode())
        results = {r["line"]: r for r in map(json.loads, out.splitlines())}
        first = results[1]["outputs"]
        expect("values of every type in lines", results[1]["ok"] and first["t"] == "x" and first["j"] == [{"a": [1.5]}] and
               first["n"] == [7] and first["b"] == [{"base64": "AAEC"}] and first["x"][0]["type"] == "i32" and "a" not in first, first)
        with open(first["x"][0]["file"], "rb") as f:
            expect("a tensor from a line", f.read() == scratch.read("x.npy"), first["x"])
        expect("and in another file each time", first["x"] != results[8]["outputs"]["x"], results[8])
        for number, name in enumerate(wrong):
            r = results[number + 2]
            expect(f"a wrong {name}", not r["ok"] and r["id"] == name and f"inputs.{name} (" in r["error"]["message"], r)
        expect("status of lines", code == 1 and not err, (code, err))
    own_sessions(scratch)
    strict_lines(flow)
    mixed_outputs(scratch)
    code, out, err = sluice("run", CHAT, "--calls", "-")
    expect("no lines are no calls", code == 0 and not out and
           err == "note: --calls - has no line with a call: nothing was run\n", (code, out, err))
    huge = b'{"id": "' + b"x" * (65 << 20) + b'"}\n' + json.dumps(word("x", id="after")).encode()
    code, out, err = sluice("run", flow, "--calls", "-", stdin=huge)
    results = [json.loads(line) for line in out.splitlines()]
    expect("a line without end, and the one behind it", code == 1 and [(r["line"], r["ok"], r["id"]) for r in results] ==
           [(1, False, None), (2, True, "after")] and "longer than" in results[0]["error"]["message"], out[:500])


def own_sessions(scratch):
    """A line that names no session knows nothing of the lines before it, unless --session says so."""
    again = ask("what color is the circle", id=2)  # of which picture?
    lines = "".join(json.dumps(line) + "\n" for line in (question("what color is the circle", id=1), again)).encode()
    alone = sluice("run", CHAT, "--prompt", "what color is the circle", "--out", scratch.folder)[1]
    answers = {}
    for more in ((), ("--session", "s")):
        code, out, err = sluice("run", CHAT, "--calls", "-", "--out", scratch.folder, *more, stdin=lines)
        answers[more] = {r["line"]: r for r in map(json.loads, out.splitlines())}
        expect("lines without a session", code == 0 and len(answers[more]) == 2, (code, out, err))
    own, shared = answers[()], answers[("--session", "s")]
    expect("a line's own session", own[2]["outputs"]["text"] == alone.splitlines()[0] != own[1]["outputs"]["text"] and own[2]["session"] is None, (own, alone))
    expect("the session of all", shared[2]["outputs"] == shared[1]["outputs"] == own[1]["outputs"] and shared[2]["session"] == "s", shared)
    # More of them than the pages of one conversation hold.
    many = "".join(json.dumps(ask("what color is the circle", id=n)) + "\n" for n in range(60)).encode()
    code, out, err = sluice("run", CHAT, "--calls", "-", "--out", scratch.folder, stdin=many)
    texts = {json.loads(line)["outputs"].get("text") for line in out.splitlines()}
    expect("sessions of lines end with them", code == 0 and len(out.splitlines()) == 60 and len(texts) == 1, (code, texts, err))
    reading, writing = os.pipe()  # as a shell's <(...)
    os.write(writing, (json.dumps(ask("what color is it")) + "\n").encode() * 2)
    os.close(writing)
    done = subprocess.run([SLUICE, "run", CHAT, "--calls", f"/dev/fd/{reading}", "--out", scratch.folder], cwd=ROOT,
                          capture_output=True, pass_fds=[reading], timeout=300)
    os.close(reading)
    expect("lines through a shell's pipe", done.returncode == 0 and len(done.stdout.splitlines()) == 2, done)


def strict_lines(flow):
    """Nothing that stands in a line comes back as something else."""
    def line(text, **inputs):
        whole = json.dumps({"inputs": {**{name: None for name in "tjiaxnb"}, **inputs}})
        return text + whole[1:] if text else whole

    most = 2**63 - 1
    good = [line("", n=most), line("", n=-most - 1), line("", n=2**62 + 1),
            line('{"id": {"z": 1, "a": [2.50, 1e3, 0.1, 1732259043.1234567, -0.0, 18446744073709551615, 1E+22]}, '),
            line("", j={"z": 1, "a": {"y": 2, "b": 3}})]
    bad = [(line("", n=most + 1), "inputs.n (number): it is not a whole number of 64 bits"),
           (line('{"id": 123456789012345678901, "session": "s", '), "'id': the number 123456789012345678901 would come back as another one; write it as a string"),
           (line('{"id": [{"a": 0.10000000000000000000001}], '), "'id': the number 0.1000"),
           ("[[1]] x", "it is not JSON, as byte 7 of the line shows"),
           ("  # a call", "JSON has no comments: remove this line, which begins with '#'"),
           (line("").replace('"j": null', '"j": [0.1, {"a": 123456789012345678901}]'),
            "inputs.j (json): the number 123456789012345678901 would come back as another one; write it as a string"),
           (line("").replace('"j": null', '"j": [1e400]'), "a number in it is out of range, as byte "),
           (line('{"id": 1, "id": 2, '), "the key 'id' stands twice in one object"),
           (line("").replace('"j": null', '"j": {"a": [{"k": 1}, {"k": 1, "k": 2}]}'), "the key 'k' stands twice in one object"),
           (line("").replace('"j": null', '"j": null, "j": {}'), "the key 'j' stands twice in one object"),
           (line("", j={str(n): n for n in range(20001)}), "one object has more than 20000 keys")]
    text = "\n".join(good + [wrong for wrong, _ in bad]) + "\n"
    code, out, err = sluice("run", flow, "--calls", "-", "--concurrency", "1", stdin=text.encode())
    lines = {json.loads(r)["line"]: r for r in out.splitlines()}
    expect("strict lines", code == 1 and not err and sorted(lines) == list(range(1, len(good) + len(bad) + 1)), (code, out, err))
    for number, needle in enumerate([f'"n":[{most}]', f'"n":[{-most - 1}]', f'"n":[{2**62 + 1}]',
                                     '"id":{"z":1,"a":[2.5,1000.0,0.1,1732259043.1234567,-0.0,18446744073709551615,1e+22]}',
                                     '"j":[{"z":1,"a":{"y":2,"b":3}}]'], 1):
        expect(f"comes back: {needle}", '"ok":true' in lines[number] and needle in lines[number], lines[number])
    for number, (_, needle) in enumerate(bad, 1 + len(good)):
        result = json.loads(lines[number])
        expect(f"refused: {needle}", not result["ok"] and needle in result["error"]["message"], result)
    result = json.loads(lines[len(good) + 2])
    expect("a wrong id hides no session", result["session"] == "s", result)


def mixed_outputs(scratch):
    """Values of several types in one output are a list, in the order in which they came (a text follows each picture)."""
    flow = scratch.file("mixed.yaml", MIXED)
    with open(TABLE, "rb") as f:
        picture = {"type": "image", "data": base64.b64encode(f.read()).decode()}
    words, more = {"type": "text", "text": "words"}, {"type": "text", "text": " and more"}
    contents = [[words, picture], [picture, words], [words, more]]
    text = "\n".join(json.dumps({"inputs": {"request": {"content": content}}}) for content in contents)
    code, out, err = sluice("run", flow, "--calls", "-", "--out", scratch.path("mixed"), stdin=text.encode())
    shown = [[v if isinstance(v, str) else os.path.basename(v["file"]) for v in r["outputs"]["out"]] if isinstance(r["outputs"].get("out"), list)
             else r["outputs"].get("out") for r in sorted(map(json.loads, out.splitlines()), key=lambda r: r["line"])]
    expect("mixed outputs", code == 0 and shown == [["words", "call-1-out.png", ""], ["call-2-out.png", "words"], "words and more"], (code, out, err))


def terminal(scratch):
    """A line is answered before the next is typed; Ctrl-C cancels what runs, the end of input ends it."""
    def session(*more):
        pid, end = pty.fork()
        if pid == 0:
            os.chdir(ROOT)
            os.execv(SLUICE, [SLUICE, "run", CHAT, "--calls", "-", "--out", scratch.folder, *more])
        return pid, end

    def read_until(end, pattern):
        seen = ""
        while not re.search(pattern, seen):
            ready, _, _ = select.select([end], [], [], 60)
            try:
                got = os.read(end, 65536) if ready else b""
            except OSError:
                got = b""
            if not got:
                return seen + " (ended)"
            seen += got.decode(errors="replace")
        return seen

    pid, end = session()
    read_until(end, "Ctrl-D ends")
    for number in (1, 2, 3):
        os.write(end, (json.dumps(ask("what color is it", id=number)) + "\n").encode())
        seen = read_until(end, r'"line":%d,"id":%d,[^\n]*"ok":true[^\n]*\n' % (number, number))
        expect(f"answered as typed, {number}", not seen.endswith("(ended)"), seen)
    os.write(end, b"\x04")
    read_until(end, r"\0")
    expect("the end of input ends well", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, "")

    pid, end = session()
    read_until(end, "Ctrl-D ends")
    slow = ask("draw a red circle", id="slow")
    slow["inputs"]["request"]["options"] = {"steps": 1000}
    os.write(end, (json.dumps(slow) + "\nno call\n").encode())
    read_until(end, '"line":2')  # the one before has been started
    os.write(end, b"\x03")
    seen = read_until(end, r"\0")
    expect("Ctrl-C cancels what runs", '"id":"slow"' in seen and '"cancelled"' in seen, seen)
    expect("and which lines it did not come to", "note: ended by Ctrl-C; lines behind 2 were not run" in seen, seen)
    expect("and its status says so", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 130, "")


def counted(scratch):
    """A caller's number that a role cannot take costs that call, not those beside it; `test` says the same of it."""
    flow = scratch.file("counted.yaml", """sluice: 1
workflow: counted
inputs: { q: json, n: number }
roles: { any: { plugin: parse_request } }
nodes:
  all:  { run: any.parse, inputs: [ { request: inputs.q } ] }
  some: { run: any.parse, inputs: [ { request: inputs.q } ], count: { request: inputs.n } }
outputs: { some: some.text, all: all.text }
""")
    request = {"content": [{"type": "text", "text": "hi"}]}
    lines = "".join(json.dumps({"inputs": {"q": request, "n": n}}) + "\n" for n in (0, 1))
    code, out, err = sluice("run", flow, "--calls", "-", "--concurrency", "1", stdin=lines.encode())
    results = [json.loads(line) for line in out.splitlines()]
    expect("a count of none", code == 1 and [r["ok"] for r in results] == [False, True] and results[1]["outputs"]["some"] == "hi" and
           results[0]["error"].get("node") == "some" and results[0]["error"]["message"] == "0 frames of 'request' came, and 'any.parse' reads one",
           (code, out, err))
    marked = sluice("run", flow, "--calls", scratch.file("marked.jsonl", "\ufeff" + lines), "--concurrency", "1")
    expect("a byte order mark is no part of the first line", marked == (code, out, err), marked)
    with open(flow) as file:
        limited = scratch.file("limited.yaml", file.read().replace("workflow: counted\n", "workflow: limited\nlimits: { calls: 2 }\n"))
    many = json.dumps({"inputs": {"q": request, "n": 1}}) + "\n"
    code, out, err = sluice("run", limited, "--calls", "-", stdin=(many * 60).encode())
    expect("no more calls at once than are taken", code == 0 and out.count('"ok":true') == 60, (code, out, err))
    code, out, err = sluice("simulate", limited, "--calls", "60")
    expect("nor simulated ones", code == 0 and ", 0 ended with an error" in out, (code, out, err))
    code, out, err = sluice("simulate", limited, "--calls", "60", "--concurrency", "8")
    expect("unless they are asked for", "as many as it takes at once (limits: calls)" in out, (code, out, err))
    scenario = scratch.file("counted.scenario.yaml", """scenario: counted
workflow: counted.yaml
calls: [ { inputs: { q: x, n: 0 } } ]
expect: { calls: [ { status: error, cause: some } ] }
""")
    code, out, err = sluice("test", scenario)
    expect("a count of none in a scenario", code == 0, (out, err))


def causes():
    """Of the failures of one node the cause is told, not what followed from it, whichever words sort first."""
    code, _, err = sluice("run", CHAT, "--set", "global_params.kv.pages=1", "--prompt", "what color is the circle",
                          "--image", os.path.join(ROOT, "models/scenes/samples/table.png"))
    expect("a full pool is the cause", code == 1 and "the KV pool is full" in err and "an earlier piece" not in err, (code, err))


def outside(scratch, flow):
    """Full disks and readers that have gone."""
    text = "".join(json.dumps(word("x", id=n, session=str(n))) + "\n" for n in range(50)).encode()
    with open("/dev/full", "wb") as full:
        code, _, err = sluice("run", flow, "--calls", "-", stdin=text, stdout=full)
    expect("results on a full disk", code == 1 and "standard output cannot be written" in err, (code, err))
    reading, writing = os.pipe()
    os.close(reading)
    code, _, err = sluice("run", flow, "--calls", "-", stdin=text, stdout=writing)
    os.close(writing)
    expect("results for nobody", code in (1, -signal.SIGPIPE), (code, err))
    refused("a tensor on a full disk", "/dev/full: cannot be written: No space left",
            args=[scratch.path("decode.yaml"), "--input", "latents=@" + scratch.path("latents.npy"), "--out", "image=/dev/full"])
    for calls in (flow, CHAT):
        code, out, err = closed_input("run", calls, "--calls", "-")
        expect("standard input that is closed", code == 1 and not out and
               err == "error: --calls -: standard input cannot be read: Bad file descriptor\n", (code, out, err))
    folder = scratch.path("locked")
    shutil.copy(TABLE, folder)  # a file where the folder should be
    code, out, err = sluice("run", flow, "--calls", "-", "--out", folder, stdin=text)
    expect("a file as the folder", code == 1 and "locked: cannot be written" in err and not out, (code, out, err))


def slow_pipe(scratch, flow):
    """What does not fit into a pipe yet is waited for, not lost."""
    data, path = bytes(range(256)) * 100, scratch.path("slow")
    os.mkfifo(path)
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    room = fcntl.fcntl(reading, fcntl.F_SETPIPE_SZ, 4096)
    rest = [w for name in "tjiaxn" for w in ("--without", name)]
    command = [SLUICE, "run", flow, *rest, "--input", "b=@" + scratch.file("large", data), "--out", "b=" + path]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL) as child:
        waiting, first = 0, select.poll()
        first.register(reading, select.POLLIN)
        first.poll(60_000)
        while waiting < room and child.poll() is None:  # full, with more to come, or it has given up
            waiting = int.from_bytes(fcntl.ioctl(reading, termios.FIONREAD, bytes(4)), sys.byteorder)
        os.set_blocking(reading, True)
        seen = b""
        while part := os.read(reading, 65536):
            seen += part
        out, err = child.communicate()
    os.close(reading)
    expect("a slow pipe", child.returncode == 0 and seen == data, (child.returncode, len(seen), room, out, err))


def main():
    with tempfile.TemporaryDirectory() as folder:
        scratch = Scratch(folder)
        flow, rest = every_type(scratch)
        wrong_inputs(scratch, flow, rest)
        prompts(scratch)
        calls(scratch, flow)
        terminal(scratch)
        counted(scratch)
        causes()
        outside(scratch, flow)
        slow_pipe(scratch, flow)
    print("\n".join(failures) if failures else "all as expected")
    sys.exit(1 if failures else 0)


main()
