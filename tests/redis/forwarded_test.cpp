// The registry and the index of pages through a machine that forwards them with CURVE keys, to a
// real Redis server: the forwarder ends and begins, the server is killed, stopped and emptied.
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <memory>
#include <mutex>
#include <utility>

#include "dataplane/page_index.h"
#include "runtime/redis/index_keeper.h"
#include "runtime/redis/registry_keeper.h"
#include "runtime/zmq/forwarded_streams.h"
#include "runtime/zmq/stream_forwarder.h"
#include "tests/locked_index.h"
#include "tests/redis_server.h"
#include "tests/scratch_folder.h"
#include "tests/zmq/machines.h"

namespace sluice::forwarded {

using namespace std::chrono_literals;
using Kind = RegistryStanding::Kind;

namespace {

constexpr auto patience = 20s;
constexpr auto lease = 1200ms;
const std::string forwards = "machine 'talk', which forwards to it";

std::string free_address() { return "tcp://127.0.0.1:" + std::to_string(testing::free_port()); }

/// Machine 0, 'talk', has the server and forwards it to 1, 'eyes', and 2, 'paint'.
class Far {
 public:
  Far() : server_(folder_.path()), address_(free_address()) {
    for (Keys& one : keys_) one = *make_keys();
    begin();
  }
  RealServer& server() { return server_; }
  std::size_t streams() const { return forwarder_ ? forwarder_->streams() : 0; }
  void end() { forwarder_.reset(); }
  void begin() {
    StreamForwarderOptions options;
    options.self = 0;
    options.name = "talk";
    options.bind = address_;
    options.peers = {{1, "", keys_[1].public_key, "eyes"}, {2, "", keys_[2].public_key, "paint"}};
    options.keys = keys_[0];
    options.silence = lease;
    options.connect = [address = server_.address()] { return connect_redis(address); };
    auto made = StreamForwarder::create(std::move(options));
    if (!made.ok()) FAIL(made.error().message);
    forwarder_ = std::move(made).value();
  }
  RedisAddress address(std::uint32_t machine) const {
    ForwardedStreamsOptions options;
    options.self = machine;
    options.keys = keys_[machine];
    options.forwarder = {0, address_, keys_[0].public_key, "talk"};
    options.silence = lease;
    auto made = ForwardedStreams::create(std::move(options));
    if (!made.ok()) FAIL(made.error().message);
    RedisAddress address;
    address.open = [streams = std::shared_ptr<ForwardedStreams>(
                        std::move(made).value())]() -> Result<RedisStream> {
      Result<ForwardedStream> opened = streams->open();
      if (!opened.ok()) return opened.error();
      return RedisStream{opened->socket, std::move(opened->why)};
    };
    return address;
  }
  std::unique_ptr<RegistryKeeper> keeper(std::uint32_t machine, const std::string& name) const {
    RegistryOptions options;
    options.address = address(machine);
    options.shown = "the server of machine 'talk'";
    options.entry = {"laptop", name, new_registry_token(), "aaaaaaaaaa", 5, lease, 0ms};
    return RegistryKeeper::create(std::move(options));
  }

 private:
  const ScratchFolder folder_;
  RealServer server_;
  const std::string address_;
  std::array<Keys, 3> keys_;
  std::unique_ptr<StreamForwarder> forwarder_;
};

bool is(const RegistryKeeper& keeper, Kind kind) { return keeper.standing().kind == kind; }

/// It lapses, and this is how the reason begins and ends in the end.
bool lapses(const RegistryKeeper& keeper, const std::string& why, const std::string& end = "") {
  return until(
      [&] {
        const RegistryStanding is = keeper.standing();
        return is.kind == Kind::lapsed && is.why.starts_with(why) && is.why.ends_with(end);
      },
      patience);
}

std::size_t open_descriptors() {
  return static_cast<std::size_t>(std::distance(
      std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator()));
}

/// A machine's pages in the index.
class Pages final : private LockedIndex {
 public:
  Pages(const Far& far, std::uint32_t machine)
      : LockedIndex({"sluice:laptop:pages:7", {machine, 1}, lease, "data"}) {
    IndexOptions options;
    options.address = far.address(machine);
    options.shown = "the server of machine 'talk'";
    options.cluster = "laptop";
    options.lease = lease;
    keeper_ = make_index_keeper(std::move(options));
    keeper_->open(*this);
  }
  ~Pages() override { keeper_->close(*this); }

