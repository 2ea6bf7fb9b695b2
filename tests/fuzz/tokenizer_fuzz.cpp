// Any bytes as a tokenizer.json: refused, or it encodes any text and decodes any ids.
#include <cstdint>
#include <string>

#include "engine/text/tokenizer.h"

using namespace sluice;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string json(reinterpret_cast<const char*>(data), size);
  const Result<Tokenizer> made = Tokenizer::parse(json, "fuzz");
  if (!made.ok()) {
    if (made.error().message.empty()) __builtin_trap();
    return 0;
  }
  for (const std::string& text :
       {json.substr(0, 200),
        std::string("The robot's  gripper \xe4\xbd\xa0\xf0\x9f\x99\x82 12\n")}) {
    std::vector<std::int32_t> ids = made->encode(text, true);
    // An added token or a template may make a few tokens of nothing, merges never more than bytes.
    if (ids.size() > 64 * (text.size() + 64)) __builtin_trap();
    ids.push_back(-1);
    ids.push_back(1 << 30);
    (void)made->decode(ids);
    (void)made->decode(ids, true);
  }
  return 0;
}
