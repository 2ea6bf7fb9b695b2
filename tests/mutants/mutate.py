"""Author errors, planted one at a time: each must be refused, at the line where it stands.

    python3 mutate.py SLUICE ROOT [--list]

From four base workflows, every place where a kind of mistake can be made. Exit status 1 when one is
accepted, when the program ends other than with status 1, or when fewer errors than GOAL point at
the right line.
"""
from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

GOAL = 1.0
LEAST = 200


def place(text: str, start: int) -> int:
    return text.count("\n", 0, start) + 1


def replaced(text, kind, pattern, new, group=0, only=None):
    """One mutant for each match: (kind, text, line)."""
    for i, m in enumerate(re.finditer(pattern, text, re.M)):
        if only is not None and i not in only:
            continue
        word = new(m) if callable(new) else new
        yield kind, text[:m.start(group)] + word + text[m.end(group):], place(text, m.start(group))


def misspelt(word: str) -> str:
    return word[:-2] + word[-1] + word[-2] if len(word) > 2 and word[-1] != word[-2] else word + "x"


def spelling(text):
    """Names that are used, spelt wrong."""
    yield from replaced(text, "source's node", r"(?<=[:\[,] )(?<!run: )([a-z_]+)\.[a-z_]+(?= [}\],])",
                        lambda m: misspelt(m[1]), 1)
    yield from replaced(text, "source's field", r"(?<=[:\[,] )(?<!run: )[a-z_]+\.([a-z_]+)(?= ?[}\],])",
                        lambda m: misspelt(m[1]), 1)
    yield from replaced(text, "role of run", r"run: ([a-z_]+)\.", lambda m: misspelt(m[1]), 1)
    yield from replaced(text, "plugin", r"plugin: ([a-z_]+)", lambda m: misspelt(m[1]), 1)
    yield from replaced(text, "colocate", r"colocate: ([a-z_]+)", lambda m: misspelt(m[1]), 1)
    yield from replaced(text, "listed global param", r"global_params: \[([a-z_]+)\]",
                        lambda m: misspelt(m[1]), 1)
    yield from replaced(text, "key", r"\b(plugin|run|inputs|balance|replicas|count|deadline|kind|"
                        r"page_tokens|on_error|outputs|limits|calls|roles|nodes)(?=: )",
                        lambda m: misspelt(m[1]), 1)
    yield from replaced(text, "type", r": (image|text|json)(?=[ ,}])(?=.*$)",
                        lambda m: misspelt(m[1]), 1, only=range(1))


def shapes(text):
    """Right words in the wrong shape."""
    yield from replaced(text, "no dot in run", r"run: ([a-z_]+\.[a-z_]+)",
                        lambda m: m[1].replace(".", "_"), 1)
    yield from replaced(text, "capital in a name", r"^  ([a-z]+): \{ run", lambda m: m[1].upper(), 1)
    yield from replaced(text, "inputs as a map", r"inputs: (\[ (\{[^}]*\}) \])",
                        lambda m: m[2], 1)
    for what, given in (("number as a word", "many"), ("number too small", "0")):
        yield from replaced(text, what, r"(?:replicas|page_tokens|loop_iterations|frames|calls): "
                            r"(\d+)", given, 1)
    yield from replaced(text, "duration without a unit", r"deadline: (\d+)(?:ms|s)\b",
                        lambda m: m[1], 0)
    yield from replaced(text, "balance", r"balance: ([a-z_]+)", "sticky", 1)
    yield from replaced(text, "on_error", r"on_error: ([a-z]+)", "ignore", 1)
    yield from replaced(text, "calls", r"^calls: ([a-z]+)", "parallel", 1)
    yield from replaced(text, "version", r"^sluice: (1)", "2", 1)
    yield from replaced(text, "group without a field", r"inputs: \[ (\{[^}]*\})", "{ }", 1)


