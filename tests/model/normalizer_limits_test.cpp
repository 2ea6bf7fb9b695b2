// A tokenizer's normalizer is taken up to its limits and not beyond, and does what its steps say.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "engine/text/tokenizer_text.h"

using namespace sluice;
using Json = nlohmann::json;

namespace {

Json replace(const std::string& from, const std::string& to) {
  return {{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
}

Json sequence(std::size_t steps, const Json& step) {
  return {{"type", "Sequence"}, {"normalizers", Json::array_t(steps, step)}};
}

/// Empty: it is taken.
std::string problem(const Json& step) {
  const Result<Normalizer> made = Normalizer::parse(step);
  return made.ok() ? "" : made.error().message;
}

}  // namespace

TEST_CASE("a normalizer's texts have at most 4096 bytes, each of them") {
  const std::string most(4096, 'a'), more(4097, 'a');
  const std::string refused = "a normalizer's text is longer than 4096";
  CHECK(problem(replace(most, "b")).empty());
  CHECK(problem(replace("b", most)).empty());
  CHECK(problem(replace(more, "b")) == refused);
  CHECK(problem(replace("b", more)) == refused);
  CHECK(problem({{"type", "Prepend"}, {"prepend", most}}).empty());
  CHECK(problem({{"type", "Prepend"}, {"prepend", more}}) == refused);
  CHECK(problem(replace("", "b")) == "normalizer 'Replace without a String' is not supported");
}

TEST_CASE("normalizers stand 64 in a sequence, and sequences four deep") {
  const Json step = replace("a", "b");
  CHECK(problem(sequence(64, step)).empty());
  CHECK(problem(sequence(65, step)) == "normalizer 'Sequence' is not supported");
  Json deep = step;
  for (int i = 0; i < 4; ++i) deep = sequence(1, deep);
  CHECK(problem(deep).empty());
  CHECK(problem(sequence(1, deep)) == "normalizer 'Sequence' is not supported");
  CHECK(problem(Json()).empty());
  for (const Json& wrong : {Json(3), Json::array(), Json{{"type", 3}}, Json{{"type", "Sequence"}},
                            Json{{"type", "Sequence"}, {"normalizers", 3}}})
    CHECK(problem(wrong).find("is not supported") != std::string::npos);
}

TEST_CASE("steps of a normalizer run in their order") {
  const Json steps = {{"type", "Sequence"},
                      {"normalizers",
                       {{{"type", "Lowercase"}},
                        replace("b", "cc"),
                        replace("c", "d"),
                        {{"type", "Prepend"}, {"prepend", ">"}}}}};
  const Normalizer normalizer = Normalizer::parse(steps).value();
  CHECK(normalizer("aB b") == ">add dd");
  CHECK(Normalizer::parse(replace("aa", "a")).value()("aaaaa") == "aaa");  // what is made stays
  const std::string whole = "\xc3\xa9", apart = "e\xcc\x81", ligature = "\xef\xac\x81";
  const auto by = [](const char* type, const std::string& text) {
    return Normalizer::parse({{"type", type}}).value()(text);
  };
  CHECK(by("NFC", apart) == whole);
  CHECK(by("NFD", whole) == apart);
  CHECK(by("NFKC", apart + ligature) == whole + "fi");
  CHECK(by("NFKD", whole + ligature) == apart + "fi");
  CHECK(by("NFC", ligature) == ligature);
  CHECK(by("NFD", ligature) == ligature);
}
