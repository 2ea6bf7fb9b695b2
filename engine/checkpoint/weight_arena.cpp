#include "engine/checkpoint/weight_arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

namespace sluice {

namespace {

constexpr int seals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr int seal_tries = 5;  // each waits for a third of a second
constexpr std::size_t huge_page = std::size_t{2} << 20;
constexpr std::size_t window_most = std::size_t{32} << 20;  // of matrices that are not larger
constexpr int collapse = 25;  // MADV_COLLAPSE, Linux 6.1; headers may be older

Error system_says(const std::string& what, int number) {
  return {ErrorCode::unavailable, "shared weights: " + what + ": " + std::strerror(number)};
}

std::size_t rounded_up(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

/// Pieces of a file where huge pages can be mapped: the kernel maps one where address and place in
/// the file are multiples of it alike. Null: errno says why. `begin`: a multiple of huge pages.
std::byte* map_aligned(int file, std::size_t begin, std::size_t size) {
  const std::size_t room = size + huge_page;
  void* const reserved =
      ::mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return nullptr;
  auto* const first = static_cast<std::byte*>(reserved);
  const auto address = reinterpret_cast<std::uintptr_t>(first);
  const std::size_t before = rounded_up(address, huge_page) - address;
  std::byte* const at = first + before;
  const std::size_t mapped = rounded_up(size, 4096);
  if (before != 0) ::munmap(first, before);
  if (room > before + mapped) ::munmap(at + mapped, room - before - mapped);
  if (::mmap(at, size, PROT_READ, MAP_SHARED | MAP_FIXED, file, static_cast<off_t>(begin)) !=
      MAP_FAILED)
    return at;
  const int why = errno;
  ::munmap(at, mapped);
  errno = why;
  return nullptr;
}

}  // namespace

std::optional<std::size_t> sealed_size(const OwnedFile& file) {
  const int has = ::fcntl(file.get(), F_GET_SEALS);
  struct stat about {};
  if (has < 0 || (has & seals) != seals || ::fstat(file.get(), &about) != 0) return {};
  return static_cast<std::size_t>(about.st_size);
}

/// Goes with the last matrix over it.
struct WeightArena::Mappings {
  Mappings() = default;
  ~Mappings() {
    for (const Window& one : windows) ::munmap(const_cast<std::byte*>(one.at), one.size);
  }
  Mappings(const Mappings&) = delete;
  Mappings& operator=(const Mappings&) = delete;

