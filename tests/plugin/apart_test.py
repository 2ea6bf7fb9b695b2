"""Roles over one paged_kv in several processes. Usage: apart_test.py SLUICE ROOT PLUGINS

The same bytes as in one process, few pages that two processes want, processes that are killed, and what one sees of the pool.
"""
import json
import os
import signal
import subprocess
import sys
import tempfile

from isolate_test import CHAT, ENVIRONMENT, ROOT, SLUICE, chat_lines, expect, failures, run


def apart_flow(folder):
    """The workflow, whose two roles over the model's pages need not be on one lane."""
    path = os.path.join(folder, "apart.yaml")
    with open(CHAT, encoding="utf-8") as file:
        text = file.read().replace("model: models/scenes", f"model: {ROOT}/models/scenes")
    assert ", colocate: llm" in text
    with open(path, "w", encoding="utf-8") as out:
        out.write(text.replace(", colocate: llm", ""))
    return path


def one_machine(folder, flow):
    path = os.path.join(folder, "one_machine.yaml")
    with open(path, "w", encoding="utf-8") as out:
        out.write(f"cluster: 1\nworkflows: [ {flow} ]\nmachines:\n  one:\n    home: true\n"
                  "    roles: [ parser, vit, vae, llm, diffusion ]\n"
                  f"    hosts: {{ words: [ llm ], pictures: [ diffusion ] }}\n")
    return path


def outputs_of(folder, name, *words, lines):
    outputs = os.path.join(folder, name)
    os.mkdir(outputs)
    code, out, err = run(*words, "--calls", "-", "--out", outputs, "--concurrency", "1", lines=lines)
    files = {}
    for one in os.listdir(outputs):
        with open(os.path.join(outputs, one), "rb") as file:
            files[one] = file.read()
    return code, sorted(out.replace(outputs, "").splitlines()), files, err


def same_bytes(folder, flow):
    lines = chat_lines()
    ways = [[flow], [flow, "--isolate", "llm,diffusion"], [flow, "--isolate", "diffusion"], [flow, "--isolate", "llm"],
            [flow, "--isolate", "all"], ["--cluster", one_machine(folder, flow)]]
    seen = []
    for at, where in enumerate(ways):
        code, out, files, err = outputs_of(folder, f"out{at}", *where, lines=lines)
        expect(f"run {where}", code == 0 and len(out) == 8 and not err, (code, err))
        seen.append((out, files))
    expect("four drawings", len(seen[0][1]) == 4, seen[0][1].keys())
    for where, one in zip(ways, seen):
        expect(f"the same bytes: {where}", one == seen[0], (one[0], seen[0][0]))


def drawing(name, session, seed):
    request = {"content": [{"type": "text", "text": "draw a red circle"}], "options": {"seed": seed}}
    return json.dumps({"id": name, "session": session, "inputs": {"request": request}}) + "\n"


def image_of(result):
    [image] = result["outputs"]["image"]
    return image["file"]


def bytes_of(result):
    with open(image_of(result), "rb") as file:
        return file.read()


def few_pages(folder, flow):
    """Both processes want more than there is: each call ends, well or because of the pages."""
    lines = "".join(drawing(f"{call}", f"s{call % 6}", call) for call in range(18))
    wanted = outputs_of(folder, "wanted", flow, lines=lines)[2]
    # Drawings that are made together may differ in their last bits, so those that are compared are made one by one.
    for pages, together in ((12, 1), (12, 6), (24, 6)):
        outputs = os.path.join(folder, f"few{pages}{together}")
        os.mkdir(outputs)
        code, out, err = run(flow, "--isolate", "llm,diffusion", "--set", f"global_params.kv.pages={pages}", "--calls", "-",
                             "--concurrency", f"{together}", "--out", outputs, lines=lines)
        results = [json.loads(line) for line in out.splitlines()]
        expect("each call ends", len(results) == 18 and code in (0, 1), (code, out, err))
        changed = set()  # sessions of which a turn was not drawn
        for one in sorted(results, key=lambda one: int(one["id"])):
            session = int(one["id"]) % 6
            if not one["ok"]:
                expect("what is short is named", "the KV pool is full" in one["error"]["message"], one)
                changed.add(session)
            elif session not in changed and together == 1:
                name = os.path.basename(image_of(one))
                expect("what ends well is right", bytes_of(one) == wanted[name], one)
        expect("some end well", any(one["ok"] for one in results), results)


PAINTERS = f"""sluice: 1
workflow: painters
inputs: {{ one: number, two: number }}
global_params:
  kv: {{ kind: paged_kv, model: {ROOT}/tests/golden/dit, page_tokens: 8, pages: 4 }}
roles:
  first: {{ plugin: class_denoiser, model: {ROOT}/tests/golden/dit, global_params: [kv], options: {{ precision: exact, steps: 4 }} }}
  other: {{ plugin: class_denoiser, model: {ROOT}/tests/golden/dit, global_params: [kv], options: {{ precision: exact, steps: 9 }} }}
nodes:
  draw:  {{ run: first.draw, inputs: [ {{ label: inputs.one }} ] }}
  paint: {{ run: other.draw, inputs: [ {{ label: inputs.two }} ] }}
outputs: {{ drawn: draw.latents, painted: paint.latents }}
"""


