// The file of an ipc socket: who may make one in its folder, and that it goes with its machine.
//
// ZeroMQ takes a path from whatever stands there, and leaves its own socket behind.
// Source: docs/NETWORK.md, "Keys"; unix(7).
#pragma once

#include <sys/types.h>

#include <string>

namespace sluice::links {

/// The path of an ipc address.
std::string ipc_path(const std::string& address);

/// While it lives, no other machine looks for room in the folder. Where that cannot be had within a
/// second (a process stands still there, or there are no such locks), things are as without.
class FolderTurn {
 public:
  explicit FolderTurn(const std::string& folder);
  FolderTurn(const FolderTurn&) = delete;
  FolderTurn& operator=(const FolderTurn&) = delete;
  ~FolderTurn();

 private:
  int file_;
};

/// Removes the file of a socket that this process has just bound, unless it is another's by then.
/// Goes before the socket does: nobody else takes the path while it is served.
class SocketFile {
 public:
  explicit SocketFile(std::string path);
  SocketFile(const SocketFile&) = delete;
  SocketFile& operator=(const SocketFile&) = delete;
  ~SocketFile();

 private:
  const std::string path_;
  dev_t device_ = 0;
  ino_t number_ = 0;
};

}  // namespace sluice::links
