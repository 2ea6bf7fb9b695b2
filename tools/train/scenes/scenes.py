"""Scenes of coloured shapes on a table: sampling, rendering, questions, and drawing prompts.

Everything is drawn from one numpy generator, so a seed names a data set. Pictures are 64 x 64 RGB.
Not in the package lists: numpy
"""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

SIZE = 64
COLORS = {"red": (214, 48, 49), "green": (38, 166, 91), "blue": (41, 98, 214),
          "yellow": (241, 196, 15), "purple": (142, 68, 173), "orange": (230, 126, 34)}
SHAPES = ("circle", "square", "triangle", "star")
COLOR_NAMES = tuple(COLORS)
NUMBERS = ("zero", "one", "two", "three", "four", "five")
ROWS, COLUMNS = ("top", "middle", "bottom"), ("left", "center", "right")
RELATIONS = ("left of", "right of", "above", "below")
SPECIALS = ("<pad>", "<bos>", "<eos>", "<user>", "<assistant>", "<image>", "</image>", "<draw>", "<unk>",
            "<act>", "<memory>", "</memory>")
WORDS = sorted(set(
    "what color colour is the a an how many shapes are there where in which has of left right above below top "
    "middle bottom center and draw picture yes no not do you see can it to shape on table please tell me "
    "show paint with its".split()) | set(COLOR_NAMES) | set(SHAPES) | {s + "s" for s in SHAPES} | set(NUMBERS))
VOCAB = list(SPECIALS) + WORDS
VOCAB += [f"<reserved_{i}>" for i in range(128 - len(VOCAB))]
ID = {word: i for i, word in enumerate(VOCAB)}
PAD, BOS, EOS, USER, ASSISTANT, IMAGE, IMAGE_END, DRAW, UNK = range(9)


@dataclass(frozen=True)
class Thing:
    """One shape: colour and shape index, centre and radius in pixels."""
    color: int
    shape: int
    x: float
    y: float
    r: float

    @property
    def name(self) -> str:
        return f"{COLOR_NAMES[self.color]} {SHAPES[self.shape]}"


def encode(text: str) -> list[int]:
    return [ID.get(word, UNK) for word in text.lower().split()]


def region(x: float, y: float) -> str:
    row, column = ROWS[min(2, int(y * 3 / SIZE))], COLUMNS[min(2, int(x * 3 / SIZE))]
    if (row, column) == ("middle", "center"):
        return "center"
    return f"{row} {column}"


def clear_region(t: Thing, margin: float = 2.5) -> bool:
    return all(abs(v - b) >= margin for v in (t.x, t.y) for b in (SIZE / 3, 2 * SIZE / 3))


def place(rng: np.random.Generator, kinds: list[tuple[int, int]], radius=(6.5, 9.5)) -> list[Thing] | None:
    """Non-overlapping places for (colour, shape) pairs; None when they did not fit."""
    things: list[Thing] = []
    for color, shape in kinds:
        for _ in range(60):
            r = rng.uniform(*radius)
            x, y = rng.uniform(r + 1, SIZE - r - 1, 2)
            if all((x - t.x) ** 2 + (y - t.y) ** 2 > (r + t.r + 2.5) ** 2 for t in things):
                things.append(Thing(color, shape, x, y, r))
                break
        else:
            return None
    return things


def random_scene(rng: np.random.Generator, most: int = 5) -> list[Thing]:
    while True:
        n = int(rng.integers(1, most + 1))
        colors, shapes = rng.integers(0, 6, n), rng.integers(0, 4, n)
        if rng.random() < 0.35 and n > 1:  # repeats, so that counting is not always one
            if rng.random() < 0.5:
                colors[: rng.integers(2, n + 1)] = colors[0]
            else:
                shapes[: rng.integers(2, n + 1)] = shapes[0]
        things = place(rng, list(zip(colors.tolist(), shapes.tolist())))
        if things is not None:
            return things


def background(rng: np.random.Generator, size: int = SIZE) -> np.ndarray:
    base = rng.uniform(196, 238) + rng.uniform(-10, 10, 3)
    gx, gy = rng.uniform(-12, 12, 2)
    ramp = np.linspace(-0.5, 0.5, size)
    return base[None, None, :] + (ramp[None, :] * gx + ramp[:, None] * gy)[..., None]


