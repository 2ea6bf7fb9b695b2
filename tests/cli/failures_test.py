"""What the command line does when something outside fails: full disks, closed pipes, files that are none.

    failures_test.py SLUICE REPOSITORY

Every failure is one line on standard error and an exit status that says so; nothing hangs, nothing is overwritten.
"""
import json
import os
import pty
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SLUICE, ROOT = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
failures = []


def at(*path):
    return os.path.join(ROOT, *path)


CHAT, ROBOTS = at("workflows/image_chat.yaml"), at("workflows/robot_multitask.yaml")
SCENARIO = at("workflows/scenarios/image_edit_two_pictures.yaml")
QWEN, SMOL, LLAMA, PI0 = (at("tests/golden", name) for name in ("conversation_qwen", "conversation_smolvlm", "llama", "pi0"))


def sluice(*args, cwd=ROOT, stdout=subprocess.PIPE, seconds=120, descriptors=None, memory=None):
    """Exit status, standard output, standard error; no status: it hung. `descriptors`: how many files it may have open.
    `memory`: how many bytes its addresses may take."""
    limit = None
    if descriptors is not None or memory is not None:
        def limit():
            if descriptors is not None:
                resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
            if memory is not None:
                resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    try:
        done = subprocess.run([SLUICE, *args], cwd=cwd, stdout=stdout, stderr=subprocess.PIPE, timeout=seconds,
                              stdin=subprocess.DEVNULL, preexec_fn=limit)
    except subprocess.TimeoutExpired:
        return None, "", "it hung"
    return done.returncode, (done.stdout or b"").decode(errors="replace"), done.stderr.decode(errors="replace")


def expect(what, condition, seen):
    if not condition:
        failures.append(f"{what}: {seen}")
        if "SLUICE_FIRST_FAILURE_ENDS" in os.environ:
            sys.exit(failures[0])


def refused(what, needle, *args, status=1, **how):
    """It ends with `status`, says why in one line and nothing else went to standard output."""
    code, out, err = sluice(*args, **how)
    errors = [line for line in err.splitlines() if line.startswith("error: ")]
    expect(what, code == status and len(errors) == 1 and needle in errors[0], (code, out, err))
    return out


def full_disk(scratch):
    trace = os.path.join(scratch, "trace.json")
    code, out, err = sluice("simulate", ROBOTS, "--calls", "3", "--trace", trace)
    expect("a trace to ask about", code == 0, (code, out, err))
    picture = at("models/scenes/samples/table.png")
    for args in (["--help"], ["roles"], ["validate", CHAT], ["validate", CHAT, "--format", "json"],
                 ["validate", CHAT, "--format", "sarif"], ["plan", CHAT], ["plan", CHAT, "--format", "json"],
                 ["plan", CHAT, "--format", "dot"], ["plan", CHAT, "--format", "svg"], ["plan", CHAT, "--explain", "generate"],
                 ["test", SCENARIO, "--seeds", "2"], ["test", SCENARIO, "--seeds", "2", "--json"],
                 ["simulate", ROBOTS, "--calls", "3"], ["simulate", ROBOTS, "--calls", "3", "--seeds", "2"],
                 ["why", trace, "1"], ["run", CHAT, "--prompt", "what color is the circle", "--image", picture],
                 ["model", "inspect", LLAMA], ["model", "check", LLAMA],
                 ["model", "bench", LLAMA, "--prompt", "4", "--tokens", "2"], ["model", "ask", QWEN, "Hi", "--tokens", "2"]):
        with open("/dev/full", "wb") as full:
            code, _, err = sluice(*args, stdout=full)
        expect(f"a full disk, {args[:2]}", code == 1 and "standard output cannot be written" in err, (code, err))
    refused("a trace on a full disk", "/dev/full: cannot be written", "simulate", ROBOTS, "--calls", "3", "--trace", "/dev/full")
    refused("a picture on a full disk", "/dev/full: cannot be written", "run", CHAT, "--prompt", "draw a red circle",
            "--steps", "2", "--out", "/dev/full")
    refused("outputs on a full disk", "/dev/full: cannot be written", "model", "check", PI0, "--inputs",
            os.path.join(PI0, "inputs.safetensors"), "--outputs", "/dev/full")


