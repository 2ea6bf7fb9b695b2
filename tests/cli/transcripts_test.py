"""What the program prints, word for word, beside what it printed when somebody last read it.

    transcripts_test.py SLUICE REPOSITORY

The transcripts lie in tests/cli/transcripts. With SLUICE_REWRITE set they are written anew: read the difference before
it is committed.
"""
import difflib
import json
import os
import re
import struct
import subprocess
import sys
import tempfile

from transcript_cases import files, newcomers, scenarios, statuses, traces

SLUICE, ROOT = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
HERE = "tests/cli/transcripts"
FILE = f"{HERE}/everything.yaml"
SCENARIO = f"{HERE}/everything_scenario.yaml"
WRONG = f"{HERE}/wrong.yaml"
NODES = "parse see hear meet think act draw frame last inputs words picture".split()

# Configurations that say no more than they must: all else is the family's default.
DECODER = {"vocab_size": 1000, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96}
SMALLEST = {
    "siglip": {"model_type": "siglip_vision_model"},
    "dinov2": {"model_type": "dinov2"},
    "dinov2_with_registers": {"model_type": "dinov2_with_registers"},
    "llama": {"model_type": "llama", **DECODER},
    "gemma": {"model_type": "gemma", **DECODER},
    "qwen2": {"model_type": "qwen2", **DECODER},
    "qwen2_5_vl": {"model_type": "qwen2_5_vl", **DECODER, "vision_config": {}},
    "paligemma": {"model_type": "paligemma", "text_config": DECODER, "vision_config": {}},
    "smolvlm": {"model_type": "smolvlm", "text_config": DECODER, "vision_config": {}},
    "idefics3": {"model_type": "idefics3", "text_config": DECODER, "vision_config": {}},
    "openvla": {"model_type": "openvla"},
    "pi0": {"type": "pi0"},
    "pi05": {"type": "pi05"},
    "smolvla": {"type": "smolvla"},
    "dit": {"_class_name": "DiTTransformer2DModel"},
    "vae": {"_class_name": "AutoencoderKL"},
}


