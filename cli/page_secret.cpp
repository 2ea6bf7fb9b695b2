#include "cli/page_secret.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>

#include "runtime/zmq/keys.h"

namespace sluice::cli {

namespace {

namespace fs = std::filesystem;

/// While it lives no other process looks whether the folder's secret is there, makes or removes it.
class SecretTurn {
 public:
  explicit SecretTurn(const std::string& folder)
      : file_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    // Where there are no such locks things are as without: the secret is made by linking it.
    if (file_ >= 0) (void)::flock(file_, LOCK_EX);
  }
  SecretTurn(const SecretTurn&) = delete;
  SecretTurn& operator=(const SecretTurn&) = delete;
  ~SecretTurn() {
    if (file_ >= 0) ::close(file_);
  }

 private:
  int file_;
};

}  // namespace

Result<std::array<std::uint8_t, 32>> page_secret(const std::string& folder) {
  const SecretTurn mine(folder);
  std::error_code ignored;
  if (!fs::exists(folder + "/" + shared_secret_name, ignored))
    if (const Result<void> made = write_shared_secret(folder); !made) return made.error();
  return read_shared_secret(folder);
}

void remove_page_secret(const std::string& folder) {
  const SecretTurn mine(folder);
  std::error_code failed;
  std::size_t others = 0;
  for (fs::directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed))
    others += it->path().filename() == shared_secret_name ? 0 : 1;
  if (!failed && others == 0) ::unlink((folder + "/" + shared_secret_name).c_str());
}

}  // namespace sluice::cli
