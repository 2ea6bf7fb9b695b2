// Each call to the system that a folder of pages, a port to its disk or a file of weights makes
// fails, one at a time: what is said, what stands there afterwards, and that nothing is left open.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>

#include "dataplane/segment_format.h"
#include "engine/checkpoint/mapped_file.h"
#include "engine/storage/block_port.h"
#include "engine/storage/store_folder.h"
#include "tests/outcomes.h"
#include "tests/scratch_folder.h"
#include "tests/system/failing_call.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using test::FailingCall;

std::ptrdiff_t open_descriptors() {
  return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
}

/// One life of a folder, a line for each thing that is asked of it.
struct Life {
  std::string path;
  std::vector<std::string> lines;

  template <typename Made>
  bool says(const std::string& what, const Made& made) {
    std::string text =
        made.ok() ? "well"
                  : std::string(to_string(made.error().code)) + ", " + made.error().message;
    for (std::size_t at; (at = text.find(path)) != std::string::npos;)
      text.replace(at, path.size(), "PAGES");
    lines.push_back(what + ": " + text);
    return made.ok();
  }
  void live(bool direct) {
    const auto folder = StoreFolder::open(path);
    if (!says("open", folder)) return;
    const auto made = folder->create(3, direct);
    if (says("create", made)) lines.back() += (*made)->is_direct() ? ", direct" : "";
    const auto files = folder->files();
    if (says("files", files)) lines.back() += ", " + std::to_string(files->size());
    const auto read = folder->read(3, direct);
    if (says("read", read)) lines.back() += (*read)->is_direct() ? ", direct" : "";
    lines.push_back(folder->is_held() ? "held" : "not held");
    says("remove", folder->remove(3));
    says("look", StoreFolder::look(path));
  }
  void look_around() {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path)) names.push_back(entry.path().filename());
    std::ranges::sort(names);
    std::string text = "there are";
    for (const std::string& name : names) text += " " + name;
    lines.push_back(text);
  }
};

constexpr std::size_t blocks = 4;

/// What became of a job, through which port it may be.
std::string moved(BlockPort& port, const BlockPort::Job& job) {
  port.submit(job);
  std::vector<BlockPort::Ended> ended;
  while (ended.empty()) port.wait(ended, std::chrono::seconds(10));
  REQUIRE(ended.size() == 1);
  CHECK(ended[0].id == job.id);
  if (ended[0].error == BlockPort::cut_short) return "cut short";
  return ended[0].error == 0 ? "whole" : std::strerror(ended[0].error);
}

}  // namespace

TEST_CASE("each call that a folder of pages makes fails, and what is said and left is as before") {
  test::Outcomes outcomes("store_failing_calls");
  const ScratchFolder scratch;
  std::size_t lives = 0;
  for (const char* function : {"mkdir", "open", "fstat", "openat", "fcntl", "getrandom", "unlinkat",
                               "write", "fsync", "renameat", "fdopendir", "fstatat", "read"})
    for (const int error : {EIO, EINVAL, ENOENT}) {
      // Of these the error's number says what is to be done.
      const bool is_asked =
          std::string_view(function).ends_with("at") || std::string_view(function) == "open";
      for (int at = 1; error == EIO || is_asked; ++at) {
        const std::ptrdiff_t before = open_descriptors();
        Life life{scratch.path() + "/" + std::to_string(lives++), {}};
        int calls = 0;
        {
          const FailingCall fails(function, error, at);
          life.live(false);
          calls = fails.calls();
        }
        if (calls < at) break;
        CHECK(open_descriptors() == before);
        if (fs::exists(life.path)) life.look_around();
        const std::string title =
            std::string(function) + " " + std::to_string(at) + ": " + std::strerror(error);
        for (const std::string& line : life.lines) outcomes.add(title, line);
      }
    }
  outcomes.require_as_kept();
}

TEST_CASE("a folder of pages takes files past the page cache where they can be had") {
  const ScratchFolder scratch;
  const auto lived = [&](const char* name, int error, int at) {
    Life life{scratch.path() + "/" + name, {}};
    const FailingCall fails("openat", error, at);
    life.live(true);
    for (const std::string& line : life.lines)
      if (line.starts_with("create: ")) return line;
    return std::string("none");
  };
  constexpr int of_file = 5;  // behind those of the lock, of the secret and of what is there
  const std::string usual = lived("usual", EIO, 1000);
  CHECK(lived("no direct", EINVAL, of_file) == "create: well");
  CHECK(
      lived("broken", EIO, of_file) ==
      "create: unavailable, PAGES: segment-0000000000000003 cannot be opened: Input/output error");
  CHECK((usual == "create: well" || usual == "create: well, direct"));
}

