// Asks a cluster's Redis server for pages, and tells it of them, on a connection and a thread of
// its own.
//
// What to ask is decided by its clients (`PageIndex`). The functions are loaded where the server
// has none of this version and its user may load them; a server that gives keys up when its memory
// is full is not used. Nothing waits for it. Thread: all of it from any. Owns: its thread.
// Source: base/index_port.h; runtime/redis/page_index.lua.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/index_port.h"
#include "runtime/redis/redis_link.h"

namespace sluice {

struct IndexOptions {
  RedisAddress address;
  std::string shown;                // the address, for people
  std::optional<RedisLogin> login;  // on each connection
  std::string cluster;              // as in RegistrationSettings
  std::chrono::milliseconds lease{3000};
  /// Takes a line when the server is reached and does not serve, once for each reason.
  /// Thread: the keeper's.
  std::function<void(const std::string&)> notice;
};

std::unique_ptr<IndexPort> make_index_keeper(IndexOptions options);

}  // namespace sluice
