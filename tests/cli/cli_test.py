"""The command line as a user meets it: exit status, one-line errors, streamed answers, a picture written.

    cli_test.py SLUICE REPOSITORY
"""
import hashlib
import json
import math
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import zlib

SLUICE, ROOT = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
CHAT = "workflows/image_chat.yaml"
TABLE, PHOTO = "models/scenes/samples/table.png", "models/scenes/samples/scene.jpg"
failures = []


def sluice(*args, cwd=ROOT):
    done = subprocess.run([SLUICE, *args], cwd=cwd, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout, done.stderr


def expect(what, condition, seen):
    if not condition:
        failures.append(f"{what}: {seen}")
        if "SLUICE_FIRST_FAILURE_ENDS" in os.environ:
            sys.exit(failures[0])


def one_line_error(what, needle, *args, status=1):
    code, out, err = sluice(*args)
    # Beside the hint, only progress may stand there, where a machine is slow.
    lines = [line for line in err.splitlines() if not re.search(r"^See `|, \d+ s$", line)]
    expect(what, code == status and len(lines) == 1 and lines[0].startswith("error: ") and needle in err and not out,
           (code, out, err))


def png_header(width, height):
    body = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + body + struct.pack(">I", zlib.crc32(body))


def trace_agrees(events, printed):
    """A trace names its threads, its activations lie in their calls, and the report's figures are those of its calls."""
    names = {(e["pid"], e.get("tid"), e["name"]): e["args"]["name"] for e in events if e["ph"] == "M"}
    expect("processes of a trace", (names[1, None, "process_name"], names[2, None, "process_name"]) == ("calls", "nodes"), names)
    calls = {e["args"]["call"]: e for e in events if e.get("cat") == "call"}
    for call in calls.values():
        expect("a call's thread", names.get((1, call["tid"], "thread_name")) == call["args"]["session"], call)
    spans = [e for e in events if e.get("cat") == "activation"]
    ends = {e["args"]["span"]: e["ts"] + e["dur"] for e in spans}
    for e in spans:
        call, said = calls[e["args"]["call"]], e["args"]
        expect("an activation's thread", names.get((2, e["tid"], "thread_name")) == e["name"], e)
        sent = e["ts"] - said["queued_us"] - said["travelled_us"]
        expect("an activation in its call", call["ts"] - 0.01 <= sent <= e["ts"] and said["queued_us"] >= 0 <= said["travelled_us"]
               and e["ts"] + e["dur"] <= call["ts"] + call["dur"] + 0.01, (e, call))
        expect("what it came after", "after" not in said or said["after"] != said["span"] and ends[said["after"]] <= e["ts"] + 0.01, e)
    took = sorted(call["dur"] / 1000 for call in calls.values())
    rank = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1}
    row = "  ".join(f"{name} {took[math.ceil(share * (len(took) - 1))]:9.2f}" for name, share in rank.items())
    expect("the figures of whole calls", f"whole call     {row} ms\n" in printed, (row, printed))
    end = max(call["ts"] + call["dur"] for call in calls.values()) / 1e6
    expect("the throughput", f"{len(took) / end:.1f} calls/s, 0 ended with an error" in printed
           and f"{end:.3f} s of virtual time" in printed, (end, printed))


def set_of_a_folder(scratch):
    """--set goes to the scenarios of a folder whose workflow it is for; the others are skipped, by name."""
    replicas = ("--set", "roles.vit.replicas=3", "--seeds", "2")
    code, out, err = sluice("test", "workflows", *replicas)
    skipped, ran = re.findall(r"^skipped  (\S+)", out, re.M), re.findall(r"^ok      (\S+)", out, re.M)
    expect("--set for some of a folder", code == 0 and not err and skipped and ran and "FAILED" not in out and
           all("image_chat" in name for name in ran if "vlm" not in name and "prefill" not in name) and
           f"{len(ran)} of {len(ran)} scenarios passed, 2 seeds each" in out and out.endswith(f"; {len(skipped)} skipped, whose workflows have not what --set names\n") and
           out.count("there is no 'roles.vit'") == len(skipped), (code, out, err))
    lines = [json.loads(line) for line in sluice("test", "workflows", *replicas, "--json")[1].splitlines()]
    expect("the same as JSON", sorted(line["file"] for line in lines if "skipped" in line) == skipped and
           all(("skipped" in line) != line.get("passed", False) for line in lines) and len(lines) == len(ran) + len(skipped), lines)
    code, out, err = sluice("test", *skipped[:1], *replicas)
    expect("a scenario that was named is not skipped", code == 1 and out.startswith("FAILED") and "there is no 'roles.vit'" in out, (code, out, err))
    code, out, err = sluice("test", "workflows", "--set", "roles.vit.replicaz=3", "--seeds", "2")
    expect("--set for none of a folder", code == 1 and "error: no scenario was run: --set roles.vit.replicaz=3: there is no 'roles.vit.replicaz'" in err and
           "did you mean 'roles.vit.replicas'?" in err, (code, out, err))
    code, out, err = sluice("test", "workflows", "--set", "roles.vit.replicas=none", "--seeds", "2")
    expect("a value that does not fit is not skipped", code == 1 and "FAILED" in out and "roles.vit.replicas=none" in err, (code, out, err))