def transcripts(folder):
    """name -> commands."""
    yield "validate", [["validate", FILE], ["validate", FILE, "--format", "json"], ["validate", WRONG, FILE],
                       ["validate", WRONG, "--format", "json"], ["validate", WRONG, "--format", "sarif"],
                       ["plan", WRONG], ["validate", f"{HERE}/nowhere.yaml"]]
    counts = f"{HERE}/counts.yaml"
    yield "plan", [["plan", FILE]] + [["plan", FILE, "--explain", node] for node in NODES + ["nobody"]] + \
        [["plan", counts]] + [["plan", counts, "--explain", node] for node in (
            "every", "both", "all_of_two", "nothing", "some", "by_number", "late", "")]
    for kind in ("json", "mermaid", "dot", "svg"):
        yield f"plan_{kind}", [["plan", FILE, "--format", kind]]
    yield "test", [["test", HERE, "--seeds", "20"], ["test", SCENARIO, "--seeds", "2", "--json"],
                   ["test", f"{HERE}/cancel_scenario.yaml", "--seeds", "3", "--json"]]
    trace, turns = os.path.join(folder, "trace.json"), os.path.join(folder, "turns.json")
    with_profile = ["simulate", FILE, "--profile", SCENARIO]
    yield "simulate", [with_profile + ["--calls", "12", "--rate", "50", "--seed", "3", "--trace", trace],
                       with_profile + ["--calls", "6", "--nodes", "2", "--sessions", "2"],
                       with_profile + ["--calls", "30", "--rate", "90", "--nodes", "3", "--faults", "--seed", "5"],
                       with_profile + ["--calls", "5", "--seeds", "8", "--faults", "--nodes", "2"],
                       ["simulate", "workflows/robot_multitask.yaml", "--calls", "9", "--rate", "30"],
                       ["simulate", "workflows/robot_multitask.yaml", "--calls", "300"],
                       ["simulate", "workflows/robot_multitask.yaml", "--calls", "300", "--concurrency", "300"],
                       ["simulate", "workflows/robot_multitask.yaml", "--calls", "300", "--concurrency", "150"],
                       *(["simulate", "workflows/robot_multitask.yaml", *words.split()] for words in (
                           "--calls 1 --set limits.deadline=5ms", "--calls 20 --concurrency 1 --set limits.deadline=5ms",
                           "--calls 20 --set limits.deadline=5ms", "--calls 20 --rate 1 --set limits.deadline=5ms",
                           "--calls 300 --set limits.deadline=20ms", "--calls 2000 --rate 1000", "--calls 1 --seeds 8 --faults --nodes 3")),
                       ["simulate", "workflows/image_chat.yaml", "--calls", "300", "--nodes", "3", "--faults"],
                       ["simulate", "workflows/robot_multitask.yaml", "--concurrency", "8", "--rate", "30"],
                       ["simulate", "workflows/image_chat.yaml", "--calls", "4", "--sessions", "1", "--rate", "50", "--trace", turns],
                       ["why", turns, "1"], ["why", turns, "3"],
                       ["why", trace, "1"], ["why", trace, "6"], ["why", trace, "12"], ["why", trace, "13"]]
    skips = os.path.join(folder, "skips.json")
    yield "why", [["simulate", f"{HERE}/skips.yaml", "--profile", f"{HERE}/skips_profile.yaml", "--calls", "1", "--trace", skips],
                  ["why", skips, "1"],
                  # Of three calls at once two are refused: nothing of them began, and no node has a reason of its own.
                  ["simulate", f"{HERE}/skips.yaml", "--profile", f"{HERE}/skips_profile.yaml", "--set", "limits.calls=1",
                   "--calls", "3", "--concurrency", "3", "--trace", skips],
                  ["why", skips, "2"]]
    yield "why_by_hand", traces(folder)
    yield "status", statuses(folder, SLUICE)
    yield "scenarios", scenarios(folder)
    yield "files", files(folder)
    role, keys = os.path.join(folder, "role"), os.path.join(folder, "keys")
    yield "made", [["new", "role", "shout", role], ["texts", role], ["new", "role", "shout", role], ["new", "role", "shout", role + "s", "--stepped"], ["texts", role + "s"],
                   ["keys", keys, "--machine", "arm", "--machine", "gpu"], ["keys", keys, "--machine", "arm"],
                   ["keys", keys, "--machine", "eyes"], ["modes", keys]]
    yield "help", helps()
    yield "lines", lines(folder)
    yield "refusals", list(refusals(folder))
    yield "newcomers", list(newcomers(folder, ROOT))
    yield "roles", [["roles"]] + [["roles", name] for name in (
        "language_model parse_request vision_encoder chat_model robot_policy action_expert denoiser class_denoiser image_codec "
        "scripted").split()]
    golden = os.path.join(ROOT, "tests/golden")
    models = sorted(name for name in os.listdir(golden) if os.path.exists(os.path.join(golden, name, "config.json")))
    yield "model_inspect", [["model", "inspect", f"tests/golden/{name}"] for name in models] + \
        [["model", "inspect", "tests/golden/gguf/llama.gguf"], ["model", "inspect", "models/scenes"],
         ["model", "inspect", "tests/golden"]]
    yield "model_defaults", [["model", "inspect", smallest(folder, name)] for name in sorted(SMALLEST)]


def helps():
    """Every page of --help: it says each option, its limits and what holds without it."""
    commands = ["validate", "plan", "run", "node", "up", "status", "down", "test", "simulate", "why", "model", "model inspect",
                "model check", "model ask", "model bench", "pool", "pool trace", "pool status", "pool sessions", "pool pages", "pool verify", "chat", "role-host", "roles", "new", "new role",
                "keys"]
    return [["--help"], ["version"], ["help", "run"]] + [command.split() + ["--help"] for command in commands]


