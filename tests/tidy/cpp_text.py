"""C++ as text, for what reads it without a compiler: tests/tidy, tests/unity.py."""
import os
import re


def code_of(text):
    """Comments, strings and characters blanked; lines kept."""
    pattern = r'R"(\w*)\(.*?\)\1"|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\''
    return re.sub(pattern, lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.S)


def own_headers(path, text, there, root=""):
    """The headers of ours that the source or header at `path` includes; `there` says of a path whether it is one."""
    for name in re.findall(r'^#include "([^"]+)"', text, re.M):
        for folder in (root, os.path.dirname(path), os.path.join(root, "plugin/include"), os.path.join(root, "tests")):
            other = os.path.normpath(os.path.join(folder, name))
            if there(other):
                yield other
                break
