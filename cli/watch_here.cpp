// `--watch` on standard output.
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/watch.h"

namespace sluice::cli {

namespace {

constexpr int pause_ms = 1000;

/// A reader that has gone is an error of the write, and not the program's end.
class QuietPipe {
 public:
  QuietPipe() {
    struct sigaction action {};
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, &before_);
  }
  ~QuietPipe() { sigaction(SIGPIPE, &before_, nullptr); }
  QuietPipe(const QuietPipe&) = delete;
  QuietPipe& operator=(const QuietPipe&) = delete;

 private:
  struct sigaction before_ {};
};

/// The error; 0: all of it was written.
int write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno != EINTR) return errno;
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

}  // namespace

int watch_here(const std::function<std::string()>& draw) {
  const Interrupts interrupts(Interrupts::Of::ctrl_c);
  const QuietPipe quiet;
  int failed = 0;
  const auto write = [&](const std::string& text) { return (failed = write_all(text)) == 0; };
  const auto wait = [&] {
    pollfd event{interrupts.descriptor(), POLLIN, 0};
    const int ready = ::poll(&event, 1, pause_ms);
    return ready == 0 || (ready < 0 && errno == EINTR && interrupts.signal() == 0);
  };
  watch({draw, write, wait}, ::isatty(STDOUT_FILENO) == 1);
  if (failed == 0 || failed == EPIPE) return 0;
  return fail(std::string("standard output cannot be written: ") + std::strerror(failed));
}

}  // namespace sluice::cli
