// The one main of every Catch2 test program.
//
// With SLUICE_CASE_SECONDS set, a test case that takes longer fails by its name, and the program
// ends with it: what waits for ever is told from what is slow.
#define CATCH_CONFIG_MAIN
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>

namespace {

class CaseWatch final : public Catch::TestEventListenerBase {
 public:
  using TestEventListenerBase::TestEventListenerBase;
  void testCaseStarting(const Catch::TestCaseInfo& test) override {
    TestEventListenerBase::testCaseStarting(test);
    const char* seconds = std::getenv("SLUICE_CASE_SECONDS");
    if (seconds == nullptr) return;
    // Catch2 hears of an abort, and reports the case that it came in.
    std::signal(SIGALRM, [](int) { std::raise(SIGABRT); });
    ::alarm(static_cast<unsigned>(std::atoi(seconds)));
  }
  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    ::alarm(0);
    TestEventListenerBase::testCaseEnded(stats);
  }
};

CATCH_REGISTER_LISTENER(CaseWatch)

}  // namespace
