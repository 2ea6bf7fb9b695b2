"""Ctrl-C, SIGTERM or SIGHUP while `sluice run` draws: it asks the roles to stop, and the call ends with an outcome.

    interrupt_test.py SLUICE REPOSITORY
"""
import os
import signal
import subprocess
import sys
import tempfile

SLUICE, ROOT = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
failures = []


def expect(what, condition, seen):
    if not condition:
        failures.append(f"{what}: {seen!r}")


def mask(process, name):
    """The signals of a process that are caught (SigCgt) or that wait (ShdPnd), as bits."""
    with open(f"/proc/{process.pid}/status", encoding="utf-8") as status:
        return int(next(line for line in status if line.startswith(name + ":")).split()[1], 16)


def listens(process, how):
    """True when the program has a handler for the signal, which it has from the start of the call on."""
    return mask(process, "SigCgt") >> (how - 1) & 1 == 1


def ends(how):
    with tempfile.TemporaryDirectory() as scratch:
        trace, picture = (os.path.join(scratch, name) for name in ("trace.json", "picture.png"))
        drawing = subprocess.Popen(
            [SLUICE, "run", "workflows/image_chat.yaml", "--prompt", "draw a red circle", "--steps", "1000",
             "--out", picture, "--trace", trace], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        while drawing.poll() is None and not listens(drawing, how):
            pass
        drawing.send_signal(how)
        if how == signal.SIGHUP:  # a terminal that closes sends it twice
            while mask(drawing, "ShdPnd") >> (how - 1) & 1:
                pass
            drawing.send_signal(how)
        out, err = (text.decode() for text in drawing.communicate(timeout=120))
        expect("the call ends as cancelled", drawing.returncode == 128 + how and "the caller cancelled the call" in err,
               (drawing.returncode, out, err))
        expect("nothing was drawn", not out and not os.path.exists(picture), out)
        why = subprocess.run([SLUICE, "why", trace, "1"], capture_output=True, timeout=60)
        expect("its trace says so", b": error after" in why.stdout and b"the caller cancelled the call" in why.stdout,
               why.stdout)


def main():
    for how in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        ends(how)
    print("\n".join(failures) if failures else "all as expected")
    sys.exit(1 if failures else 0)


main()
