"""Each option of `sluice run` that stands in the request does what its name says.

    request_options_test.py SLUICE REPOSITORY
"""
import base64
import json
import os
import subprocess
import sys
import tempfile

SLUICE, ROOT = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
ASK = ("--image", "models/scenes/samples/table.png", "--prompt", "what color is the circle")
DRAW = ("--prompt", "draw a red circle", "--seed", "3")
failures = []


def expect(what, condition, seen=""):
    if not condition:
        failures.append(f"{what}: {seen!r}")


def run(*arguments):
    done = subprocess.run([SLUICE, "run", "workflows/image_chat.yaml", *arguments], cwd=ROOT, capture_output=True, text=True,
                          timeout=300)
    expect(f"{arguments} runs", done.returncode == 0, done)
    return done.stdout


def answers():
    with tempfile.TemporaryDirectory() as folder:
        # At a high temperature it may draw, too.
        answers_into((*ASK, "--out", "image=" + os.path.join(folder, "drawn.png")))


def answers_into(ask):
    greedy = run(*ask)
    wild = [run(*ask, "--temperature", "100", "--seed", str(seed)) for seed in (1, 2, 3)]
    expect("a high temperature draws other words", greedy not in wild, wild)
    expect("each seed draws its own", len(set(wild)) == 3, wild)
    expect("the same seed draws the same", run(*ask, "--temperature", "100", "--seed", "2") == wild[1], wild)
    hot = ("--temperature", "100", "--seed", "1")
    expect("the likeliest alone", run(*ask, *hot, "--top-k", "1") == greedy)
    expect("no more probability than the likeliest has", run(*ask, *hot, "--top-p", "0.001") == greedy)
    one = run(*ask, "--max-tokens", "1").split()
    expect("one token, and no more", len(one) == 1 and greedy.split()[0] == one[0], one)


def going_back():
    """A session's message may go behind an earlier turn of it."""
    def line(session, *texts, **options):
        content = [{"type": "text", "text": text} for text in texts]
        return json.dumps({"session": session, "inputs": {"request": {"content": content, "options": options}}})
    asked = ("what color is the circle", "how many shapes are there")
    lines = [line("a", asked[0]), line("a", asked[0]), line("a", asked[1], step=1), line("a", "how many shapes", "are there", step=0),
             line("a", asked[0], step=7), line("a", asked[0], step=-1),
             line("b", asked[0]), line("b", asked[1]), line("c", asked[1]), line("c", asked[0])]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([SLUICE, "run", "workflows/image_chat.yaml", "--calls", "-", "--out", folder], cwd=ROOT,
                              input="\n".join(lines), capture_output=True, text=True, timeout=300)
    came = {one["line"]: one for one in map(json.loads, done.stdout.splitlines())}
    expect("each line has its result", len(came) == len(lines), done)
    texts = [came[number].get("outputs", {}).get("text") for number in range(1, len(lines) + 1)]
    expect("behind the first turn the second is as if it had not been", texts[2] == texts[7], texts)
    expect("behind none a session begins anew", texts[3] == texts[8], texts)
    expect("behind a turn that it has not had is an error", not came[5]["ok"] and
           "step is 7, and the session has had 1 turn: " in came[5]["error"]["message"], came[5])
    expect("which changes nothing", texts[5] == texts[9], texts)


def tenants():
    """A session is of the tenant of its first call; what another tenant says, and shows, it begins anew."""
    def line(session, text, tenant=None, image=False):
        content = [{"type": "text", "text": text}]
        if image:
            with open(os.path.join(ROOT, "models/scenes/samples/table.png"), "rb") as file:
                content.insert(0, {"type": "image", "data": base64.b64encode(file.read()).decode()})
        options = {} if tenant is None else {"tenant": tenant}
        return json.dumps({"session": session, "inputs": {"request": {"content": content, "options": options}}})
    what, many = "what color is the circle", "how many shapes are there"
    lines = [line("a", what, "one", image=True), line("b", what, "two", image=True), line("c", what, image=True),
             line("a", many, "one"), line("b", many, "one"), line("c", many, "one"), line("a", many), line("b", many, "two"),
             line("d", what, "no name"), line("a", "draw a star", "one")]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([SLUICE, "run", "workflows/image_chat.yaml", "--calls", "-", "--out", folder, "--concurrency", "1"],
                              cwd=ROOT, input="\n".join(lines), capture_output=True, text=True, timeout=300)
    came = {one["line"]: one for one in map(json.loads, done.stdout.splitlines())}
    expect("each line has its result", len(came) == len(lines), done)
    expect("whoever asks, the same words", len({came[number]["outputs"]["text"] for number in (1, 2, 3)}) == 1, came)
    expect("tenants go on", came[4]["ok"] and came[8]["ok"] and came[10]["ok"] and
           came[4]["outputs"] == came[8]["outputs"], came)
    for number, whose, says in ((5, "the tenant 'two'", "the tenant 'one'"), (6, "no tenant", "the tenant 'one'"),
                                (7, "the tenant 'one'", "no tenant")):
        message = "" if came[number]["ok"] else came[number]["error"]["message"]
        expect(f"line {number} is refused", f"the session is of {whose}" in message and f"names {says}" in message, came[number])
    expect("what is no name", "option 'tenant' is \"no name\", it must be a name" in came[9]["error"]["message"], came[9])
    expect("--tenant", run(*ASK, "--tenant", "one") == run(*ASK))


def drawings():
    with tempfile.TemporaryDirectory() as folder:
        drawn = {}
        for name, options in (("plain", ()), ("default", ("--strength", "1")), ("steps", ("--steps", "2")),
                              ("guidance", ("--guidance", "1")), ("seed", ("--seed", "4"))):
            path = os.path.join(folder, name + ".png")
            out = run(*(DRAW if name != "seed" else DRAW[:2]), *options, "--out", path)
            expect(f"{name} says what it wrote", out == f"[image: {path}, 64 x 64]\n", out)
            with open(path, "rb") as file:
                drawn[name] = file.read()
        expect("a strength of 1 changes nothing", drawn["default"] == drawn["plain"])
        others = {drawn[name] for name in ("plain", "steps", "guidance", "seed")}
        expect("steps, guidance and seed each change the drawing", len(others) == 4)
        # From a picture: the weaker, the nearer to it. A strength only means something with a picture.
        sizes = []
        for strength in ("0.1", "0.9", "0.999", "1"):
            path = os.path.join(folder, f"strength{strength}.png")
            run(*ASK[:2], *DRAW, "--strength", strength, "--out", path)
            with open(path, "rb") as file:
                sizes.append(file.read())
        expect("strength changes a drawing from a picture", sizes[0] != sizes[1])
        expect("and nearly 1 is not 1", sizes[2] != sizes[3])


def main():
    answers()
    going_back()
    tenants()
    drawings()
    for failure in failures:
        print(failure)
    sys.exit(1 if failures else 0)


main()
