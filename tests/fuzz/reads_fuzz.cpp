// Reads of memory over TCP with somebody in between who passes on, changes, leaves out, adds and
// repeats bytes of either side, as the input says; and any bytes as a region's key.
//
// Nobody is let in but by the bytes that an honest reader says; an owner says no more than its
// welcome before; what is sent of a region stands in it; each read ends once at most, with what
// stands there where nothing was changed, and always where it is encrypted. The same of questions
// and their answers, of which no more is sent than was made.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "runtime/tcp/tcp_link.h"
#include "runtime/tcp/tcp_serving.h"

using namespace sluice;
using namespace sluice::tcp;

namespace {

using Bytes = std::vector<std::byte>;

/// More than one record has.
constexpr std::size_t region_bytes = std::size_t{256} << 10U;

void require(bool what) {
  if (!what) __builtin_trap();
}

/// The input, in turn; zeros and nothing behind its end.
class Input {
 public:
  explicit Input(std::span<const std::byte> left) : left_(left) {}
  bool is_over() const { return left_.empty(); }
  std::span<const std::byte> bytes(std::size_t most) {
    const auto part = left_.first(std::min(most, left_.size()));
    left_ = left_.subspan(part.size());
    return part;
  }
  std::uint64_t number(std::size_t size) {
    std::uint64_t value = 0;
    for (const std::byte byte : bytes(size)) value = value << 8U | static_cast<std::uint64_t>(byte);
    return value;
  }

 private:
  std::span<const std::byte> left_;
};

/// As the question's first byte says: nothing, too much, or the question and more.
struct Guide final : RegionGuide {
  std::size_t made = 0;  // bytes, with their lengths
  void answer(std::span<const std::byte> question, std::vector<std::byte>& answer) override {
    require(!question.empty() && question.size() <= RemoteRegion::question_most);
    made += length_bytes;
    const Bytes said = answer_to(question);
    answer.insert(answer.end(), said.begin(), said.end());
    if (said.size() <= RemoteRegion::answer_most) made += said.size();
  }
  static Bytes answer_to(std::span<const std::byte> question) {
    const auto first = std::to_integer<std::size_t>(question[0]);
    if (first % 8 == 0) return {};
    Bytes said(question.begin(), question.end());
    said.resize(first == 255 ? RemoteRegion::answer_most + 1 : said.size() + first * 1000,
                question.back());
    return said;
  }
};

struct World {
  Grants grants;
  std::shared_ptr<Region> region = Region::make(region_bytes);
  Grants::Made made;
  std::shared_ptr<Landing> landing = std::make_shared<Landing>();

  World() {
    for (std::size_t at = 0; at < region_bytes; ++at)
      region->data()[at] = static_cast<std::byte>(at * 31 + at / 251);
    made = grants.make(region);
  }
};

World& world() {
  static World one;
  return one;
}

/// Both ends of one connection, and what is between them.
class Conversation {
 public:
  explicit Conversation(bool is_encrypted)
      : is_encrypted_(is_encrypted),
        link_(Key{{"127.0.0.1", 9},
                  world().made.number,
                  region_bytes,
                  is_encrypted,
                  world().made.secret},
              nonce_of(1), world().landing),
        serving_(world().grants, is_encrypted, nonce_of(2)) {
    world().region->guide(&guide_);
  }
  ~Conversation() { world().region->guide(nullptr); }
  Conversation(const Conversation&) = delete;
  Conversation& operator=(const Conversation&) = delete;