  static PageKey key(std::uint64_t page) { return {{page, page + 1, page + 2, page + 3}}; }
  void publish(std::uint64_t page) {
    {
      const std::lock_guard lock(mutex_);
      index_.published(key(page), steady());
    }
    keeper_->wake();
  }
  std::string down() {
    const std::lock_guard lock(mutex_);
    return index_.down();
  }
  /// Whether that machine is said to have the page.
  bool finds(std::uint64_t page, std::uint32_t machine) {
    return until([&] {
      {
        const std::lock_guard lock(mutex_);
        if (!index_.find(++asked_, std::vector{key(page)}, steady())) return false;
      }
      keeper_->wake();
      std::optional<PageIndex::Found> found;
      REQUIRE(until([&] {
        const std::lock_guard lock(mutex_);
        for (PageIndex::Found& one : index_.take_found(steady())) found = std::move(one);
        return found.has_value();
      }));
      return found->is_answered && found->providers.size() == 1 &&
             found->providers[0] == PageProvider{{machine, 1}, 1};
    });
  }

 private:
  static Instant steady() { return std::chrono::steady_clock::now().time_since_epoch(); }
  std::uint64_t asked_ = 0;
  std::unique_ptr<IndexPort> keeper_;
};

}  // namespace

TEST_CASE("processes enter, and leave, a registry that another machine forwards") {
  Far far;
  auto eyes = far.keeper(1, "eyes");
  const auto paint = far.keeper(2, "paint");
  REQUIRE(*eyes->wait_for_entry(patience) == 5);
  REQUIRE(*paint->wait_for_entry(patience) == 5);
  CHECK(until([&] { return eyes->may_begin().ok(); }));
  {
    const auto again = far.keeper(1, "eyes");
    REQUIRE(until([&] {
      return again->standing().why.starts_with("another process is machine 'eyes', in life");
    }));
  }
  eyes.reset();  // gives the name back through the forwarder
  CHECK(far.server().as_root({"ZSCORE", "sluice:laptop:leases", "eyes"}).kind ==
        RedisValue::Kind::nothing);
  CHECK(until([&] { return far.streams() == 1; }));
}

TEST_CASE("the forwarder's end lapses entries by name, and its beginning confirms them again") {
  Far far;
  const auto eyes = far.keeper(1, "eyes");
  REQUIRE(eyes->wait_for_entry(patience).ok());
  const std::size_t before = open_descriptors();
  for (int round = 0; round < 2; ++round) {
    far.end();
    REQUIRE(lapses(*eyes, forwards + " at tcp://127.0.0.1:", ": nobody answers at its address"));
    const Result<void> refused = eyes->may_begin();
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().message.starts_with(
        "no call can begin while the registry at the server of machine 'talk' does not confirm "
        "this machine: " +
        forwards));
    far.begin();
    REQUIRE(until([&] { return is(*eyes, Kind::current); }));
    CHECK(*eyes->wait_for_entry(patience) == 5);
  }
  CHECK(until([&] { return open_descriptors() <= before; }));
}

TEST_CASE(
    "a server that is killed, stands still or is emptied behind its forwarder fences nobody") {
  Far far;
  const auto eyes = far.keeper(1, "eyes");
  const auto paint = far.keeper(2, "paint");
  REQUIRE(eyes->wait_for_entry(patience).ok());
  REQUIRE(paint->wait_for_entry(patience).ok());
  far.server().end();
  REQUIRE(lapses(*eyes, forwards + ", says that it cannot be reached: "));
  far.server().start();
  REQUIRE(until([&] { return is(*eyes, Kind::current) && is(*paint, Kind::current); }));
  far.server().signal(SIGSTOP);
  REQUIRE(lapses(*eyes, "it does not answer " + forwards));
  far.server().signal(SIGCONT);
  REQUIRE(until([&] { return is(*eyes, Kind::current) && is(*paint, Kind::current); }));
  far.server().as_root({"FLUSHALL"});
  REQUIRE(until([&] {
    return far.server().as_root({"ZCARD", "sluice:laptop:leases"}).number == 2;
  }));
  REQUIRE(until([&] { return is(*eyes, Kind::current) && is(*paint, Kind::current); }));
  CHECK(*eyes->wait_for_entry(patience) == 5);
  // Connections that were given up do not pile up.
  CHECK(until([&] { return far.streams() == 2; }));
}

TEST_CASE("the index of pages is loaded, filled and asked through the forwarder, and filled anew") {
  Far far;
  Pages eyes(far, 1), paint(far, 2);
  eyes.publish(1);
  CHECK(paint.finds(1, 1));
  far.end();
  REQUIRE(until([&] {
    paint.publish(2);
    return paint.down().starts_with(forwards);
  }));
  far.begin();
  CHECK(eyes.finds(2, 2));
  far.server().end();
  far.server().start();
  CHECK(paint.finds(1, 1));
}

}  // namespace sluice::forwarded
