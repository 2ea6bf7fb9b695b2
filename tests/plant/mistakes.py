"""Mistakes that a hand could make in a line of C++, and where they can be made.

A `Mistake` is one changed line of one file. All are found by patterns over the code with comments and strings
blanked; which compile, and which change anything, the compiler says later.
"""
import re
from typing import Iterator, NamedTuple


class Mistake(NamedTuple):
    path: str
    line: int  # from 1
    kind: str
    before: str
    after: str

    def diff(self):
        return f"{self.path}:{self.line} ({self.kind})\n  - {self.before.strip()}\n  + {self.after.strip()}"


def code_of(text):
    """Comments, strings and characters blanked; places kept."""
    pattern = r'R"(\w*)\(.*?\)\1"|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|(?<!\d)\'(?:\\.|[^\'\\\n])+\''
    return re.sub(pattern, lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.S)


# Pattern, what stands there instead. Blanks around an operator tell it from templates, pointers and signs.
SWAPS = [
    ("comparison", r" < ", " <= "), ("comparison", r" <= ", " < "), ("comparison", r" > ", " >= "),
    ("comparison", r" >= ", " > "), ("comparison", r" == ", " != "), ("comparison", r" != ", " == "),
    ("arithmetic", r" \+ ", " - "), ("arithmetic", r"(?<=[\w)\]]) - ", " + "), ("arithmetic", r"(?<=[\w)\]]) \* ", " + "),
    ("arithmetic", r" / ", " * "), ("arithmetic", r" % ", " / "), ("arithmetic", r" \+= ", " -= "),
    ("arithmetic", r" -= ", " += "), ("arithmetic", r" \*= ", " += "), ("arithmetic", r"\+\+(?=\w)", "--"),
    ("logic", r" && ", " || "), ("logic", r" \|\| ", " && "), ("logic", r"(?<=[(\s])!(?=[\w(])", ""),
    ("bits", r" << (?=\d)", " >> "), ("bits", r" >> (?=\d)", " << "), ("bits", r" & (?=[\w(])", " | "),
    ("bits", r" \| (?=[\w(])", " & "),
    ("constant", r"\btrue\b", "false"), ("constant", r"\bfalse\b", "true"),
    ("call", r"\bstd::min\b", "std::max"), ("call", r"\bstd::max\b", "std::min"),
    ("call", r"\.front\(\)", ".back()"), ("call", r"\.back\(\)", ".front()"),
    ("call", r"\.first\(", ".last("), ("call", r"\.push_back\(", ".push_front("),
]
NUMBER = re.compile(r"(?<![\w.'])(\d+)(?!')(?=(?:U|UL|ULL|L|LL)?\b)(?![.\w]*\.)(?!\.\d|e[-+\d]|x)")
FLOAT = re.compile(r"(?<![\w.])(\d+\.\d+)(?=F?\b)")
STATEMENT = re.compile(r"^\s+(?!return\b|const\b|auto\b|using\b|case\b|else\b|for\b|if\b|while\b|static\b|throw\b|goto\b)"
                       r"(?:[\w:.>\-\[\]*()]+(?:\(.*\)|\s*[-+*/|&]?=\s.*|\+\+)|\+\+[\w.\->\[\]]+|break|continue);$")
CONDITION = re.compile(r"^(\s*(?:\} else )?(?:if|while)) \((.*)\)( \{| [^{}]*;|)$")
RETURN = re.compile(r"^(\s*(?:.*\) )?return )([^;]+);$")
ARGUMENTS = re.compile(r"(?<=\()(\w[\w.\->\[\]]*), (\w[\w.\->\[\]]*)(?=[,)])")
# Lines whose change no test can be asked for: checks of our own bugs, what the compiler alone reads.
SKIPPED = re.compile(r"SLUICE_CHECK|static_assert|^\s*#|^\s*(?:template|using|namespace|friend|struct|class|enum)\b|"
                     r"reserve\(|= delete|= default|noexcept|\[\[nodiscard\]\]|^#|operator|alignas")


def _balanced(text):
    depth = 0
    for c in text:
        depth += (c == "(") - (c == ")")
        if depth < 0:
            return False
    return depth == 0


def of_line(line, code) -> Iterator[tuple]:
    """(kind, changed line) for each mistake; `code` is the line with strings and comments blanked."""
    for kind, pattern, instead in SWAPS:
        for m in re.finditer(pattern, code):
            yield kind, line[: m.start()] + instead + line[m.end():]
    for m in NUMBER.finditer(code):
        value = int(m.group(1))
        yield "constant", line[: m.start(1)] + str(value + 1) + line[m.end(1):]
        if value > 0:
            yield "constant", line[: m.start(1)] + str(value - 1) + line[m.end(1):]
    for m in FLOAT.finditer(code):
        yield "constant", line[: m.start(1)] + repr(float(m.group(1)) * 2 + (m.group(1).strip("0.") == "")) + line[m.end(1):]
    for m in ARGUMENTS.finditer(code):
        if m.group(1) != m.group(2):
            yield "arguments", f"{line[: m.start()]}{line[m.start(2):m.end(2)]}, {line[m.start(1):m.end(1)]}{line[m.end():]}"
    if STATEMENT.match(code) and _balanced(code):
        yield "statement", re.match(r"\s*", line).group() + ";"
    m = CONDITION.match(code)
    if m and _balanced(m.group(2)) and ";" not in m.group(2):
        yield "condition", f"{line[: m.start(2)]}!({line[m.start(2):m.end(2)]}){line[m.end(2):]}"
        if "while" not in m.group(1):
            yield "condition", f"{line[: m.start(2)]}({line[m.start(2):m.end(2)]}) && false{line[m.end(2):]}"
    m = RETURN.match(code)
    if m and _balanced(m.group(2)) and m.group(2) != "{}":
        yield "return", line[: m.start(2)] + "{};"


def of_text(path, text):
    """All mistakes of a file, in order of lines."""
    lines, blanked = text.split("\n"), code_of(text).split("\n")
    # Where a file has code for another processor or another device, tests here cannot see it.
    found, seen = [], set()
    for number, (line, code) in enumerate(zip(lines, blanked), 1):
        if not code.strip() or SKIPPED.search(code):
            continue
        for kind, after in of_line(line, code):
            if after != line and (number, after) not in seen:
                seen.add((number, after))
                found.append(Mistake(path, number, kind, line, after))
    return found


def planted(text, mistake):
    lines = text.split("\n")
    assert lines[mistake.line - 1] == mistake.before, f"{mistake.path} is not the file the mistake was found in"
    lines[mistake.line - 1] = mistake.after
    return "\n".join(lines)
