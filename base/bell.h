// An event that wakes a thread waiting in the kernel, together with its other descriptors.
//
// It stays rung until it is heard, so none is lost between a question and a wait. Thread: any;
// `descriptor()` may be written to, eight bytes of a number above 0, by a signal handler.
// Errors: a process that may open no file for it could never be woken, so it ends at once, with
// status 1 and what to do.
// Source: eventfd(2).
#pragma once

namespace sluice {

class Bell {
 public:
  Bell();
  ~Bell();
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;

  /// Readable while it is rung.
  int descriptor() const { return descriptor_; }
  void ring() const;
  /// Whether it was rung; it is not any more. Never waits.
  bool hear() const;

 private:
  const int descriptor_;
};

}  // namespace sluice
