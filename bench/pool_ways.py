#!/usr/bin/env python3
"""The same answer whatever the pool of keys and values has, and the time to its first token in each way.

    python3 bench/pool_ways.py SLUICE [--model MODEL] [--words 200] [--runs 5]

MODEL: a checkpoint that chats, or the small one of the repository, which sees pictures and is asked about one too, or
models/scenes, which sees and draws (below). A question of so many words is asked for one token, which is the time that is shown (a median; a way that can be had but once in
a process is had in several), and for sixteen, which must be the same in all ways; exit status 1 if they are not. Each process has
answered a question of the same length before, of other words.

    off         asked before in another session, of a role whose sessions share nothing (share_prefixes: no)
    cold        not asked before: each time of other words
    warm        asked before in another session: its pages are in memory
    restarted   asked before by a process that has ended: its pages are in a folder
    moved       asked before at another machine of a cluster: its pages are pulled, which is looked at
    pressed     as warm, in a pool with room for little more than the question, other questions between

models/scenes is asked something of a picture, and for a drawing, whose pixels must be the same, too, by
workflows/image_chat.yaml. Beside these ways there is

    apart       as warm, with the words in one process and the drawing in another, over the same pages

Whoever waits sleeps. The time has the call's way through a pipe and JSON in it, and that of the model's one step.
"""
from __future__ import annotations

import argparse
import base64
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import zlib

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SMALL = f"{ROOT}/tests/golden/conversation_qwen"
PICTURE = f"{ROOT}/models/scenes/samples/table.png"
SCENES = f"{ROOT}/models/scenes"
QUESTIONS = ["What color is the circle?", "How many shapes are there?", "What is left of the square?"]
DRAWING = "draw a red circle left of a blue square and a green circle"
WORDS = "the table is red and near a door that opens when it rains again".split()


def text_of(words: int, seed: int) -> str:
    said = []
    for _ in range(words):
        seed = (seed * 1664525 + 1013904223) % 2**32
        said.append(WORDS[(seed >> 16) % len(WORDS)])
    return " ".join(said)


