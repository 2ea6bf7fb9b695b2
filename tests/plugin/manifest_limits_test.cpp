// Every limit of a manifest is where it is said to be: the most is taken, one more is refused, and
// what is refused is left out.
#include <functional>

#include "workflows/load_manifest.h"
#include "world.h"

using namespace sluice;

namespace {

/// A manifest whose parts can be replaced.
struct Parts {
  std::string meaning = "a role", inputs = "x: { type: text }", outputs = "y: { type: text }";
  std::string interfaces, frames, yields = "1", options, params;

  std::string text() const {
    const std::string one = "{ inputs: { " + inputs + " }, outputs: { " + outputs +
                            " }, yields_max: " + yields +
                            (frames.empty() ? "" : ", frames: " + frames) + " }";
    return "sluice_role: 1\nname: good\nmeaning: \"" + meaning +
           "\"\nabi: 1.0\nkind: plain\ninterfaces:\n  say: " + one + "\n" + interfaces +
           "options: { " + options + " }\n" + (params.empty() ? "" : "params: " + params + "\n");
  }
};

/// What is wrong with it, all lines; empty: nothing.
std::string problems(const Parts& parts) {
  std::string text;
  for (const Diagnostic& d : load_manifest(parts.text()).diagnostics) text += d.message + "\n";
  return text;
}

/// `count` times something numbered, with commas between.
std::string many(std::size_t count, const std::function<std::string(const std::string&)>& one) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += (i == 0 ? "" : ", ") + one(std::to_string(i));
  return text;
}

std::string port(const std::string& i) { return "f" + i + ": { type: text }"; }

}  // namespace

TEST_CASE("a manifest may have sixty-four of each thing, and not sixty-five") {
  using Fill = std::function<void(Parts&, std::size_t)>;
  const std::vector<std::pair<std::string, Fill>> rows{
      {"fields a side", [](Parts& p, std::size_t n) { p.inputs = many(n, port); }},
      {"fields a side", [](Parts& p, std::size_t n) { p.outputs = many(n, port); }},
      {"interfaces",
       [](Parts& p, std::size_t n) {
         for (std::size_t i = 1; i < n; ++i)
           p.interfaces += "  i" + std::to_string(i) +
                           ": { inputs: { x: { type: text } }, outputs: { y: { type: text } } }\n";
       }},
      {"options",
       [](Parts& p, std::size_t n) {
         p.options = many(n, [](const std::string& i) {
           return "o" + i + ": { type: text, most: 5, default: a }";
         });
       }},
      {"choices",
       [](Parts& p, std::size_t n) {
         p.options = "o: { type: choice, choices: [" +
                     many(n, [](const std::string& i) { return "c" + i; }) + "] }";
       }},
      {"kinds of frames",
       [](Parts& p, std::size_t n) {
         p.frames = "[" + many(n, [](const std::string&) { return std::string("[y]"); }) + "]";
       }},
      {"kinds of global parameters",
       [](Parts& p, std::size_t n) {
         p.params = "[" + many(n, [](const std::string& i) { return "kind" + i; }) + "]";
       }},
  };
  for (const auto& [what, fill] : rows) {
    Parts most, more;
    fill(most, 64);
    fill(more, 65);
    INFO(what);
    CHECK(problems(most).empty());
    CHECK(problems(more).find("a plugin has at most 64 " + what + ", here are 65\n") !=
          std::string::npos);
  }
  // A frame has at most as many fields as the interface has outputs, so it never has 64 more.
  Parts frame;
  frame.outputs = many(64, port);
  frame.frames = "[[" + many(64, [](const std::string& i) { return "f" + i; }) + "]]";
  CHECK(problems(frame).empty());
  frame.frames.insert(2, "f0, ");
  CHECK(problems(frame).find("at most 64 fields a frame, here are 65") != std::string::npos);
}

TEST_CASE("too many things of a manifest are left out, not read") {
  Parts more;
  more.inputs = many(65, port);
  const LoadedManifest loaded = load_manifest(more.text());
  REQUIRE(loaded.manifest.declaration.interfaces.size() == 1);
  CHECK(loaded.manifest.declaration.interfaces[0].inputs.empty());
}

TEST_CASE("a manifest's texts and numbers are taken up to their limits") {
  const auto refused = [](const Parts& parts, const std::string& words) {
    INFO(parts.text());
    CHECK(problems(parts).find(words) != std::string::npos);
  };
  Parts words;
  words.meaning.assign(200, 'a');
  CHECK(problems(words).empty());
  words.meaning += 'a';
  refused(words, "it must be one line of at most 200 bytes");
  for (const char* bad : {"a\\x1Fb", "a\\x7Fb", "a\\nb"}) {
    words.meaning = bad;
    refused(words, "it must be one line");
  }
  words.meaning = "a\\x20b ~";  // the first and the last that can be printed
  CHECK(problems(words).empty());
  const auto option = [](const std::string& of) {
    Parts parts;
    parts.options = "o: { " + of + " }";
    return parts;
  };
  // Of whole numbers what a double holds exactly, of a text as many bytes as a manifest may have.
  CHECK(problems(option("type: whole, least: -9007199254740992, most: 9007199254740992")).empty());
  refused(option("type: whole, least: -9007199254740993, most: 9"), "least");
  refused(option("type: whole, least: 1, most: 9007199254740993"), "most");
  CHECK(problems(option("type: whole, least: 3, most: 3")).empty());
  refused(option("type: whole, least: 3, most: 2"), "most");
  const std::string bytes = std::to_string(manifest_bytes_max);
  CHECK(problems(option("type: text, least: 0, most: " + bytes)).empty());
  refused(option("type: text, most: " + std::to_string(manifest_bytes_max + 1)), "most");
  refused(option("type: text, least: -1, most: 9"), "least");
  CHECK(problems(option("type: real, least: -1e300, most: 1e300")).empty());
  CHECK(problems(option("type: real, least: 0.5, most: 0.5")).empty());
  refused(option("type: real, least: 0.5, most: 0.4"), "most is below least");
  for (const char* bad : {"-2e300", "2e300", "nan", "inf", "1x", "[]"})
    refused(option("type: real, least: " + std::string(bad) + ", most: 1"),
            "least must be a number");
  Parts parts;
  parts.yields = "1000000000";
  CHECK(problems(parts).empty());
  parts.yields = "1000000001";
  refused(parts, "yields_max");
}

