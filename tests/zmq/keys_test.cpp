// Keys in files, addresses, and what a transport refuses to be made from.
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "runtime/zmq/address.h"
#include "runtime/zmq/door.h"
#include "tests/zmq/machines.h"

using namespace sluice;
using namespace sluice::testing;
using namespace std::chrono_literals;

namespace {

unsigned mode_of(const std::string& path) {
  struct stat found {};
  REQUIRE(lstat(path.c_str(), &found) == 0);
  return found.st_mode & 07777U;
}

std::string error_of(const ZmqOptions& options) {
  const Result<std::unique_ptr<Transport>> made = make_zmq_transport(options);
  return made ? "" : made.error().message;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("keys are written for their owner only, and read again") {
  const ScratchFolder directory;
  const Result<Keys> keys = make_keys();
  REQUIRE(keys.ok());
  umask(0);
  REQUIRE(write_keys(directory.path(), "arm", *keys).ok());
  umask(022);
  const std::string secret = directory.path() + "/arm.secret";
  CHECK(mode_of(secret) == 0600);
  CHECK(mode_of(directory.path() + "/arm.public") == 0644);
  const Result<Keys> again = read_secret(secret);
  REQUIRE(again.ok());
  CHECK(again->public_key == keys->public_key);
  CHECK(again->secret_key == keys->secret_key);
  CHECK(*read_public(directory.path() + "/arm.public") == keys->public_key);

  SECTION("none is replaced") {
    const Result<void> second = write_keys(directory.path(), "arm", *make_keys());
    REQUIRE(!second);
    CHECK(has(second.error().message, "cannot be made"));
    CHECK(read_secret(secret)->secret_key == keys->secret_key);
  }
  SECTION("half a pair is not left behind") {
    REQUIRE(unlink(secret.c_str()) == 0);
    REQUIRE(!write_keys(directory.path(), "arm", *make_keys()));
    CHECK(access(secret.c_str(), F_OK) != 0);
  }
  SECTION("a file that others may read is refused") {
    REQUIRE(chmod(secret.c_str(), 0640) == 0);
    CHECK(has(read_secret(secret).error().message, "open to others"));
  }
  SECTION("links are not followed, for writing or reading") {
    REQUIRE(symlink(secret.c_str(), (directory.path() + "/gpu.secret").c_str()) == 0);
    CHECK(!read_secret(directory.path() + "/gpu.secret"));
    CHECK(!write_keys(directory.path(), "gpu", *keys));
  }
  SECTION("keys of two pairs are found out, and files that are none") {
    const std::string mixed = directory.path() + "/mixed";
    std::ofstream(mixed) << make_keys()->public_key << "\n" << keys->secret_key << "\n";
    REQUIRE(chmod(mixed.c_str(), 0600) == 0);
    CHECK(has(read_secret(mixed).error().message, "do not belong together"));
    std::ofstream(mixed) << "x\n";
    CHECK(has(read_secret(mixed).error().message, "holds no key pair"));
    CHECK(!read_public(mixed));
    CHECK(!read_secret(directory.path()));
    CHECK(!read_secret("/nowhere"));
  }
  SECTION("names lead nowhere else") {
    for (const char* name : {"", "../arm", "a/b", ".arm", "-x", "a b", "a\n"})
      CHECK(!write_keys(directory.path(), name, *keys));
  }
}

TEST_CASE("what an address means, and why others are refused") {
  for (const char* local :
       {"tcp://127.0.0.1:1", "tcp://127.9.8.7:65535", "tcp://[::1]:5000", "ipc:///run/x/y"})
    CHECK(links::read_address(local)->local);
  for (const char* away : {"tcp://10.0.0.1:1", "tcp://[fe80::1]:5000"})
    CHECK(!links::read_address(away)->local);
  CHECK(links::read_address("ipc:///run/x/y")->directory == "/run/x");
  for (const char* wrong : {"",
                            "tcp://",
                            "tcp://*:1",
                            "tcp://0.0.0.0:1",
                            "tcp://[::]:1",
                            "tcp://localhost:1",
                            "tcp://127.0.0.1",
                            "tcp://127.0.0.1:0",
                            "tcp://127.0.0.1:65536",
                            "tcp://127.0.0.1:1x",
                            "tcp://127.0.0.1:*",
                            "tcp://eth0;10.0.0.1:5",
                            "tcp://[::ffff:127.0.0.1]:5",
                            "ipc://x",
                            "ipc://@abstract",
                            "ipc://*",
                            "ipc:///x/",
                            "inproc://x",
                            "udp://127.0.0.1:1",
                            "tcp://127.0.0.1 :1",
                            "tcp://127.1:5"}) {
    CAPTURE(wrong);
    CHECK(!links::read_address(wrong));
  }
  CHECK(!links::read_address("ipc:///" + std::string(200, 'x')));
}

TEST_CASE("a transport that others could reach without keys is not made") {
  const ScratchFolder directory;
  Cluster cluster = make_cluster(2, Way::tcp, directory);
  ZmqOptions options = cluster.options[0];
  SECTION("bound to another address") {
    options.bind = "tcp://10.1.2.3:5000";
    CHECK(has(error_of(options), "keys are needed"));
  }
  SECTION("a peer at another address") {
    options.peers[0].address = "tcp://10.1.2.3:5000";
    CHECK(has(error_of(options), "keys are needed"));
  }
  SECTION("every interface, with keys too") {
    options = make_cluster(2, Way::tcp_with_keys, directory).options[0];
    options.bind = "tcp://*:5000";
    CHECK(has(error_of(options), "every interface"));
    options.bind = "tcp://0.0.0.0:5000";
    CHECK(has(error_of(options), "every interface"));
  }
  SECTION("a directory that is open, a link, or not there") {
    const std::string open = directory.path() + "/open";
    mkdir(open.c_str(), 0755);
    options.bind = "ipc://" + open + "/1";
    CHECK(has(error_of(options), "open to others: chmod 0700 closes it"));
    for (const mode_t shared : {01777U, 01755U, 0777U}) {  // as /tmp is
      REQUIRE(chmod(open.c_str(), shared) == 0);
      CHECK(has(error_of(options), "open to others: name a folder of your own"));
      CHECK(!has(error_of(options), "chmod"));
    }
    REQUIRE(chmod(open.c_str(), 0710) == 0);  // to a group only
    CHECK(has(error_of(options), "open to others"));
    const std::string link = directory.path() + "/link";
    REQUIRE(symlink(directory.path().c_str(), link.c_str()) == 0);
    options.bind = "ipc://" + link + "/1";
    CHECK(has(error_of(options), "is no directory"));
    options.bind = "ipc:///nowhere/at/all/1";
    CHECK(has(error_of(options), "make it with mode 0700"));
    if (geteuid() == 0) {
      const std::string other = directory.path() + "/other";
      mkdir(other.c_str(), 0700);
      REQUIRE(chown(other.c_str(), 12345, 12345) == 0);
      options.bind = "ipc://" + other + "/1";
      CHECK(has(error_of(options), "belongs to user 12345"));
    }
  }
  SECTION("a taken address") {
    cluster.begin(1);
    CHECK(has(error_of(options), "cannot be bound"));
  }
}

TEST_CASE("an ipc address is taken only where no file and no process has it") {
  namespace fs = std::filesystem;
  const ScratchFolder directory;
  Cluster cluster = make_cluster(2, Way::ipc, directory);
  const ZmqOptions options = cluster.options[0];
  const std::string end = GENERATE(as<std::string>{}, "", ".memory");
  const std::string path = directory.path() + "/1" + end;
  const std::string begin = "address '" + options.bind + "' cannot be bound: ";
  SECTION("a file stays") {
    std::ofstream(path) << "mine";
    CHECK(has(error_of(options), begin + path + " is there and is no socket, so it is kept"));
    CHECK(fs::file_size(path) == 4);
    CHECK(fs::exists(directory.path() + "/1") == end.empty());  // nothing was begun
  }
  SECTION("so do a link and a folder") {
    std::ofstream(directory.path() + "/file") << "mine";
    fs::create_symlink(directory.path() + "/file", path);
    CHECK(has(error_of(options), "is no socket, so it is kept"));
    CHECK(fs::is_symlink(path));
    fs::remove(path);
    fs::create_directory(path);
    CHECK(has(error_of(options), "is no socket, so it is kept"));
  }
  SECTION("of two machines the first keeps it, and its peer") {
    if (end.empty()) cluster.begin_all();
    if (!end.empty()) {
      cluster.options_at(2).bind = "ipc://" + path;  // a machine where another has its memory
      cluster.begin(2);
    }
    CHECK(has(error_of(options), begin + "socket " + path + " is in use by a process that runs"));
    CHECK(fs::is_socket(path));
    if (end.empty()) CHECK(cluster.wait_all_connected());
  }
  SECTION("what a killed process left makes room, and all is gone with the machine") {
    const int left = ::socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    REQUIRE(::bind(left, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    CHECK(has(error_of(options), "is in use"));  // it may listen at once
    ::close(left);
    REQUIRE(fs::is_socket(path));
    cluster.begin_all();
    CHECK(cluster.wait_all_connected());
    for (const std::size_t machine : {1U, 2U}) cluster.end(machine);
    CHECK(fs::is_empty(directory.path()));
  }
  SECTION("a machine that ends leaves what another has put in its place") {
    cluster.begin(1);
    fs::remove(directory.path() + "/1");
    std::ofstream(directory.path() + "/1") << "mine";
    cluster.end(1);
    CHECK(fs::is_regular_file(directory.path() + "/1"));
  }
}

TEST_CASE("options that cannot be are refused by name") {
  const ScratchFolder directory;
  ZmqOptions options = make_cluster(3, Way::tcp_with_keys, directory).options[0];
  const auto refused = [&](const std::string& why) { return has(error_of(options), why); };
  SECTION("a lease") {
    options.lease = 59ms;
    CHECK(refused("60 to 3600000"));
  }
  SECTION("a window") {
    options.window_bytes = 1000;
    CHECK(refused("1 MiB"));
  }
  SECTION("an incarnation") {
    options.self.incarnation = 0;
    CHECK(refused("begin at 1"));
  }
  SECTION("a machine twice") {
    options.peers[1].machine = options.peers[0].machine;
    CHECK(refused("is there twice"));
  }
  SECTION("itself") {
    options.peers[1].machine = 1;
    CHECK(refused("is there twice"));
  }
  SECTION("a key twice") {
    options.peers[1].public_key = options.peers[0].public_key;
    CHECK(refused("another machine's too"));
  }
  SECTION("a peer without a key") {
    options.peers[1].public_key.clear();
    CHECK(refused("has no public key"));
  }
  SECTION("a peer with a key where there are none") {
    options.keys = {};
    CHECK(refused("this one has none"));
  }
  SECTION("half a pair") {
    options.keys.public_key.clear();
    CHECK(refused("half"));
  }
  SECTION("no key at all") {
    options.keys.secret_key = std::string(40, ' ');
    CHECK(refused("no CURVE keys"));
  }
  SECTION("a long name") {
    options.cluster.assign(200, 'x');
    CHECK(refused("128 bytes"));
  }
}

TEST_CASE("lines for people are bounded in number and clean") {
  links::NoticeLimit limit;
  int passed = 0;
  for (int i = 0; i < 100; ++i) passed += limit.pass("line", 10s) ? 1 : 0;
  CHECK(passed == 5);
  CHECK(*limit.pass("a\x1b[2Jb", 11s) == "a?[2Jb (95 lines before were left out)");
}
