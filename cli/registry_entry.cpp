#include "cli/registry_entry.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "cli/cluster_links.h"
#include "runtime/redis/private_server.h"
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

/// Where it is, and as whom it is asked.
template <typename Options>
Result<void> find_server(const Cluster& cluster, Options& options) {
  const ClusterSpec& spec = cluster.spec();
  options.shown = is_private(cluster) ? "unix://" + registry_socket(cluster) : spec.registry->text;
  Result<RedisAddress> address = read_redis_address(options.shown);
  if (!address.ok()) return address.error();
  options.address = std::move(address).value();
  if (!spec.registry_user || !spec.registry_password) return {};
  const std::string file = registry_password_file(spec);
  Result<std::string> password = read_password(file);
  if (!password.ok()) return password.error();
  options.login = RedisLogin{spec.registry_user->text, std::move(password).value(), file};
  return {};
}

}  // namespace

Result<std::unique_ptr<RegistryKeeper>> begin_entry(
    const Cluster& cluster, std::uint32_t machine, std::function<void(const std::string&)> fenced,
    std::function<void(const std::string&)> notice) {
  const ClusterSpec& spec = cluster.spec();
  if (!spec.registry) return std::unique_ptr<RegistryKeeper>();
  RegistryOptions options;
  if (const Result<void> found = find_server(cluster, options); !found.ok()) return found.error();
  options.entry = {key_name(cluster), spec.machines[machine].name.text, new_registry_token(),
                   hex(cluster.digest), incarnation_now(), spec.lease,
                   // A private one begins with its cluster, whose locks say who is which machine.
                   is_private(cluster) ? std::chrono::milliseconds(0) : spec.lease};
  options.fenced = std::move(fenced);
  options.notice = std::move(notice);
  return RegistryKeeper::create(std::move(options));
}

Result<std::unique_ptr<IndexPort>> begin_index(const Cluster& cluster,
                                               std::function<void(const std::string&)> notice) {
  if (!cluster.spec().registry) return std::unique_ptr<IndexPort>();
  IndexOptions options;
  if (const Result<void> found = find_server(cluster, options); !found.ok()) return found.error();
  options.cluster = key_name(cluster);
  options.lease = cluster.spec().lease;
  options.notice = std::move(notice);
  return make_index_keeper(std::move(options));
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
