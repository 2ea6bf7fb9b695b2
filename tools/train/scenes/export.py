"""Writes the model directory, the held-out set and the golden tensors from a training checkpoint.

    python export.py --weights RUN/final.pt --model ../../../models/scenes --golden ../../../tests/data
Not in the package lists: numpy, torch, safetensors, PIL
"""
from __future__ import annotations

import argparse
import json
import os

import numpy as np
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

import checker
import evaluate as E
import scenes as S
from model import CONFIG, Scenes
from train import draw_prefix, to_pixels


def save_tokenizer(path: str):
    specials = [{"id": i, "content": w, "single_word": False, "lstrip": False, "rstrip": False,
                 "normalized": False, "special": True} for i, w in enumerate(S.SPECIALS)]
    data = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": specials,
            "normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None,
            "decoder": None,
            "model": {"type": "WordLevel", "vocab": {w: i for i, w in enumerate(S.VOCAB)}, "unk_token": "<unk>"}}
    with open(path, "w") as f:
        json.dump(data, f, indent=1)
        f.write("\n")


def held_out(folder: str, scenes: int, drawings: int):
    os.makedirs(folder, exist_ok=True)
    tiles = []
    with open(f"{folder}/questions.jsonl", "w") as f:
        for i, (_, image, asked) in enumerate(E.held_out_scenes(scenes)):
            tiles.append(image)
            qs = [{"kind": k, "question": q, "answer": a} for k, q, a in asked]
            f.write(json.dumps({"scene": i, "questions": qs}) + "\n")
    rows = [np.concatenate(tiles[i:i + 32], 1) for i in range(0, scenes, 32)]
    Image.fromarray(np.concatenate(rows)).save(f"{folder}/scenes.png", optimize=True)
    with open(f"{folder}/drawings.jsonl", "w") as f:
        for d, seed in E.held_out_drawings(drawings):
            f.write(json.dumps({"prompt": d.prompt, "seed": seed, "objects": d.objects,
                                "relation": d.relation, "region": d.region}) + "\n")


@torch.no_grad()
def golden(net: Scenes, path: str):
    things, image, asked = next(iter(E.held_out_scenes(1)))
    x = to_pixels(image[None])
    features = net.vision(x)
    question = asked[0][1]
    ids = [S.BOS, S.USER, S.IMAGE] + [S.PAD] * 16 + [S.IMAGE_END] + S.encode(question) + [S.ASSISTANT]
    rows = net.model.embed_tokens(torch.tensor([ids]))
    rows[:, 3:19] = features
    hidden = net.model(rows)
    prompt = "draw a red circle left of a blue square"
    prefix = torch.tensor(draw_prefix(prompt))
    c = CONFIG["denoiser"]
    noise = torch.from_numpy(E.noise(7, (1, c["tokens"], c["token_dim"])))
    latents = net.codec.encode(x)
    drawn = net.draw(prefix, noise, c["steps"], c["guidance"], torch.tensor(draw_prefix("")))
    as_int = lambda v: torch.tensor(v, dtype=torch.int32)
    save_file({
        "vision.in": torch.from_numpy(image), "vision.features": features[0].contiguous(),
        "text.ids": as_int(ids), "text.hidden": hidden[0].contiguous(),
        "text.logits": net.logits(hidden[0]).contiguous(),
        "answer.ids": as_int(E.answers(net, image, question)),
        "codec.latents": latents[0].contiguous(), "codec.out": net.codec.decode(latents)[0].contiguous(),
        "draw.ids": prefix.to(torch.int32), "draw.noise": noise[0].contiguous(),
        "draw.velocity": net.velocity(prefix, noise, 0.75)[0].contiguous(),
        "draw.latents": drawn[0].contiguous(), "draw.image": net.codec.decode(drawn)[0].contiguous(),
        "words.ids": as_int(S.encode("what color is the zebra")),
    }, path, metadata={"question": question, "prompt": prompt})


def expected(net: Scenes, path: str, scenes: int = 64, drawings: int = 16):
    """Counts of right answers on the first held-out scenes: what the engine must get as well."""
    counts = {kind: right for kind, (right, _) in E.score_answers(net, scenes).items()}
    counts["drawing"] = sum(
        checker.satisfied(checker.find(E.draw(net, d.prompt, seed, CONFIG["denoiser"]["steps"],
                                              CONFIG["denoiser"]["guidance"])), d.objects, d.relation, d.region)
        for d, seed in E.held_out_drawings(drawings))
    with open(path, "w") as f:
        json.dump(counts, f, indent=1)
        f.write("\n")


def samples(folder: str):
    os.makedirs(folder, exist_ok=True)
    rng = np.random.default_rng(31)
    color, shape = S.COLOR_NAMES.index, S.SHAPES.index
    table = [S.Thing(color("red"), shape("circle"), 16, 18, 8.5), S.Thing(color("blue"), shape("square"), 46, 20, 8.5),
             S.Thing(color("green"), shape("triangle"), 20, 47, 9), S.Thing(color("yellow"), shape("star"), 47, 46, 8.5)]
    Image.fromarray(S.render(table, rng, 256)).save(f"{folder}/table.png", optimize=True)
    Image.fromarray(S.render(S.random_scene(rng), rng, 480)).save(f"{folder}/scene.jpg", quality=90)


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--weights", required=True)
    a.add_argument("--model", required=True)
    a.add_argument("--golden", required=True)
    a.add_argument("--scenes", type=int, default=1024)
    a.add_argument("--drawings", type=int, default=256)
    a = a.parse_args()
    os.makedirs(a.model, exist_ok=True)
    os.makedirs(a.golden, exist_ok=True)
    state = {k: v.to(torch.bfloat16).contiguous() for k, v in torch.load(a.weights).items()}
    save_file(state, f"{a.model}/model.safetensors")
    with open(f"{a.model}/config.json", "w") as f:
        json.dump(CONFIG, f, indent=1)
        f.write("\n")
    save_tokenizer(f"{a.model}/tokenizer.json")
    held_out(f"{a.model}/heldout", a.scenes, a.drawings)
    samples(f"{a.model}/samples")
    net = E.load(f"{a.model}/model.safetensors")
    expected(net, f"{a.model}/heldout/expected.json")
    golden(net, f"{a.golden}/scenes_golden.safetensors")


if __name__ == "__main__":
    main()
