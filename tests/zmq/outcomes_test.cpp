// Parcels and addresses: every place changed, and what the reader says of each.
#include "tests/outcomes.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <tuple>

#include "runtime/zmq/address.h"
#include "runtime/zmq/check_options.h"
#include "runtime/zmq/parcel.h"
#include "tests/directories.h"
#include "tests/zmq/machines.h"

using namespace sluice;
using namespace sluice::links;
using namespace std::chrono_literals;

namespace {

Hello hello() {
  Hello made;
  made.from = {3, 1};
  made.to = 200;
  made.lease_ms = lease_ms_max;
  made.cluster = "lab";
  made.knows = 2;
  made.applied = 5;
  made.over = 1;
  made.nonce = 77;
  return made;
}

std::string read_parcel(const wire::Bytes& bytes) {
  const Result<Head> head = read_head(bytes);
  if (!head.ok()) return head.error().message;
  const std::string kind = "kind " + std::to_string(head->index());
  if (const auto* other = std::get_if<OtherVersion>(&*head))
    return kind + ", version " + std::to_string(other->version);
  return kind + (write_head(*head) == bytes ? "" : ", written in another way");
}

std::string read_body(const wire::Bytes& bytes) {
  std::vector<MessageView> out(1);
  const Result<void> done = read_batch(bytes, out);
  std::string words = done.ok() ? "read" : done.error().message;
  for (const MessageView& view : std::span(out).subspan(1))
    words += ", " + std::to_string(view.bytes.size()) + " bytes on " +
             std::to_string(static_cast<int>(view.channel));
  return words;
}

}  // namespace

TEST_CASE("each place of a parcel's head or body that is changed is refused or read, as before") {
  test::Outcomes outcomes("link_parcels");
  const std::vector<std::pair<std::string, Head>> heads{
      {"hello", hello()},
      {"welcome", Welcome{hello(), 300}},
      {"ready", Ready{1, 2, 300}},
      {"refusal", Refusal{Reason::over, {1, 2}, 300, "no"}},
      {"batch", Batch{1, 300}},
      {"part", Part{1, 2, Channel::control, message_bytes_max, 300}},
      {"heartbeat", Heartbeat{300}},
      {"another version", OtherVersion{9}}};
  for (const auto& [title, head] : heads)
    outcomes.change_bytes(title, write_head(head), read_parcel);
  wire::Bytes body;
  write_message(body, Channel::message, wire::Bytes(3));
  write_message(body, Channel::control, wire::Bytes());
  outcomes.change_bytes("a batch's body", body, read_body);
  for (const Reason reason : {Reason::malformed, Reason::version, Reason::cluster, Reason::workflow,
                              Reason::lease, Reason::wrong_machine, Reason::unknown, Reason::key,
                              Reason::over, Reason::ended, Reason::not_connected})
    outcomes.add("reasons", std::string(to_string(reason)));
  outcomes.require_as_kept();
}

TEST_CASE("parcels and addresses are taken up to their limits") {
  test::Outcomes outcomes("link_limits");
  for (const std::size_t size : {cluster_bytes_max, cluster_bytes_max + 1}) {
    Hello made = hello();
    made.cluster.assign(size, 'c');
    outcomes.add("a cluster's name", read_parcel(write_head(made)));
  }
  for (const std::size_t size : {reason_bytes_max, reason_bytes_max + 1}) {
    const wire::Bytes bytes = write_head(Refusal{Reason::key, {1, 1}, 0, std::string(size, 'w')});
    outcomes.add("a reason is cut", std::to_string(bytes.size()) + " bytes: " + read_parcel(bytes));
  }
  const wire::Bytes strange = write_head(Refusal{Reason::key, {1, 1}, 0, " ~\x1f\x7f\n"});
  for (const std::byte byte : std::span(strange).last(5))
    outcomes.add("letters of a reason", std::string(1, static_cast<char>(byte)));
  for (const std::size_t size : {head_bytes_max, head_bytes_max + 1})
    outcomes.add("a head of zeros", read_parcel(wire::Bytes(size)));
  for (const std::size_t size : {body_bytes_max, body_bytes_max + 1}) {
    wire::Bytes body;
    write_message(body, Channel::message, wire::Bytes(size - 5));
    outcomes.add("a body", std::to_string(body.size()) + ": " + read_body(body));
  }
  const std::size_t most = message_bytes_max;
  for (const auto& [total, at, bytes] : {std::tuple{most, most - 1, std::size_t{1}},
                                         {most + 1, most, 1},
                                         {most, most - 1, 2},
                                         {most, most, 1},
                                         {most, most + 1, 1},
                                         {most, 0, 0},
                                         {most, 0, body_bytes_max},
                                         {most, 0, body_bytes_max + 1}}) {
    Part part;
    part.total = total;
    part.at = at;
    const Result<void> done = check_part(part, bytes);
    outcomes.add("a part", done.ok() ? "taken" : done.error().message);
  }
  outcomes.require_as_kept();
}

TEST_CASE("the hellos that fuzzing begins with are of this format, so it gets past them") {
  const std::filesystem::path corpus =
      std::filesystem::path(SLUICE_SOURCE_DIR) / "tests/fuzz/corpus/links";
  int hellos = 0;
  for (const auto& file : std::filesystem::directory_iterator(corpus)) {
    const std::string name = file.path().filename().string();
    if (!name.starts_with("hello") && !name.starts_with("welcome")) continue;
    CAPTURE(name);
    std::ifstream in(file.path(), std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(in), {});
    for (std::size_t at = bytes.find("SLCE"); at != std::string::npos;
         at = bytes.find("SLCE", at + 4)) {
      REQUIRE(at + 4 < bytes.size());
      CHECK(static_cast<unsigned>(bytes[at + 4]) == format_version);
      ++hellos;
    }
  }
  CHECK(hellos >= 4);
}

