"""What a workflow means, worked out without messages or time: the second opinion on the engine.

    python3 evaluate.py SCENARIO.yaml...      one JSON object per scenario, as `sluice test --json`

Works on scenarios of scripted roles. Activations are made from frames until none can be; then the
scopes of joins and counts close, those first that others wait for.
"""
from __future__ import annotations

import functools
import hashlib
import json
import os
import sys
from collections import defaultdict
from dataclasses import dataclass, field

import yaml

FIRINGS_MAX = 4000
FRAMES_MAX = 100_000  # `limits: frames` where a file says nothing: where more are delivered, order decides which
KINDS = ["role_failed", "loop_limit", "count_source", "deadline"]  # of one node's the first is told
FIELDS_MAX = 64                     # of a node, and of a call
AGE_DECIDES = 10                    # milliseconds: generated ages are far below or far above it


LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the one in C takes a tenth of the time


class TooLarge(Exception):
    """More firings than a comparison needs, or more frames than a call may deliver."""


def milliseconds(text: str) -> float:
    for unit, factor in (("ms", 1), ("s", 1000), ("m", 60000)):
        if text.endswith(unit):
            return float(text[:-len(unit)]) * factor
    raise AssertionError(text)


def token(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass
class Activation:
    node: str
    group: int
    parent: "Frame | None"          # the frame it continues: its trigger's, or its root's
    turns: dict                     # node -> activations on the longest chain of ancestors
    identity: str = ""
    chain: tuple = ()               # place in the logical order: (yield, group) for each step
    ways: tuple = ()                # which of the ways of each yield it took: decides between equals
    inputs: dict = field(default_factory=dict)
    replica: "int | None" = None    # of a node that runs on each


@dataclass
class Frame:
    by: Activation
    index: int                      # which yield
    fields: frozenset
    token: str

    def turns(self):
        turns = dict(self.by.turns)
        turns[self.by.node] = turns.get(self.by.node, 0) + 1
        return turns

    def latest_pass(self, root: str):
        frame = self
        while frame.by.node != root:
            frame = frame.by.parent
        return frame


class Workflow:
    """The file, and what follows from it: groups, dominators, which join comes before which."""

    def __init__(self, path: str):
        with open(path) as f:
            data = yaml.load(f, LOADER)
        self.inputs = list(data.get("inputs") or {})
        self.nodes = data["nodes"]
        self.order = list(self.nodes)
        self.outputs = {k: v if isinstance(v, list) else [v] for k, v in data["outputs"].items()}
        self.loop_limit = (data.get("limits") or {}).get("loop_iterations", 64)
        self.groups = {n: [self._group(g) for g in spec["inputs"]] for n, spec in self.nodes.items()}
        self.read = self._read()
        self.fields = self._fields()
        self.successors = defaultdict(set)
        for n in self.order:
            for source in self._sources(n):
                self.successors[source].add(n)
        self.dominators = self._dominators()
        self.joins = {}             # (node, group) -> root
        for n in self.order:
            for g, group in enumerate(self.groups[n]):
                if self.is_count(n):
                    self.joins[n, g] = "inputs"
                elif len(self.slots(group)) > 1:
                    self.joins[n, g] = self._root(self.slots(group))
        self.before = {j: self._before(j) for j in self.joins}
        self.depth = self._depths()
        self.cancels = data.get("on_error") == "cancel"
        self.roles = data["roles"]

    @staticmethod
    def _group(group):
        return {f: [tuple(s.split(".")) for s in (v if isinstance(v, list) else [v])]
                for f, v in group.items()}

    def replicas(self, node):
        """On which of them a set of inputs runs: on each (`balance: broadcast`), or on any."""
        role = self.roles[self.nodes[node]["run"].split(".")[0]]
        each = role.get("replicas", 1) if role.get("balance") == "broadcast" else 1
        return range(each) if each > 1 else [None]

    def is_count(self, node):
        return "count" in self.nodes[node]

    @staticmethod
    def slots(group):
        return sorted({n for sources in group.values() for n, _ in sources})

    def count_source(self, node, name):
        count = self.nodes[node]["count"].get(name)
        return tuple(count.split(".")) if isinstance(count, str) and "." in count else None

    def _sources(self, node):
        found = {n for group in self.groups[node] for n in self.slots(group)}
        for name in self.nodes[node].get("count", {}):
            if source := self.count_source(node, name):
                found.add(source[0])
        return found

    def takes(self, node, producer):
        """The outputs of `producer` that `node` reads."""
        taken = {name for group in self.groups[node] for sources in group.values()
                 for n, name in sources if n == producer}
        numbers = [self.count_source(node, f) for f in self.nodes[node].get("count", {})]
        return taken | {s[1] for s in numbers if s and s[0] == producer}

    def _read(self):
        """Of each node the outputs that somebody takes."""
        fields = defaultdict(set)
        for n in self.order:
            for group in self.groups[n]:
                for sources in group.values():
                    for node, name in sources:
                        fields[node].add(name)
            for name in self.nodes[n].get("count", {}):
                if source := self.count_source(n, name):
                    fields[source[0]].add(source[1])
        for sources in self.outputs.values():
            for source in sources:
                node, name = source.split(".")
                fields[node].add(name)
        return fields

    def _fields(self):
        fields = defaultdict(set, self.read)
        for n, spec in self.nodes.items():
            if "outputs" in spec:
                fields[n] = set(spec["outputs"])
        return fields

    def _dominators(self):
        """Sets of dominators; a node that counts hangs under the entry alone."""
        before = defaultdict(set)
        for n in self.order:
            before[n] = {"inputs"} if self.is_count(n) else self._sources(n)
        reached, grew = {"inputs"}, True
        while grew:
            new = {n for n in self.order if n not in reached and before[n] & reached}
            reached |= new
            grew = bool(new)
        everything = set(reached)
        result = {n: set(everything) for n in reached}
        result["inputs"] = {"inputs"}
        changed = True
        while changed:
            changed = False
            for n in self.order:
                if n not in reached:
                    continue
                now = set.intersection(*(result[p] for p in before[n] if p in reached)) | {n}
                if now != result[n]:
                    result[n], changed = now, True
        return result

    def _root(self, slots):
        common = set.intersection(*(self.dominators[s] for s in slots if s in self.dominators))
        return max(common, key=lambda n: len(self.dominators[n]))

    def way(self, join):
        """Of one yield, what it sets off at once stands before its joins; of joins, those that
        others wait for stand first. By group and name where that leaves a choice."""
        return (join in self.joins, self.depth.get(join, 0), join[1], join[0])

    def _depths(self):
        """How many joins in a row each has to wait for. Nothing in a circle has a depth."""
        depth = {}
        for _ in self.joins:
            for j in self.joins:
                if j not in depth and all(b in depth for b in self.before[j]):
                    depth[j] = 1 + max((depth[b] for b in self.before[j]), default=-1)
        return depth

    def _before(self, join):
        """The joins and counts whose firing may still add a frame to a scope of `join`."""
        node, g = join
        root, slots = self.joins[join], set(self.slots(self.groups[node][g]))
        for name in self.nodes[node].get("count", {}):
            if source := self.count_source(node, name):
                slots.add(source[0])
        upstream, open_ = set(), [s for s in slots]
        while open_:
            n = open_.pop()
            if n in upstream or n == root:
                continue
            upstream.add(n)
            if n != "inputs":
                open_ += self._sources(n)
        return {j for j in self.joins if j[0] in upstream}

    def waits_for_ever(self):
        """True when a join could wait for what only its own firing brings: alone or in a circle."""
        reachable = [j for j in self.joins if j[0] in self.dominators]
        return any(j not in self.depth or self.joins[j] == j[0] for j in reachable)


class Call:
    """One call of a workflow under a scenario's scripts."""

    def __init__(self, workflow, scripts, index, given):
        self.w, self.scripts, self.index, self.given = workflow, scripts, index, given
        self.firings, self.failures, self.warnings = [], [], []
        self.lost = defaultdict(list)        # join -> of each bucket that got some, what it lacked
        self.few = {}                        # count -> fields of which none came, where others did
        self.left_out = {}                   # node -> outputs that it never yielded, where it ran
        self.stopped = set()                 # nodes that dropped inputs, or were skipped
        self.delivered = {name: 0 for name in workflow.outputs}
        self.work = []
        self.scopes = defaultdict(dict)      # join -> pass of the root -> frames
        self.collected = defaultdict(list)   # count node -> frames
        self.open_counts = {j for j in workflow.joins if workflow.is_count(j[0])}
        entry = Activation("inputs", 0, None, {})
        self.tokens = {x: token(f"input:{x}:{index}") for x in given}
        self.entry = Frame(entry, 0, frozenset(given), "")

    def run(self):
        self.work.append(self.entry)
        while True:
            while self.work:
                self.spread(self.work.pop())
            if not self.close_one():
                break
        return self.result()

    def value(self, frame, name):
        return self.tokens[name] if frame.by.node == "inputs" else frame.token

    def spread(self, frame):
        here = frame.by.node
        for name, sources in self.w.outputs.items():
            for source in sources:
                node, wanted = source.split(".")
                self.delivered[name] += node == here and wanted in frame.fields
        for n in self.w.order:
            for g, group in enumerate(self.w.groups[n]):
                self.arrive(frame, n, g, group)

    def values_of(self, frame, group):
        return {f: [self.value(frame, name) for node, name in sources
                    if node == frame.by.node and name in frame.fields]
                for f, sources in group.items()}

    def arrive(self, frame, n, g, group):
        values = self.values_of(frame, group)
        if self.w.is_count(n):
            numbers = [self.w.count_source(n, f) for f in self.w.nodes[n]["count"]]
            brings = any(s and s[0] == frame.by.node and s[1] in frame.fields for s in numbers)
            if brings or any(values.values()):
                self.collected[n].append(frame)
        elif (n, g) in self.w.joins:
            if any(values.values()):
                at = frame.latest_pass(self.w.joins[n, g])
                self.scopes[n, g].setdefault(id(at), (at, []))[1].append(frame)
        elif all(values.values()) and values:
            self.start(n, g, values, frame, [frame])

    def start(self, n, g, values, parent, frames):
        turns = {}
        for f in frames:
            for node, count in f.turns().items():
                turns[node] = max(turns.get(node, 0), count)
        turn = turns.get(n, 0)
        if n in self.looping() and turn >= self.w.loop_limit:
            self.failures.append((n, "loop_limit"))
            return
        if self.stale(n, frames):
            self.stopped.add(n)
            self.warnings.append(f"{n}: inputs older than max_age "
                                 f"({milliseconds(self.w.nodes[n]['max_age']):.0f} ms) were dropped")
            return
        values = {f: sorted(v) for f, v in values.items() if v}
        chain = parent.by.chain + ((parent.index, g),)
        ways = parent.by.ways + ((parent.index, *self.w.way((n, g))),)
        for replica in self.w.replicas(n):
            self.start_on(replica, Activation(n, g, parent, turns, "", chain, ways, values), turn)

    def start_on(self, replica, activation, turn):
        """As if a node in front had yielded the inputs once for each replica."""
        n, runner = activation.node, activation.node
        if replica is not None:
            activation.replica, runner = replica, f"{n}@{replica}"
            activation.chain += ((replica, 0),)
            activation.ways += ((replica,),)
        identity = "|".join([runner, str(activation.group)] +
                            [f"{f}={'+'.join(v)}" for f, v in sorted(activation.inputs.items())])
        activation.identity = identity
        self.firings.append(activation)
        if len(self.firings) > FIRINGS_MAX:
            raise TooLarge()
        script = self.scripts.get(n, {})
        yields = self.yields(n, turn, replica)
        late = self.is_late(n, script, yields)
        if script.get("fail") or script.get("fail_when_iteration") == turn or late or \
                script.get("fail_on_replica") == (replica or 0):
            if self.w.nodes[n].get("on_error") != "skip":
                self.failures.append((n, "deadline" if late else "role_failed"))
            self.stopped.add(n)
            return
        if left_out := self.w.read[n] - {name for names in yields for name in names}:
            self.left_out[n] = self.left_out.get(n, left_out) & left_out
        for y, names in enumerate(yields):
            self.work.append(Frame(activation, y, frozenset(names), token(f"{identity}#{y}")))

    def yields(self, n, turn, replica):
        script = self.scripts.get(n, {})
        every = [[sorted(self.w.fields[n])]]
        turns = script.get("by_iteration") or ([script["yields"]] if "yields" in script else every)
        if "by_replica" in script:
            turns, turn = script["by_replica"], replica or 0
        yields = turns[min(turn, len(turns) - 1)]
        # A number of `values` that no frame names comes with the first frame of the first turn.
        named = {name for frames in turns for names in frames for name in names}
        alone = [name for name in script.get("values", {}) if name not in named]
        if alone and (turn == 0 or len(turns) == 1):
            yields = [list(names) for names in yields] or [[]]
            yields[0] += alone
        return yields

    def is_late(self, n, script, yields):
        """Before its first yield, or at its end when it has none, it is past its deadline."""
        if "deadline" not in self.w.nodes[n] or "latency" not in script:
            return False
        return milliseconds(self.w.nodes[n]["deadline"]) < milliseconds(script["latency"]) / \
            max(1, len(yields))

    def stale(self, n, frames):
        """Of a node with an age it is known that all its inputs had to wait, or that they had not:
        what feeds it takes far longer than its age, or nothing does."""
        return frames and milliseconds(self.w.nodes[n].get("max_age", "9999s")) < AGE_DECIDES

    def looping(self):
        if not hasattr(self.w, "_looping"):
            def reaches(a, b):
                seen, open_ = set(), [a]
                while open_:
                    for m in self.w.successors[open_.pop()]:
                        if m == b:
                            return True
                        if m not in seen:
                            seen.add(m)
                            open_.append(m)
                return False
            self.w._looping = {n for n in self.w.order if reaches(n, n)}
        return self.w._looping

    def close_one(self):
        waiting = {j for j, scopes in self.scopes.items() if scopes} | self.open_counts
        for join in sorted(waiting):
            if self.w.before[join] & waiting:
                continue
            if join in self.open_counts:
                self.open_counts.discard(join)
                self.close_count(join[0])
            else:
                key = next(iter(self.scopes[join]))
                at, frames = self.scopes[join].pop(key)
                self.close_join(join, at, frames)
            return True
        assert not waiting, f"joins wait for each other: {waiting}"
        return False

    def close_join(self, join, at, frames):
        n, g = join
        values = defaultdict(list)
        for frame in frames:
            for f, v in self.values_of(frame, self.w.groups[n][g]).items():
                values[f] += v
        missing = {f for f in self.w.groups[n][g] if not values[f]}
        if not missing:
            self.start(n, g, values, at, frames)
        elif any(values.values()):
            self.lost[n, g].append(missing)

    def close_count(self, n):
        group = self.w.groups[n][0]
        frames = sorted(self.collected[n], key=lambda f: (f.by.chain + ((f.index,),),
                                                          f.by.ways + ((f.index,),)))
        values, left, used, dead, any_frame, wanted_all, unknown = {}, [], [], False, False, 0, False
        none = set()
        for f, sources in group.items():
            came = [(frame, v) for frame in frames for v in self.values_of(frame, group)[f]]
            any_frame |= bool(came)
            wanted = self.wanted(n, f, frames, len(came))
            if not came and wanted != 0 and self.w.nodes[n]["count"][f] != "all":
                none.add(f)
            if wanted is None:
                unknown = True
                continue
            wanted_all += wanted if self.w.nodes[n]["count"][f] != "all" else max(1, wanted)
            dead |= len(came) < wanted
            values[f] = [v for _, v in came[:wanted]]
            used += [frame for frame, _ in came[:wanted]]
            if len(came) > wanted:
                left.append((f, len(came) - wanted))
        if unknown or dead or (not any_frame and wanted_all > 0):
            if any_frame:
                self.few[n] = none
            return
        for f, k in left:
            self.warnings.append(f"{n}: {k} frame{'s' if k > 1 else ''} of {f} left over")
        self.start(n, 0, values, self.entry, used)

    def wanted(self, n, f, frames, came):
        count = self.w.nodes[n]["count"][f]
        if count == "all":
            return came
        source = self.w.count_source(n, f)
        if source is None:
            return int(count)
        values = self.given if source[0] == "inputs" else \
            self.scripts.get(source[0], {}).get("values", {})
        numbers = [values.get(source[1], 0) for frame in frames
                   if frame.by.node == source[0] and source[1] in frame.fields]
        if len(numbers) != 1:
            if numbers or came:
                self.failures.append((n, "count_source"))
            if not numbers:
                return None
        if numbers[0] < 0:
            self.failures.append((n, "count_source"))
            return None
        return numbers[0]

    def missing(self):
        """What the caller of a call that ended well should hear."""
        ran = {a.node for a in self.firings}
        for (n, g), buckets in self.lost.items():
            if n in ran:
                continue
            every = set.intersection(*buckets)
            why = self.named(self.ends([s for f in every for s in self.w.groups[n][g][f]]))
            fields = sorted(every or set.union(*buckets))
            self.warnings.append(f"{n} {g}: {' '.join(fields)} did not come{why}")
        if not any(self.delivered.values()):
            all_ends = defaultdict(set)
            for output in self.w.outputs.values():
                for n, left_out in self.ends([tuple(s.split(".")) for s in output]).items():
                    all_ends[n] |= left_out
            self.warnings.append(f"the call brought no output{self.named(all_ends)}")

    def named(self, ends):
        names = sorted(ends, key=(["inputs"] + self.w.order).index)
        more = [f"{len(names) - 4} more"] if len(names) > 4 else []
        return "".join(f"; {text}" for text in [f"{n}: {' '.join(sorted(ends[n]))}" for n in names[:4]] + more)

    def ends(self, sources):
        """Where what never came ended: nodes that ran and left it out, inputs that were not given."""
        ends, stops, waiting, waited_for = defaultdict(set), set(), set(), set()
        seen, open_ = set(), [(*source, False) for source in sources]
        while open_:
            n, f, waits = open_.pop()
            if waits:
                waited_for.add(n)
            if n == "inputs":
                if f not in self.given:
                    ends[n].add(f)
            elif n in self.left_out:
                if f in self.left_out[n]:  # or it came, and another field of the same frame did not
                    ends[n].add(f)
            elif n in self.stopped:
                stops.add(n)
            elif (n, waits) not in seen:
                seen.add((n, waits))
                for g, group in enumerate(self.w.groups[n]):
                    lacked, got_some = set(group), True
                    if (n, g) in self.lost:
                        lacked = set.intersection(*self.lost[n, g])
                    elif n in self.few:
                        lacked = self.few[n]
                    else:
                        got_some = False
                    if got_some:
                        (waiting if lacked else stops).add(n)
                    open_ += [(*s, waits or got_some) for f in lacked for s in group[f]]
        # One that led on to another took a branch, unless somebody waits for what it left out.
        last = {n: left_out for n, left_out in ends.items()
                if n in waited_for or not self.led_on(n, {*ends, *stops, *waiting})}
        return last if last or stops else ends

    def led_on(self, n, others):
        """What it did yield may have come to another of these: it took a branch."""
        yielded = set(self.given) if n == "inputs" else self.w.read[n] - self.left_out[n]
        reached, open_ = set(), [m for m in self.w.order if self.w.takes(m, n) & yielded]
        while open_:
            m = open_.pop()
            if m not in reached and m != n:
                reached.add(m)
                open_ += self.w.successors[m]
        return bool(reached & others)

    def result(self):
        if not self.failures:
            self.missing()
        cause = min(self.failures, default=None,
                    key=lambda f: (self.w.order.index(f[0]), KINDS.index(f[1])))
        firings = sorted(self.firings, key=lambda a: a.identity)
        cause = cause and {"node": cause[0], "kind": cause[1]}
        if sum(self.delivered.values()) > FRAMES_MAX:
            raise TooLarge()
        return {"status": "error" if cause else "ok", "cause": cause, "outputs": self.delivered,
                "failures": sorted(set(self.failures)),
                "warnings": sorted(self.warnings),
                "firings": [{"node": a.node, "group": a.group, "inputs": a.inputs} |
                            ({} if a.replica is None else {"replica": a.replica})
                            for a in firings]}


@functools.lru_cache(maxsize=256)
def read(path: str) -> tuple[dict, Workflow]:
    with open(path) as f:
        scenario = yaml.load(f, LOADER)
    return scenario, Workflow(os.path.join(os.path.dirname(path), scenario["workflow"]))


def evaluate(path: str) -> dict:
    scenario, workflow = read(path)
    calls = [Call(workflow, scenario.get("nodes") or {}, i, call.get("inputs") or {}).run()
             for i, call in enumerate(scenario["calls"])]
    return {"scenario": scenario["scenario"], "file": path, "calls": calls,
            "cancels": workflow.cancels}


def too_wide(path: str) -> bool:
    """True when a node has more fields than the engine can tell apart: it must be refused."""
    return any(len(fields) > FIELDS_MAX for fields in read(path)[1].fields.values())


def waits_for_ever(path: str) -> bool:
    """True when its joins could wait for each other: it must be refused, and only then as such."""
    return read(path)[1].waits_for_ever()


def main():
    sys.setrecursionlimit(100_000)
    for path in sys.argv[1:]:
        print(json.dumps(evaluate(path)))


if __name__ == "__main__":
    main()
