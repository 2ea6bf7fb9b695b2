// Cgroups of hosts: in a folder that looks as the kernel's version 2 does, and in the kernel's own
// where a test may make any.
#include "runtime/hosts/cgroup.h"

#include <poll.h>
#include <sys/file.h>
#include <sys/syscall.h>

#include <atomic>
#include <iostream>
#include <iterator>

#include "hosted_world.h"
#include "tests/sanitized.h"

using namespace sluice;
using Catch::Matchers::Contains;
using hosts::Cgroups;
using hosts::CgroupSystem;
using hosts::MemoryStatus;
using Names = std::vector<std::string>;
namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20U;

std::string text_of_file(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

Names folders_in(const fs::path& path) {
  Names names;
  for (const fs::directory_entry& entry : fs::directory_iterator(path))
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

std::string space_here() {
  const std::string link = fs::read_symlink("/proc/self/ns/cgroup").string();  // cgroup:[NUMBER]
  return link.substr(8, link.size() - 9);
}

/// A tree of version 2 whose cgroup `run` was delegated to this process, which is alone in it.
class LooksLikeV2 {
 public:
  LooksLikeV2() {
    const std::string tree = folder_.str() + "/tree";
    fs::create_directories(tree);
    run = tree + "/run";
    make(run.string());
    put(run / "cgroup.procs", std::to_string(::getpid()) + "\n");
    folder_.write("cgroups", "0::/run\n");
    folder_.write("mounts", "41 31 0:38 / " + tree + " rw - cgroup2 cgroup2 rw\n");
  }
  CgroupSystem kernel() {
    CgroupSystem system;
    system.cgroups = folder_.str() + "/cgroups";
    system.mounts = folder_.str() + "/mounts";
    system.make = [this](const char* path) { return make(path); };
    system.remove = [this](const char* path) {
      if (busy.load() > 0) {
        --busy;
        errno = EBUSY;
        return -1;
      }
      return fs::remove_all(path) > 0 ? 0 : -1;
    };
    return system;
  }
  static void put(const fs::path& file, const std::string& text) { std::ofstream(file) << text; }
  /// The host's one, as soon as there is one.
  fs::path only_host() const {
    for (const std::string& name : folders_in(run))
      if (name.starts_with("sluice-host-")) return run / name;
    return {};
  }

  fs::path run;
  std::atomic<int> busy = 0;  // as often a folder cannot be removed
  std::string missing;        // a file that the kernel does not have
  std::string full;           // one that takes nothing

 private:
  int make(const std::string& path) {
    if (::mkdir(path.c_str(), 0755) != 0) return -1;
    for (const char* file :
         {"cgroup.procs", "cgroup.controllers", "cgroup.subtree_control", "cgroup.type",
          "memory.max", "memory.swap.max", "memory.oom.group", "memory.events", "memory.peak"}) {
      if (file == missing) continue;
      if (file == full)
        fs::create_symlink("/dev/full", path + "/" + file);
      else
        put(path + "/" + file, "");
    }
    put(path + "/cgroup.controllers", "cpu memory\n");
    return 0;
  }
  Folder folder_;
};

std::shared_ptr<Cgroups> opened(LooksLikeV2& tree) {
  auto place = Cgroups::open(tree.kernel());
  INFO((place.ok() ? "" : place.error().message));
  REQUIRE(place.ok());
  return *place;
}

constexpr const char* two_hosts = R"(
sluice: 1
workflow: test
calls: overlap
inputs: { one: text, two: text }
roles: { one: { plugin: mortal }, two: { plugin: mortal } }
nodes:
  n_one: { run: one.act, inputs: [ { text: inputs.one } ] }
  n_two: { run: two.act, inputs: [ { text: inputs.two } ] }
outputs: { one: n_one.word, two: n_two.word }
)";

/// `one` is in a host with that limit.
std::vector<hosts::HostGroup> limited_to(std::uint64_t memory) {
  return {{"narrow", {"one"}, {.memory = memory}}, {"wide", {"two"}}};
}

MemoryStatus memory_of(const HostedWorld& world, const std::string& host) {
  for (const hosts::HostReport& one : world.hosted.report())
    if (one.status.name == host) return one.status.memory;
  return {};
}

/// Whether a test may make cgroups here; if not, a line says why.
bool kernel_has_cgroups() {
  const auto place = Cgroups::open();
  if (!place.ok())
    std::cerr << "skipped, for there is no cgroup: " << place.error().message << "\n";
  return place.ok();
}

/// Cgroups of hosts of this process that are there.
Names cgroups_left() {
  Names left;
  for (const auto version : {hosts::CgroupVersion::v1, hosts::CgroupVersion::v2})
    if (const auto own = hosts::own_cgroup(version, text_of_file("/proc/self/cgroup"),
                                           text_of_file("/proc/self/mountinfo"));
        own.ok() && fs::is_directory(*own))
      for (const std::string& name : folders_in(*own))
        if (const auto ours = hosts::cgroup_name(name);
            ours && ours->process == static_cast<std::uint64_t>(::getpid()))
          left.push_back(name);
  return left;
}

}  // namespace

