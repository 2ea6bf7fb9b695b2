"""Every bench answers --help with its usage, and an option that it does not have with an error; neither begins to measure.

    usage_test.py BENCH...
"""
import os
import subprocess
import sys

failures = []


def run(program, word):
    try:
        return subprocess.run([program, word], stdin=subprocess.DEVNULL, capture_output=True, timeout=60, text=True)
    except subprocess.TimeoutExpired:
        failures.append(f"{program} {word}: still runs")
        return None


for program in sys.argv[1:]:
    name = os.path.basename(program)
    asked, unknown = run(program, "--help"), run(program, "--no-such-option")
    # bench_scenes_accuracy reads its options with CLI11, whose words are others.
    if asked and not (asked.returncode == 0 and name in asked.stdout and "usage: " in asked.stdout.lower() and not asked.stderr):
        failures.append(f"{name} --help: {asked}")
    if unknown and not (unknown.returncode != 0 and "--no-such-option" in unknown.stderr and not unknown.stdout):
        failures.append(f"{name} --no-such-option: {unknown}")
if len(sys.argv) == 1:
    failures.append("no bench was named")
print("\n".join(failures) if failures else f"usage: {len(sys.argv) - 1} benches say it")
sys.exit(1 if failures else 0)
