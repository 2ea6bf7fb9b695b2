#!/usr/bin/env python3
"""Our transfer of pages between two processes of one computer beside Mooncake's store and NIXL, by turns.

Usage: pool_peers.py BENCH_PAGE_PULL [--venv DIR] [--rounds 5] [--peers mooncake,nixl] [--sizes 64,1024,16384]

The peers' packages are installed from PyPI into DIR, or into a temporary folder that is removed afterwards. Objects of
64 KiB, 1 MiB and 16 MiB: 64 MiB of them in one call, and one alone. What is measured:

    get    from the other process into this one's memory
    put    into this process's own memory, where others find it from now on
    give   from memory of this process's that the peer's way has (a pool's, a registered buffer) into the other's

`give` begins where the bytes stand in that memory already, as an engine or a program writes them there, and ends when
the other process has them. There is no pushing in ours: pages are published here, the other process is told through a
pipe, finds and pulls them, verifies each, and says so through another; all of that is timed. Mooncake's is a put into
the other process's segment, NIXL's a write to an address that it knows, into memory that nobody else uses; nobody there
is told, and nothing is verified in that time: what came is compared behind it.

Ours names pages by their content (HMAC-SHA-256), asks the other who has them, checks what came (CRC-32C) and puts it
into the pool, which gives up others for it. Mooncake's store asks its master (a third process) where an object is, and checks
no bytes. NIXL moves bytes between known addresses: nobody looks anything up or checks. Ours runs over tcp, ipc in messages,
and ipc through memory that both have; Mooncake's over TCP, its only way here; NIXL's UCX over tcp, and by the ways
within a computer (posix, sysv, cma). Of a peer's settings the best one counts. Without PyPI the exit status is 77: skipped.
A peer that cannot be installed or does not run is an error that names it (status 1); the others are measured.
"""
import argparse
import contextlib
import os
import pathlib
import select
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

# Of NIXL's dependencies torch has gigabytes, and host memory needs only the other one.
PACKAGES = {"mooncake": [["mooncake-transfer-engine-non-cuda==0.3.13.post1"]],
            "nixl": [["numpy"], ["--no-deps", "nixl-cu12==1.5.1"]]}
HERE = pathlib.Path(__file__).resolve().parent
ALL = 64 << 20
SIZES = 64 << 10, 1 << 20, 16 << 20
TIMED = {"get": "ours from the question or the look at the other's directory on, verified, in a pool; theirs a read of "
                "known addresses (NIXL) or names (Mooncake)",
         "put": "from memory to where others find it; ours with the copy into the pool",
         "give": "from where it stands in the pool or in registered memory; ours published, told, pulled and verified by "
                 "the other process, and said; theirs written there, and neither told nor verified in that time"}
PATIENCE = 60  # seconds for one answer
SKIPPED = 77


class Failed(Exception):
    pass


def last_line(text):
    return (text.strip() or "nothing was said").split("\n")[-1]


class Worker:
    """A process that answers each line with a line; what it says otherwise is in `log`."""

    def __init__(self, command, log, env=None):
        self.log = log
        with open(log, "wb") as file:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file,
                                            env={**os.environ, **(env or {})}, text=True, bufsize=1,
                                            start_new_session=True)

    def line(self):
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        said = self.process.stdout.readline() if ready else ""
        if not said:
            last = last_line(pathlib.Path(self.log).read_text(errors="replace"))
            raise Failed(f"{'ended' if ready else f'no answer within {PATIENCE} s'}: {last}")
        return said

    def ask(self, *words):
        try:
            print(*words, file=self.process.stdin, flush=True)
        except BrokenPipeError:
            pass  # what it said last tells more
        return [float(word) for word in self.line().split()]

    def signal(self, number):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def end(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL)
            self.process.wait()