def signed_distance(shape: int, dx: np.ndarray, dy: np.ndarray, r: float) -> np.ndarray:
    """Positive inside, in pixels (approximate for stars)."""
    if SHAPES[shape] == "circle":
        return r - np.hypot(dx, dy)
    if SHAPES[shape] == "square":
        return 0.86 * r - np.maximum(np.abs(dx), np.abs(dy))
    if SHAPES[shape] == "triangle":
        s3 = 0.8660254
        return np.minimum(np.minimum(0.6 * r - dy, 0.55 * r + 0.5 * dy - s3 * dx), 0.55 * r + 0.5 * dy + s3 * dx)
    angle = np.abs((np.arctan2(dx, -dy) / (2 * np.pi / 5) + 0.5) % 1.0 - 0.5) * 2  # 0 at a tip, 1 in a notch
    tip, notch = 1.12 * r, 0.50 * r
    half = np.pi / 5
    # The straight edge between a tip and a notch, in polar form.
    theta = angle * half
    edge = np.sin(half) / (np.sin(half - theta) / tip + np.sin(theta) / notch)
    return (edge - np.hypot(dx, dy)) * 0.7


def render(things: list[Thing], rng: np.random.Generator, size: int = SIZE) -> np.ndarray:
    """u8 [size, size, 3]. Edges are antialiased over one pixel of the target size."""
    scale = size / SIZE
    image = background(rng, size)
    for t in things:
        lo_x, hi_x = max(0, int((t.x - 1.3 * t.r) * scale) - 1), min(size, int((t.x + 1.3 * t.r) * scale) + 2)
        lo_y, hi_y = max(0, int((t.y - 1.3 * t.r) * scale) - 1), min(size, int((t.y + 1.3 * t.r) * scale) + 2)
        dx = (np.arange(lo_x, hi_x) + 0.5) / scale - t.x
        dy = (np.arange(lo_y, hi_y) + 0.5) / scale - t.y
        cover = np.clip(signed_distance(t.shape, dx[None, :], dy[:, None], t.r) * scale + 0.5, 0, 1)[..., None]
        part = image[lo_y:hi_y, lo_x:hi_x]
        part += (np.array(COLORS[COLOR_NAMES[t.color]], float) - part) * cover
    return np.clip(image + 0.5, 0, 255).astype(np.uint8)


def article(name: str) -> str:
    return ("an " if name[0] in "aeiou" else "a ") + name


def there_are(n: int) -> str:
    return f"there {'is' if n == 1 else 'are'} {NUMBERS[n]}"


def holds(relation: str, a: Thing, b: Thing) -> bool:
    return {"left of": a.x < b.x, "right of": a.x > b.x, "above": a.y < b.y, "below": a.y > b.y}[relation]


KINDS = ("colour", "count", "position", "relation")


def questions(rng: np.random.Generator, things: list[Thing], most: int,
              shares=(0.25, 0.25, 0.25, 0.25)) -> list[tuple[str, str, str]]:
    """(kind, question, answer), each with exactly one right answer. `shares` of KINDS as they are tried."""
    kinds = [(t.color, t.shape) for t in things]
    single = [t for t in things if kinds.count((t.color, t.shape)) == 1]
    lone_shape = [t for t in things if sum(s == t.shape for _, s in kinds) == 1]
    out: list[tuple[str, str, str]] = []
    for _ in range(most * 3):
        if len(out) == most:
            break
        kind = KINDS[int(rng.choice(4, p=shares))]
        if kind == "colour" and lone_shape:
            t = lone_shape[int(rng.integers(len(lone_shape)))]
            word = "colour" if rng.random() < 0.2 else "color"
            form = (f"what {word} is the {SHAPES[t.shape]}", f"tell me the {word} of the {SHAPES[t.shape]}")
            out.append((kind, form[int(rng.random() < 0.2)], f"the {SHAPES[t.shape]} is {COLOR_NAMES[t.color]}"))
        elif kind == "count":
            c, s, which = int(rng.integers(6)), int(rng.integers(4)), rng.random()
            if rng.random() < 0.7:
                t = things[int(rng.integers(len(things)))]
                c, s = t.color, t.shape
            if which < 0.42:
                n, what = sum(k[0] == c for k in kinds), f"{COLOR_NAMES[c]} shapes"
            elif which < 0.84:
                n, what = sum(k[1] == s for k in kinds), SHAPES[s] + "s"
            else:
                n, what = len(kinds), "shapes"
            form = (f"how many {what} are there", f"how many {what} do you see")
            out.append((kind, form[int(rng.random() < 0.3)], there_are(n)))
        elif kind == "position":
            near = [t for t in single if clear_region(t)]
            if near:
                t = near[int(rng.integers(len(near)))]
                out.append((kind, f"where is the {t.name}", f"the {t.name} is in the {region(t.x, t.y)}"))
        elif kind == "relation" and len(single) > 1:
            a, b = (single[int(i)] for i in rng.choice(len(single), 2, replace=False))
            relation = RELATIONS[int(rng.integers(4))]
            gap = abs(a.x - b.x) if relation in ("left of", "right of") else abs(a.y - b.y)
            if gap >= 5:
                out.append((kind, f"is the {a.name} {relation} the {b.name}", "yes" if holds(relation, a, b) else "no"))
    return out


