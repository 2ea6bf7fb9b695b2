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
    yield "plan", [["plan", FILE]] + [["plan", FILE, "--explain", node] for node in NODES + ["nobody"]]
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
                       ["simulate", "workflows/image_chat.yaml", "--calls", "300", "--nodes", "3", "--faults"],
                       ["simulate", "workflows/robot_multitask.yaml", "--concurrency", "8", "--rate", "30"],
                       ["simulate", "workflows/image_chat.yaml", "--calls", "4", "--sessions", "1", "--rate", "50", "--trace", turns],
                       ["why", turns, "0"], ["why", turns, "2"],
                       ["why", trace, "0"], ["why", trace, "5"], ["why", trace, "11"], ["why", trace, "12"]]
    yield "roles", [["roles"], ["roles", "language_model"], ["roles", "parse_request"]]
    golden = os.path.join(ROOT, "tests/golden")
    models = sorted(name for name in os.listdir(golden) if os.path.exists(os.path.join(golden, name, "config.json")))
    yield "model_inspect", [["model", "inspect", f"tests/golden/{name}"] for name in models] + \
        [["model", "inspect", "tests/golden/gguf/llama.gguf"], ["model", "inspect", "models/scenes"],
         ["model", "inspect", "tests/golden"]]
    yield "model_defaults", [["model", "inspect", smallest(folder, name)] for name in sorted(SMALLEST)]


def smallest(folder, name):
    path = os.path.join(folder, name)
    os.makedirs(path)
    with open(os.path.join(path, "config.json"), "w", encoding="utf-8") as file:
        json.dump(SMALLEST[name], file)
    header = json.dumps({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    with open(os.path.join(path, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + bytes(4))
    return path


def run(arguments, folder):
    done = subprocess.run([SLUICE, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=300,
                          stdin=subprocess.DEVNULL)
    # Progress depends on how fast the machine is.
    err = "".join(line for line in done.stderr.splitlines(True) if not re.search(r", \d+ s$", line))
    text = "$ sluice " + " ".join(arguments) + "\n" + done.stdout + err
    if not text.endswith("\n"):
        text += "\n"
    text += f"[{done.returncode}]\n" if done.returncode else ""
    text = re.sub(r"the machine has \d+ MB", "the machine has N MB", text)
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
