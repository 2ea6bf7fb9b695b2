"""Pages in a folder as a user meets them: asked again, the same words, and nothing computed but the prompt's end.

    kv_folder_test.py SLUICE REPOSITORY

Restarts, a flipped byte, a process that holds the folder, a full disk, and the commands that look at a folder. Where
`fetched/` has SmolLM2, with it too.
"""
import glob
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile

SLUICE, ROOT = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
MODEL = os.path.join(ROOT, "tests/golden/gguf/llama.gguf")
failures = []


def expect(what, condition, seen):
    if not condition:
        failures.append(f"{what}: {seen!r}")


def run(*words, text=b"", file_bytes=None):
    """`file_bytes`: no file may grow beyond; a write then fails, as on a full disk."""
    limit = None
    if file_bytes is not None:
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    done = subprocess.run([SLUICE, *words], input=text, capture_output=True, timeout=600, preexec_fn=limit)
    return done.returncode, done.stdout, done.stderr.decode()


def pages(said):
    """(tokens, from memory, from the folder, computed) of each turn."""
    return [tuple(map(int, found)) for found in re.findall(
        r"^pages +(\d+) tokens?: (\d+) from memory, (\d+) from the folder \S+, (\d+) computed$", said, re.M)]


def check_model(model, folder, prompt):
    ask = ["model", "ask", model, prompt, "--tokens", "8"]
    ask += ["--raw"] if model == MODEL else []
    _, want, _ = run(*ask)
    for turn in ("cold", "restarted", "restarted again"):
        status, got, said = run(*ask, "--kv-folder", folder)
        expect(f"{turn} answers the same", status == 0 and got == want, (got, want, said))
        seen = pages(said)
        expect(f"{turn} adds up", len(seen) == 1 and sum(seen[0][1:]) == seen[0][0], said)
        if seen and turn == "cold":
            expect("the first one computes all", seen[0][3] == seen[0][0], said)
        elif seen:
            expect(f"{turn} computes the end only", seen[0][2] > 100 and seen[0][3] <= 16, said)
    return want


def test_inside(checkpoint):
    """The pages may lie in the checkpoint's own folder, with a log beside it that grows."""
    shutil.copytree(os.path.join(ROOT, "tests/golden/conversation_qwen"), checkpoint)
    for turn in range(3):
        _, _, said = run("model", "ask", checkpoint, "What is on the table? " * 3, "--tokens", "4", "--kv-folder", checkpoint + "/kv")
        with open(checkpoint + "/asked.log", "a", encoding="utf-8") as log:
            log.write(said)
        seen = pages(said)
        expect(f"pages inside the checkpoint's folder, turn {turn}", len(seen) == 1 and (seen[0][2] >= 16) == (turn > 0), said)


def watched(folder, count):
    """One object a line, the second with what has happened since; Ctrl-C ends it well."""
    with subprocess.Popen([SLUICE, "pool", "status", folder, "--watch", "--format", "json"], stdout=subprocess.PIPE) as process:
        first, second = (json.loads(process.stdout.readline()) for _ in range(2))
        process.send_signal(signal.SIGINT)
        status = process.wait(timeout=60)
    expect("a watch ends well", status == 0, status)
    command = [SLUICE, "pool", "status", folder, "--watch"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        process.stdout.close()  # as `| head` does
        said, status = process.stderr.read(), process.wait(timeout=60)
    expect("a watch ends with its reader", status == 0 and not said, (status, said))
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, timeout=60)
    expect("a watch on a full disk", done.returncode == 1 and b"standard output cannot be written: No space" in done.stderr, done)
    expect("a watch's first line", first["pages"] == count and "per_second" not in first, first)
    expect("a watch's second line", second["pages"] == count and second["per_second"] == {"pages": 0.0, "bytes": 0.0}, second)