def closed_streams():
    """A launcher may start it with standard streams closed: reading and writing fail, and nothing waits."""
    model = os.path.join(ROOT, "tests/golden/conversation_qwen")
    code = subprocess.run([SLUICE, "chat", model], preexec_fn=lambda: os.close(0),
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=120)
    expect("chat with standard input closed", code.returncode == 1 and b"input cannot be read" in code.stderr,
           (code.returncode, code.stderr))
    code = subprocess.run([SLUICE, "plan", os.path.join(ROOT, "workflows/chat.yaml")],
                          preexec_fn=lambda: os.close(1), stderr=subprocess.PIPE, timeout=120)
    expect("plan with standard output closed",
           code.returncode == 1 and b"standard output cannot be written" in code.stderr,
           (code.returncode, code.stderr))


def closed_pipe():
    """Who reads has gone, as `| head` does: it ends, at once and not as if all were well."""
    for args in (["plan", CHAT, "--format", "svg"], ["roles"], ["simulate", ROBOTS, "--calls", "3"],
                 ["model", "ask", QWEN, "Hi", "--tokens", "4"]):
        reading, writing = os.pipe()
        os.close(reading)
        code, _, err = sluice(*args, stdout=writing)
        os.close(writing)
        expect(f"a closed pipe, {args[:2]}", code in (1, -signal.SIGPIPE), (code, err))


def pictures(scratch):
    draw = ["run", CHAT, "--prompt", "draw a red circle", "--steps", "2"]
    kept = []
    for n, name in enumerate(("image.png", "image-2.png", "image-3.png")):
        code, out, err = sluice(*draw, "--seed", str(n), cwd=scratch)
        expect(f"drawing {name}", code == 0 and out == f"[image: {name}, 64 x 64]\n", (code, out, err))
        path = os.path.join(scratch, name)
        kept.append(open(path, "rb").read() if os.path.exists(path) else b"")
        for earlier, data in zip(("image.png", "image-2.png"), kept):
            path = os.path.join(scratch, earlier)
            expect(f"{earlier} is not written over", os.path.exists(path) and open(path, "rb").read() == data, n)
    expect("other seeds, other pictures", len(set(kept)) == 3, [len(k) for k in kept])
    refused("a picture into no folder", "nowhere/x.png: cannot be written", *draw, "--out", os.path.join(scratch, "nowhere/x.png"))
    refused("a picture onto a folder", "cannot be written: Is a directory", *draw, "--out", "image=" + scratch)


