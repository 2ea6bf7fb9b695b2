"""Cases of transcripts_test.py that are written to a folder first: traces by hand, scenarios, outputs that go to files, and
processes of a cluster that are none. Each function gives the commands, one after the other.
"""
import fcntl
import json
import os
import re
import socket
import struct
import subprocess
import threading


def activation(span, node, begin, end, after=-1, queued=0, travelled=0, call=0, **args):
    return {"ph": "X", "cat": "activation", "name": node, "ts": begin, "dur": end - begin,
            "args": {"call": call, "span": span, "after": after, "queued_us": queued, "travelled_us": travelled, **args}}


def called(dur, begin=0, call=0, status="ok", **args):
    return {"ph": "X", "cat": "call", "name": "call", "ts": begin, "dur": dur,
            "args": {"call": call, "session": "s", "status": status, **args}}


def traces(folder):
    """Traces written by hand, each with what a machine's own seldom show, and what `why` says of them."""
    two = [activation(0, "one", 1000, 3000, queued=200, travelled=100), activation(1, "two", 4000, 6000, 0, 300, 100)]
    away = [{"ph": "M", "name": "elsewhere", "args": {"nodes": ["far", 7, "off"]}}]
    skipped = [{"node": f"node{i}", "why": "because"} for i in range(19)]
    every = {
        "not_ended": two,  # what is known of it begins with its first activity
        "in_time": [called(7000), *two],
        "ends_with_its_last": [called(6000), *two],
        "one_microsecond_left": [called(6001), *two],
        "less_than_a_microsecond_left": [called(6000.5), *two],
        "ends_before_its_last": [called(5000), *two],
        "begins_late": [called(7000, begin=500), *two],
        "turn": [called(7000, behind=3, behind_us=600), *two],
        "turn_until_it_was_asked": [called(7000, behind=3, behind_us=900), *two],
        "turn_is_most": [called(9000, behind=3, behind_us=7000),
                         activation(0, "one", 8000, 8500, queued=200, travelled=100)],
        "away": [*away, called(7000), *two],
        "away_for_most_of_it": [*away, called(70000), *two],
        "away_for_a_microsecond": [*away, called(7000), activation(0, "one", 100, 6999, queued=100, travelled=0)],
        "away_for_less": [*away, called(7000), activation(0, "one", 100, 6999.5, queued=100, travelled=0)],
        "away_altogether": [*away, called(7000)],
        "away_and_not_ended": [*away, *two],
        "nothing_ran": [called(7000)],
        "same_node_twice": [called(9000), *two, activation(2, "one", 7000, 8000, 1, 500, 100)],
        "beside_what_follows": [called(7000), activation(0, "one", 0, 3000), activation(1, "two", 2999, 6000, 0)],
        "hardly_beside_what_follows": [called(7000), activation(0, "one", 0, 3000), activation(1, "two", 2999.5, 6000, 0)],
        "two_end_last": [called(7000), activation(0, "one", 0, 6000), activation(1, "two", 1000, 6000, -1, 100)],
        "after_itself": [called(7000), activation(0, "one", 1000, 6000, after=0)],
        "after_one_that_is_not_there": [called(7000), activation(0, "one", 1000, 6000, after=9)],
        "after_nothing_said": [called(7000), {"ph": "X", "cat": "activation", "name": "one", "ts": 9, "dur": 7, "args": {"call": 0, "span": 4}}],
        "cause": [called(7000, status="error", cause="two", message="it broke"), *two],
        "cause_of_no_node": [called(7000, status="error", cause="", message="it was late"), *two],
        "skipped": [called(7000, skipped=skipped[:3]), *two],
        "skipped_twenty": [called(7000, skipped=[*skipped, {"node": "a much longer name", "why": "of itself"}]), *two],
        "skipped_more": [called(7000, skipped=[*skipped, {"node": "last", "why": "y"}, 7, {"node": "a name that is longer than all", "why": "x"}]), *two],
        "skipped_long": [called(7000, skipped=[{"node": "n" * 70, "why": "x"}, {"node": "m", "why": "y"}]), *two],
        "skipped_none": [called(7000, skipped=[]), *two],
        "skipped_of_another_kind": [called(7000, skipped="no list"), *two],
        "others": [called(9000, call=1), called(8000, call=2), activation(0, "one", 5, 7, call=1), {"ph": "B", "cat": "call", "args": {"call": 9}},
                   {"ph": "X", "cat": "call", "args": {"call": 2**63 - 1}}, {"ph": "X", "cat": "else", "args": {"call": 5}}],
        "others_and_it": [*two, called(7000, call=0), called(9000, call=1), activation(0, "other", 5, 7, call=1)],
        "nothing": [],
        "other_kinds": [1, {"ph": "X"}, {"args": 1}, {"ph": "X", "args": []}, called(7000), {"ph": "M", "name": "elsewhere", "args": {"nodes": 5}},
                        {"ph": "M", "name": "other", "args": {"nodes": ["far"]}}, {"ph": "Y", "cat": "call", "args": {"call": 0}}],
    }
    paths = {}
    for name, events in every.items():
        paths[name] = os.path.join(folder, name + ".json")
        with open(paths[name], "w", encoding="utf-8") as file:
            json.dump({"traceEvents": events}, file)
    for name, text in (("no_object", "[]"), ("no_events", "{}"), ("events_of_another_kind", '{"traceEvents": {}}')):
        paths[name] = os.path.join(folder, name + ".json")
        with open(paths[name], "w", encoding="utf-8") as file:
            file.write(text)
    return [["why", path, "0"] for path in paths.values()] + [["why", paths["others"], "1"], ["why", paths["others"], "-1"],
                                                              ["why", paths["other_kinds"], "5"]]


