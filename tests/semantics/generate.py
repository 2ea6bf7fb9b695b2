"""Random workflows with a scenario each: joins, nested diamonds, streams, loops, counts, failures.

A field has one source or several, of one node or of many; so has an output. Nodes are made one after the other and declared in any order; so are roles, inputs, fields, sources
and outputs. Some workflows have many outputs, session nodes or fields, deadlines, ages, or
`on_error: cancel`. Every second has nodes that run on each replica.

    python3 generate.py SEED COUNT FOLDER

Some are refused by validation (joins that wait for each other, say): a comparison skips those.
"""
from __future__ import annotations

import os
import random
import sys


DEEP = 0.05  # of the drawings have a long loop besides
DOUBLING = 0.08  # have one whose turns multiply their frames
EACH = 0.5   # have nodes that run on each replica


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
        self.turns_most = (3, 4, 6, 64)
        self.streams = False  # an activation of many frames has been drawn
        self.roles = {"plain": {"plugin": "scripted"},
                      "many": {"plugin": "scripted", "replicas": 3},
                      "talk": {"plugin": "scripted", "balance": "session"}}

    def source(self, recent=True):
        """A field of an earlier node, near ones more often."""
        pool = self.order[-5:] if recent and self.order and self.rng.random() < 0.75 else self.order
        node = self.rng.choice(pool) if pool and self.rng.random() < 0.92 else "inputs"
        return node, self.rng.choice(self.fields[node])

    def sources(self, how_many, recent=True):
        """What a field collects: one source, or a list of several."""
        return listed({".".join(self.source(recent)) for _ in range(how_many)})

    def sources_of_one(self, recent=True):
        """Fields of one node, one or several."""
        node, _ = self.source(recent)
        return listed({f"{node}.{self.rng.choice(self.fields[node])}" for _ in range(3)})

    def direct(self):
        if self.rng.random() < 0.1:
            return {"a": self.sources_of_one()}
        node, name = self.source()
        group = {"a": f"{node}.{name}"}
        if self.rng.random() < 0.15:
            group["b"] = f"{node}.{self.rng.choice(self.fields[node])}"
        return group

    def join(self):
        if self.rng.random() < 0.15:
            return {"a": self.sources(self.rng.choice((2, 3)))}
        return {key: self.sources(self.rng.choice((1, 1, 1, 1, 1, 2, 3)))
                for key in "abc"[: self.rng.choice((2, 2, 2, 3))]}

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
        group, count = self.counted(), {}
        for key in group:
            kind = self.rng.random()
            count[key] = self.rng.choice((0, 1, 1, 2, 3, 7)) if kind < 0.5 else "all"
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

    def counted(self):
        """One to four fields, each from one source or from several."""
        if self.rng.random() < 0.15:
            return {"a": self.sources_of_one(recent=False)}
        return {key: self.sources(self.rng.choice((1, 1, 1, 2, 3)), recent=False)
                for key in "abcd"[: self.rng.choice((1, 1, 2, 2, 3, 4))]}

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
        if not self.streams and self.rng.random() < 0.04:
            self.streams = True  # one for a workflow: two after each other are too much
            return [[n for n in names if self.rng.random() < 0.6]
                    for _ in range(self.rng.randrange(5, 14))]
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
        slow = all(self.scripts.get(n, {}).get("latency") == "200ms" for n in self.feeders(name))
        if "count" not in node and self.rng.random() < 0.3:
            node["max_age"] = self.rng.choice(("1ms", "20m")) if slow else "20m"
            if node["max_age"] == "1ms":
                self.aged.add(name)

    def add_loop(self):
        """An edge back to an earlier node, for some turns: a group of its own or part of one."""
        if len(self.order) < 2:
            return
        i = self.rng.randrange(len(self.order) - 1)
        head, kind = self.order[i], self.rng.random()
        if "count" in self.nodes[head] or head in self.aged:  # what comes round need not be late
            return
        if kind < 0.35:
            return self.add_joined_loop(head)
        tail = self.rng.choice(self.order[i:])
        if "count" in self.nodes[tail] or "number" in self.fields[tail]:
            return
        back = self.add_back(tail)
        groups = self.nodes[head]["inputs"]
        if kind < 0.42:  # one more source of a field: mostly refused, for the join waits for itself
            group = self.rng.choice(groups)
            key = self.rng.choice(sorted(group))
            group[key] = listed({back, *unlisted(group[key])})
        elif kind < 0.5:
            other = self.rng.choice(self.order[i:])
            groups.append({"r": back, "s": f"{other}.{self.rng.choice(self.fields[other])}"})
        else:
            groups.append({"r": back})

    def add_joined_loop(self, head):
        """Back to `head` through a join of what two nodes make of one further on, its root."""
        below = [n for n in self.below(head) if n != head]
        if not below:
            return
        root = self.rng.choice(below)
        arms = [f"n{len(self.order) + 1}", f"n{len(self.order) + 2}"]
        for arm in arms:
            self.nodes[arm] = {"run": self.rng.choice(("plain.go", "many.go", "talk.go")),
                               "inputs": [{"a": f"{root}.{self.rng.choice(self.fields[root])}"}],
                               "outputs": ["f0"]}
            self.fields[arm] = ["f0"]
            self.order.append(arm)
            self.script(arm)
        back = self.add_back(arms[0])
        other = f"{self.rng.choice((arms[1], arms[1], root))}.f0"
        self.nodes[head]["inputs"].append({"r": back, "s": other} if self.rng.random() < 0.6
                                          else {"r": [back, other]})

    def broadcast(self, apart):
        """Lets up to four nodes run on each replica of their role, with scripts by replica. What
        such a node in a loop makes is more with each turn, so then there are few turns."""
        self.roles["each"] = {"plugin": "scripted", "balance": "broadcast",
                              "replicas": apart.choice((2, 2, 3, 4))}
        self.roles["both"] = {"plugin": "scripted", "balance": "broadcast", "replicas": 2}
        if apart.random() < 0.03:
            self.roles["both"]["replicas"] = 1
        for name in apart.sample(self.order, min(len(self.order), apart.choice((1, 2, 3, 4)))):
            if "number" in self.fields[name] and apart.random() < 0.8:
                continue  # refused: a count's number would come of each
            looping = name in self.below(name)
            if looping:
                self.turns_most = (3, 2)
            role = "both" if looping else apart.choice(("each", "each", "both"))
            self.nodes[name]["run"] = f"{role}.go"
            self.script_replicas(apart, name, self.roles[role]["replicas"])

    def script_replicas(self, apart, name, replicas):
        script = self.scripts.setdefault(name, {})
        if "by_iteration" not in script and apart.random() < 0.5:
            script.pop("yields", None)
            script["by_replica"] = [[[f for f in self.fields[name] if apart.random() < 0.75]
                                     for _ in range(apart.choice((0, 1, 1, 2, 3)))]
                                    for _ in range(apart.randrange(1, replicas + 1))]
        if apart.random() < 0.1:
            script["fail_on_replica"] = apart.randrange(replicas)
        if not script:
            del self.scripts[name]

    def below(self, head):
        """What can be reached from a node, by name."""
        found, grew = set(), True
        while grew:
            new = {n for n in self.order if n not in found
                   and self.feeders(n) & (found | {head})}
            found |= new
            grew = bool(new)
        return sorted(found)

    def let_drop(self, apart, queue):
        """Nodes that drop what waits too long a queue: not those that count, or stand in a loop."""
        for name in self.order:
            if "count" not in self.nodes[name] and name not in self.below(name) \
                    and apart.random() < 0.6:
                self.nodes[name] |= {"on_full": "drop_oldest", "queue": queue}

    def leave_one_turn(self):
        """A node in no loop has one turn; a script that speaks of others is refused."""
        for name, script in self.scripts.items():
            if "by_iteration" not in script or name in self.below(name):
                continue
            del script["by_iteration"][1:]
            if script.get("fail_when_iteration", 0) > 0:
                del script["fail_when_iteration"]

    def feeders(self, name):
        return {source.split(".")[0] for group in self.nodes[name]["inputs"]
                for value in group.values() for source in unlisted(value)}

    def add_back(self, tail):
        """A field of `tail` that comes in some of its turns."""
        back = f"back{len(self.fields[tail])}"
        self.fields[tail].append(back)
        self.nodes[tail]["outputs"].append(back)
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
        return f"{tail}.{back}"

    def add_own_loop(self, rng: random.Random, draw_turns, most):
        """A loop of two nodes, and a count or a join of all that its turns bring: the names of the
        second and of the last. Drawn from numbers of its own: the rest of the drawing stays as it is."""
        first = len(self.order) + 1
        head, tail, all_of = (f"n{first + i}" for i in range(3))
        kind = lambda: rng.choice(("plain.go", "many.go", "talk.go"))
        begin = f"inputs.{rng.choice(self.inputs)}"
        turns = draw_turns()
        self.nodes[head] = {"run": kind(), "inputs": [{"a": begin}, {"r": f"{tail}.back"}],
                            "outputs": ["f0"]}
        self.nodes[tail] = {"run": kind(), "inputs": [{"a": f"{head}.f0"}],
                            "outputs": ["f0", "back"]}
        self.nodes[all_of] = {"run": rng.choice(("plain.go", "talk.go")), "outputs": ["f0"]}
        if rng.random() < 0.5:
            self.nodes[all_of] |= {"inputs": [{"a": f"{tail}.f0"}],
                                   "count": {"a": rng.choice((1, 3, "all"))}}
        else:
            self.nodes[all_of]["inputs"] = [{"a": f"{tail}.f0", "b": begin}]
        self.scripts[tail] = {"by_iteration": turns}
        self.order += [head, tail, all_of]
        self.turns_most = most
        return tail, all_of

    def add_deep(self, rng: random.Random):
        """A loop of so many turns that a collector's share becomes too small to divide. Delivered, so
        that the collector has something to keep for its node."""
        def turns():
            for _ in range(rng.randrange(16, 30)):
                frames = [["f0"]] * rng.randrange(3)
                frames.insert(rng.randrange(len(frames) + 1), rng.choice((["back"], ["back", "f0"])))
                yield frames
            yield [["f0"]]
        return {"deep": f"{self.add_own_loop(rng, lambda: list(turns()), (64,))[1]}.f0"}

    def add_doubling(self, rng: random.Random):
        """A loop of few turns that each bring several frames for the next: they multiply."""
        def turns():
            for _ in range(rng.randrange(1, 5)):
                frames = [rng.choice((["back"], ["back", "f0"])) for _ in range(rng.choice((2, 2, 2, 3)))]
                for _ in range(rng.randrange(2)):
                    frames.insert(rng.randrange(len(frames) + 1), ["f0"])
                yield frames
            yield [["f0"]] * rng.randrange(2)
        tail, all_of = self.add_own_loop(rng, lambda: list(turns()), self.turns_most)
        return {"doubled": f"{all_of}.f0", "turns": f"{tail}.f0"}

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
            outputs[f"o{i}"] = self.delivered(self.order if many else self.order[-6:])
        last = self.order[-1]
        outputs["last"] = [f"{last}.{f}" for f in self.fields[last]]
        return outputs


    def delivered(self, nodes):
        """What an output collects: a field of one node, or of up to four and of the call."""
        several = self.rng.choice((2, 3, 4)) if self.rng.random() < 0.25 else 1
        chosen = [self.rng.choice(nodes) for _ in range(several)]
        if several > 1 and self.rng.random() < 0.2:
            chosen.append("inputs")
        return listed({f"{node}.{self.rng.choice(self.fields[node])}" for node in chosen})


