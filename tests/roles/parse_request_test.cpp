#include "roles/parse_request.h"

#include <catch2/catch.hpp>

#include "base/base64.h"
#include "engine/picture/image_file.h"
#include "tests/roles/fake_activation.h"

namespace sluice {
namespace {

struct Parsed {
  Result<void> result;
  FakeActivation activation;
};

std::unique_ptr<Parsed> parse(const std::string& request) {
  auto parsed = std::make_unique<Parsed>();
  parsed->activation.give("request", make_json(request));
  const Plugin plugin = parse_request_plugin();
  Result<RoleInstance> role = plugin.make({});
  parsed->result = std::get<std::unique_ptr<Role>>(*role)->run(parsed->activation);
  return parsed;
}

std::string image_piece(const std::string& name, const std::string& bytes) {
  return R"({"type":"image","name":")" + name + R"(","data":")" + base64_encode(bytes) + R"("})";
}

std::string pixel_png() {
  return encode_png(std::move(Tensor::zeros(Dtype::u8, {1, 1, 3})).value());
}

TEST_CASE("pieces leave in order and the last one asks for the answer") {
  const auto parsed = parse(R"({"content":[)" + image_piece("a.png", pixel_png()) +
                            R"(,{"type":"text","text":"what"},{"type":"text","text":"is it"}],
      "options":{"max_tokens":7,"temperature":0.25,"seed":9007199254740991,"guidance":3}})");
  REQUIRE(parsed->result.ok());
  const auto& frames = parsed->activation.frames;
  REQUIRE(frames.size() == 3);
  CHECK(frames[0].first == "image");
  CHECK(frames[1].second->text == "what");
  CHECK(frames[1].second->attribute("generate") == 0);
  CHECK(frames[2].first == "text");
  CHECK(frames[2].second->text == "is it");
  CHECK(frames[2].second->attribute("generate") == 1);
  CHECK(frames[2].second->attribute("max_tokens") == 7);
  CHECK(frames[2].second->attribute("temperature_milli") == 250);
  CHECK(frames[2].second->attribute("guidance_milli") == 3000);
  CHECK(frames[2].second->attribute("seed") == 9'007'199'254'740'991);
  CHECK_FALSE(frames[2].second->attribute("top_k").has_value());
}

TEST_CASE("fractions are rounded to thousandths, not cut") {
  const auto parsed = parse(
      R"({"content":[{"type":"text","text":"draw"}],
          "options":{"guidance":2.01,"temperature":0.57,"top_p":0.29,"strength":0.58}})");
  REQUIRE(parsed->result.ok());
  const Payload& last = *parsed->activation.frames.at(0).second;
  CHECK(last.attribute("guidance_milli") == 2010);
  CHECK(last.attribute("temperature_milli") == 570);
  CHECK(last.attribute("top_p_milli") == 290);
  CHECK(last.attribute("strength_milli") == 580);
}

TEST_CASE("each option is taken from its least to its most value, and nothing beyond") {
  struct Row {
    const char *name, *below, *least, *most, *above;
  };
  for (const Row& row : {Row{"max_tokens", "0", "1", "99999", "100000"},
                         {"temperature", "-0.001", "0", "100", "100.001"},
                         {"top_k", "-1", "0", "1000000", "1000001"},
                         {"top_p", "0.0004", "0.001", "1", "1.001"},
                         {"seed", "-1", "0", "9007199254740991", "9007199254740992"},
                         {"steps", "0", "1", "1000", "1001"},
                         {"guidance", "-0.001", "0", "100", "100.001"},
                         {"strength", "0.0004", "0.001", "1", "1.001"}}) {
    CAPTURE(row.name);
    const auto with = [&](const char* value) {
      return parse(R"({"content":[{"type":"text","text":"x"}],"options":{")" +
                   std::string(row.name) + "\":" + value + "}}");
    };
    CHECK(with(row.least)->result.ok());
    CHECK(with(row.most)->result.ok());
    for (const char* beyond : {row.below, row.above}) {
      const auto refused = with(beyond);
      REQUIRE_FALSE(refused->result.ok());
      CHECK(refused->result.error().message.find(row.name) != std::string::npos);
      CHECK(refused->activation.frames.empty());
    }
  }
}

TEST_CASE("a picture at the end is closed by an empty text") {
  const auto parsed = parse(R"({"content":[{"type":"text","text":"look"},)" +
                            image_piece("a.png", pixel_png()) + "]}");
  REQUIRE(parsed->result.ok());
  REQUIRE(parsed->activation.frames.size() == 3);
  CHECK(parsed->activation.frames[1].first == "image");
  // Decoded where whoever reads it may see it.
  REQUIRE(parsed->activation.outputs["image"].size() == 1);
  CHECK(parsed->activation.frames[1].second->tensor.buffer().get() ==
        parsed->activation.outputs["image"][0]);
  CHECK(parsed->activation.frames[2].second->text.empty());
  CHECK(parsed->activation.frames[2].second->attribute("generate") == 1);
}