TEST_CASE("a manifest's port is what it says") {
  const auto output = [](const std::string& of) {
    Parts parts;
    parts.outputs = "y: { " + of + " }";
    return parts;
  };
  const std::string size = "1099511627776";
  CHECK(problems(output("type: bytes, bytes_max: " + size)).empty());
  CHECK_FALSE(problems(output("type: bytes, bytes_max: 1099511627777")).empty());
  CHECK_FALSE(problems(output("type: bytes, bytes_max: 0")).empty());
  CHECK(problems(output("type: tensor, shape: [0, any, " + size + "]")).empty());
  CHECK_FALSE(problems(output("type: tensor, shape: [1099511627777]")).empty());
  const auto of_rank = [&](std::size_t rank) {
    return output("type: tensor, shape: [" +
                  many(rank, [](const std::string&) { return std::string("1"); }) + "]");
  };
  CHECK(problems(of_rank(Tensor::rank_max)).empty());
  CHECK(problems(of_rank(Tensor::rank_max + 1)).find("a shape has 1 to ") != std::string::npos);
  CHECK(problems(of_rank(0)).find(", this has 0") != std::string::npos);
  CHECK(problems(output("type: text, frames: one")).find("frames is for inputs") !=
        std::string::npos);
  const auto input = [](const std::string& of) {
    Parts parts;
    parts.inputs = "x: { " + of + " }";
    return parts;
  };
  CHECK_FALSE(problems(input("type: text, frames: two")).empty());
  for (const auto& [name, frames] : {std::pair{"any", PortFrames::any},
                                     {"at_most_one", PortFrames::at_most_one},
                                     {"one", PortFrames::one}}) {
    const auto loaded = load_manifest(input("type: text, frames: " + std::string(name)).text());
    CHECK(loaded.manifest.declaration.interfaces.at(0).inputs.at(0).frames == frames);
  }
  CHECK(problems(output("type: text, dtype: f32")).find("is for tensor and audio only") !=
        std::string::npos);
  const std::vector<std::pair<std::string, ValueType>> types{
      {"json", ValueType::json},   {"text", ValueType::text},     {"image", ValueType::image},
      {"audio", ValueType::audio}, {"tensor", ValueType::tensor}, {"number", ValueType::number},
      {"bytes", ValueType::bytes}};
  for (const auto& [name, type] : types) {
    const auto loaded = load_manifest(output("type: " + name + ", count_source: true").text());
    const Port& made = loaded.manifest.declaration.interfaces.at(0).outputs.at(0);
    CHECK(made.type == type);
    CHECK(made.count_source);
    CHECK_FALSE(made.dtype.has_value());
  }
  const std::vector<std::pair<std::string, Dtype>> dtypes{{"u8", Dtype::u8},
                                                          {"i32", Dtype::i32},
                                                          {"i64", Dtype::i64},
                                                          {"f32", Dtype::f32},
                                                          {"bf16", Dtype::bf16}};
  for (const auto& [name, dtype] : dtypes)
    for (const std::string type : {"tensor", "audio"}) {
      const auto loaded =
          load_manifest(output("type: " + type + ", shape: [any, 0], dtype: " + name).text());
      const Port& made = loaded.manifest.declaration.interfaces.at(0).outputs.at(0);
      CHECK(made.dtype == dtype);
      CHECK(made.shape == std::vector<std::int64_t>{any_size, 0});
    }
}

TEST_CASE("options of a manifest keep what is said of them") {
  Parts parts;
  parts.options =
      "w: { type: whole, least: -3, most: 7, default: 5, meaning: how many }, "
      "r: { type: real, least: -0.5, most: 2.5 }, t: { type: text, least: 1, most: 4 }, "
      "c: { type: choice, choices: [low, high], default: high }";
  REQUIRE(problems(parts).empty());
  const LoadedManifest loaded = load_manifest(parts.text());
  const auto& options = loaded.manifest.declaration.options;
  REQUIRE(options.size() == 4);
  CHECK(options[0].type == OptionType::whole);
  CHECK(options[0].least == -3);
  CHECK(options[0].most == 7);
  CHECK(options[0].fallback == "5");
  CHECK_FALSE(options[0].required);
  CHECK(options[0].meaning == "how many");
  CHECK(options[1].type == OptionType::real);
  CHECK(options[1].real_least == -0.5);
  CHECK(options[1].real_most == 2.5);
  CHECK(options[1].required);
  CHECK(options[2].type == OptionType::text);
  CHECK(options[2].least == 1);
  CHECK(options[2].most == 4);
  CHECK(options[3].choices == std::vector<std::string>{"low", "high"});
  CHECK_FALSE(loaded.manifest.declaration.session_state);
  parts.params = "[paged_kv]";
  CHECK(load_manifest(parts.text()).manifest.declaration.session_state);
}