def yaml_tricks(text):
    """What YAML knows and a workflow may not use."""
    yield from replaced(text, "anchor", r"^  [a-z]+: (\{ run)", "&a { run", 1)
    yield from replaced(text, "tag", r"^  [a-z]+: (\{ run)", "!x { run", 1)
    yield from replaced(text, "tab", r"^(  )[a-z]+: \{ run", "\t", 1)
    yield from replaced(text, "not closed", r"^  [a-z]+: \{ plugin: [a-z_]+( \}|,[^\n]*\})$", "", 1)
    for kind, _, line in replaced(text, "written twice", r"^  [a-z]+: \{ run[^\n]*\n", ""):
        lines = text.split("\n")
        yield kind, "\n".join(lines[:line] + [lines[line - 1]] + lines[line:]), line + 1


def missing(text):
    """Something that is needed is gone."""
    yield from replaced(text, "no run", r"(run: [a-z_.]+, )", "", 1)
    yield from replaced(text, "no plugin", r"plugin: [a-z_]+(, )?", "")
    yield from replaced(text, "no inputs", r", inputs: \[[^\n]*?\](?= \}|, outputs|, count)", "")
    yield from replaced(text, "no kind", r"kind: paged_kv, ", "")


def removed_producers(text):
    """A node or role that others name is removed: the first that names it is wrong."""
    for m in re.finditer(r"^  ([a-z]+): \{ (run|plugin)[^\n]*\n", text, re.M):
        rest = text[:m.start()] + text[m.end():]
        name = m[1]
        use = re.search(rf"[ \[](?:run: )?({name})\." if m[2] == "run" else rf"run: ({name})\.", rest)
        if use:
            yield f"removed {'node' if m[2] == 'run' else 'role'}", rest, place(rest, use.start(1))


def graphs(name, text):
    """Mistakes of the graph itself."""
    if name == "loop.yaml":
        yield ("join that waits for itself",
               text.replace("{ question: inputs.question }, { results: act.results }",
                            "{ question: inputs.question, results: act.results }"), 8)
        yield ("loop without a way out",
               text.replace("outputs: { answer: think.answer, verdict: check.verdict }",
                            "outputs: { verdict: other.verdict }")
               .replace("  check: { run: tool.check, inputs: [ { answer: think.answer } ]",
                        "  other: { run: tool.check, inputs: [ { answer: inputs.question } ]"), 8)
        yield ("count in a loop", text.replace("inputs: [ { request: think.request } ],",
                                               "inputs: [ { request: think.request } ], "
                                               "count: { request: 1 },"), 9)
    if name == "counts.yaml":
        line = 11
        yield "count of no field", text.replace("count: { prompt: 1,", "count: { promt: 1,"), line
        yield "field without count", text.replace("count: { prompt: 1, ", "count: { "), line
        yield "count below zero", text.replace("prompt: 1,", "prompt: -1,"), line
        yield "count's source", text.replace("parse.pictures", "parse.picture_count"), line
        yield ("two groups with a count", text.replace(
            "{ prompt: write.prompt, condition: code.latents } ]",
            "{ prompt: write.prompt, condition: code.latents }, { more: parse.text } ]"), line)
        yield "no outputs", re.sub(r"outputs: \{ picture[^\n]*\n", "", text), 1
    if name == "typed.yaml":
        yield "type", text.replace("{ text: parse.text }", "{ text: parse.image }"), 12
        yield "type", text.replace("{ image: parse.image }", "{ image: parse.text }"), 13
        yield "unknown input field", text.replace("{ hidden: embed", "{ hiden: embed"), 14
        yield "interface", text.replace("llm.generate", "llm.generat"), 14
        yield "state without a session", text.replace(", balance: session", ""), 9
        yield "state on each replica", text.replace(", balance: session", ", balance: broadcast"), 9
        yield "stateless role with a param", text.replace(
            "plugin: parse_request", "plugin: parse_request, global_params: [kv]"), 7
        yield "no model", text.replace("vision_encoder, model: models/scenes", "vision_encoder"), 8
        yield "count by a text", text.replace("{ text: parse.text } ] }",
                                              "{ text: parse.text } ], count: { text: parse.text } }"), 12
        yield "outputs of a plugin", text.replace("inputs: [ { image: parse.image } ] }",
                                                  "inputs: [ { image: parse.image } ], outputs: [x] }"), 13
    if name == "joins.yaml":
        yield "colocated with itself", text.replace("colocate: brain", "colocate: hand"), 9
        yield ("node that cannot be reached", text.replace(
            "outputs: { actions", "  lost: { run: eyes.x, inputs: [ { a: lost.b } ], outputs: [b] }\n"
            "outputs: { actions"), 17)


