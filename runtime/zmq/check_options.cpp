#include "runtime/zmq/check_options.h"

#include <zmq.h>

#include <array>
#include <chrono>
#include <set>
#include <tuple>

#include "runtime/zmq/parcel.h"
#include "runtime/zmq/peer.h"

namespace sluice::links {

namespace {

using namespace std::chrono_literals;

Error wrong(const std::string& what) { return invalid_argument("transport: " + what); }

bool is_key(const std::string& key) {
  std::array<std::uint8_t, 32> bytes{};
  return key.size() == 40 && zmq_z85_decode(bytes.data(), key.c_str()) != nullptr;
}

Result<void> check_keys(const ZmqOptions& options) {
  const Keys& keys = options.keys;
  if (keys.secret_key.empty() != keys.public_key.empty())
    return wrong("half of this machine's key pair is missing");
  const bool keyed = !keys.secret_key.empty();
  if (keyed && (!is_key(keys.public_key) || !is_key(keys.secret_key)))
    return wrong("this machine's keys are no CURVE keys");
  if (keyed && zmq_has("curve") == 0) return wrong("the ZeroMQ library here has no CURVE");
  std::set<std::string> seen{keys.public_key};
  for (const ZmqPeer& peer : options.peers) {
    const std::string who = machine_words(peer.machine, peer.name);
    if (keyed != !peer.public_key.empty())
      return wrong(keyed ? who + " has no public key" : who + " has a key, this one has none");
    if (!keyed) continue;
    if (!is_key(peer.public_key)) return wrong("the key of " + who + " is no CURVE key");
    if (!seen.insert(peer.public_key).second)
      return wrong("the key of " + who + " is another machine's too");
  }
  return {};
}

}  // namespace

Result<Address> usable(const std::string& text, bool keyed) {
  Result<Address> address = read_address(text);
  if (!address) return address;
  if (!keyed && !address->local)
    return invalid_argument("address '" + text +
                            "' is reached by other machines, so keys are needed: `sluice keys`");
  if (!address->directory.empty())
    if (const Result<void> closed = check_directory(address->directory); !closed)
      return closed.error();
  return address;
}

Result<void> check_options(const ZmqOptions& options) {
  int major = 0, minor = 0, patch = 0;
  zmq_version(&major, &minor, &patch);
  if (std::tuple(major, minor, patch) < std::tuple(4, 3, 3))
    return wrong("the ZeroMQ library here is older than 4.3.3, whose defects others can use");
  if (options.self.incarnation == 0) return wrong("incarnations begin at 1");
  if (options.lease < 60ms || options.lease > 1h)
    return wrong("the lease is " + std::to_string(options.lease.count()) +
                 " ms, 60 to 3600000 are allowed");
  if (options.window_bytes < (std::size_t{1} << 20U))
    return wrong("the window must have at least 1 MiB");
  if (options.cluster.size() > cluster_bytes_max)
    return wrong("the cluster's name has more than " + std::to_string(cluster_bytes_max) +
                 " bytes");
  std::set<std::uint32_t> machines{options.self.machine};
  for (const ZmqPeer& peer : options.peers)
    if (!machines.insert(peer.machine).second)
      return wrong("machine " + std::to_string(peer.machine) + " is there twice");
  return check_keys(options);
}

}  // namespace sluice::links