def listed(sources: set):
    return sorted(sources) if len(sources) > 1 else min(sources)


def unlisted(sources) -> list:
    return sources if isinstance(sources, list) else [sources]


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
    limit = rng.choice(maker.turns_most)
    outputs = {name: rng.sample(o, len(o)) if isinstance(o, list) else o
               for name, o in outputs.items()}
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


def generate(seed: int, count: int, folder: str, deadline: str = "30s", queue: int = 1000):
    """`deadline`: of a call. An evaluator that knows no time needs one that no call meets, and
    nodes with `on_full: drop_oldest` whose queue is never full: `queue`, of every second workflow."""
    os.makedirs(folder, exist_ok=True)
    for i in range(count):
        maker = Maker(random.Random(f"{seed}:{i}"))
        outputs = maker.make()
        apart = random.Random(f"{seed}:{i}:each")
        if apart.random() < EACH:
            maker.broadcast(apart)
        apart = random.Random(f"{seed}:{i}:deep")
        if apart.random() < DEEP:
            outputs |= maker.add_deep(apart)
        apart = random.Random(f"{seed}:{i}:doubled")
        if apart.random() < DOUBLING:
            outputs |= maker.add_doubling(apart)
        apart = random.Random(f"{seed}:{i}:full")
        if apart.random() < 0.5:
            maker.let_drop(apart, queue)
        maker.leave_one_turn()
        with open(f"{folder}/w{i:05d}.yaml", "w") as f:
            f.write(workflow_text(maker, outputs, deadline))
        with open(f"{folder}/s{i:05d}.yaml", "w") as f:
            f.write(scenario_text(maker, i))


if __name__ == "__main__":
    generate(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