def refusals(folder):
    """What is typed wrong, and what is not there: each is refused with its words before anything runs."""
    chat, robot, scenes = "workflows/image_chat.yaml", "workflows/robot_multitask.yaml", "models/scenes"
    laptop, empty, plain = "examples/cluster/laptop.yaml", os.path.join(folder, "empty"), os.path.join(folder, "plain")
    os.makedirs(empty)
    with open(plain, "w", encoding="utf-8") as file:
        file.write("plain\n")
    run, ask = ["run", chat], ["model", "ask", scenes]
    yield []
    yield from (words.split() for words in (
        "rum", "run --promt x", "model", "model asks", "new", "why", "why nowhere.json 1", f"why {plain} 1", f"why {plain} x", "help",
        "help rum", "--version x", "roles nothing", "roles langage_model", "role-host", "role-host x",
        f"test {empty}", "test nowhere.yaml", f"test {chat}", f"test {empty} --seeds 0", f"validate {plain}",
        f"validate {empty}", f"validate {plain} --format sarif", f"validate {plain} --format json",
        f"validate {empty} --format sarif", f"plan {chat} --explain nobody --format json", f"plan {plain}", f"plan {chat} --set roles.vit.replicas=0",
        f"plan {chat} --set roles.vit.replica=2", f"plan {chat} --set roles", f"plan {chat} --set =", f"plan {chat} --set roles.no.x=1",
        f"plan {laptop}", f"simulate {chat} --calls 0", f"simulate {chat} --rate 0", f"simulate {chat} --rate -1",
        f"simulate {chat} --calls 1 --seed -1", f"simulate {plain}", f"simulate {chat} --profile {plain}",
        f"simulate {chat} --faults --nodes 0", f"simulate {chat} --concurrency 0"))
    yield from (run + words for words in (
        [], ["--prompt", ""], ["--prompt", " "], ["--prompt", "x", "--prompt", "y"], ["--image", "nowhere.png", "--prompt", "x"],
        ["--image", plain, "--prompt", "x"], ["--request", "nowhere.json"], ["--request", plain], ["--request", "-"],
        ["--request", plain, "--prompt", "x"], ["--request", plain, "--seed", "1"], ["--input", "request"],
        ["--input", "request=@nowhere"], ["--input", "request=x"], ["--input", "request={}", "--prompt", "x"], ["--input", "reques={}"],
        ["--input", "request={}", "--input", "request={}"], ["--input", "=x"], ["--without", "request", "--prompt", "x"],
        ["--without", "nothing"], ["--without", "request"], ["--calls", "nowhere.jsonl"], ["--calls", empty],
        ["--calls", "-", "--prompt", "x"], ["--calls", "-", "--without", "request"], ["--calls", "-", "--input", "request={}"],
        ["--calls", "-", "--out", "a", "--out", "b"], ["--calls", "-", "--out", "a=b"], ["--calls", "-", "--concurrency", "0"],
        ["--calls", "-", "--concurrency", "1025"], ["--concurrency", "2"], ["--session", ""], ["--join-within", "5"],
        ["--cluster", laptop, "--join-within", "3s"],
        ["--prompt", "-", "--request", "-"], ["--prompt", "x", "--max-tokens", "x"], ["--prompt", "x", "--temperature", "nan"],
        ["--prompt", "x", "--temperature", "1e999"], ["--prompt", "x", "--top-k", "99999999999999999999"],
        ["--prompt", "x", "--seed", "1.5"], ["--prompt", "x", "--out", "image="], ["--prompt", "x", "--out", "nobody=x.png"],
        ["--prompt", "x", "--out", "a.png", "--out", "b.png"],
        ["--prompt", "x", "--out", "image=nowhere/a.png"], ["--prompt", "x", "--isolate", "nobody"],
        ["--prompt", "x", "--isolate", "all", "--cluster", laptop], ["--prompt", "x", "--plugins", "nowhere"],
        ["--prompt", "x", "--plugins", empty], ["--prompt", "x", "--plugins", plain]))
    yield from (["run", robot] + words for words in (
        [], ["--prompt", "x"], ["--tenant", "lab"], ["--input", "image=@nowhere"], ["--input", f"image=@{plain}"], ["--input", "image=x"]))
    yield ["run"]
    yield ["run", robot, "--cluster", laptop]
    yield ["run", "--cluster", "nowhere.yaml"]
    yield ["run", "--cluster", chat]
    yield from (["up", file] for file in ("nowhere.yaml", chat, plain))
    yield from ([command] + words for command in ("status", "down") for words in (
        [], ["--cluster", "nowhere.yaml"], ["--cluster", laptop], ["--cluster", plain]))
    yield from (["node"] + words for words in ([], ["--cluster", laptop], ["--cluster", laptop, "--name", "nobody"],
                                               ["--cluster", "nowhere.yaml", "--name", "eyes"]))
    yield from (ask + words for words in (
        [""], [], ["x", "--image", "nowhere.png"], ["x", "--image", plain], ["x", "--device", "tpu"], ["x", "--precision", "int3"],
        ["x", "--device", "cuda", "--kv-folder", empty], ["x", "--device", "cuda", "--kv-dtype", "bf16"], ["x", "--max-tokens", "0"],
        ["x", "--temperature", "101"], ["x", "--top-p", "1.1"], ["x", "--top-k", "-1"], ["x", "--kv-dtype", "f16"]))
    yield from (["model", command, path] + (["x"] if command == "ask" else []) for command in ("inspect", "check", "ask", "bench")
                for path in ("nowhere", empty, plain))
    yield from (["model", "bench"] + words.split() for words in (
        "tests/golden/siglip", f"{scenes} --prompt 100000", f"{scenes} --prompt 4000 --tokens 4000", f"{scenes} --batch 0",
        f"{scenes} --precision int8 --device cuda", f"{scenes} --kv-dtype bf16 --device cuda"))
    yield from (["new", "role"] + words for words in (
        [], ["Shout"], ["a" * 65], ["1a"], ["all"], ["test"], ["parse_request"], ["shout", empty], ["shout", plain + "/x"]))
    yield from (["keys"] + words for words in (
        [], [empty], [empty, "--machine", "Arm"], [empty, "--machine", "a", "--machine", "a"], [plain, "--machine", "a"],
        ["nowhere/at/all", "--machine", "a"]))
    yield from (["chat"] + words for words in ([], ["nowhere"], [plain], [scenes, "--context", "0"]))
    yield from (["pool"] + words for words in (
        ["status"], ["status", plain], ["status", "nowhere"], ["status", empty, "--cluster", laptop], ["status", "--cluster", laptop], ["status", "--cluster", plain],
        ["status", empty, "--format", "xml"], ["sessions"], ["sessions", empty], ["sessions", "--cluster", laptop], ["pages"], ["pages", "nowhere"], ["pages", plain],
        ["verify"], ["verify", "nowhere"]))
    yield from (["pool", "trace"] + words for words in (
        [], ["nowhere", "--blocks", "10"], [plain, "--blocks", "0"], [plain, "--blocks", "10"], [plain, "--blocks", "10", "--policy", "best"]))