def pixels_of(path: str) -> bytes:
    """Of a PNG with a byte for each of three colours, in rows."""
    with open(path, "rb") as file:
        png = file.read()
    at, packed = 8, b""
    while at < len(png):
        size, kind = int.from_bytes(png[at:at + 4], "big"), png[at + 4:at + 8]
        if kind == b"IHDR":
            row = 3 * int.from_bytes(png[at + 8:at + 12], "big")
        packed += png[at + 8:at + 8 + size] if kind == b"IDAT" else b""
        at += size + 12
    said, pixels, above = zlib.decompress(packed), bytearray(), bytearray(row)
    for start in range(0, len(said), row + 1):
        kept, line = said[start], bytearray(said[start + 1:start + 1 + row])
        for i in range(row):
            a, b, c = (line[i - 3] if i > 2 else 0), above[i], (above[i - 3] if i > 2 else 0)
            nearest = min((abs(b - c), 0, a), (abs(a - c), 1, b), (abs(a + b - 2 * c), 2, c))[2]
            line[i] = (line[i] + (0, a, b, (a + b) // 2, nearest)[kept]) % 256
        pixels, above = pixels + line, line
    return bytes(pixels)


class Answer:
    """What was said, and drawn. The same where the words are and no value of a pixel is more than one off: on some processors rows have
    other last bits when they are multiplied with more or fewer others, and of a prompt that was found there are fewer."""

    def __init__(self, words: str, drawing: bytes = b""):
        self.words, self.drawing = words, drawing

    def __eq__(self, other) -> bool:
        return (self.words == other.words and len(self.drawing) == len(other.drawing) and
                all(abs(a - b) <= 1 for a, b in zip(self.drawing, other.drawing)))

    def __repr__(self) -> str:
        return repr(self.words) + (f" and a drawing, {hashlib.sha256(self.drawing).hexdigest()[:12]}" if self.drawing else "")


class Program:
    """`sluice run` that is asked call by call."""

    def __init__(self, options, words: list[str]):
        self.sees = options.model in (SMALL, SCENES)
        self.options, self.asked, self.out = options, 0, tempfile.TemporaryDirectory()
        self.program = subprocess.Popen([options.sluice, "run", *words, "--calls", "-", "--concurrency", "1", "--out", self.out.name], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, cwd=ROOT)
        self.ask("hello", 99, 1)

    def ask(self, session: str, seed: int, tokens: int) -> tuple[float, str]:
        """Milliseconds until the answer is there, and the answer."""
        text = text_of(self.options.words, seed) + (f" {QUESTIONS[seed % 3]}" if self.options.model == SCENES else "")
        content = [{"type": "text", "text": text}]
        if self.sees:
            with open(PICTURE, "rb") as file:
                content.insert(0, {"type": "image", "data": base64.b64encode(file.read()).decode()})
        took, outputs = self.call(session, {"content": content, "options": {"max_tokens": tokens}})
        return took, outputs.get("text", "")

    def answer(self, session: str, seed: int) -> Answer:
        """All that must be the same whatever the pool has."""
        said = self.ask(session, seed, 16)[1]
        if self.options.model != SCENES:
            return Answer(said)
        _, outputs = self.call(session, {"content": [{"type": "text", "text": DRAWING}], "options": {"seed": 3}})
        return Answer(said, pixels_of(outputs["image"][0]["file"]))

    def call(self, session: str, request: dict) -> tuple[float, dict]:
        self.asked += 1
        line = json.dumps({"id": str(self.asked), "session": f"{session}{self.asked}", "inputs": {"request": request},
                           "end_session": True}) + "\n"
        began = time.perf_counter()
        self.program.stdin.write(line)
        self.program.stdin.flush()
        said = self.program.stdout.readline()
        if not said:
            sys.exit(f"{session}: sluice ended with status {self.program.wait()} before it answered")
        result = json.loads(said)
        if not result["ok"]:
            sys.exit(f"{session}: {result['error']['message']}")
        return (time.perf_counter() - began) * 1e3, result["outputs"]

    def end(self) -> None:
        self.program.stdin.close()
        self.program.wait(timeout=60)


class Ways:
    names: tuple[str, ...] = ("cold", "off", "warm", "pressed", "restarted", "moved")
    front, spread = "parser", ["llm"]  # roles of a cluster: on the first machine, and on both others

    def __init__(self, options, folder: str):
        self.options, self.folder = options, folder
        self.sets = [f"--set=roles.llm.model={options.model}", f"--set=global_params.kv.model={options.model}"]
        self.flow = f"{ROOT}/workflows/chat.yaml"

    def start(self, share: str = "yes", pages: int = 512, ssd: str = "", more: tuple[str, ...] = ()) -> Program:
        words = [*self.sets, f"--set=roles.llm.options={{precision: exact, share_prefixes: {share}}}",
                 f"--set=global_params.kv.pages={pages}"]
        return Program(self.options, [self.flow, *words, *([f"--set=global_params.kv.ssd={ssd}"] if ssd else []), *more])

    def many(self, program: Program, between: bool = False) -> tuple[list[float], list[Answer]]:
        """Asked before, then again and again."""
        answers = [program.answer("before", 1)]
        times = []
        for run in range(self.options.runs):
            if between:
                program.ask("other", 2 + run, 1)
            times.append(program.ask("again", 1, 1)[0])
        answers.append(program.answer("last", 1))
        program.end()
        return times, answers

    def off(self):
        return self.many(self.start(share="no"))

    def warm(self):
        return self.many(self.start())

    def pressed(self):
        tokens = 3 * self.options.words + (400 if self.options.model == SMALL else 60)
        return self.many(self.start(pages=tokens // 16), between=True)

    def each(self, prepare, look=lambda: None):
        times, answers = [], []
        for run in range(self.options.runs):
            program = prepare(run)
            times.append(program.ask("first", 1, 1)[0])
            answers.append(program.answer("same", 1))
            look()
            program.end()
        return times, answers

    def cold(self):
        program = self.start()
        times = [program.ask("other", 2 + run, 1)[0] for run in range(self.options.runs)]
        answers = [program.answer("first", 1)]
        program.end()
        return times, answers

    def restarted(self):
        ssd = os.path.join(self.folder, "pages")
        before = self.start(ssd=ssd)
        before.answer("before", 1)
        before.end()
        return self.each(lambda _: self.start(ssd=ssd))

    def moved(self):
        path = os.path.join(self.folder, "cluster.yaml")
        with open(path, "w", encoding="utf-8") as out:
            both = ", ".join(self.spread)
            out.write(f"cluster: 1\nworkflows: [ {self.flow} ]\nmachines:\n  front: {{ home: true, roles: [ {self.front} ] }}\n"
                      f"  one: {{ roles: [ {both} ] }}\n  two: {{ roles: [ {both} ] }}\n")

        def prepare(_):
            sets = [*self.sets, "--set=roles.llm.options={precision: exact}", "--set=global_params.kv.pages=512",
                    *(f"--set=roles.{role}.replicas=2" for role in self.spread)]
            program = Program(self.options, ["--cluster", path, *sets])
            program.ask("before", 1, 16)  # sessions go by turns to one and the other
            return program

        def pulled():
            done = subprocess.run([self.options.sluice, "pool", "status", "--cluster", path, "--format", "json"], check=True,
                                  capture_output=True, text=True)
            if sum(pool["from_machines"] for pool in json.loads(done.stdout)["pools"]) < self.options.words:
                sys.exit("moved: nothing was pulled")
        return self.each(prepare, pulled)


class ScenesWays(Ways):
    names = (*Ways.names, "apart")
    front, spread = "parser, vit, vae", ["llm", "diffusion"]

    def __init__(self, options, folder: str):
        super().__init__(options, folder)
        self.sets = ["--set=roles.diffusion.options={precision: exact}", "--set=global_params.kv.page_tokens=8"]  # the drawing's prompt fills one
        self.flow = os.path.join(folder, "apart.yaml")  # which may run in two processes
        with open(f"{ROOT}/workflows/image_chat.yaml", encoding="utf-8") as file, open(self.flow, "w", encoding="utf-8") as out:
            out.write(file.read().replace("model: models/scenes", f"model: {SCENES}").replace(" colocate: llm,", ""))

    def pressed(self):
        return self.many(self.start(pages=(self.options.words + 120) // 8), between=True)

    def apart(self):
        return self.many(self.start(more=("--isolate", "llm,diffusion")))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sluice", type=os.path.abspath)
    parser.add_argument("--model", type=os.path.abspath, default=SMALL)
    parser.add_argument("--words", type=int, default=200)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    all_answers: list[Answer] = []
    cold, is_same = 0.0, True
    print(f"{'way':<12}{'first token, ms':>16}{'beside cold':>13}")
    with tempfile.TemporaryDirectory() as folder:
        ways = (ScenesWays if options.model == SCENES else Ways)(options, folder)
        for name in ways.names:
            times, answers = getattr(ways, name)()
            all_answers += answers
            middle = statistics.median(times)
            cold = cold or middle
            others = [answer for answer in answers if answer != all_answers[0]]
            words = f"  ANOTHER ANSWER: {others[0]!r}, wanted {all_answers[0]!r}" if others else ""
            is_same = is_same and not others
            print(f"{name:<12}{middle:>16.1f}{middle / cold:>13.2f}{words}", flush=True)
    off = len({answer.drawing for answer in all_answers}) > 1
    print(f"the same answer in all of them: {all_answers[0]!r}{', or one off in a pixel' if off else ''}" if is_same else
          "not the same answer")
    return 0 if is_same else 1


if __name__ == "__main__":
    sys.exit(main())
