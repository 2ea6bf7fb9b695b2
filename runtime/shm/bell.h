// Wakes a thread that waits in the kernel. Thread: any.
#pragma once

#include <sys/eventfd.h>

#include "runtime/shm/slab.h"

namespace sluice::shm {

class Bell {
 public:
  Bell() : descriptor_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
  int descriptor() const { return descriptor_.get(); }
  void ring() const { ::eventfd_write(descriptor_.get(), 1); }
  void hear() const {
    eventfd_t rung = 0;
    ::eventfd_read(descriptor_.get(), &rung);
  }

 private:
  const Descriptor descriptor_;
};

}  // namespace sluice::shm