TEST_CASE("a program alone in a cgroup of version 2 moves below it, and back at the end") {
  LooksLikeV2 tree;
  std::shared_ptr<Cgroups> place = opened(tree);
  CHECK(place->version() == hosts::CgroupVersion::v2);
  const Names below = folders_in(tree.run);
  REQUIRE(below.size() == 1);
  CHECK(below[0].starts_with("sluice-program-" + space_here() + "-" + std::to_string(::getpid()) +
                             "-"));
  const fs::path own = tree.run / below[0];
  CHECK(text_of_file(own / "cgroup.procs") == "0");
  CHECK(text_of_file(tree.run / "cgroup.subtree_control") == "+memory");
  auto made = place->make(512 * mib);
  REQUIRE(made.ok());
  const fs::path host = (*made)->folder();
  CHECK(host.parent_path() == tree.run);
  CHECK(text_of_file(host / "memory.max") == "536870912");
  CHECK(text_of_file(host / "memory.swap.max") == "0");
  CHECK(text_of_file(host / "memory.oom.group") == "1");
  tree.put(host / "memory.peak", "12345\n");
  tree.put(host / "memory.events", "max 3\noom 2\noom_kill 1\n");
  CHECK((*made)->peak() == 12345);
  CHECK((*made)->counts().at_limit == 2);
  made->reset();
  CHECK(folders_in(tree.run) == below);
  tree.put(own / "cgroup.procs", std::to_string(::getpid()) + "\n");  // as the kernel lists it
  place.reset();
  CHECK(folders_in(tree.run).empty());
  CHECK(text_of_file(tree.run / "cgroup.procs") == "0");
  CHECK(text_of_file(tree.run / "cgroup.subtree_control") == "-memory");
}

TEST_CASE("a program stays in its cgroup while others that it started are there") {
  LooksLikeV2 tree;
  std::shared_ptr<Cgroups> place = opened(tree);
  const fs::path own = tree.run / folders_in(tree.run).at(0);
  tree.put(own / "cgroup.procs", std::to_string(::getpid()) + "\n1\n");
  tree.busy = 1;
  place.reset();
  CHECK(fs::exists(own));
  CHECK(text_of_file(tree.run / "cgroup.subtree_control") == "+memory");
}

