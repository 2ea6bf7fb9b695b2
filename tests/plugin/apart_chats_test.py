"""Chats over one paged_kv in several processes. Usage: apart_chats_test.py SLUICE ROOT PLUGINS [--small]

Prompts that one role host reads and another answers, and two chats in two hosts: the same bytes as in one process, few pages
that both want, processes that are killed, and what one sees of the pool. With SmolLM2 too, where `fetched/` has it, but for `--small`.
"""
import glob
import json
import os
import signal
import subprocess
import sys
import tempfile

from apart_test import Cluster
from isolate_test import ROOT, SLUICE, expect, failures, run

SPLIT = f"{ROOT}/workflows/prefill_decode.yaml"
QWEN = f"{ROOT}/tests/golden/conversation_qwen"
TWINS = """sluice: 1
workflow: twins
inputs: { request: json }
global_params:
  kv: { kind: paged_kv, model: MODEL, page_tokens: 16, pages: 256 }
roles:
  parser: { plugin: parse_request }
  reader: { plugin: chat_model, model: MODEL, global_params: [kv], balance: session, options: { precision: exact } }
  writer: { plugin: language_model, model: MODEL, global_params: [kv], balance: session, options: { precision: exact } }
nodes:
  parse: { run: parser.parse, inputs: [ { request: inputs.request } ] }
  one:   { run: reader.answer, inputs: [ { text: parse.text } ] }
  other: { run: writer.generate, inputs: [ { text: parse.text } ] }
outputs: { text: one.token, besides: other.token }
"""


def call(name, session, text, tokens=24, **options):
    request = {"content": [{"type": "text", "text": text}], "options": {"max_tokens": tokens, "seed": 7, **options}}
    return json.dumps({"id": name, "session": session, "inputs": {"request": request}}) + "\n"


def turns(sessions=2, count=4):
    """Prompts that end within a page, at its end and behind it."""
    return "".join(call(f"{session}-{turn}", f"s{session}", f"What is on the table, at place {'o' * turn}? " + "And " * session,
                        temperature=0.7) for turn in range(count) for session in range(sessions))


def twins(folder):
    path = os.path.join(folder, "twins.yaml")
    with open(path, "w", encoding="utf-8") as out:
        out.write(TWINS.replace("MODEL", QWEN))
    return path


def one_machine(folder, flow, name):
    path = os.path.join(folder, f"{name}_machine.yaml")
    with open(path, "w", encoding="utf-8") as out:
        out.write(f"cluster: 1\nworkflows: [ {flow} ]\nmachines:\n  one:\n    home: true\n"
                  "    roles: [ parser, reader, writer ]\n    hosts: { reads: [ reader ], writes: [ writer ] }\n")
    return path


def results_of(*words, lines, together=1):
    code, out, err = run(*words, "--calls", "-", "--concurrency", str(together), lines=lines)
    results = [json.loads(line) for line in out.splitlines()]
    return code, sorted((one["id"], one["ok"], one["outputs"], sorted(one["warnings"])) for one in results), err


def same_bytes(folder, flow, name, sets):
    lines = turns()
    ways = [[flow], [flow, "--isolate", "reader,writer"], [flow, "--isolate", "writer"], [flow, "--isolate", "reader"],
            ["--cluster", one_machine(folder, flow, name)]]
    seen = [results_of(*where, *sets, lines=lines) for where in ways]
    for where, (code, out, err) in zip(ways, seen):
        expect(f"{name}: {where}", code == 0 and len(out) == 8 and not err, (code, err))
        expect(f"{name}, the same bytes: {where}", out == seen[0][1], (out, seen[0][1]))


