"""Random workflows with a scenario each: joins, nested diamonds, streams, loops, counts, failures.

Nodes are made one after the other and declared in any order; so are roles, inputs, fields, sources
and outputs. Some workflows have many outputs, session nodes or fields, deadlines, ages, or
`on_error: cancel`.

    python3 generate.py SEED COUNT FOLDER

Some are refused by validation (joins that wait for each other, say): a comparison skips those.
"""
from __future__ import annotations

import os
import random
import sys


def text_of(value) -> str:
    """YAML in flow style."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k}: {text_of(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[ " + ", ".join(map(text_of, value)) + " ]"
    return str(value).lower() if isinstance(value, bool) else str(value)


class Maker:
    """One workflow."""

    def __init__(self, rng: random.Random):
        self.rng = rng
        self.inputs = ["x", "y"][: rng.choice((1, 1, 2))]
        self.types = {name: "json" for name in self.inputs}
        self.nodes, self.scripts = {}, {}
        self.fields = {"inputs": list(self.inputs)}
        # What this one has much of, and whether time and cancellation have a part in it.
        self.flavour = rng.choice(("plain",) * 6 + ("sessions", "outputs", "wide", "timed", "timed",
                                                    "cancel"))
        self.order = []
        self.aged = set()
        self.roles = {"plain": {"plugin": "scripted"},
                      "many": {"plugin": "scripted", "replicas": 3},
                      "talk": {"plugin": "scripted", "balance": "session"}}

    def source(self, recent=True):
        """A field of an earlier node, near ones more often."""
        pool = self.order[-5:] if recent and self.order and self.rng.random() < 0.75 else self.order
        node = self.rng.choice(pool) if pool and self.rng.random() < 0.92 else "inputs"
        return node, self.rng.choice(self.fields[node])

    def direct(self):
        node, name = self.source()
        group = {"a": f"{node}.{name}"}
        if self.rng.random() < 0.15:
            group["b"] = f"{node}.{self.rng.choice(self.fields[node])}"
        return group

    def join(self):
        group, used = {}, set()
        for key in "abc"[: self.rng.choice((2, 2, 2, 3))]:
            sources = {f"{n}.{f}" for n, f in
                       (self.source() for _ in range(2 if self.rng.random() < 0.15 else 1))}
            group[key] = sorted(sources) if len(sources) > 1 else sources.pop()
            used |= sources
        return group

    def add_node(self):
        name = f"n{len(self.order) + 1}"
        groups = [self.join() if self.order and self.rng.random() < 0.45 else self.direct()
                  for _ in range(self.rng.choice((1, 1, 1, 2)))]
        role = self.rng.choice(("plain", "plain", "many", "talk"))
        if self.flavour == "sessions" and self.rng.random() < 0.8:
            role = "talk"
        self.nodes[name] = {"run": f"{role}.go", "inputs": groups}
        self.fields[name] = [f"f{i}" for i in range(self.width())]
        self.nodes[name]["outputs"] = list(self.fields[name])
        if self.rng.random() < 0.08:
            self.nodes[name]["on_error"] = "skip"
        self.order.append(name)
        self.script(name)

    def width(self):
        """How many fields a node has: the limit is 64."""
        if self.flavour == "wide" and self.rng.random() < 0.3:
            return self.rng.choice((20, 40, 61, 64, 64, 65) if self.rng.random() < 0.2 else (20, 64))
        return self.rng.choice((1, 1, 2, 2, 3))

    def add_count(self):
        name = f"n{len(self.order) + 1}"
        node, first = self.source(recent=False)
        if node == "inputs":
            return self.add_node()
        group, count = {"a": f"{node}.{first}"}, {}
        if self.rng.random() < 0.5 and len(self.order) > 2:
            other, second = self.source(recent=False)
            group["b"] = f"{other}.{second}"
        for key in group:
            kind = self.rng.random()
            count[key] = self.rng.choice((0, 1, 1, 2, 3)) if kind < 0.5 else "all"
            if kind > 0.75:
                number = self.number_source() if self.rng.random() < 0.6 else self.number_input()
                if number:
                    count[key] = number
        self.nodes[name] = {"run": self.rng.choice(("plain.go", "talk.go")), "inputs": [group],
                            "count": count}
        self.fields[name] = ["f0", "f1"][: self.rng.choice((1, 2))]
        self.nodes[name]["outputs"] = list(self.fields[name])
        self.order.append(name)
        self.script(name)

    def number_input(self):
        """A number that the call brings."""
        self.types["k"] = "number"
        return "inputs.k"

    def number_source(self):
        """A field of the first node, which runs once: it yields the number in one frame."""
        first = self.order[0]
        script = self.scripts.get(first, {})
        if self.nodes[first]["inputs"] != [{"a": f"inputs.{self.inputs[0]}"}] or "fail" in script:
            return None
        if "number" not in self.fields[first]:
            self.fields[first].append("number")
            self.nodes[first]["outputs"].append("number")
            yields = script.get("yields", [list(self.fields[first][:-1])])
            if not yields:
                yields = [[]]
            if self.rng.random() < 0.7:  # otherwise `values` alone supply it
                yields[self.rng.randrange(len(yields))].append("number")
            script["yields"] = yields
            few = -1 if self.rng.random() < 0.05 else 1
            script.setdefault("values", {})["number"] = self.rng.choice((0, few, 2, 2, 3))
            self.scripts[first] = script
        return f"{first}.number"

    def frames(self, names, most=3):
        out = []
        for _ in range(self.rng.choice((1, 1, 1, 2, 2, most, 0 if self.rng.random() < 0.3 else 1))):
            out.append([n for n in names if self.rng.random() < 0.75])
        return out

    def script(self, name):
        roll, script = self.rng.random(), {}
        if roll < 0.55:
            script["yields"] = self.frames(self.fields[name])
        if self.rng.random() < 0.05:
            script["fail"] = True
        if self.rng.random() < 0.5:
            script["latency"] = self.rng.choice(("0ms", "[0ms, 1ms]", "[0ms, 30ms]", "9ms"))
        if self.flavour == "timed":
            self.add_times(name, script)
        if script:
            self.scripts[name] = script

    def add_times(self, name, script):
        """Deadlines and ages that are far below or far above what happens."""
        node = self.nodes[name]
        if self.rng.random() < 0.3:
            node["deadline"] = self.rng.choice(("3ms", "9m"))
            script["latency"] = "200ms"
        sources = {s.split(".")[0] for group in node["inputs"] for value in group.values()
                   for s in (value if isinstance(value, list) else [value])}
        slow = all(self.scripts.get(n, {}).get("latency") == "200ms" for n in sources)
        if "count" not in node and self.rng.random() < 0.3:
            node["max_age"] = self.rng.choice(("1ms", "20m")) if slow else "20m"
            if node["max_age"] == "1ms":
                self.aged.add(name)

    def add_loop(self):
        """A back edge: a group of its own at an earlier node, fed by a later one for some turns."""
        if len(self.order) < 2:
            return
        i = self.rng.randrange(len(self.order) - 1)
        head = self.order[i]
        tail = self.rng.choice(self.order[i:])
        if "count" in self.nodes[head] or "count" in self.nodes[tail]:
            return
        if head in self.aged:  # what comes round must be late too, and it need not be
            return
        if "number" in self.fields[tail]:
            return
        back = f"back{i}"
        self.fields[tail].append(back)
        self.nodes[tail]["outputs"].append(back)
        self.nodes[head]["inputs"].append({"r": f"{tail}.{back}"})
        plain = self.fields[tail][:-1]
        turns = []
        for _ in range(self.rng.choice((1, 1, 2, 3, 3, 40))):
            frames = self.frames(plain, 2)
            frames.insert(self.rng.randrange(len(frames) + 1), [back] + plain[:1])
            turns.append(frames)
        if self.rng.random() < 0.85:
            turns.append(self.frames(plain))
        script = self.scripts.setdefault(tail, {})
        script.pop("yields", None)
        script["by_iteration"] = turns
        if self.rng.random() < 0.1:
            script["fail_when_iteration"] = self.rng.randrange(3)

    def make(self):
        for i in range(self.rng.randrange(3, 42 if self.flavour == "sessions" else 26)):
            if i > 1 and self.rng.random() < 0.07:
                self.add_count()
            else:
                self.add_node()
        for _ in range(self.rng.choice((0, 0, 1, 1, 2, 3))):
            self.add_loop()
        outputs = {}
        many = self.flavour == "outputs"
        for i in range(self.rng.randrange(20, 70) if many else self.rng.choice((1, 2, 3))):
            node = self.rng.choice(self.order if many else self.order[-6:])
            outputs[f"o{i}"] = f"{node}.{self.rng.choice(self.fields[node])}"
        last = self.order[-1]
        outputs["last"] = [f"{last}.{f}" for f in self.fields[last]]
        return outputs


def shuffled(rng, items: dict) -> dict:
    pairs = list(items.items())
    rng.shuffle(pairs)
    return dict(pairs)


def shuffled_node(rng, node: dict) -> dict:
    """Its fields and their sources in another order. (The order of groups has a meaning.)"""
    groups = []
    for group in node["inputs"]:
        for sources in group.values():
            if isinstance(sources, list):
                rng.shuffle(sources)
        groups.append(shuffled(rng, group))
    node = {**node, "inputs": groups}
    if "outputs" in node:
        node["outputs"] = rng.sample(node["outputs"], len(node["outputs"]))
    return node


def workflow_text(maker, outputs, deadline: str) -> str:
    rng = maker.rng
    used = {node["run"].split(".")[0] for node in maker.nodes.values()}
    roles = {name: role for name, role in maker.roles.items() if name in used}
    nodes = {name: shuffled_node(rng, node) for name, node in maker.nodes.items()}
    lines = ["sluice: 1", "workflow: generated",
             "inputs: " + text_of(shuffled(rng, maker.types)), "roles:"]
    lines += [f"  {name}: {text_of(role)}" for name, role in shuffled(rng, roles).items()]
    lines += ["nodes:"] + [f"  {name}: {text_of(n)}" for name, n in shuffled(rng, nodes).items()]
    limit = rng.choice((3, 4, 6, 64))
    lines += ["outputs: " + text_of(shuffled(rng, outputs)),
              f"limits: {{ loop_iterations: {limit}, deadline: {deadline} }}"]
    if rng.random() < 0.3:
        lines.append("calls: overlap")
    if maker.flavour == "cancel":
        lines.append("on_error: cancel")
    return "\n".join(lines) + "\n"


def scenario_text(maker, index: int) -> str:
    calls = []
    for i in range(maker.rng.choice((1, 1, 2, 3))):
        given = {x: "v" for x in maker.inputs if maker.rng.random() < 0.93}
        if "k" in maker.types and maker.rng.random() < 0.9:
            given["k"] = maker.rng.choice((0, 1, 1, 2, 3, -1 if maker.rng.random() < 0.2 else 2))
        calls.append({"session": maker.rng.choice("ab"), "inputs": given})
    lines = [f"scenario: generated {index}", f"workflow: w{index:05d}.yaml",
             "calls: " + text_of(calls), "nodes:" if maker.scripts else "nodes: {}"]
    lines += [f"  {name}: {text_of(script)}" for name, script in maker.scripts.items()]
    return "\n".join(lines) + "\n"


def generate(seed: int, count: int, folder: str, deadline: str = "30s"):
    """`deadline`: of a call. An evaluator that knows no time needs one that no call meets."""
    os.makedirs(folder, exist_ok=True)
    for i in range(count):
        maker = Maker(random.Random(f"{seed}:{i}"))
        outputs = maker.make()
        with open(f"{folder}/w{i:05d}.yaml", "w") as f:
            f.write(workflow_text(maker, outputs, deadline))
        with open(f"{folder}/s{i:05d}.yaml", "w") as f:
            f.write(scenario_text(maker, i))


if __name__ == "__main__":
    generate(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
