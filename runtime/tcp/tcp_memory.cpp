#include "runtime/tcp/tcp_memory.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/own_region.h"
#include "runtime/tcp/tcp_owner.h"
#include "runtime/tcp/tcp_reader.h"

namespace sluice {

namespace {

using OwnRegion = sluice::OwnRegion<tcp::Owner, tcp::Region>;
using Readers = std::vector<std::unique_ptr<tcp::Reader>>;

class OtherRegion final : public RemoteRegion {
 public:
  OtherRegion(std::shared_ptr<Readers> readers, tcp::Key key, unsigned connections,
              Listener& listener)
      : readers_(std::move(readers)),
        remote_(std::make_shared<tcp::Remote>(std::move(key), listener)) {
    for (unsigned i = 0; i < connections; ++i) {
      tcp::Reader& reader = *(*readers_)[i % readers_->size()];
      connections_.push_back({&reader, reader.open(remote_)});
    }
  }
  ~OtherRegion() override {
    remote_->close();
    for (const Connection& one : connections_) one.reader->close(one.number);
  }
  OtherRegion(const OtherRegion&) = delete;
  OtherRegion& operator=(const OtherRegion&) = delete;

  std::uint64_t size() const override { return remote_->key().size; }
  void read(std::uint64_t number, Part first, Part then, Ref<Buffer> to) override {
    SLUICE_CHECK(!to || to->size() == first.size);
    const Connection& one = connections_[next_++ % connections_.size()];
    one.reader->read(one.number, number, {first, then}, std::move(to));
  }
  bool ask(std::uint64_t number, std::span<const std::byte> question) override {
    SLUICE_CHECK(!question.empty() && question.size() <= question_most);
    return std::ranges::any_of(connections_, [&](const Connection& one) {
      return one.reader->ask(one.number, number, question);
    });
  }

 private:
  struct Connection {
    tcp::Reader* reader = nullptr;
    std::uint64_t number = 0;
  };
  const std::shared_ptr<Readers> readers_;
  const std::shared_ptr<tcp::Remote> remote_;
  std::vector<Connection> connections_;
  std::atomic<std::size_t> next_{0};
};

class TcpMemory final : public RemoteMemory {
 public:
  TcpMemory(const TcpMemoryOptions& options, std::shared_ptr<tcp::Owner> owner,
            std::shared_ptr<Readers> readers)
      : options_(options), owner_(std::move(owner)), readers_(std::move(readers)) {}

  Result<Ref<Buffer>> make(std::size_t size) override {
    std::shared_ptr<tcp::Region> region = tcp::Region::make(size);
    if (region == nullptr)
      return Error{ErrorCode::exhausted, "there are no " + std::to_string(size) +
                                             " bytes of memory for pages that others can read"};
    return Ref<Buffer>(new OwnRegion(std::move(region), owner_));
  }

  Result<std::vector<std::byte>> key(const Ref<Buffer>& region) override {
    if (!region || region->keeper() != owner_.get())
      return invalid_argument("the memory is not made to be read by others");
    return encode(owner_->grant(static_cast<const OwnRegion&>(*region).region()));
  }

  void guide(const Ref<Buffer>& region, RegionGuide* guide) override {
    SLUICE_CHECK(region && region->keeper() == owner_.get());
    static_cast<const OwnRegion&>(*region).region()->guide(guide);
  }

  Result<std::unique_ptr<RemoteRegion>> reach(std::span<const std::byte> key,
                                              RemoteRegion::Listener& listener) override {
    std::optional<tcp::Key> read = tcp::decode(key);
    if (!read)
      return Error{ErrorCode::corrupt,
                   "the key of memory is none of a tcp socket, or "
                   "of another version"};
    if (read->is_encrypted != options_.is_encrypted ||
        (!options_.is_encrypted && !tcp::is_loopback(read->owner.host)))
      return Error{ErrorCode::corrupt, "the memory at " + read->owner.host + " is read " +
                                           (read->is_encrypted ? "encrypted" : "in the clear") +
                                           ", which this machine does not"};
    return std::unique_ptr<RemoteRegion>(
        std::make_unique<OtherRegion>(readers_, *std::move(read), options_.connections, listener));
  }
  bool look() override {
    bool awaits = false;
    for (const auto& reader : *readers_) awaits = reader->look() || awaits;
    return awaits;
  }

 private:
  const TcpMemoryOptions options_;
  const std::shared_ptr<tcp::Owner> owner_;
  const std::shared_ptr<Readers> readers_;
};

}  // namespace

Result<std::unique_ptr<RemoteMemory>> make_tcp_memory(const TcpMemoryOptions& given) {
  TcpMemoryOptions options = given;
  if (options.threads == 0)
    options.threads = std::clamp(std::thread::hardware_concurrency() / 4, 1U, 4U);
  if (options.connections == 0) options.connections = options.threads;
  if (!options.is_encrypted && !tcp::is_loopback(options.host))
    return invalid_argument("pages at " + options.host +
                            " are read over a network, and without keys nothing is encrypted");
  auto owner = tcp::Owner::make(options, options.threads);
  if (!owner.ok()) return owner.error();
  const auto landing = std::make_shared<Landing>();
  const auto readers = std::make_shared<Readers>();
  for (unsigned i = 0; i < options.threads; ++i) {
    auto reader = tcp::Reader::make(options, landing);
    if (!reader.ok()) return reader.error();
    readers->push_back(std::move(reader).value());
  }
  return std::unique_ptr<RemoteMemory>(
      std::make_unique<TcpMemory>(options, std::move(owner).value(), readers));
}

}  // namespace sluice
