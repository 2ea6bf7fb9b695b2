#include "runtime/shm/attachment.h"

#include <algorithm>
#include <utility>

namespace sluice::shm {

namespace {

constexpr int packets_a_turn = 64;

}  // namespace

/// Bytes of the owner, until the last reader has gone.
class Attachment::Borrowed final : public Buffer {
 public:
  Borrowed(std::shared_ptr<Attachment> of, const std::byte* at, std::size_t size,
           const wire::Handle& handle)
      : Buffer(const_cast<std::byte*>(at), size, of.get()), of_(std::move(of)), handle_(handle) {
    show();  // it is mapped to be read
  }

 private:
  void end() override {
    of_->give_back(handle_);
    delete this;
  }

  const std::shared_ptr<Attachment> of_;
  const wire::Handle handle_;
};

Result<std::shared_ptr<Attachment>> Attachment::make(Origin self, Origin owner,
                                                     const std::string& path,
                                                     std::shared_ptr<const Bell> bell) {
  Result<OwnedFile> socket = connect_to(path);
  if (!socket) return socket.error();
  auto made = std::make_shared<Attachment>(owner, std::move(*socket), std::move(bell));
  made->waiting_.push_back(write_word(Greeting{self, owner}));
  made->flush();
  return made;
}

bool Attachment::hear(std::string& why) {
  const bool stays = hear_packets(why);
  if (!stays) over_.store(true);
  return stays;
}

bool Attachment::hear_packets(std::string& why) {
  for (int i = 0; i < packets_a_turn; ++i) {
    Packet packet = receive_packet(socket_);
    if (packet.kind == Packet::Kind::none) return true;
    if (packet.kind == Packet::Kind::ended) return false;
    const Result<void> taken = packet.kind == Packet::Kind::wrong
                                   ? Result<void>(Error{ErrorCode::corrupt, packet.why})
                                   : take(packet);
    if (taken.ok()) continue;
    why = taken.error().message;
    const std::lock_guard lock(mutex_);
    waiting_.push_back(write_word(Declined{why}));
    send_waiting();
    return false;
  }
  return true;
}

Result<void> Attachment::take(Packet& packet) {
  const auto wrong = [](std::string what) { return Error{ErrorCode::corrupt, std::move(what)}; };
  if (const Declined* no = std::get_if<Declined>(&packet.word))
    return wrong("its owner declined: " + no->why);
  const Offer* const offer = std::get_if<Offer>(&packet.word);
  if (offer == nullptr) return wrong("a word that only a reader says");
  const std::lock_guard lock(mutex_);
  if (offer->slab != slabs_.size() || slabs_.size() == slabs_max)
    return wrong("slab " + std::to_string(offer->slab) + " is not the next");
  Result<std::unique_ptr<SlabView>> view = SlabView::map(packet.descriptor);
  if (!view) return view.error();
  slabs_.push_back(std::move(*view));
  waiting_.push_back(write_word(Mapped{offer->slab}));
  send_waiting();
  return {};
}

Result<Ref<Buffer>> Attachment::borrow(const wire::Handle& handle, std::size_t size) {
  const SlabView* view = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (handle.slab >= slabs_.size())
      return Error{ErrorCode::corrupt,
                   "slab " + std::to_string(handle.slab) + ", which it has not shown"};
    view = slabs_[handle.slab].get();
  }
  const Result<const std::byte*> at = view->find(handle, size);
  if (!at) return at.error();
  return Ref<Buffer>(new Borrowed(shared_from_this(), *at, size, handle));
}

void Attachment::give_back(const wire::Handle& handle) {
  const std::lock_guard lock(mutex_);
  back_.push_back(handle);
  send_waiting();
  if (!back_.empty()) bell_->ring();
}

void Attachment::send_waiting() {
  // Whoever is gone needs nothing back, so only `later` is waited for.
  std::size_t sent = 0;
  while (sent < waiting_.size() && send_packet(socket_, waiting_[sent]) != Sent::later) ++sent;
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(sent));
  while (waiting_.empty() && !back_.empty()) {
    const auto end =
        back_.begin() + static_cast<std::ptrdiff_t>(std::min(back_.size(), handles_max));
    if (send_word(socket_, Back{{back_.begin(), end}}) == Sent::later) return;
    back_.erase(back_.begin(), end);
  }
}

void Attachment::flush() {
  const std::lock_guard lock(mutex_);
  send_waiting();
}

bool Attachment::waits() const {
  const std::lock_guard lock(mutex_);
  return !waiting_.empty() || !back_.empty();
}

}  // namespace sluice::shm
