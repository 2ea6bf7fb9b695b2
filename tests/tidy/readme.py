"""What the README and the documents show is so. Usage: readme.py SLUICE ROOT

In README.md: a yaml block stands word for word in the workflow that is named last before it, a mermaid block is what `sluice
plan --format mermaid` prints of that workflow, and a console block's commands print what is shown. In README.md and
docs/: a link to a file of the repository leads to one. In docs/WORKFLOW.md: scenarios pass, as if they lay in
workflows/scenarios. At the end one mistake of each kind is planted and has to be found.
"""
import glob
import os
import re
import shlex
import subprocess
import sys
import tempfile


def run(root, sluice, words):
    """What a command prints, where nothing that it writes is kept."""
    with tempfile.TemporaryDirectory() as scratch:
        for name in ("models", "workflows", "tests", "examples"):
            os.symlink(os.path.join(root, name), os.path.join(scratch, name))
        done = subprocess.run([sluice, *words], cwd=scratch, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              stdin=subprocess.DEVNULL, text=True, timeout=300)
    return done.stdout.strip() or f"nothing (exit status {done.returncode})"


def block_findings(root, sluice, text):
    for found in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S):
        kind, body = found.groups()
        line = text.count("\n", 0, found.start()) + 1
        named = re.findall(r"\((workflows/\w+\.yaml)\)", text[:found.start()])
        if kind in ("yaml", "mermaid") and not named:
            yield f"README.md:{line}: no workflow is named before this {kind} block"
        elif kind == "yaml" and body not in open(os.path.join(root, named[-1])).read():
            yield f"README.md:{line}: these lines do not stand in {named[-1]}"
        elif kind == "mermaid":
            shown = run(root, sluice, ["plan", named[-1], "--format", "mermaid"])
            if shown != body.strip():
                yield f"README.md:{line}: `sluice plan {named[-1]} --format mermaid` prints another graph:\n{shown}"
        elif kind == "console":
            for command, output in re.findall(r"^\$ build/sluice (.*)\n((?:(?!\$ ).*\n)*)", body, re.M):
                shown = run(root, sluice, shlex.split(command))
                if shown != output.strip():
                    yield f"README.md:{line}: `sluice {command}` prints\n{shown}"
        elif kind not in ("yaml", "console"):
            yield f"README.md:{line}: a block of kind '{kind}' is not checked: use yaml, mermaid or console"


def link_findings(root, path, text):
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if "://" not in target and not os.path.exists(os.path.join(root, os.path.dirname(path), target)):
            yield f"{path}: there is no {target}"


def reference(root):
    return open(os.path.join(root, "docs/WORKFLOW.md")).read()


def scenario_findings(root, sluice, text):
    shown = re.findall(r"^    scenario: .*\n(?:    .*\n)*", text, re.M)
    if not shown:
        yield "docs/WORKFLOW.md: it shows no scenario"
    for block in shown:
        with tempfile.TemporaryDirectory() as scratch:
            for path in glob.glob(os.path.join(root, "workflows/*.yaml")):
                os.symlink(path, os.path.join(scratch, os.path.basename(path)))
            os.mkdir(os.path.join(scratch, "scenarios"))
            with open(os.path.join(scratch, "scenarios/shown.yaml"), "w") as file:
                file.write(re.sub(r"^    ", "", block, flags=re.M))
            done = subprocess.run([sluice, "test", "scenarios/shown.yaml"], cwd=scratch, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, timeout=300)
        if done.returncode != 0:
            yield f"docs/WORKFLOW.md: a scenario that it shows does not pass:\n{done.stdout}"


def findings(root, sluice, readme):
    yield from block_findings(root, sluice, readme)
    yield from link_findings(root, "README.md", readme)
    for path in sorted(glob.glob(os.path.join(root, "docs/*.md"))):
        yield from link_findings(root, os.path.relpath(path, root), open(path).read())
    yield from scenario_findings(root, sluice, reference(root))


def planted(root, sluice, readme):
    kinds = [r"(```yaml\n)", r"(```mermaid\n)", r"(```console\n\$[^\n]*\n)"]
    for kind in kinds:
        changed = re.sub(kind, r"\1no such line\n", readme, count=1)
        if changed == readme or not list(block_findings(root, sluice, changed)):
            yield f"a wrong line after {kind} is not found"
    if not list(link_findings(root, "README.md", readme + "[a](docs/NOWHERE.md)")):
        yield "a link to nowhere is not found"
    if not list(scenario_findings(root, sluice, reference(root).replace("[draw_prompt]", "[again]"))):
        yield "a scenario with a field that is none is not found"
    if not list(scenario_findings(root, sluice, reference(root).replace("image: 3 }", "image: 1 }"))):
        yield "a scenario whose calls do otherwise is not found"


def main():
    sluice, root = map(os.path.abspath, sys.argv[1:])
    readme = open(os.path.join(root, "README.md")).read()
    found = [*findings(root, sluice, readme), *planted(root, sluice, readme)]
    print("\n".join(found) if found else "readme: clean")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