FLOWS = {
    "plain": """sluice: 1
workflow: plain
inputs: { x: text }
roles: { any: { plugin: scripted } }
nodes:
  say: { run: any.say, inputs: [ { x: inputs.x } ], outputs: [word] }
  end: { run: any.end, inputs: [ { word: say.word } ], outputs: [last] }
outputs: { words: say.word, last: end.last }
""",
}
FLOWS["late"] = FLOWS["plain"].replace("workflow: plain", "workflow: late\nlimits: { deadline: 40ms }")
FLOWS["many"] = FLOWS["plain"].replace("workflow: plain", "workflow: many\nlimits: { frames: 5 }")
FLOWS["full"] = FLOWS["plain"].replace("workflow: plain", "workflow: full\nlimits: { calls: 1 }")
FLOWS["cut"] = FLOWS["plain"].replace("workflow: plain", "workflow: cut\non_error: cancel")
FLOWS["patient"] = FLOWS["plain"].replace("outputs: [last]", "outputs: [last], deadline: 10ms")
FLOWS["broken"] = FLOWS["plain"].replace("x: inputs.x", "x: inputs.y")
ONE_CALL, TWO_CALLS = "calls: [ { session: a, inputs: { x: q0 } } ]", "calls: [ { session: a, inputs: { x: q0 } }, { session: b, inputs: { x: q1 } } ]"
SCENARIOS = [  # workflow, calls, nodes, what is expected
    ("plain", ONE_CALL, "", "calls: [ { status: ok, cause: say, outputs: { words: 1, last: 1 } } ], firings: { say: 1, end: 1 }"),
    ("plain", ONE_CALL, "", "calls: [ { status: error, outputs: { words: 0, last: 2 } } ], firings: { say: 0, end: 2 }"),
    ("plain", ONE_CALL, "say: { fail: true }", "calls: [ { status: ok, cause: end, outputs: { words: 1, last: 0 } } ], firings: { end: 0, say: 2 }"),
    ("plain", ONE_CALL, "say: { yields: [ [word], [word] ] }", "calls: [ { outputs: { words: 2, last: 2 } } ], firings: { end: 2 }"),
    ("plain", TWO_CALLS, "end: { fail: true }", "calls: [ { status: error, cause: end }, { status: ok, cause: say, outputs: { words: 0, last: 1 } } ]"),
    ("plain", TWO_CALLS, "end: { yields: [] }", "calls: [ { outputs: { last: 1, words: 3 } }, { status: error, cause: say, outputs: { last: 1, words: 0 } } ]"),
    ("patient", ONE_CALL, "end: { latency: 30ms }", "calls: [ { status: error, cause: end, outputs: { words: 0, last: 1 } } ], firings: { end: 0 }"),
    ("late", ONE_CALL, "say: { latency: 90ms }", "calls: [ { status: error, cause: inputs, outputs: { words: 0 } } ], firings: { end: 0 }"),
    ("late", ONE_CALL, "say: { latency: 90ms }", "calls: [ { status: ok, cause: say, outputs: { last: 7 } } ]"),
    ("late", ONE_CALL, "say: { latency: [1ms, 90ms] }", "calls: [ { outputs: { words: 1, last: 1 } } ], firings: { say: 1, end: 1 }"),
    ("late", ONE_CALL, "say: { latency: [1ms, 90ms] }", "calls: [ { outputs: { words: 0, last: 0 } } ], firings: { end: 0 }"),
    ("many", ONE_CALL, "say: { yields: [ [word], [word], [word], [word], [word], [word] ] }", "calls: [ { status: error, outputs: { words: 9, last: 9 } } ]"),
    ("many", ONE_CALL, "say: { yields: [ [word], [word], [word], [word], [word], [word] ] }", "calls: [ { status: ok, outputs: { words: 1, last: 0 } } ]"),
    ("many", ONE_CALL, "say: { yields: [ [word], [word], [word], [word], [word], [word] ] }, end: { fail: true }", "calls: [ { status: error, outputs: { words: 5, last: 0 } } ], firings: { say: 1, end: 6 }"),
    ("late", ONE_CALL, "say: { latency: 30ms, yields: [ [word], [word] ] }, end: { latency: [1ms, 30ms], fail: true }", "calls: [ { status: error, outputs: { words: 2, last: 0 } } ], firings: { say: 1, end: 2 }"),
    ("full", TWO_CALLS, "say: { latency: 5ms }", "calls: [ { status: ok }, { status: error } ], firings: { say: 2 }"),
    ("cut", TWO_CALLS, "end: { fail: true }", "calls: [ { status: error, outputs: { words: 1 } }, { status: error, outputs: { words: 0, last: 0 } } ], firings: { end: 1 }"),
    ("cut", TWO_CALLS, "", "calls: [ { status: ok, outputs: { words: 1 } }, { status: ok, outputs: { words: 2 } } ], firings: { end: 3 }"),
    ("broken", ONE_CALL, "", "calls: [ { status: ok } ]"),
    ("nowhere", ONE_CALL, "", "calls: [ { status: ok } ]"),
    ("plain", ONE_CALL, "nobody: { fail: true }", "calls: [ { status: ok } ]"),
    ("plain", ONE_CALL, "", "calls: [ { status: perhaps } ]"),
    ("plain", ONE_CALL, "", "calls: [ { outputs: { nobody: 1 } }, {} ], firings: { nobody: 1 }"),
]


