#include "cli/page_secret.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "runtime/zmq/keys.h"

namespace sluice::cli {

namespace {

namespace fs = std::filesystem;

/// A thread of its own waits for the lock, for that has no end: who waits for the thread has one.
struct LockWait {
  explicit LockWait(int file) : descriptor(file) {}
  LockWait(const LockWait&) = delete;
  LockWait& operator=(const LockWait&) = delete;
  ~LockWait() { ::close(descriptor); }  // and with it the lock

  const int descriptor;
  std::mutex mutex;
  std::condition_variable changed;
  bool is_over = false;
};

/// While it lives no other process looks whether the folder's secret is there, makes or removes it.
class SecretTurn {
 public:
  SecretTurn(const std::string& folder, std::chrono::milliseconds patience) {
    const int file = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file < 0) return;
    held_ = std::make_shared<LockWait>(file);
    // Where there are no such locks things are as without: the secret is made by linking it.
    if (::flock(file, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
    std::thread([wait = held_] {
      (void)::flock(wait->descriptor, LOCK_EX);
      const std::lock_guard lock(wait->mutex);
      wait->is_over = true;
      wait->changed.notify_all();
    }).detach();
    std::unique_lock lock(held_->mutex);
    is_late_ = !held_->changed.wait_for(lock, patience, [&] { return held_->is_over; });
  }

  bool is_late() const { return is_late_; }

 private:
  std::shared_ptr<LockWait> held_;
  bool is_late_ = false;
};

/// The secret, or what somebody who was killed while making it has left.
bool is_secret(const std::string& name) {
  return name == shared_secret_name || name.starts_with(std::string(shared_secret_name) + ".");
}

}  // namespace

Result<std::array<std::uint8_t, 32>> page_secret(
    const std::string& folder, std::chrono::milliseconds patience,
    const std::function<std::optional<std::array<std::uint8_t, 32>>()>& kept) {
  const SecretTurn mine(folder, patience);
  if (mine.is_late())
    return Error{ErrorCode::unavailable,
                 folder + ": another process has locked it for more than " +
                     std::to_string(patience.count()) +
                     " ms, so the secret of the pages cannot be read: a machine that stands still "
                     "there has to go on or end"};
  const std::string path = folder + "/" + shared_secret_name;
  std::error_code ignored;
  if (!fs::exists(path, ignored))
    if (const Result<void> made = write_shared_secret(folder, kept ? kept() : std::nullopt); !made)
      return made.error();
  Result<std::array<std::uint8_t, 32>> secret = read_shared_secret(folder);
  if (!secret.ok() && secret.error().code == ErrorCode::corrupt)
    return Error{ErrorCode::corrupt, path + " holds no secret: end the machines of this cluster " +
                                         "and remove it; it is made anew"};
  return secret;
}

void remove_page_secret(const std::string& folder, std::chrono::milliseconds patience) {
  const SecretTurn mine(folder, patience);
  if (mine.is_late()) return;
  std::error_code failed;
  std::vector<std::string> ours;
  for (fs::directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed)) {
    if (!is_secret(it->path().filename().string())) return;
    ours.push_back(it->path().string());
  }
  if (failed) return;
  for (const std::string& path : ours) ::unlink(path.c_str());
}

}  // namespace sluice::cli