class System:
    """One way to move objects, with one setting. `kind`: tcp, or memory for ways that only one computer has."""

    def __init__(self, owner, kind, setting, ops, start):
        self.owner, self.kind, self.setting, self.ops, self.start = owner, kind, setting, ops, start
        self.workers, self.times, self.error = [], {}, None

    def begin(self):
        for worker in self.start():  # each starts when the one before is ready
            self.workers.append(worker)
        self.signal(signal.SIGSTOP)

    def turn(self, size):
        """All operations of one size. Between turns the peers' processes stand still: some wait by spinning."""
        self.signal(signal.SIGCONT)
        for op in self.ops:
            for count, repeats in ((ALL // size, 3), (1, 11)):
                took = self.workers[-1].ask(op, size, count, repeats)
                self.times.setdefault((op, size, count), []).extend(took[1:])  # the first one warms up
        self.signal(signal.SIGSTOP)

    def signal(self, number):
        """To the peers': ours waits without spinning, and one that stands still for long loses its links."""
        for worker in self.workers if self.owner != "ours" else ():
            worker.signal(number)

    def median(self, op, size, count):
        """None: it has no such operation."""
        return statistics.median(self.times[op, size, count]) if op in self.ops else None

    def end(self):
        self.signal(signal.SIGCONT)
        for worker in reversed(self.workers):
            worker.end()
        self.workers = []

    @contextlib.contextmanager
    def errors(self):
        try:
            yield
        except Failed as error:
            self.error = str(error)
            print(f"error: {self}: {error}", flush=True)
            self.end()

    def __str__(self):
        return f"{self.owner} {self.setting}"


def ours(program, way, folder):
    yield Worker([program, "--turns", way], f"{folder}/ours-{way}.log")


def mooncake(python, port, lanes, folder):
    log = tempfile.mkdtemp(dir=folder)
    settings = {"MC_TCP_ENABLE_CONNECTION_POOL": "1", "MC_TCP_LANES_PER_PEER": str(lanes)} if lanes else {}
    yield Worker([python.parent / "mooncake_master", "-rpc_port", str(port), "-rpc_address", "127.0.0.1",
                  "-metrics_port", str(port + 1), "-metrics_host", "127.0.0.1", "-client_ttl", "600"], f"{log}/master")
    answers_at(port)
    for role in ("hold", "use"):
        worker = Worker([python, HERE / "pool_mooncake.py", role, f"127.0.0.1:{port}"], f"{log}/{role}", settings)
        yield worker
        worker.line()


def answers_at(port):
    until = time.monotonic() + 20
    while time.monotonic() < until:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        os.sched_yield()
    raise Failed("its master does not answer")


def nixl(python, ways, threads, folder):
    place = tempfile.mkdtemp(dir=folder)
    started = []
    for role in ("hold", "use"):
        started.append(Worker([python, HERE / "pool_nixl.py", role, place, str(threads)], f"{place}/{role}.log",
                              {"UCX_TLS": ways}))
        yield started[-1]
    for worker in started:
        worker.line()


def install(peer, folder):
    """The Python that has it. Raises Failed."""
    python = folder / peer / "bin" / "python3"
    # With this Python's own pip: Debian's venv brings one only where python3-venv is installed.
    steps = [] if python.exists() else [[sys.executable, "-m", "venv", "--without-pip", folder / peer]]
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet"]
    for step in steps + [[*pip, *packages] for packages in PACKAGES[peer]]:
        done = subprocess.run(step, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            raise Failed(f"cannot be installed: {last_line(done.stdout)}")
    return python


def reaches_pypi(folder):
    """Whether anything can be had from there: a small package of nothing but Python."""
    return subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--retries", "0", "--dest",
                           folder, "idna"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def systems(options, venvs, folder):
    """Ours, then what could be installed; and the errors of the rest."""
    made = [System("ours", "tcp" if way.startswith("tcp") else "memory", f"over {name}",
                   ("get", "put", "give"), lambda way=way: ours(options.program, way, folder))
            for way, name in (("tcp", "tcp"), ("tcp-messages", "tcp in messages"), ("messages", "ipc in messages"),
                              ("ipc", "ipc in shared memory"), ("mapped", "ipc, mapped"))]
    errors = 0
    for peer in options.peers:
        try:
            python = install(peer, venvs)
        except Failed as error:
            print(f"error: {peer}: {error}", flush=True)
            errors += 1
            continue
        if peer == "mooncake":
            made += [System(peer, "tcp", f"over tcp, {f'{lanes} kept connections' if lanes else 'as it is'}",
                            ("get", "put", "give"),
                            lambda lanes=lanes, python=python: mooncake(python, 47401 + 10 * lanes, lanes, folder))
                     for lanes in (0, 1, 4)]
        else:
            made += [System(peer, kind, f"over {ways.replace(',', ' ')}, {threads} threads", ("get", "give"),
                            lambda ways=ways, threads=threads, python=python: nixl(python, ways, threads, folder))
                     for kind, ways in (("tcp", "tcp,self"), ("memory", "tcp,posix,sysv,cma,self")) for threads in (0, 2)]
    return made, errors


def measure(made, rounds, sizes):
    """By turns. A system that fails is not asked again."""
    for size in sizes:
        for _ in range(rounds):
            for system in made:
                if system.error is None:
                    with system.errors():
                        system.turn(size)


def report(made, sizes):
    print(f"{'':28}{'64 MiB in one call':>44}{'one object':>34}")
    good = [system for system in made if system.error is None]
    for op, is_what in TIMED.items():
        print(f"{op}: {is_what}")
        for size in sizes:
            several = ALL // size
            print(f"{op}, {size >> 10} KiB")
            for system in good:
                took, one = system.median(op, size, several), system.median(op, size, 1)
                if took is not None:
                    print(f"  {system!s:42} {ALL / took / 1e9:8.2f} GB/s {took / several * 1e6:10.1f} us an object "
                          f"{one * 1e6:12.1f} us alone")
            for kind in ("tcp", "memory"):
                compare(op, size, kind, [system for system in good if system.kind == kind])


def compare(op, size, kind, among):
    """Ours beside the best setting of each peer; above 1 ours is quicker."""
    def best(owner, count):
        times = [system.median(op, size, count) for system in among if system.owner == owner]
        return min((took for took in times if took is not None), default=None)

    for peer in dict.fromkeys(system.owner for system in among if system.owner != "ours"):
        several, one = ((best(peer, count), best("ours", count)) for count in (ALL // size, 1))
        if None not in (*several, *one):
            print(f"  ours / {peer} over {kind}: {several[0] / several[1]:.2f} in one call, {one[0] / one[1]:.2f} alone")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program", type=pathlib.Path, help="bench_page_pull")
    parser.add_argument("--venv", type=pathlib.Path, help="a folder for the peers' packages, which stay there")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peers", type=lambda text: text.split(","), default=list(PACKAGES))
    parser.add_argument("--sizes", type=lambda text: [int(word) << 10 for word in text.split(",")], default=SIZES,
                        help="KiB, of 64,1024,16384")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # with all that is cleaned up behind
    if unknown := set(options.peers) - set(PACKAGES):
        parser.error(f"no such peer: {', '.join(sorted(unknown))}; there are {', '.join(PACKAGES)}")
    with tempfile.TemporaryDirectory(prefix="pool-peers-") as folder:
        if not (options.venv and options.venv.exists()) and not reaches_pypi(folder):
            print("skipped: PyPI cannot be reached, and no --venv has the peers' packages")
            return SKIPPED
        made, errors = systems(options, (options.venv or pathlib.Path(folder)).absolute(), folder)
        try:
            for system in made:
                with system.errors():
                    system.begin()
            measure(made, options.rounds, options.sizes)
        finally:
            for system in made:
                system.end()
        report(made, options.sizes)
        return 1 if errors or any(system.error for system in made) else 0


if __name__ == "__main__":
    sys.exit(main())
