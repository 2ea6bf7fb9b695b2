#include "runtime/zmq/ipc_socket.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>

namespace sluice::links {

namespace {

constexpr int tries = 200;
constexpr int between_tries_ms = 5;

}  // namespace

std::string ipc_path(const std::string& address) {
  return address.substr(std::string_view("ipc://").size());
}

FolderTurn::FolderTurn(const std::string& folder)
    : file_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  for (int i = 0; file_ >= 0 && i < tries; ++i) {
    if (::flock(file_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
    ::poll(nullptr, 0, between_tries_ms);
  }
}

FolderTurn::~FolderTurn() {
  if (file_ >= 0) ::close(file_);
}

SocketFile::SocketFile(std::string path) : path_(std::move(path)) {
  struct stat found {};
  if (::lstat(path_.c_str(), &found) != 0) return;
  device_ = found.st_dev;
  number_ = found.st_ino;
}

SocketFile::~SocketFile() {
  struct stat found {};
  if (number_ != 0 && ::lstat(path_.c_str(), &found) == 0 && S_ISSOCK(found.st_mode) &&
      found.st_dev == device_ && found.st_ino == number_)
    ::unlink(path_.c_str());
}

}  // namespace sluice::links