def test_folder(folder):
    prompt = "hello there " + " ".join(map(str, range(60)))
    want = check_model(MODEL, folder, prompt)
    status, out, _ = run("pool", "verify", folder)
    expect("the folder is whole", status == 0 and b"broken     0" in out, out)
    files = sorted(glob.glob(folder + "/segment-*"))
    report = re.fullmatch(r"pages      (\d+) in (\d+) segments?, [\d.]+ (?:bytes|[KM]iB)\nunfinished 0\nbroken     0\nin use     no\n", out.decode())
    expect("the whole report", report and int(report[1]) > 0 and int(report[2]) == len(files), (out, files))
    status, ends, _ = run("pool", "status", folder)
    expect("the ends tell the same of a whole folder", (status, ends) == (0, out), (ends, out))
    status, listed, _ = run("pool", "pages", folder, "--keys")
    lines = listed.decode().splitlines()
    count = int(report[1]) if report else -1
    rows = [line for line in lines if line.startswith("  ")]
    expect("each page has a line, in a chain from its beginning", status == 0 and len(rows) == count
           and rows and "page 1 of its chain;" in rows[0] and "page 2 of its chain, behind" in rows[1], listed)
    expect("its segments and chains", re.match(rf"segment-0{{15}}1: {count} pages?, room for \d+, each \d+ bytes of layout [0-9a-f]{{16}}; ", lines[0])
           and re.search(rf"^pages  {count}; [1-9]\d* chains?, the longest of \d+ pages?; 0 pages", listed.decode(), re.M), listed)
    status, json_text, _ = run("pool", "pages", folder, "--format", "json")
    found = json.loads(json_text)
    expect("as JSON the same", status == 0 and len(found["pages"]) == count and found["cut"] == 0 and found["longest"] >= 2
           and [row["key"] for row in found["pages"]] == [line.split()[0] for line in rows], json_text)
    status, said, _ = run("pool", "status", folder, "--format", "json")
    expect("status as JSON", status == 0 and json.loads(said)["pages"] == count and not json.loads(said)["in_use"]
           and json.loads(said)["bytes"] == sum(map(os.path.getsize, files)), said)
    expect("verify as JSON", run("pool", "verify", folder, "--format", "json")[:2] == (0, said), said)
    watched(folder, count)
    first = files[0]
    with open(first, "r+b") as file:  # in the content of the first page
        file.seek(4096 + 1000)
        byte = file.read(1)
        file.seek(4096 + 1000)
        file.write(bytes([byte[0] ^ 1]))
    status, out, _ = run("pool", "verify", folder)
    expect("the flipped byte is found as JSON", json.loads(run("pool", "verify", folder, "--format", "json")[1])["broken"]
           == ["segment-0000000000000001, record 0: not what was written there"], out)
    expect("the flipped byte is found", status == 1 and b"\nbroken     1\n" in out and b"segment-0000000000000001, record 0" in out and b"; it goes with its file, when the folder" in out, out)
    status, out, _ = run("pool", "status", folder)
    expect("status reads the ends only", status == 0 and b"in use     no" in out, out)
    status, got, said = run("model", "ask", MODEL, prompt, "--raw", "--tokens", "8", "--kv-folder", folder)
    expect("a broken page is computed again", got == want and pages(said)[0][2] == 0, (got, said))
    expect("a broken page is told", f"\n{folder}: 1 page read other than written, so computed anew; `sluice pool verify {folder}` says where\n" in said, said)


def test_chat(folder):
    lines = b"tell me more about this long thing that I say here\nand more about the other one\n"
    _, want, _ = run("chat", MODEL, "--tokens", "8", text=lines)
    _, got, first = run("chat", MODEL, "--tokens", "8", "--kv-folder", folder, text=lines)
    expect("a chat with a folder says the same", got == want, (got, want))
    expect("a chat's second turn has its first from memory", len(pages(first)) == 2 and pages(first)[1][1] > 0, first)
    _, got, again = run("chat", MODEL, "--tokens", "8", "--kv-folder", folder, text=lines)
    expect("a chat begun anew says the same", got == want, (got, want))
    expect("a chat begun anew has its first turn from the folder", pages(again) and pages(again)[0][2] > 0, again)