TEST_CASE("each address is taken or refused with the words it was refused with before") {
  test::Outcomes outcomes("link_addresses");
  const auto add = [&](const std::string& text) {
    const Result<Address> address = read_address(text);
    if (!address.ok()) return outcomes.add("addresses", address.error().message);
    outcomes.add("addresses", text + ": " + (address->local ? "local, " : "") +
                                  (address->ipv6 ? "ipv6, " : "") + "in '" + address->directory +
                                  "'");
  };
  for (const char* text : {"",
                           "tcp",
                           "tcp://",
                           "tcp://:1",
                           "tcp://*:1",
                           "tcp://0.0.0.0:1",
                           "tcp://[::]:1",
                           "tcp://[]:1",
                           "tcp://[:1",
                           "tcp://]:1",
                           "tcp://[::1:1",
                           "tcp://localhost:1",
                           "tcp://127.0.0.1",
                           "tcp://127.0.0.1:",
                           "tcp://127.0.0.1:0",
                           "tcp://127.0.0.1:1",
                           "tcp://127.0.0.1:65535",
                           "tcp://127.0.0.1:65536",
                           "tcp://127.0.0.1:4294967297",
                           "tcp://127.0.0.1:-1",
                           "tcp://127.0.0.1:1x",
                           "tcp://126.0.0.1:1",
                           "tcp://128.0.0.1:1",
                           "tcp://10.0.0.1:1",
                           "tcp://[fe80::1]:5000",
                           "tcp://[::1]:5000",
                           "tcp://[::2]:5000",
                           "tcp://[::ffff:127.0.0.1]:5",
                           "tcp://[zz]:5",
                           "ipc://",
                           "ipc://x",
                           "ipc://@x",
                           "ipc:///x",
                           "ipc:///",
                           "ipc:///x/",
                           "ipc:///x*/y",
                           "ipc:///run/x/y",
                           "inproc://x"})
    add(text);
  add("ipc:///" + std::string(106, 'x'));
  add("ipc:///" + std::string(107, 'x'));
  add(std::string("ipc:///a\0b", 10));
  const auto use = [&](const std::string& text, bool keyed) {
    const Result<Address> address = usable(text, keyed);
    outcomes.add(keyed ? "with keys" : "without keys",
                 text + ": " + (address.ok() ? "usable" : address.error().message));
  };
  for (const bool keyed : {true, false})
    for (const char* text : {"tcp://127.0.0.1:1", "tcp://10.0.0.1:1", "ipc:///nowhere/at/all", "x"})
      use(text, keyed);
  outcomes.require_as_kept();
}

TEST_CASE("each option of a transport is taken or refused with the words of before") {
  test::Outcomes outcomes("link_options");
  const Keys mine = make_keys().value(), other = make_keys().value();
  const auto add = [&](const std::string& title, const std::function<void(ZmqOptions&)>& change) {
    ZmqOptions options;
    options.self = {1, 1};
    options.cluster = "lab";
    options.keys = mine;
    ZmqPeer peer;
    peer.machine = 2;
    peer.public_key = other.public_key;
    options.peers = {peer};
    change(options);
    const Result<void> done = check_options(options);
    outcomes.add(title, done.ok() ? "taken" : done.error().message);
  };
  add("as it is", [](ZmqOptions&) {});
  for (const std::uint32_t incarnation : {0U, 1U})
    add("incarnation", [&](ZmqOptions& o) { o.self.incarnation = incarnation; });
  for (const auto lease : {59ms, 60ms, 3'600'000ms, 3'600'001ms})
    add("lease", [&](ZmqOptions& o) { o.lease = lease; });
  for (const std::size_t bytes : {(1U << 20U) - 1, 1U << 20U})
    add("window", [&](ZmqOptions& o) { o.window_bytes = bytes; });
  for (const std::size_t size : {cluster_bytes_max, cluster_bytes_max + 1})
    add("cluster", [&](ZmqOptions& o) { o.cluster.assign(size, 'c'); });
  for (const std::uint32_t machine : {1U, 3U})
    add("machine", [&](ZmqOptions& o) { o.peers[0].machine = machine; });
  add("two of a number", [](ZmqOptions& o) { o.peers.push_back(o.peers[0]); });
  add("keys", [](ZmqOptions& o) { o.keys.secret_key.clear(); });
  add("keys", [](ZmqOptions& o) { o.keys.public_key.clear(); });
  add("keys", [](ZmqOptions& o) { o.keys = {}; });
  add("keys", [](ZmqOptions& o) { o.keys = {}, o.peers[0].public_key.clear(); });
  add("keys", [](ZmqOptions& o) { o.keys.public_key = std::string(40, ' '); });
  add("keys", [](ZmqOptions& o) { o.keys.secret_key = std::string(39, 'a'); });
  add("a peer's key", [](ZmqOptions& o) { o.peers[0].public_key.clear(); });
  add("a peer's key", [](ZmqOptions& o) { o.peers[0].public_key = "x"; });
  add("a peer's key", [](ZmqOptions& o) { o.peers[0].name = "arm", o.peers[0].public_key = "x"; });
  add("a peer's key", [&](ZmqOptions& o) { o.peers[0].public_key = mine.public_key; });
  outcomes.require_as_kept();
}
