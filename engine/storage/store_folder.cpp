#include "engine/storage/store_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "base/count_text.h"
#include "base/sha256.h"

namespace sluice {
namespace {

constexpr const char* lock_name = "lock";
constexpr const char* secret_name = "secret";
constexpr std::string_view segment_prefix = "segment-";
constexpr std::string_view machine_prefix = "machine-";
constexpr std::size_t digits = 16;
constexpr std::size_t files_most = 1U << 20;

/// 0: the name is no segment's.
std::uint64_t number_of(std::string_view name) {
  if (name.size() != segment_prefix.size() + digits || !name.starts_with(segment_prefix)) return 0;
  name.remove_prefix(segment_prefix.size());
  std::uint64_t number = 0;
  const auto read = std::from_chars(name.data(), name.data() + name.size(), number, 16);
  if (read.ec != std::errc{} || read.ptr != name.data() + name.size()) return 0;
  return StoreFolder::name_of(number).ends_with(name) ? number : 0;
}

struct flock whole_file() {
  struct flock all {};
  all.l_type = F_WRLCK;
  all.l_whence = SEEK_SET;
  return all;
}

Result<void> make_private(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return {};
  return Error{ErrorCode::unavailable, path + ": it cannot be made: " + std::strerror(errno)};
}

/// Where no pages are kept in a folder itself: in which of those within it.
std::string but_of_machines(const std::string& path, const Error& error) {
  std::error_code failed;
  std::vector<std::string> names;
  if (error.code != ErrorCode::not_found) return "";
  for (std::filesystem::directory_iterator it(path, failed), end; !failed && it != end;
       it.increment(failed))
    if (std::string name = it->path().filename().string(); name.starts_with(machine_prefix))
      names.push_back(std::move(name));
  if (names.empty()) return "";
  std::ranges::sort(names);
  constexpr std::size_t shown_most = 8;
  std::string text = ", but each machine's of a cluster in one of its own; name one of them: ";
  for (std::size_t i = 0; i < std::min(names.size(), shown_most); ++i)
    text += (i == 0 ? "" : ", ") + path + (path.ends_with('/') ? "" : "/") + names[i];
  return names.size() > shown_most
             ? text + ", and " + std::to_string(names.size() - shown_most) + " more"
             : text;
}

bool write_whole(int file, const PageKeys::Secret& secret) {
  return ::write(file, secret.data(), secret.size()) == static_cast<ssize_t>(secret.size()) &&
         ::fsync(file) == 0;
}

}  // namespace

SegmentFile::~SegmentFile() { ::close(descriptor_); }

StoreFolder::StoreFolder(StoreFolder&& other) noexcept
    : path_(std::move(other.path_)),
      folder_(std::exchange(other.folder_, -1)),
      lock_(std::exchange(other.lock_, -1)),
      secret_(other.secret_) {}

StoreFolder::~StoreFolder() {
  if (lock_ >= 0) ::close(lock_);
  if (folder_ >= 0) ::close(folder_);
}

std::string StoreFolder::name_of(std::uint64_t number) {
  std::array<char, digits> text;
  const auto made = std::to_chars(text.data(), text.data() + digits, number, 16);
  const std::string hex(text.data(), made.ptr);
  return std::string(segment_prefix) + std::string(digits - hex.size(), '0') + hex;
}

Error StoreFolder::error(const std::string& what) const {
  return {ErrorCode::unavailable, path_ + ": " + what + ": " + std::strerror(errno)};
}

Error StoreFolder::none_kept() const {
  return {ErrorCode::not_found, path_ + ": no pages are kept there"};
}

Result<void> StoreFolder::make_common(const std::string& path) {
  if (Result<void> made = make_private(path); !made.ok()) return made;
  const Result<StoreFolder> folder = enter(path);
  return folder.ok() ? Result<void>() : folder.error();
}

std::string StoreFolder::of_machine(const std::string& path, const std::string& machine) {
  return path + (path.ends_with('/') ? "" : "/") + std::string(machine_prefix) + machine;
}

Result<StoreFolder> StoreFolder::open(const std::string& path, const PageKeys::Secret* secret) {
  if (Result<void> made = make_private(path); !made.ok()) return made.error();
  Result<StoreFolder> folder = enter(path);
  if (!folder.ok()) return folder;
  if (Result<void> locked = folder->take_lock(); !locked.ok()) return locked.error();
  Result<void> read = folder->read_secret();
  if (!read.ok() && read.error().code == ErrorCode::not_found) read = folder->make_secret(secret);
  if (!read.ok()) return read.error();
  if (secret != nullptr && folder->secret_ != *secret)
    return invalid_argument(
        path + "/" + secret_name +
        ": its pages are kept under another secret than that of these machines (" +
        "kv-pages.secret), so none of them can be found: remove the folder, name another one, or "
        "give the machines the kv-pages.secret that they had when it was made");
  return folder;
}

Result<StoreFolder> StoreFolder::look(const std::string& path) {
  Result<StoreFolder> folder = enter(path, true);
  if (!folder.ok()) return folder;
  if (Result<void> read = folder->read_secret(); !read.ok())
    return Error{read.error().code, read.error().message + but_of_machines(path, read.error())};
  return folder;
}

Result<void> StoreFolder::check(const std::string& path) {
  Result<StoreFolder> folder = enter(path);
  if (folder.ok()) {
    if (::faccessat(folder->folder_, ".", W_OK | X_OK, AT_EACCESS) != 0)
      return folder->error("nothing can be written in it");
    const Result<void> read = folder->read_secret();
    return read.ok() || read.error().code == ErrorCode::not_found ? Result<void>() : read.error();
  }
  if (folder.error().code != ErrorCode::not_found) return folder.error();
  // It is made, and what it is to stand in is not.
  std::string above = path.substr(0, path.find_last_not_of('/') + 1);
  above.resize(above.rfind('/') == std::string::npos ? 0 : above.rfind('/') + 1);
  if (::access(above.empty() ? "." : above.c_str(), W_OK | X_OK) == 0) return {};
  return Error{ErrorCode::unavailable, path + ": it cannot be made: " + std::strerror(errno)};
}

Result<StoreFolder> StoreFolder::enter(const std::string& path, bool looks) {
  const int file = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0) {
    const bool none = errno == ENOENT;
    return Error{none ? ErrorCode::not_found : ErrorCode::invalid_argument,
                 path + (none ? ": there is no such folder"
                              : std::string(": it cannot be entered, or is no folder or a link: ") +
                                    std::strerror(errno))};
  }
  StoreFolder folder(path, file);
  struct stat about {};
  if (::fstat(file, &about) != 0) return folder.error("it cannot be looked at");
  const bool is_own = about.st_uid == ::geteuid();
  if (is_own && (about.st_mode & 077) == 0) return folder;
  const bool has_pages = ::faccessat(file, secret_name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
  if (looks && !has_pages) return folder.none_kept();
  if (!is_own)
    return invalid_argument(path + ": it is another user's; pages need a folder of your own");
  // One that others may write in is hardly meant for pages.
  const bool is_to_change = has_pages || (about.st_mode & 022) == 0;
  return invalid_argument(path + ": others may enter it, and pages tell what was said: " +
                          (is_to_change ? "chmod 700, or name another"
                                        : "name another, which is made where there is none"));
}

Result<void> StoreFolder::take_lock() {
  lock_ = ::openat(folder_, lock_name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (lock_ < 0) return error("its lock cannot be opened");
  struct flock all = whole_file();
  const std::string self = std::to_string(::getpid());
  if (::fcntl(lock_, F_OFD_SETLK, &all) == 0) {
    // For who finds it held: whose it is does not show of such a lock.
    (void)(::ftruncate(lock_, 0) == 0 && ::pwrite(lock_, self.data(), self.size(), 0) > 0);
    return {};
  }
  std::array<char, digits> text{};
  const ssize_t size = ::pread(lock_, text.data(), text.size(), 0);
  const std::string holder(text.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  const bool is_number = !holder.empty() && holder.find_first_not_of("0123456789") == holder.npos;
  return Error{ErrorCode::unavailable,
               path_ + ": it is in use by " +
                   (holder == self ? "another paged_kv of this process"
                    : is_number    ? "process " + holder
                                   : "another process") +
                   ", and a folder is of one chat, ask or paged_kv at a time: " +
                   (holder == self ? "" : "end that, or ") + "name another folder"};
}

bool StoreFolder::is_there() const {
  const auto is_same = [](const struct stat& a, const struct stat& b) {
    return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
  };
  struct stat named {};
  struct stat held {};
  struct stat lock {};
  struct stat held_lock {};
  return ::stat(path_.c_str(), &named) == 0 && ::fstat(folder_, &held) == 0 &&
         is_same(named, held) && ::fstatat(folder_, lock_name, &lock, AT_SYMLINK_NOFOLLOW) == 0 &&
         ::fstat(lock_, &held_lock) == 0 && is_same(lock, held_lock);
}

bool StoreFolder::is_held() const {
  const int file = ::openat(folder_, lock_name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0) return false;
  struct flock all = whole_file();
  const bool held = ::fcntl(file, F_OFD_GETLK, &all) == 0 && all.l_type != F_UNLCK;
  ::close(file);
  return held;
}

Result<void> StoreFolder::read_secret() {
  const int file = ::openat(folder_, secret_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file >= 0) {
    std::array<std::uint8_t, 33> bytes;
    const ssize_t size = ::read(file, bytes.data(), bytes.size());
    ::close(file);
    if (size != static_cast<ssize_t>(secret_.size()))
      return invalid_argument(path_ + "/" + secret_name +
                              ": it is not 32 bytes long; without it the pages cannot be found: "
                              "remove the folder");
    std::copy_n(bytes.begin(), secret_.size(), secret_.begin());
    return {};
  }
  if (errno != ENOENT) return error("its secret cannot be read");
  const Result<std::vector<File>> segments = files();
  if (!segments.ok()) return segments.error();
  if (!segments->empty())
    return invalid_argument(path_ + "/" + secret_name + ": it is not there, and " +
                            count_text(segments->size(), "segment") +
                            " of pages beside it; without it the pages cannot be found: put it "
                            "back, or remove the folder");
  return none_kept();
}

Result<void> StoreFolder::make_secret(const PageKeys::Secret* secret) {
  if (secret != nullptr)
    secret_ = *secret;
  else if (::getrandom(secret_.data(), secret_.size(), 0) != static_cast<ssize_t>(secret_.size()))
    return error("there is no randomness for its secret");
  // Under its name only when it is whole: a process may die here.
  constexpr const char* beside = "secret.new";
  (void)::unlinkat(folder_, beside, 0);
  const int made =
      ::openat(folder_, beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (made < 0) return error("its secret cannot be made");
  const bool written = write_whole(made, secret_);
  ::close(made);
  if (!written || ::renameat(folder_, beside, folder_, secret_name) != 0)
    return error("its secret cannot be written");
  return {};
}

std::uint64_t StoreFolder::owner() const {
  std::string text = "owner of segments ";
  text.append(secret_.begin(), secret_.end());
  return sha256_prefix(text);
}

Result<std::vector<StoreFolder::File>> StoreFolder::files() const {
  const int again = ::openat(folder_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const list = again < 0 ? nullptr : ::fdopendir(again);
  if (list == nullptr) {
    if (again >= 0) ::close(again);
    return error("it cannot be listed");
  }
  std::vector<File> found;
  while (const dirent* entry = ::readdir(list)) {
    const std::uint64_t number = number_of(entry->d_name);
    struct stat about {};
    if (number == 0 || ::fstatat(folder_, entry->d_name, &about, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(about.st_mode))
      continue;
    if (found.size() == files_most) break;
    found.push_back({number, static_cast<std::uint64_t>(about.st_size)});
  }
  ::closedir(list);
  std::ranges::sort(found, {}, &File::number);
  return found;
}

Result<std::shared_ptr<SegmentFile>> StoreFolder::open_file(std::uint64_t number, int flags,
                                                            bool direct) const {
  const std::string name = name_of(number);
  const int all = flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  int file = direct ? ::openat(folder_, name.c_str(), all | O_DIRECT, 0600) : -1;
  const bool is_direct = file >= 0;
  const bool cannot_direct = direct && !is_direct && errno == EINVAL;
  if (cannot_direct && (flags & O_CREAT) != 0)
    (void)::unlinkat(folder_, name.c_str(), 0);  // some file systems make it, then refuse
  if (!direct || cannot_direct) file = ::openat(folder_, name.c_str(), all, 0600);
  if (file < 0) return error(name + " cannot be opened");
  auto made = std::make_shared<SegmentFile>(file, is_direct);
  struct stat about {};
  if (::fstat(file, &about) != 0 || !S_ISREG(about.st_mode))
    return invalid_argument(path_ + "/" + name + ": it is no regular file");
  // It was for opening alone, where a pipe in its place would have held us up.
  const int status = ::fcntl(file, F_GETFL);
  if (status < 0 || ::fcntl(file, F_SETFL, status & ~O_NONBLOCK) != 0)
    return error(name + " cannot be made to wait");
  return made;
}

Result<std::shared_ptr<SegmentFile>> StoreFolder::create(std::uint64_t number, bool direct) const {
  return open_file(number, O_RDWR | O_CREAT | O_EXCL, direct);
}

Result<std::shared_ptr<SegmentFile>> StoreFolder::read(std::uint64_t number, bool direct) const {
  return open_file(number, O_RDONLY, direct);
}

Result<void> StoreFolder::remove(std::uint64_t number) const {
  if (::unlinkat(folder_, name_of(number).c_str(), 0) != 0 && errno != ENOENT)
    return error(name_of(number) + " cannot be removed");
  return {};
}

}  // namespace sluice
