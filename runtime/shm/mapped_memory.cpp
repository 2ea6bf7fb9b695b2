#include "runtime/shm/mapped_memory.h"

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/own_region.h"
#include "runtime/shm/mapped_owner.h"
#include "runtime/shm/mapped_reader.h"

namespace sluice {

namespace {

using OwnRegion = sluice::OwnRegion<shm::MappedOwner, shm::MappedRegion>;

class OtherRegion final : public RemoteRegion {
 public:
  OtherRegion(std::shared_ptr<shm::MappedReader> reader, shm::MappedKey key, Listener& listener)
      : reader_(std::move(reader)),
        remote_(std::make_shared<shm::MappedRemote>(std::move(key), listener)) {
    reader_->open(remote_);
  }
  ~OtherRegion() override { reader_->close(*remote_); }
  OtherRegion(const OtherRegion&) = delete;
  OtherRegion& operator=(const OtherRegion&) = delete;

  std::uint64_t size() const override { return remote_->key().size; }
  bool is_near() const override { return true; }
  Ref<Buffer> bytes() const override { return reader_->bytes(*remote_); }
  void read(std::uint64_t number, Part first, Part then, Ref<Buffer> to) override {
    std::vector<Read> one(1);
    one[0] = {number, first, then, std::move(to)};
    read_all(std::move(one));
  }
  void read_all(std::vector<Read> reads) override {
    for (const Read& one : reads) SLUICE_CHECK(!one.to || one.to->size() == one.first.size);
    reader_->read(remote_, std::move(reads));
  }

 private:
  const std::shared_ptr<shm::MappedReader> reader_;
  const std::shared_ptr<shm::MappedRemote> remote_;
};

class MappedMemory final : public RemoteMemory {
 public:
  MappedMemory(std::shared_ptr<shm::MappedOwner> owner, std::shared_ptr<shm::MappedReader> reader)
      : owner_(std::move(owner)), reader_(std::move(reader)) {}

  Result<Ref<Buffer>> make(std::size_t size) override {
    Result<PageMemory> memory = PageMemory::make(size, PageWriters::owner);
    if (!memory.ok()) return memory.error();
    return Ref<Buffer>(
        new OwnRegion(std::make_shared<shm::MappedRegion>(std::move(*memory)), owner_));
  }

  Result<std::vector<std::byte>> key(const Ref<Buffer>& region) override {
    if (!region || region->keeper() != owner_.get())
      return invalid_argument("the memory is not made to be read by others");
    return encode(owner_->grant(static_cast<const OwnRegion&>(*region).region()));
  }

  Result<std::unique_ptr<RemoteRegion>> reach(std::span<const std::byte> key,
                                              RemoteRegion::Listener& listener) override {
    std::optional<shm::MappedKey> read = shm::decode_key(key);
    if (!read)
      return Error{ErrorCode::corrupt, "the key of memory is none of a process of this computer"};
    return std::unique_ptr<RemoteRegion>(
        std::make_unique<OtherRegion>(reader_, *std::move(read), listener));
  }

 private:
  const std::shared_ptr<shm::MappedOwner> owner_;
  const std::shared_ptr<shm::MappedReader> reader_;
};

}  // namespace

Result<std::unique_ptr<RemoteMemory>> make_mapped_memory(const MappedMemoryOptions& options) {
  // Whether the system has it at all.
  if (Result<PageMemory> any = PageMemory::make(1, PageWriters::owner); !any.ok())
    return any.error();
  auto owner = shm::MappedOwner::make(options);
  if (!owner.ok()) return owner.error();
  const unsigned threads = options.threads != 0 ? options.threads : CopyThreads::threads_here();
  return std::unique_ptr<RemoteMemory>(std::make_unique<MappedMemory>(
      *std::move(owner), std::make_shared<shm::MappedReader>(options, threads)));
}

}  // namespace sluice
