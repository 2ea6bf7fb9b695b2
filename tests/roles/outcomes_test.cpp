// Requests and .npy files: every place changed, and what is made of each.
#include "tests/outcomes.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>

#include "base/crc32c.h"
#include "roles/npy_file.h"
#include "roles/parse_request.h"
#include "tests/directories.h"
#include "tests/roles/fake_activation.h"

namespace sluice {
namespace {

std::string parse(const std::string& request) {
  FakeActivation activation;
  activation.give("request", make_json(request));
  const Plugin plugin = parse_request_plugin();
  Result<RoleInstance> role = plugin.make({});
  const Result<void> done = std::get<std::unique_ptr<Role>>(*role)->run(activation);
  std::string text = done.ok() ? "" : done.error().message;
  for (const auto& [field, value] : activation.frames) {
    text += (text.empty() ? "" : "; ") + field + " '" + value->text + "'";
    for (const auto& [name, number] : value->attributes)
      text += " " + name + "=" + std::to_string(number);
  }
  return text;
}

TEST_CASE("each place of a request that is changed is refused or parsed, as before") {
  test::Outcomes outcomes("requests");
  outcomes.change_text("a text with options", R"({"content":
[{"type": "text", "text": "what"},
{"type": "text", "text": "is it"}],
"options":
{"max_tokens": 7, "temperature": 0.25, "top_k": 3,
"top_p": 0.5, "seed": 9007199254740991,
"steps": 1000, "guidance": 3, "strength": 1}})",
                       parse);
  outcomes.change_text(
      "a picture", R"({"content": [{"type": "image", "name": "a.png", "data": "AAAA"}]})", parse);
  for (const char* text :
       {"", "{}", "[]", "{\"content\": {}}", "{\"content\": []}", "{\"content\": [{}]}",
        "{\"content\": [{\"type\": \"text\", \"text\": \" \\n\"}]}",
        R"({"content": [{"type": "image", "data": "AAA"}]})",
        R"({"content": [{"type": "image", "data": 1}]})",
        R"({"content": [{"type": "image", "name": 1, "data": ""}]})",
        R"({"content": [{"type": "text", "text": "x"}], "option": {}})",
        R"({"content": [{"type": "text", "text": "x"}], "options": []})",
        R"({"content": [{"type": "text", "text": "x"}], "options": {"max_token": 1}})",
        R"({"content": [{"type": "text", "text": "x"}], "options": {"nothing like it": 1}})"})
    outcomes.add("requests", parse(text));
  for (const std::size_t size : {60U, 61U})
    for (const char* last : {"z", "\u00e4"})
      outcomes.add("words that are shown",
                   parse(R"({"content": [], ")" + std::string(size - 1, 'z') + last + "\": 1}"));
  for (const std::size_t pieces : {16U, 17U}) {
    std::string text;
    for (std::size_t i = 0; i < pieces; ++i)
      text += (i == 0 ? "" : ",") + std::string(R"({"type":"text","text":"x"})");
    outcomes.add("pieces", parse(R"({"content":[)" + text + "]}"));
  }
  for (const std::size_t depth : {31U, 32U, 33U})
    outcomes.add("depths", parse(std::string(depth, '[') + std::string(depth, ']')));
  outcomes.add("depths", parse(R"({"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"[": 1})"));
  outcomes.require_as_kept();
}

TEST_CASE("each place of a .npy file that is changed is refused or read, as before") {
  test::Outcomes outcomes("npy_files");
  for (const char* name : {"version2"}) {
    const std::string path =
        std::string(SLUICE_SOURCE_DIR) + "/tests/fuzz/corpus/npy/" + name + ".npy";
    std::ifstream file(path, std::ios::binary);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    REQUIRE_FALSE(text.empty());
    const auto all = std::as_bytes(std::span(text));
    outcomes.change_bytes(name, {all.begin(), all.end()}, [](const test::Outcomes::Bytes& bytes) {
      const Result<Tensor> tensor =
          decode_npy({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
      if (tensor.ok()) return tensor->describe();
      std::string words;
      for (const char c : tensor.error().message) words += c >= ' ' && c <= '~' ? c : '?';
      return words;
    });
  }
  outcomes.require_as_kept();
}

}  // namespace
}  // namespace sluice
