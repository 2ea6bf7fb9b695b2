// The folder of a page store: its lock, its secret, its segment files.
//
// The folder is its user's alone (0700, files 0600), and one process's at a time: the lock is the
// kernel's and goes with the process. The secret makes the pages' keys: the same after a restart,
// of no use to who lacks it. No symbolic link is followed. Errors: invalid_argument (not a folder,
// another user's, open to others, a secret of another size), unavailable (another process holds
// it; the file system refuses). Thread: one; a `SegmentFile` may be used by any.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "dataplane/page_key.h"

namespace sluice {

/// An open file, closed with its last user.
class SegmentFile {
 public:
  SegmentFile(int descriptor, bool direct) : descriptor_(descriptor), direct_(direct) {}
  ~SegmentFile();
  SegmentFile(const SegmentFile&) = delete;
  SegmentFile& operator=(const SegmentFile&) = delete;

  int descriptor() const { return descriptor_; }
  bool is_direct() const { return direct_; }  // reads and writes go past the page cache

 private:
  int descriptor_;
  bool direct_;
};

class StoreFolder {
 public:
  struct File {
    std::uint64_t number = 0;
    std::uint64_t bytes = 0;
  };

  /// What a segment's file is called: by its number, in hexadecimal.
  static std::string name_of(std::uint64_t segment);
  /// Made where there is none, with this secret, or, where that is null, a new one; held until it
  /// goes. Errors: invalid_argument, too, where it has another secret than this.
  static Result<StoreFolder> open(const std::string& path,
                                  const PageKeys::Secret* secret = nullptr);
  /// That of one machine within `path`, which machines of one computer may have in common: none of
  /// them is called as a file of a folder is.
  static std::string of_machine(const std::string& path, const std::string& machine);
  /// Makes a folder for those of machines where there is none. Errors: as `open`'s.
  static Result<void> make_common(const std::string& path);
  /// Whether `open` could enter the folder, or make it, as far as that shows without a change; that
  /// another process holds it now is none of that. Errors: those of `open`.
  static Result<void> check(const std::string& path);
  /// As it is, to be read only, whoever holds it. Errors: not_found too.
  static Result<StoreFolder> look(const std::string& path);
  StoreFolder(StoreFolder&& other) noexcept;
  StoreFolder& operator=(StoreFolder&& other) = delete;
  ~StoreFolder();

  const std::string& path() const { return path_; }
  const PageKeys::Secret& secret() const { return secret_; }
  /// Told by the secret, which it does not give away.
  std::uint64_t owner() const;
  /// Of all segments, by number.
  Result<std::vector<File>> files() const;
  /// A new segment; `direct`: past the page cache, where the file system can.
  Result<std::shared_ptr<SegmentFile>> create(std::uint64_t number, bool direct = true) const;
  Result<std::shared_ptr<SegmentFile>> read(std::uint64_t number, bool direct = true) const;
  Result<void> remove(std::uint64_t number) const;
  /// Whether the next process would find the folder by its path, and held by this one: someone may
  /// have removed it, or the lock in it.
  bool is_there() const;
  /// Whether another process holds the folder that was looked at.
  bool is_held() const;

 private:
  StoreFolder(std::string path, int folder) : path_(std::move(path)), folder_(folder) {}
  /// `looks`: at pages that are there, else it is said that none are, whosever the folder is.
  static Result<StoreFolder> enter(const std::string& path, bool looks = false);
  Error none_kept() const;
  Result<void> take_lock();
  Result<void> read_secret();
  Result<void> make_secret(const PageKeys::Secret* secret);
  Result<std::shared_ptr<SegmentFile>> open_file(std::uint64_t number, int flags,
                                                 bool direct) const;
  Error error(const std::string& what) const;

  std::string path_;
  int folder_ = -1, lock_ = -1;
  PageKeys::Secret secret_{};
};

}  // namespace sluice
