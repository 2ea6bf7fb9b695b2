"""Finds coloured shapes in a 64 x 64 picture: what says whether a drawing holds what was asked for.

1. A pixel belongs to the palette colour that is nearest in RGB when its distance is at most 60 and smaller than
   to the background, which is the median colour of the picture's border.
2. Pixels of one colour that touch (4 neighbours) are a component; fewer than 24 pixels are noise.
3. The shape is the one whose ideal mask, with the component's area and centroid, has the best overlap (IoU).
   An ideal mask holds the pixels whose centre is inside; its radius is found from the area.
4. The place is the centroid, moved by the shape's own offset (a triangle's centroid is not its centre).
Not in the package lists: numpy
"""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import scenes as S

PALETTE = np.array([S.COLORS[c] for c in S.COLOR_NAMES], np.int64)
# area / radius^2 and centroid offset (dy / radius) of each ideal shape, measured on a fine grid.
_G = (np.arange(-200, 200) + 0.5) / 100


def _facts(shape: int) -> tuple[float, float]:
    inside = S.signed_distance(shape, _G[None, :], _G[:, None], 1.0) > 0
    return inside.mean() * 16, float((inside * _G[:, None]).sum() / inside.sum())


FACTS = [_facts(s) for s in range(len(S.SHAPES))]


@dataclass(frozen=True)
class Found:
    color: str
    shape: str
    x: float
    y: float
    overlap: float


def components(mask: np.ndarray) -> list[np.ndarray]:
    """Lists of flat pixel indices."""
    left, out = mask.copy(), []
    for start in np.flatnonzero(mask):
        if not left.flat[start]:
            continue
        left.flat[start] = False
        stack, pixels = [int(start)], []
        while stack:
            p = stack.pop()
            pixels.append(p)
            y, x = divmod(p, S.SIZE)
            for q, ok in ((p - 1, x > 0), (p + 1, x < S.SIZE - 1), (p - S.SIZE, y > 0), (p + S.SIZE, y < S.SIZE - 1)):
                if ok and left.flat[q]:
                    left.flat[q] = False
                    stack.append(q)
        out.append(np.array(sorted(pixels)))
    return out


def find(image: np.ndarray) -> list[Found]:
    pixels = image.reshape(-1, 3).astype(np.int64)
    edge = np.concatenate((image[0], image[-1], image[1:-1, 0], image[1:-1, -1])).astype(np.int64)
    ground = np.sort(edge, 0)[len(edge) // 2]
    distance = ((pixels[:, None] - PALETTE[None]) ** 2).sum(-1)
    nearest = distance.argmin(1)
    close = distance.min(1)
    colored = (close <= 60 ** 2) & (close < ((pixels - ground) ** 2).sum(-1))
    found = []
    gy, gx = np.mgrid[0:S.SIZE, 0:S.SIZE] + 0.5
    for c in range(len(PALETTE)):
        for part in components(((nearest == c) & colored).reshape(S.SIZE, S.SIZE)):
            if len(part) < 24:
                continue
            cx, cy = (part % S.SIZE).mean() + 0.5, (part // S.SIZE).mean() + 0.5
            mask = np.zeros(S.SIZE * S.SIZE, bool)
            mask[part] = True
            best = (-1.0, 0, 0.0)
            for s, (area, offset) in enumerate(FACTS):
                r = (len(part) / area) ** 0.5
                ideal = (S.signed_distance(s, gx - cx, gy - cy + offset * r, r) > 0).ravel()
                overlap = (ideal & mask).sum() / max(1, (ideal | mask).sum())
                if overlap > best[0]:
                    best = (overlap, s, cy - offset * r)
            found.append(Found(S.COLOR_NAMES[c], S.SHAPES[best[1]], float(cx), float(best[2]), float(best[0])))
    return found


def satisfied(found: list[Found], objects, relation, where) -> bool:
    """Everything the sentence asked for, and nothing else."""
    if sorted((f.color, f.shape) for f in found) != sorted(map(tuple, objects)) or any(f.overlap < 0.6 for f in found):
        return False
    if where is not None and S.region(found[0].x, found[0].y) != where:
        return False
    if relation is not None:
        a = next(f for f in found if (f.color, f.shape) == tuple(objects[0]))
        b = next(f for f in found if (f.color, f.shape) == tuple(objects[1]))
        return S.holds(relation, a, b)
    return True
