#include "cli/registry_entry.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <optional>
#include <utility>

#include "cli/cluster_links.h"
#include "runtime/redis/private_server.h"
#include "runtime/zmq/forwarded_streams.h"
#include "runtime/zmq/keys.h"

namespace sluice::cli {

namespace {

/// What the cluster's keys begin with: the file's name, so that all computers have the same.
std::string key_name(const Cluster& cluster) {
  std::string name = std::filesystem::path(cluster.spec().file).stem().string();
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0 && c != '_' && c != '-'; }, '_');
  return name;
}

std::string hex(const std::array<std::byte, 32>& digest) {
  std::string text;
  for (const std::byte one : digest)
    for (const unsigned shift : {4U, 0U})
      text += "0123456789abcdef"[(std::to_integer<unsigned>(one) >> shift) & 15U];
  return text;
}

bool is_private(const Cluster& cluster) {
  return cluster.spec().registry && cluster.spec().registry->text == "private";
}

/// The machine that has the server and forwards it. Nothing: each machine reaches it by itself.
std::optional<std::uint32_t> forwarding_machine(const ClusterSpec& spec) {
  if (!spec.registry_at || !spec.registry_forward) return std::nullopt;
  for (std::uint32_t i = 0; i < spec.machines.size(); ++i)
    if (spec.machines[i].name.text == spec.registry_at->text) return i;
  return std::nullopt;
}

/// One thread carries all streams; it lives as long as whoever opens some.
Result<RedisAddress> address_through(const Cluster& cluster, std::uint32_t self,
                                     std::uint32_t forwarder) {
  Result<ZmqOptions> links = transport_options(cluster, {self, 1}, {});
  if (!links.ok()) return links.error();
  ForwardedStreamsOptions options;
  options.self = self;
  options.keys = std::move(links->keys);
  for (const ZmqPeer& peer : links->peers)
    if (peer.machine == forwarder) options.forwarder = peer;
  options.forwarder.address = cluster.spec().registry_forward->text;
  options.silence = cluster.spec().lease;
  Result<std::unique_ptr<ForwardedStreams>> made = ForwardedStreams::create(std::move(options));
  if (!made.ok()) return made.error();
  RedisAddress address;
  address.open = [streams = std::shared_ptr<ForwardedStreams>(
                      std::move(made).value())]() -> Result<RedisStream> {
    Result<ForwardedStream> opened = streams->open();
    if (!opened.ok()) return opened.error();
    return RedisStream{opened->socket, std::move(opened->why)};
  };
  return address;
}

/// Where it is, and as whom it is asked.
Result<void> find_server(const Cluster& cluster, std::uint32_t machine, RegistryOptions& options) {
  const ClusterSpec& spec = cluster.spec();
  options.shown = is_private(cluster) ? "unix://" + registry_socket(cluster) : spec.registry->text;
  const std::optional<std::uint32_t> forwarder = forwarding_machine(spec);
  const bool is_elsewhere = forwarder && *forwarder != machine;
  Result<RedisAddress> address = is_elsewhere ? address_through(cluster, machine, *forwarder)
                                              : read_redis_address(options.shown);
  if (!address.ok()) return address.error();
  options.address = std::move(address).value();
  if (is_elsewhere) options.shown += " of machine '" + spec.registry_at->text + "'";
  if (!spec.registry_user || !spec.registry_password) return {};
  const std::string file = registry_password_file(spec);
  Result<std::string> password = read_password(file);
  if (!password.ok()) return password.error();
  options.login = RedisLogin{spec.registry_user->text, std::move(password).value(), file};
  return {};
}

}  // namespace

Result<std::unique_ptr<StreamForwarder>> begin_forwarding(
    const Cluster& cluster, std::uint32_t machine,
    const std::function<void(const LinkNotice&)>& notice) {
  const ClusterSpec& spec = cluster.spec();
  if (forwarding_machine(spec) != machine) return std::unique_ptr<StreamForwarder>();
  Result<ZmqOptions> links = transport_options(cluster, {machine, 1}, {});
  if (!links.ok()) return links.error();
  const Result<RedisAddress> server = read_redis_address(spec.registry->text);
  if (!server.ok()) return server.error();
  StreamForwarderOptions options;
  options.self = machine;
  options.name = std::move(links->name);
  options.bind = spec.registry_forward->text;
  options.peers = std::move(links->peers);
  options.keys = std::move(links->keys);
  options.silence = spec.lease;
  options.connect = [address = *server] { return connect_redis(address); };
  options.notice = notice;
  return StreamForwarder::create(std::move(options));
}

Result<std::unique_ptr<RegistryKeeper>> begin_entry(
    const Cluster& cluster, std::uint32_t machine, std::function<void(const std::string&)> fenced,
    std::function<void(const std::string&)> notice) {
  const ClusterSpec& spec = cluster.spec();
  if (!spec.registry) return std::unique_ptr<RegistryKeeper>();
  RegistryOptions options;
  if (const Result<void> found = find_server(cluster, machine, options); !found.ok())
    return found.error();
  options.entry = {key_name(cluster), spec.machines[machine].name.text, new_registry_token(),
                   hex(cluster.digest), incarnation_now(), spec.lease,
                   // A private one begins with its cluster, whose locks say who is which machine.
                   is_private(cluster) ? std::chrono::milliseconds(0) : spec.lease};
  options.fenced = std::move(fenced);
  options.notice = std::move(notice);
  return RegistryKeeper::create(std::move(options));
}

std::unique_ptr<IndexPort> begin_index(const RegistryKeeper& registry,
                                       std::function<void(const std::string&)> notice) {
  const RegistryOptions& of = registry.options();
  return make_index_keeper(
      {of.address, of.shown, of.login, of.entry.cluster, of.entry.lease, std::move(notice)});
}

Result<void> wait_for_entry(RegistryKeeper& registry, std::chrono::milliseconds patience,
                            const std::function<bool()>& told_to_end) {
  constexpr std::chrono::milliseconds step{50};
  const auto until = std::chrono::steady_clock::now() + patience;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        until - std::chrono::steady_clock::now());
    const auto entered = registry.wait_for_entry(std::clamp(left, step.zero(), step));
    if (entered.ok()) return {};
    if (told_to_end()) return Error{ErrorCode::cancelled, "told to end"};
    if (left <= step || entered.error().code == ErrorCode::stale) return entered.error();
  }
}

Result<std::vector<std::string>> registry_command(const Cluster& cluster) {
  if (!is_private(cluster)) return std::vector<std::string>();
  return private_redis_command(cluster.folder, key_name(cluster));
}

std::string registry_socket(const Cluster& cluster) { return private_redis_socket(cluster.folder); }

}  // namespace sluice::cli