def scenarios(folder):
    """Scenarios that expect what does not happen, with and without limits, and some that cannot run."""
    at = os.path.join(folder, "scenarios")
    os.makedirs(at)
    for name, text in FLOWS.items():
        with open(os.path.join(at, name + ".yaml"), "w", encoding="utf-8") as file:
            file.write(text)
    for i, (flow, calls, nodes, expected) in enumerate(SCENARIOS):
        with open(os.path.join(at, f"{i:02}.yml"), "w", encoding="utf-8") as file:
            file.write(f"scenario: {flow} {i}\nworkflow: {flow}.yaml\n{calls}\nnodes: {{ {nodes} }}\nexpect: {{ {expected} }}\n")
    first = os.path.join(at, "00.yml")
    yield ["test", at, "--seeds", "3"]
    yield ["test", at, "--seeds", "9", "--json"]
    yield ["test", at, "--set", "limits.deadline=30ms"]
    yield ["test", os.path.join(at, "03.yml"), os.path.join(at, "06.yml"), "--set", "nodes.end.deadline=1ms", "--seeds", "2"]
    # A node's failure comes before the call's limit, in some orders of events.
    yield ["test", *(os.path.join(at, f"{i}.yml") for i in (11, 12, 13)), "--set", "nodes.end.deadline=1ms", "--seeds", "20"]
    # Its deadline stands within its latency: how many end in time is chance.
    yield ["test", *(os.path.join(at, f"{i:02}.yml") for i in (3, 4, 11, 12, 13)), "--set", "nodes.end.deadline=3ms", "--seeds", "60"]
    yield ["test", os.path.join(at, "14.yml"), "--seeds", "20"]
    yield ["test", at, "--set", "nodes.nobody.deadline=1ms", "--seeds", "2"]
    yield ["test", at, "--set", "nodes.nobody.deadline=1ms", "--seeds", "2", "--json"]
    yield ["test", first, "--set", "nodes.nobody.deadline=1ms", "--seeds", "2"]
    yield ["test", first, os.path.join(at, "03.yml"), "--seeds", "1"]
    yield ["test", os.path.join(at, "plain.yaml")]
    alone = os.path.join(folder, "alone")
    os.makedirs(alone)
    for name in ("plain.yaml", "00.yml"):
        os.rename(os.path.join(at, name), os.path.join(alone, name))
    yield ["test", alone, "--set", "nodes.nobody.deadline=1ms"]  # none is run