TEST_CASE("what a program that was killed has left is removed, and nothing else") {
  LooksLikeV2 tree;
  const CgroupSystem system = tree.kernel();
  const auto left = [&](const std::string& name) {
    REQUIRE(system.make((tree.run / name).c_str()) == 0);
    return name;
  };
  const std::string here = space_here();
  left("sluice-host-" + here + "-1-1");
  left("sluice-program-" + here + "-1-2");
  const std::string held = left("sluice-host-" + here + "-1-3");
  Names stay{held, left("sluice-host-77-1-1"), left("sluice-host-" + here + "-1-x"), left("other")};
  const int lock = ::open((tree.run / held).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  REQUIRE(::flock(lock, LOCK_EX | LOCK_NB) == 0);
  const std::shared_ptr<Cgroups> place = opened(tree);
  Names found = folders_in(tree.run);
  std::erase_if(found, [](const std::string& name) {
    return name.starts_with("sluice-program-" + space_here() + "-" + std::to_string(::getpid()));
  });
  std::ranges::sort(stay);
  CHECK(found == stay);
  ::close(lock);
}

TEST_CASE("a name that is taken already is passed over") {
  LooksLikeV2 tree;
  CgroupSystem system = tree.kernel();
  int taken = 2;
  system.make = [&, make = system.make](const char* path) {
    if (taken-- <= 0) return make(path);
    errno = EEXIST;
    return -1;
  };
  CHECK(Cgroups::open(system).ok());
  taken = 1'000;
  CHECK_THAT(Cgroups::open(system).error().message,
             Contains("no name for a cgroup is free in " + tree.run.string()));
}

TEST_CASE("a program that could not switch the controller on is where it was") {
  LooksLikeV2 tree;
  fs::remove(tree.run / "cgroup.subtree_control");
  fs::create_symlink("/dev/full", tree.run / "cgroup.subtree_control");
  const auto place = Cgroups::open(tree.kernel());
  REQUIRE_FALSE(place.ok());
  CHECK_THAT(place.error().message,
             Contains("'+memory' could not be written to ") && Contains("; cgroup v1: "));
  CHECK(text_of_file(tree.run / "cgroup.procs") == "0");
  CHECK(folders_in(tree.run).empty());
}

TEST_CASE("a host that the kernel ends in its cgroup says that its memory did it") {
  LooksLikeV2 tree;
  {
    const NothingLeft nothing;
    HostedWorld world(two_hosts, limited_to(256 * mib), HostedWorld::host_options(), tree.kernel());
    REQUIRE(world.refused == "");
    CHECK(world.say("one", "memory") == "any");
    const fs::path cgroup = tree.only_host();
    REQUIRE(cgroup != fs::path());
    CHECK(text_of_file(cgroup / "cgroup.procs") == "0");
    tree.put(cgroup / "memory.peak", "268435456\n");
    MemoryStatus memory = memory_of(world, "narrow");
    CHECK(memory.holder == MemoryStatus::Holder::cgroup_v2);
    CHECK(memory.limit == 256 * mib);
    CHECK(memory.peak == 256 * mib);
    CHECK(memory_of(world, "wide").holder == MemoryStatus::Holder::none);
    tree.put(cgroup / "memory.events", "oom 1\noom_kill 1\n");
    tree.busy = 2;  // what is left in it takes its time
    CHECK_THAT(
        world.say("one", "kill"),
        Contains("n_one: role 'one': host 'narrow' died by SIGKILL (the kernel ended it: its "
                 "`memory` is limited to 256 MiB, by a cgroup); activations that were in "
                 "it: 1"));
    CHECK(world.say("one", "hello") == "hello");
    CHECK_THAT(world.say("one", "kill"), Contains("died by SIGKILL; activations"));
    CHECK(world.say("two", "hello") == "hello");
  }
  CHECK(tree.only_host() == fs::path());
}

TEST_CASE("a host whose cgroup is of no use has so much address space, and says so once") {
  if (testing::sanitized) return;  // which reserves more than any limit
  LooksLikeV2 tree;
  std::string reason;
  SECTION("it takes no limit") {
    tree.missing = "memory.max";
    reason = "could not be written to ";
  }
  SECTION("it lets nobody in") {
    tree.full = "cgroup.procs";
    reason = " let nobody in: No space left on device";
  }
  std::mutex mutex;
  Names notices;
  hosts::HostOptions options = HostedWorld::host_options();
  options.memory = 1'024 * mib;
  options.cgroups = [&] {  // the program's own cgroup is as it should be
    const std::string missing = std::exchange(tree.missing, ""),
                      full = std::exchange(tree.full, "");
    std::shared_ptr<Cgroups> place = opened(tree);
    tree.missing = missing;
    tree.full = full;
    return place;
  }();
  options.notice = [&](const std::string& line) {
    const std::lock_guard lock(mutex);
    notices.push_back(line);
  };
  {
    HostedWorld world(two_hosts, {{"narrow", {"one"}}}, options);
    REQUIRE(world.refused == "");
    for (int life = 0; life < 2; ++life) {
      CHECK(world.say("one", "memory") == std::to_string(1'024 * mib));
      CHECK(memory_of(world, "narrow").holder == MemoryStatus::Holder::address_space);
      CHECK_THAT(world.say("one", "kill"), Contains("died by SIGKILL; activations"));
    }
  }
  CHECK(tree.only_host() == fs::path());
  const auto noted = std::ranges::count_if(notices, [](const std::string& line) {
    return line.starts_with(
        "host 'narrow': its `memory` is limited as address space, for it has no ");
  });
  CHECK(noted == 1);
  REQUIRE_FALSE(notices.empty());
  CHECK_THAT(notices[0], Contains(reason));
}

TEST_CASE("where there is no place for cgroups that is said once for all hosts") {
  if (testing::sanitized) return;  // which reserves more than any limit
  Names notices;
  hosts::HostOptions options = HostedWorld::host_options();
  options.memory = 1'024 * mib;
  options.notice = [&](const std::string& line) { notices.push_back(line); };
  HostedWorld world(two_hosts, {{"a", {"one"}}, {"b", {"two"}}}, options);
  REQUIRE(world.refused == "");
  CHECK(world.say("one", "memory") == std::to_string(1'024 * mib));
  CHECK(world.say("two", "memory") == std::to_string(1'024 * mib));
  CHECK(notices ==
        Names{"`memory` of hosts is limited as address space, for there is no cgroup: cgroup v2: "
              "the kernel has no memory controller there; cgroup v1: the kernel has no memory "
              "controller there"});
}

TEST_CASE("in a cgroup of the kernel a role that takes too much costs its own calls") {
  if (!kernel_has_cgroups()) return;
  {
    const NothingLeft nothing;
    HostedWorld world(two_hosts, limited_to(256 * mib), HostedWorld::host_options(), {});
    REQUIRE(world.refused == "");
    CHECK(cgroups_left().size() >= 1);
    CHECK(world.say("one", "memory") == "any");
    CHECK(world.say("one", "reserve 8192") == "reserved");  // what is not used does not count
    CHECK(memory_of(world, "narrow").holder >= MemoryStatus::Holder::cgroup_v1);
    for (int life = 0; life < 2; ++life) {
      CHECK_THAT(world.say("one", "eat"),
                 Contains("host 'narrow' died by SIGKILL (the kernel ended it: its `memory` is "
                          "limited to 256 MiB, by a cgroup); activations that were in it: 1"));
      CHECK(world.say("two", "hello") == "hello");
    }
    CHECK_THAT(world.say("one", "kill"), Contains("died by SIGKILL; activations"));
    CHECK(world.say("one", "hello") == "hello");
  }
  CHECK(cgroups_left() == Names{});
}

TEST_CASE("in a cgroup of the kernel a host's children count for it, and end with it") {
  if (!kernel_has_cgroups()) return;
  {
    const NothingLeft nothing;
    HostedWorld world(two_hosts, limited_to(256 * mib), HostedWorld::host_options(), {});
    REQUIRE(world.refused == "");
    CHECK(world.say("one", "child takes 64") == "0");
    CHECK(memory_of(world, "narrow").peak >= 64 * mib);
    // With version 2 the kernel ends all of a cgroup at once.
    CHECK_THAT(world.say("one", "child takes 400"),
               Catch::Equals("9") || Contains("by a cgroup); activations"));
    const std::string child = world.say("one", "child");
    const int handle = static_cast<int>(::syscall(SYS_pidfd_open, std::stoi(child), 0));
    REQUIRE(handle >= 0);
    CHECK_THAT(world.say("one", "segv"), Contains("died by SIGSEGV"));
    pollfd ended{handle, POLLIN, 0};
    CHECK(::poll(&ended, 1, 20'000) == 1);
    ::close(handle);
  }
  CHECK(cgroups_left() == Names{});
}

TEST_CASE("a kernel's cgroup whose owner is killed is found by the next, with what is in it") {
  if (!kernel_has_cgroups()) return;
  int pipe[2];
  REQUIRE(::pipe2(pipe, O_CLOEXEC) == 0);
  const pid_t owner = ::fork();
  if (owner == 0) {  // which leaves a cgroup with a process in it, as if it had been killed
    const auto place = Cgroups::open();
    auto made = place.ok() ? (*place)->make(64 * mib) : place.error();
    if (!made.ok()) ::_exit(1);
    const pid_t inmate = ::fork();
    if (inmate == 0) {
      if (::write((*made)->entrance(), "0", 1) != 1) ::_exit(1);
      for (int fd = 0; fd < 3; ++fd) ::close(fd);       // whose readers would wait for it
      ::execl("/bin/sleep", "sleep", "1000", nullptr);  // closes what it has of its owner
      ::_exit(1);
    }
    std::string folder = (*made)->folder();
    while (text_of_file("/proc/" + std::to_string(inmate) + "/comm") != "sleep\n") ::sched_yield();
    folder += " " + std::to_string(inmate);
    (void)!::write(pipe[1], folder.data(), folder.size());
    ::kill(::getpid(), SIGKILL);
  }
  ::close(pipe[1]);
  std::string text(1'000, '\0');
  text.resize(
      static_cast<std::size_t>(std::max<ssize_t>(::read(pipe[0], text.data(), text.size()), 0)));
  ::close(pipe[0]);
  int status = 0;
  REQUIRE(::waitpid(owner, &status, 0) == owner);
  REQUIRE(WIFSIGNALED(status));
  const std::string folder = text.substr(0, text.find(' '));
  REQUIRE(fs::is_directory(folder));
  const pid_t inmate = std::stoi(text.substr(folder.size()));
  const int handle = static_cast<int>(::syscall(SYS_pidfd_open, inmate, 0));
  REQUIRE(handle >= 0);
  REQUIRE(Cgroups::open().ok());
  CHECK_FALSE(fs::exists(folder));
  pollfd ended{handle, POLLIN, 0};
  CHECK(::poll(&ended, 1, 20'000) == 1);
  ::syscall(SYS_pidfd_send_signal, handle, SIGKILL, nullptr, 0);  // had it been left
  ::close(handle);
}
