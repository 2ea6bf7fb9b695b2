"""Every option of every command that takes a number: what is none, and what is out of its range, is refused with the
option, what was given and what is allowed.

    numbers_test.py SLUICE
"""
import os
import re
import subprocess
import sys

SLUICE = os.path.abspath(sys.argv[1])
failures = []
NONE = ["hot", "", " 5", "5 ", "1x", "nan", "inf", "-inf", "1e999", "1,5", "--5"]
NOT_WHOLE = ["1.5", "1e3", "99999999999999999999999", "-99999999999999999999999"]


def sluice(*arguments):
    return subprocess.run([SLUICE, *arguments], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)


def commands(*above):
    """Each command that can be typed, from what the help lists."""
    listed = re.search(r"^Subcommands:\n((?:  .*\n)+)", sluice(*above, "--help").stdout, re.M)
    if not listed:
        return [above]
    return [found for line in listed[1].splitlines() if re.match(r"  [a-z]", line) for found in commands(*above, line.split()[0])]


def below(number):
    return f"{number - 1:g}" if abs(number) < 1e6 else str(int(number) - 1)


def plain(number):
    """As people write it, not 1e-06."""
    return f"{float(number):.9f}".rstrip("0").rstrip(".") if re.search("[.e]", number) else number


def check(command, name, kind, least, most):
    whole = kind != "FLOAT"
    wrong = list(NONE) + (NOT_WHOLE if whole else [])
    allowed = "a whole number" if whole else "a number"
    if least:
        wrong += [below(float(least)), f"{float(most) * 10:.0f}"]
        allowed += f" from {plain(least)} to {plain(most)}"
    elif kind == "UINT":
        wrong += ["-1"]
        allowed += ", 0 or more"
    for given in wrong:
        done = sluice(*command, f"{name}={given}") if given else sluice(*command, name, "")
        wide = " and of 64 bits at most" if not least and re.fullmatch("-?[0-9]{19,}", given) else ""
        line = f"error: {name} is '{given}', it must be {allowed}{wide}{', in seconds' if name == '--join-within' else ''}\n"
        if done.returncode != 2 or done.stdout or not done.stderr.startswith(line):
            failures.append(f"sluice {' '.join(command)} {name}={given!r}: {done.returncode}, {done.stderr or done.stdout!r}")


def main():
    checked = set()
    for command in commands():
        for name, kind, least, most in re.findall(
                r"^ +(?:-\w, ?)?(--[a-z-]+)(?:,--[a-z-]+)? +(U?INT|FLOAT)(?::U?(?:INT|FLOAT) in \[(\S+) - (\S+)\])?",
                sluice(*command, "--help").stdout, re.M):
            check(command, name, kind, least, most)
            checked.add((kind, bool(least)))
            checked.add(" ".join((*command, name)))
    for wanted in ("run --temperature", "run --seed", "run --concurrency", "simulate --rate", "test --seeds", "chat --top-k",
                   "model ask --top-p", "model bench --batch", "pool trace --blocks", ("INT", False), ("UINT", False),
                   ("FLOAT", False), ("FLOAT", True)):
        if wanted not in checked:
            failures.append(f"{wanted} is not among {sorted(map(str, checked))}")
    # What may be given still is: the option is no part of what is wrong.
    for given in ("0", "+1", "1.5", "2e1", "100"):
        done = sluice("model", "ask", "nowhere", "x", f"--temperature={given}")
        if "--temperature" in done.stderr or "nowhere" not in done.stderr:
            failures.append(f"--temperature {given}: {done.stderr}")
    print("\n".join(failures) if failures else "all as expected")
    sys.exit(1 if failures else 0)


main()