def mutants(root: str):
    folder = f"{root}/tests/mutants/base"
    for name in sorted(os.listdir(folder)):
        with open(f"{folder}/{name}") as f:
            text = f.read()
        seen = {text}
        for make in (spelling, shapes, yaml_tricks, missing, removed_producers,
                     lambda t, n=name: graphs(n, t)):
            for kind, wrong, line in make(text):
                if wrong not in seen:
                    seen.add(wrong)
                    yield name, kind, wrong, line


def judge(sluice: str, root: str, folder: str, texts: list[str]) -> list[tuple[int, list[dict]]]:
    """Of each text: what `validate` ends with, and its errors. Many files a process, as starting one costs
    more than reading it; where one does not end well, each file alone."""
    judged = []
    for begin in range(0, len(texts), 64):
        paths = []
        for i, text in enumerate(texts[begin:begin + 64]):
            paths.append(f"{folder}/w{i:02d}.yaml")
            with open(paths[-1], "w") as f:
                f.write(text)
        status, errors = validate(sluice, root, paths)
        for path in paths:
            mine = [d for d in errors if d["file"] == path]
            judged.append((int(bool(mine)), mine) if status == int(bool(errors)) else
                          validate(sluice, root, [path]))
    return judged


def validate(sluice: str, root: str, paths: list[str]) -> tuple[int, list[dict]]:
    done = subprocess.run([sluice, "validate", "--format", "json", *paths], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, cwd=root)
    found = json.loads(done.stdout) if done.stdout.startswith("[") else []
    return done.returncode, [d for d in found if d["severity"] == "error"]


def main() -> int:
    a = argparse.ArgumentParser()
    a.add_argument("sluice")
    a.add_argument("root")
    a.add_argument("--list", action="store_true")
    a = a.parse_args()
    count, right, kinds, bad = 0, 0, set(), []
    with tempfile.TemporaryDirectory() as folder:
        bases = sorted(os.listdir(f"{a.root}/tests/mutants/base"))
        texts = [open(f"{a.root}/tests/mutants/base/{base}").read() for base in bases]
        bad += [f"{base} itself is refused"
                for base, (status, _) in zip(bases, judge(a.sluice, a.root, folder, texts)) if status != 0]
        planted = list(mutants(a.root))
        verdicts = judge(a.sluice, a.root, folder, [wrong for _, _, wrong, _ in planted])
        for (base, kind, _, line), (status, errors) in zip(planted, verdicts):
            count, kinds = count + 1, kinds | {kind}
            lines = [d["line"] for d in errors]
            if status != 1 or not errors:
                bad.append(f"{base}, {kind} in line {line}: status {status}, {len(errors)} errors")
            elif line in lines:
                right += 1
            else:
                print(f"{base}, {kind}: in line {line}, said {lines}: {errors[0]['message']}")
            if a.list:
                print(base, kind, line, lines[:1], errors[0]["message"] if errors else "")
    for problem in bad:
        print(problem)
    print(f"{count} mutants of {len(kinds)} kinds, {len(bad)} accepted or crashed, {right} "
          f"({100 * right / max(1, count):.1f} %) with an error at the right line")
    return 0 if not bad and count >= LEAST and right >= GOAL * count else 1


if __name__ == "__main__":
    sys.exit(main())
