// The secret of a cluster's pages, where processes begin and end at the same time.
#include "cli/page_secret.h"

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
