// Messages about pages, and lines of a trace: every place changed, and what is said of each.
#include "tests/outcomes.h"

#include <catch2/catch.hpp>

#include "dataplane/page_messages.h"
#include "dataplane/trace.h"

namespace sluice {
namespace {

std::string keys_text(const std::vector<PageKey>& keys) {
  std::string text;
  for (const PageKey& key : keys)
    for (const std::uint64_t word : key.words) text += " " + std::to_string(word);
  return text;
}

std::string text_of(const pages::Message& message) {
  using namespace pages;
  std::string text = "kind " + std::to_string(message.index());
  if (const auto* hello = std::get_if<Hello>(&message))
    text += " " + std::to_string(hello->incarnation) + " " + std::to_string(hello->page_bytes) +
            " " + std::to_string(hello->layout[0]) + " " + std::to_string(hello->layout[31]) +
            " " + std::to_string(hello->nonce[0]) + " " + std::to_string(hello->nonce[15]);
  if (const auto* proof = std::get_if<Proof>(&message)) text += keys_text({proof->mac});
  if (const auto* find = std::get_if<Find>(&message))
    text += " " + std::to_string(find->id) + keys_text(find->keys);
  if (const auto* ask = std::get_if<Ask>(&message))
    text += " " + std::to_string(ask->id) + keys_text(ask->keys);
  if (const auto* found = std::get_if<Found>(&message))
    text += " " + std::to_string(found->id) + " " + std::to_string(found->pages) + " " +
            std::to_string(found->receipt);
  if (const auto* page = std::get_if<PageContent>(&message)) {
    const PageHead& head = page->head;
    text += " " + std::to_string(head.id) + " " + std::to_string(head.incarnation) + " " +
            std::to_string(head.generation) + keys_text({head.key}) + " " +
            std::to_string(head.index) + " " + std::to_string(head.length) + " " +
            std::to_string(head.crc32c) + ", " + std::to_string(page->content.size()) + " bytes";
  }
  if (const auto* end = std::get_if<End>(&message))
    text += " " + std::to_string(end->id) + " " + std::to_string(end->pages) + " " +
            std::to_string(static_cast<int>(end->status)) + " " + std::to_string(end->receipt);
  if (const auto* took = std::get_if<Took>(&message)) text += " " + std::to_string(took->receipt);
  if (const auto* note = std::get_if<Note>(&message))
    text += " " + std::to_string(note->id) + ", " + std::to_string(note->text.size()) + " bytes";
  if (const auto* noted = std::get_if<Noted>(&message))
    text += " " + std::to_string(noted->id) + " " + std::to_string(noted->receipt);
  return text;
}

std::string read(const pages::Bytes& bytes) {
  const auto message = pages::decode(bytes);
  return message.has_value() ? text_of(*message) : "no message";
}

TEST_CASE("each place of a message about pages that is changed is refused or read, as before") {
  test::Outcomes outcomes("page_messages");
  pages::Hello hello;
  hello.layout.fill(1);
  hello.nonce.fill(9);
  hello.incarnation = 2;
  hello.page_bytes = 4096;
  outcomes.change_bytes("hello", pages::encode(hello), read);
  outcomes.change_bytes("find", pages::encode(pages::Find{1, {PageKey{{1, 2, 3, 4}}}}), read);
  outcomes.change_bytes("found", pages::encode(pages::Found{2, 17, 18}), read);
  outcomes.change_bytes("proof", pages::encode(pages::Proof{{{1, 2, 3, 4}}}), read);
  outcomes.change_bytes("ask", pages::encode(pages::Ask{3, {PageKey{{1, 2, 3, 4}}}}), read);
  outcomes.change_bytes("end", pages::encode(pages::End{4, 2, pages::End::Status::busy, 19}), read);
  outcomes.change_bytes("took", pages::encode(pages::Took{5}), read);
  outcomes.change_bytes("note", pages::encode(pages::Note{6, pages::Bytes(3)}), read);
  outcomes.change_bytes("noted", pages::encode(pages::Noted{7, 20}), read);
  pages::Bytes page = pages::page_message(3);
  pages::write_page_head({8, 2, 3, {{1, 2, 3, 4}}, 5, 3, 6}, page);
  outcomes.change_bytes("page", page, read);
  for (const std::size_t keys : {pages::keys_most, pages::keys_most + 1}) {
    pages::Bytes bytes = pages::encode(pages::Find{1, std::vector<PageKey>(pages::keys_most)});
    bytes[16] = static_cast<std::byte>(keys);
    bytes[17] = static_cast<std::byte>(keys >> 8U);
    bytes.resize(20 + 32 * keys);
    outcomes.add("keys", std::to_string(keys) + ": " + read(bytes).substr(0, 12));
  }
  for (const std::size_t size : {pages::note_bytes_most, pages::note_bytes_most + 1}) {
    pages::Bytes bytes = pages::encode(pages::Note{6, {}});
    bytes.resize(16 + size);
    outcomes.add("a note's bytes", read(bytes));
  }
  for (const std::uint32_t size : {pages::page_bytes_most, pages::page_bytes_most + 1}) {
    pages::Bytes bytes = pages::page_message(size);
    pages::write_page_head({8, 2, 3, {{1, 2, 3, 4}}, 5, size, 6}, bytes);
    outcomes.add("a page's bytes", read(bytes));
    hello.page_bytes = size;
    outcomes.add("pages of a hello", read(pages::encode(hello)));
  }
  outcomes.require_as_kept();
}

TEST_CASE("each place of a line of a trace that is changed is refused or read, as before") {
  test::Outcomes outcomes("trace_lines");
  const auto read_line = [](const std::string& line) {
    const Result<TraceRequest> request = parse_trace_line(line);
    if (!request.ok()) return request.error().message;
    std::string text = std::to_string(request->timestamp_ms) + " ms:";
    for (const std::uint64_t block : request->blocks) text += " " + std::to_string(block);
    return text;
  };
  outcomes.change_text("a line",
                       R"({"timestamp": 27.5, "length": {"in": [1, 2], "out": {}}, )"
                       R"("hash_ids": [4, 18446744073709551615], "x": [true, "a\"b"]})",
                       read_line);
  const std::string line = R"({ "timestamp":7,"hash_ids":[1 ,2],"o":{"a":[null]} })";
  for (std::size_t at = 0; at < line.size(); ++at) {
    outcomes.add("letters left out", read_line(line.substr(0, at) + line.substr(at + 1)));
    outcomes.add("letters twice", read_line(line.substr(0, at + 1) + line.substr(at)));
    outcomes.add("parts", read_line(line.substr(0, at)));
  }
  for (const char* time : {"1e15", "1.1e15", "-0.5", "1e400", "0.999", "nan", "inf"})
    outcomes.add("times", read_line(std::string(R"({"hash_ids":[],"timestamp":)") + time + "}"));
  for (const int depth : {32, 33, 34}) {
    const auto times = static_cast<std::size_t>(depth);
    outcomes.add("depths", read_line(R"({"hash_ids":[],"timestamp":1,"x":)" +
                                     std::string(times, '[') + std::string(times, ']') + "}"));
  }
  outcomes.require_as_kept();
}

}  // namespace
}  // namespace sluice