TEST_CASE("a picture alone is a request, which an empty text closes") {
  const auto parsed = parse(R"({"content":[)" + image_piece("a.png", pixel_png()) +
                            R"(,{"type":"text","text":" "}],"options":{"max_tokens":3}})");
  REQUIRE(parsed->result.ok());
  const auto& frames = parsed->activation.frames;
  REQUIRE(frames.size() == 2);
  CHECK(frames[0].first == "image");
  CHECK(frames[1].first == "text");
  CHECK(frames[1].second->attribute("generate") == 1);
  CHECK(frames[1].second->attribute("max_tokens") == 3);
}

TEST_CASE("a wrong request yields nothing and is refused in words that name the field and limit") {
  struct Row {
    std::string request;
    std::string why;
  };
  const auto options = [](const std::string& text) {
    return R"({"content":[{"type":"text","text":"hi"}],"options":)" + text + "}";
  };
  const auto content = [](const std::string& text) { return R"({"content":)" + text + "}"; };
  std::string many = R"({"type":"text","text":"a"})";
  for (int i = 0; i < 16; ++i) many += R"(,{"type":"text","text":"a"})";
  const std::vector<Row> rows{
      {"", "it is not JSON"},
      {"{", "it is not JSON"},
      {"[]", "must be a JSON object"},
      {R"({"contents":[]})", "did you mean 'content'?"},
      {"{}", "'content' must be a list"},
      {content("[]"), "'content' is empty"},
      {content("\"hi\""), "'content' must be a list"},
      {content("[" + many + "]"), "17 pieces, the limit is 16"},
      {content("[5]"), "content[0] must be an object"},
      {content("[{}]"), "content[0] needs \"type\""},
      {content(R"([{"type":"video"}])"), "type must be text or image, it is \"video\""},
      {content(R"([{"type":"text"}])"), "content[0] needs a string 'text'"},
      {content(R"([{"type":"text","test":"a"}])"), "did you mean 'text'?"},
      {content(R"([{"type":"text","text":" \n"}])"), "the prompt is empty"},
      {content(R"([{"type":"image"}])"), "needs a string 'data'"},
      {content(R"([{"type":"image","data":"!!!!","name":"c.png"}])"), "c.png is not base64"},
      {content(R"([{"type":"image","data":"","name":4}])"), "'name' must be a string"},
      {content("[" + image_piece("cat.gif", "GIF89a") + "]"),
       "cat.gif: not a PNG or JPEG: it is a GIF"},
      {content("[" + image_piece("n.txt", "hello") + "]"),
       "n.txt: not a PNG or JPEG: it is plain text"},
      {options("[]"), "'options' must be an object"},
      {options(R"({"temprature":1})"), "did you mean 'temperature'?"},
      {options(R"({"max_tokens":0})"),
       "'max_tokens' is 0, it must be a whole number from 1 to 99999"},
      {options(R"({"max_tokens":1.5})"), "whole number"},
      {options(R"({"seed":-1})"), "'seed' is -1"},
      {options(R"({"top_p":1.01})"), "'top_p' is 1.01, it must be a number from 0.001 to 1"},
      {options(R"({"steps":"many"})"), "'steps' is \"many\""},
      {options(R"({"strength":0})"), "'strength' is 0"},
      {content(std::string(33, '[') + std::string(33, ']')), "nests 34 deep, the limit is 32"},
      {std::string(1'000'000, '['), "nests 1000000 deep"},
      {std::string((64 << 20) + 1, ' '), "the limit is 67108864"},
      {"{\"" + std::string(1'000, 'k') + "\":1}", "unknown key 'kkkkkk"},
  };
  for (const Row& row : rows) {
    const auto parsed = parse(row.request);
    INFO(row.why);
    REQUIRE_FALSE(parsed->result.ok());
    CHECK(parsed->result.error().message.size() < 300);
    CHECK_THAT(parsed->result.error().message, Catch::Contains(row.why));
    CHECK(parsed->activation.frames.empty());
  }
}

TEST_CASE("base64 gives back every length and refuses what is not base64") {
  for (std::size_t size = 0; size < 20; ++size) {
    std::string bytes;
    for (std::size_t i = 0; i < size; ++i) bytes += static_cast<char>(i * 37 + 200);
    CHECK(base64_decode(base64_encode(bytes)) == bytes);
  }
  CHECK(base64_encode("Man") == "TWFu");
  CHECK(base64_encode("M") == "TQ==");
  for (const char* bad : {"T", "TQ=", "=QQQ", "T===", "TQ=a", "TQ==TQ==", "TW u", "TQ\n="})
    CHECK_FALSE(base64_decode(bad).has_value());
}

}  // namespace
}  // namespace sluice