FILES = """sluice: 1
workflow: files
inputs: { t: text, j: json, n: number, b: bytes, x: tensor, request: json }
roles: { reader: { plugin: parse_request } }
nodes: { parse: { run: reader.parse, inputs: [ { request: inputs.request } ] } }
outputs: { t: inputs.t, j: inputs.j, n: inputs.n, b: inputs.b, x: inputs.x, words: parse.text, all: [parse.text, inputs.x] }
"""


def npy(dtype, shape, data):
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data


def files(folder):
    """Where outputs go, and what is on standard output then: what a folder holds afterwards stands behind each."""
    flow, tensor = os.path.join(folder, "files.yaml"), os.path.join(folder, "x.npy")
    place = os.path.join(folder, "place")
    os.makedirs(os.path.join(place, "sub"))
    with open(flow, "w", encoding="utf-8") as file:
        file.write(FILES)
    with open(tensor, "wb") as file:
        file.write(npy("<i4", (3,), bytes(range(12))))
    words = json.dumps({"content": [{"type": "text", "text": "two\nlines"}]})
    values = {"t": "some\ntext", "j": '{"a": [1]}', "n": "-5", "b": "bytes", "x": "@" + tensor, "request": words}

    def call(names, *outs):
        given = [w for name, value in values.items() for w in (["--input", f"{name}={value}"] if name in names else ["--without", name])]
        return ["run", flow, *given, *[w for out in outs for w in ("--out", out.replace("@", place))]]

    for names, *outs in (
            (["t", "x"], "@"), (["t", "x"], "@/sub/"), (["x"], "x=@/a.npy", "all=/dev/null"), (["x"], "x=@/a.npy", "@"), (["x"], "x=@/a.npy", "all=@/b.npy"), (["x"], "@/a.npy"),
            (["t", "j", "n", "b"], "t=@/t", "j=@/j", "n=@/n", "b=@/b"), (["t", "j", "n", "b"], "t=@/t", "n=@/.npy"), (["t", "n"], "t=@/equal=sign"),
            (["request", "x"], "all=@/all", "x=@/x"), (["request", "x"], "all=@/all.", "@"), (["request"], "all=@/words"), (["request", "t"], "words=@/words"),
            (["t"], "@", "@/sub"), (["t"], "t=@/t", "t=@/u"), (["t"], "t=@/t", "n=@/sub/../t"), (["t"], "t="), (["t"], "T=@/t"), (["t"], "t=@/nowhere/t"),
            (["t"], "t=@/sub"), (["t"], "t=-"), (["x"], "x=@/a.png"), (["x"], "x=@/a.safetensors"), (["x"], "x=@/a.txt", "@"), (["x"], "x=@/a", "@"), (["x"], "x=@/a.NPY", "@"),
            (["t"], "t=@/t.png"), (["t"], "t=./-x/t")):
        yield call(names, *outs)
        yield ["ends", place]