def test_full_disk(folder):
    # In the first page, at a whole block: cut within a block, a direct write is refused for its size, not for the limit.
    room = 5 * 4096
    prompt = "hello there " + " ".join(map(str, range(60)))
    ask = ["model", "ask", MODEL, prompt, "--raw", "--tokens", "8"]
    _, want, _ = run(*ask)
    status, got, said = run(*ask, "--kv-folder", folder, file_bytes=room)
    expect("a disk that takes no more costs no answer", status == 0 and got == want, (status, got, said))
    status, out, _ = run("pool", "verify", folder)
    expect("what was cut off is no broken page", status == 0, out)
    # The pages of an answer of one token are written behind it: what failed is known at the end alone.
    for name, words, text in (("ask", ["model", "ask", MODEL, prompt, "--raw", "--tokens", "1"], b""),
                              ("chat", ["chat", MODEL, "--tokens", "1"], prompt.encode() + b"\n")):
        place = f"{folder}-{name}"
        status, _, said = run(*words, "--kv-folder", place, text=text, file_bytes=room)
        told = re.findall(rf"^{place} (lacks pages that were to be kept|is not used for a while): a page cannot be written: File too large$", said, re.M)
        expect(f"{name} tells once that its last pages were not written", status == 0 and len(told) == 1, said)
        status, _, said = run(*words, "--kv-folder", place + "-with-room", text=text)
        expect(f"{name} says nothing of a folder that has all pages", status == 0 and place not in said.replace(f"from the folder {place}-with-room", ""), said)


def test_removed_folder(folder):
    """It is removed between two turns: the second is answered, and the talk says that it is kept nowhere."""
    lines = [b"tell me more about this long thing that I say here\n", b"and more about the other one\n"]
    _, want, _ = run("chat", MODEL, "--tokens", "8", text=b"".join(lines))
    command = [SLUICE, "chat", MODEL, "--tokens", "8", "--kv-folder", folder]
    with subprocess.Popen(command, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdin.write(lines[0])
        said = b""
        while not said.startswith(b"pages ") and not said.endswith(b"\npages ") and (byte := process.stderr.read(1)):
            said += byte
        said += process.stderr.readline()
        expect("the first turn wrote pages", glob.glob(folder + "/segment-*"), said)
        shutil.rmtree(folder)
        got, more = process.communicate(lines[1], timeout=300)
    told = re.findall(rf"^{folder} (?:lacks pages that were to be kept|is not used for a while): the folder, or the lock in it, was removed$", more.decode(), re.M)
    expect("a folder that is removed costs no answer", process.returncode == 0 and got == want, (got, want))
    expect("a folder that is removed is told, once", len(told) == 1 and not os.path.exists(folder), more)


def test_errors(folder):
    os.mkdir(folder, 0o700)
    for words, part in ((("--kv-bytes", "4X"), "is no size"), (("--kv-bytes", "1.5GiB"), "'1.5GiB' is no size: a whole number and KiB, MiB, GiB or TiB"),
                        (("--kv-bytes", "100"), "its 100 bytes are too few"),
                        (("--kv-bytes", "1KiB"), "its 1 KiB are too few: a page of this model takes ")):
        status, _, said = run("model", "ask", MODEL, "hi", "--raw", "--kv-folder", folder, *words)
        expect(f"{words} is refused", status != 0 and part in said, said)
    os.chmod(folder, 0o755)
    status, _, said = run("model", "ask", MODEL, "hi", "--raw", "--kv-folder", folder)
    expect("a folder that others may enter is refused", status == 1 and "chmod 700" in said, said)
    status, _, said = run("pool", "status", folder + "/nowhere")
    expect("no folder", status == 1 and "no such folder" in said, said)


def main():
    with tempfile.TemporaryDirectory() as scratch:
        test_folder(scratch + "/kv")
        test_inside(scratch + "/model")
        test_chat(scratch + "/chat")
        test_full_disk(scratch + "/full")
        test_removed_folder(scratch + "/removed")
        test_errors(scratch + "/errors")
        fetched = glob.glob(os.path.join(ROOT, "fetched/**/SmolLM2*.gguf"), recursive=True)
        if fetched:
            check_model(fetched[0], scratch + "/smollm2", "What follows? " + ", ".join(map(str, range(50))))
        else:
            print("SmolLM2 is not in fetched/: skipped")
    print("\n".join(failures) if failures else "kv_folder: well")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
