"""What tests of `sluice run` share. The program that uses it is called with SLUICE REPOSITORY."""
import os
import re
import subprocess
import sys

SLUICE, ROOT = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
failures = []


def at(*path):
    return os.path.join(ROOT, *path)


CHAT = at("workflows/image_chat.yaml")
TABLE = at("models/scenes/samples/table.png")


def without_progress(err):
    """What stands on standard error beside how far it is, which is said of what takes some seconds."""
    return re.sub(r"(?m)^.*, \d+ s\n", "", err)


def sluice(*args, stdin=b"", stdout=subprocess.PIPE, seconds=120, cwd=ROOT, program=SLUICE):
    """Exit status, standard output, standard error; no status: it hung."""
    try:
        done = subprocess.run([program, *args], cwd=cwd, stdout=stdout, stderr=subprocess.PIPE, input=stdin, timeout=seconds)
    except subprocess.TimeoutExpired:
        return None, "", "it hung"
    return done.returncode, (done.stdout or b"").decode(errors="replace"), without_progress(done.stderr.decode(errors="replace"))


def closed_input(*args):
    return sluice("-c", 'exec "$0" "$@" <&-', SLUICE, *args, seconds=60, program="sh")


def expect(what, condition, seen):
    if not condition:
        failures.append(f"{what}: {seen}")
        if "SLUICE_FIRST_FAILURE_ENDS" in os.environ:
            sys.exit(failures[0])


def refused(what, *needles, status=1, args=(), **how):
    code, out, err = sluice("run", *args, **how)
    errors = [line for line in err.splitlines() if line.startswith("error: ")]
    expect(what, code == status and not out and len(errors) == 1 and all(n in errors[0] for n in needles), (code, out, err))


class Scratch:
    def __init__(self, folder):
        self.folder = folder

    def path(self, *name):
        return os.path.join(self.folder, *name)

    def file(self, name, data):
        with open(self.path(name), "wb") as f:
            f.write(data if isinstance(data, bytes) else data.encode())
        return self.path(name)

    def read(self, *name):
        try:
            with open(self.path(*name), "rb") as f:
                return f.read()
        except OSError as error:
            return str(error).encode()
