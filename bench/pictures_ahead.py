#!/usr/bin/env python3
"""Time to the first token of a question about several pictures, which an encoder in another process sees one by one.

    python3 bench/pictures_ahead.py SLUICE [--before SLUICE] [--pictures 4] [--side 280] [--rounds 7]

The workflow is vlm_split in one process, or the encoder in one host and the language model in another, over a checkpoint made here: a
Qwen2.5-VL with random weights (8 layers of 512, a tower of 4 layers of 384: about as
much work for a row in both, as in the one of 3B), so only the time means something. The pictures are
new in each call. `--before`: another build to take turns with, such as one that computes nothing before all pictures are
here. Two hosts first have all cores, then one core each, as on two computers. Shown are medians in milliseconds, and
what so many calls with one picture each would take. Whoever waits sleeps.
"""
from __future__ import annotations

import argparse
import base64
import json
import os
import random
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import zlib

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TINY = f"{ROOT}/tests/golden/conversation_qwen"
TEXT = {"hidden_size": 512, "intermediate_size": 1536, "num_hidden_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 2}
SEES = {"hidden_size": 384, "intermediate_size": 1024, "depth": 4, "num_heads": 6, "out_hidden_size": 512}


def shapes(config) -> dict[str, list[int]]:
    """Of all tensors, by name."""
    text, sees = config["text_config"], config["vision_config"]
    width, inner = text["hidden_size"], text["intermediate_size"]
    kv = width // text["num_attention_heads"] * text["num_key_value_heads"]
    made = {"lm_head.weight": [text["vocab_size"], width], "model.embed_tokens.weight": [text["vocab_size"], width],
            "model.norm.weight": [width]}
    for layer in range(text["num_hidden_layers"]):
        of = f"model.layers.{layer}."
        for norm in ("input_layernorm", "post_attention_layernorm"):
            made[f"{of}{norm}.weight"] = [width]
        made |= {f"{of}mlp.down_proj.weight": [width, inner], f"{of}mlp.gate_proj.weight": [inner, width],
                 f"{of}mlp.up_proj.weight": [inner, width], f"{of}self_attn.o_proj.weight": [width, width]}
        for name, rows in (("q", width), ("k", kv), ("v", kv)):
            made |= {f"{of}self_attn.{name}_proj.weight": [rows, width], f"{of}self_attn.{name}_proj.bias": [rows]}
    wide, inside = sees["hidden_size"], sees["intermediate_size"]
    merged = wide * sees["spatial_merge_size"] ** 2
    linear = {"visual.merger.mlp.0": [merged, merged], "visual.merger.mlp.2": [width, merged]}
    for block in range(sees["depth"]):
        of = f"visual.blocks.{block}."
        made |= {f"{of}norm1.weight": [wide], f"{of}norm2.weight": [wide]}
        linear |= {f"{of}attn.proj": [wide, wide], f"{of}attn.qkv": [3 * wide, wide], f"{of}mlp.down_proj": [wide, inside],
                   f"{of}mlp.gate_proj": [inside, wide], f"{of}mlp.up_proj": [inside, wide]}
    for name, shape in linear.items():
        made |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    patch = sees["patch_size"]
    return made | {"visual.merger.ln_q.weight": [wide],
                   "visual.patch_embed.proj.weight": [wide, 3, sees["temporal_patch_size"], patch, patch]}


def make_model(folder: str, side: int):
    os.mkdir(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(f"{TINY}/{name}", folder)
    with open(f"{TINY}/config.json", encoding="utf-8") as file:
        config = json.load(file)
    config["text_config"] |= TEXT | {"layer_types": ["full_attention"] * TEXT["num_hidden_layers"]}
    config["text_config"]["rope_parameters"]["mrope_section"] = [8, 12, 12]
    config["vision_config"] |= SEES | {"fullatt_block_indexes": [3]}
    with open(f"{folder}/config.json", "w", encoding="utf-8") as file:
        json.dump(config, file)
    with open(f"{folder}/preprocessor_config.json", "w", encoding="utf-8") as file:
        json.dump({"min_pixels": 196, "max_pixels": side * side, "patch_size": config["vision_config"]["patch_size"]}, file)
    chance = random.Random(1)
    some = struct.pack("<65536f", *(chance.gauss(0, 0.02) for _ in range(65536)))
    head, at = {}, 0
    for name, shape in shapes(config).items():
        size = 4
        for side_of in shape:
            size *= side_of
        head[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(head).encode()
    with open(f"{folder}/model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in head.values():
            size = tensor["data_offsets"][1] - tensor["data_offsets"][0]
            one = struct.pack("<f", 1.0) * 65536 if len(tensor["shape"]) == 1 and size >= 4 * 384 else some
            file.write((one * (size // len(one) + 1))[:size])


def picture(side: int, number: int) -> str:
    """A PNG, in base64."""
    chance = random.Random(number)
    pixels = b"".join(b"\0" + chance.randbytes(3 * side) for _ in range(side))

    def part(name, body):
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + part(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)) +
                            part(b"IDAT", zlib.compress(pixels, 1)) + part(b"IEND", b"")).decode()


class Program:
    """`sluice run` that is asked call by call."""

    def __init__(self, sluice: str, home: str, model: str, hosts: str, cores):
        os.mkdir(home)
        with open(f"{ROOT}/workflows/vlm_split.yaml", encoding="utf-8") as file:
            flow = file.read().replace("tests/golden/conversation_qwen", model).replace("replicas: 2, ", "")
        with open(f"{home}/flow.yaml", "w", encoding="utf-8") as file:
            file.write(flow.replace("pages: 256", "pages: 2048"))
        with open(f"{home}/cluster.yaml", "w", encoding="utf-8") as file:
            file.write("cluster: 1\nworkflows: [ flow.yaml ]\nmachines:\n  one:\n    home: true\n"
                       f"    roles: [ parser, eyes, llm ]\n    {hosts}\n")
        self.program = subprocess.Popen([sluice, "run", "--cluster", f"{home}/cluster.yaml", "--calls", "-", "--concurrency", "1"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.calls = 0
        self.ask([], "Hello")
        if cores:
            self.pin(cores)

    def pin(self, cores):
        """The hosts are children of the program, of whichever thread; all their threads."""
        hosts = []
        for thread in os.listdir(f"/proc/{self.program.pid}/task"):
            with open(f"/proc/{self.program.pid}/task/{thread}/children", encoding="utf-8") as file:
                hosts += [int(pid) for pid in file.read().split()]
        if len(hosts) != 2:
            sys.exit(f"{len(hosts)} hosts, and not 2")
        for core, pid in zip(cores, hosts):
            for thread in os.listdir(f"/proc/{pid}/task"):
                os.sched_setaffinity(int(thread), {core})

    def ask(self, pictures, text: str) -> float:
        """Milliseconds to an answer of one token."""
        self.calls += 1
        content = [{"type": "image", "data": one} for one in pictures] + [{"type": "text", "text": text}]
        line = json.dumps({"id": self.calls, "session": f"s{self.calls}",
                           "inputs": {"request": {"content": content, "options": {"max_tokens": 1}}}}) + "\n"
        began = time.perf_counter()
        self.program.stdin.write(line)
        self.program.stdin.flush()
        said = self.program.stdout.readline()
        took = (time.perf_counter() - began) * 1e3
        if not json.loads(said or "{}").get("ok"):
            sys.exit(f"a call failed: {said}")
        return took

    def end(self):
        self.program.stdin.close()
        self.program.wait()


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("sluice")
    options.add_argument("--before", help="another build of it")
    options.add_argument("--pictures", type=int, default=4)
    options.add_argument("--side", type=int, default=280)
    options.add_argument("--rounds", type=int, default=7)
    options = options.parse_args()
    builds = {"now": os.path.abspath(options.sluice)}
    if options.before:
        builds["before"] = os.path.abspath(options.before)
    with tempfile.TemporaryDirectory() as folder:
        make_model(f"{folder}/model", options.side)
        two = "hosts: { sees: [ eyes ], says: [ llm ] }"
        for where, hosts, cores in (("one process", "", None), ("two hosts", two, None),
                                    ("two hosts, a core each", two, sorted(os.sched_getaffinity(0))[:2])):
            running = {name: Program(sluice, f"{folder}/{where} {name}", f"{folder}/model", hosts, cores)
                       for name, sluice in builds.items()}
            took = {name: [] for name in builds}
            for number in range(options.rounds):
                shown = [picture(options.side, 1000 * number + one) for one in range(options.pictures)]
                for name, program in running.items():
                    took[name].append(program.ask(shown, "What is on the table?"))
            alone = statistics.median(running["now"].ask([picture(options.side, 1_000_000 + n)], "What is on the table?")
                                      for n in range(options.rounds))
            for program in running.values():
                program.end()
            medians = {name: statistics.median(list_of) for name, list_of in took.items()}
            print(f"{where}: {options.pictures} pictures " + ", ".join(f"{name} {value:.0f} ms" for name, value in medians.items()) +
                  (f", ratio {medians['now'] / medians['before']:.2f}" if options.before else "") +
                  f"; one picture {alone:.0f} ms, so many one by one {alone * options.pictures:.0f} ms", flush=True)


if __name__ == "__main__":
    main()
