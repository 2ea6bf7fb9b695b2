// What a process of a cluster says of itself to `sluice status`: a unix socket in the cluster's
// folder, which this user alone reaches.
//
// Whoever connects is sent one text, and hears no more; nothing is read from it. Who listens is
// known by the lock that goes with the path, so a process that stands still is found too. Bounds:
// one reader at a time, a second each; a text of 4 MiB. Thread: one of its own.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "base/bell.h"
#include "base/result.h"

namespace sluice::cli {

class StatusSocket {
 public:
  /// Calls `text` on its own thread for each reader. Takes over what a dead process has left at
  /// this path: the caller holds the lock that goes with it. Errors: unavailable.
  static Result<StatusSocket> listen(const std::string& path, std::function<std::string()> text);
  StatusSocket(StatusSocket&& other) noexcept;
  StatusSocket& operator=(StatusSocket&&) = delete;
  /// Removes the path.
  ~StatusSocket();

 private:
  StatusSocket(std::string path, int listener, std::function<std::string()> text);
  std::string path_;
  int listener_;
  std::unique_ptr<const Bell> stop_;
  std::thread thread_;
};

/// A connection to one.
class StatusReader {
 public:
  /// Never waits. Errors: not_found (nobody listens), unavailable (another user's, not allowed, or
  /// as many wait as can).
  static Result<StatusReader> connect(const std::string& path);
  StatusReader(StatusReader&& other) noexcept;
  StatusReader& operator=(StatusReader&&) = delete;
  ~StatusReader();

  /// Errors: deadline (it stands still, or is too busy), unavailable (it died), corrupt (too long).
  Result<std::string> read(std::chrono::milliseconds patience) const;

 private:
  explicit StatusReader(int socket) : socket_(socket) {}
  int socket_;
};

}  // namespace sluice::cli
