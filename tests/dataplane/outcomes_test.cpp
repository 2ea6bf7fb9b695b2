// Messages about pages, and lines of a trace: every place changed, and what is said of each.
#include "tests/outcomes.h"

#include <catch2/catch.hpp>

#include "dataplane/trace.h"
#include "tests/dataplane/message_words.h"

namespace sluice {
namespace {

std::string read(const pages::Bytes& bytes) { return text_of(bytes); }

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
  const pages::Bytes content(3);
  const pages::Bytes page =
      pages::encode(pages::PageContent{{8, 2, 3, {{1, 2, 3, 4}}, 5, 3, 6}, content});
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
    const pages::Bytes large(size);
    outcomes.add(
        "a page's bytes",
        read(pages::encode(pages::PageContent{{8, 2, 3, {{1, 2, 3, 4}}, 5, size, 6}, large})));
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
