"""`sluice chat` as a user meets it: ten turns in a terminal, an answer stopped, commands, and lines from a pipe.

    chat_test.py SLUICE REPOSITORY
"""
import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import termios

SLUICE, ROOT = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
MODEL = os.path.join(ROOT, "tests/golden/gguf/llama.gguf")
failures = []


def expect(what, condition, seen):
    if not condition:
        failures.append(f"{what}: {seen!r}")


def piped(text, *options):
    done = subprocess.run([SLUICE, "chat", MODEL, *options], input=text.encode(), capture_output=True, timeout=300)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


class Terminal:
    """The program at a terminal of its own."""

    def __init__(self, *options, model=MODEL, kind="xterm"):
        self.pid, self.end = pty.fork()
        if self.pid == 0:
            os.execve(SLUICE, [SLUICE, "chat", model, *options], dict(os.environ, TERM=kind))
        self.seen = ""

    def read_until(self, pattern, seconds=120, or_end=False):
        """What came, up to and with the pattern (`or_end`: or all, when the program has ended)."""
        while not re.search(pattern, self.seen):
            ready, _, _ = select.select([self.end], [], [], seconds)
            try:
                got = os.read(self.end, 4096) if ready else b""
            except OSError:  # the program has ended
                got = b""
                if or_end:
                    return self.seen
            if not got:
                failures.append(f"waited for {pattern!r}, saw {self.seen!r}")
                os.kill(self.pid, signal.SIGKILL)
                return self.seen
            self.seen += got.decode(errors="replace")
        at = re.search(pattern, self.seen).end()
        taken, self.seen = self.seen[:at], self.seen[at:]
        return taken

    def type(self, text):
        os.write(self.end, text.encode())

    def status(self):
        self.read_until(r"\0", or_end=True)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def ten_turns():
    talk = Terminal("--tokens", "8", "--stats", "--context", "1000")
    talk.read_until(r"> ")
    kept_before = 0
    for turn in range(10):
        talk.type(f"this is turn {turn}\n")
        said = talk.read_until(r"\n> ")
        stats = re.search(r"prompt +(\d+) tokens, (\d+) kept in this chat, (\d+) new", said)
        expect(f"turn {turn} tells what it kept", stats, said)
        if not stats:
            return
        prompt, kept, new = map(int, stats.groups())
        expect(f"turn {turn} adds up", prompt == kept + new, said)
        # All that was said before this turn's message and the last answer is there already.
        expect(f"turn {turn} computes what is new only", new < 60 and kept >= kept_before, said)
        kept_before = kept
    expect("the tenth turn keeps nine", kept_before > 150, kept_before)
    talk.type("/reset\nagain\n")
    said = talk.read_until(r" new\r\n")
    # Whole pages of what every conversation begins with are shared, whoever made them.
    expect("only the beginning of all conversations is kept behind /reset", re.search(r" (0|16) kept", said), said)
    talk.read_until(r"\n> ")
    talk.type("/quit\n")
    expect("/quit ends well", talk.status() == 0, talk.seen)


def pictures():
    """/image stands before the next message: the answer is that of `model ask` with the picture, and the chat goes on."""
    for name in ("conversation_smolvlm", "conversation_qwen"):
        model = os.path.join(ROOT, "tests/golden", name)
        picture = os.path.join(model, "picture.png")
        question = "What is on the table?"

        def asked(*more):
            done = subprocess.run([SLUICE, "model", "ask", model, question, "--tokens", "12", *more], capture_output=True, timeout=300)
            # The chat prints no bytes that would command a terminal.
            return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", "", done.stdout.decode()).strip()

        wanted, blind = asked("--image", picture), asked()
        expect(f"{name} sees", wanted and blind and wanted != blind, (wanted, blind))
        talk = Terminal("--tokens", "12", "--stats", model=model)
        talk.read_until(r"> ")
        talk.type("/image nowhere.png\n")
        expect(f"{name}: a picture that is not there", "nowhere.png: no such file" in talk.read_until(r"\n> "), talk.seen)
        talk.type(f'/image  "{picture}" \n')
        talk.read_until(r"\n> ")
        talk.type(question + "\n")
        said = talk.read_until(r"\n> ")
        prompt = int(re.search(r"prompt +(\d+) tokens", said)[1])
        expect(f"{name}: the answer to a picture", wanted in said.replace("\r\n", "\n"), (wanted, said))
        talk.type("and more\n")
        said = talk.read_until(r"\n> ")
        stats = re.search(r"prompt +(\d+) tokens, (\d+) kept in this chat, (\d+) new", said)
        expect(f"{name}: the picture is kept, not seen again", stats and int(stats[2]) >= prompt > 30, said)
        talk.type(f"/reset\n{question}\n")
        said = talk.read_until(r" new\r\n") + talk.read_until(r"\n> ")
        expect(f"{name}: /reset forgets the picture", re.search(r" (0|16) kept", said) and blind in said.replace("\r\n", "\n"), (blind, said))
        talk.type("/quit\n")
        expect(f"{name}: it ends well", talk.status() == 0, talk.seen)