def set_of_a_cluster(file):
    """--set goes to the workflows of a cluster file that have the name; one that none of them has is an error."""
    for name in "ab":
        file(f"set_{name}.yaml", f"sluice: 1\nworkflow: {name}\ninputs: {{ x: json }}\nroles: {{ {name}: {{ plugin: parse_request }} }}\n"
             f"nodes: {{ {name}: {{ run: {name}.parse, inputs: [ {{ request: inputs.x }} ] }} }}\noutputs: {{ o: {name}.text }}\n".encode())
    both = file("set_both.yaml", b"cluster: 1\nworkflows: [ set_a.yaml, set_b.yaml ]\n"
                b"machines:\n  one: { home: true, roles: [ a ] }\n  two: { roles: [ b ], keeper: true }\n")
    for path in ("roles.a.replicas=2", "roles.b.replicas=2", "nodes.b.deadline=5s", "limits.calls=3"):
        code, out, err = sluice("validate", both, "--set", path)
        expect(f"--set {path} of a cluster file", code == 0 and not err and out == "1 file, 0 errors, 0 warnings\n", (code, out, err))
    code, out, err = sluice("validate", both, "--set", "roles.b.replicas=none")
    expect("a value that does not fit in the one workflow that has the name",
           code == 1 and out.count("--set roles.b.replicas=none: replicas is 'none'") == 1 and out.count("error: ") == 1, (code, out, err))
    code, out, err = sluice("validate", both, "--set", "roles.c.replicas=2", "--set", "roles.a.replicas=2")
    expect("--set for no workflow of a cluster file", code == 1 and out.count("there is no 'roles.c'") == 2 and "roles.a'" not in out, (code, out, err))


def picture_through_a_pipe(asked, answer):
    """`model ask ... --image FILE` with `-` in the file's place."""
    def piped(data, *words):
        done = subprocess.run([SLUICE, *words], cwd=ROOT, input=data, capture_output=True, timeout=300)
        return done.returncode, done.stdout.decode(), done.stderr.decode()
    with open(asked[-1], "rb") as file:
        picture = file.read()
    code, out, err = piped(picture, *asked[:-1], "-")
    expect("a picture through a pipe", code == 0 and out == answer + "\n", (code, out, err))
    code, out, err = piped(b"GIF89a", *asked[:-1], "-")
    expect("no picture through a pipe", code == 1 and not out and err.endswith("error: standard input: not a PNG or JPEG: it is a GIF\n"), (code, out, err))
    for more, reader in ((["--image", "-"], "another --image"), ([], "PROMPT")):
        words = [word if more or word != asked[3] else "-" for word in [*asked[:-1], "-", *more]]
        code, out, err = piped(picture, *words)
        expect(f"standard input for two, {reader}", code == 1 and not out and
               f"error: --image: standard input can be read once, and {reader} reads it" in err, (code, out, err))


def unknown_places(scratch, file):
    """What the system says of a place that cannot be looked at is told; only of root it is no missing right to enter."""
    os.symlink("round", os.path.join(scratch, "round"))
    place, cannot = os.path.join(scratch, "round", "x"), "cannot be read: "
    for command in (["test"], ["model", "inspect"], ["chat"], ["roles", "--plugins"], ["plan"], ["up"], ["run", CHAT, "--image"],
                    ["run", CHAT, "--request"], ["run", CHAT, "--calls"], ["simulate", CHAT, "--profile"],
                    ["model", "check", "tests/golden/llama", "--outputs", os.path.join(scratch, "o"), "--inputs"]):
        one_line_error(f"a place that nobody can look at, {command}", cannot, *command, place)
    code, out, err = sluice("validate", file("far.yaml", f"sluice: 1\nworkflow: w\ninputs: {{ x: text }}\nroles: {{ a: {{ plugin: chat_model, model: \"{place}\" }} }}\n"
                                             "nodes: { n: { run: a.answer, inputs: [ { text: inputs.x } ] } }\noutputs: { y: n.token }\n".encode()))
    expect("a model that nobody can look at", code == 1 and f"{place}: {cannot}" in out and "there is no directory" not in out, (code, out, err))
    code, out, err = sluice("validate", file("locks.yaml", b"cluster: 1\nworkflows: [ w.yaml ]\nkeys: round/x\nmachines: { a: { home: true } }\n"))
    expect("keys that nobody can look at", code == 1 and cannot in out and "[bad-key]" in out and "there is no folder" not in out, (code, out, err))