class Fake:
    """Processes of a cluster that are none: their locks are held, and they say of themselves what a case wants."""

    def __init__(self, where):
        self.where, self.held, self.sockets = where, [], []

    def add(self, stem, words, said, locked=True):
        """`words`: what stands in its lock. `said`: bytes, or nothing: it never answers."""
        lock = open(os.path.join(self.where, stem + ".lock"), "w", encoding="utf-8")
        lock.write(words)
        lock.flush()
        if locked:
            fcntl.fcntl(lock, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        self.held.append(lock)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(os.path.join(self.where, stem + ".status"))
        listener.listen()
        self.sockets.append(listener)
        if said is not None:
            threading.Thread(target=self.answer, args=(listener, said), daemon=True).start()

    @staticmethod
    def answer(listener, said):
        while True:
            try:
                with listener.accept()[0] as reader:
                    reader.sendall(said)
            except ConnectionError:
                continue  # it had heard enough
            except OSError:
                return  # closed

    def end(self):
        for listener in self.sockets:
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        for lock in self.held:
            lock.close()
        for name in os.listdir(self.where):
            os.unlink(os.path.join(self.where, name))


CLUSTER = """cluster: 1
workflows: [ nowhere.yaml ]
machines:
  front: { home: true, roles: [ parser ] }
  eyes:  { roles: [ vit ] }
  paint: { roles: [ vae ] }
lease: 3s
"""


def said_of_machines():
    """name -> what each process says: (stem of its files, its name, its number, what it says)."""
    def member(name, **known):
        return {"name": name, "incarnation": 3, "since_ms": 1949, **known}

    def front(machines, **more):
        return {"machine": "front", "ready": True, "ending": False, "lives": 1, "calls": 2, "given_up": 1, "activations": 4, "dropped": 5,
                "refused": 0, "machines": machines, **more}

    def lent(in_place, in_message, why=""):
        return {"in_place": in_place, "in_message": in_message, "why": why}

    ready, plain = {"ready": True}, [member("front", state="there"), member("eyes", state="there"), member("paint", state="there")]
    heard = dict(connected=True, heard_ms=20, owed_bytes=7, window_bytes=9)
    process = {"machine": "eyes", "pid": 111, "starts": 1, "ended": "", "failing": 0, "other": False}
    yield "all there", [("0", "front", 100, front(plain)), ("1", "eyes", 101, ready), ("2", "paint", 102, ready)]
    yield "members", [("0", "front", 100, front([
        member("front", state="there"), member("eyes", state="not_seen", why=""), member("paint", state="lost", why="it\x1b[31m died")]))]
    yield "links", [("0", "front", 100, front([
        plain[0], member("eyes", state="there", **heard, lent=lent(1, 0, "nothing")), member("paint", state="there", **heard, lent=lent(0, 1, "full"))],
        refused=1)), ("1", "eyes", 101, {**ready, "activations": 6, "refused": 2})]
    yield "nothing lent", [("0", "front", 100, front([plain[0], member("eyes", state="there", heard_ms=1949, lent=lent(0, 0, "nothing")),
                                                      member("paint", state="there", owed_bytes=1, lent=[])]))]
    yield "registries", [("0", "front", 100, front(plain, registry="current", registry_why="")),
                         ("1", "eyes", 101, {**ready, "registry": "lapsed", "registry_why": "no answer", "calls": 3}),
                         ("2", "paint", 102, {"ready": False, "registry": "joining", "registry_why": "not reached"})]
    yield "beginning and ending", [("0", "front", 100, {"ready": True, "ending": True}), ("1", "eyes", 101, {"ready": False}),
                                   ("2", "paint", 102, {"ready": 1})]
    def up(*processes, **more):
        return "up", "", 99, {"processes": processes, **more}
    yield "up", [up(process, {**process, "machine": "paint", "starts": 2, "ended": "ended with status 3"},
                    {**process, "machine": "front", "pid": 0, "starts": 7, "ended": "died by SIGKILL", "failing": 6},
                    {**process, "machine": "eyes", "other": True}), ("1", "eyes", 101, ready)]
    part = {"what": "text of m\x1b[31m", "bytes": 3 << 20, "maker": "", "holders": ["machine 'eyes'", "host 'x' of machine 'paint'"], "waiting": []}
    made = {**part, "what": "vision of m", "bytes": 0, "maker": "machine 'eyes'", "holders": [], "waiting": ["machine 'paint'"]}
    yield "weights of up", [up(process, weights=[part, made]), ("1", "eyes", 101, ready)]
    yield "weights of a home", [("0", "front", 100, front(plain, processes=[process], weights=[made, {"what": 2, "bytes": -1, "maker": "x", "holders": [1], "waiting": 3}]))]
    yield "run", [("0", "front", 100, front(plain, processes=[process]))]
    yield "up beside run", [("0", "front", 100, front(plain, processes=[process])), up()]
    yield "others", [("1", "eyes", 101, ready), ("2", "a longer name", 102, {"ready": False, "calls": 1}), ("3", "eyes", 103, ready),
                     ("4", "paint", 104, {"ending": True})]
    yield "of another version", [("0", "front", 100, []), ("1", "eyes", 101, 7), ("up", "", 99, {})]
    yield "of other types", [("0", "front", 100, front([1, {"name": 1}, member("eyes", state=1), member("paint", state="there", incarnation="x", since_ms="x",
                                                                                                        heard_ms="x", owed_bytes=-1, lent={"in_place": -1})],
                                                       calls="x", processes=7)), up(1, {}, {**process, "pid": 2**40, "starts": -1}, weights=7)]
    yield "a list of another type", [("0", "front", 100, front({"eyes": member("eyes", state="there")}))]
    pool = {"name": "kv", "age_ms": 0, "model": "models/one", "layout": "2 layers, keys and values of 8 in f32", "page_tokens": 16, "page_bytes": 4096,
            "pages": 64, "free": 12, "cached": 40, "used": 12, "shared": 3, "published": 50, "prompts": 2, "prompt_tokens": 200, "from_memory": 100,
            "computed": 100, "lately": {"asked": 200, "there": 80, "best": 100}, "source": "none", "sessions": 3, "session_list": [
                {"name": "an\x1b[31mna", "role": "talk", "tokens": 20, "kept": 16, "answering": False, "idle_ms": 1949},
                {"name": "ben", "role": "", "tokens": 7, "kept": 0, "answering": True, "idle_ms": 0}]}
    yield "pools", [("0", "front", 100, front(plain)), ("1", "eyes", 101, {**ready, "pools": [pool, {"name": "other", "age_ms": -1, "model": "m"}, {**pool, "lately": 7}, 7]}),
                    ("2", "paint", 102, {"ready": False})]
    yield "no words", [("0", "front", 100, b"{"), ("1", "eyes", 101, b""), ("2", "paint", 102, b'"' + b"x" * (4 << 20) + b'"'), ("up", "", 99, None)]
    yield "much", [("1", "eyes", 101, b'{"ready": true, "x": "' + b"x" * ((4 << 20) - 24) + b'"}')]
    yield "no holder", [("0", "front", 0, ready), ("1", "eyes", -1, ready), ("2", "paint", "x", ready)]
    yield "a holder that has just ended", [("0", "front", 100, ready, False), ("1", "eyes", 101, ready)]


def statuses(folder, sluice):
    """What `status` says of processes that say anything of themselves."""
    path = os.path.join(folder, "cluster.yaml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(CLUSTER)
    said = subprocess.run([sluice, "status", "--cluster", path], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "XDG_RUNTIME_DIR": folder}).stderr
    where = re.search(r" by (\S+/sluice/[0-9a-f]{16}) ", said).group(1)
    os.makedirs(where, mode=0o700)
    os.chmod(os.path.dirname(where), 0o700)
    fake = Fake(where)
    for name, processes in said_of_machines():
        for stem, machine, pid, words, *locked in processes:
            text = words if words is None or isinstance(words, bytes) else json.dumps(words).encode()
            fake.add(stem, f"{pid} {machine}\n", text, *locked)
        yield ["status", "--cluster", path]
        yield ["status", "--cluster", path, "--format", "json"]
        if name in ("all there", "pools", "of another version"):
            for words in (["status"], ["status", "--format", "json"], ["sessions"], ["sessions", "--format", "json"]):
                yield ["pool", words[0], "--cluster", path, *words[1:]]
        if name == "others":
            with open(path, "w", encoding="utf-8") as file:
                file.write("cluster: 1\nmachines: 3\n")
            yield ["status", "--cluster", path]
            yield ["status", "--cluster", path, "--format", "json"]
            with open(path, "w", encoding="utf-8") as file:
                file.write(CLUSTER)
        fake.end()
        fake = Fake(where)
    for words in ("", "100", "100 front", "100front\n", "1x front\n", " front\n", "100 \n"):  # what stands in a lock is cut off, or no holder's
        fake.add("0", words, b'{"ready": true}')
        fake.add("up", "99 \n", b'{"processes": []}')
        yield ["status", "--cluster", path]
        fake.end()
        fake = Fake(where)
    os.rmdir(where)
    os.rmdir(os.path.dirname(where))


def newcomers(folder, root):
    """What authors get wrong in their first scenarios, profiles, cluster files and manifests, and what they type of them."""
    flow, laptop = "workflows/image_chat.yaml", "examples/cluster/laptop.yaml"
    scenario = f"""scenario: a picture
workflow: {os.path.join(root, flow)}
calls: [ {{ inputs: {{ request: q0 }} }} ]
nodes:
  parse: {{ yields: [ [text], [image] ] }}
expect: {{ calls: [ {{ status: ok }} ] }}
"""
    cluster = f"""cluster: 1
workflows: [ {os.path.join(root, flow)} ]
machines:
  front: {{ home: true, roles: [ parser ] }}
  eyes:  {{ roles: [ vit ] }}
  paint: {{ roles: [ vae ] }}
  talk:  {{ roles: [ llm, diffusion ] }}
lease: 3s
"""
    manifest = """sluice_role: 1
name: grasp
abi: 1.0
kind: plain
interfaces:
  plan:
    inputs: { image: { type: image } }
    outputs: { pose: { type: tensor }, left: { type: number } }
    frames: [ [pose], [left] ]
options:
  fingers: { type: whole, least: 1, most: 5, default: 2 }
  hand: { type: choice, choices: [left, right], default: right }
"""

    def changed(name, text, *changes):
        path = os.path.join(folder, "newcomer", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        for old, new in changes:
            if old not in text:
                raise ValueError(f"{name}: {old}")
            text = text.replace(old, new)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    wrong = "sluice: 1\nworkflow: W\nroles: { any: { plugin: scripted } }\nnodes: { a: { run: any } }\noutputs: { x: b.y }\n"
    broken = changed("broken.yaml", wrong)
    of_broken = (os.path.join(root, flow), broken)
    yield from (["test", "--seeds", "2", changed(name, scenario, change)] for name, change in (
        ("expects_an_empty_map.yaml", ("{ calls: [ { status: ok } ] }", "{}")),
        ("expects_of_calls_nothing.yaml", ("{ status: ok }", "{}")),
        ("name_misspelt.yaml", ("scenario:", "scenaro:")),
        ("frame_without_brackets.yaml", ("[text], [image]", "text, image")),
        ("of_a_broken_workflow.yaml", of_broken),
        ("firings_too_far_left.yaml", ("expect: {", "firings: { parse: 1 }\nexpect: {")),
        ("calls_nothing.yaml", ("[ { inputs: { request: q0 } } ]", "[]"))))
    changed("folder/misspelt.yaml", scenario, ("scenario:", "scenaro:"))
    changed("folder/no_yaml.yaml", scenario, ("[image] ]", "[image]"))
    changed("folder/well.yaml", scenario)
    yield ["test", "--seeds", "2", os.path.join(folder, "newcomer/folder")]
    profile = "profile: mine\nnodes:\n  parse: { latency: [9ms, 1] }\n"
    yield from (["simulate", flow, "--calls", "1", "--profile", changed(name, text)] for name, text in (
        ("profile_of_nothing.yaml", "profile: mine\n"), ("empty_profile.yaml", ""), ("profile.yaml", profile)))
    yield from (["validate", changed(name, cluster, *changes)] for name, changes in (
        ("cluster_2.yaml", [("cluster: 1", "cluster: 2")]),
        ("cluster_lease.yaml", [("3s", "0s")]),
        ("cluster_idle.yaml", [("  eyes:", "  idle: {}\n  eyes:")]),
        ("cluster_words.yaml", [("[ vit ]", "vit"), ("home: true", "home: yes")]),
        ("cluster_addresses.yaml", [("roles: [ parser ]", "roles: [ parser ], address: tcp://10.0.0.1:5000"),
                                    ("[ vit ]", "[ vit ], address: tcp://10.0.0.2:5000"),
                                    ("[ vae ]", "[ vae ], address: tcp://10.0.0.3:5000"),
                                    ("diffusion ]", "diffusion ], address: tcp://localhost:5000")])))
    yield from (["validate", changed(f"{name}/grasp.role.yaml", manifest, *changes)] for name, changes in (
        ("short_type", [("{ type: image }", "image")]),
        ("list_of_inputs", [("{ image: { type: image } }", "[ image ]")]),
        ("most_in_words", [("most: 5", "most: five")]),
        ("one_choice", [("[left, right]", "left")]),
        ("no_number", [("{ type: number }", "{ type: text, count_source: true }")]),
        ("frame_misspelt", [("[left] ]", "[lfet] ]")]),
        ("decimal_comma", [("default: 2", "default: 2,5")])))
    yield from (words.split() for words in (
        f"status {laptop}", f"down {laptop}", f"validate {flow} --json", f"run {flow} --prompt what color",
        f"run {flow} --deadline 5", f"run --prompt x {flow} {flow}", f"simulate {flow} --rate 5 --rate 6",
        f"simulate {flow} --rate 1,5", f"simulate {flow} --calls 1e3", f"simulate {flow} --calls", f"plan {flow} --format png",
        "validate", "test", f"roles --plugins {flow}", "chat models", "model inspect workflows", "why", f"why {flow} first",
        f"run {flow} --prompt x --seed -1"))
