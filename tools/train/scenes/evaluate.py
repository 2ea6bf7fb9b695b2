"""Accuracy on held-out scenes and drawings.

    python evaluate.py --weights model.pt|model.safetensors [--scenes 1024] [--drawings 256]
Not in the package lists: numpy, torch, safetensors, PIL
"""
from __future__ import annotations

import argparse
from collections import defaultdict

import numpy as np
import torch

import checker
import scenes as S
from model import CONFIG, Scenes
from train import draw_prefix, to_pixels

HELD_OUT_SEED = 777_000_000  # training draws from seeds below 1,000,000


def load(path: str) -> Scenes:
    net = Scenes()
    if path.endswith(".safetensors"):
        from safetensors.torch import load_file
        state = {k: v.float() for k, v in load_file(path).items()}
    else:
        state = torch.load(path)
    net.load_state_dict(state)
    return net.eval()


def noise(seed: int, shape) -> np.ndarray:
    """SplitMix64 and Box-Muller: the engine's stream."""
    mask, out, state = (1 << 64) - 1, [], seed & ((1 << 64) - 1)

    def uniform():
        nonlocal state
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        return (((z ^ (z >> 31)) >> 11) + 0.5) * 2.0 ** -53

    for _ in range(int(np.prod(shape)) // 2):
        r, a = np.sqrt(-2 * np.log(uniform())), 2 * np.pi * uniform()
        out += [r * np.cos(a), r * np.sin(a)]
    return np.array(out).astype(np.float32).reshape(shape)


def held_out_scenes(count: int):
    rng = np.random.default_rng(HELD_OUT_SEED)
    while count:
        things = S.random_scene(rng)
        asked = S.questions(rng, things, 6)
        if asked:
            count -= 1
            yield things, S.render(things, rng), asked


def held_out_drawings(count: int):
    rng = np.random.default_rng(HELD_OUT_SEED + 1)
    for i in range(count):
        yield S.drawing(rng), 1000 + i


@torch.no_grad()
def answers(net: Scenes, image: np.ndarray, question: str, most: int = 12) -> list[int]:
    """Greedy answer, one question in a fresh session, picture first."""
    features = net.vision(to_pixels(image[None]))
    ids = [S.BOS, S.USER, S.IMAGE] + [S.PAD] * 16 + [S.IMAGE_END] + S.encode(question) + [S.ASSISTANT]
    x = net.model.embed_tokens(torch.tensor([ids]))
    x[:, 3:19] = features
    out: list[int] = []
    while len(out) < most:
        token = int(net.logits(net.model(x)[0, -1]).argmax())
        out.append(token)
        if token == S.EOS:
            break
        x = torch.cat((x, net.model.embed_tokens(torch.tensor([[token]]))), 1)
    return out


@torch.no_grad()
def score_answers(net: Scenes, count: int) -> dict[str, tuple[int, int]]:
    """Exact matches per kind. Teacher forcing: all right exactly when the greedy answer is."""
    right, total = defaultdict(int), defaultdict(int)
    for things, image, asked in held_out_scenes(count):
        features = net.vision(to_pixels(image[None]))
        rows, spans = [], []
        for kind, question, answer in asked:
            head = [S.BOS, S.USER, S.IMAGE] + [S.PAD] * 16 + [S.IMAGE_END] + S.encode(question) + [S.ASSISTANT]
            tail = S.encode(answer) + [S.EOS]
            rows.append(head + tail)
            spans.append((kind, len(head), tail))
        ids = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.long)
        for i, row in enumerate(rows):
            ids[i, : len(row)] = torch.tensor(row)
        x = net.model.embed_tokens(ids)
        x[:, 3:19] = features
        best = net.logits(net.model(x)).argmax(-1)
        for i, (kind, start, tail) in enumerate(spans):
            total[kind] += 1
            right[kind] += best[i, start - 1: start - 1 + len(tail)].tolist() == tail
    return {k: (right[k], total[k]) for k in sorted(total)}


@torch.no_grad()
def draw(net: Scenes, prompt: str, seed: int, steps: int, guidance: float) -> np.ndarray:
    c = net.config["denoiser"]
    x = torch.from_numpy(noise(seed, (1, c["tokens"], c["token_dim"])))
    z = net.draw(torch.tensor(draw_prefix(prompt)), x, steps, guidance, torch.tensor(draw_prefix("")))
    image = net.codec.decode(z)[0].permute(1, 2, 0) * 127.5 + 127.5
    return image.clamp(0, 255).round().byte().numpy()


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--weights", required=True)
    a.add_argument("--scenes", type=int, default=1024)
    a.add_argument("--drawings", type=int, default=256)
    a.add_argument("--steps", type=int, default=CONFIG["denoiser"]["steps"])
    a.add_argument("--guidance", type=float, default=CONFIG["denoiser"]["guidance"])
    a.add_argument("--sheet")
    a = a.parse_args()
    net = load(a.weights)
    if a.scenes:
        for kind, (right, total) in score_answers(net, a.scenes).items():
            print(f"{kind:10s} {right:5d} of {total:5d}  {100 * right / total:.1f} %")
        rng, fine = np.random.default_rng(5), 0
        for _ in range(256):
            d = S.drawing(rng)
            fine += checker.satisfied(checker.find(S.render(d.things, rng)), d.objects, d.relation, d.region)
        print(f"{'checker':10s} {fine:5d} of   256  on true pictures")
    good, kinds, pictures = 0, defaultdict(lambda: [0, 0]), []
    for d, seed in held_out_drawings(a.drawings):
        image = draw(net, d.prompt, seed, a.steps, a.guidance)
        ok = checker.satisfied(checker.find(image), d.objects, d.relation, d.region)
        kind = "region" if d.region else d.relation and "relation" or f"{len(d.objects)} objects"
        kinds[kind][0] += ok
        kinds[kind][1] += 1
        good += ok
        pictures.append(image)
    if a.drawings:
        print(f"{'drawing':10s} {good:5d} of {a.drawings:5d}  {100 * good / a.drawings:.1f} %  {dict(kinds)}")
    if a.sheet:
        from PIL import Image
        rows = [np.concatenate(pictures[i:i + 8], 1) for i in range(0, min(64, len(pictures)) // 8 * 8, 8)]
        Image.fromarray(np.concatenate(rows)).save(a.sheet)


if __name__ == "__main__":
    main()