def kinds(scratch, file):
    """A file of another kind than the command wants is named, once; `validate` takes them all."""
    cluster = "examples/cluster/laptop.yaml"
    manifest = file("shout.role.yaml", b"sluice_role: 1\nname: shout\nmeaning: loud\nabi: 1.0\nkind: plain\n"
                    b"interfaces:\n  speak:\n    inputs: { text: { type: text, meaning: words } }\n"
                    b"    outputs: { word: { type: text, meaning: loud words } }\n")
    for command in ("plan", "run", "simulate"):
        one_line_error(f"a cluster as a workflow, {command}", "this is a cluster file, not a workflow", command, cluster)
        one_line_error(f"a manifest as a workflow, {command}", "this is a role's manifest, not a workflow", command, manifest)
    one_line_error("a cluster as a scenario", "this is a cluster file, not a scenario", "test", cluster)
    one_line_error("`all` and another", "`all` is every role: name no other beside it", "run", CHAT, "--prompt", "x", "--isolate", "all,vit")
    one_line_error("a workflow as a cluster", "this is a workflow, not a cluster file", "up", CHAT)
    one_line_error("a workflow as --cluster", "this is a workflow, not a cluster file", "run", "--cluster", CHAT)
    machines = b"workflows: [ w.yaml ]\nmachines: { front: { home: true, roles: [ a ] } }\n"
    for command in ("plan", "run", "simulate"):
        one_line_error(f"a cluster file without its first line, {command}", "this has `machines:`, as a cluster file has, and lacks `cluster: 1`",
                       command, file("headless.yaml", machines))
        one_line_error(f"a cluster file that begins as a workflow, {command}", "write `cluster: 1` in place of `sluice: 1`",
                       command, file("misnamed.yaml", b"sluice: 1\n" + machines))
    code, out, err = sluice("validate", os.path.join(scratch, "headless.yaml"))
    expect("validate says where it lacks that", code == 1 and "headless.yaml:1:1: error: the file does not say that it is a cluster file [missing-key]\n" in out and
           "help: begin with `cluster: 1`\n" in out and not err, (code, out, err))
    for command in (["up"], ["run", "--cluster"], ["status", "--cluster"]):
        one_line_error(f"a cluster file that begins as a workflow, {command}", "write `cluster: 1` in place of `sluice: 1`",
                       *command, os.path.join(scratch, "misnamed.yaml"))
        one_line_error(f"a workflow without its first line, {command}", "this looks like a workflow that lacks `sluice: 1`, not a cluster file",
                       *command, file("flow.yaml", b"workflow: w\ninputs: { x: text }\nroles: { a: { plugin: scripted } }\n"
                                      b"nodes: { n: { run: a.go, inputs: [ { x: inputs.x } ] } }\noutputs: { y: n.y }\n"))
        one_line_error(f"another program's file with a list of roles, {command}", "this is not a cluster file: it begins with 'hosts', 'roles';", *command,
                       file("play.yaml", b"hosts: web\nroles: [ nginx ]\n"))
    code, out, err = sluice("validate", manifest, cluster)
    expect("a manifest is checked", code == 0 and out.endswith("2 files, 0 errors, 0 warnings\n"), (code, out, err))
    wrong = file("wrong.role.yaml", b"sluice_role: 1\nname: shout\nmeening: loud\n")
    code, out, err = sluice("validate", wrong)
    expect("and what is wrong with it found", code == 1 and ":3:1" in out and "meaning" in out, (code, out, err))
    keys = os.path.join(scratch, "keys")
    one_line_error("a key of no machine", "a machine's name is of a-z", "keys", keys, "--machine", "arm", "--machine", "Bad", status=2)
    one_line_error("a machine twice", "--machine arm is given twice", "keys", keys, "--machine", "arm", "--machine", "arm", status=2)
    one_line_error("keys in a folder without a name", "the folder's name is empty", "keys", "", "--machine", "arm", status=2)
    expect("no key is left of them", not os.path.exists(keys), "")
    open_folder = os.path.join(scratch, "open_keys")
    os.mkdir(open_folder)
    os.chmod(open_folder, 0o777)
    one_line_error("keys in a folder that others may write in", f"{open_folder}: others may write in it, who could replace keys", "keys", open_folder, "--machine", "arm")
    expect("no key is left there", not os.listdir(open_folder), os.listdir(open_folder))
    shared = os.path.join(keys, "kv-pages.secret")
    for machine, then in (("first", "is as secret"), ("old", "was there and is kept")):
        code, out, err = sluice("keys", keys, "--machine", machine)
        expect("keys say what was written, who may read it and what is next", code == 0 and not err
               and out.startswith(f"{keys}/{machine}.public  ") and "only this user may read" in out and f"{shared} {then}." in out
               and "Next: write `keys: FOLDER` in the cluster file" in out and "kv-pages.secret" in out.splitlines()[-1], (code, out, err))
        expect("a secret is its owner's only", [os.stat(path).st_mode & 0o777 for path in (shared, f"{keys}/{machine}.secret")] == [0o600] * 2, keys)
    one_line_error("a key that is there", f"never replaced: {keys}/old.secret, {keys}/old.public; no key was made", "keys", keys,
                   "--machine", "arm", "--machine", "old")
    expect("none is made beside it", not [name for name in os.listdir(keys) if name.startswith("arm")], os.listdir(keys))
    for asked, option in ((("help",), ("--help",)), (("help", "model", "ask"), ("model", "ask", "--help")), (("version",), ("--version",))):
        expect(f"{asked}", sluice(*asked) == sluice(*option) and sluice(*asked)[0] == 0, sluice(*asked))


