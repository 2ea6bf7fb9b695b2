"""Every command's --help: it has examples, and each of them runs.

    help_test.py SLUICE REPOSITORY
"""
import os
import re
import shlex
import subprocess
import sys
import tempfile

SLUICE, ROOT = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
failures = []


def help_of(*command):
    return subprocess.run([SLUICE, *command, "--help"], capture_output=True, text=True, timeout=60, check=True).stdout


def commands(*above):
    """Each command that can be typed, from what the help lists."""
    listed = re.search(r"^Subcommands:\n((?:  .*\n)+)", help_of(*above), re.M)
    if not listed:
        return [above]
    found = []
    for line in listed[1].splitlines():
        if re.match(r"  [a-z]", line):
            found += commands(*above, line.split()[0])
    return found


def examples(text):
    """The lines under `Examples`; a line that ends with \\ or | goes on in the next."""
    begun = text.partition("\nExamples\n")[2]
    found = []
    for line in begun.splitlines():
        if not line.startswith("  "):
            break
        if found and re.search(r"[\\|&]$", found[-1]):
            found[-1] += "\n" + line.strip()
        else:
            found.append(line.strip())
    return found


def run_all(command, folder):
    for example in examples(help_of(*command)):
        done = subprocess.run(["bash", "-c", "set -o pipefail; sluice() { " + shlex.quote(SLUICE) + ' "$@"; }\n' + example],
                              cwd=folder, capture_output=True, text=True, errors="replace", timeout=300, stdin=subprocess.DEVNULL)
        if done.returncode != 0 or "error: " in done.stderr:
            failures.append(f"{' '.join(command)}: `{example}` ended with {done.returncode}: {done.stdout[-300:]}{done.stderr[-600:]}")


def main():
    known = commands()
    if len(known) < 12:
        failures.append(f"the help lists {known}")
    with tempfile.TemporaryDirectory() as folder:
        for part in ("workflows", "models", "tests", "examples"):
            os.symlink(os.path.join(ROOT, part), os.path.join(folder, part))
        for command in known:
            found = examples(help_of(*command))
            name = "sluice " + " ".join(command)
            if not any(name in example for example in found):
                failures.append(f"{name} --help has no example of its own: {found}")
            run_all(command, folder)
        # The program's own: `DIR` and the like stand for what the user has.
        for example in examples(help_of()):
            line = re.split(r" {3,}", example)[0]
            if not any(line.startswith("sluice " + " ".join(command)) for command in known):
                failures.append(f"the program's help shows {line!r}, which is no command")
    if "[]" in help_of("run"):
        failures.append("an empty list is shown as a default")
    for option, wanted in (("run --concurrency", "=8"), ("simulate --concurrency", "=8"), ("test --seeds", "=20"),
                           ("simulate --calls", "=100"), ("chat --context", "=4096"), ("model bench --precision", "=exact")):
        *command, name = option.split()
        line = re.search(rf"^ +{name}[ :].*$", help_of(*command), re.M)
        if not line or not re.search(rf"{wanted}( |$)", line[0]):
            failures.append(f"{option}: no default {wanted} in {line and line[0]!r}")
    print("\n".join(failures) if failures else "all as expected")
    sys.exit(1 if failures else 0)


main()
