// Loaded before a program's libraries: one call of one function of the system fails, once.
//
// FAIL_FUNCTION, FAIL_AT (from 1), FAIL_ERRNO say which and how; only calls on paths under
// FAIL_UNDER, and on files opened there, count, so that the number does not depend on the machine.
// FAIL_ERRNO 0: the call does less than it was asked for (reads and writes one byte). FAIL_HIT: a
// file that is made when it has happened. Thread: any.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace {

constexpr std::size_t descriptors_max = 4096;
using Descriptors = std::array<std::atomic<bool>, descriptors_max>;
Descriptors ours;   // of files that count
Descriptors bound;  // of sockets with a path that counts
std::atomic<int> seen{0};

const char* given(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool is_ours(const char* path) {
  static const std::string_view under = given("FAIL_UNDER");
  return path != nullptr && !under.empty() && std::string_view(path).starts_with(under);
}
bool is_in(const Descriptors& some, int file) {
  return file >= 0 && file < static_cast<int>(descriptors_max) &&
         some[static_cast<std::size_t>(file)];
}
bool is_ours(int file) { return is_in(ours, file); }
void keep(int file, bool is_one, Descriptors& in = ours) {
  if (file >= 0 && file < static_cast<int>(descriptors_max))
    in[static_cast<std::size_t>(file)] = is_one;
}

int error_given() {
  static const int error = std::atoi(given("FAIL_ERRNO"));
  return error;
}

/// True when this call is the one; `errno` says then how it fails.
bool is_the_one(std::string_view function, bool counts) {
  static const std::string_view wanted = given("FAIL_FUNCTION");
  static const int at = std::atoi(given("FAIL_AT"));
  if (!counts || function != wanted || seen.fetch_add(1) + 1 != at) return false;
  const long file = ::syscall(SYS_open, given("FAIL_HIT"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (file >= 0) ::syscall(SYS_close, file);
  errno = error_given();
  return true;
}

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

int opened(const char* name, const char* path, int flags, mode_t mode) {
  if (is_the_one("open", is_ours(path))) return -1;
  static auto* const real = next<int(const char*, int, ...)>("open");
  static auto* const real64 = next<int(const char*, int, ...)>("open64");
  const int file = (name[4] == '6' ? real64 : real)(path, flags, mode);
  keep(file, is_ours(path));
  return file;
}

FILE* stream_opened(const char* name, const char* path, const char* mode) {
  if (is_the_one("open", is_ours(path))) return nullptr;
  FILE* const stream = next<FILE*(const char*, const char*)>(name)(path, mode);
  if (stream != nullptr) keep(::fileno(stream), is_ours(path));
  return stream;
}

/// A function that takes a path first and gives back 0.
template <typename... Arguments>
int of_path(const char* name, const char* path, Arguments... arguments) {
  if (is_the_one(name, is_ours(path))) return -1;
  return next<int(const char*, Arguments...)>(name)(path, arguments...);
}

/// The same of an open file.
template <typename... Arguments>
int of_file(const char* name, int file, Arguments... arguments) {
  if (is_the_one(name, is_ours(file))) return -1;
  return next<int(int, Arguments...)>(name)(file, arguments...);
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return opened("open", path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return opened("open64", path, flags, mode);
}

FILE* fopen(const char* path, const char* mode) { return stream_opened("fopen", path, mode); }
FILE* fopen64(const char* path, const char* mode) { return stream_opened("fopen64", path, mode); }

int close(int file) {
  const bool fails = is_the_one("close", is_ours(file));
  keep(file, false);
  keep(file, false, bound);
  const int closed = static_cast<int>(::syscall(SYS_close, file));
  if (!fails) return closed;
  errno = error_given();  // it is closed all the same
  return -1;
}

ssize_t read(int file, void* to, size_t size) {
  if (is_the_one("read", is_ours(file))) {
    if (error_given() != 0) return -1;
    size = size < 1 ? size : 1;
  }
  return next<ssize_t(int, void*, size_t)>("read")(file, to, size);
}
ssize_t writev(int file, const iovec* parts, int count) {
  if (is_the_one("write", is_ours(file) && error_given() != 0)) return -1;
  return next<ssize_t(int, const iovec*, int)>("writev")(file, parts, count);
}
ssize_t pread(int file, void* to, size_t size, off_t at) {
  if (is_the_one("read", is_ours(file))) {
    if (error_given() != 0) return -1;
    size = size < 1 ? size : 1;
  }
  return next<ssize_t(int, void*, size_t, off_t)>("pread")(file, to, size, at);
}
ssize_t write(int file, const void* from, size_t size) {
  if (is_the_one("write", is_ours(file))) {
    if (error_given() != 0) return -1;
    size = size < 1 ? size : 1;
  }
  return next<ssize_t(int, const void*, size_t)>("write")(file, from, size);
}

void* mmap(void* at, size_t size, int protection, int flags, int file, off_t from) {
  if (is_the_one("mmap", is_ours(file))) return reinterpret_cast<void*>(-1);
  return next<void*(void*, size_t, int, int, int, off_t)>("mmap")(at, size, protection, flags, file,
                                                                  from);
}

int fstat(int file, struct stat* to) noexcept { return of_file("fstat", file, to); }
int fsync(int file) { return of_file("fsync", file); }
int fchmod(int file, mode_t mode) noexcept { return of_file("fchmod", file, mode); }
int ftruncate(int file, off_t size) noexcept { return of_file("ftruncate", file, size); }
int listen(int socket, int most) noexcept {
  if (is_the_one("listen", is_in(bound, socket))) return -1;
  return next<int(int, int)>("listen")(socket, most);
}
int bind(int socket, const sockaddr* to, socklen_t size) noexcept {
  const bool counts = to->sa_family == AF_UNIX && size > sizeof(sa_family_t) &&
                      is_ours(reinterpret_cast<const sockaddr_un*>(to)->sun_path);
  if (is_the_one("bind", counts)) return -1;
  keep(socket, counts, bound);
  return next<int(int, const sockaddr*, socklen_t)>("bind")(socket, to, size);
}
int stat(const char* path, struct stat* to) noexcept { return of_path("stat", path, to); }
int lstat(const char* path, struct stat* to) noexcept { return of_path("lstat", path, to); }
int mkdir(const char* path, mode_t mode) noexcept { return of_path("mkdir", path, mode); }
int chmod(const char* path, mode_t mode) noexcept { return of_path("chmod", path, mode); }
int unlink(const char* path) noexcept { return of_path("unlink", path); }
int rmdir(const char* path) noexcept { return of_path("rmdir", path); }
int rename(const char* from, const char* to) noexcept { return of_path("rename", from, to); }
int link(const char* from, const char* to) noexcept { return of_path("link", from, to); }

}  // extern "C"