def clusters(scratch, file):
    """What a cluster file says of addresses and keys is looked at before a machine begins."""
    keys = os.path.join(scratch, "cluster_keys")

    def found(address, other='"tcp://10.0.0.2:7000"', folder=keys, format="json"):
        text = f"""cluster: 1
workflows: [ {ROOT}/{CHAT} ]
keys: {folder}
machines:
  front: {{ home: true, roles: [ parser, vit, vae ], address: {address} }}
  talk: {{ roles: [ llm, diffusion ], address: {other} }}
"""
        code, out, err = sluice("validate", file("keyed.yaml", text.encode()), "--format", format)
        return (code, out) if format == "text" else [(d["line"], d["column"], d["code"], d["message"], d["suggestion"]) for d in json.loads(out)]

    one = found('"tcp://10.0.0.1:7000"')
    expect("a missing folder of keys", len(one) == 1 and one[0][:3] == (3, 7, "missing-keys") and keys in one[0][3]
           and one[0][4] == f"`sluice keys {keys} --machine front --machine talk` makes them", one)
    sluice("keys", keys, "--machine", "front")
    one = found('"tcp://10.0.0.1:7000"')
    expect("a machine without a key", len(one) == 1 and one[0][:3] == (3, 7, "missing-keys") and "no talk.public" in one[0][3]
           and one[0][4] == ("copy it from where `sluice keys` made the pair; for a machine that has none, "
                              f"`sluice keys {keys} --machine talk` makes it"), one)
    sluice("keys", keys, "--machine", "talk")
    expect("keys and addresses that are right", found('"tcp://10.0.0.1:7000"', '"tcp://[fe80::1]:65535"') == [], "")
    # Each machine has its own secret, and one that validates a file need not be any of them.
    os.remove(os.path.join(keys, "talk.secret"))
    expect("the secret of another machine", found('"tcp://10.0.0.1:7000"') == [], "")
    with open(os.path.join(keys, "talk.public"), "w") as f:
        f.write("no key\n")
    one = found('"tcp://10.0.0.1:7000"')
    expect("a key that is none", len(one) == 1 and one[0][2] == "bad-key" and "talk.public holds no public key" in one[0][3], one)
    sluice("keys", os.path.join(scratch, "more_keys"), "--machine", "front", "--machine", "talk")
    keys = os.path.join(scratch, "more_keys")
    # A secret that is there is looked at: in itself, and whether it is that of its machine.
    kept = {}
    for name in ("front.public", "front.secret", "talk.public", "talk.secret"):
        with open(os.path.join(keys, name), "rb") as f:
            kept[name] = f.read()
    for name, data, words in (("talk.secret", kept["front.secret"], (f"{keys}/talk.secret is not the secret of {keys}/talk.public: it is that of 'front'",)),
                              ("talk.secret", b"hello\n", (f"{keys}/talk.secret holds no key pair",)),
                              ("talk.public", kept["front.public"], (f"{keys}/talk.public has the same key as {keys}/front.public",
                                                                     f"{keys}/talk.secret is not the secret of {keys}/talk.public"))):
        with open(os.path.join(keys, name), "wb") as f:
            f.write(data)
        one = found('"tcp://10.0.0.1:7000"', folder=keys)
        expect(f"keys that are mixed up: {words}", sorted(d[2] for d in one) == ["bad-key"] * len(words)
               and all(any(d[3].startswith(word) for d in one) for word in words), one)
        with open(os.path.join(keys, name), "wb") as f:
            f.write(kept[name])
    os.chmod(os.path.join(keys, "talk.secret"), 0o644)
    one = found('"tcp://10.0.0.1:7000"', folder=keys)
    expect("a secret that is open", [d[2] for d in one] == ["bad-key"] and "talk.secret is open to others: chmod 0600" in one[0][3], one)
    os.chmod(os.path.join(keys, "talk.secret"), 0o600)
    expect("keys that were put back", found('"tcp://10.0.0.1:7000"', folder=keys) == [], "")
    for address, words in (("tcp://256.0.0.1:7000", "a numeric address is needed"), ("tcp://10.0.0.1:99999", "from 1 to 65535"),
                           ("tcp://10.0.0.1:0", "from 1 to 65535"), ("tcp://10.0.0.1:65536", "from 1 to 65535"),
                           ("tcp://10.0.0.1", "the port is missing"), ("tcp://:7000", "a numeric address is needed"),
                           ("tcp://", "the port is missing"), ("tcp://host.example:7000", "a numeric address is needed"),
                           ("ipc://run/x", "a path from the root"), ("ipc:///" + 107 * "x", "at most 107"), ("ipc://", "a path from the root")):
        one = found(f'"{address}"', folder=keys)
        expect(f"{address}", len(one) == 1 and one[0][0] == 5 and one[0][2] == "bad-address" and words in one[0][3], one)
    # Of an ipc address, which is of this computer, the folder and what stands there are looked at.
    sockets = os.path.join(scratch, "sockets")
    place = f'"ipc://{sockets}/front"'
    one = found(place, f'"ipc://{sockets}/talk"', folder=keys)
    expect("no folder of sockets", [(d[0], d[2]) for d in one] == [(5, "bad-address")] and f"directory {sockets} of an ipc address"
           in one[0][3] and "make it with mode 0700" in one[0][3], one)
    os.mkdir(sockets)
    os.chmod(sockets, 0o755)
    one = found(place, folder=keys)
    expect("an open folder of sockets", [d[2] for d in one] == ["bad-address"] and "chmod 0700" in one[0][3], one)
    one = found('"ipc:///tmp/front"', folder=keys)
    expect("a folder of all", [d[2] for d in one] == ["bad-address"]
           and ("name a folder of your own" if os.getuid() == 0 else "belongs to user") in one[0][3], one)
    os.chmod(sockets, 0o700)
    expect("a folder of mode 0700", found(place, folder=keys) == [], "")
    longest = f"ipc://{sockets}/"
    expect("a path of 107 bytes", found(f'"{longest + (107 + len("ipc://") - len(longest)) * "x"}"', folder=keys) == [], "")
    for name in ("front", "front.memory"):
        path = file(f"sockets/{name}", b"mine")
        one = found(place, folder=keys)
        expect(f"a file at {name}", [d[2] for d in one] == ["bad-address"] and f"{path} is there and is no socket" in one[0][3]
               and "move it away" in one[0][4], one)
        os.remove(path)
    path = file("sockets/pages.region", b"mine")
    one = found(f'{place}, pages: "ipc://{sockets}/pages"', folder=keys)
    expect("a file where pages are mapped", [d[2] for d in one] == ["bad-address"] and f"{path} is there and is no socket" in one[0][3], one)
    one = found(f'{place}, pages: {{ address: "ipc://{sockets}/pages", by: message }}', folder=keys)
    expect("nothing stands there where they are not", one == [], one)
    os.remove(path)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(f"{sockets}/front")
    expect("a socket that was left", found(place, folder=keys) == [], "")
    code, out = found('"tcp://10.0.0.1:0"', folder=keys, format="text")
    expect("with the line and a caret", code == 1 and "keyed.yaml:5:" in out and "address: \"tcp://10.0.0.1:0\"" in out and "^" in out, out)


