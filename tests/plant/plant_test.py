"""The planter itself: its mistakes are one line each, real, of every kind, and the same for the same seed.

    plant_test.py REPOSITORY
"""
import collections
import itertools
import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import mistakes  # noqa: E402
import plant  # noqa: E402

ROOT = os.path.abspath(sys.argv[1])
SNIPPET = """#include <a.h>
int f(int a, int b) {
  // a < b, true
  if (a < b && !ready(a, b)) return a + 1;
  call(a, "x < y", b);
  total += 2.5F;
  limit(100'000, 'x', 3);
  return std::min(a, b);
}
"""


def expect(condition, what):
    if not condition:
        sys.exit(what)


ABORTED = """
-------------------------------------------------------------------------------
a call that waits for ever
-------------------------------------------------------------------------------
tests/x_test.cpp:7
...............................................................................

tests/x_test.cpp:9: FAILED:
due to a fatal error condition:
  SIGABRT - Abort (abnormal termination) signal
"""


def main():
    expect(plant.case_that_failed(ABORTED) == "a call that waits for ever", "a case that waits is not named")
    expect(plant.case_that_failed("nothing of Catch2's\n") is None, "a case is named where there is none")
    found = mistakes.of_text("base/x.cpp", SNIPPET)
    after = {m.after.strip() for m in found}
    for line in ("if (a <= b && !ready(a, b)) return a + 1;", "if (a < b || !ready(a, b)) return a + 1;",
                 "if (a < b && ready(a, b)) return a + 1;", "if (a < b && !ready(b, a)) return a + 1;",
                 "if (a < b && !ready(a, b)) return a - 1;", "if (a < b && !ready(a, b)) return a + 2;",
                 "if (!(a < b && !ready(a, b))) return a + 1;", ";", "total -= 2.5F;", "total += 5.0F;",
                 "return std::max(a, b);", "return std::min(b, a);", "return {};"):
        expect(line in after, f"not among the mistakes: {line}\n" + "\n".join(sorted(after)))
    expect(all(m.line not in (1, 3) for m in found), "a comment or an include was changed")
    expect("limit(100'000, 'x', 4);" in after and not any("'001" in line or "99'" in line for line in after), "of 100'000")
    expect(not any('x <= y' in m.after for m in found), "a string was changed")
    for m in found:
        changed = mistakes.planted(SNIPPET, m).split("\n")
        differ = [i for i, (a, b) in enumerate(zip(SNIPPET.split("\n"), changed), 1) if a != b]
        expect(differ == [m.line], f"not one line: {m}")
    expect(mistakes.planted(SNIPPET, found[0]) != SNIPPET, "nothing was planted")

    everywhere = type("All", (), {"__contains__": lambda self, path: True})()
    places = plant.candidates(ROOT, list(plant.AREAS), everywhere)
    for area, those in places.items():
        expect(len(those) >= 50, f"{area} has only {len(those)} places for a mistake")
    kinds = {m.kind for those in places.values() for m in those}
    expect(kinds == {"comparison", "arithmetic", "logic", "bits", "constant", "call", "arguments", "statement", "condition",
                     "return"}, f"kinds of mistakes in the sources: {kinds}")
    first = list(itertools.islice(plant.draw(places, 7), 40))
    expect(first == list(itertools.islice(plant.draw(places, 7), 40)), "the same seed drew others")
    expect(first != list(itertools.islice(plant.draw(places, 8), 40)), "another seed drew the same")
    expect(len(set(first)) == 40, "a mistake was drawn twice")
    expect({os.path.dirname(m.path) for m in itertools.islice(plant.draw(places, 7), 1000)} == set(plant.AREAS),
           "1,000 draws leave a folder out")
    for prefix in plant.SLOWER:
        expect(any(area.startswith(prefix) for area in plant.AREAS), f"SLOWER: no area begins with {prefix}")
    for area in plant.AREAS:
        tests = plant.tests_of(area)
        expect(tests[: len(plant.AREAS[area])] == plant.AREAS[area] and len(set(tests)) == len(tests), f"tests of {area}")
        expect(all(not t.startswith("script:") or t[7:] in plant.SCRIPTS for t in tests), f"{area} has a script of no name")
    # Found again by their text, a few lines away: such as stand there once.
    texts = collections.Counter((m.path, m.before, m.after) for those in places.values() for m in those)
    first = [m for m in first if texts[m.path, m.before, m.after] == 1]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as report:
        for m, outcome in zip(first, ("survived", "noticed", "survived", "survived")):
            report.write(json.dumps({**m._asdict(), "line": m.line + 3, "outcome": outcome}) + "\n")
        report.write(json.dumps({**first[2]._asdict(), "line": first[2].line + 3, "outcome": "noticed"}) + "\n")
        report.write(json.dumps({**first[0]._asdict(), "before": "gone", "outcome": "survived"}) + "\n")
        report.flush()
        expect(list(plant.survivors_of(report.name, places)) == [first[0], first[3]], "what is tried again")
    place = type("Place", (), {"root": ROOT, "folder": ROOT})()
    for status, fails in ((0, False), (plant.SKIPPED, False), (1, True)):
        plant.SCRIPTS["ends"] = ["sh", "-c", f"exit {status}"]
        expect((plant.run_program(place, "script:ends", "sluice", 60) is not None) == fails, f"a test that ends with {status}")
    del plant.SCRIPTS["ends"]
    for script in plant.SCRIPTS.values():
        for word in script:
            expect(not word.startswith("tests/") or os.path.exists(os.path.join(ROOT, word)), f"there is no {word}")
    print(f"{sum(map(len, places.values()))} places, {len(kinds)} kinds")


main()
