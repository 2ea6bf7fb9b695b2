// One call to the system fails, as no test could otherwise make it.
//
// Programs that test what calls the system link failing_call.cpp, whose functions stand before the
// library's. Thread: one FailingCall at a time; calls of any thread count while it is there.
#pragma once

namespace sluice::test {

class FailingCall {
 public:
  static constexpr int half = 0;
  /// Of the calls of `function` from now on the `at`th, and `times - 1` behind it, end with that
  /// error; the others are made. `half`: of those that move bytes it moves half of them instead.
  FailingCall(const char* function, int error, int at = 1, int times = 1);
  ~FailingCall();
  FailingCall(const FailingCall&) = delete;
  FailingCall& operator=(const FailingCall&) = delete;

  /// Calls of that function so far.
  int calls() const;
};

}  // namespace sluice::test
