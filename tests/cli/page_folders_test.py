"""The folders of pages (`ssd`) that a workflow or a cluster file names, as `validate` sees them.

    page_folders_test.py SLUICE REPOSITORY
"""
import os
import sys
import tempfile

from run_world import ROOT, Scratch, expect, failures, sluice

FLOW = (f"sluice: 1\nworkflow: w\ninputs: {{ x: text }}\nglobal_params:\n  kv: {{ kind: paged_kv, model: {ROOT}/tests/golden/conversation_qwen, ssd: PLACE }}\n"
        f"roles: {{ a: {{ plugin: language_model, model: {ROOT}/tests/golden/conversation_qwen, global_params: [kv], balance: session }} }}\n"
        "nodes: { n: { run: a.generate, inputs: [ { text: inputs.x } ] } }\noutputs: { o: n.token }\n")


def folder_of_pages(scratch, file):
    """A relative `ssd` begins at the workflow file's folder, wherever the command is started."""
    params = ", ".join(f"{name}: {{ kind: paged_kv, model: {ROOT}/tests/golden/qwen2, ssd: pages }}" for name in ("kv", "kvb"))
    path = file("pages.yaml", f"sluice: 1\nworkflow: w\ninputs: {{ x: json }}\nglobal_params: {{ {params} }}\nroles: {{ a: {{ plugin: parse_request }} }}\n"
                "nodes: { n: { run: a.parse, inputs: [ { request: inputs.x } ] } }\noutputs: { o: n.text }\n".encode())
    code, out, err = sluice("validate", path)
    expect("a relative ssd", code == 1 and f"'kv' and 'kvb' keep pages in one folder, {scratch}/pages;" in out, (code, out, err))


def folder_that_cannot_be(scratch, file):
    """An `ssd` that is a file, cannot be made or is open to others is an error of validate; one that is there or can be made is none."""
    flow = FLOW
    os.mkdir(os.path.join(scratch, "open_pages"), 0o755)
    os.mkdir(os.path.join(scratch, "own_pages"), 0o700)
    column = flow.splitlines()[4].index("PLACE") + 1
    for place, words in (("folder.yaml", "it cannot be entered, or is no folder or a link: Not a directory"), ("none/pages", "it cannot be made: No such file or directory"),
                         ("open_pages", "others may enter it"), ("own_pages", ""), ("own_pages/", ""), ("new_pages", "")):
        path = file("folder.yaml", flow.replace("PLACE", place).encode())
        code, out, err = sluice("validate", path)
        if words:
            expect(f"ssd: {place}", code == 1 and f"folder.yaml:5:{column}: error: {os.path.join(scratch, place)}: {words}" in out and "1 error" in out, (code, out, err))
        else:
            expect(f"ssd: {place}", code == 0 and not os.path.exists(os.path.join(scratch, "new_pages")), (code, out, err))
    file("folder.yaml", flow.replace("PLACE", "none/pages").encode())
    apart = b"cluster: 1\nworkflows: [ folder.yaml ]\nmachines: { a: { home: true ADDRESS_A }, b: { roles: [ a ] ADDRESS_B } }\n"
    here = sluice("validate", file("of_machines.yaml", apart.replace(b"ADDRESS_A", b"").replace(b"ADDRESS_B", b"")))
    expect("a folder of machines of this computer", here[0] == 1 and "none/pages: it cannot be made" in here[1] and "1 error" in here[1], here)
    elsewhere = apart.replace(b"ADDRESS_A", b", address: tcp://127.0.0.1:27401").replace(b"ADDRESS_B", b", address: tcp://127.0.0.1:27402")
    there = sluice("validate", file("of_machines.yaml", elsewhere))
    expect("a folder that may be another machine's", there[0] == 0, there)
    two_flows_one_folder(scratch, file, flow, elsewhere)
    small = flow.replace("PLACE }", "own_pages,\n        page_tokens: 4096, ssd_bytes: 1GiB }")
    code, out, err = sluice("validate", file("folder.yaml", small.replace("1GiB", "1MiB").encode()))
    expect("a folder that is too small", code == 1 and "folder.yaml:6:39: error: " in out and "its 1024 KiB are too few" in out, (code, out, err))
    code, out, err = sluice("validate", file("folder.yaml", small.encode()), "--set", "global_params.kv.ssd_bytes=1MiB")
    expect("a folder that --set makes too small", code == 1 and "error: --set global_params.kv.ssd_bytes=1MiB: " in out and "its 1024 KiB are too few" in out, (code, out, err))


def two_flows_one_folder(scratch, file, flow, elsewhere):
    """Two workflows of a cluster file whose pools are on one computer need a folder each; on two computers the path may be the same."""
    file("folder.yaml", flow.replace("PLACE", "own_pages").encode())
    file("other.yaml", flow.replace("PLACE", "own_pages").replace("workflow: w", "workflow: v").replace("{ a: {", "{ c: {").replace("a.generate", "c.generate").encode())
    addresses = elsewhere.replace(b"folder.yaml", b"folder.yaml, other.yaml")
    together = addresses.replace(b"roles: [ a ]", b"roles: [ a, c ]")
    apart = addresses.replace(b"home: true", b"home: true, roles: [ c ]")
    here = b"cluster: 1\nworkflows: [ folder.yaml, other.yaml ]\nmachines: { a: { home: true, roles: [ c ] }, b: { roles: [ a ] } }\n"
    for what, cluster, machines in (("on one machine", together, "bb"), ("on one computer", here, "ba"), ("apart", apart, "")):
        code, out, err = sluice("validate", file("two.yaml", cluster))
        words = machines and (f"'kv' of {scratch}/folder.yaml (machine '{machines[0]}') and 'kv' of {scratch}/other.yaml (machine '{machines[1]}') keep pages in one folder, ")
        expect(f"two workflows, one folder, {what}", (code == 1 and words in out and "1 error" in out) if words else code == 0, (code, out, err))


def pools_of_machines(scratch, file):
    """Machines that have a pool in common keep a folder each in the one that is named, so two pools meet there on one machine alone."""
    def cluster(roles):
        machines = ", ".join(f"{name}: {{ roles: [ {mine} ] }}" for name, mine in roles.items())
        return file("spread.yaml", f"cluster: 1\nworkflows: [ folder.yaml, other.yaml ]\nmachines: {{ front: {{ home: true }}, {machines} }}\n".encode())
    for what, roles, machine in (("both spread", {"x": "a, c", "y": "a, c"}, "x"), ("on a machine each beside", {"x": "a", "y": "a", "z": "c"}, ""),
                                 ("apart", {"v": "a", "w": "a", "x": "c", "y": "c"}, ""), ("on one machine both", {"v": "a", "x": "a, c", "y": "c"}, "x")):
        code, out, err = sluice("validate", cluster(roles))
        words = machine and (f"'kv' of {scratch}/folder.yaml (machine '{machine}') and 'kv' of {scratch}/other.yaml (machine '{machine}') keep pages in one folder, ")
        expect(f"pools of machines, {what}", (code == 1 and words in out and "1 error" in out) if words else code == 0, (code, out, err))


def main():
    with tempfile.TemporaryDirectory() as scratch:
        file = Scratch(scratch).file
        folder_that_cannot_be(scratch, file)
        file("folder.yaml", FLOW.replace("PLACE", "own_pages").encode())
        pools_of_machines(scratch, file)
        folder_of_pages(scratch, file)
    print("\n".join(failures) if failures else "all as expected")
    sys.exit(1 if failures else 0)


main()
