"""A role of one's own, from the installed package alone. Usage: project_test.py BUILD_DIRECTORY

Installs into a scratch prefix, makes a project of each kind of role there, builds it with that prefix and no other
path, and runs its tests. Then what `new role` refuses, what `validate` does without code, and that a plugin whose
manifest was changed after it was built is refused.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

FAILURES = []


def run(words, cwd=None, timeout=300):
    # CMake's own choice is make, which a machine need not have.
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "LANG": "C.UTF-8", "CMAKE_GENERATOR": "Ninja"}
    done = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, timeout=timeout)
    return done.returncode, done.stdout + done.stderr


def expect(what, said, status, output=""):
    if said[0] != status or output not in said[1]:
        FAILURES.append(f"{what}: exit status {said[0]}, not {status}, or no '{output}' in\n{said[1]}")


def build(project, prefix):
    expect("configure", run(["cmake", "-S", project, "-B", project + "/build", f"-DCMAKE_PREFIX_PATH={prefix}"]), 0)
    expect("build", run(["cmake", "--build", project + "/build"]), 0)
    expect("ctest", run(["ctest", "--test-dir", project + "/build", "--output-on-failure"]), 0,
           "100% tests passed, 0 tests failed out of 4")


def no_flag_of_ours(project):
    """The command lines of the build hold what a plain project of CMake has, and the package's include path."""
    with open(project + "/build/build.ninja") as file:
        flags = set(re.findall(r"^  FLAGS = (.*)$", file.read(), re.M))
    # The last is that of linking.
    if flags != {"-O3 -DNDEBUG -fPIC -std=gnu++20", "-O3 -DNDEBUG -std=gnu++20", "-O3 -DNDEBUG"}:
        FAILURES.append(f"the targets have the flags {flags}")


def own_libraries(project, prefix):
    """A role with a library, an include path and a definition of its own: its test program has them too."""
    os.mkdir(project + "/lungs")
    with open(project + "/lungs/lungs.hpp", "w") as header:
        header.write("int breaths();\n")
    with open(project + "/lungs.cpp", "w") as source:
        source.write("int breaths() { return 2; }\n")
    with open(project + "/CMakeLists.txt", "a") as lists:
        lists.write("add_library(lungs STATIC lungs.cpp)\n"
                    "set_target_properties(lungs PROPERTIES POSITION_INDEPENDENT_CODE ON)\n"
                    "target_link_libraries(shout PRIVATE lungs)\n"
                    "target_include_directories(shout PRIVATE lungs)\n"
                    "target_compile_definitions(shout PRIVATE BREATHS=2)\n")
    with open(project + "/shout.cpp", "a") as role:
        role.write("#include <lungs.hpp>\nextern const bool breathes;\nconst bool breathes = breaths() == BREATHS;\n")
    build(project, prefix)


def refusals(sluice, scratch):
    for name, says in (("Loud", "cannot be a role's name"), ("../loud", "cannot be a role's name"),
                       ("test", "a target of CMake's own"), ("null", "'null' is no name in YAML"), ("denoiser", "there is a plugin 'denoiser' already"),
                       ("shout", "is there already: give another folder")):
        expect(f"new role {name}", run([sluice, "new", "role", name], cwd=scratch), 1, says)


def changed_manifest(sluice, project):
    """Without the shared object all but `run` works; with another manifest it is refused by name."""
    folder = project + "/build"
    plugins = ["--plugins", folder]
    workflow = project + "/workflow.yaml"
    os.rename(folder + "/shout.so", folder + "/hidden")
    expect("validate", run([sluice, "validate", workflow, *plugins]), 0, "1 file, 0 errors, 0 warnings")
    expect("plan", run([sluice, "plan", workflow, *plugins]), 0, "speak")
    expect("test", run([sluice, "test", project + "/scenario.yaml", *plugins]), 0, "1 of 1 scenarios passed")
    expect("simulate", run([sluice, "simulate", workflow, "--calls", "5", *plugins]), 0, "5 calls")
    expect("roles", run([sluice, "roles", *plugins]), 0, "option times: how often each word is said (a whole number "
           "from 1 to 9; default: 1)")
    expect("run", run([sluice, "run", workflow, "--prompt", "a", *plugins]), 1, "neither shout.so nor libshout.so is")
    expect("no folder", run([sluice, "validate", workflow]), 1, "wants the plugin 'shout', which is not there")
    os.rename(folder + "/hidden", folder + "/shout.so")
    text = open(folder + "/shout.role.yaml").read()
    with open(folder + "/shout.role.yaml", "w") as manifest:
        manifest.write(text.replace("most: 9", "most: 8"))
    expect("another manifest", run([sluice, "run", workflow, "--prompt", "a", *plugins]), 1,
           "options.times is a whole number from 1 to 8 in the manifest, a whole number from 1 to 9 in it")


def main():
    built = os.path.abspath(sys.argv[1])
    scratch = tempfile.mkdtemp(prefix="sluice_project_")
    try:
        prefix = scratch + "/prefix"
        expect("install", run(["cmake", "--install", built, "--prefix", prefix]), 0)
        sluice = prefix + "/bin/sluice"
        expect("new role", run([sluice, "new", "role", "shout"], cwd=scratch), 0, "shout: a plain role")
        expect("new role", run([sluice, "new", "role", "speech", "deep/er", "--stepped"], cwd=scratch), 0)
        expect("a folder with a blank, as it is typed", run([sluice, "new", "role", "speech", "my own/it's"], cwd=scratch), 0,
               "my own/it's: a plain role, a workflow and their tests\n  cd 'my own/it'\\''s' && cmake -S . ")
        for project in (scratch + "/shout", scratch + "/deep/er"):
            build(project, prefix)
            if FAILURES:
                break
            no_flag_of_ours(project)
        if not FAILURES:
            own_libraries(scratch + "/shout", prefix)
            refusals(sluice, scratch)
            changed_manifest(sluice, scratch + "/shout")
    finally:
        shutil.rmtree(scratch)
    print("\n".join(FAILURES) if FAILURES else "plugin_project: all went well")
    sys.exit(1 if FAILURES else 0)


if __name__ == "__main__":
    main()
