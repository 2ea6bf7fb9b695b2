"""`sluice why` of traces that are written here, so that every number of the answer is known.

    why_test.py SLUICE REPOSITORY
"""
import json
import re
import sys
import tempfile

from run_world import Scratch, expect, failures, sluice


def no_such(what, needle, *args):
    code, out, err = sluice(*args)
    expect(what, code == 1 and err.startswith("error: ") and needle in err and not out, (code, out, err))


def why_of(trace):
    code, out, err = sluice("why", trace, "0")
    expect("why", code == 0 and not err, (code, out, err))
    return out


def why_by_hand(file):
    def activity(call, span, node, begin, took, queued=0, travelled=0, **more):
        return {"ph": "X", "cat": "activation", "name": node, "ts": begin, "dur": took,
                "args": {"call": call, "span": span, "queued_us": queued, "travelled_us": travelled, **more}}

    def call(number, begin, took, **more):
        return {"ph": "X", "cat": "call", "name": f"call {number}", "ts": begin, "dur": took,
                "args": {"call": number, "session": "s", "status": "ok", **more}}

    events = [{"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "calls"}},
              call(0, 1000, 12000), call(1, 1500, 10000, status="error", cause="a", message="it broke"),
              activity(0, 0, "a", 2000, 3000, 500, 500), activity(0, 1, "b", 6000, 6000, 400, 600, after=0),
              activity(0, 2, "c", 3000, 1000, 0, 0, after=0), activity(1, 3, "a", 8500, 1000, 0, 7000),
              activity(2, 4, "a", 11000, 1000, 9000, 0),
              call(3, 1500, 7500, status="error", cause="", message="too late", behind=0, behind_us=4000),
              activity(3, 5, "a", 6500, 2000, 0, 5000),
              # `a` goes on when `b` has begun with what it made.
              call(4, 1000, 10000), activity(4, 6, "a", 1000, 9000), activity(4, 7, "b", 3000, 8000, 500, 500, after=6),
              # Many short ways are no reason for all; each node's own time counts.
              call(5, 0, 4400), activity(5, 9, "a", 600, 500, 0, 600), activity(5, 10, "b", 1700, 700, 0, 600, after=9),
              activity(5, 11, "c", 3000, 900, 0, 600, after=10),
              # A machine was lost amid its first beginning.
              call(6, 0, 3000, status="error", cause="b", message="machine 'x' is lost"), activity(6, 12, "a", 500, 900),
              call(6, 3000, 2000), activity(6, 13, "a", 3500, 1500)]
    trace = file("by_hand.json", json.dumps({"traceEvents": events}).encode())
    head = "       at ms    its turn  on its way    in queue      ran ms  node\n"
    for number, want in enumerate((
            "call 0 (s): ok after 12.000 ms\n" + head +
            "       1.000       0.000       0.500       0.500       3.000  a\n"
            "       5.000       0.000       0.600       0.400       6.000  b\n"
            "      in all       0.000       1.100       0.900       9.000  and 1.000 until the call ended\n"
            "  most of it: running b, 6.000 ms\n",
            "call 1 (s): error after 10.000 ms\n  cause: a: it broke\n" + head +
            "       7.000       0.000       7.000       0.000       1.000  a\n"
            "      in all       0.000       7.000       0.000       1.000  and 2.000 until the call ended\n"
            "  most of it: on the way to a, or waiting for its other inputs, 7.000 ms\n",
            "call 2 has not ended\n" + head +
            "      11.000       0.000       0.000       9.000       1.000  a\n"
            "      in all       0.000       0.000       9.000       1.000  -\n"
            "  most of it: waiting for a replica of a, 9.000 ms\n",
            "call 3 (s): error after 7.500 ms\n  cause: too late\n" + head +
            "       5.000       4.000       1.000       0.000       2.000  a\n"
            "      in all       4.000       1.000       0.000       2.000  and 0.500 until the call ended\n"
            "  most of it: its turn, behind call 0 of its session, 4.000 ms\n",
            "call 4 (s): ok after 10.000 ms\n" + head +
            "       0.000       0.000       0.000       0.000       1.000  a, and 8.000 more beside what follows\n"
            "       2.000       0.000       0.500       0.500       8.000  b\n"
            "      in all       0.000       0.500       0.500       9.000  -\n"
            "  most of it: running b, 8.000 ms\n",
            "call 5 (s): ok after 4.400 ms\n" + head +
            "       0.600       0.000       0.600       0.000       0.500  a\n"
            "       1.700       0.000       0.600       0.000       0.700  b\n"
            "       3.000       0.000       0.600       0.000       0.900  c\n"
            "      in all       0.000       1.800       0.000       2.100  and 0.500 until the call ended\n"
            "  most of it: running c, 0.900 ms\n",
            "call 6 (s): ok after 2.000 ms\n  it began 2 times, for a machine was lost; this is the last of them\n" + head +
            "       0.500       0.000       0.500       0.000       1.500  a\n"
            "      in all       0.000       0.500       0.000       1.500  -\n"
            "  most of it: running a, 1.500 ms\n")):
        code, out, err = sluice("why", trace, str(number))
        expect(f"why of call {number}", code == 0 and out == want, out)
        sums = re.search(r"in all +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+)(?:  and ([\d.]+))?", out)
        whole = re.search(r"after ([\d.]+) ms", out)
        expect(f"the parts of call {number} are its time", not whole or sums and
               abs(sum(float(part or 0) for part in sums.groups()) - float(whole[1])) < 0.002, out)
    late = [call(3, 0, 10000, status="error", cause="", message="too late", behind=2, behind_us=10000)]
    code, out, err = sluice("why", file("late.json", json.dumps({"traceEvents": late}).encode()), "3")
    expect("why of a call whose turn never came", code == 0 and out == "call 3 (s): error after 10.000 ms\n"
           "  cause: too late\n  no node ran\n  most of it: its turn, behind call 2 of its session, 10.000 ms\n", out)
    hostile = call(7, 0, 2000, status="error", cause="a\x1b[2J", message="it\nbroke\x07")
    hostile["args"]["session"] = "s\x1b[31m\x07\nall is well"
    code, out, err = sluice("why", file("hostile.json", json.dumps({"traceEvents": [hostile]}).encode()), "7")
    expect("words of others command no terminal", code == 0 and out.startswith(
        "call 7 (s\\x1b[31m\\x07\\nall is well): error after 2.000 ms\n  cause: a\\x1b[2J: it\\nbroke\\x07\n"), out)
    home = [{"ph": "M", "pid": 2, "name": "elsewhere", "args": {"nodes": ["b", "a", "c"]}},
            call(0, 1000, 12000), activity(0, 0, "a", 2000, 3000, 500, 500)]
    code, out, err = sluice("why", file("home.json", json.dumps({"traceEvents": home}).encode()), "0")
    expect("why over machines", code == 0 and out == "call 0 (s): ok after 12.000 ms\n" + head +
           "       1.000       0.000       0.500       0.500       3.000  a\n"
           "      in all       0.000       0.500       0.500       3.000  and 8.000 on other machines, or on the way there and back\n"
           "  the trace holds nothing of b, c: other machines run them, or would have\n"
           "  most of it: on other machines, or on the way there and back, 8.000 ms\n", out)
    no_such("why of a call too many", "no call 9, there are 7 (0 to 6)", "why", trace, "9")
    no_such("why of no calls at all", "no call 0, there are none", "why",
                   file("none.json", json.dumps({"traceEvents": []}).encode()), "0")
    many = [{"node": f"n{i}", "why": "it had no reason"} for i in range(23)] + [1, {"node": 1}, {"node": "x", "why": []}]
    said = why_of(file("many.json", json.dumps({"traceEvents": [call(0, 0, 1, skipped=many)]}).encode()))
    expect("why of many skipped nodes", "  did not run:\n    n0   it had no reason\n" in said and
           said.endswith("    n19  it had no reason\n    and 5 more\n"), said)
    for wrong in ("x", 1, None, {"node": "a"}, [], [1]):
        said = why_of(file("wrong_skips.json", json.dumps({"traceEvents": [call(0, 0, 1, skipped=wrong)]}).encode()))
        expect("why of what is no list of skipped nodes", "did not run" not in said, said)
    circle = file("circle.json", json.dumps({"traceEvents": [activity(0, 0, "a", 1, 2, after=0)]}).encode())
    # Members of another type are taken for none.
    for number, event in enumerate((
            {"ph": 1, "args": {}}, {"ph": "X", "cat": "call", "args": {"call": "x"}},
            {"ph": "X", "cat": "call", "args": {"call": 1e300}}, {"ph": "X", "cat": ["call"], "args": {"call": 0}},
            {"ph": "X", "cat": "call", "ts": {}, "dur": "x", "args": {"call": 0, "session": 1, "status": None,
                                                                     "cause": 1, "message": [], "behind": "x"}},
            {"ph": "X", "cat": "activation", "name": 1, "ts": "x", "args": {
                "call": 0, "span": 2 ** 64 - 1, "queued_us": None, "travelled_us": [], "after": "x"}})):
        code, out, err = sluice("why", file(f"types{number}.json", json.dumps({"traceEvents": [event]}).encode()), "0")
        expect(f"why of members of another type, {event}",
               (code == 0 and out.startswith("call 0 ")) if number > 3 else
               code == 1 and err.startswith("error: ") and "no call 0" in err, (code, out, err))
    expect("an activity of a circle is told once", why_of(circle).count("  a\n") == 1, "")


def main():
    with tempfile.TemporaryDirectory() as folder:
        why_by_hand(Scratch(folder).file)
    print("\n".join(failures) if failures else "all as expected")
    sys.exit(1 if failures else 0)


main()