def progress(scratch):
    """What takes long says so on standard error; standard output has the answer alone."""
    shown = r"^(preparing|running) .*, \d+ s$"
    # It is stopped for four seconds in the middle of its work, wherever that is on this machine.
    draw = ["run", CHAT, "--prompt", "draw a red circle", "--steps", "48", "--out", os.path.join(scratch, "slow.png")]
    began = time.monotonic()
    subprocess.run([SLUICE, *draw], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=300, check=True)
    whole = time.monotonic() - began
    for part in (0.5, 0.7, 0.3, 0.6, 0.4):
        slow = subprocess.Popen([SLUICE, *draw], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for what, seconds in ((signal.SIGSTOP, part * whole), (signal.SIGCONT, 4)):
            try:
                slow.wait(timeout=seconds)
            except subprocess.TimeoutExpired:
                slow.send_signal(what)
        out, err = slow.communicate(timeout=300)
        if slow.returncode != 0 or re.search(shown, err, re.M):
            break
    expect("a long drawing's output", slow.returncode == 0 and out.startswith("[image: ") and out.count("\n") == 1, (out, err))
    expect("a long drawing's progress", re.search(shown, err, re.M), err)
    code, out, err = sluice("model", "ask", QWEN, "Hi", "--tokens", "2")
    expect("what `ask` says beside the answer", code == 0 and "memory" in err and "memory" not in out, (code, out, err))


def statuses(scratch):
    out = refused("a prompt over the context", "2048", "model", "ask", SMOL, "hello there " * 3000, "--tokens", "4")
    expect("no answer to it", not out.strip(), out)
    refused("raw with a system", "--system excludes --raw", "model", "ask", QWEN, "Hi", "--raw", "--system", "x", status=2)

    good = open(SCENARIO, encoding="utf-8").read().replace("../image_edit.yaml", at("workflows/image_edit.yaml"))
    names = {}
    for name, text in (("good", good), ("bad", good.replace("code: 2,", "code: 3,")), ("broken", good.replace("expect:", "expct:"))):
        names[name] = os.path.join(scratch, name + ".yaml")
        with open(names[name], "w", encoding="utf-8") as f:
            f.write(text)
    for order in (["good", "bad"], ["bad", "good"], ["good", "broken"], ["broken", "good"]):
        for more in ([], ["--json"]):
            code, out, err = sluice("test", *(names[n] for n in order), "--seeds", "2", *more)
            expect(f"{order} {more}", code == 1 and (more or "1 of 2 scenarios passed" in out), (code, out, err))
    code, out, err = sluice("test", names["good"], names["good"], "--seeds", "2")
    expect("two good ones", code == 0 and "2 of 2 scenarios passed" in out, (code, out, err))

    failing = at("workflows/scenarios/image_chat_encoder_fails.yaml")
    code, out, err = sluice("simulate", CHAT, "--calls", "5", "--profile", failing)
    expect("failing calls are counted", code == 1 and "5 ended with an error" in out, (code, out, err))
    code, out, err = sluice("simulate", CHAT, "--calls", "5", "--profile", failing, "--seeds", "2")
    expect("of all seeds, too", code == 1 and "10 of 10 calls ended with an error" in out, (code, out, err))
    code, out, err = sluice("simulate", CHAT, "--calls", "5")
    expect("no failing calls", code == 0 and "0 ended with an error" in out, (code, out, err))
    wrong = os.path.join(scratch, "profile.yaml")
    with open(wrong, "w", encoding="utf-8") as f:
        f.write(f"scenario: x\nworkflow: {CHAT}\ncalls: [ {{ session: a, inputs: {{ request: q }} }} ]\n"
                "nodes: { nobody: { fail: true } }\n")
    code, out, err = sluice("simulate", CHAT, "--calls", "2", "--profile", wrong)
    expect("a profile for another workflow", code == 1 and "nobody" in err and not out, (code, out, err))
    trace = os.path.join(scratch, "failed.json")
    code, out, err = sluice("simulate", CHAT, "--calls", "2", "--profile", failing, "--trace", trace)
    code, out, err = sluice("why", trace, "1")
    expect("why a call failed", code == 0 and "cause: see" in out, (code, out, err))


def no_files(scratch):
    pipe, folder, none = (os.path.join(scratch, name) for name in ("pipe", "folder", "none"))
    os.mkfifo(pipe)
    os.mkdir(folder)
    uses = {
        "validate": lambda path: ["validate", path],
        "plan": lambda path: ["plan", path],
        "run": lambda path: ["run", path, "--prompt", "x"],
        "simulate": lambda path: ["simulate", path],
        "profile": lambda path: ["simulate", CHAT, "--calls", "2", "--profile", path],
        "why": lambda path: ["why", path, "0"],
        "image": lambda path: ["run", CHAT, "--prompt", "x", "--image", path],
        "request": lambda path: ["run", CHAT, "--request", path],
        "asked image": lambda path: ["model", "ask", QWEN, "x", "--image", path],
        "inputs": lambda path: ["model", "check", PI0, "--inputs", path],
    }
    for use, args in uses.items():
        for what, path, words in ((none, none, ("no such file", "does not exist")),
                                  ("a pipe", pipe, ("not a file", "not a regular file")),
                                  ("a folder", folder, ("not a file", "not a regular file", "is actually a directory", "no scenario", "no checkpoint"))):
            code, out, err = sluice(*args(path), seconds=60)
            said = err + out
            expect(f"{use}: {what}", code in (1, 2) and any(w in said for w in words) and path in said, (code, out, err))
    for path in (pipe, folder, none):  # editors read these
        code, out, err = sluice("validate", path, CHAT, "--format", "json")
        found = json.loads(out)
        expect("validate json of no file", code == 1 and [(d["file"], d["severity"]) for d in found] == [(path, "error")], out)
        code, out, err = sluice("validate", path, CHAT, "--format", "sarif")
        results = json.loads(out)["runs"][0]["results"]
        expect("validate sarif of no file", code == 1 and [r["level"] for r in results] == ["error"] and path in out, out)
    for what, path in (("a pipe", pipe), ("nothing", none), ("an empty folder", folder)):
        code, out, err = sluice("test", path, seconds=60)
        expect(f"test: {what}", code == 1 and path in out + err, (code, out, err))
    # Each file of a model in turn is a pipe, a folder, or gone.
    for model, args, files in ((LLAMA, ["inspect"], ["config.json", "model.safetensors"]),
                               (QWEN, ["ask"], ["config.json", "model.safetensors", "tokenizer.json",
                                                "tokenizer_config.json", "preprocessor_config.json"])):
        for name in files:
            for kind in ("pipe", "folder", "gone"):
                copy = os.path.join(scratch, f"{os.path.basename(model)}-{name}-{kind}")
                shutil.copytree(model, copy)
                os.remove(os.path.join(copy, name))
                if kind == "pipe":
                    os.mkfifo(os.path.join(copy, name))
                elif kind == "folder":
                    os.mkdir(os.path.join(copy, name))
                elif name == "preprocessor_config.json":
                    continue  # it may be missing
                code, out, err = sluice("model", *args, copy, *(["Hi", "--tokens", "1"] if args == ["ask"] else []), seconds=60)
                expect(f"{name} is {kind}", code == 1 and err.count("error: ") == 1 and copy in err, (code, out, err))
    if os.geteuid() != 0:  # root reads everything
        secret = os.path.join(scratch, "secret.yaml")
        shutil.copy(CHAT, secret)
        os.chmod(secret, 0)
        for args in (["plan", secret], ["validate", secret], ["why", secret, "0"]):
            code, out, err = sluice(*args)
            expect(f"unreadable, {args[0]}", code == 1 and "cannot be read" in err + out, (code, out, err))


def bad_options():
    for args in (["test", SCENARIO, "--seeds", "0"], ["simulate", CHAT, "--calls", "0"], ["simulate", CHAT, "--rate", "-1"],
                 ["simulate", CHAT, "--rate", "0"], ["simulate", CHAT, "--concurrency", "0"],
                 ["simulate", CHAT, "--nodes", "0"], ["simulate", CHAT, "--sessions", "0"], ["simulate", CHAT, "--calls", "many"],
                 ["plan", CHAT, "--format", "xml"], ["validate", CHAT, "--format", "xml"], ["why", CHAT], ["why"], ["plan"], [],
                 ["model"], ["model", "ask", QWEN], ["model", "ask", QWEN, "x", "--tokens", "0"],
                 ["model", "ask", QWEN, "x", "--precision", "fp4"], ["model", "ask", QWEN, "x", "--device", "tpu"],
                 ["model", "ask", QWEN, "x", "--temperature", "-1"], ["model", "check", PI0, "--precision", "fp4"],
                 ["simulate", CHAT, "--rate", "nan"], ["simulate", CHAT, "--rate", "inf"], ["simulate", CHAT, "--seed", "-1"],
                 ["simulate", CHAT, "--seeds", "2", "--trace", "/dev/null"], ["model", "ask", QWEN, "x", "--top-k", "-1"],
                 ["model", "ask", QWEN, "x", "--seed", "-1"], ["model", "ask", QWEN, "x", "--temperature", "nan"],
                 ["model", "ask", QWEN, "x", "--top-p", "nan"], ["chat", QWEN, "--top-k", "-1"],
                 ["chat", QWEN, "--context", "63"], ["chat", QWEN, "--context", "1048577"], ["chat", QWEN, "--seed", "-1"],
                 ["run", CHAT, "--prompt", "x", "--temperature", "nan"], ["run", CHAT, "--prompt", "x", "--top-p", "nan"],
                 ["run", CHAT, "--prompt", "x", "--guidance", "inf"], ["run", CHAT, "--prompt", "x", "--strength", "nan"],
                 ["run", CHAT, "--seed", "x"], ["plan", CHAT, "twice"], ["frobnicate"]):
        code, out, err = sluice(*args, seconds=30)
        expect(f"bad options {args}", code == 2 and err.startswith("error: ") and not out, (code, out, err))
    for args, said in ((["model", "isnpect", QWEN], "there is no command 'model isnpect'; did you mean 'inspect'?"),
                       (["model", "zzzzzz", QWEN], "there is no command 'model zzzzzz'; there are inspect, check, ask, bench"),
                       (["new", "rol", "x"], "did you mean 'role'?"), (["vaildate", CHAT], "did you mean 'validate'?")):
        code, out, err = sluice(*args, seconds=30)
        expect(f"a misspelt command {args}", code == 2 and said in err, (code, out, err))


def wrong_kinds(scratch):
    """A file of another kind than the command wants is said to be that."""
    for args in (["validate", SCENARIO], ["plan", SCENARIO], ["run", SCENARIO, "--prompt", "x"], ["simulate", SCENARIO]):
        code, out, err = sluice(*args)
        expect(f"{args[0]} of a scenario", code == 1 and f"{SCENARIO}: this is a scenario, not a workflow" in err, (code, out, err))
    refused("test of a workflow", f"{CHAT}: this is a workflow, not a scenario", "test", CHAT)
    refused("a workflow as profile", f"{CHAT}: this is a workflow, not a profile", "simulate", CHAT, "--profile", CHAT)
    weights = os.path.join(QWEN, "model.safetensors")
    for args in (["model", "inspect", weights], ["model", "check", weights], ["model", "ask", weights, "x"], ["chat", weights],
                 ["model", "bench", weights]):
        refused(f"{args} of one file", f"{weights}: this is one file of a checkpoint; name its folder, {QWEN}", *args)
    untold = os.path.join(scratch, "untold")
    os.mkdir(untold)
    with open(os.path.join(untold, "config.json"), "w", encoding="utf-8") as f:
        f.write("{}")
    refused("a configuration of no family", "it does not say of which family", "model", "inspect", untold)


def wrong_contents(scratch):
    other = os.path.join(at("tests/golden/llama"), "inputs.safetensors")
    expect("another model's inputs are there", os.path.exists(other), other)
    outputs = os.path.join(scratch, "outputs.safetensors")
    code, out, err = sluice("model", "check", PI0, "--inputs", other, "--outputs", outputs)
    expect("a model with another's inputs", code == 1 and f"error: {other}: " in err and not os.path.exists(outputs), (code, out, err))
    asked = os.path.join(scratch, "asked.yaml")
    with open(asked, "w", encoding="utf-8") as f:
        f.write(f"scenario: x\nworkflow: {CHAT}\ncalls:\n  - {{ session: a, inputs: {{ requst: q }} }}\n")
    code, out, err = sluice("test", asked, "--seeds", "1")
    expect("a scenario's call with an unknown input", code == 1 and f"{asked}:4:" in err and "requst" in err and "request" in err,
           (code, out, err))
    odd = os.path.join(scratch, "a b~{1}\u00e4.yaml")
    with open(odd, "w", encoding="utf-8") as f:
        f.write("sluice: 1\n")
    code, out, err = sluice("validate", odd, "--format", "sarif")
    uris = {r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in json.loads(out)["runs"][0]["results"]}
    expect("a file's name as a URI", len(uris) == 1 and next(iter(uris)).endswith("/a%20b~%7B1%7D%C3%A4.yaml"), uris)


def names_of_outputs(scratch):
    draw = ["run", CHAT, "--prompt", "draw a red circle", "--steps", "1"]
    for name in ("-", "image=-"):
        refused(f"--out {name}", f"--out {name}: outputs go to files", *draw, "--out", name, cwd=scratch)
    expect("no file of that name", not os.path.exists(os.path.join(scratch, "-")), os.listdir(scratch))
    path = os.path.join(scratch, "none.png")
    code, out, err = sluice("run", CHAT, "--image", at("models/scenes/samples/table.png"), "--prompt", "what color is the circle", "--out", "image=" + path)
    expect("a file that nothing came for", code == 0 and "red" in out and not os.path.exists(path) and
           f"note: nothing came for the output 'image': {path} was not written" in err, (code, out, err))
    for ending in ("jpg", "jpeg", "npy"):
        path = os.path.join(scratch, "drawn." + ending)
        refused(f"a picture as {ending}", f"a picture is written as PNG; name it {scratch}/drawn.png", *draw, "--out", path)
        expect("nothing is written", not os.path.exists(path), path)
    for name in ("drawn.png", "drawn", "drawn.v2"):
        path = os.path.join(scratch, name)
        code, out, err = sluice(*draw, "--out", path)
        with open(path, "rb") as f:
            expect(f"a picture as {name}", code == 0 and f.read(4) == b"\x89PNG", (code, out, err))


def no_descriptors(scratch):
    """However few files it may open, it answers or says why not, and ends."""
    with open(SLUICE, "rb") as binary:
        if b"__asan_init" in binary.read():
            return  # a sanitizer opens pipes of its own to look at memory, and takes none for a defect
    lines = os.path.join(scratch, "calls.jsonl")
    with open(lines, "w", encoding="utf-8") as f:
        f.write(json.dumps({"inputs": {"request": {"content": [{"type": "text", "text": "what color is the circle"}]}}}) + "\n")
    said = set()
    for how in (["--prompt", "draw a star", "--seed", "1", "--out", os.path.join(scratch, "star.png")], ["--calls", lines]):
        for most in range(4, 10):
            code, out, err = sluice("run", CHAT, *how, cwd=scratch, descriptors=most)
            none = "no file descriptor can be opened (Too many open files)" in err
            expect(f"{most} descriptors", (code == 0 and not none) or (code == 1 and (err or '"ok":false' in out)), (code, out, err))
            said.add(none)
    expect("descriptors are named where there are none", True in said, said)


def hostile_names(scratch):
    """What a file or a model says does not command the terminal: escapes are shown, or left out."""
    folder = os.path.join(scratch, "hostile")
    shutil.copytree(LLAMA, folder)
    header = json.dumps({"a\x1b]0;title\x07\x9b2J": {"dtype": "\x1b[2J", "shape": [1], "data_offsets": [0, 4]}}, ensure_ascii=False).encode()
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header + bytes(4))
    code, out, err = sluice("model", "inspect", folder)
    expect("a hostile tensor name", code == 1 and "unknown dtype" in err and not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", out + err), (code, out, err))
    refused("an escape in a name of a file", "\\x1b[2J", "model", "inspect", "/nowhere\x1b[2J")
    code, out, err = sluice("model", "ask", QWEN, "what does <|image_pad|> mean?", "--tokens", "4")
    expect("a question about a special token", code == 0 and "error" not in err, (code, out, err))
    # An answer with control characters: whole in a pipe, without them in a terminal.
    ask = [SLUICE, "model", "ask", at("tests/golden/gguf/llama.gguf"), "Hello", "--tokens", "60", "--temperature", "1.5", "--seed", "4"]
    piped = subprocess.run(ask, capture_output=True, timeout=120).stdout
    pid, end = pty.fork()
    if pid == 0:
        os.execv(SLUICE, ask)
    seen = b""
    while True:
        try:
            got = os.read(end, 4096)
        except OSError:  # the program has ended
            got = b""
        if not got:
            break
        seen += got
    os.waitpid(pid, 0)
    os.close(end)
    plain = re.sub("[\x00-\x08\x0b-\x1f\x7f-\x9f]", "", piped.decode())
    shown = seen.decode().replace("\r\n", "\n")
    expect("an answer in a terminal", plain != piped.decode() and plain in shown and "\x07" not in shown, (piped, seen))


def no_memory():
    """An answer gets pages for what the model reads, whatever was asked for; where memory runs out, that is said."""
    with open(SLUICE, "rb") as binary:
        if b"__asan_init" in binary.read():
            return  # then a process reserves more than any limit
    model, limit = at("tests/golden/gguf/llama.gguf"), 1500 << 20
    code, out, err = sluice("model", "ask", model, "Hello", "--tokens", str(1 << 20), memory=limit)
    expect("more tokens than the model reads", code == 0 and out.strip() and "error" not in err, (code, out, err))
    # 2 GB of keys and values, which the machine may have and the process may not.
    refused("no memory", "memory ran out", "model", "bench", model, "--batch", "1024", "--prompt", "1", "--tokens", "1000",
            memory=limit)


def what_is_read(scratch):
    """No output and no trace takes the place of a file that the command reads."""
    files = {name: os.path.join(scratch, "read_" + name) for name in ("flow.yaml", "in.png", "calls.jsonl", "profile.yaml", "q.json")}
    flow, picture, calls, profile, request = files.values()
    shutil.copy(at("models/scenes/samples/table.png"), picture)
    weights = os.path.join(scratch, "read_model", "model.safetensors")
    shutil.copytree(at("models/scenes"), os.path.dirname(weights))
    files[weights] = weights
    with open(CHAT, encoding="utf-8") as f:
        text = f.read().replace("models/scenes", os.path.dirname(weights))
    for path, words in ((flow, text), (calls, '{"inputs": {"request": {"content": [{"type": "text", "text": "hi"}]}}}\n'),
                        (profile, "profile: p\nnodes: { parse: { latency: 5ms } }\n"),
                        (request, '{"content": [{"type": "text", "text": "hi"}]}')):
        with open(path, "w", encoding="utf-8") as f:
            f.write(words)
    part, whole = os.path.join(scratch, "read_part.yaml"), os.path.join(scratch, "read_whole.yaml")
    for path, words in ((part, "sluice: 1\nroles: { any: { plugin: scripted } }\n"),
                        (whole, "sluice: 1\nworkflow: w\ninclude: [read_part.yaml]\ninputs: { x: json }\n"
                                "nodes: { a: { run: any.a, inputs: [ { x: inputs.x } ] } }\noutputs: { y: a.y }\n")):
        with open(path, "w", encoding="utf-8") as f:
            f.write(words)
        files[path] = path
    folder = os.path.join(scratch, "read_plugins")
    os.mkdir(folder)
    plugin = files["plugin"] = os.path.join(folder, "shout.role.yaml")
    with open(plugin, "w", encoding="utf-8") as f:
        f.write("sluice_role: 1\nname: shout\nmeaning: loud\nabi: 1.0\nkind: plain\ninterfaces:\n  speak:\n"
                "    inputs: { text: { type: text, meaning: words } }\n    outputs: { word: { type: text, meaning: loud words } }\n")
    before = {path: open(path, "rb").read() for path in files.values()}
    link = os.path.join(scratch, "read_link")
    os.link(flow, link)
    for path, args in ((flow, ["run", flow, "--prompt", "hi", "--trace", flow]), (flow, ["run", flow, "--prompt", "hi", "--trace", link]),
                       (flow, ["run", flow, "--prompt", "hi", "--out", "text=" + flow]),
                       (picture, ["run", flow, "--prompt", "hi", "--image", picture, "--trace", picture]),
                       (picture, ["run", flow, "--prompt", "draw a star", "--image", picture, "--out", picture]),
                       (calls, ["run", flow, "--calls", calls, "--trace", calls]),
                       (request, ["run", flow, "--request", request, "--trace", request]),
                       (request, ["run", flow, "--input", "request=@" + request, "--trace", request]),
                       (flow, ["simulate", flow, "--calls", "1", "--trace", flow]),
                       (part, ["simulate", whole, "--calls", "1", "--trace", part]),
                       (part, ["run", whole, "--input", "x=1", "--trace", part]),
                       (part, ["run", whole, "--input", "x=1", "--out", "y=" + part]),
                       (weights, ["run", flow, "--prompt", "hi", "--trace", weights]),
                       (weights, ["model", "check", os.path.dirname(weights), "--inputs", picture, "--outputs", weights]),
                       (picture, ["model", "check", os.path.dirname(weights), "--inputs", picture, "--outputs", picture]),
                       (plugin, ["simulate", flow, "--calls", "1", "--plugins", folder, "--trace", plugin]),
                       (plugin, ["run", flow, "--prompt", "hi", "--plugins", folder, "--trace", plugin]),
                       (profile, ["simulate", flow, "--calls", "1", "--profile", profile, "--trace", profile])):
        refused(f"over what is read: {args}", f"it would be written over {path}, which is read", *args)
    for path, was in before.items():
        expect("what is read stays", open(path, "rb").read() == was, path)
    for args in (["run", flow, "--prompt", "hi"], ["simulate", flow]):
        refused("a trace to standard output", "a trace goes to a file", *args, "--trace", "-", status=2)
    refused("outputs nowhere", "--outputs: /none/x.st: cannot be written: No such file or directory", "model", "check",
            os.path.dirname(weights), "--inputs", picture, "--outputs", "/none/x.st")
    refused("no output's name", "no output is named before the '='", "run", flow, "--prompt", "hi", "--out", "=x.png")


def empty_values():
    """An option with nothing behind it, as a variable that is not set leaves it, is not as if left out."""
    for option in ("--cluster", "--calls", "--trace", "--request", "--session", "--name"):
        refused(f"{option} of nothing", "it is empty", "run", CHAT, "--prompt", "hi", option, "", status=2)
        # What follows is not its value.
        refused(f"{option}= before another", f"{option}: it is empty", "run", CHAT, "--prompt", "hi", option + "=", "--seed", "3", status=2)
    refused("a folder of nothing", "it is empty", "chat", LLAMA, "--kv-folder", "", status=2)
    for prompt in (("--prompt", ""), ("--prompt=",)):
        refused("an empty prompt has words of its own", "the prompt is empty", "run", CHAT, *prompt)
    refused("a wrong number, then another", "--max-tokens is given more than once", "model", "ask", QWEN, "Hi", "--max-tokens", "0",
            "--max-tokens", "3", status=2)


def main():
    with tempfile.TemporaryDirectory() as scratch:
        full_disk(scratch)
        closed_streams()
        closed_pipe()
        pictures(scratch)
        progress(scratch)
        statuses(scratch)
        no_files(scratch)
        wrong_kinds(scratch)
        wrong_contents(scratch)
        names_of_outputs(scratch)
        no_descriptors(scratch)
        hostile_names(scratch)
        what_is_read(scratch)
    no_memory()
    bad_options()
    empty_values()
    print("\n".join(failures) if failures else "all as expected")
    sys.exit(1 if failures else 0)


main()
