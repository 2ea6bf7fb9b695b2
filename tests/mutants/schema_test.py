"""The JSON Schema for editors says what the loader says.

    python3 schema_test.py SLUICE ROOT

What is shipped passes both; files with a wrong shape are refused by both; the schema's keys are the
keys of docs/WORKFLOW.md, which a test compares with the loader's own tables.
"""
from __future__ import annotations

import glob
import json
import re
import sys
import tempfile

import yaml

from mutate import judge, missing, replaced, shapes

class Words(yaml.SafeLoader):
    """Of what stands without quotes only true and false are truth values, as in YAML 1.2: `yes` and `on` are words."""


Words.yaml_implicit_resolvers = {
    first: [(tag, what) for tag, what in known if tag != "tag:yaml.org,2002:bool"]
    for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()}
Words.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("^(?:true|false)$"), list("tf"))


def read(text: str):
    return yaml.load(text, Words)


TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def is_type(value, name: str) -> bool:
    if name in ("integer", "number"):
        return isinstance(value, int if name == "integer" else (int, float)) and value is not True \
            and value is not False
    return isinstance(value, TYPES[name])


class Schema:
    """The keywords that our schema uses, and no others."""

    def __init__(self, root: dict):
        self.root = root

    def wrong(self, value, schema, where="") -> str | None:
        """None when the value fits, or the place that does not."""
        if schema is False:
            return f"{where}: may not be there"
        if "$ref" in schema:
            target = self.root
            for part in schema["$ref"].removeprefix("#/").split("/"):
                target = target[part]
            if found := self.wrong(value, target, where):
                return found
        if "anyOf" in schema and all(self.wrong(value, s, where) for s in schema["anyOf"]):
            return f"{where}: none of the alternatives"
        if "const" in schema and value != schema["const"]:
            return f"{where}: not {schema['const']}"
        if "enum" in schema and value not in schema["enum"]:
            return f"{where}: not one of {schema['enum']}"
        kinds = schema.get("type")
        if kinds and not any(is_type(value, k) for k in ([kinds] if isinstance(kinds, str) else kinds)):
            return f"{where}: not {kinds}"
        if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
            return f"{where}: does not match {schema['pattern']}"
        if is_type(value, "number") and not (
                schema.get("minimum", value) <= value <= schema.get("maximum", value)):
            return f"{where}: out of range"
        if isinstance(value, list):
            return self.wrong_list(value, schema, where)
        return self.wrong_map(value, schema, where) if isinstance(value, dict) else None

    def wrong_list(self, value, schema, where):
        if len(value) < schema.get("minItems", 0):
            return f"{where}: too short"
        if schema.get("uniqueItems") and any(v in value[:i] for i, v in enumerate(value)):
            return f"{where}: one twice"
        found = (self.wrong(v, schema.get("items", {}), f"{where}[{i}]") for i, v in enumerate(value))
        return next((f for f in found if f), None)

    def wrong_map(self, value, schema, where):
        if not schema.get("minProperties", 0) <= len(value) <= schema.get("maxProperties", 1 << 30):
            return f"{where}: number of keys"
        beside = [more for key, keys in schema.get("dependentRequired", {}).items() if key in value for more in keys]
        for key in [*schema.get("required", []), *beside]:
            if key not in value:
                return f"{where}: no {key}"
        for key, item in value.items():
            if found := self.wrong(key, schema.get("propertyNames", {}), f"{where}.{key}"):
                return found
            known = schema.get("properties", {})
            rest = schema.get("additionalProperties", {})
            if key not in known and rest is False:
                return f"{where}.{key}: not known"
            if found := self.wrong(item, known.get(key, {} if rest is False else rest), f"{where}.{key}"):
                return found
        return None


def spelt_otherwise(text: str):
    """The same workflow: numbers and truth values in quotes, a node whose name is a truth value elsewhere."""
    yield "quotes", re.sub(r"\b(sluice|replicas|queue|page_tokens|pages|loop_iterations|frames|calls|idempotent): "
                           r"(\d+|true|false)\b(?!\w)", r'\1: "\2"', text)
    node = re.search(r"^nodes:\n  (?:#.*\n  )*([a-z_0-9]+):", text, re.M)
    for word in ("yes", "no", "on", "off", "y", "n"):
        if node and not re.search(rf"\b{word}\b", text):
            yield word, re.sub(rf"(^  |[ \[]){node[1]}(?=\.|:\s+\{{|:\n)", rf"\g<1>{word}", text, flags=re.M)


EDGES = """sluice: 1
workflow: x
inputs: { q: text }
global_params: { kv: { kind: paged_kv } }
roles: { m: { plugin: scripted, global_params: [kv] } }
nodes: { a: { run: m.a, inputs: [ { q: inputs.q } ], outputs: [ x ] } }
outputs: { y: a.x }
"""