  void move(Input& input) {
    const std::uint64_t what = input.number(1);
    const bool is_to_owner = (what & 1U) == 0;
    Bytes& on_way = is_to_owner ? to_owner_ : to_reader_;
    switch (what / 2 % 6) {
      case 0:
        return is_to_owner ? ask(input) : ask_owner(input);
      case 1:
        say();
        return is_to_owner ? give_owner(input.number(2)) : give_reader(input.number(3));
      case 2: {  // one that comes next is changed
        const std::size_t at = input.number(2);
        const std::byte by{static_cast<std::uint8_t>(input.number(1))};
        if (at >= on_way.size() || by == std::byte{}) return;
        on_way[at] ^= by;
        break;
      }
      case 3: {  // so many are left out
        const std::size_t size = std::min<std::size_t>(input.number(2), on_way.size());
        if (size == 0) return;
        on_way.erase(on_way.begin(), on_way.begin() + static_cast<std::ptrdiff_t>(size));
        break;
      }
      case 4: {  // others come first
        const auto added = input.bytes(input.number(1));
        if (added.empty()) return;
        on_way.insert(on_way.begin(), added.begin(), added.end());
        break;
      }
      default: {  // what was heard is said again
        const Bytes& heard = is_to_owner ? heard_by_owner_ : heard_by_reader_;
        const std::size_t at = std::min<std::size_t>(input.number(2), heard.size());
        const std::size_t size = std::min<std::size_t>(input.number(2), heard.size() - at);
        if (size == 0) return;
        on_way.insert(on_way.begin(), heard.begin() + static_cast<std::ptrdiff_t>(at),
                      heard.begin() + static_cast<std::ptrdiff_t>(at + size));
      }
    }
    is_changed_ = true;
  }
  /// All that is on the way comes, until nothing moves.
  void end() {
    for (int turn = 0; turn < 64; ++turn) {
      say();
      if (to_owner_.empty() && to_reader_.empty()) break;
      const std::size_t before = to_owner_.size() + to_reader_.size();
      give_owner(to_owner_.size());
      give_reader(to_reader_.size());
      if (is_over_ && link_.is_broken() && before == to_owner_.size() + to_reader_.size()) break;
    }
    if (!is_changed_) require(ended_.size() == asked_.size() && !link_.is_broken() && !is_over_);
    const std::size_t unended = link_.unended().size();
    require(unended == link_.asked() && unended + ended_.size() == asked_.size());
    link_.give_up();
    require(link_.asked() == 0 && link_.room().empty() && link_.to_send().empty());
  }

 private:
  struct Asked {
    Request request;
    Ref<Buffer> to;  // null: it has no place
    Bytes question = {};
  };
  static Nonce nonce_of(std::uint8_t first) {
    Nonce nonce{};
    nonce[0] = std::byte{first};
    return nonce;
  }
  void ask(Input& input) {
    if (asked_.size() == 300 || link_.is_broken()) return;
    const auto part = [&]() -> RemoteRegion::Part {
      const std::uint64_t offset = input.number(3) % region_bytes;
      return {offset, static_cast<std::size_t>(input.number(2) % (region_bytes - offset + 1))};
    };
    const Request request{part(), part()};
    if (request.first.size + request.then.size == 0) return;
    const std::uint64_t number = asked_.size() + 1;
    const Ref<Buffer> to = number % 2 == 0 ? Buffer::zeros(request.first.size) : Ref<Buffer>();
    asked_.emplace(number, Asked{request, to});
    link_.ask(number, request, to);
  }
  void ask_owner(Input& input) {
    const std::size_t size = input.number(2) % RemoteRegion::question_most + 1;
    if (asked_.size() == 300 || !link_.rests()) return;
    const auto some = input.bytes(size);
    Bytes question(some.begin(), some.end());
    question.resize(size, std::byte{5});
    const std::uint64_t number = asked_.size() + 1;
    link_.ask_owner(number, question);
    require(!link_.rests());
    asked_.emplace(number, Asked{{}, {}, std::move(question)});
  }
  /// Either side says what it has to, with a bound on what is on the way.
  void say() {
    while (to_owner_.size() < region_bytes) {
      const auto said = link_.to_send();
      if (said.empty()) break;
      require(!link_.is_broken());
      to_owner_.insert(to_owner_.end(), said.begin(), said.end());
      said_.insert(said_.end(), said.begin(), said.end());
      link_.sent(said.size());
    }
    while (!is_over_ && serving_.owes() && to_reader_.size() < 2 * region_bytes) say_as_owner();
  }
  void say_as_owner() {
    Serving::Pieces pieces{};
    const std::size_t count = serving_.pieces(pieces);
    require(count > 0 && count <= pieces.size());
    std::size_t size = 0;
    const std::byte* const first = world().region->data();
    for (const auto piece : std::span(pieces).first(count)) {
      require(!piece.empty());
      const bool stands_there =
          piece.data() >= first && piece.data() + piece.size() <= first + region_bytes;
      if (serving_.is_proven() && !is_encrypted_ && said_by_owner_ >= welcome_bytes)
        require(stands_there || (answered_ += piece.size()) <= guide_.made);
      to_reader_.insert(to_reader_.end(), piece.begin(), piece.end());
      size += piece.size();
    }
    serving_.sent(size);
    said_by_owner_ += size;
    if (!serving_.is_proven()) require(said_by_owner_ <= welcome_bytes);
  }
  void give_owner(std::size_t most) {
    std::size_t given = 0;
    while (given < std::min(most, to_owner_.size()) && !is_over_) {
      const std::span<std::byte> room = serving_.room();
      require(room.size() <= question_frame_most);
      if (room.empty()) break;
      const auto part = std::span(to_owner_).subspan(
          given, std::min({room.size(), most - given, to_owner_.size() - given}));
      std::ranges::copy(part, room.begin());
      heard_by_owner_.insert(heard_by_owner_.end(), part.begin(), part.end());
      is_over_ = !serving_.took(part.size());
      given += part.size();
    }
    if (is_over_) given = to_owner_.size();
    to_owner_.erase(to_owner_.begin(), to_owner_.begin() + static_cast<std::ptrdiff_t>(given));
    constexpr std::size_t shown = hello_bytes + proof_bytes;
    if (serving_.is_proven())
      require(heard_by_owner_.size() >= shown && said_.size() >= shown &&
              std::equal(said_.begin(), said_.begin() + shown, heard_by_owner_.begin()));
  }
  void give_reader(std::size_t most) {
    std::size_t given = 0;
    while (given < std::min(most, to_reader_.size()) && !link_.is_broken()) {
      Link::Rooms rooms{};
      const std::size_t count = link_.rooms(rooms);
      require(count > 0);
      const auto left =
          std::span(to_reader_).subspan(given, std::min(most, to_reader_.size()) - given);
      std::size_t filled = 0;
      for (std::size_t i = 0; i < count && filled < left.size(); ++i) {
        require(!rooms[i].empty());
        const std::size_t size = std::min(rooms[i].size(), left.size() - filled);
        std::ranges::copy(left.subspan(filled, size), rooms[i].begin());
        filled += size;
      }
      const auto part = left.first(filled);
      if (heard_by_reader_.size() < region_bytes)
        heard_by_reader_.insert(heard_by_reader_.end(), part.begin(), part.end());
      link_.took(part.size());
      given += part.size();
      for (const Link::Ended& one : link_.take_ended()) hear(one);
    }
    if (link_.is_broken()) given = to_reader_.size();
    to_reader_.erase(to_reader_.begin(), to_reader_.begin() + static_cast<std::ptrdiff_t>(given));
  }
  void hear(const Link::Ended& one) {
    require(asked_.contains(one.number) && ended_.insert(one.number).second);
    const auto& [request, to, question] = asked_.at(one.number);
    require(one.is_answer == !question.empty());
    if (one.is_answer) return hear_answer(one.bytes, question);
    require(static_cast<bool>(one.bytes));
    const std::size_t unplaced = to ? 0 : request.first.size;
    require(one.bytes->size() == unplaced + request.then.size);
    require(!to || to->references() == 1);  // nobody writes there any more
    if (is_changed_ && !is_encrypted_) return;
    const std::byte* const from = world().region->data();
    const std::byte* const came = one.bytes->data();
    require(std::memcmp((to ? to : one.bytes)->data(), from + request.first.offset,
                        request.first.size) == 0);
    require(std::memcmp(came + unplaced, from + request.then.offset, request.then.size) == 0);
  }

