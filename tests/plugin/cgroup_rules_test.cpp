// What is decided about cgroups, from texts as kernels write them.
#include "runtime/hosts/cgroup_rules.h"

#include <signal.h>

#include <catch2/catch.hpp>
#include <map>
#include <optional>
#include <string>

using namespace sluice;
using hosts::CgroupCounts;
using hosts::CgroupVersion;
using hosts::CgroupWay;
using hosts::OwnCgroup;
using Kind = hosts::CgroupName::Kind;

namespace {

constexpr std::uint64_t gib = std::uint64_t{1} << 30U;

const std::string both = "9:name=systemd:/\n4:cpu,memory:/jobs/a b\n0::/jobs\n";
const std::string mounts =
    "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
    "34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset\n"
    "35 31 0:32 / /sys/fs/cgroup/mem\\040ory rw,relatime shared:9 - cgroup cgroup rw,cpu,memory\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate\n";

std::string own(CgroupVersion version, const std::string& cgroups, const std::string& mounted) {
  const Result<std::string> folder = hosts::own_cgroup(version, cgroups, mounted);
  return folder.ok() ? *folder : "error: " + folder.error().message;
}

std::string way(CgroupVersion version, const OwnCgroup& own) {
  const Result<CgroupWay> chosen = hosts::cgroup_way(version, own, 42);
  if (!chosen.ok()) return chosen.error().message;
  switch (*chosen) {
    case CgroupWay::inside:
      return "inside";
    case CgroupWay::beside:
      return "beside";
    case CgroupWay::move:
      return "move";
  }
  return "";
}

/// In which this program is alone, as `systemd-run --user --scope -p Delegate=yes` makes one.
OwnCgroup delegated() {
  OwnCgroup own;
  own.folder = "/c/run.scope";
  own.writable = own.moves = true;
  own.type = "domain\n";
  own.controllers = "cpu memory pids\n";
  own.processes = "42\n";
  return own;
}

std::string written(CgroupVersion version) {
  std::string text;
  for (const hosts::CgroupSetting& one : hosts::cgroup_settings(version, gib))
    text += one.file + "=" + one.text + (one.needed ? "! " : " ");
  return text;
}

}  // namespace

TEST_CASE(
    "a process may have as much memory as the least limit of its cgroup and those around it") {
  std::map<std::string, std::string> files{{"/proc/self/cgroup", both},
                                           {"/proc/self/mountinfo", mounts}};
  const auto limit = [&files] {
    return memory_limit([&files](const std::string& path) {
      const auto it = files.find(path);
      return it != files.end() ? it->second : std::string();
    });
  };
  CHECK(limit() == std::nullopt);
  files["/sys/fs/cgroup/unified/jobs/memory.max"] = "max\n";
  CHECK(limit() == std::nullopt);
  files["/sys/fs/cgroup/mem ory/jobs/a b/memory.limit_in_bytes"] = "9223372036854771712\n";
  CHECK(limit() == 9223372036854771712U);
  files["/sys/fs/cgroup/unified/memory.max"] = "3000000\n";  // of a container, seen from within
  CHECK(limit() == 3000000);
  files["/sys/fs/cgroup/mem ory/jobs/memory.limit_in_bytes"] = "2000000\n";
  CHECK(limit() == 2000000);
  files["/sys/fs/cgroup/unified/jobs/memory.max"] = "1000000\n";
  CHECK(limit() == 1000000);
  files["/sys/fs/cgroup/unified/jobs/memory.max"] = "nonsense -1 0x10";
  CHECK(limit() == 2000000);
  files["/proc/self/cgroup"] = "0::/jobs/sluice-host-1-2-3\n";
  files["/sys/fs/cgroup/unified/jobs/sluice-host-1-2-3/memory.max"] = "1000\n";
  CHECK(limit() == 3000000);  // of a role host its own is not asked
  files.erase("/proc/self/mountinfo");
  CHECK(limit() == std::nullopt);
  CHECK(memory_here().bytes > 0);
}

TEST_CASE("the folder of a process' own cgroup is found through what is mounted") {
  CHECK(own(CgroupVersion::v1, both, mounts) == "/sys/fs/cgroup/mem ory/jobs/a b");
  CHECK(own(CgroupVersion::v2, both, mounts) == "/sys/fs/cgroup/unified/jobs");
  CHECK(own(CgroupVersion::v2, "0::/\n", mounts) == "/sys/fs/cgroup/unified");
  // As in a container without a namespace of cgroups, which sees its own part of the tree.
  const std::string part = "41 31 0:38 /jobs /c rw - cgroup2 cgroup2 rw\n";
  CHECK(own(CgroupVersion::v2, "0::/jobs\n", part) == "/c");
  CHECK(own(CgroupVersion::v2, "0::/jobs/a\n", part) == "/c/a");
  // The newest mount that has it.
  CHECK(own(CgroupVersion::v2, "0::/jobs\n", mounts + part) == "/c");
  CHECK(own(CgroupVersion::v2, "0::/other\n", mounts + part) == "/sys/fs/cgroup/unified/other");
}

