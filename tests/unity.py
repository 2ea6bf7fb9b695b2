"""Which sources of a target are compiled as one: a unity build in which no name of one clashes with another's.

    unity.py ROOT SOURCE...

Prints a line for each source: the number of its group, and its path. Two sources are not in one group if a name that
is local to one of them (declared in a namespace without name, `static`, an alias) is local to the other too or declared
by a header of ours that either includes, or if they open different namespaces. What opens two or defines a macro stands
alone. So a source means in its group what it means by itself, and whoever writes one need not know of the others.
"""
from __future__ import annotations

import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/tidy"))
from cpp_text import code_of, own_headers  # noqa: E402

SOURCES_MAX = 12  # of a group
LINES_MAX = 3600  # of a group: the memory of its compilation


def declared(text: str, everything: bool) -> set[str]:
    """Names that are declared in `text`, a namespace's inside; if not `everything`, those that stay in their source."""
    names = set()
    for declaration in re.split(r";|(?<=})", text):
        before = None
        while before != declaration:  # arguments of templates, from the innermost
            before, declaration = declaration, re.sub(r"<[^<>]*>", " ", declaration)
        declaration = re.sub(r"\btemplate\b|\[\[[^\]]*\]\]|^\s*#.*$", " ", declaration, flags=re.M).strip()
        if found := re.match(r"(?:using|namespace)\s+(\w+)\s*=", declaration):
            names.add(found[1])
        elif everything or re.match(r"(static|constexpr|const|inline)\b", declaration):
            if found := re.match(r"(?:struct|class|union|enum(?:\s+(?:class|struct))?)\s+(\w+)", declaration):
                names.add(found[1])
                declaration = declaration[found.end():].partition("{}")[2]  # what is declared with it
            for part in declaration.split("=")[0].split(","):
                if found := re.search(r"(\w+)\s*(?:\(\)|\[|{|$)", part):
                    names.add(found[1])
    return names


def names_of(code: str, everything: bool) -> set[str]:
    """What a source or header declares in namespaces, comments and strings blanked; if not `everything`, what stays in
    its source.
    """
    names = set()
    depth_of = []  # of each open namespace: whether it has no name
    pieces = [["", False]]  # text directly in a namespace, and whether that has no name
    at = 0
    for found in re.finditer(r"\bnamespace\b\s*([\w:]*)\s*{|\bnamespace\b[^{;=]*=|[{}()]", code):
        if found.start() < at:
            continue
        pieces[-1][0] += code[at:found.start()]
        token = found[0]
        if token.startswith("namespace") and token.endswith("{"):
            depth_of.append(found[1] == "" or any(depth_of))
            if everything:
                names.update(found[1].split("::"))
            pieces.append(["", depth_of[-1]])
            at = found.end()
        elif token in "({":
            at = end_of(code, found.start())
            pieces[-1][0] += "{}" if token == "{" else "()"
        elif token == "}" and depth_of:
            depth_of.pop()
            pieces.append(["", any(depth_of)])
            at = found.end()
        else:
            pieces[-1][0] += token
            at = found.end()
    pieces[-1][0] += code[at:]
    for text, nameless in pieces:
        names |= declared(text, everything or nameless)
    return names


def end_of(code: str, at: int) -> int:
    """Behind the bracket that closes the one at `at`."""
    depth = 0
    for found in re.compile(r"[{}()]").finditer(code, at):
        depth += 1 if found[0] in "({" else -1
        if depth == 0:
            return found.end()
    return len(code)


class Sources:
    def __init__(self, root: str):
        self.root, self.texts, self.given = root, {}, {}

    def text(self, path: str) -> str:
        if path not in self.texts:
            with open(path, encoding="utf-8") as f:
                self.texts[path] = f.read()
        return self.texts[path]

    def included(self, path: str) -> set[str]:
        """What the headers of ours that it includes declare."""
        if path not in self.given:
            self.given[path] = names = set()  # a circle ends here
            for other in own_headers(path, self.text(path), os.path.exists, self.root):
                names |= self.included(other) | names_of(code_of(self.text(other)), True)
        return self.given[path]


def groups(root: str, paths: list[str]) -> list[list[str]]:
    sources, made = Sources(root), []
    for path in paths:
        text = sources.text(path)
        code, lines = code_of(text), text.count("\n")
        local, included = names_of(code, False), sources.included(path)
        opened = frozenset(re.findall(r"^using namespace ([\w:]+)", code, re.M))
        alone = len(opened) > 1 or re.search(r"^\s*#\s*define\b", code, re.M) is not None
        for group in made:
            if not alone and not group["alone"] and group["opened"] == opened and \
                    len(group["paths"]) < SOURCES_MAX and group["lines"] + lines <= LINES_MAX and \
                    local.isdisjoint(group["names"]) and group["local"].isdisjoint(local | included):
                break
        else:
            group = {"paths": [], "local": set(), "names": set(), "lines": 0, "opened": opened, "alone": alone}
            made.append(group)
        group["paths"].append(path)
        group["local"] |= local
        group["names"] |= local | included
        group["lines"] += lines
    return [group["paths"] for group in made]


if __name__ == "__main__":
    for number, group in enumerate(groups(os.path.abspath(sys.argv[1]), [os.path.abspath(p) for p in sys.argv[2:]])):
        for source in group:
            print(number, source)
