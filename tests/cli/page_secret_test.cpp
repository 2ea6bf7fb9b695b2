// The secret of a cluster's pages, where processes begin and end at the same time.
#include "cli/page_secret.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "runtime/zmq/keys.h"
#include "tests/scratch_folder.h"

using namespace sluice;
using namespace sluice::cli;

TEST_CASE("the secret stays while a file of anybody's is beside it, and goes with the last") {
  const ScratchFolder folder;
  const std::string lock = folder.path() + "/0.lock";
  std::ofstream(lock) << "here";
  const auto first = page_secret(folder.path());
  REQUIRE(first.ok());
  CHECK(page_secret(folder.path()).value() == *first);
  remove_page_secret(folder.path());
  CHECK(page_secret(folder.path()).value() == *first);
  std::filesystem::remove(lock);
  remove_page_secret(folder.path());
  CHECK(std::filesystem::is_empty(folder.path()));
  std::ofstream(lock) << "here";
  CHECK(page_secret(folder.path()).value() != *first);
  CHECK_FALSE(page_secret(folder.path() + "/none").ok());
}

TEST_CASE("the secret that pages were kept under is taken again where none is there") {
  const ScratchFolder folder;
  const auto patience = std::chrono::seconds(10);
  std::array<std::uint8_t, 32> kept{};
  kept.fill(9);
  std::size_t asked = 0;
  const auto known = [&] {
    ++asked;
    return std::optional(kept);
  };
  CHECK(page_secret(folder.path(), patience, known).value() == kept);
  kept.fill(8);
  CHECK(page_secret(folder.path(), patience, known).value() != kept);  // one is there
  CHECK(asked == 1);
  remove_page_secret(folder.path());
  CHECK(page_secret(folder.path(), patience, known).value() == kept);
  remove_page_secret(folder.path());
  const auto none = [] { return std::optional<std::array<std::uint8_t, 32>>(); };
  CHECK(page_secret(folder.path(), patience, none).value() != kept);
}

TEST_CASE("what a process has left that was killed while it made the secret goes with the last") {
  const ScratchFolder folder;
  const std::string name = folder.path() + "/" + shared_secret_name;
  std::ofstream(name + ".4711") << "half";
  remove_page_secret(folder.path());
  CHECK(std::filesystem::is_empty(folder.path()));
  REQUIRE(page_secret(folder.path()).ok());
  std::ofstream(name + ".4711") << "half";
  const std::string other = name + "s";
  std::ofstream(other) << "no secret";
  remove_page_secret(folder.path());
  CHECK(std::filesystem::exists(name));
  std::filesystem::remove(other);
  remove_page_secret(folder.path());
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("a secret that is broken is said with what to do") {
  const ScratchFolder folder;
  const std::string path = folder.path() + "/" + shared_secret_name;
  std::ofstream(path) << "0123\n";
  std::filesystem::permissions(path, std::filesystem::perms(0600));
  const auto broken = page_secret(folder.path());
  REQUIRE_FALSE(broken.ok());
  CHECK(broken.error().code == ErrorCode::corrupt);
  CHECK(broken.error().message.find(path) != std::string::npos);
  CHECK(broken.error().message.find("remove it; it is made anew") != std::string::npos);
  CHECK(broken.error().message.find("sluice keys") == std::string::npos);
}

TEST_CASE("who stands still with the folder's lock is not waited for without end") {
  const ScratchFolder folder;
  REQUIRE(page_secret(folder.path()).ok());
  const int held = ::open(folder.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  REQUIRE(held >= 0);
  REQUIRE(::flock(held, LOCK_EX) == 0);
  const auto late = page_secret(folder.path(), std::chrono::milliseconds(1));
  REQUIRE_FALSE(late.ok());
  CHECK(late.error().code == ErrorCode::unavailable);
  CHECK(late.error().message.find(folder.path()) != std::string::npos);
  remove_page_secret(folder.path(), std::chrono::milliseconds(1));
  CHECK(std::filesystem::exists(folder.path() + "/" + shared_secret_name));
  ::close(held);
  // It is there again, also behind those that had given up waiting.
  CHECK(page_secret(folder.path()).ok());
}

TEST_CASE("who is there at the same time has the same secret, whoever goes meanwhile") {
  const ScratchFolder folder;
  // A machine as its process is: its lock stands in the folder first and goes before the secret.
  std::mutex mutex;
  std::multiset<std::array<std::uint8_t, 32>> there;  // secrets of those that are
  std::atomic<std::size_t> differs{0}, failed{0}, lives{0};
  std::vector<std::thread> machines;
  for (int machine = 0; machine < 4; ++machine)
    machines.emplace_back([&, machine] {
      const std::string lock = folder.path() + "/" + std::to_string(machine) + ".lock";
      for (int life = 0; life < 150; ++life) {
        std::ofstream(lock) << "here";
        const auto secret = page_secret(folder.path());
        if (!secret.ok()) {
          ++failed;
          continue;
        }
        std::multiset<std::array<std::uint8_t, 32>>::iterator mine;
        {
          const std::lock_guard guard(mutex);
          mine = there.insert(*secret);
          differs += there.count(*secret) == there.size() ? 0 : 1;
          ++lives;
        }
        std::this_thread::yield();
        {
          const std::lock_guard guard(mutex);
          there.erase(mine);
        }
        std::filesystem::remove(lock);
        remove_page_secret(folder.path());
      }
    });
  for (std::thread& one : machines) one.join();
  CHECK(failed == 0);
  CHECK(lives == 600);
  CHECK(differs == 0);
  CHECK(std::filesystem::is_empty(folder.path()));
}