def tenants(folder):
    """A prompt that one tenant has had read is found by that tenant alone, whichever process reads or answers it."""
    cluster = Cluster(one_machine(folder, SPLIT, "tenants"), folder)
    asked = "This is asked by two tenants, each of whom has it read, and nobody finds what the other has said"
    seen = []
    for session, tenant in (("a", "one"), ("b", "two"), ("c", "one"), ("d", "two"), ("e", None)):
        cluster.ask(call(session, session, asked, **({} if tenant is None else {"tenant": tenant})))
        result = cluster.result()
        expect(f"tenant {tenant}", result["ok"], result)
        seen.append((texts_of(result), cluster.pool()[0]["from_memory"]))
    expect("the same words", len({text for text, _ in seen}) == 1, seen)
    memory = [now - before for (_, now), (_, before) in zip(seen, [(None, 0)] + seen)]
    expect("each tenant's first computes all, its second finds it", [found > 0 for found in memory] ==
           [False, False, True, True, False], memory)
    cluster.ask(call("other", "a", "And then?", tenant="two"))
    result = cluster.result()
    expect("a session of another tenant", not result["ok"] and "the session is of the tenant 'one'" in result["error"]["message"],
           result)
    cluster.end()
    code, _, err = run(SPLIT, "--isolate", "reader,writer", "--set", "global_params.kv.tenant_pages=16", "--calls", "-",
                       lines=call("1", "a", asked))
    expect("a quota is one process's", code == 0 and err == "note: --isolate: reader, writer run in one process: they share 'kv' in "
           "memory, and one process counts what tenants have (`tenant_pages`)\n", (code, err))
    quota = os.path.join(folder, "quota.yaml")
    with open(SPLIT, encoding="utf-8") as shipped, open(quota, "w", encoding="utf-8") as out:
        out.write(shipped.read().replace("tests/golden", f"{ROOT}/tests/golden").replace("pages: 256", "pages: 256, tenant_pages: 16"))
    done = subprocess.run([SLUICE, "validate", one_machine(folder, quota, "quota")], capture_output=True, text=True, timeout=60)
    expect("a quota in two hosts", done.returncode == 1 and "(`tenant_pages`)" in done.stdout + done.stderr, done)


def few_pages(flow):
    """Both processes want more than there is: calls wait for each other, and each has the words that it has alone."""
    lines = "".join(call(f"{number}", f"s{number % 6}", f"Tell me of number {number}") for number in range(18))
    wanted = results_of(flow, lines=lines)[1]
    for pages in (16, 20, 40):
        code, out, err = results_of(flow, "--isolate", "reader,writer", "--set", f"global_params.kv.pages={pages}", lines=lines,
                                    together=6)
        expect(f"{pages} pages", code == 0 and out == wanted and not err, (code, out, wanted, err))


def checked_pool(cluster, what):
    pools = cluster.pool()
    expect(f"{what}: one pool", len(pools) == 1, pools)
    pool = pools[0]
    expect(f"{what}: its pages", pool["used"] + pool["free"] + pool["cached"] == pool["pages"], pool)
    return pool


def seen(folder):
    cluster = Cluster(one_machine(folder, SPLIT, "seen"), folder)
    for turn in range(3):
        cluster.ask(call(f"{turn}", "a", f"This is turn {turn}, of which there are three, one behind the other"))
        cluster.result()
    pool = checked_pool(cluster, "seen")
    expect("where it is", pool["layout"].endswith("in f32, in host 'reads' and in host 'writes'"), pool)
    expect("nobody answers, so nobody has pages", pool["used"] == 0 and pool["cached"] > 0, pool)
    expect("each prompt is read once", pool["prompts"] == 3 and pool["prompt_tokens"] == pool["from_memory"] + pool["computed"],
           pool)
    expect("and begins with what was said", pool["from_memory"] > pool["prompt_tokens"] / 3, pool)
    sessions = cluster.look("pool", "sessions")["pools"][0]
    expect("one session", len(sessions["session_list"]) == 1 and sessions["session_list"][0]["name"] == "a", sessions)
    cluster.end()


def pid_of(cluster, name, but=0):
    """Of a host once it serves, which may be being started again: in another life than `but`."""
    while True:
        host = cluster.host(name)
        if host["state"] == "serves" and host["pid"] != but:
            return host["pid"]


def kill(cluster, name):
    pid = pid_of(cluster, name)
    os.kill(pid, signal.SIGKILL)
    pid_of(cluster, name, but=pid)


def stands_still(pid):
    """All its threads do: a signal takes a while."""
    states = []
    for path in glob.glob(f"/proc/{pid}/task/*/stat"):
        with open(path, encoding="utf-8") as file:
            states.append(file.read().rsplit(")", 1)[1].split()[0])
    return states and all(state == "T" for state in states)


def amid(cluster, name, line):
    """The host is stopped with the call in it."""
    pid = pid_of(cluster, name)
    os.kill(pid, signal.SIGSTOP)
    while not stands_still(pid):
        pass
    cluster.ask(line)
    while not cluster.host(name)["activations"]:
        pass
    return pid


def texts_of(result):
    return result["outputs"].get("text")