TEST_CASE("a hierarchy that is not there, or not in sight, is said with its version") {
  CHECK(own(CgroupVersion::v1, "0::/jobs\n", mounts) ==
        "error: cgroup v1: the kernel has no memory controller there");
  CHECK(own(CgroupVersion::v2, "", "") ==
        "error: cgroup v2: the kernel has no memory controller there");
  CHECK(own(CgroupVersion::v1, both, "") == "error: cgroup v1: is not mounted");
  CHECK(own(CgroupVersion::v2, both, "41 31 0:38 / - cgroup2\n") ==
        "error: cgroup v2: is not mounted");
  const std::string part = "41 31 0:38 /jobs /c rw - cgroup2 cgroup2 rw\n";
  CHECK(own(CgroupVersion::v2, "0::/jobs2\n", part) ==
        "error: cgroup v2: the cgroup of this process, /jobs2, is not in what is mounted at /c");
  CHECK(own(CgroupVersion::v2, "0::/../up\n", mounts) ==
        "error: cgroup v2: the cgroup of this process, /../up, is not in what is mounted at "
        "/sys/fs/cgroup/unified");
}

TEST_CASE(
    "with version 1 hosts' cgroups are made in a program's own, which counts what they take") {
  OwnCgroup own;
  own.folder = "/c/a";
  CHECK(way(CgroupVersion::v1, own) == "cgroup v1: no folder may be made in /c/a");
  own.writable = true;
  CHECK(way(CgroupVersion::v1, own) == "inside");
  own.use_hierarchy = "1\n";
  CHECK(way(CgroupVersion::v1, own) == "inside");
  own.use_hierarchy = "0\n";
  CHECK(way(CgroupVersion::v1, own) == "cgroup v1: /c/a/memory.use_hierarchy is 0");
}

TEST_CASE("with version 2 a program that is alone in a delegated cgroup moves into one below it") {
  OwnCgroup own = delegated();
  CHECK(way(CgroupVersion::v2, own) == "move");
  own.subtree_control = "cpu memory\n";  // the root of all may have both
  CHECK(way(CgroupVersion::v2, own) == "inside");
  own = delegated();
  own.processes = "42\n7\n";
  CHECK(way(CgroupVersion::v2, own) ==
        "cgroup v2: another process is in /c/run.scope: 7; give this program a delegated cgroup of "
        "its own");
  own.processes = "0\n42\n";
  CHECK(
      way(CgroupVersion::v2, own) ==
      "cgroup v2: another process is in /c/run.scope; give this program a delegated cgroup of its "
      "own");
  own = delegated();
  own.moves = false;
  CHECK(way(CgroupVersion::v2, own) ==
        "cgroup v2: controllers of /c/run.scope may not be switched on");
  own = delegated();
  own.writable = false;
  CHECK(way(CgroupVersion::v2, own) == "cgroup v2: no folder may be made in /c/run.scope");
  own = delegated();
  own.controllers = "cpu memory_recursiveprot hugetlb\n";
  CHECK(way(CgroupVersion::v2, own) ==
        "cgroup v2: the memory controller is not available in /c/run.scope");
  own = delegated();
  own.type = "domain threaded\n";
  CHECK(way(CgroupVersion::v2, own) == "move");
  own.type = "threaded\n";
  CHECK(way(CgroupVersion::v2, own) ==
        "cgroup v2: /c/run.scope is a threaded cgroup, which has no memory of its own");
}

TEST_CASE("a program in a cgroup that one of ours made for itself has its hosts' beside it") {
  OwnCgroup own = delegated();
  own.folder += "/sluice-program-4-711-1";
  own.processes = "42\n7\n";  // with whoever started it
  own.parent_writable = true;
  own.parent_subtree_control = "memory\n";
  CHECK(way(CgroupVersion::v2, own) == "beside");
  own.parent_subtree_control = "cpu\n";
  CHECK(way(CgroupVersion::v2, own).starts_with("cgroup v2: another process is in "));
  own.parent_subtree_control = "memory\n";
  own.parent_writable = false;
  CHECK(way(CgroupVersion::v2, own).starts_with("cgroup v2: another process is in "));
  own.parent_writable = true;
  own.folder = "/c/sluice-host-4-711-1";  // a host's is none to stand beside
  CHECK(way(CgroupVersion::v2, own).starts_with("cgroup v2: another process is in "));
}

