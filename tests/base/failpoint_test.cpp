// A place where a test may end, stop or break a process: what its file asks for happens once.
#include "base/failpoint.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "tests/directories.h"

using namespace sluice;

namespace {

namespace fs = std::filesystem;

/// A folder of wishes, named in the environment while this lives.
struct Wishes {
  Wishes() {
    fs::remove_all(folder);
    fs::create_directories(folder);
    ::setenv("SLUICE_FAILPOINTS", folder.c_str(), 1);
    name_for_failpoints("me");
  }
  ~Wishes() { ::unsetenv("SLUICE_FAILPOINTS"); }
  void wish(const std::string& words) const { std::ofstream(file) << words; }
  bool is_there() const { return fs::exists(file); }

  const fs::path folder = fs::path(SLUICE_BINARY_DIR) / "failpoint_test";
  const fs::path file = folder / "me.here";
};

/// How a process ends that runs it: its status, or 1000 and the signal. What stops is killed.
int end_of(const std::function<void()>& run) {
  const pid_t child = ::fork();
  if (child == 0) {
    run();
    ::_exit(7);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, WUNTRACED) == child);
  if (WIFSTOPPED(status)) {
    const int signal = WSTOPSIG(status);
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
    return 2000 + signal;
  }
  return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

TEST_CASE("a failpoint sends the signal of its file, if it is one of three, and takes the file") {
  const Wishes wishes;
  const auto with = [&](int signal) {
    wishes.wish(std::to_string(signal) + " 1");
    return end_of([] { reach_failpoint("here"); });
  };
  CHECK(with(SIGKILL) == 1000 + SIGKILL);
  CHECK_FALSE(wishes.is_there());
  CHECK(with(SIGSEGV) == 1000 + SIGSEGV);
  CHECK(with(SIGSTOP) == 2000 + SIGSTOP);
  CHECK(with(SIGTERM) == 7);
  CHECK_FALSE(wishes.is_there());
  CHECK(with(SIGABRT) == 7);
  CHECK(end_of([] { reach_failpoint("here"); }) == 7);  // there is no file
}

TEST_CASE("a failpoint counts its passages since its file is there") {
  const Wishes wishes;
  reach_failpoint("here");
  wishes.wish("15 3");
  for (const bool stays : {true, true, false}) {
    reach_failpoint("elsewhere");
    reach_failpoint("here");
    CHECK(wishes.is_there() == stays);
  }
  wishes.wish("15 2");
  reach_failpoint("here");
  CHECK(wishes.is_there());
  fs::remove(wishes.file);
  reach_failpoint("here");  // what was counted is forgotten
  wishes.wish("15 2");
  reach_failpoint("here");
  CHECK(wishes.is_there());
  reach_failpoint("here");
  CHECK_FALSE(wishes.is_there());
}

TEST_CASE("a failpoint may send its signal to another process instead") {
  const Wishes wishes;
  const pid_t other = ::fork();
  if (other == 0)
    for (;;) ::pause();
  wishes.wish("9 1 " + std::to_string(other));
  reach_failpoint("here");
  CHECK_FALSE(wishes.is_there());
  int status = 0;
  REQUIRE(::waitpid(other, &status, 0) == other);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGKILL);
  wishes.wish("9 1 1");  // never the first process: then it is its own
  CHECK(end_of([] { reach_failpoint("here"); }) == 1000 + SIGKILL);
}

TEST_CASE("a file that is not whole, or a link, asks for nothing") {
  const Wishes wishes;
  for (const char* words : {"", "9", "nine 1"}) {
    wishes.wish(words);
    CHECK(end_of([] { reach_failpoint("here"); }) == 7);
    CHECK(wishes.is_there());
  }
  fs::remove(wishes.file);
  std::ofstream(wishes.folder / "wish") << "9 1";
  fs::create_symlink(wishes.folder / "wish", wishes.file);
  CHECK(end_of([] { reach_failpoint("here"); }) == 7);
  fs::remove(wishes.file);
  wishes.wish("9 1");
  CHECK(end_of([] { reach_failpoint("there"); }) == 7);
  name_for_failpoints("you");
  CHECK(end_of([] { reach_failpoint("here"); }) == 7);
  name_for_failpoints("me");
  ::unsetenv("SLUICE_FAILPOINTS");
  CHECK(end_of([] { reach_failpoint("here"); }) == 7);
  CHECK(wishes.is_there());
}
