"""Which programs a shell script calls: enough of the language to read the repository's own scripts.

Commands inside quotes, substitutions, arrays and functions are seen, and those that a wrapper (env, exec, a function
that ends in "$@") is handed. What is known only at run time ("$program") is not.
"""
import re

RESERVED = {"if", "then", "else", "elif", "fi", "while", "until", "do", "done", "esac", "!", "{", "}", "time"}
BUILTIN = set(""". : [ [[ alias break builtin cd command continue declare echo eval exec exit export false getopts hash
 let local mapfile popd printf pushd pwd read readonly return set shift shopt source test trap true type ulimit umask
 unset wait kill""".split())
# Programs that run another: how many of their own arguments come first, and which options take a value.
WRAPPERS = {"env": (0, "-u"), "exec": (0, "-a"), "command": (0, ""), "sudo": (0, "-u"), "nice": (0, "-n"),
            "nohup": (0, ""), "setpriv": (0, "--pdeathsig"), "unshare": (0, ""), "chroot": (1, ""), "xargs": (0, "-n -I -P"), "time": (0, "")}


class Reader:
    """Splits a script into simple commands, each a list of words as written; `inside` names the function."""

    def __init__(self, text):
        self.text, self.at, self.commands, self.arrays, self.functions = text, 0, [], {}, set()
        self.inside, self.opened, self.heredocs = None, -1, []

    def closing(self, opening, shut):
        """Skips to what closes `opening`, which has been read."""
        depth = 1
        while self.at < len(self.text) and depth:
            here = self.text[self.at]
            depth += (here == opening) - (here == shut)
            self.at += 1

    def quoted(self):
        """The rest of a double-quoted piece; substitutions in it are read."""
        while self.at < len(self.text) and self.text[self.at] != '"':
            if self.text[self.at] == "\\":
                self.at += 2
            elif not self.substitution():
                self.at += 1
        self.at += 1

    def substitution(self):
        text, at = self.text, self.at
        if text.startswith("$((", at):
            self.at = text.index("))", at) + 2
        elif text.startswith(("$(", "<(", ">("), at):
            self.at += 2
            self.read(")")
        elif text.startswith("${", at):
            self.at += 2
            self.closing("{", "}")
        elif text[at] == "`":
            end = text.index("`", at + 1)
            self.commands += commands_of(text[at + 1:end])
            self.at = end + 1
        else:
            return False
        return True

    def word(self):
        text, start = self.text, self.at
        while self.at < len(text):
            here = text[self.at]
            if here in " \t\n;&|)":
                break
            if here in "<>" and not text.startswith(("<(", ">("), self.at):
                break
            if here == "(":
                name = re.fullmatch(r"(\w+)\+?=", text[start:self.at])
                if not name:
                    break
                self.at += 1
                before = len(self.commands)
                self.read(")")  # an array's words look like commands: kept aside
                self.arrays.setdefault(name[1], []).extend(w for c in self.commands[before:] for w in c[1])
                del self.commands[before:]
            elif here == "\\":
                self.at += 2
            elif here == "'":
                self.at = text.index("'", self.at + 1) + 1
            elif here == '"':
                self.at += 1
                self.quoted()
            elif not self.substitution():
                self.at += 1
        return text[start:self.at]

    def skip_heredocs(self):
        for end in self.heredocs:
            found = re.compile(rf"^\t*{re.escape(end)}$", re.M).search(self.text, self.at)
            self.at = found.end() if found else len(self.text)
        self.heredocs = []

    def read(self, shut=""):
        """Commands up to `shut`, or the end."""
        words, cases = [], 0

        def end():
            nonlocal words
            if words:
                self.commands.append((self.inside, words))
            words = []

        while self.at < len(self.text):
            here = self.text[self.at]
            if here == shut:
                break
            if here == "\n":
                end()
                self.at += 1
                self.skip_heredocs()
                if self.text.startswith("}", self.at):  # a function's end stands in the first column
                    self.inside = None
            elif here in " \t" or self.text.startswith("\\\n", self.at):
                self.at += 1 if here in " \t" else 2
            elif here == "#":
                self.at = (self.text + "\n").index("\n", self.at)
            elif cases and self.text.startswith(";;", self.at):
                end()
                self.at += 2
                self.pattern()
            elif here in ";&|()":
                end()
                self.at += 1
            elif here in "<>" and not self.text.startswith(("<(", ">("), self.at):
                self.redirection()
            else:
                cases = self.take(words, cases)
        end()
        self.at += 1

    def redirection(self):
        mark = re.compile(r"<<-?(?!<)|<<<|[<>]+[&|]?").match(self.text, self.at)
        self.at = mark.end()
        while self.text[self.at:self.at + 1] in (" ", "\t"):
            self.at += 1
        target = self.word()
        if mark[0] in ("<<", "<<-"):
            self.heredocs.append(target.strip("'\""))

    def take(self, words, cases):
        word = self.word()
        if not words and word == "case":
            self.at = self.text.index(" in", self.at) + 3
            self.pattern()
            return cases + 1
        if not words and word in ("for", "select"):
            self.at = re.compile(r"(\\\n|[^;\n])*").match(self.text, self.at).end()
            return cases
        if not words and word == "esac":
            return cases - 1
        if not words and word in RESERVED:
            if word == "}" and self.text.rfind("\n", 0, self.at) <= self.opened:
                self.inside = None  # a function in one line
            return cases
        if not words and self.text.startswith("()", self.at):
            self.functions.add(word)
            self.opened = self.at
            self.inside, self.at = word, self.at + 2
            return cases
        if word and not (re.match(r"\d+$", word) and self.text[self.at:self.at + 1] in "<>"):
            words.append(word)
        return cases

    def pattern(self):
        """Skips `a | b)` before an arm's commands, or stops before esac."""
        rest = re.compile(r"(\s|#[^\n]*\n)*(?!\s|esac\b)[^)]*\)").match(self.text, self.at)
        if rest:
            self.at = rest.end()


