"""The repository's rules as tests. Usage: tidy.py ROOT GATE [OBJECT...], or tidy.py ROOT self-test NM

Each gate prints what breaks it, one line a finding, and fails when there is any. `self-test` plants one violation
per gate in a scratch tree and fails unless exactly that gate reports it.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

from cpp_text import code_of
from packages import PRODUCT, TEST, listed, packages, sources
from standard import not_included

# Who may include whom, in our own words; docs/ARCHITECTURE.md shows the same table.
ALLOWED = {
    "base": {"base"},
    "kernels": {"kernels", "base"},
    "graph": {"graph", "base"},
    "dataplane": {"dataplane", "base"},
    "engine": {"engine", "kernels", "dataplane", "base"},
    "roles": {"roles", "engine", "graph", "kernels", "base"},
    "runtime": {"runtime", "graph", "base"},
    "workflows": {"workflows", "graph", "base"},
    "plugin": {"plugin", "workflows", "roles", "graph", "base"},
}
# The engine's rooms, and which others each may use; docs/ARCHITECTURE.md says what stands in each.
ROOMS = {
    "checkpoint": set(),
    "layers": {"checkpoint"},
    "family": {"checkpoint", "layers"},
    "picture": {"checkpoint", "layers", "family"},
    "text": {"checkpoint", "layers", "family", "picture"},
    "policy": {"checkpoint", "layers", "family"},
    "plan": set(),
    "storage": {"layers"},
    "tasks": {"checkpoint", "layers", "family", "picture", "text", "policy", "plan", "storage"},
    "device": {"checkpoint", "layers", "family", "policy", "tasks", "plan"},
    "check": {"checkpoint", "layers", "family", "picture", "text", "policy", "tasks"},
}
RUNTIME_ROLES = {"roles/role.h", "roles/catalog.h", "roles/plugin.h"}
THIRD_PARTY = {  # header prefix -> files that may include it
    "yaml-cpp/": r"workflows/yaml_tree\.cpp",
    "dnnl": r"(kernels/\w+_cpu|bench/peak)\.cpp",
    "cuda_runtime": r"kernels/cuda/.*",
    "cublas": r"kernels/cuda/device_cuda\.cpp",
    "pcre2": r"engine/text/tokenizer_text\.cpp",
    "utf8proc": r"engine/text/tokenizer_text\.cpp",
    "sentencepiece": r"engine/text/tokenizer_pieces\.cpp",
    "omp": r"(kernels/onednn_cpu|bench/peak)\.cpp",
    "turbojpeg": r"(engine/picture/image_file\.cpp|tests/roles/image_file_test\.cpp)",
    "stb/": r"engine/picture/image_file\.cpp",
    "nlohmann/": r"((engine|roles)/.*|cli/.*|bench/.*|tests/.*|examples/.*)",
    "CLI/": r"(cli|bench)/.*",
    "histedit": r"cli/line_editor\.cpp",
    "oneapi/": r"bench/.*",
    "catch2/": r"tests/.*",
    "zmq": r"(runtime/zmq/.*|tests/zmq/.*|bench/(links|join)\.cpp)",
    "hiredis/": r"runtime/redis/.*",
    "openssl/": r"runtime/tcp/.*",
    "ucp/": r"runtime/ucx/.*",
    "ucm/": r"runtime/ucx/.*",
    "lua": r"tests/index/.*",
    "liburing": r"(engine/storage/uring_port|bench/ssd)\.cpp",
}
LINKS = {"base": set(), "kernels": {"base"}, "graph": {"base"}, "dataplane": {"base"}, "engine": {"base", "kernels", "dataplane"}, "roles": {"base", "graph", "engine"},
         "runtime": {"base", "graph", "roles"}, "shm": {"base", "graph"}, "zmq": {"base", "graph", "shm"}, "redis": {"base"}, "ucx": {"base"}, "tcp": {"base"}, "workflows": {"base", "graph"},
         "plugin": {"base", "graph", "roles", "workflows"}}
BANNED = {  # pattern -> why; comments and strings are taken out first
    r"\bthrow\b": "ours never throws: return a Result",
    r"\bassert\s*\(": "use SLUICE_CHECK, which is always on",
    r"\b(sleep_for|sleep_until|usleep|nanosleep|sleep)\s*\(": "nothing sleeps",
    r"\busing namespace std\s*;": "name what you use",
    r"\b(system|popen)\s*\(": "no shell",
}
IMPURE = re.compile(
    r"\b(clock_gettime|gettimeofday|time|clock|getenv|secure_getenv|setenv|fopen|open|read|write|socket|connect|"
    r"pthread_\w+|rand|random|srand|getrandom|std::chrono::_V2::\w+::now|std::random_device\S*|std::thread\S*|"
    r"std::mutex\S*|std::condition_variable\S*|std::basic_\w*fstream\S*|usleep|nanosleep)(\(|@|$)")
SOURCE_DIRS = ("base", "kernels", "graph", "dataplane", "engine", "roles", "runtime", "workflows", "plugin", "cli", "examples", "bench", "tests")


def files(root, *suffixes):
    for top in SOURCE_DIRS:
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in sorted(names):
                if name.endswith(suffixes):
                    path = os.path.join(folder, name)
                    yield os.path.relpath(path, root), open(path, encoding="utf-8", errors="replace").read()


def includes(root):
    for path, text in files(root, ".h", ".hpp", ".cpp", ".cu"):
        top = path.split("/")[0]
        for line, quoted, angled in re.findall(r'^(#include (?:"([^"]+)"|<([^>]+)>))', text, re.M):
            target = quoted or angled
            if quoted and "/" in quoted and top in ALLOWED:
                owner = quoted.split("/")[0]
                if owner not in ALLOWED[top] and not (top == "runtime" and quoted in RUNTIME_ROLES):
                    yield f"{path}: {top}/ may not include {quoted}"
                if top == owner == "engine":
                    room, other = path.split("/")[1], quoted.split("/")[1]
                    if other != room and other not in ROOMS.get(room, set()):
                        yield f"{path}: engine/{room}/ may not include {quoted}"
            for prefix, where in THIRD_PARTY.items():
                if target.startswith(prefix) and not re.fullmatch(where, path):
                    yield f"{path}: {target} may be included by {where} only"


def standard(root):
    yield from not_included(dict(files(root, ".h", ".hpp", ".cpp", ".cu")))


def words(root):
    for path, text in files(root, ".h", ".hpp", ".cpp", ".cu"):
        for number, line in enumerate(code_of(text).split("\n"), 1):
            for pattern, why in BANNED.items():
                # The headers of plugins are built into an author's role, and catch what they throw there.
                if re.search(pattern, line) and not (pattern.startswith(r"\bthrow") and
                                                     path.startswith(("tests/", "plugin/include/"))):
                    yield f"{path}:{number}: {why}"
            if path.startswith("graph/") and "shared_ptr" in line:
                yield f"{path}:{number}: the core has no shared_ptr"
        for number, line in enumerate(text.split("\n"), 1):
            if re.search(r"\b(TO" r"DO|FIX" r"ME)\b", line):
                yield f"{path}:{number}: an open promise"
    for folder, _, names in os.walk(os.path.join(root, "tools")):
        for name in names:
            text = open(os.path.join(folder, name), encoding="utf-8", errors="replace").read()
            if re.search(r"^\s*(import|from) (pick" r"le|mar" r"shal|shel" r"ve|dill)\b", text, re.M):
                yield f"{os.path.relpath(os.path.join(folder, name), root)}: a format that can carry code"


def kernels(root):
    """A kernel of a GPU waits for what the ones before it have written before it does anything else."""
    first = {"matvec_kernel": "ask_for<W>("}  # weights, which nobody writes
    for path, text in files(root, ".cu"):
        for name, body in re.findall(r"__global__ void (?:__launch_bounds__\(\w+\)\s*)?(\w+)\([^{]*\)\s*\{(.*?)^}",
                                     code_of(text), re.M | re.S):
            before = body.split("wait_for_inputs();")[0].strip() if "wait_for_inputs();" in body else body
            if before and not (name in first and first[name] in before and "SLUICE_SHARED" not in before):
                yield f"{path}: {name} does not begin with wait_for_inputs()"


def functions(code):
    """(first line, lines) of each outermost brace block that follows a parameter list, roughly."""
    lines = code.split("\n")
    depth, start, named = [], 0, False
    for number, line in enumerate(lines, 1):
        for at, char in enumerate(line):
            if char == "{":
                before = (lines[number - 2] if number > 1 and not line[:at].strip() else "") + line[:at]
                is_function = bool(re.search(r"\)\s*(const)?\s*(noexcept)?\s*(override)?\s*(->\s*[\w:<>]+)?\s*$", before))
                depth.append((number, is_function and not any(f for _, f in depth)))
            elif char == "}" and depth:
                start, named = depth.pop()
                if named:
                    yield start, number - start + 1


def sizes(root):
    for path, text in files(root, ".h", ".hpp", ".cpp", ".cu"):
        lines = text.split("\n")
        limit = 250 if path.endswith((".h", ".hpp")) else 600
        if len(lines) - 1 > limit:
            yield f"{path}: {len(lines) - 1} lines, the limit is {limit}"
        for number, line in enumerate(lines, 1):
            if len(line) > 100:
                yield f"{path}:{number}: {len(line)} columns, the limit is 100"
        if not path.startswith("tests/"):
            for number, length in functions(code_of(text)):
                if length > 62:
                    yield f"{path}:{number}: a function of {length} lines, the limit is 60"


def headers(root):
    for path, text in files(root, ".h", ".hpp"):
        if not re.match(r"// \w.*\n", text):
            yield f"{path}: a header opens with a sentence about what it is"
        if "#pragma once" not in text:
            yield f"{path}: no #pragma once"


def text(root):
    tracked = ""
    if shutil.which("git"):  # an unpacked archive needs none
        listed = subprocess.run(["git", "-C", root, "ls-files", "-z"], capture_output=True, text=True)
        tracked = listed.stdout if listed.returncode == 0 else ""
    names = tracked.split("\0") if tracked else [p for p, _ in files(root, "")]
    for name in filter(None, names):
        path = os.path.join(root, name)
        if not os.path.isfile(path):
            continue
        data = open(path, "rb").read()
        limit = 3_000_000 if name.startswith("tests/golden/") else 1_000_000
        if len(data) > limit and not name.startswith(("models/", "tests/data/")):
            yield f"{name}: {len(data)} bytes"
        if b"\0" in data or name.endswith((".png", ".jpg")) or name.startswith(("tests/workflows/errors/", "tests/fuzz/corpus/")):
            continue
        if data and not data.endswith(b"\n"):
            yield f"{name}: no newline at the end"
        for number, line in enumerate(data.split(b"\n"), 1):
            if line.rstrip(b" \t\r") != line and name != "LICENSE":
                yield f"{name}:{number}: white space at the end of the line"


def links(root):
    cmake = open(os.path.join(root, "CMakeLists.txt")).read()
    for name, allowed in LINKS.items():
        for block in re.findall(rf"target_link_libraries\(sluice_{name}\b([^)]*)\)", cmake):
            for other in re.findall(r"\bsluice_(\w+)", block):
                if other not in allowed and other != "options":
                    yield f"CMakeLists.txt: sluice_{name} may not link sluice_{other}"
    page = open(os.path.join(root, "docs/ARCHITECTURE.md")).read()
    for name, allowed in ALLOWED.items():
        row = re.search(rf"^\| `{name}/` \| ([^|]*) \|", page, re.M)
        shown = set(re.findall(r"`(\w+)/`", row.group(1))) if row else None
        if shown != allowed - {name}:
            yield f"docs/ARCHITECTURE.md: the row of {name}/ shows {shown}, the rule is {allowed - {name}}"


def types(root):
    """Two types of one name in one namespace: the linker mixes what the compiler made of them, and says nothing."""
    defined = {}
    for path, text in files(root, ".h", ".hpp", ".cpp"):
        if path.startswith(("tests/", "bench/", "examples/", "plugin/include/", "cli/role_template/")):
            continue
        spaces = []
        for line in text.split("\n"):
            if opened := re.match(r"namespace\s*([\w:]*)\s*\{", line):
                spaces.append(opened.group(1))
            elif line.startswith("}  // namespace") and spaces:
                spaces.pop()
            named = re.match(r"(?:class|struct|enum class)\s+(?:alignas\(\w+\)\s+)?(\w+)\b(?!::|<)[^;]*$", line)
            if named and "" not in spaces:
                name = "::".join(spaces + [named.group(1)])
                if defined.setdefault(name, path) != path:
                    yield f"{path}: {name} is defined in {defined[name]} too"


def purity(root, *objects):
    for path in objects:
        listed = subprocess.run(["nm", "-uC", path], capture_output=True, text=True, check=True).stdout
        for line in listed.splitlines():
            symbol = line.strip().removeprefix("U ").strip()
            if IMPURE.match(symbol):
                yield f"{os.path.basename(path)}: uses {symbol}"


def python(root):
    """Names that no file defines and calls that their function does not take: Python finds them when it gets there."""
    found = [os.path.join(folder, name) for top in ("", *SOURCE_DIRS, "tools", ".ci")
             for folder, _, names in os.walk(os.path.join(root, top))
             for name in names if name.endswith(".py") and (top or folder == root)]
    # What is off needs modules that are not here, or takes one file for another of its name in another folder.
    off = "import-error,no-name-in-module,no-member,function-redefined"
    said = subprocess.run(["pylint", "-j2", "-E", f"--disable={off}", "--msg-template={path}:{line}: {msg}", *found],
                          capture_output=True, text=True, check=False)
    yield from (line for line in said.stdout.splitlines() if re.match(r"\S+\.py:\d+: ", line))
    if said.returncode & ~2 or not found:  # 2: errors were found
        yield f"pylint ends with {said.returncode}: {said.stderr.strip()}"


GATES = {"includes": includes, "standard": standard, "words": words, "sizes": sizes, "headers": headers, "text": text,
         "links": links, "packages": packages, "types": types, "kernels": kernels, "purity": purity, "python": python}
SLOW = ("purity", "python")  # planted for one by one

PLANTED = [  # (gate, file, what is put at its end)
    ("includes", "graph/bad.h", '// A thing.\n#pragma once\n#include "roles/role.h"\n'),
    ("words", "graph/bad.cpp", "void f() { throw 1; }\n"),
    ("standard", "graph/bad.cpp", "std::string f();\n"),
    ("types", "graph/bad.cpp", "namespace sluice {\nstruct Message {\n  int a;\n};\n}  // namespace sluice\n"),
    ("kernels", "kernels/cuda/bad.cu", "__global__ void f(int* a) {\n  *a = 1;\n  wait_for_inputs();\n}\n"),
    ("kernels", "kernels/cuda/bad.cu", "__global__ void f(int* a) {\n  *a = 1;\n}\n"),
    ("sizes", "graph/bad.cpp", "void f() {\n" + "  g();\n" * 80 + "}\n"),
    ("headers", "graph/bad.h", "#pragma once\n"),
    ("text", "graph/bad.cpp", "int a; \n"),
    ("links", "CMakeLists.txt", "target_link_libraries(sluice_graph PUBLIC sluice_base sluice_roles)\n"),
    ("packages", "CMakeLists.txt", "find_package(Boost REQUIRED)\n"),
    ("packages", "CMakeLists.txt", "find_package(TBB REQUIRED)\n"),  # in the tests' list only
    ("packages", "CMakeLists.txt", "pkg_check_modules(Z REQUIRED IMPORTED_TARGET zlib)\n"),
    ("packages", "tests/CMakeLists.txt", "add_test(NAME a COMMAND valgrind sluice)\n"),
    ("packages", "demo", "if true; then LANG=C jq . build.log; fi\n"),
    ("packages", "test", 'echo "$(curl -s localhost)"\n'),
    ("packages", "tools/setup", "python3 -c 1\n"),
    ("packages", "tests/sim/hunt.py", "import numpy\n"),
    ("packages", "tests/sim/hunt.py", 'subprocess.run(["perf", "stat"])\n'),
    ("packages", "tests/golden/make.py", "import scipy\n"),
    ("packages", "tests/CMakeLists.txt", "add_test(NAME a COMMAND ${Python3_EXECUTABLE} golden/make.py)\n"),
    ("packages", "base/bad.cpp", "#include <zlib.h>\n"),
    ("packages", TEST, "valgrind\n"),
]


def plant_tree(root, scratch):
    for top in (*SOURCE_DIRS, "docs", "tools"):
        os.makedirs(os.path.join(scratch, top))
    shutil.copy(os.path.join(root, "docs/ARCHITECTURE.md"), os.path.join(scratch, "docs"))
    open(os.path.join(scratch, "base/message.h"), "w").write(
        "// A message.\n#pragma once\nnamespace sluice {\nstruct Message {\n  int b;\n};\n}  // namespace sluice\n")
    for path, content in sources(root):
        os.makedirs(os.path.dirname(os.path.join(scratch, path)), exist_ok=True)
        if path.endswith((".h", ".hpp", ".cpp", ".cu")):
            if path.endswith((".h", ".hpp")):
                continue
            content = "".join(line + "\n" for line in content.split("\n") if line.startswith("#include <"))
        open(os.path.join(scratch, path), "w").write(content)


def findings(scratch):
    return {gate: list(check(scratch)) for gate, check in GATES.items() if gate not in SLOW}


def self_test(root):
    with tempfile.TemporaryDirectory() as scratch:
        plant_tree(root, scratch)
        if any(findings(scratch).values()):
            yield f"a clean tree is not clean: {findings(scratch)}"
        for gate, name, content in PLANTED:
            path = os.path.join(scratch, name)
            before = open(path).read() if os.path.exists(path) else None
            open(path, "a").write(content)
            for other, found in findings(scratch).items():
                if bool(found) != (other == gate):
                    yield f"planted for {gate} in {name}, gate {other} reports {found}"
            if before is None:
                os.remove(path)
            else:
                open(path, "w").write(before)
        for name in (PRODUCT, TEST):  # whatever is lost from a list is missed
            path = os.path.join(scratch, name)
            whole = open(path).read()
            for package in listed(whole):
                open(path, "w").write(re.sub(rf"^{re.escape(package)}$", "", whole, flags=re.M))
                if not any(package in finding for finding in packages(scratch)):
                    yield f"{package} is taken out of {name}, and packages reports nothing"
            open(path, "w").write(whole)
    with tempfile.TemporaryDirectory() as scratch:
        source, made = os.path.join(scratch, "bad.cpp"), os.path.join(scratch, "bad.o")
        open(source, "w").write("#include <ctime>\nlong f() { return time(nullptr); }\n")
        subprocess.run([os.environ.get("CXX", "c++"), "-c", source, "-o", made], check=True)
        if not list(purity(scratch, made)):
            yield "a clock in a pure object is not seen"
        os.makedirs(os.path.join(scratch, "tests"))
        open(os.path.join(scratch, "tests", "one.py"), "w").write("def f(a, b):\n    return a + b\n")
        open(os.path.join(scratch, "tests", "two.py"), "w").write("from one import f\nprint(f(1))\n")
        if not any("tests/two.py:2" in finding and "'b'" in finding for finding in python(scratch)):
            yield "a call without an argument is not seen"


def main():
    root, gate, *rest = sys.argv[1:]
    found = list(self_test(root) if gate == "self-test" else GATES[gate](root, *rest))
    print("\n".join(found) if found else f"{gate}: clean")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