def edges():
    """What both must say of values at the edge of what is allowed: (changed to, whether it is right)."""
    node, role = "outputs: [ x ] }", "plugin: scripted,"
    for old, new, right in (
            (node, "outputs: [ x ], deadline: 05s }", True), (node, "outputs: [ x ], deadline: 00s }", False),
            (node, "outputs: [ x ], deadline: 0s }", False), (node, "outputs: [ x ], count: {} }", False),
            (node, "outputs: [ x ], count: { q: 01 } }", True), (node, "outputs: [] }", False),
            (node, "outputs: [ x, x ] }", False), (node, "outputs: [ x ], queue: 2 }", False),
            (node, "outputs: [ x ], on_full: drop_oldest, queue: 2 }", True),
            ("kind: paged_kv", "kind: foo", False), ("kind: paged_kv", "kind: paged_kv, ssd_bytes: 1GiB", False),
            (role, "plugin: scripted, options: { a: null },", False), (role, "plugin: scripted, options: { a: 1 },", True),
            ("[kv]", "[kv, kv]", False), ("[kv]", "[]", True), ("{ y: a.x }", "{}", False),
            ("{ y: a.x }", "{ y: [] }", False), ("{ y: a.x }", "{ y: [ a.x, a.x ] }", False), ("{ y: a.x }", "{ y: [ a.x ] }", True)):
        assert EDGES.count(old) == 1, old
        yield new, EDGES.replace(old, new), right


def documented_keys(root: str) -> dict[str, set[str]]:
    with open(f"{root}/docs/WORKFLOW.md") as f:
        text = f.read()
    tables = {}
    for part, table in re.findall(r"^### (\w+)\n((?:\|.*\n)+)", text, re.M):
        tables[part] = set(re.findall(r"^\| `(\w+)` \|", table, re.M))
    return tables


def main() -> int:
    sluice, root = sys.argv[1:3]

    def refused_of(texts: list[str]) -> list[bool]:
        with tempfile.TemporaryDirectory() as folder:
            return [status == 1 for status, _ in judge(sluice, root, folder, texts)]

    with open(f"{root}/docs/workflow.schema.json") as f:
        schema = json.load(f)
    check, problems, refused = Schema(schema), [], 0
    planted = []  # path, kind, line, text
    good = glob.glob(f"{root}/workflows/*.yaml") + glob.glob(f"{root}/tests/mutants/base/*.yaml")
    assert len(good) >= 8, "no workflows to look at"
    library = "sluice: 1\nroles: { any: { plugin: scripted } }\n"
    if found := check.wrong(read(library), schema) or refused_of([library])[0] or None:
        problems.append(f"roles to include: {found}")
    gathers = "sluice: 1\ninclude: [ roles.yaml ]\n"
    if found := check.wrong(read(gathers), schema):
        problems.append(f"files to include: {found}")
    if check.wrong(read(gathers + "workflow: x\n"), schema) is None:
        problems.append("a workflow that only includes fits the schema")
    for path in good:
        with open(path) as f:
            text = f.read()
        if found := check.wrong(read(text), schema):
            problems.append(f"{path}: {found}")
        unknown = replaced(text, "key", r"\b(plugin|run|balance|replicas|deadline|outputs|limits)(?=: )",
                           lambda m: m[1] + "x", 1)
        for kind, wrong, line in [*shapes(text), *missing(text), *unknown]:
            if wrong == text:
                continue
            planted.append((path, kind, line, wrong))
    right = [(path, how, text) for path in good for how, text in spelt_otherwise(open(path).read())]
    for (path, how, text), is_refused in zip(right, refused_of([r[2] for r in right])):
        if is_refused or (found := check.wrong(read(text), schema)):
            problems.append(f"{path}, spelt with {how}: {'the loader refuses it' if is_refused else found}")
    at_edges = list(edges())
    for (what, text, is_right), is_refused in zip(at_edges, refused_of([text for _, text, _ in at_edges])):
        fits = check.wrong(read(text), schema) is None
        if fits != is_right or is_refused == is_right:
            problems.append(f"{what}: the schema {'takes' if fits else 'refuses'} it, the loader {'refuses' if is_refused else 'takes'} it")
    if len(right) < 20:
        problems.append(f"only {len(right)} files are spelt otherwise")
    for (path, kind, line, wrong), is_refused in zip(planted, refused_of([p[3] for p in planted])):
        refused += 1
        fits = check.wrong(read(wrong), schema) is None
        if fits or not is_refused:
            problems.append(f"{path}, {kind} in line {line}: accepted by "
                            f"{'the schema' if fits else 'the loader'}")
    parts = {"workflow": schema, **schema["$defs"]}
    for part, keys in documented_keys(root).items():
        ours = set(parts[part]["properties"])
        if ours != keys:
            problems.append(f"keys of {part}: schema {sorted(ours - keys)}, docs {sorted(keys - ours)}")
    print("\n".join(problems) or f"{len(good)} files fit, {refused} wrong ones are refused by both")
    return 1 if problems or refused < 60 else 0


if __name__ == "__main__":
    sys.exit(main())
