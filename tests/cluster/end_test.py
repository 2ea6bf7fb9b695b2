"""A `sluice run --cluster` that is told to end, wherever it is: it ends in order, and nothing of it is left.

    python3 end_test.py SLUICE ROOT

Nothing sleeps: conditions are polled until a deadline.
"""
from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile

from cluster_test import (ROOT, SLUICE, Home, Up, check, command_of, failures, line, run_and_clean, started, stat_of,
                          until, write_cluster)
from down_test import sluice, status

WORDS = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM", signal.SIGHUP: "SIGHUP"}


def files(run: str) -> list:
    return [name for _, _, names in os.walk(run) for name in names]


def nothing_left(run: str, cluster: str, what: str):
    check(not os.listdir(run), f"{what}: {[x for x in os.walk(run)]} is left")
    check(not [pid for pid in os.listdir("/proc") if pid.isdigit() and cluster in command_of(int(pid))],
          f"{what}: processes are left")


def write_point(name: str, how: signal.Signals, passage: int):
    """The signal that a process is sent at a named place; see base/failpoint.h."""
    with open(os.path.join(os.environ["SLUICE_FAILPOINTS"], name), "w", encoding="utf-8") as out:
        out.write(f"{int(how)} {passage}")


def while_it_starts(run: str, cluster: str):
    """As soon as it has made a file, and while it waits for machines that it has started."""
    for how in WORDS:
        for there in ("0.lock", "up.lock") if how == signal.SIGINT else ("up.lock",):
            home = subprocess.Popen([SLUICE, "run", "--cluster", cluster, "--prompt", "draw a star"], cwd=ROOT,
                                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            started.append(home)
            until(lambda: there in files(run), 10, f"{there} is made")
            home.send_signal(how)
            _, said = home.communicate(timeout=20)
            what = f"{how.name} once {there} is there"
            check(home.returncode == 128 + how and f"ended by {WORDS[how]}" in said, f"{what}: {home.returncode} {said}")
            nothing_left(run, cluster, what)


def while_calls_run(run: str, folder: str, cluster: str):
    for how in (signal.SIGTERM, signal.SIGHUP):
        home = Home(cluster, folder)
        check((home.call(0, 20) or {}).get("ok"), "the first call")
        write_point("front.call_begins", signal.SIGSTOP, 1)
        asked = home.ask(1)
        until(lambda: stat_of(home.process.pid)[:1] == ["T"], 10, "the call begins")
        home.process.send_signal(how)
        home.process.send_signal(signal.SIGCONT)
        result = home.answer(10)
        check(result is not None and result["id"] == asked and (result["ok"] or result["error"]["code"] == "cancelled"),
              f"{how.name} beside a call: {result}")
        check(home.process.wait(timeout=20) == 128 + how, f"{how.name} beside a call: {home.process.returncode}")
        home.process.stdin.close()
        home.process.stdout.close()
        nothing_left(run, cluster, f"{how.name} beside a call")


def reader_goes(run: str, folder: str, cluster: str):
    calls = os.path.join(folder, "many.jsonl")
    with open(calls, "w", encoding="utf-8") as out:
        out.writelines(line(2 * number, f"q{number}") + "\n" for number in range(40))
    home = subprocess.Popen([SLUICE, "run", "--cluster", cluster, "--calls", calls, "--concurrency", "1"], cwd=ROOT,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    started.append(home)
    check(json.loads(home.stdout.readline() or "{}").get("ok"), "the line that is read")
    home.stdout.close()
    said = home.stderr.read()
    check(home.wait(timeout=20) == 1 and "standard output cannot be written" in said, f"{home.returncode} {said}")
    home.stderr.close()
    nothing_left(run, cluster, "a reader that goes")


def status_meanwhile(run: str, folder: str, cluster: str):
    """`status` of a home that waits for a machine to end, which stands still."""
    home = Home(cluster, os.path.join(folder, "out"))
    check((home.call(0, 20) or {}).get("ok"), "the first call")
    before = status(cluster)
    write_point("eyes.told_to_end", signal.SIGSTOP, 1)
    home.process.send_signal(signal.SIGTERM)
    until(lambda: stat_of(before["eyes"]["pid"])[:1] == ["T"], 10, "eyes stands still")
    # Both at once: a machine that stands still is waited for no longer than five seconds.
    text = subprocess.Popen([SLUICE, "status", "--cluster", cluster], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    front = status(cluster)["front"]
    text = text.communicate(timeout=20)[0]
    check(before["front"]["process"] == "ready" and front["process"] == "ending" and
          f"front  pid {home.process.pid}, ending" in text, f"a home that ends: {front} {text}")
    with contextlib.suppress(ProcessLookupError):
        os.kill(before["eyes"]["pid"], signal.SIGKILL)
    check(home.process.wait(timeout=20) == 128 + signal.SIGTERM, f"{home.process.returncode}")
    home.process.stdin.close()
    home.process.stdout.close()
    nothing_left(run, cluster, "a machine that stands still at the end")


def again_at_the_end(run: str, cluster: str):
    """Ctrl-C while machines are told to end, the call having ended: the first says what the next does."""
    for which in ("run", "up"):
        if which == "run":
            command = ["run", "--cluster", cluster, "--prompt", "draw a star", "--out", os.path.join(run, "..", "star.png")]
        else:
            command = ["up", cluster]
        write_point("eyes.told_to_end", signal.SIGSTOP, 1)
        process = subprocess.Popen([SLUICE, *command], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, start_new_session=True)
        started.append(process)
        if which == "up":
            for _ in range(3):
                process.stdout.readline()
            process.send_signal(signal.SIGINT)
        eyes = lambda: [pid for pid in os.listdir("/proc") if pid.isdigit() and "eyes" in command_of(int(pid))
                        and cluster in command_of(int(pid)) and stat_of(int(pid))[:1] == ["T"]]
        until(eyes, 20, f"{which}: eyes stands still")
        if which == "run":
            process.send_signal(signal.SIGINT)
            check("press Ctrl-C again to end at once" in process.stderr.readline(), f"{which}: it is told")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        check(process.returncode == -signal.SIGINT, f"{which}: another Ctrl-C: {process.returncode}")
        until(lambda: not eyes(), 20, f"{which}: the kernel ends the machines")
        if which == "run":
            sluice("down", "--cluster", cluster)
        nothing_left(run, cluster, f"{which}: another Ctrl-C")


def two_at_once(run: str, cluster: str):
    """`up` that is told to end twice in one moment: its machines end in order, and it leaves nothing."""
    for _ in range(3):
        up = subprocess.Popen([SLUICE, "up", cluster], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started.append(up)
        for _ in range(3):
            up.stdout.readline()
        up.send_signal(signal.SIGTERM)
        up.send_signal(signal.SIGTERM)
        up.communicate(timeout=60)
        check(up.returncode in (0, -signal.SIGTERM), f"two SIGTERM at once: {up.returncode}")
        nothing_left(run, cluster, "two SIGTERM at once")


def up_loses_its_terminal(run: str, cluster: str):
    up = Up(cluster)
    up.stop(signal.SIGHUP)
    check(up.process.returncode == 0, f"`up` without its terminal: {up.process.returncode}")
    nothing_left(run, cluster, "`up` without its terminal")


def main():
    with tempfile.TemporaryDirectory() as folder:
        run = os.path.join(folder, "run")
        os.mkdir(run, 0o700)
        os.environ["XDG_RUNTIME_DIR"] = run
        os.environ["SLUICE_FAILPOINTS"] = os.path.join(folder, "fail")
        os.mkdir(os.environ["SLUICE_FAILPOINTS"])
        cluster = write_cluster(folder)
        while_it_starts(run, cluster)
        while_calls_run(run, os.path.join(folder, "out"), cluster)
        reader_goes(run, folder, cluster)
        status_meanwhile(run, folder, cluster)
        again_at_the_end(run, cluster)
        two_at_once(run, cluster)
        up_loses_its_terminal(run, cluster)
    print(f"told to end: {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    run_and_clean(main)
