"""The command line as a user meets it: exit status, one-line errors, streamed answers, a picture written.

    cli_test.py SLUICE REPOSITORY
"""
import json
import os
import struct
import subprocess
import sys
import tempfile
import zlib

SLUICE, ROOT = os.path.abspath(sys.argv[1]), sys.argv[2]
CHAT = "workflows/image_chat.yaml"
TABLE, PHOTO = "models/scenes/samples/table.png", "models/scenes/samples/scene.jpg"
failures = []


def sluice(*args, cwd=ROOT):
    done = subprocess.run([SLUICE, *args], cwd=cwd, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout, done.stderr


def expect(what, condition, seen):
    if not condition:
        failures.append(f"{what}: {seen}")


def one_line_error(what, needle, *args, status=1):
    code, out, err = sluice(*args)
    lines = [line for line in err.splitlines() if not line.startswith("See `")]
    expect(what, code == status and len(lines) == 1 and lines[0].startswith("error: ") and needle in err and not out,
           (code, out, err))


def png_header(width, height):
    body = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + body + struct.pack(">I", zlib.crc32(body))


def main():
    with tempfile.TemporaryDirectory() as scratch:
        def file(name, data):
            path = os.path.join(scratch, name)
            with open(path, "wb") as f:
                f.write(data)
            return path

        with open(os.path.join(ROOT, PHOTO), "rb") as f:
            photo = f.read()
        ask = ("run", CHAT, "--prompt", "what color is the circle", "--image")
        one_line_error("missing picture", "nowhere.png: no such file", *ask, "nowhere.png")
        one_line_error("folder as picture", "not a file", *ask, scratch)
        one_line_error("text named png", "it is plain text", *ask, file("text.png", b"hello there\n"))
        one_line_error("truncated JPEG", "truncated", *ask, file("cut.jpg", photo[: len(photo) // 2]))
        one_line_error("huge PNG", "20000 x 20000", *ask, file("huge.png", png_header(20000, 20000)))
        one_line_error("empty prompt", "the prompt is empty", "run", CHAT, "--prompt", "", "--image", TABLE)
        one_line_error("no prompt", "the prompt is empty", "run", CHAT)
        one_line_error("option out of range", "max_tokens", "run", CHAT, "--prompt", "hello", "--max-tokens", "0")
        one_line_error("missing workflow", "no such file", "run", "workflows/none.yaml", "--prompt", "x")
        one_line_error("unknown command", "validate", "validat", CHAT, status=2)
        one_line_error("unknown option", "--prompt", "run", CHAT, "--promt", "x", status=2)
        one_line_error("unknown node", "generate", "plan", CHAT, "--explain", "generat")

        code, out, err = sluice(*ask, TABLE)
        expect("an answer", code == 0 and out.strip() and not err.startswith("error"), (code, out, err))
        code, out, err = sluice(*ask, PHOTO)
        expect("a large JPEG", code == 0 and out.strip(), (code, out, err))
        code, short, err = sluice(*ask, TABLE, "--max-tokens", "1")
        expect("a cut answer says so", code == 0 and "--max-tokens" in err, (code, short, err))

        picture = os.path.join(scratch, "drawn.png")
        draw = ("run", CHAT, "--prompt", "draw a red circle", "--seed", "3", "--out", picture)
        code, out, err = sluice(*draw)
        first = open(picture, "rb").read() if os.path.exists(picture) else b""
        expect("a drawing", code == 0 and first.startswith(b"\x89PNG"), (code, out, err))
        sluice(*draw)
        expect("the same seed draws the same", first == open(picture, "rb").read(), "")

        code, out, err = sluice("validate", CHAT)
        expect("validate", code == 0 and "0 errors" in out, (code, out, err))
        bad = file("bad.yaml", open(os.path.join(ROOT, CHAT), "rb").read().replace(b"embed.hidden", b"embd.hidden"))
        code, out, err = sluice("validate", bad)
        expect("validate finds", code == 1 and "did you mean 'embed'?" in out and ":22:" in out, (code, out, err))
        code, out, err = sluice("validate", bad, "--format", "json")
        found = json.loads(out)
        expect("validate json", code == 1 and found[0]["line"] == 22 and found[0]["code"] == "unknown-node", out)
        code, out, err = sluice("validate", bad, "--format", "sarif")
        expect("validate sarif", json.loads(out)["runs"][0]["results"][0]["ruleId"] == "unknown-node", out)

        code, out, err = sluice("plan", CHAT)
        for words in ("one per frame of parse", "critical slots: code, see", "control edges", "in order of generate"):
            expect("plan says " + words, words in out, out)
        nodes = {n["name"]: n for n in json.loads(sluice("plan", CHAT, "--format", "json")[1])["nodes"]}
        expect("plan json", nodes["generate"]["groups"][1]["root"] == "parse", nodes)
        expect("plan dot", sluice("plan", CHAT, "--format", "dot")[1].startswith("digraph image_chat"), "")
        expect("help teaches", "Exit status" in sluice("--help")[1], "")
        expect("roles", "language_model" in sluice("roles")[1], "")

    print("\n".join(failures) if failures else "all as expected")
    sys.exit(1 if failures else 0)


main()
