"""What the repository uses stands in its package lists, and nothing else does.

Seen are: find_package, pkg_check_modules, find_program and COMMANDs in CMake; programs that shell scripts and Python
subprocesses call; Python imports; third-party headers. Each needs its Debian package in tools/packages.txt, or, for
what only tests, benches and their peers use, in tools/packages-test.txt. A name that the tables do not know is a
finding. A file that is run by hand only may say, alone on a line, what else it needs:

    Not in the package lists: NAME, NAME
"""
import ast
import functools
import os
import re
import sys

from shell_words import programs

BASE = ""  # in every Debian: essential packages, required ones, apt
CMAKE = {"Threads": BASE, "OpenMP": "g++", "yaml-cpp": "libyaml-cpp-dev", "nlohmann_json": "nlohmann-json3-dev",
         "CLI11": "libcli11-dev", "dnnl": "libdnnl-dev ocl-icd-opencl-dev", "PkgConfig": "pkg-config",
         "TBB": "libtbb-dev", "Catch2": "catch2", "Python3": "python3", "libturbojpeg": "libturbojpeg0-dev",
         "libpcre2-8": "libpcre2-dev", "libutf8proc": "libutf8proc-dev", "liburing": "liburing-dev", "sentencepiece": "libsentencepiece-dev",
         "libzmq": "libzmq3-dev", "libedit": "libedit-dev", "cppzmq": "cppzmq-dev", "hiredis": "libhiredis-dev",
         "ucx": "libucx-dev", "libcrypto": "libssl-dev", "lua5.1": "liblua5.1-0-dev"}
PROGRAMS = {"cmake": "cmake", "ctest": "cmake", "ninja": "ninja-build", "c++": "g++", "g++": "g++", "git": "git",
            "python3": "python3", "pip3": "python3-pip", "cc": "g++", "gcc": "g++", "pkg-config": "pkg-config", "redis-server": "redis-server", "pylint": "pylint",
            "ip": "iproute2", "fio": "fio", "iperf3": "iperf3", "ucx_perftest": "ucx-utils",
            **dict.fromkeys("ar c++filt nm objcopy objdump ranlib readelf size strip strings".split(), "binutils"),
            **dict.fromkeys("""apt-config apt-get awk bash cat chmod chroot cmp cp cut date df diff dirname dpkg dpkg-query env
                            find grep head id kill ldd ln ls mkdir mktemp mount mv nice nproc nsenter
                            readlink realpath rm sed setpriv sh sha256sum
                            sleep sort stat
                            sudo tail tar tee test touch tr true umount uname uniq unshare wc xargs""".split(), BASE)}
MODULES = {"yaml": "python3-yaml"}
HEADERS = {"yaml-cpp/": "libyaml-cpp-dev", "dnnl": "libdnnl-dev", "pcre2": "libpcre2-dev",
           "utf8proc": "libutf8proc-dev", "sentencepiece": "libsentencepiece-dev", "turbojpeg": "libturbojpeg0-dev",
           "stb/": "libstb-dev", "nlohmann/": "nlohmann-json3-dev", "CLI/": "libcli11-dev",
           "oneapi/": "libtbb-dev", "histedit": "libedit-dev", "catch2/": "catch2", "zmq": "cppzmq-dev",
           "hiredis/": "libhiredis-dev", "openssl/": "libssl-dev", "lua.hpp": "liblua5.1-0-dev", "ucp/": "libucx-dev", "ucm/": "libucx-dev",
           "liburing": "liburing-dev", "sluice/": BASE,  # the last is ours
           **dict.fromkeys(("sys/", "arpa/", "netinet/", "linux/", "sanitizer/"), "g++"),
           **dict.fromkeys("""cpuid.h cxxabi.h dirent.h dlfcn.h elf.h errno.h execinfo.h fcntl.h immintrin.h link.h
                           malloc.h netdb.h omp.h poll.h pthread.h pwd.h sched.h semaphore.h signal.h spawn.h stdint.h stdlib.h
                           string.h termios.h time.h ucontext.h unistd.h x86intrin.h""".split(), "g++")}
CUDA = {"CUDAToolkit", "nvcc", "cuda_runtime.h", "cuda_bf16.h", "mma.h", "cublasLt.h"}  # not Debian's; optional
PRODUCT, TEST = "tools/packages.txt", "tools/packages-test.txt"
DECLARED = re.compile(r"^#?\s*Not in the package lists: ([^\n(]*)", re.M)
TOPS = (".ci", "base", "bench", "cli", "engine", "examples", "graph", "kernels", "plugin", "roles", "runtime", "tests", "tools",
        "workflows")


def sources(root):
    """(path, text) of what is read here: CMake files, scripts, Python, our C++, and the lists."""
    found = [name for name in sorted(os.listdir(root)) if os.path.isfile(os.path.join(root, name))]
    for top in TOPS:
        for folder, _, names in sorted(os.walk(os.path.join(root, top))):
            found += [os.path.relpath(os.path.join(folder, name), root) for name in sorted(names)]
    for path in found:
        with open(os.path.join(root, path), "rb") as file:
            head = file.read(64)
        script = re.match(rb"#!.*\b(ba)?sh\b", head)
        if script or path in (PRODUCT, TEST) or path.endswith(("CMakeLists.txt", ".cmake", ".py", ".h", ".hpp", ".cpp", ".cu")):
            with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
                yield path, file.read()