def main():
    with tempfile.TemporaryDirectory() as scratch:
        def file(name, data):
            path = os.path.join(scratch, name)
            with open(path, "wb") as f:
                f.write(data)
            return path

        with open(os.path.join(ROOT, PHOTO), "rb") as f:
            photo = f.read()
        ask = ("run", CHAT, "--prompt", "what color is the circle", "--image")
        one_line_error("missing picture", "nowhere.png: no such file", *ask, "nowhere.png")
        one_line_error("folder as picture", "this is a folder, not a file", *ask, scratch)
        one_line_error("text named png", "it is plain text", *ask, file("text.png", b"hello there\n"))
        one_line_error("truncated JPEG", "truncated", *ask, file("cut.jpg", photo[: len(photo) // 2]))
        one_line_error("huge PNG", "20000 x 20000", *ask, file("huge.png", png_header(20000, 20000)))
        one_line_error("empty prompt", "the prompt is empty", "run", CHAT, "--prompt", "")
        one_line_error("no prompt", "the call asks nothing: --prompt TEXT", "run", CHAT)
        one_line_error("option out of range", "max_tokens", "run", CHAT, "--prompt", "hello", "--max-tokens", "0")
        one_line_error("missing workflow", "no such file", "run", "workflows/none.yaml", "--prompt", "x")
        one_line_error("unknown command", "validate", "validat", CHAT, status=2)
        one_line_error("unknown option", "--prompt", "run", CHAT, "--promt", "x", status=2)
        one_line_error("unknown option of a command within one", "did you mean '--tokens'", "model", "ask", "models/scenes", "x", "--tokns", "3", status=2)
        one_line_error("unknown node", "generate", "plan", CHAT, "--explain", "generat")
        one_line_error("unknown node that is like none", "no node or output 'xyzzy' in " + CHAT + "; there are inputs, parse, embed, ",
                       "plan", CHAT, "--explain", "xyzzy")
        for command in ("up", "validate"):
            one_line_error(f"{command} --cluster", f"`sluice {command}` has no option '--cluster': write the file alone, `sluice {command} FILE`",
                           command, "--cluster", "examples/cluster/laptop.yaml", status=2)
        for value in ("0", "many"):
            code, out, err = sluice("validate", "workflows/jury.yaml", "--set", f"roles.judge.replicas={value}")
            expect("replicas whose number is wrong are not told to be one", code == 1 and out.count("replicas is '") == 1 and "0 warnings" in out, out)
        one_line_error("outputs without inputs", "--inputs", "model", "check", "tests/golden/llama", "--outputs", os.path.join(scratch, "o"), status=2)
        one_line_error("a seed below 0", "0 or more", "test", "workflows", "--seed", "-1", status=2)
        one_line_error("a stop that is no text", "--stop: it is no text: byte 2 is not UTF-8", "model", "ask", "tests/golden/qwen2", "x", "--stop", b"a\xff")
        one_line_error("a prompt that is no text", "PROMPT: it is no text: byte 2 is not UTF-8", "model", "ask", "tests/golden/qwen2", b"a\xff")
        kinds(scratch, file)
        unknown_places(scratch, file)
        set_of_a_cluster(file)
        clusters(scratch, file)

        code, out, err = sluice(*ask, TABLE)
        expect("an answer", code == 0 and out.strip() and "error" not in err, (code, out, err))
        code, out, err = sluice(*ask, PHOTO)
        expect("a large JPEG", code == 0 and out.strip(), (code, out, err))
        code, short, err = sluice(*ask, TABLE, "--max-tokens", "1")
        expect("a cut answer says so", code == 0 and "--max-tokens" in err, (code, short, err))

        picture = os.path.join(scratch, "drawn.png")
        draw = ("run", CHAT, "--prompt", "draw a red circle", "--seed", "3", "--out", picture)
        code, out, err = sluice(*draw)
        first = open(picture, "rb").read() if os.path.exists(picture) else b""
        expect("a drawing", code == 0 and first.startswith(b"\x89PNG"), (code, out, err))
        sluice(*draw)
        expect("the same seed draws the same", first == open(picture, "rb").read(), "")

        code, out, err = sluice("validate", CHAT)
        expect("validate", code == 0 and "0 errors" in out, (code, out, err))
        bad = file("bad.yaml", open(os.path.join(ROOT, CHAT), "rb").read().replace(b"embed.hidden", b"embd.hidden"))
        code, out, err = sluice("validate", bad)
        expect("validate finds", code == 1 and "did you mean 'embed'?" in out and ":22:" in out, (code, out, err))
        code, out, err = sluice("validate", bad, "--format", "json")
        found = json.loads(out)
        expect("validate json", code == 1 and found[0]["line"] == 22 and found[0]["code"] == "unknown-node", out)
        code, out, err = sluice("validate", bad, "--format", "sarif")
        log = json.loads(out)["runs"][0]
        region = log["results"][0]["locations"][0]["physicalLocation"]["region"]
        expect("validate sarif", code == 1 and log["results"][0]["ruleId"] == "unknown-node" and
               log["tool"]["driver"]["rules"][log["results"][0]["ruleIndex"]]["id"] == "unknown-node" and
               region["endColumn"] - region["startColumn"] == len("embd.hidden"), out)

        eyes = "sluice: 1\nroles: { eyes: { plugin: vision_encoder, model: %s } }\n"
        code, out, err = sluice("validate", file("gone.yaml", (eyes % "models/nowhere").encode()))
        expect("a model that is not there", code == 1 and "gone.yaml:2:" in out and "models/nowhere" in out, out)
        code, out, err = sluice("validate", file("family.yaml", (eyes % "tests/golden/llama").encode()))
        expect("a model of another family", code == 1 and "family llama" in out, out)
        for name, wanted in (("eyes", "family llama"), ("talk", "")):
            one = eyes if name == "eyes" else eyes.replace("vision_encoder", "chat_model, balance: session, global_params: [kv]") + \
                "global_params: { kv: { kind: paged_kv, model: tests/golden/gguf/llama.gguf } }\n"
            code, out, err = sluice("validate", file("gguf.yaml", (one % "tests/golden/gguf/llama.gguf").encode()))
            expect(f"a GGUF file of {name}", code == (1 if wanted else 0) and wanted in out and ("gguf.yaml:2:" in out) == (code == 1), out)
        broken = file("broken.gguf", b"GGUF\3\0\0\0")
        code, out, err = sluice("validate", file("gguf.yaml", (eyes % broken).encode()))
        expect("a broken GGUF file", code == 1 and "broken.gguf" in out and "config.json" not in out, out)
        code, out, err = sluice("validate", file("roles.yaml", (eyes % os.path.join(ROOT, "models/scenes")).encode()))
        expect("roles to include, an absolute path", code == 0 and "for other workflows to include" in out, out)
        variable = (eyes % "\"${SLUICE_TEST_UNSET:-models/scenes}\"").encode()
        expect("a path with a default", sluice("validate", file("variable.yaml", variable))[0] == 0, variable)
        code, out, err = sluice("plan", CHAT, "--explain", "inputs")
        expect("inputs explained", code == 0 and "request (json), read by parse" in out, (out, err))
        one_line_error("a role explained", "not a node; nodes that run it: embed, generate", "plan", CHAT, "--explain", "llm")
        code, out, err = sluice("plan", CHAT, "--explain", "text")
        expect("an output explained", code == 0 and "in logical order of 'generate'" in out, (out, err))

        code, out, err = sluice("plan", CHAT)
        for words in ("one per frame of parse", "critical slots: code, see", "control edges", "in order of generate"):
            expect("plan says " + words, words in out, out)
        nodes = {n["name"]: n for n in json.loads(sluice("plan", CHAT, "--format", "json")[1])["nodes"]}
        expect("plan json", nodes["generate"]["groups"][1]["root"] == "parse", nodes)
        expect("plan dot", sluice("plan", CHAT, "--format", "dot")[1].startswith("digraph image_chat"), "")
        drawn = sluice("plan", CHAT, "--format", "mermaid")[1]
        expect("plan mermaid", drawn.startswith("flowchart LR\n") and "one yield of parse" in drawn, drawn)
        expect("plan svg", sluice("plan", CHAT, "--format", "svg")[1].startswith("<svg "), "")

        code, out, err = sluice("test", "workflows", "--seeds", "5")
        expect("scenarios pass", code == 0 and "scenarios passed, 5 seeds" in out, (code, out, err))
        scenario = open(os.path.join(ROOT, "workflows/scenarios/image_edit_two_pictures.yaml"), "rb").read()
        scenario = scenario.replace(b"../image_edit.yaml", os.path.join(ROOT, "workflows/image_edit.yaml").encode())
        good = file("good.yaml", scenario)
        code, out, err = sluice("test", good, "--json", "--seeds", "3")
        said = json.loads(out)
        parse = [f for f in said["calls"][0]["firings"] if f["node"] == "parse"]
        token = hashlib.sha256(b"input:request:0").hexdigest()[:16]
        expect("test json", code == 0 and said["passed"] and said["seeds"] == 3, out)
        expect("an input's token", parse[0]["inputs"] == {"request": [token]}, parse)
        made = hashlib.sha256(f"parse|0|request={token}#1".encode()).hexdigest()[:16]
        code_ = [f["inputs"]["image"] for f in said["calls"][0]["firings"] if f["node"] == "code"]
        expect("a yield's token", [made] in code_, code_)
        code, out, err = sluice("test", file("wrong.yaml", scenario.replace(b"code: 2,", b"code: 3,")))
        expect("a diff", code == 1 and "node code ran 2 times, expected 3" in out, (code, out, err))
        code, out, err = sluice("test", file("typo.yaml", scenario.replace(b"  code: {", b"  coed: {")))
        expect("a scenario's typo", code == 1 and "did you mean 'code'?" in err, (code, out, err))
        one_line_error("scripted roles do not run", "sluice test", "run", "workflows/image_edit.yaml", "--prompt", "x")

        trace = os.path.join(scratch, "trace.json")
        simulate = ("simulate", "workflows/robot_multitask.yaml", "--calls", "30", "--rate", "50")
        code, out, err = sluice(*simulate, "--trace", trace)
        expect("simulate", code == 0 and "throughput" in out and "p99" in out, (code, out, err))
        expect("the same seed, the same events", sluice(*simulate)[1].split("event hash")[1].split("\n")[0]
               == out.split("event hash")[1].split("\n")[0], out)
        events = json.load(open(trace))["traceEvents"]
        expect("a trace", sum(e.get("cat") == "call" for e in events) == 30, len(events))
        trace_agrees(events, out)
        code, out, err = sluice("why", trace, "7")
        expect("why", code == 0 and "call 7" in out and "most of it:" in out, (code, out, err))
        code, out, err = sluice("simulate", CHAT, "--calls", "2", "--concurrency", "1", "--faults", "--seed", "20")
        expect("faults are to blame, not the load", "note           --faults lets machines pause and roles hang and shortens deadlines" in out and "under way at once" not in out, out)
        real = os.path.join(scratch, "real.json")
        code, out, err = sluice("run", "workflows/image_chat.yaml", "--prompt", "what color is the circle", "--image",
                                "models/scenes/samples/table.png", "--max-tokens", "4", "--trace", real)
        expect("run with a trace", code == 0 and f"trace: {real}" in err, (code, out, err))
        code, out, err = sluice("why", real, "1")
        # Which of the three that `generate` waits for comes last is the machine's.
        expect("why of a real call", code == 0 and out.startswith("call 1 (default): ok after ")
               and re.search(r" parse(,.*)?\n.* (see|code|embed)(,.*)?\n.* generate(,.*)?\n", out) and "most of it: " in out,
               (code, out, err))
        expect("what a real call did not run", out.endswith(
            "  did not run:\n"
            "    draw    prompt did not come from generate.draw_prompt (generate ran without it)\n"
            "    decode  latents did not come from draw.latents (draw did not run)\n"), out)
        code, out, err = sluice("run", "workflows/image_chat.yaml", "--prompt", "what color is the circle", "--image",
                                "models/scenes/samples/table.png", "--trace", os.path.join(scratch, "no", "where.json"))
        expect("a trace to nowhere", code == 1 and "where.json: cannot be written" in err, (code, out, err))
        one_line_error("why of no call", "there are 30 (1 to 30)", "why", trace, "99")
        # A call of lines is numbered by its line everywhere.
        line = json.dumps({"inputs": {"request": {"content": [{"type": "text", "text": "x"}], "max_tokens": 2}}, "session": "s"})
        code, out, err = sluice("run", CHAT, "--trace", real, "--calls",
                                file("calls.jsonl", f"\n{line}\nno call\n{line}\n".encode()))
        expect("a wrong line among calls", code == 1 and sorted(json.loads(one)["line"] for one in out.splitlines()) == [2, 3, 4], (code, out, err))
        expect("a call is asked for by its line", [sluice("why", real, number)[1].split(":")[0] for number in ("2", "4")] ==
               ["call 2 (s)", "call 4 (s)"], real)
        one_line_error("why of a line that was no call", "no call 3, there are 2 (2 to 4)", "why", real, "3")
        one_line_error("why of no trace", "not a trace", "why", file("no.json", b"{}"), "0")

        library = file("library.yaml", b"sluice: 1\nworkflow: library\nroles: { a: { plugin: scripted } }\n")
        user = b"""sluice: 1
workflow: user
include: [library.yaml]
inputs: { x: text }
nodes: { n: { run: a.go, inputs: [ { x: inputs.x } ] } }
outputs: { o: n.y }
"""
        code, out, err = sluice("validate", file("user.yaml", user))
        expect("include", code == 0, (code, out, err))
        code, out, err = sluice("validate", file("round.yaml", user.replace(b"library.yaml", b"round.yaml")))
        expect("include in a circle", code == 1 and "round in a circle: round.yaml -> round.yaml" in out, (code, out, err))
        code, out, err = sluice("plan", library)
        expect("a file of roles alone has no plan", code == 1 and out == "" and "nothing to plan" in err, out + err)
        file("library.yaml", b"sluice: 1\nworkflow: library\nroles:\n  a: { plugin: nosuch, replicas: 0 }\n")
        file("middle.yaml", b"sluice: 1\ninclude: [ library.yaml ]\nroles: { b: { plugin: scripted } }\n")
        top = file("top.yaml", user.replace(b"[library", b"[middle"))
        at = lambda name, place: os.path.join(scratch, name) + ":" + place
        code, out, err = sluice("validate", top)
        chain = f"  included from {at('middle.yaml', '2:12')}\n  included from {at('top.yaml', '3:11')}\n"
        expect("what is wrong with an included file stands at its place there", code == 1 and
               f"{at('library.yaml', '4:34')}: error: replicas is '0', it must be a whole number from 1 to 256 [bad-number]\n"
               f"    a: {{ plugin: nosuch, replicas: 0 }}\n{' ' * 35}^\n{chain}" in out, (code, out, err))
        expect("a name that nobody knows in it, too", f"{at('library.yaml', '4:16')}: error: " in out, out)
        found = json.loads(sluice("validate", "--format", "json", top)[1])
        expect("as JSON", [(one["file"], one["line"], one["included_from"]) for one in found if "replicas" in one["message"]] ==
               [(at("library.yaml", "")[:-1], 4, [at("middle.yaml", "2:12"), at("top.yaml", "3:11")])], found)
        expect("as SARIF", "library.yaml" in sluice("validate", "--format", "sarif", top)[1], "")
        os.remove(library)
        file("gpu.yaml", b"sluice: 1\nglobal_params:\n  kv:\n    { kind: paged_kv, model: models/scenes,\n      device: cuda }\n")
        found = sluice("validate", file("uses_gpu.yaml", b"sluice: 1\nworkflow: w\ninclude: [ gpu.yaml ]\ninputs: { x: json }\n"
                                        b"roles: { a: { plugin: parse_request } }\nnodes: { n: { run: a.parse, inputs: [ { request: inputs.x } ] } }\n"
                                        b"outputs: { o: n.text }\n"))[1]
        expect("the device of an included file stands there", re.search(r"^\S+/gpu\.yaml:5:15: error: .* \[wrong-device\]\n", found, re.M), found)
        code, out, err = sluice("validate", os.path.join(scratch, "user.yaml"))
        expect("include of nothing", code == 1 and "library.yaml: no such file" in out and ":3:" in out, out)

        model = os.path.join(ROOT, "tests/golden/conversation_qwen")
        asked = ["model", "ask", model, "What is on the table?", "--tokens", "12", "--image",
                 os.path.join(model, "picture.png")]
        with open(os.path.join(model, "expected.json"), encoding="utf-8") as stored:
            answer = json.load(stored)["answer"]
        code, out, err = sluice(*asked)
        expect("model ask", code == 0 and out == answer + "\n" and "memory" in err, (code, out, err))
        picture_through_a_pipe(asked, answer)
        code, out, err = sluice("model", "ask", model, "Hi", "--image", file("no.png", b"GIF89a"))
        expect("no picture", code == 1 and "no.png" in err and not out, (code, out, err))
        code, out, err = sluice("model", "ask", os.path.join(ROOT, "tests/golden/llama"), "Hi")
        expect("no tokenizer", code == 1 and "tokenizer.json" in err and not out, (code, out, err))

        def golden(*path):
            return os.path.join(ROOT, "tests/golden", *path)

        code, out, err = sluice("model", "inspect", golden("pi0"))
        expect("model inspect", code == 0 and "expert" in out and "flow steps" in out, (code, out, err))
        with open(golden("pi0", "inputs.safetensors"), "rb") as f:
            unseen = f.read().replace(b'"image1"', b'"imageX"')
        code, out, err = sluice("model", "check", golden("pi0"), "--inputs", file("unseen.safetensors", unseen))
        expect("a camera of a policy is missing", code == 1 and "input 'image1' is missing: this policy has 3 cameras, image0 to image2; "
               "an `image_mask` with 0 in its place" in err, (code, out, err))
        made = os.path.join(scratch, "made.safetensors")
        code, out, err = sluice("model", "check", golden("pi0"), "--inputs", golden("pi0", "inputs.safetensors"),
                                "--outputs", made)
        expect("model check", code == 0 and "output     actions" in out and os.path.getsize(made) > 1000,
               (code, out, err))
        code, out, err = sluice("model", "bench", golden("llama"), "--prompt", "8", "--tokens", "2")
        expect("model bench", code == 0 and "prefill    1 x 8" in out and "decode     1 x 2" in out, (code, out, err))
        with open(golden("llama", "config.json"), "rb") as config:
            small = json.loads(config.read())
        small["max_position_embeddings"] = 20
        file("config.json", json.dumps(small).encode())
        code, out, err = sluice("model", "bench", scratch, "--random", "--tokens", "16")
        expect("a prompt that fits", code == 0 and "prefill    1 x 4 " in out, (code, out, err))
        for asked in (["--prompt", "5", "--tokens", "16"], ["--tokens", "20"]):
            code, out, err = sluice("model", "bench", scratch, "--random", *asked)
            expect("too long a prompt", code == 2 and not out and "--prompt" in err and "20 positions" in err,
                   (code, out, err))
        code, out, err = sluice("model", "bench", golden("pi0"), "--views", "2", "--words", "4", "--batch", "2")
        expect("a policy's bench", code == 0 and "2 robots, 2 views and 4 words" in out, (code, out, err))
        code, out, err = sluice("model", "bench", golden("siglip"))
        expect("nothing to measure", code == 1 and "no decoder" in err, (code, out, err))
        with open(golden("pi0", "config.json"), "rb") as config:
            file("config.json", config.read())
        code, out, err = sluice("model", "bench", scratch, "--words", "4")
        expect("no weights", code == 1 and "model.safetensors" in err, (code, out, err))
        code, out, err = sluice("model", "bench", scratch, "--words", "4", "--random")
        expect("random weights", code == 0 and "flow steps" in out, (code, out, err))

        expect("help teaches", "Exit status" in sluice("--help")[1], "")
        expect("roles", "language_model" in sluice("roles")[1], "")
        code, out, err = sluice("roles", "denoiser")
        expect("one role's page", code == 0 and out.startswith("denoiser: ") and "robot_policy" not in out and
               re.search(r"^    takes  .*: .+", out, re.M) and re.search(r"^    yields .*: .+", out, re.M) and "option " in out, out)
        one_line_error("a role misspelled", "there is no plugin 'denoizer'; did you mean 'denoiser'?", "roles", "denoizer")
        one_line_error("a role that is none", "there is no plugin 'x'; there are ", "roles", "x")
        for command in (("run",), ("chat",), ("model", "ask")):
            expect(f"{command} names its limit as the others do", "--max-tokens,--tokens " in sluice(*command, "--help")[1], command)
        set_of_a_folder(scratch)

    print("\n".join(failures) if failures else "all as expected")
    sys.exit(1 if failures else 0)


main()
