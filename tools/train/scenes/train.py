"""Trains the scenes model: first the image codec, then answering and drawing together.

    python train.py --out DIR [--codec-minutes 5] [--minutes 55] [--seed 1]

Checkpoints every two minutes; the learning rate follows the clock, so the run ends when it should.
Not in the package lists: numpy, torch
"""
from __future__ import annotations

import argparse
import copy
import json
import multiprocessing as mp
import os
import time

import numpy as np
import torch
import torch.nn.functional as F

import scenes as S
from model import CONFIG, Scenes

QA_LENGTH, PROMPT_LENGTH, BLOCKS = 104, 20, 4


def to_pixels(images: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(images).permute(0, 3, 1, 2).float() / 127.5 - 1


def qa_sequence(rng, pairs) -> tuple[list[int], list[int], int]:
    """(ids, labels, where the 16 features start). Labels -100 where nothing is learnt."""
    ids, labels, at = [S.BOS], [-100], -1
    image_last = rng.random() < 0.1
    for i, (_, question, answer) in enumerate(pairs):
        words, image = S.encode(question), [S.IMAGE] + [S.PAD] * 16 + [S.IMAGE_END]
        content = words
        if i == 0:
            content = words + image if image_last else image + words
        turn = [S.USER] + content + [S.ASSISTANT]
        if i == 0:
            at = len(ids) + turn.index(S.IMAGE) + 1
        reply = S.encode(answer) + [S.EOS]
        if len(ids) + len(turn) + len(reply) > QA_LENGTH and i > 0:
            break
        ids += turn + reply
        labels += [-100] * len(turn) + reply
    return ids, labels, at


COLOR_OF = {S.ID[c]: i for i, c in enumerate(S.COLOR_NAMES)}
SHAPE_OF = {S.ID[s]: i for i, s in enumerate(S.SHAPES)} | {S.ID[s + "s"]: i for i, s in enumerate(S.SHAPES)}
TELLING = torch.tensor(sorted({S.ID[w] for w in (*S.COLOR_NAMES, *S.NUMBERS, *S.ROWS, *S.COLUMNS, "yes", "no")}))


def nouns(ids: list[int], after: int, things):
    """(where, shapes meant) of the last word of each noun that stands after the picture: `red circle`, `stars`,
    `blue shapes`. Training only."""
    for i in range(after, len(ids)):
        shape = SHAPE_OF.get(ids[i])
        if shape is None and ids[i] != S.ID["shapes"]:
            continue
        color = COLOR_OF.get(ids[i - 1])
        yield i, [t for t in things if (color is None or t.color == color) and (shape is None or t.shape == shape)]


def cell(t) -> int:
    return int(t.y // 8) * 8 + int(t.x // 8)


def qa_batch(rng, size, most=5):
    images = np.empty((size, S.SIZE, S.SIZE, 3), np.uint8)
    ids, labels = np.zeros((size, QA_LENGTH), np.int64), np.full((size, QA_LENGTH), -100, np.int64)
    at, grid = np.empty(size, np.int64), np.zeros((size, 64, 5), np.float32)
    meant = []  # rows of (picture, position, 64 cells, how many, mean x, mean y)
    for b in range(size):
        pairs = []
        while not pairs:
            things = S.random_scene(rng, most)
            pairs = S.questions(rng, things, 8, (0.2, 0.24, 0.26, 0.3))
        if rng.random() < 0.06:  # a drawing turn at the end of a talk
            pairs = pairs[:3]
        images[b] = S.render(things, rng)
        for t in things:
            cx, cy = int(t.x // 8), int(t.y // 8)
            grid[b, cy * 8 + cx] = 1, t.color, t.shape, t.x / 8 - cx, t.y / 8 - cy
        i, l, at[b] = qa_sequence(rng, pairs)
        ids[b, : len(i)], labels[b, : len(l)] = i, l
        for where, those in nouns(i, at[b] + 16, things):
            row = np.zeros(69, np.float32)
            row[[2 + cell(t) for t in those]] = 1
            row[:2], row[66] = (b, where), len(those)
            row[67:] = np.mean([(t.x, t.y) for t in those], 0) / 32 - 1 if those else 0
            meant.append(row)
    return images, ids, labels, at, grid, np.stack(meant)


def draw_prefix(prompt: str) -> list[int]:
    return [S.BOS, S.USER] + S.encode(prompt) + [S.ASSISTANT, S.DRAW]


def draw_batch(rng, size):
    """Prompts end at one place (left padding), so that their blocks of latents line up."""
    images = np.empty((size, S.SIZE, S.SIZE, 3), np.uint8)
    ids, length = np.zeros((size, PROMPT_LENGTH), np.int64), np.empty(size, np.int64)
    for b in range(size):
        d = S.drawing(rng)
        images[b] = S.render(d.things, rng)
        prefix = draw_prefix("" if rng.random() < 0.1 else d.prompt)
        ids[b, PROMPT_LENGTH - len(prefix):], length[b] = prefix, len(prefix)
    return images, ids, length


def producer(queue, seed, kind, size, most):
    os.nice(2)
    torch.set_num_threads(1)
    rng = np.random.default_rng(seed)
    make = {"qa": qa_batch, "draw": draw_batch}
    while True:
        queue.put(make[kind](rng, size, most.value) if kind == "qa" else make[kind](rng, size))


def see_loss(guess, grid):
    """Training only: which patch holds the centre of which shape. Makes seeing quick to learn."""
    there = grid[..., 0] > 0
    loss = F.binary_cross_entropy_with_logits(guess[..., 0], grid[..., 0])
    own, want = guess[there], grid[there]
    return (loss + 0.3 * F.cross_entropy(own[:, 1:7], want[:, 1].long())
            + 0.3 * F.cross_entropy(own[:, 7:11], want[:, 2].long()) + (own[:, 11:13] - want[:, 3:]).abs().mean())


def mean_loss(guess, meant):
    """Training only: which cells of the picture a noun means, and where its one shape is. Without it the words
    hardly learn to pick among several objects."""
    cells, many, place = meant[:, 2:66], meant[:, 66], meant[:, 67:]
    loss = F.binary_cross_entropy_with_logits(guess[:, :64], cells, reduction="none").sum(-1).mean()
    one = many == 1
    return 0.2 * loss + (guess[one, 64:] - place[one]).abs().mean()


def qa_loss(net, batch):
    images, ids, labels, at, grid, meant = batch
    meant = torch.from_numpy(meant)
    ids, labels = torch.from_numpy(ids), torch.from_numpy(labels)
    seen = net.vision.tokens(to_pixels(images))
    features = net.vision.merge(seen)
    x = net.model.embed_tokens(ids)
    where = torch.from_numpy(at)[:, None] + torch.arange(16)
    x = x.scatter(1, where[..., None].expand(-1, -1, x.shape[-1]), features.to(x.dtype))
    middle = []
    hidden = net.model(x, middle=middle)
    keep = labels[:, 1:] != -100
    logits = net.logits(hidden[:, :-1][keep])
    target = labels[:, 1:][keep]
    see = see_loss(net.seer(seen).float(), torch.from_numpy(grid))
    told = middle[0][meant[:, 0].long(), meant[:, 1].long()]
    mean = mean_loss(net.pointer(told).float(), meant)
    telling = torch.isin(target, TELLING)
    weight = torch.where(telling, 1.0, 0.15)
    loss = (F.cross_entropy(logits.float(), target, reduction="none") * weight).sum() / weight.sum()
    return loss, (logits.argmax(-1) == target)[telling].float().mean(), see, mean


def draw_loss(net, batch, rng):
    images, ids, length = batch
    ids, length = torch.from_numpy(ids), torch.from_numpy(length)
    b, p, m = len(ids), PROMPT_LENGTH, 16
    with torch.no_grad():
        x0 = net.codec.encode(to_pixels(images)).float()
    t = torch.sigmoid(torch.randn(b, BLOCKS) * 1.0 + 0.6).clamp(0.01, 1)
    t[torch.rand(b, BLOCKS) < 0.1] = 1.0
    noise = torch.randn(b, BLOCKS, m, x0.shape[-1])
    xt = (1 - t)[..., None, None] * x0[:, None] + t[..., None, None] * noise
    tokens = net.denoiser.embed(xt, t).flatten(1, 2)
    x = torch.cat((net.model.embed_tokens(ids), tokens.to(torch.float32)), 1)
    n = p + BLOCKS * m
    block = torch.cat((torch.full((p,), -1), torch.arange(BLOCKS).repeat_interleave(m)))
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    mask[p:, :p] = True
    mask[p:, p:] = block[p:, None] == block[None, p:]
    real = torch.cat((torch.arange(p) >= p - length[:, None], torch.ones(b, BLOCKS * m, dtype=torch.bool)), 1)
    mask = (mask[None] & real[:, None, :]) | torch.eye(n, dtype=torch.bool)
    start = p - length
    positions = torch.cat((torch.arange(p).expand(b, -1) - start[:, None],
                           (torch.arange(m).repeat(BLOCKS).expand(b, -1) + length[:, None])), 1).clamp(min=0)
    hidden = net.model(x, positions, mask[:, None])
    guess = net.denoiser.out_proj(hidden[:, p:]).float().view(b, BLOCKS, m, -1)
    weight = 1 / t.clamp(min=0.2)
    image_loss = (((guess - x0[:, None]) ** 2).mean((-1, -2)) * weight).mean() / weight.mean()
    # The model itself says that this is a drawing: <draw> after <assistant>.
    logits = net.logits(hidden[:, p - 2])
    return image_loss, F.cross_entropy(logits.float(), ids[:, p - 1])


def train_codec(net, seed, minutes, log):
    codec, rng = net.codec, np.random.default_rng(seed + 1000)
    optimizer = torch.optim.AdamW(codec.parameters(), 2e-3, betas=(0.9, 0.98), weight_decay=1e-4)
    start, step = time.time(), 0
    while (done := (time.time() - start) / (60 * minutes)) < 1:
        for group in optimizer.param_groups:
            group["lr"] = 2e-3 * min(1, step / 100) * (1 - done) + 1e-5
        images = np.stack([S.render(S.random_scene(rng), rng) for _ in range(48)])
        x = to_pixels(images).contiguous(memory_format=torch.channels_last)
        with torch.autocast("cpu", torch.bfloat16):
            z = codec.encoder(x).float()
            std, mean = z.std((0, 2, 3)), z.mean((0, 2, 3))
            noisy = z + 0.12 * std[:, None, None].detach() * torch.randn_like(z)
            out = codec.decoder(noisy)
        error = out.float() - x
        size = (mean ** 2).mean() + (std - 1).pow(2).mean()
        loss = error.pow(2).mean() + 0.1 * error.abs().mean() + 0.01 * size
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % 100 == 0:
            print(f"codec step {step} mse {error.pow(2).mean():.5f}", file=log, flush=True)
    with torch.no_grad():
        zs = torch.cat([codec.encoder(to_pixels(np.stack([S.render(S.random_scene(rng), rng) for _ in range(64)])))
                        for _ in range(16)])
        codec.latent_mean.copy_(zs.mean((0, 2, 3)))
        codec.latent_std.copy_(zs.std((0, 2, 3)))
    for p in codec.parameters():
        p.requires_grad_(False)


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--out", required=True)
    a.add_argument("--codec-minutes", type=float, default=5)
    a.add_argument("--minutes", type=float, default=55)
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--lr", type=float, default=1.2e-3)
    a.add_argument("--batch", type=int, default=48)
    a.add_argument("--threads", type=int, default=2)
    a.add_argument("--resume", help="a checkpoint to go on from")
    a.add_argument("--easy", type=float, default=0.12, help="part of the time with at most three objects")
    a.add_argument("--hold", type=float, default=0.35, help="part of the time before the rate falls")
    a = a.parse_args()
    os.makedirs(a.out, exist_ok=True)
    log = open(f"{a.out}/training.log", "a")
    torch.manual_seed(a.seed)
    torch.set_num_threads(a.threads)
    net = Scenes()
    print(json.dumps({"seed": a.seed, "parameters": sum(p.numel() for p in net.parameters()), **vars(a)}), file=log, flush=True)
    if os.path.exists(f"{a.out}/codec.pt"):
        net.codec.load_state_dict(torch.load(f"{a.out}/codec.pt"))
        for p in net.codec.parameters():
            p.requires_grad_(False)
    else:
        train_codec(net, a.seed, a.codec_minutes, log)
        torch.save(net.codec.state_dict(), f"{a.out}/codec.pt")
    queues, most = {k: mp.Queue(4) for k in ("qa", "draw")}, mp.Value("i", 3)
    for i, kind in enumerate(queues):
        mp.Process(target=producer, args=(queues[kind], a.seed * 100 + i, kind, a.batch, most), daemon=True).start()
    if a.resume:
        net.load_state_dict(torch.load(a.resume))
    net.seer = torch.nn.Linear(CONFIG["vision_config"]["hidden_size"], 13)
    net.pointer = torch.nn.Linear(CONFIG["hidden_size"], 66)
    for layer in [*net.model.layers, *net.vision.layers]:
        layer.compile(dynamic=False)
    weights = [p for p in net.parameters() if p.requires_grad]
    blocks = [p for part in (net.model, net.vision) for p in part.layers.parameters() if p.dim() == 2]
    inside = {id(p) for p in blocks}
    optimizers = [torch.optim.Muon(blocks, a.lr, weight_decay=0.02, adjust_lr_fn="match_rms_adamw"),
                  torch.optim.AdamW([p for p in weights if id(p) not in inside], a.lr, betas=(0.9, 0.98), weight_decay=0.02)]
    mean = Scenes()
    mean.load_state_dict(net.state_dict(), strict=False)
    start, step, saved = time.time(), 0, time.time()
    sums = np.zeros(6)
    while (done := (time.time() - start) / (60 * a.minutes)) < 1:
        rate = a.lr * min(1, step / 300) * (1.0 if done < a.hold else max(0.0, (1 - done) / (1 - a.hold))) + 1e-6
        most.value = 3 if done < a.easy else 5
        for group in (g for o in optimizers for g in o.param_groups):
            group["lr"] = rate
        net.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            answer, right, see, meant = qa_loss(net, queues["qa"].get())
        (answer + 0.5 * see + meant).backward()
        with torch.autocast("cpu", torch.bfloat16):
            image, say = draw_loss(net, queues["draw"].get(), None)
        (image + 0.2 * say).backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        for optimizer in optimizers:
            optimizer.step()
        step += 1
        decay = min(0.998, 1 - 1 / (step + 1))
        with torch.no_grad():
            fast = dict(net.named_parameters())
            for name, slow in mean.named_parameters():
                if fast[name].requires_grad:
                    slow.lerp_(fast[name], 1 - decay)
        sums += [answer.item(), right.item(), image.item(), say.item(), see.item(), meant.item()]
        if step % 50 == 0:
            answer_, right_, image_, say_, see_, means_ = sums / 50
            sums[:] = 0
            print(f"step {step} minute {(time.time() - start) / 60:.1f} lr {rate:.2e} answer {answer_:.4f} "
                  f"right {right_:.4f} image {image_:.4f} draw-token {say_:.4f} see {see_:.4f} means {means_:.4f}", file=log, flush=True)
        if time.time() - saved > 120:
            torch.save(mean.state_dict(), f"{a.out}/model.tmp")
            os.replace(f"{a.out}/model.tmp", f"{a.out}/model.pt")
            saved = time.time()
    torch.save(mean.state_dict(), f"{a.out}/model.pt")
    torch.save(mean.state_dict(), f"{a.out}/final.pt")
    print("done", file=log, flush=True)


if __name__ == "__main__":
    main()
