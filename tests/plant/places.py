"""Sees to it that every piece of source that the tables of planted mistakes replace still stands where they say, once.
Takes no build and no time, so a change of a source is told at once which row it left behind.

    python3 places.py ROOT
"""
from __future__ import annotations

import importlib.util
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import planted  # noqa: E402

TABLES = {"tests/sim/mutants.py": "MUTANTS", "tests/dataplane/mutants.py": "MUTANTS",
          "tests/index/mutants.py": "MUTANTS", "tests/plant/chosen.py": "MISTAKES"}


def rows(path: str, table: str):
    spec = importlib.util.spec_from_file_location("table", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, table)


def main(root: str) -> int:
    wrong, seen = [], 0
    for path, table in TABLES.items():
        found = rows(f"{root}/{path}", table)
        seen += len(found)
        wrong += [f"{path}: {words}" for words in planted.misplaced(found, root)]
    print("\n".join(wrong) or f"{seen} pieces, each where its row says")
    return 1 if wrong or not seen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