  std::vector<Window> windows;
  std::shared_ptr<const void> with;
};

Result<WeightArena> WeightArena::make(const PartKey& key) {
  WeightArena made;
  made.key_ = key;
  made.memory_file_ = OwnedFile(::memfd_create("sluice-weights", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const int file = made.memory_file_.get();
  if (file < 0) return system_says("there is no memory for them", errno);
  // What is mapped through this one can never be made writable, and hinders no seal.
  const std::string self = "/proc/self/fd/" + std::to_string(file);
  made.read_only_ = OwnedFile(::open(self.c_str(), O_RDONLY | O_CLOEXEC));
  if (made.read_only_.get() < 0) return system_says(self + " cannot be opened", errno);
  made.mappings_ = std::make_shared<Mappings>();
  return made;
}

Result<WeightArena> WeightArena::attach(const OwnedFile& file, const PartKey& key) {
  const std::optional<std::size_t> sealed = sealed_size(file);
  if (!sealed.has_value())
    return Error{ErrorCode::corrupt, "shared weights: their memory is not sealed"};
  const std::size_t size = *sealed;
  if (size < weight_header_bytes)
    return Error{ErrorCode::corrupt,
                 "shared weights: a memory of " + std::to_string(size) + " bytes"};
  WeightArena made;
  made.key_ = key;
  made.used_ = size;
  made.mappings_ = std::make_shared<Mappings>();
  made.window_ = {map_aligned(file.get(), 0, size), 0, size};
  if (made.window_.at == nullptr)
    return system_says("their " + std::to_string(size) + " bytes cannot be mapped", errno);
  made.mappings_->windows.push_back(made.window_);
  Result<WeightTable> table = read_weight_table({made.window_.at, size}, key);
  if (!table.ok()) return table.error();
  made.table_ = std::move(table).value();
  return made;
}

std::optional<kernels::Weight> WeightArena::find(const std::string& name, std::size_t out,
                                                 std::size_t in,
                                                 kernels::WeightFormat format) const {
  const auto it = table_.find(name);
  if (!is_sealed() || it == table_.end()) return {};
  const StoredMatrix& matrix = it->second;
  if (matrix.out != out || matrix.in != in || format_of(matrix.as) != format) return {};
  return kernels::Weight::over(out, in, format, stored_numbers(matrix, window_.at), mappings_);
}

Result<WeightArena::Window*> WeightArena::window_for(std::size_t offset, std::size_t size) {
  if (offset >= window_.begin && offset + size <= window_.begin + window_.size) return &window_;
  Window next;
  next.begin = offset / huge_page * huge_page;
  // Twice the last one: a small part takes little address space, a large one few mappings.
  next.size = std::max(std::clamp(2 * window_.size, huge_page, window_most),
                       rounded_up(offset + size - next.begin, huge_page));
  next.at = map_aligned(read_only_.get(), next.begin, next.size);
  if (next.at == nullptr)
    return system_says(std::to_string(next.size) + " bytes of them cannot be mapped", errno);
  window_ = next;
  mappings_->windows.push_back(next);
  return &window_;
}

Result<void> WeightArena::write(std::size_t offset, std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t gone =
        ::pwrite(memory_file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (gone < 0 && errno == EINTR) continue;
    if (gone <= 0) return system_says("there is not so much memory", gone < 0 ? errno : ENOSPC);
    bytes = bytes.subspan(static_cast<std::size_t>(gone));
    offset += static_cast<std::size_t>(gone);
  }
  return {};
}

Result<void> WeightArena::put(const StoredMatrix& matrix, const kernels::Weight& weight) const {
  const StoredPlaces to = stored_places(matrix);
  const kernels::WeightNumbers& from = weight.numbers();
  Result<void> done = write(to.bf16, std::as_bytes(from.bf16));
  if (done.ok()) done = write(to.f32, std::as_bytes(from.f32));
  if (done.ok()) done = write(to.int8, std::as_bytes(from.int8));
  if (done.ok()) done = write(to.scales, std::as_bytes(from.scales));
  if (done.ok()) done = write(to.sums, std::as_bytes(from.sums));
  return done;
}

kernels::Weight WeightArena::keep(const std::string& name, kernels::Weight weight) {
  const std::optional<StoredAs> as = stored_as(weight);
  if (failed_.has_value() || !as.has_value() || name.size() > matrix_name_max ||
      table_.contains(name))
    return weight;
  const StoredMatrix matrix{*as, weight.out(), weight.in(), rounded_up(used_, weight_alignment)};
  const std::size_t size = stored_places(matrix).end - matrix.offset;
  Result<void> done = put(matrix, weight);
  const Result<Window*> window =
      done.ok() ? window_for(matrix.offset, size) : Result<Window*>(done.error());
  if (!window.ok()) {
    failed_ = window.error();
    return weight;
  }
  used_ = matrix.offset + size;
  table_.emplace(name, matrix);
  StoredMatrix in_window = matrix;
  in_window.offset -= (*window)->begin;
  return kernels::Weight::over(matrix.out, matrix.in, weight.format(),
                               stored_numbers(in_window, (*window)->at), mappings_);
}

Result<OwnedFile> WeightArena::seal() {
  if (failed_.has_value()) return *failed_;
  const WeightTableBytes bytes = write_weight_table(table_, key_, used_);
  if (Result<void> done = write(used_, bytes.table); !done.ok()) return done.error();
  if (Result<void> done = write(0, bytes.header); !done.ok()) return done.error();
  // A third of the bandwidth goes to address translation without huge pages, in every process; a
  // wish, which an old kernel or a machine without free ones does not fulfil.
  for (const Window& one : mappings_->windows)
    if (const std::size_t whole = std::min(one.size, used_ - one.begin) / huge_page * huge_page)
      (void)::madvise(const_cast<std::byte*>(one.at), whole, collapse);
  // The system itself may use a page for a while, as where it moves memory.
  int status = -1;
  for (int tries = 0; tries < seal_tries; ++tries) {
    status = ::fcntl(memory_file_.get(), F_ADD_SEALS, seals);
    if (status == 0 || errno != EBUSY) break;
  }
  if (status != 0) return system_says("they cannot be sealed", errno);
  memory_file_ = OwnedFile();
  return std::move(read_only_);
}

void WeightArena::hold(std::shared_ptr<const void> with) { mappings_->with = std::move(with); }

}  // namespace sluice
