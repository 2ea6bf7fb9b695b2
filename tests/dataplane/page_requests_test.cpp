// What processes that share a page table say: any bytes in place of those that were sent, and a
// manager whose answers cannot be.
#include "dataplane/page_requests.h"

#include <catch2/catch.hpp>
#include <functional>
#include <string>

#include "dataplane/page_client.h"

using namespace sluice;
using namespace sluice::attached;

namespace {

using Bytes = std::vector<std::byte>;

std::vector<Request> one_of_each() {
  const PageKey key{{1, 2, 3, 4}};
  return {Ask{{key, key}, 9},
          Open{1, {key}},
          Lease{3, true},
          Take{1, 4, 2},
          Reserve{1, 4, 30, 1},
          Publish{1, 30, {key}},
          Truncate{1, 30, 8, 16, false, true},
          Fork{1, 8, 2},
          Release{2},
          Offer{1, 8, 77},
          Withdraw{77},
          Accept{78, 3},
          Give{1, 8, 79, {std::byte{5}, std::byte{6}}},
          Say{79, {std::byte{7}}},
          Hear{79}};
}

Answer one_of_each_reply() {
  return {{Nothing{}, Admission{1, 2, true}, Pages{{4, 5}, 30, 1}, Room{2, {6}, {{4, 6, 3}}},
           Exhausted{}, Given{{{4, 5}, 7, 1}, 1, {std::byte{8}}}, Heard{{std::byte{9}}}},
          40,
          2};
}

/// Whatever stands there instead is refused, or means something that is written in just this way.
template <typename Decode, typename Encode>
void change_each_byte(const Bytes& bytes, const Decode& decode, const Encode& encoded) {
  int read = 0, refused = 0;
  const auto look = [&](const Bytes& changed) {
    const auto message = decode(changed);
    ++(message.ok() ? read : refused);
    if (message.ok())
      REQUIRE(encoded(*message) == changed);
    else
      REQUIRE(message.error().code == ErrorCode::corrupt);
  };
  REQUIRE(decode(bytes).ok());
  REQUIRE(encoded(*decode(bytes)) == bytes);
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (const int value : {0, 1, 2, 5, 127, 255}) {
      Bytes changed = bytes;
      changed[at] = static_cast<std::byte>(value);
      look(changed);
    }
    Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(at));
    REQUIRE(!decode(cut).ok());
  }
  Bytes longer = bytes;
  longer.push_back(std::byte{0});
  REQUIRE(!decode(longer).ok());
  CHECK(read > 100);
  CHECK(refused > 100);
}

/// A manager that answers with what it is given.
class Says final : public PageManagerPort {
 public:
  Result<Answer> ask(std::span<const Request>) override {
    ++asked;
    return answer;
  }
  Result<void> tell(std::span<const Request>) override { return {}; }
  Answer answer;
  int asked = 0;
};

}  // namespace

TEST_CASE("each byte of a batch or an answer that is changed is refused, or read as it stands") {
  change_each_byte(
      encode(one_of_each()), [](const Bytes& bytes) { return decode_batch(bytes); },
      [](const std::vector<Request>& batch) { return encode(batch); });
  change_each_byte(
      encode(one_of_each_reply()), [](const Bytes& bytes) { return decode_answer(bytes); },
      [](const Answer& answer) { return encode(answer); });
}

TEST_CASE("a count that the message does not hold allocates nothing") {
  Bytes bytes = encode(std::vector<Request>{Open{1, {}}});
  for (std::size_t i = bytes.size() - 4; i < bytes.size(); ++i) bytes[i] = std::byte{0xff};
  CHECK(decode_batch(bytes).error().message == "byte 17: more than the message holds, or may hold");
}

TEST_CASE("a manager whose answer cannot be is asked nothing any more") {
  const auto after = [](const std::vector<Reply>& replies,
                        const std::function<Result<void>(PageClient&, AttachedSequence&)>& what) {
    Says port;
    PageClient client(port, 4, 2);
    port.answer = {{Pages{{7}, 4, 1}}, 9, 1};
    AttachedSequence sequence = client.open({}).value();
    port.answer.replies = replies;
    const Result<void> done = what(client, sequence);
    REQUIRE(!done.ok());
    CHECK(done.error().code == ErrorCode::corrupt);
    const int asked = port.asked;
    CHECK(client.ask({}, 1).error().message == done.error().message);
    CHECK(port.asked == asked);
    CHECK(client.gone().has_value());
    return done.error().message;
  };
  const auto reserve = [](PageClient& client, AttachedSequence& sequence) {
    std::vector<CopyPage> copies;
    return client.reserve(sequence, 8, copies);
  };
  const auto in_the_page = [](PageClient& client, AttachedSequence& sequence) -> Result<void> {
    if (Result<void> cut = client.truncate(sequence, 2); !cut.ok()) return cut;
    std::vector<CopyPage> copies;
    return client.reserve(sequence, 8, copies);
  };
  CHECK(after({}, reserve) == "the pool's process gave 0 replies to one question");
  CHECK(after({Nothing{}}, reserve) == "the pool's process leased other pages than was asked for");
  CHECK(after({Pages{{1}, 0, 0}}, reserve) ==
        "the pool's process leased other pages than was asked for");
  CHECK(after({Nothing{}}, in_the_page) == "the pool's process gave other room than was asked for");
  CHECK(after({Room{1, {1, 2}, {}}}, in_the_page) ==
        "the pool's process gave other room than was asked for");
  CHECK(after({Room{0, {1}, {}}}, in_the_page) ==
        "the pool's process gave other room than was asked for");
  CHECK(after({Admission{}}, [&](PageClient& client, AttachedSequence&) -> Result<void> {
          const auto taken = client.accept(5);
          if (taken.ok()) return {};
          return taken.error();
        }) == "the pool's process gave a reply to another question");
  const auto accept = [](PageClient& client, AttachedSequence&) -> Result<void> {
    const auto taken = client.accept(5);
    if (taken.ok()) return {};
    return taken.error();
  };
  // Fewer pages than rows, more shared ones than there are, or published ones that nobody shares.
  for (const Given& given : {Given{{{1}, 5, 0}, 0, {}}, Given{{{1, 2}, 5, 0}, 3, {}},
                             Given{{{1, 2}, 5, 1}, 0, {}}, Given{{{1, 2}, 3, 1}, 1, {}}})
    CHECK(after({given}, accept) == "the pool's process " +
                                        std::string(given.shared == 1 ? "made" : "gave") +
                                        " a sequence that cannot be");
  CHECK(after({Pages{{1}, 4, 1}}, [](PageClient& client, AttachedSequence&) -> Result<void> {
          const auto heard = client.hear(5);
          if (heard.ok()) return {};
          return heard.error();
        }) == "the pool's process gave a reply to another question");
  CHECK(after({Pages{{1, 2}, 4, 2}}, [](PageClient& client, AttachedSequence& sequence) {
          return client.offer(sequence, 5);
        }) == "the pool's process gave a reply to another question");
  CHECK(after({Pages{{1, 2}, 4, 2}}, [](PageClient& client, AttachedSequence&) -> Result<void> {
          const auto opened = client.open({});
          if (opened.ok()) return {};
          return opened.error();
        }) == "the pool's process made a sequence that cannot be");
}