TEST_CASE("what is written to a new cgroup, and what of it is needed") {
  CHECK(written(CgroupVersion::v1) ==
        "memory.limit_in_bytes=1073741824! memory.swappiness=0 "
        "memory.oom_control=0 ");
  CHECK(written(CgroupVersion::v2) ==
        "memory.max=1073741824! memory.swap.max=0 memory.oom.group=1 ");
}

TEST_CASE("names of cgroups say whose they are, and nothing else is taken for one") {
  const std::string name = hosts::text_of({Kind::host, 4026531835, 711, 2});
  CHECK(name == "sluice-host-4026531835-711-2");
  const auto read = hosts::cgroup_name(name);
  REQUIRE(read);
  CHECK(read->kind == Kind::host);
  CHECK(read->space == 4026531835);
  CHECK(read->process == 711);
  CHECK(read->number == 2);
  REQUIRE(hosts::cgroup_name("sluice-program-0-1-1"));
  CHECK(hosts::cgroup_name("sluice-program-0-1-1")->kind == Kind::program);
  for (const char* other :
       {"", "sluice-host-", "sluice-host-1-2", "sluice-host-1-2-3-4", "sluice-host-1-2-x",
        "sluice-host-01-2-3", "sluice-host--1-2-3", "sluice-host-1-2-3 ", "sluice-hosts-1-2-3",
        "my-sluice-host-1-2-3", "sluice-host-1-2-99999999999999999999", "memory.max"})
    CHECK_FALSE(hosts::cgroup_name(other));
}

TEST_CASE("counters of both versions are read, whichever of them are there") {
  const CgroupCounts v2 =
      hosts::counts_v2("low 0\nhigh 0\nmax 9\noom 2\noom_kill 3\noom_group_kill 1\n");
  CHECK(v2.killed == std::optional<std::uint64_t>(3));
  CHECK(v2.at_limit == 2);
  CHECK_FALSE(hosts::counts_v2("").killed);
  CHECK(hosts::counts_v2("").at_limit == 0);
  const std::string control = "oom_kill_disable 0\nunder_oom 0\n";
  const CgroupCounts v1 = hosts::counts_v1(control + "oom_kill 1\n", "4\n");
  CHECK(v1.killed == std::optional<std::uint64_t>(1));
  CHECK(v1.at_limit == 4);
  CHECK_FALSE(hosts::counts_v1(control, "5\n").killed);
  CHECK(hosts::counts_v1(control, "5\n").at_limit == 5);
  CHECK(hosts::counts_v1(control, "").at_limit == 0);
}

TEST_CASE("a death that memory had a part in says so, and no other does") {
  const auto said = [](CgroupCounts counts, int signal) {
    return hosts::memory_text(counts, signal, gib);
  };
  const std::string limit = "its `memory` is limited to 1024 MiB, by a cgroup)";
  CHECK(said({1, 1}, SIGKILL) == " (the kernel ended it: " + limit);
  CHECK(said({1, 0}, SIGKILL) == " (the kernel ended it: memory ran out outside its own cgroup)");
  // Somebody else's signal, though it had met its limit and got memory after all.
  CHECK(said({0, 3}, SIGKILL).empty());
  CHECK(said({0, 0}, SIGKILL).empty());
  // A child of it was ended, and then it went itself, or we ended it.
  CHECK(said({1, 1}, SIGABRT) == " (the kernel ended a process of it: " + limit);
  CHECK(said({1, 1}, 0) == " (the kernel ended a process of it: " + limit);
  CHECK(said({1, 0}, SIGABRT).empty());
  CHECK(said({0, 0}, SIGSEGV).empty());
  // A kernel that does not count what it ends.
  CHECK(said({{}, 1}, SIGKILL) == " (the kernel ended it: " + limit);
  CHECK(said({{}, 0}, SIGKILL).empty());
  CHECK(said({{}, 1}, SIGSEGV).empty());
  CHECK(said({{}, 1}, 0).empty());
}

TEST_CASE("the processes of a cgroup are those that its list names") {
  CHECK(hosts::processes_in("").empty());
  CHECK(hosts::processes_in("12\n0\n345\n") == std::vector<pid_t>{12, 0, 345});
  CHECK(hosts::processes_in("12\nx\n-\n").size() == 1);
}