  void hear_answer(const Ref<Buffer>& bytes, const Bytes& question) {
    require(!bytes || (bytes->size() > 0 && bytes->size() <= RemoteRegion::answer_most));
    if (is_changed_ && !is_encrypted_) return;
    Bytes made = Guide::answer_to(question);
    if (made.size() > RemoteRegion::answer_most) made.clear();
    require(made.empty() ? !bytes
                         : bytes && bytes->size() == made.size() &&
                               std::memcmp(bytes->data(), made.data(), made.size()) == 0);
  }

  const bool is_encrypted_;
  Guide guide_;
  Link link_;
  Serving serving_;
  bool is_over_ = false;     // the owner has ended it
  bool is_changed_ = false;  // somebody in between did something
  Bytes to_owner_, to_reader_, said_, heard_by_owner_, heard_by_reader_;
  std::size_t said_by_owner_ = 0, answered_ = 0;
  std::map<std::uint64_t, Asked> asked_;
  std::set<std::uint64_t> ended_;
};

void take_key(std::span<const std::byte> bytes) {
  const std::optional<Key> key = decode(bytes);
  if (key) {
    require(std::ranges::equal(encode(*key), bytes));
    require(key->owner.port != 0 && key->owner.host.find('\0') == std::string::npos);
  }
  const std::optional<Hello> hello = decode_hello(bytes);
  if (hello) require(std::ranges::equal(encode(*hello), bytes));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // First what it is: a key, or a connection in the clear or encrypted; then steps.
  Input input(std::as_bytes(std::span(data, size)));
  const std::uint64_t what = input.number(1) % 4;
  if (what == 0) {
    take_key(input.bytes(size));
    return 0;
  }
  Conversation conversation(what >= 2);
  for (int step = 0; step < 400 && !input.is_over(); ++step) conversation.move(input);
  conversation.end();
  return 0;
}
