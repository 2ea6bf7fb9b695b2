#include "tests/system/failing_call.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <optional>
#include <string_view>

namespace {

// A function's name is set last and read first.
std::atomic<const char*> wanted{nullptr};
std::atomic<int> seen{0}, first{0}, last{0}, error{0};

bool fails(std::string_view function) {
  const char* const name = wanted.load();
  if (name == nullptr || name != function) return false;
  const int number = seen.fetch_add(1) + 1;
  if (number < first.load() || number > last.load()) return false;
  errno = error.load();
  return true;
}

/// For calls that move bytes: how many of those that were asked for; none: it fails.
std::optional<size_t> moves(std::string_view function, size_t size) {
  const int before = errno;
  if (!fails(function)) return size;
  if (errno != sluice::test::FailingCall::half) return {};
  errno = before;
  return size / 2;
}

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

namespace sluice::test {

FailingCall::FailingCall(const char* function, int with, int at, int times) {
  seen = 0;
  first = at;
  last = at + times - 1;
  error = with;
  wanted = function;
}
FailingCall::~FailingCall() { wanted = nullptr; }
int FailingCall::calls() const { return seen.load(); }

}  // namespace sluice::test

extern "C" {

int memfd_create(const char* name, unsigned flags) noexcept {
  if (fails("memfd_create")) return -1;
  return next<int(const char*, unsigned)>("memfd_create")(name, flags);
}
int ftruncate(int file, off_t size) noexcept {
  if (fails("ftruncate")) return -1;
  return next<int(int, off_t)>("ftruncate")(file, size);
}
int fallocate(int file, int mode, off_t from, off_t size) {
  if (fails("fallocate")) return -1;
  return next<int(int, int, off_t, off_t)>("fallocate")(file, mode, from, size);
}
void* mmap(void* at, size_t size, int protection, int flags, int file, off_t from) noexcept {
  if (fails("mmap")) return MAP_FAILED;
  return next<void*(void*, size_t, int, int, int, off_t)>("mmap")(at, size, protection, flags, file,
                                                                  from);
}
int fcntl(int file, int command, ...) {
  if (fails("fcntl")) return -1;
  va_list rest;
  va_start(rest, command);
  void* const argument = va_arg(rest, void*);
  va_end(rest);
  return next<int(int, int, ...)>("fcntl")(file, command, argument);
}
int fstat(int file, struct stat* to) noexcept {
  if (fails("fstat")) return -1;
  return next<int(int, struct stat*)>("fstat")(file, to);
}
int chmod(const char* path, mode_t mode) noexcept {
  if (fails("chmod")) return -1;
  return next<int(const char*, mode_t)>("chmod")(path, mode);
}
int socket(int domain, int type, int protocol) noexcept {
  if (fails("socket")) return -1;
  return next<int(int, int, int)>("socket")(domain, type, protocol);
}
int socketpair(int domain, int type, int protocol, int* ends) noexcept {
  if (fails("socketpair")) return -1;
  return next<int(int, int, int, int*)>("socketpair")(domain, type, protocol, ends);
}
int bind(int file, const sockaddr* to, socklen_t size) noexcept {
  if (fails("bind")) return -1;
  return next<int(int, const sockaddr*, socklen_t)>("bind")(file, to, size);
}
int listen(int file, int most) noexcept {
  if (fails("listen")) return -1;
  return next<int(int, int)>("listen")(file, most);
}
int getsockopt(int file, int level, int name, void* value, socklen_t* size) noexcept {
  if (fails("getsockopt")) return -1;
  return next<int(int, int, int, void*, socklen_t*)>("getsockopt")(file, level, name, value, size);
}
int accept4(int file, sockaddr* from, socklen_t* size, int flags) {
  if (fails("accept4")) return -1;
  return next<int(int, sockaddr*, socklen_t*, int)>("accept4")(file, from, size, flags);
}
int connect(int file, const sockaddr* to, socklen_t size) {
  if (fails("connect")) return -1;
  return next<int(int, const sockaddr*, socklen_t)>("connect")(file, to, size);
}
ssize_t sendmsg(int file, const msghdr* message, int flags) {
  if (fails("sendmsg")) return -1;
  return next<ssize_t(int, const msghdr*, int)>("sendmsg")(file, message, flags);
}
ssize_t recvmsg(int file, msghdr* message, int flags) {
  if (fails("recvmsg")) return -1;
  return next<ssize_t(int, msghdr*, int)>("recvmsg")(file, message, flags);
}
ssize_t send(int file, const void* from, size_t size, int flags) {
  if (fails("send")) return -1;
  return next<ssize_t(int, const void*, size_t, int)>("send")(file, from, size, flags);
}
ssize_t recv(int file, void* to, size_t size, int flags) {
  if (fails("recv")) return -1;
  return next<ssize_t(int, void*, size_t, int)>("recv")(file, to, size, flags);
}
int open(const char* path, int flags, ...) {
  if (fails("open")) return -1;
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = va_arg(rest, mode_t);
  va_end(rest);
  return next<int(const char*, int, ...)>("open")(path, flags, mode);
}
int openat(int folder, const char* path, int flags, ...) {
  if (fails("openat")) return -1;
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = va_arg(rest, mode_t);
  va_end(rest);
  return next<int(int, const char*, int, ...)>("openat")(folder, path, flags, mode);
}
int mkdir(const char* path, mode_t mode) noexcept {
  if (fails("mkdir")) return -1;
  return next<int(const char*, mode_t)>("mkdir")(path, mode);
}
int unlinkat(int folder, const char* path, int flags) noexcept {
  if (fails("unlinkat")) return -1;
  return next<int(int, const char*, int)>("unlinkat")(folder, path, flags);
}
int renameat(int from, const char* old_path, int to, const char* path) noexcept {
  if (fails("renameat")) return -1;
  return next<int(int, const char*, int, const char*)>("renameat")(from, old_path, to, path);
}
int fstatat(int folder, const char* path, struct stat* to, int flags) noexcept {
  if (fails("fstatat")) return -1;
  return next<int(int, const char*, struct stat*, int)>("fstatat")(folder, path, to, flags);
}
DIR* fdopendir(int folder) {
  if (fails("fdopendir")) return nullptr;
  return next<DIR*(int)>("fdopendir")(folder);
}
ssize_t getrandom(void* to, size_t size, unsigned flags) {
  if (fails("getrandom")) return -1;
  return next<ssize_t(void*, size_t, unsigned)>("getrandom")(to, size, flags);
}
int fsync(int file) {
  if (fails("fsync")) return -1;
  return next<int(int)>("fsync")(file);
}
int fdatasync(int file) {
  if (fails("fdatasync")) return -1;
  return next<int(int)>("fdatasync")(file);
}
ssize_t read(int file, void* to, size_t size) {
  const std::optional<size_t> can = moves("read", size);
  return can ? next<ssize_t(int, void*, size_t)>("read")(file, to, *can) : -1;
}
ssize_t write(int file, const void* from, size_t size) {
  const std::optional<size_t> can = moves("write", size);
  return can ? next<ssize_t(int, const void*, size_t)>("write")(file, from, *can) : -1;
}
ssize_t pread(int file, void* to, size_t size, off_t at) {
  const std::optional<size_t> can = moves("pread", size);
  return can ? next<ssize_t(int, void*, size_t, off_t)>("pread")(file, to, *can, at) : -1;
}
ssize_t pwrite(int file, const void* from, size_t size, off_t at) {
  const std::optional<size_t> can = moves("pwrite", size);
  return can ? next<ssize_t(int, const void*, size_t, off_t)>("pwrite")(file, from, *can, at) : -1;
}
int poll(pollfd* events, nfds_t count, int patience) {
  if (fails("poll")) return -1;
  return next<int(pollfd*, nfds_t, int)>("poll")(events, count, patience);
}

}  // extern "C"