LINES = """sluice: 1
workflow: lines
inputs: { t: text, j: json, n: number, b: bytes, request: json }
roles: { reader: { plugin: parse_request } }
nodes: { parse: { run: reader.parse, inputs: [ { request: inputs.request } ] } }
outputs: { t: inputs.t, j: inputs.j, n: inputs.n, b: inputs.b, out: parse.text }
"""


def lines(folder):
    """Calls from lines: values at their limits come back, and what is wrong with a line is said."""
    whole = {"t": "x", "j": {"z": 1, "a": [2]}, "n": 7, "b": {"base64": "AAEC"},
             "request": {"content": [{"type": "text", "text": "hello"}]}}
    day, nested = 24 * 60 * 60 * 1000, 1
    for _ in range(61):
        nested = [nested]
    texts = ["", "[]", "x", "{", '{"inputs": 1}', '{"id": 1, "id": 2}', '{"input": {}}', '{"nothing like it": 1}', "{}"]
    texts += [json.dumps({"inputs": {**whole, **change}}) for change in (
        {}, {"t": None}, {"j": None, "n": None}, {"request": None}, dict.fromkeys(whole), {"t": 1}, {"t": {"base64": "/w=="}},
        {"t": {"base64": "w6Q="}}, {"t": {"base64": "A"}}, {"t": {"file": "nowhere"}}, {"t": {"file": 1}}, {"t": {"file": "a", "base64": ""}},
        {"n": 2**63 - 1}, {"n": 2**63}, {"n": -2**63}, {"n": 1.0}, {"n": "1"}, {"n": True}, {"n": {"base64": "LTEyCg=="}}, {"b": "bytes"},
        {"b": {"base64": ""}}, {"b": []}, {"j": nested}, {"j": [nested]}, {"j": [[nested]]}, {"j": "x"}, {"tt": 1}, {"nobody": 1})]
    texts += [json.dumps({**change, "inputs": whole}) for change in (
        {"id": [1, "a", None]}, {"id": 0.5}, {"session": ""}, {"session": 1}, {"session": "s"}, {"end_session": 1}, {"end_session": True},
        {"session": "s", "end_session": True}, {"deadline_ms": 0}, {"deadline_ms": day}, {"deadline_ms": day + 1}, {"deadline_ms": "1"}, {"deadline_ms": "0123456789" * 5},
        {"deadline_ms": 1.5}, {"k" * 40: 1}, {"k" * 41: 1}, {"idd": 1})]
    texts += [json.dumps({"inputs": {"t": "x"}}), json.dumps({"id": 1, "inputs": {**whole, "t": "\u00e4\n"}})]
    flow, calls = os.path.join(folder, "lines.yaml"), os.path.join(folder, "calls.jsonl")
    for path, text in ((flow, LINES), (calls, "\n".join(texts))):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    return [["run", flow, "--calls", calls, "--concurrency", "1"]]