TEST_CASE("a secret that is half there is none, and the next life makes it anew") {
  const ScratchFolder scratch;
  Life life{scratch.path() + "/pages", {}};
  {
    const FailingCall fails("write", FailingCall::half);
    CHECK_FALSE(life.says("open", StoreFolder::open(life.path)));
  }
  CHECK(life.lines.back().starts_with("open: unavailable, PAGES: its secret cannot be written"));
  CHECK(StoreFolder::look(life.path).error().code == ErrorCode::not_found);
  CHECK(life.says("open", StoreFolder::open(life.path)));
  CHECK(life.says("look", StoreFolder::look(life.path)));
}

TEST_CASE("a port of threads moves what is left when a call moves a part, and says what fails") {
  const ScratchFolder scratch;
  const StoreFolder folder = std::move(StoreFolder::open(scratch.path() + "/pages")).value();
  const auto port = make_thread_port();
  const auto file = std::move(folder.create(1, false)).value();
  struct alignas(segment_block) Bytes {
    std::array<std::byte, blocks * segment_block> bytes{};
  };
  auto out = std::make_unique<Bytes>(), in = std::make_unique<Bytes>();
  for (std::size_t i = 0; i < out->bytes.size(); ++i)
    out->bytes[i] = static_cast<std::byte>(i * 7 + i / 256);
  std::uint64_t id = 0;
  const auto with = [&](const char* function, int error, int times, BlockPort::Kind kind) {
    const FailingCall fails(function, error, 1, times);
    auto& bytes = kind == BlockPort::Kind::write ? out->bytes : in->bytes;
    const std::span<std::byte> all =
        kind == BlockPort::Kind::sync ? std::span<std::byte>() : std::span<std::byte>(bytes);
    const std::string became = moved(*port, {++id, kind, file, 0, all});
    return became + ", " + std::to_string(fails.calls());
  };
  using Kind = BlockPort::Kind;
  CHECK(with("pwrite", EINTR, 2, Kind::write) == "whole, 3");
  CHECK(with("pwrite", FailingCall::half, 2, Kind::write) == "whole, 3");
  CHECK(with("pread", FailingCall::half, 2, Kind::read) == "whole, 3");
  CHECK(in->bytes == out->bytes);
  in->bytes = {};
  CHECK(with("pread", EINTR, 1, Kind::read) == "whole, 2");
  CHECK(in->bytes == out->bytes);
  // Half a block is the end of the file.
  CHECK(with("pread", FailingCall::half, 3, Kind::read) == "cut short, 3");
  CHECK(with("pread", EIO, 1, Kind::read) == "Input/output error, 1");
  CHECK(with("pwrite", ENOSPC, 1, Kind::write) == "No space left on device, 1");
  CHECK(with("fdatasync", EIO, 1, Kind::sync) == "Input/output error, 1");
  CHECK(with("fdatasync", EIO, 0, Kind::sync) == "whole, 1");
}

TEST_CASE("a file of weights that cannot be looked at or mapped is refused, and is not left open") {
  const ScratchFolder scratch;
  const std::string path = scratch.path() + "/weights";
  std::ofstream(path) << std::string(5000, 'w');
  const std::ptrdiff_t before = open_descriptors();
  const auto mapped = [&](const char* function, int error) {
    const FailingCall fails(function, error);
    const Result<MappedFile> file = MappedFile::open(path);
    return file.ok() ? "mapped"
                     : std::string(to_string(file.error().code)) +
                           file.error().message.substr(path.size());
  };
  CHECK(mapped("none", EIO) == "mapped");
  CHECK(mapped("open", EACCES) == "not_found: Permission denied");
  CHECK(mapped("fstat", EIO) == "corrupt: empty, or not a regular file");
  CHECK(mapped("mmap", ENOMEM) ==
        "exhausted: its 5000 bytes cannot be mapped: Cannot allocate memory");
  CHECK(open_descriptors() == before);
}

}  // namespace sluice