@dataclass(frozen=True)
class Drawing:
    """A prompt and what a checker must find: objects, and one relation or region when named."""
    prompt: str
    objects: list[tuple[str, str]]      # (colour, shape)
    relation: str | None
    region: str | None
    things: list[Thing]                 # one picture that fits


FORMS = ("one", "region", "pair", "relation", "plural")
FORM_SHARES = (0.25, 0.2, 0.15, 0.2, 0.2)


def place_in(rng: np.random.Generator, color: int, shape: int, where: str) -> Thing:
    """One shape, well inside the named region."""
    words = ("middle center" if where == "center" else where).split()
    cell = (COLUMNS.index(words[1]), ROWS.index(words[0]))
    r = rng.uniform(6.5, 9.5)
    x, y = (rng.uniform(max(r + 1, i * SIZE / 3 + 2.6), min(SIZE - r - 1, (i + 1) * SIZE / 3 - 2.6)) for i in cell)
    return Thing(color, shape, x, y, r)


def place_related(rng: np.random.Generator, kinds: list[tuple[int, int]], relation: str) -> list[Thing]:
    while True:
        things = place(rng, kinds)
        if things is not None:
            a, b = things
            gap = abs(a.x - b.x) if relation in ("left of", "right of") else abs(a.y - b.y)
            if holds(relation, a, b) and gap >= 10:
                return things


def drawing(rng: np.random.Generator) -> Drawing:
    """The form is drawn first and kept: a placement that does not fit never changes what is asked for."""
    form = FORMS[int(rng.choice(5, p=FORM_SHARES))]
    relation = where = things = None
    first, second = ((int(rng.integers(6)), int(rng.integers(4))) for _ in range(2))
    while form == "relation" and second == first:
        second = int(rng.integers(6)), int(rng.integers(4))
    names = [f"{COLOR_NAMES[a]} {SHAPES[b]}" for a, b in (first, second)]
    if form == "one":
        kinds, text = [first], article(names[0])
    elif form == "region":
        where = region(*rng.uniform(0, SIZE, 2))
        kinds, text, things = [first], f"{article(names[0])} in the {where}", [place_in(rng, *first, where)]
    elif form == "pair":
        kinds, text = [first, second], f"{article(names[0])} and {article(names[1])}"
    elif form == "relation":
        relation = RELATIONS[int(rng.integers(4))]
        kinds, text = [first, second], f"{article(names[0])} {relation} {article(names[1])}"
        things = place_related(rng, kinds, relation)
    else:
        n = int(rng.integers(2, 4))
        kinds, text = [first] * n, f"{NUMBERS[n]} {names[0]}s"
    while things is None:
        things = place(rng, kinds)
    verb = ("draw", "paint", "please draw", "show me")[int(rng.choice(4, p=(0.7, 0.1, 0.1, 0.1)))]
    objects = [(COLOR_NAMES[a], SHAPES[b]) for a, b in kinds]
    return Drawing(f"{verb} {text}", objects, relation, where, things)