def refused_with_a_picture():
    """A message that is refused was not said: its picture stands before the next one."""
    model = os.path.join(ROOT, "tests/golden/conversation_qwen")
    picture, question = os.path.join(model, "picture.png"), "What is on the table?"

    def tokens(*lines):
        done = subprocess.run([SLUICE, "chat", model, "--tokens", "4", "--stats"], input="\n".join(lines).encode(), capture_output=True,
                              timeout=300)
        return re.findall(rb"prompt +(\d+) tokens", done.stderr), done

    seen, blind = tokens(f"/image {picture}", question)[0], tokens(question)[0]
    after, done = tokens(f"/image {picture}", "word " * 2000, question)
    expect("the picture of a refused message", after == seen != blind and b"there is room for" in done.stderr, (after, seen, done))


def drawings():
    """A model that would draw says so, and the conversation goes on as if it had not been asked."""
    done = subprocess.run([SLUICE, "chat", os.path.join(ROOT, "models/scenes")], capture_output=True, timeout=300,
                          input=b"draw a red circle\n/image " + os.path.join(ROOT, "models/scenes/samples/table.png").encode() +
                          b"\nwhat color is the circle\n")
    expect("a drawing is named", done.returncode == 0 and done.stderr.count(b"the model answers with a drawing") == 1, done)
    expect("and the next question is answered", b"the circle is red" in done.stdout, done)


def stopped():
    """Ctrl-C ends an answer, and the conversation goes on; between answers it ends that."""
    for attempt in range(20):  # where an answer ends by itself before the signal comes, the signal ends the program
        talk = Terminal("--tokens", "900", "--context", "1000", "--temperature", "1")
        talk.read_until(r"> ")
        talk.type(f"speak {attempt}\n")
        talk.read_until(rf"speak {attempt}\r\n")
        talk.read_until(r"[^>\s]")
        talk.type("\x03")
        said = talk.read_until(r"\(stopped\)[^>]*> ", or_end=True)
        if "(stopped)" in said:
            break
        expect("Ctrl-C between answers ends well", talk.status() == 0, said)
    expect("an answer was stopped", "(stopped)" in said, said)
    talk.type("/reset\n")
    talk.type("/quit\n")
    expect("the conversation goes on", talk.status() == 0, talk.seen)
    talk = Terminal("--tokens", "4")
    talk.read_until(r"> ")
    talk.type("\x03")
    expect("Ctrl-C at the first line ends well", talk.status() == 0, talk.seen)


def editing():
    """A line is edited before it is sent. An unknown command comes back in the error, and so shows what was sent."""
    talk = Terminal("--tokens", "4")
    talk.read_until(r"> ")

    def sent(keys):
        talk.type(keys + "\r")
        said = talk.read_until(r"there is no command '[^']*'")
        talk.read_until(r"\n> ")
        return re.search(r"there is no command '([^']*)'", said)[1]

    left, right, up, down = "\x1b[D", "\x1b[C", "\x1b[A", "\x1b[B"
    for keys, wanted in (("/hllo" + 3 * left + "e", "/hello"), ("bc\x01/a\x05d", "/abcd"), ("/ab" + 2 * left + "x" + right + "y", "/xayb"),
                         ("/a/b\x17c", "/a/c"), ("/ac\x7fb", "/ab"), ("/äöü" + left + "\x7fé€", "/äé€ü"),
                         ("/u\x1b[15~v\x1b[1;5Dw\x1bOPx", "/uvwx"), ("b\x1b[H/a\x1b[Fc\x1bOD\x1b[3~d", "/abd"),
                         (up, "/abd"), (up + up, "/uvwx"), (up + up + down + "e", "/uvwxe"), ("/new" + up + down + "\x15/q2", "/q2")):
        expect(f"keys {keys!r}", sent(keys) == wanted, (wanted, talk.seen))
    talk.type("hello\r")
    said = talk.read_until(r"\n> ")
    expect("an edited line is answered", "hello" in said and "\x1b" not in said.split("hello", 1)[1].rsplit("\n", 1)[0], said)
    talk.type("half a line\x03")
    expect("Ctrl-C in a line ends the conversation", talk.status() == 0, talk.seen)
    talk = Terminal("--tokens", "4")
    talk.read_until(r"> ")
    talk.type("/quit" + left + "\x04\x04")  # Ctrl-D within a line takes a character away
    talk.type("t\r")
    expect("Ctrl-D in a line does not end it", talk.status() == 0 and "no command" not in talk.seen, talk.seen)
    talk = Terminal("--tokens", "4")
    talk.read_until(r"> ")
    talk.type("\x04")
    expect("Ctrl-D at an empty line ends well", talk.status() == 0, talk.seen)
    talk = Terminal("--tokens", "4", kind="dumb")
    talk.read_until(r"> ")
    talk.type("/plain\n")
    expect("a terminal that cannot edit", "no command '/plain'" in talk.read_until(r"\n> "), talk.seen)
    talk.type("/quit\n")
    expect("and it ends well", talk.status() == 0, talk.seen)


