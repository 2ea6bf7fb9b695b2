#include "base/bell.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace sluice {

namespace {

int made() {
  const int descriptor = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (descriptor >= 0) return descriptor;
  const char* why = std::strerror(errno);
  std::fflush(nullptr);
  std::fprintf(stderr,
               "sluice: no file descriptor can be opened (%s): close others, or allow more with "
               "`ulimit -n`\n",
               why);
  std::_Exit(1);
}

}  // namespace

Bell::Bell() : descriptor_(made()) {}

Bell::~Bell() { ::close(descriptor_); }

void Bell::ring() const { ::eventfd_write(descriptor_, 1); }

bool Bell::hear() const {
  eventfd_t times = 0;
  return ::eventfd_read(descriptor_, &times) == 0;
}

}  // namespace sluice