def wanted_by_cmake(text):
    """(kind, name) of each thing that a CMake file asks for."""
    text = re.sub(r"#[^\n]*", "", text)
    if re.search(r"\bproject\([^)]*\bCXX\b", text):
        yield PROGRAMS, "c++"
    for name in re.findall(r"\bfind_package\(\s*(\S+?)[\s)]", text):
        yield CMAKE, name
    for words in re.findall(r"\bpkg_check_modules\(\s*\S+([^)]*)\)", text):
        yield from ((CMAKE, w) for w in words.split() if not w.isupper() and w != "IMPORTED_TARGET")
    for words in re.findall(r"\bfind_program\(\s*\S+([^)]*)\)", text):
        yield from ((PROGRAMS, w) for w in words.split()[:1])
    made = [re.sub(r"\$\{\w+\}", r"\\w+", t) for t in re.findall(r"\badd_executable\(\s*(\S+)", text)]
    for name in re.findall(r"\bCOMMAND\s+([^\s$)][^\s)]*)", text):
        name = re.sub(r"\$\{\w+\}", "x", name)
        if not any(re.fullmatch(t, name) for t in (*made, r"sluice", r"(test|bench|fuzz|example)_\w+")):
            yield PROGRAMS, name


def first_words(tree, value):
    """What a subprocess call may start: a constant, or what its name is given in the same file."""
    if isinstance(value, ast.List) and value.elts:
        yield from first_words(tree, value.elts[0])
    elif isinstance(value, ast.BinOp):
        yield from first_words(tree, value.left)
    elif isinstance(value, ast.Constant) and isinstance(value.value, str):
        yield value.value.split()[0]
    elif isinstance(value, ast.Call) and len(value.args) == 2:  # os.environ.get(NAME, default)
        yield from first_words(tree, value.args[1])
    elif isinstance(value, ast.Name):
        for node in ast.walk(tree):
            named = [t.id for t in getattr(node, "targets", []) if isinstance(t, ast.Name)]
            if isinstance(node, ast.Assign) and value.id in named and not isinstance(node.value, ast.Name):
                yield from first_words(tree, node.value)


@functools.cache  # the self-test reads each file a hundred times
def named_by_python(text):
    """(kind, name) of what a Python file imports and starts."""
    return tuple(read_by_python(text))


def read_by_python(text):
    tree = ast.parse(text)
    yield PROGRAMS, "python3"
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module]
        for name in (n.split(".")[0] for n in names):
            if name not in sys.stdlib_module_names:
                yield MODULES, name
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            owner = node.func.value
            if isinstance(owner, ast.Name) and owner.id == "subprocess":
                yield from ((PROGRAMS, w) for w in first_words(tree, node.args[0]))


def wanted_by_cpp(text):
    for name in re.findall(r"^#include <([^>]+)>", text, re.M):
        if "." in name or "/" in name:  # the others are the language's own
            yield HEADERS, next((p for p in HEADERS if name.startswith(p)), name)


def wanted(path, text, local):
    if path.endswith(("CMakeLists.txt", ".cmake")):
        return wanted_by_cmake(text)
    if path.endswith(".py"):
        return ((table, name) for table, name in named_by_python(text) if table is not MODULES or name not in local)
    if path.endswith((".h", ".hpp", ".cpp", ".cu")):
        return wanted_by_cpp(text)
    return ((PROGRAMS, name) for name in programs(text) if "/" not in name or name.startswith("/"))


def unique(pairs):
    return {(id(table), name): (table, name) for table, name in pairs}.values()


def listed(text):
    return [line for line in (re.sub(r"#.*", "", raw).strip() for raw in text.split("\n")) if line]


def imports_of(texts, path):
    """Stems of Python files that `path` can import: beside it, or in a folder that it names."""
    folders = {os.path.dirname(path)}
    folders |= {os.path.normpath(os.path.join(os.path.dirname(path), f))
                for f in re.findall(r"[\"'](\.\./[\w/]*)[\"']", texts[path])}
    return {os.path.basename(p)[:-3]: p for p in texts if p.endswith(".py") and os.path.dirname(p) in folders}


def packages(root):
    texts = dict(sources(root))
    product, test = listed(texts.pop(PRODUCT, "")), listed(texts.pop(TEST, ""))
    yield from (f"{name} stands twice in the package lists" for name in sorted(set(product + test))
                if (product + test).count(name) > 1)
    by_hand = {p for p in texts if DECLARED.search(texts[p]) and not p.startswith("tests/tidy/")}
    needed = set()
    run = "\n".join(re.sub(r"#[^\n]*", "", t) for p, t in texts.items() if p.endswith("CMakeLists.txt"))
    run += "".join(f"\n{name}" for p in ("demo", "test") if p in texts for name in programs(texts[p]))
    for path, text in texts.items():
        allowed = {n for line in DECLARED.findall(text) for n in re.split(r"[,\s]+", line.strip())}
        if path not in by_hand:
            allowed = set()
        elif re.search(rf"[/\s]{re.escape(os.path.basename(path))}\b", run):
            yield f"{path}: is run by a test or by ./demo, so what it needs has to be in the package lists"
        local = imports_of(texts, path) if path.endswith(".py") else {}
        here = product if not path.startswith(("tests/", "bench/", "test", ".ci/", "tools/train/")) else product + test
        used = set()
        for table, name in unique(wanted(path, text, local)):
            used.add(name)
            if name in allowed or name in CUDA:
                continue
            name = name.split("/")[-1] if name.startswith("/") else name
            if name not in table:
                yield f"{path}: no Debian package is known for {name} (add it to a table of tests/tidy/packages.py)"
                continue
            for package in table[name].split():
                needed.add(package)
                if package not in here:
                    where = f"{PRODUCT} or {TEST}" if here is not product else PRODUCT
                    yield f"{path}: uses {name}, but {package} is not in {where}"
        for name in sorted(allowed - used):
            yield f"{path}: says that it needs {name}, but does not use it"
    for name in sorted(set(product + test) - needed):
        yield f"tools: {name} is in the package lists, but nothing here uses it"
