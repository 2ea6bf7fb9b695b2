#include "base/failpoint.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

namespace sluice {

namespace {

std::string& process_name() {
  static std::string name = "-";
  return name;
}

/// What the file asks for. False: there is none, or it is not whole.
bool read_wish(const std::string& path, int& signal, int& passage, int& pid) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0) return false;
  std::array<char, 64> text{};
  const ssize_t got = ::read(file, text.data(), text.size() - 1);
  ::close(file);
  return got > 0 && std::sscanf(text.data(), "%d %d %d", &signal, &passage, &pid) >= 2;
}

}  // namespace

const bool failpoints_are_set = ::secure_getenv("SLUICE_FAILPOINTS") != nullptr;

void name_for_failpoints(std::string_view process) { process_name() = process; }

void reach_failpoint(const char* place) {
  static std::mutex mutex;
  static std::map<std::string, int> passed;  // since the file was there
  const char* const folder = ::secure_getenv("SLUICE_FAILPOINTS");
  if (folder == nullptr) return;
  const std::string path = std::string(folder) + "/" + process_name() + "." + place;
  int signal = 0, passage = 1, pid = 0;
  {
    const std::lock_guard lock(mutex);
    if (!read_wish(path, signal, passage, pid)) {
      passed.erase(place);
      return;
    }
    if (++passed[place] < passage || ::unlink(path.c_str()) != 0) return;
    passed.erase(place);
  }
  if (signal != SIGKILL && signal != SIGSTOP && signal != SIGSEGV) return;
  if (pid > 1) {
    ::kill(pid, signal);
    return;
  }
  if (signal == SIGSEGV) ::signal(SIGSEGV, SIG_DFL);
  ::raise(signal);
}

}  // namespace sluice
