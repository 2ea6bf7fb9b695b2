"""A newcomer's first workflow: a picture and a question as inputs of their own, without parse_request.

    own_workflow_test.py SLUICE REPOSITORY
"""
import os
import subprocess
import sys
import tempfile

SLUICE, ROOT = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
TABLE = "models/scenes/samples/table.png"
LOOK = """sluice: 1
workflow: look
inputs: { picture: image, question: text }
global_params:
  kv: { kind: paged_kv, model: models/scenes }
roles:
  vit: { plugin: vision_encoder, model: models/scenes }
  llm: { plugin: language_model, model: models/scenes, global_params: [kv], balance: session }
nodes:
  see:    { run: vit.encode, inputs: [ { image: inputs.picture } ] }
  embed:  { run: llm.embed, inputs: [ { text: inputs.question } ] }
  answer: { run: llm.generate, inputs: [ { features: see.features, hidden: embed.hidden } ] }
outputs: { said: answer.token }
"""
CHAT = """sluice: 1
workflow: talk
inputs: { question: text }
global_params:
  kv: { kind: paged_kv, model: tests/golden/gguf/llama.gguf, pages: 64 }
roles:
  llm: { plugin: chat_model, model: tests/golden/gguf/llama.gguf, global_params: [kv], balance: session }
nodes:
  answer: { run: llm.answer, inputs: [ { text: inputs.question } ] }
outputs: { said: answer.token }
"""
failures = []


def expect(what, condition, seen):
    if not condition:
        failures.append(f"{what}: {seen!r}")


def run(*arguments):
    done = subprocess.run([SLUICE, "run", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout, done.stderr


def main():
    with tempfile.TemporaryDirectory() as folder:
        paths = {}
        for name, text in (("look", LOOK), ("talk", CHAT)):
            paths[name] = os.path.join(folder, name + ".yaml")
            with open(paths[name], "w", encoding="utf-8") as file:
                file.write(text)
        code, out, err = run(paths["look"], "--input", f"picture=@{TABLE}", "--input", "question=what color is the circle")
        expect("a question about a picture", code == 0 and out.strip() == "the circle is red" and "warning" not in err,
               (code, out, err))
        code, out, err = run(paths["talk"], "--input", "question=hello")
        expect("a text without options is answered", code == 0 and out.strip() and "warning" not in err, (code, out, err))
    code, out, err = run("workflows/image_chat.yaml", "--input", 'request={"content":[{"type":"text","text":"x"}],"y":1e999}')
    expect("a number out of range", code == 1 and "out of range" in err and not out, (code, out, err))
    for failure in failures:
        print(failure)
    sys.exit(1 if failures else 0)


main()