def painters(folder):
    """A DiT's drawings by two roles over the pages that one drawing takes: in one process, in two, one alone."""
    flow = os.path.join(folder, "painters.yaml")
    with open(flow, "w", encoding="utf-8") as out:
        out.write(PAINTERS)
    lines = "".join(json.dumps({"id": number, "inputs": {"one": number, "two": 9 - number}}) + "\n" for number in range(4))
    seen = []
    for at, where in enumerate(([], ["--isolate", "first,other"], ["--isolate", "other"])):
        code, _, files, err = outputs_of(folder, f"painted{at}", flow, *where, lines=lines)
        expect(f"painters {where}", code == 0 and len(files) == 8 and not err, (code, err))
        seen.append(files)
        expect(f"painters, the same bytes: {where}", files == seen[0], files.keys())


class Cluster:
    """A home of its own with two hosts, which is asked call by call."""

    def __init__(self, path, folder, *words):
        self.path = path
        self.program = subprocess.Popen([SLUICE, "run", "--cluster", path, "--calls", "-", "--out", folder, *words], cwd=ROOT,
                                        env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True)

    def ask(self, line):
        self.program.stdin.write(line)
        self.program.stdin.flush()

    def result(self):
        return json.loads(self.program.stdout.readline())

    def look(self, *words):
        done = subprocess.run([SLUICE, *words, "--cluster", self.path, "--format", "json"], capture_output=True, text=True,
                              timeout=60)
        return json.loads(done.stdout)

    def host(self, name):
        [host] = [one for one in self.look("status")["machines"][0]["hosts"] if one["name"] == name]
        return host

    def pool(self):
        pools = []
        while not pools or pools[0]["age_ms"] < 0:
            pools = self.look("pool", "status")["pools"]
        return pools

    def end(self):
        self.program.stdin.close()
        err = self.program.stderr.read()
        self.program.wait(timeout=60)
        return err


def killed(folder, flow):
    """Either process dies amid a drawing: the other goes on, its pages are back, and what follows is right."""
    cluster = Cluster(one_machine(folder, flow), folder)
    cluster.ask(drawing("first", "a", 5))
    first = cluster.result()
    picture = bytes_of(first)
    pools = cluster.pool()
    expect("one pool", len(pools) == 1 and pools[0]["layout"].endswith("in f32, in host 'pictures' and in host 'words'"), pools)
    used = pools[0]["used"]
    expect("of one session", used > 0 and pools[0]["used"] + pools[0]["free"] + pools[0]["cached"] == pools[0]["pages"], pools)
    for name, other in (("pictures", "words"), ("words", "pictures")):
        host, stays = cluster.host(name), cluster.host(other)["pid"]
        os.kill(host["pid"], signal.SIGSTOP)
        cluster.ask(drawing(f"amid {name}", "b", 5))
        while not cluster.host(name)["activations"]:  # until the call is there
            pass
        os.kill(host["pid"], signal.SIGKILL)
        amid = cluster.result()
        expect(f"a drawing amid which {name} died", not amid["ok"] and f"host '{name}' died by SIGKILL" in amid["error"]["message"],
               amid)
        cluster.ask(drawing(f"after {name}", "b", 5))
        after = cluster.result()
        expect("the next one", after["ok"], after)
        # The call amid which it died may have gone on to its next life, and be told there.
        warned = any("begins anew" in one for one in amid["warnings"] + after["warnings"])
        expect("who has lost a session", warned == (name == "words"), (amid, after))
        expect("the other goes on", cluster.host(other)["pid"] == stays, cluster.look("status"))
        cluster.ask(drawing(f"new {name}", name, 5))
        new = cluster.result()
        expect("what begins anew is right", new["ok"] and bytes_of(new) == picture, new)
    pool = cluster.pool()[0]
    expect("pages of who died are back", 0 < pool["used"] <= 4 * used, (pool, used))
    err = cluster.end()
    expect("who died", "host 'pictures' died by SIGKILL" in err and "host 'words' died by SIGKILL" in err, err)


def refused():
    code, out, err = run(f"{ROOT}/workflows/prefill_decode.yaml", "--prompt", "hi", "--isolate", "reader", "--set",
                         "global_params.kv.ssd=/nowhere")
    expect("pages in a folder", code == 1 and not out and err == "error: --isolate: 'reader' and 'writer' can only be isolated "
           "together: they share 'kv' in memory, and its pages are kept in one folder (`ssd`)\n", err)


def same_name(folder, flow):
    """Two parameters of one name, on two machines: that the roles over one are in a host says nothing of the other."""
    path = os.path.join(folder, "two.yaml")
    with open(path, "w", encoding="utf-8") as out:
        out.write(f"cluster: 1\nworkflows: [ {flow}, {ROOT}/workflows/prefill_decode.yaml ]\nmachines:\n"
                  "  front: { home: true, roles: [ parser, vit, vae, llm, diffusion ] }\n"
                  "  side: { roles: [ reader, writer ], hosts: { chat: [ reader, writer ] } }\n")
    outputs = os.path.join(folder, "two")
    code, out, err = run("image_chat", "--cluster", path, "--prompt", "draw a red circle", "--out", outputs)
    expect("a parameter of the same name elsewhere", code == 0 and os.path.exists(outputs), (code, out, err))


def main():
    with tempfile.TemporaryDirectory() as folder:
        flow = apart_flow(folder)
        refused()
        same_bytes(folder, flow)
        same_name(folder, flow)
        few_pages(folder, flow)
        killed(folder, flow)
        painters(folder)
    print("\n".join(failures) if failures else "apart: clean")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