def smallest(folder, name):
    path = os.path.join(folder, name)
    os.makedirs(path)
    with open(os.path.join(path, "config.json"), "w", encoding="utf-8") as file:
        json.dump(SMALLEST[name], file)
    header = json.dumps({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    with open(os.path.join(path, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + bytes(4))
    return path


def listing(how, place):
    """What a folder holds: the ends of its files, all of their text, or their modes alone. Afterwards it holds nothing."""
    text = ""
    for at, _, names in sorted(os.walk(place)):
        for path in sorted(os.path.join(at, name) for name in names):
            with open(path, "rb") as file:
                held = file.read()
            shown = {"ends": lambda: str(held[-40:]), "texts": lambda: "its text\n" + held.decode(),
                     "modes": lambda: oct(os.stat(path).st_mode)}[how]()
            text += f"{path}: {shown}\n"
            os.unlink(path)
    if how == "modes":
        text = f"{place}: {oct(os.stat(place).st_mode)}\n" + text
    return text + "\n"


def run(arguments, folder):
    if arguments[:1] in (["ends"], ["texts"], ["modes"]):
        return listing(*arguments).replace(folder, "FOLDER")
    done = subprocess.run([SLUICE, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=300,
                          stdin=subprocess.DEVNULL, env={**os.environ, "XDG_RUNTIME_DIR": folder})
    # Progress depends on how fast the machine is.
    err = "".join(line for line in done.stderr.splitlines(True) if not re.search(r", \d+ s$", line))
    words = [word if word.strip() else f"'{word}'" for word in arguments]
    text = " ".join(["$ sluice", *words]) + "\n" + done.stdout + err
    if not text.endswith("\n"):
        text += "\n"
    text += f"[{done.returncode}]\n" if done.returncode else ""
    text = re.sub(r"the machine has \d+ MB", "the machine has N MB", text)
    text = re.sub(r"(?<=\.public  )\S{40}$", "KEY", text, flags=re.M)
    text = re.sub(r"sluice/[0-9a-f]{16}\b", "sluice/CLUSTER", text)  # by where this repository lies
    return text.replace(folder, "FOLDER") + "\n"


def main():
    failures, known = [], set()
    with tempfile.TemporaryDirectory() as folder:
        for name, commands in transcripts(folder):
            path = os.path.join(ROOT, HERE, name + ".txt")
            known.add(name + ".txt")
            seen = "".join(run(arguments, folder) for arguments in commands)
            if os.environ.get("SLUICE_REWRITE"):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(seen)
                continue
            want = open(path, encoding="utf-8").read() if os.path.exists(path) else ""
            if seen != want:
                failures += [f"{name}.txt"] + list(difflib.unified_diff(want.splitlines(), seen.splitlines(), "read", "now",
                                                                        lineterm="", n=1))[:60]
                if "SLUICE_FIRST_FAILURE_ENDS" in os.environ:
                    break
    here = {name for name in os.listdir(os.path.join(ROOT, HERE)) if name.endswith(".txt")}
    if here - known and not failures:
        failures.append(f"of no command: {sorted(here - known)}")
    for failure in failures:
        print(failure)
    sys.exit(1 if failures else 0)


main()
