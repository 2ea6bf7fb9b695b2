"""`sluice pool trace`: its figures beside a least-recently-used pool written here, and what it says of bad input.

    pool_test.py SLUICE
"""
import json
import os
import random
import re
import subprocess
import sys
import tempfile

SLUICE = os.path.abspath(sys.argv[1])
failures = []
# Blocks of the pool -> hits in percent, chosen and learned.
OURS = {20: [40.05, 40.05], 60: [62.29, 52.33], 200: [70.30, 70.30]}


def trace(path, *options):
    done = subprocess.run([SLUICE, "pool", "trace", path, *options], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


def expect(what, condition, seen):
    if not condition:
        failures.append(f"{what}: {seen!r}")


def requests_of(seed):
    """Conversations over a few shared beginnings, their turns in a random order."""
    chance = random.Random(seed)
    talks, requests, new = [[1, 2, 3], [1, 2, 4, 5]], [], 100
    for _ in range(400):
        if chance.random() < 0.3:
            talks.append(list(chance.choice(talks)[:3]))
        talk = chance.choice(talks[-12:])
        talk += range(new, new + chance.randrange(1, 5))
        new += 5
        requests.append(list(talk))
    return requests


def least_recently_used(requests, room):
    """Hits in percent. A request's blocks are touched from its end to its beginning, so that a beginning goes last."""
    pool, hits = {}, 0  # in the order of their last use
    for blocks in requests:
        for block in blocks:
            if block not in pool:
                break
            hits += 1
        for block in reversed(blocks):
            pool.pop(block, None)
            pool[block] = True
        while len(pool) > room:
            pool.pop(next(iter(pool)))
    return 100 * hits / sum(map(len, requests))


def write(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def figures(folder):
    requests = requests_of(5)
    lines = [json.dumps({"timestamp": 10 * i, "input_length": 9, "hash_ids": r}) for i, r in enumerate(requests)]
    path = write(folder, "trace.jsonl", "\n".join(lines))
    for room in (20, 60, 200):
        hit = {}
        for policy in ("chosen", "learned", "lru", "lfu-da", "s3-fifo", "sieve", "arc", "w-tinylfu", "temperatures", "optimum"):
            code, out, err = trace(path, "--blocks", str(room), "--policy", policy)
            expect(f"{policy}, {room} blocks", code == 0 and re.fullmatch(r"hit \d+\.\d\d\n", out), (code, out, err))
            hit[policy] = float(out.split()[1]) if code == 0 else -1
        own = least_recently_used(requests, room)
        expect(f"lru, {room} blocks, beside {own:.2f}", abs(hit["lru"] - own) < 0.006, hit)
        expect(f"nothing is above the optimum of {room} blocks", max(hit.values()) == hit["optimum"], hit)
        # What the policies of our own came to when they were last changed on purpose.
        expect(f"chosen and learned at {room}", [hit["chosen"], hit["learned"]] == OURS[room], hit)
        expect(f"the policy by default is ours at {room}", trace(path, "--blocks", str(room))[1] == f"hit {hit['chosen']:.2f}\n", hit)
    code, out, err = trace(path, "--blocks", "1000000", "--policy", "lru")
    endless = least_recently_used(requests, 10 ** 6)
    expect("a pool with room for all", out == f"hit {endless:.2f}\n", (code, out, err, endless))


def standard_input():
    for text, want in (('{"timestamp": 1, "hash_ids": [1, 2]}\n' * 2, (0, "hit 50.00\n", "")),
                       ("hello\n", (1, "", "error: standard input: line 1: expected '{' at column 1, found 'h'\n"))):
        done = subprocess.run([SLUICE, "pool", "trace", "-", "--blocks", "4"], input=text, capture_output=True, text=True, timeout=120)
        expect("a trace from standard input", (done.returncode, done.stdout, done.stderr) == want, done)


def errors(folder):
    good = '{"timestamp": 1, "hash_ids": [1, 2]}\n'
    for name, text, words in (
            ("empty", "", "no request in it"),
            ("no blocks", '{"timestamp": 1, "hash_ids": []}\n', "its requests have no blocks"),
            ("not JSON", good + "hello\n", "line 2: "),
            ("a text for a block", good + '{"timestamp": 1, "hash_ids": [1, "a"]}\n', "line 2: expected a whole number"),
            ("below nothing", good + '{"timestamp": 1, "hash_ids": [-1]}\n', "line 2: expected a whole number"),
            ("no blocks' list", good + good + '{"timestamp": 1}\n', "line 3: "),
            ("a block twice", '{"timestamp": 1, "hash_ids": [7, 7]}\n', "line 1: ")):
        path = write(folder, "bad.jsonl", text)
        code, out, err = trace(path, "--blocks", "10")
        expect(name, code == 1 and not out and "bad.jsonl: " in err and words in err, (code, out, err))
    code, out, err = trace(os.path.join(folder, "nowhere"), "--blocks", "10")
    expect("no such file", code == 1 and "nowhere cannot be opened: No such file" in err, (code, err))
    code, out, err = trace(folder, "--blocks", "10")
    expect("a folder", code == 1 and "cannot be read: Is a directory" in err, (code, err))
    path = write(folder, "good.jsonl", good)
    code, out, err = trace(path, "--blocks", "0")
    expect("no room", code != 0 and "--blocks" in err and "1 to" in err, (code, err))
    code, out, err = trace(path, "--blocks", "10", "--policy", "best")
    expect("an unknown policy", code == 2 and "'best'" in err and "optimum" in err and "lru" in err, (code, err))


def main():
    with tempfile.TemporaryDirectory() as folder:
        figures(folder)
        errors(folder)
        standard_input()
    for failure in failures:
        print(failure)
    sys.exit(1 if failures else 0)


main()