class Job(Terminal):
    """The program as a job of a shell, which alone may be stopped: its group has a parent in the same session."""

    def __init__(self, *options):
        told, tell = os.pipe()
        asked, ask = os.pipe()
        self.pid, self.end = pty.fork()
        if self.pid == 0:
            try:
                self.shell(tell, asked, [SLUICE, "chat", MODEL, *options])
            finally:
                os._exit(1)
        os.close(tell)
        os.close(asked)
        self.told, self.ask, self.seen = told, ask, ""

    @staticmethod
    def shell(tell, asked, words):
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # the shell may always give and take the terminal
        job = os.fork()
        if job == 0:
            os.setpgid(0, 0)
            os.tcsetpgrp(0, os.getpid())
            signal.signal(signal.SIGTTOU, signal.SIG_DFL)
            os.execve(SLUICE, words, dict(os.environ, TERM="xterm"))
        while True:
            status = os.waitpid(job, os.WUNTRACED)[1]
            if not os.WIFSTOPPED(status):
                os._exit(os.waitstatus_to_exitcode(status) & 255)
            os.tcsetpgrp(0, os.getpid())
            os.write(tell, bytes([os.WSTOPSIG(status)]))
            os.read(asked, 1)
            os.tcsetpgrp(0, job)
            os.kill(job, signal.SIGCONT)

    def stopped_by(self, seconds=60):
        """The signal that stopped it; none: it goes on, or has ended."""
        ready, _, _ = select.select([self.told], [], [], seconds)
        got = os.read(self.told, 1) if ready else b""
        return got[0] if got else None

    def go_on(self):
        os.write(self.ask, b".")


def suspended():
    """Ctrl-Z stops the program, with the terminal as it was before; when it goes on, the line and the keys are there."""
    talk = Job("--tokens", "4")
    before = termios.tcgetattr(talk.end)
    talk.read_until(r"> ")
    editing = termios.tcgetattr(talk.end)
    expect("keys come as they are pressed", not editing[3] & (termios.ICANON | termios.ISIG), editing)
    talk.type("/halfway")
    talk.read_until(r"/halfway")
    for turn in range(2):
        talk.type("\x1a")
        stopped = talk.stopped_by()
        expect(f"Ctrl-Z {turn} stops it as a shell stops a job", stopped == signal.SIGTSTP, (stopped, talk.seen))
        if stopped is None:
            os.kill(talk.pid, signal.SIGKILL)
            os.waitpid(talk.pid, 0)
            return
        modes = termios.tcgetattr(talk.end)
        expect(f"stopped {turn}, the terminal is as before", modes[:4] == before[:4] and modes[3] & termios.ICANON, (before, modes))
        talk.go_on()
        talk.read_until(r"> /halfway" + "x" * turn)
        modes = termios.tcgetattr(talk.end)
        expect(f"gone on {turn}, keys come as they are pressed", modes[:4] == editing[:4], (editing, modes))
        talk.type("x")
        talk.read_until("x")
    talk.type("\x1b[Dy\r")
    said = talk.read_until(r"there is no command '[^']*'")
    expect("the line was kept", "no command '/halfwayxyx'" in said, said)
    talk.read_until(r"\n> ")
    talk.type("/quit\r")
    expect("and it ends well", talk.status() == 0, talk.seen)