def commands_of(text):
    reader = Reader(text)
    reader.read()
    for _, words in list(reader.commands):  # an array in front of a command is its beginning
        name = re.fullmatch(r'"\$\{(\w+)\[@\]\}"', words[0])
        if name and name[1] in reader.arrays:
            words[:1] = [w for w in reader.arrays[name[1]] if not w.startswith('"$')]
    hands_on = {inside for inside, words in reader.commands if inside and plain(words)[:1] == ['"$@"']}
    called = [(i, ["command", *words[1:]] if words[0] in hands_on else words) for i, words in reader.commands]
    return [(i, words) for i, words in called if words[0] not in reader.functions]


def plain(words, wrappers=None):
    """The words without what stands before the program: assignments and wrappers, which go into `wrappers`."""
    words = list(words)
    while words:
        if re.match(r"\w+\+?=", words[0]):
            words.pop(0)
        elif words[0] in WRAPPERS:
            own, valued = WRAPPERS[words[0]]
            if wrappers is not None:
                wrappers.append(words[0])
            words.pop(0)
            while words and re.match(r"-|\w+=|\"\$\{\w+\[@\]\}\"$", words[0]):
                if words.pop(0) in valued.split() and words:
                    words.pop(0)
            del words[:own]
        else:
            break
    return words


def programs(text):
    """Names of the programs that a script calls, those asked for with `command -v` and wrappers among them."""
    for _, words in commands_of(text):
        if words[:2] == ["command", "-v"]:
            yield from words[2:3]
            continue
        wrappers = []
        rest = plain(words, wrappers)
        yield from (w for w in wrappers if w not in BUILTIN | RESERVED)
        if not rest:
            continue
        name = rest[0].strip("'\"")
        if name.split("/")[-1] in ("sh", "bash") and "-c" in rest:
            yield from programs(rest[rest.index("-c") + 1].strip("'\""))
        if name == "trap" and rest[1][0] in "'\"":
            yield from programs(rest[1].strip("'\""))
        if name == "cmake" and "Ninja" in rest:
            yield "ninja"
        if re.fullmatch(r"[\w.+/-]+", name) and name not in BUILTIN:
            yield name