def killed(folder):
    """Either process dies, amid a call or between two: what follows is right, and the other one goes on."""
    first, second, third = "What is on the table, and who has put it there?", "And under it?", "Thank you"
    alone = [json.loads(line)["outputs"]["text"] for line in
             run(SPLIT, "--calls", "-", "--concurrency", "1",
                 lines=call("1", "a", first) + call("2", "a", second) + call("3", "a", third))[1].splitlines()]
    cluster = Cluster(one_machine(folder, SPLIT, "killed"), folder)
    cluster.ask(call("first", "a", first))
    expect("the first answer", texts_of(cluster.result()) == alone[0], alone)
    reader = pid_of(cluster, "reads")
    os.kill(amid(cluster, "writes", call("amid", "a", "Never mind")), signal.SIGKILL)
    result = cluster.result()
    expect("amid the answer", not result["ok"] and "host 'writes' died by SIGKILL" in result["error"]["message"], result)
    cluster.ask(call("second", "a", second))
    result = cluster.result()
    expect("who reads has the session", texts_of(result) == alone[1] and cluster.host("reads")["pid"] == reader, (result, alone))
    expect("nothing was lost", not any("lost" in one for one in result["warnings"]), result)
    kill(cluster, "writes")  # between two calls
    cluster.ask(call("third", "a", third))
    result = cluster.result()
    expect("behind a death between two calls", texts_of(result) == alone[2], (result, alone))
    writer = amid(cluster, "writes", call("reader", "a", "Never mind"))
    kill(cluster, "reads")
    os.kill(writer, signal.SIGCONT)
    result = cluster.result()
    expect("an answer whose reader died", result["ok"] and any("did not hear what was said" in one for one in result["warnings"]),
           result)
    cluster.ask(call("anew", "a", first))
    result = cluster.result()
    expect("it begins anew", texts_of(result) == alone[0] and any("begins anew" in one for one in result["warnings"]), result)
    os.kill(amid(cluster, "reads", call("amid reading", "a", "Never mind")), signal.SIGKILL)
    result = cluster.result()
    expect("amid the prompt", not result["ok"] and "host 'reads' died by SIGKILL" in result["error"]["message"], result)
    expect("the writer goes on", cluster.host("writes")["pid"] == writer, writer)
    for turn, text in enumerate((first, second)):
        cluster.ask(call(f"b{turn}", "b", text))
        result = cluster.result()
        expect("another session", texts_of(result) == alone[turn], (result, alone))
    expect("all pages are back", checked_pool(cluster, "killed")["used"] == 0, cluster.pool())
    cluster.end()


def killed_often(folder):
    """Amid whatever is under way: each call ends, and nothing is held in the end."""
    cluster = Cluster(one_machine(folder, SPLIT, "often"), folder, "--concurrency", "4")
    for number in range(24):
        cluster.ask(call(f"{number}", f"s{number % 4}", f"What of number {number}?", tokens=48))
    ended, died = [], {}
    for number in range(24):
        ended.append(cluster.result())
        name = "writes" if number % 2 else "reads"
        pid = cluster.host(name)["pid"] if number % 3 == 0 else 0
        if pid > 0:  # else it is being started again
            os.kill(pid, signal.SIGKILL)
            died[name] = pid
    for name, pid in died.items():
        pid_of(cluster, name, but=pid)
    for one in ended:
        expect("why one fails", one["ok"] or "died by SIGKILL" in one["error"]["message"], one)
    expect("some end well", any(one["ok"] for one in ended), ended)
    for number in range(4):  # what a call that failed left is told with its session's next one
        cluster.ask(call(f"behind {number}", f"s{number}", "Hello"))
        behind = cluster.result()
        expect("behind them", behind["ok"], behind)
    expect("all pages are back", checked_pool(cluster, "often")["used"] == 0, cluster.pool())
    cluster.end()


def main():
    with tempfile.TemporaryDirectory() as folder:
        pair = twins(folder)
        same_bytes(folder, SPLIT, "split", [])
        same_bytes(folder, pair, "twins", [])
        if "--small" in sys.argv:
            print("SmolLM2 is asked as released only: skipped")
        elif found := glob.glob(os.path.join(ROOT, "fetched/**/SmolLM2*.gguf"), recursive=True):
            sets = [word for key in ("roles.reader", "roles.writer", "global_params.kv")
                    for word in ("--set", f"{key}.model={found[0]}")]
            same_bytes(folder, SPLIT, "smollm2", sets)
        else:
            print("SmolLM2 is not in fetched/: skipped")
        tenants(folder)
        few_pages(SPLIT)
        few_pages(pair)
        seen(folder)
        killed(folder)
        killed_often(folder)
    print("\n".join(failures) if failures else "apart chats: clean")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