def pipes():
    code, out, err = piped("hello\nand then\n", "--tokens", "6", "--stats")
    asked = subprocess.run([SLUICE, "model", "ask", MODEL, "hello", "--tokens", "6"], capture_output=True, timeout=300)
    expect("two lines, two answers", code == 0 and err.count("prompt ") == 2, (code, out, err))
    expect("the first answer is that of model ask", out.startswith(asked.stdout.decode()), (out, asked.stdout))
    expect("no prompt sign without a terminal", "> " not in out[:2], out)
    code, again, err = piped("/reset\nhello\n/reset\nhello", "--tokens", "6", "--stats")
    expect("/reset starts anew, and the last line needs no end",
           code == 0 and again == asked.stdout.decode() * 2 and re.findall(r"(\d+) kept", err) == ["0", "32"], (code, again, err))
    code, out, err = piped("/nonsense x\n")
    expect("unknown command", code == 1 and "no command '/nonsense'" in err and "/image FILE" in err, (code, out, err))
    for line, said in (("/image", "/image needs a file: /image FILE"), ("/image  ", "/image needs a file"),
                       ("/quit now", "/quit stands alone"), ("/reset it", "/reset stands alone")):
        code, out, err = piped(line + "\n")
        expect(line, code == 1 and said in err and not out, (code, out, err))
    code, out, err = piped("   \n\t\n\n")
    expect("blank lines ask nothing", code == 0 and not out, (code, out, err))
    code, out, err = piped("/image nowhere.png\nhello\n", "--tokens", "3")
    expect("a picture that is not there; the chat goes on",
           code == 1 and "nowhere.png: no such file" in err and out.strip(), (code, out, err))
    picture = os.path.join(ROOT, "models/scenes/samples/table.png")
    code, out, err = piped(f"/image {picture}\n")
    expect("a model without eyes", code == 1 and "takes no pictures" in err, (code, out, err))
    code, out, err = piped("x\n", "--context", "100000")
    expect("more context than the model reads", code == 1 and not out and "--context 100000: the model reads at most" in err, (code, out, err))
    code, out, err = piped("word " * 200 + "\n", "--context", "65")
    expect("whole pages of context", code == 1 and "there is room for 80:" in err, (code, out, err))
    code, out, err = piped("word " * 200 + "\n", "--context", "64")
    expect("as many pages as were asked for", "there is room for 64:" in err, (code, out, err))
    expect("too long for the context", code == 1 and "/reset" in err and not out.strip(), (code, out, err))
    code, out, err = piped("x" * (3 << 20))
    expect("a line without end", code == 1 and "longer than" in err, (code, out[:80], err))
    scenes = os.path.join(ROOT, "models/scenes")
    for command, given in ((["chat", scenes, "--tokens", "2"], b"what zebras\nwhat\n"),
                           (["model", "ask", scenes, "what zebras", "--tokens", "2"], b"")):
        done = subprocess.run([SLUICE, *command], input=given, capture_output=True, timeout=300)
        expect(f"{command[0]}: words that the model does not know",
               done.stderr.decode().count("warning: the model does not know the word 'zebras'; those it knows: ") == 1, done)
    code, out, err = piped("")
    expect("no input at all ends well", code == 0 and not out, (code, out, err))


def workflow():
    """The role chat_model takes the file as its model, and answers as `model ask` does."""
    with open(os.path.join(ROOT, "workflows/chat.yaml")) as file:
        text = file.read().replace("tests/golden/conversation_qwen", "tests/golden/gguf/llama.gguf")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "chat.yaml")
        with open(path, "w") as file:
            file.write(text)
        done = subprocess.run([SLUICE, "run", path, "--prompt", "hello", "--max-tokens", "6"], cwd=ROOT, capture_output=True,
                              timeout=300)
    asked = subprocess.run([SLUICE, "model", "ask", MODEL, "hello", "--tokens", "6"], capture_output=True, timeout=300)
    expect("a workflow with a GGUF file", done.returncode == 0 and asked.stdout.strip() in done.stdout,
           (done, asked.stdout))


def main():
    pipes()
    workflow()
    ten_turns()
    pictures()
    refused_with_a_picture()
    drawings()
    editing()
    suspended()
    stopped()
    for failure in failures:
        print(failure)
    sys.exit(1 if failures else 0)


main()
