// Manifests are read as untrusted: what is wrong is said at its place, and nothing else is read.
#include "workflows/load_manifest.h"
#include "world.h"

using namespace sluice;

namespace {

const std::string good = R"(sluice_role: 1
name: good
meaning: a role
abi: 1.0
kind: plain
interfaces:
  say:
    inputs: { x: { type: text } }
    outputs: { y: { type: tensor, dtype: f32, shape: [any, 2] } }
options:
  n: { type: whole, least: 1, most: 9, default: 3 }
)";

std::string with(std::string from, std::string to) {
  std::string text = good;
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string first_problem(const std::string& text) {
  const LoadedManifest loaded = load_manifest(text);
  if (loaded.diagnostics.empty()) return "";
  const Diagnostic& d = loaded.diagnostics.front();
  return std::to_string(d.mark.line) + ":" + std::to_string(d.mark.column) + " " + d.message;
}

}  // namespace

TEST_CASE("each mistake of a manifest is found at its place") {
  const std::vector<std::pair<std::string, std::string>> rows{
      {good, ""},
      {with("sluice_role: 1", "sluice_role: 2"),
       "1:14 sluice_role, the version of this format, is '2', it must be 1"},
      {with("most: 9", "most: nine"),
       "11:37 most is 'nine', it must be a whole number from 1 to "
       "9007199254740992"},
      {with("type: whole, least: 1, most: 9", "type: choice, choices: left"),
       "11:31 choices must be a list, this is a single value"},
      {with("sluice_role: 1\n", ""), "1:1 the manifest needs 'sluice_role'"},
      {with("name: good", "name: ../good"), "2:7 '../good' cannot be a plugin's name"},
      {with("meaning: a role", "meaning: \"a\\nrole\""),
       "3:10 meaning is 'a\nrole', it must be one line of at most 200 bytes"},
      {with("abi: 1.0", "abi: one"), "4:6 abi must be a version, as 1.0"},
      {with("kind: plain", "kind: plan"), "5:7 kind cannot be 'plan' (plain, stepped)"},
      {with("kind: plain", "king: plain"), "5:1 unknown key 'king' in the manifest"},
      {with("type: text", "type: texts"),
       "8:26 type cannot be 'texts' (json, text, image, audio, tensor, number, bytes)"},
      {with("type: text", "type: text, dtype: f32"), "8:39 dtype is for tensor and audio only"},
      {with("dtype: f32", "dtype: f16"), "9:42 dtype cannot be 'f16' (u8, i32, i64, f32, bf16)"},
      {with("[any, 2]", "[any, -2]"),
       "9:60 a size ('any', or a number) is '-2', it must be a whole number from 0 to "
       "1099511627776"},
      {with("[any, 2]", "[1,1,1,1,1,1,1,1,1]"), "9:54 a shape has 1 to 8 sizes, this has 9"},
      {with("    inputs: { x: { type: text } }\n", ""),
       "7:3 interface 'say' needs inputs and outputs"},
      {with("default: 3", "default: 30"),
       "11:49 the default: n is '30', it must be a whole number from 1 to 9"},
      {with("least: 1, ", ""), "11:3 option 'n' needs 'least' and 'most'"},
      {with("type: whole, ", ""), "11:3 option 'n' needs a 'type'"},
      {with("type: whole", "type: choice"), "11:3 option 'n' needs 'choices'"},
      {with("most: 9", "most: 9, choices: [1, 2]"),
       "11:49 'choices' is for an option of the type choice only"},
      {with("type: whole, least: 1", "type: choice, choices: [3, 9]"),
       "11:45 'most' is not for a choice, which has 'choices'"},
      {with("type: whole, least: 1, most: 9", "type: choice, choices: [3, 3]"),
       "11:35 '3' stands twice in the choices"},
      {with("options:", "    frames: [[y, y]]\noptions:"), "10:18 'y' stands twice in a frame"},
      {good + "params: [memory, memory]\n", "12:18 'memory' stands twice in params"},
      {good + "params: [Bad]\n", "12:10 'Bad' cannot be a kind of global parameter"},
      {with("meaning: a role", "meaning: &a role"), "3:10 anchors are not allowed"},
      {std::string(manifest_bytes_max + 1, ' '),
       "1:1 the manifest has 65537 bytes, at most 65536 are read"}};
  for (const auto& [text, says] : rows) CHECK(first_problem(text) == says);
}

TEST_CASE("what two manifests declare differently is named; what things mean is not compared") {
  const auto differs = [](const std::string& other) {
    return difference(load_manifest(good).manifest, "A", load_manifest(other).manifest, "B");
  };
  CHECK(differs(good) == "");
  CHECK(differs(with("meaning: a role", "meaning: another")) == "");
  CHECK(differs(with("kind: plain", "kind: stepped")) == "kind is plain in A, stepped in B");
  CHECK(differs(with("[any, 2]", "[any, 3]")) ==
        "interfaces.say.outputs.y.shape is f32[?, 2] in A, f32[?, 3] in B");
  CHECK(differs(with("x: {", "z: {")) == "interfaces.say.inputs.x is there in A, not there in B");
  CHECK(differs(with("most: 9", "most: 8")) ==
        "options.n is a whole number from 1 to 9 in A, a whole number from 1 to 8 in B");
  CHECK(differs(with("default: 3", "default: 4")) == "options.n.default is '3' in A, '4' in B");
  const std::string frames = with("2] } }\n", "2] } }\n    frames: [[]]\n");
  CHECK(differs(frames) == "interfaces.say.frames is none in A, [ ] in B");
  CHECK(difference(load_manifest(frames).manifest, "A", load_manifest(good).manifest, "B") ==
        "interfaces.say.frames is [ ] in A, none in B");
  const auto text = [](const std::string& more) {
    return with("type: whole, least: 1, most: 9, default: 3", "type: text, most: 9" + more);
  };
  CHECK(difference(load_manifest(text("")).manifest, "A",
                   load_manifest(text(", default: not there")).manifest,
                   "B") == "options.n.default is not there in A, 'not there' in B");
}

TEST_CASE("a folder's manifests must be its files', this ABI's, and nobody else's name") {
  const auto problem = [](const std::string& file, const std::string& text) {
    const Folder folder;
    folder.write(file, text);
    Catalog catalog;
    Plugin taken;
    taken.declaration.name = "taken";
    catalog.add(std::move(taken));
    const std::string all = add_plugins(catalog, folder.str());
    CHECK((catalog.find("good") != nullptr) == all.empty());
    return all.substr(0, all.find('\n'));
  };
  CHECK(problem("good.role.yaml", good) == "");
  CHECK(problem("bad.role.yaml", good)
            .find("bad.role.yaml:2:7: error: the manifest names 'good', its file 'bad'") !=
        std::string::npos);
  CHECK(problem("good.role.yaml", with("abi: 1.0", "abi: 2.0"))
            .find("good.role.yaml:4:6: error: the plugin wants plugin ABI 2.0, this program plays "
                  "1.1") != std::string::npos);
  CHECK(problem("taken.role.yaml", with("name: good", "name: taken"))
            .find("taken.role.yaml:2:7: error: there is a plugin 'taken' already") !=
        std::string::npos);
  CHECK(problem("good.yaml", good).find("no plugin in it (a file NAME.role.yaml") !=
        std::string::npos);
  const std::string large = problem("good.role.yaml", std::string(manifest_bytes_max + 1, ' '));
  CHECK(large.ends_with("/good.role.yaml: the file has 65537 bytes, the limit is 65536"));
  CHECK(large.find("good.role.yaml") == large.rfind("good.role.yaml"));
  Catalog catalog;
  CHECK(add_plugins(catalog, "/nowhere") == "error: /nowhere: no such folder (--plugins)\n");
  const Folder one, other;
  for (const Folder* folder : {&one, &other}) folder->write("good.role.yaml", good);
  CHECK(add_plugins(catalog, one.str()) == "");
  CHECK(add_plugins(catalog, other.str()).find("`sluice roles --plugins DIR` those of a folder") !=
        std::string::npos);
}

TEST_CASE("a manifest beside a program's own plugins is told the place of what is there already") {
  Catalog catalog;
  Plugin taken;
  taken.declaration.name = "taken";
  catalog.add(std::move(taken));
  catalog.add_global_param("tally", [](const GlobalParamMaking&) {
    return Result<std::unique_ptr<GlobalParam>>(invalid_argument("never made"));
  });
  const auto problems = [&](const std::string& file, const std::string& text) {
    LoadedManifest loaded = load_manifest(text);
    check_manifest_place(catalog, file, loaded);
    std::string all;
    for (const Diagnostic& d : loaded.diagnostics)
      all +=
          std::to_string(d.mark.line) + ":" + std::to_string(d.mark.column) + " " + d.code + "\n";
    return all;
  };
  CHECK(problems("good.role.yaml", good) == "");
  CHECK(problems("a/b/good.role.yaml", good) == "");
  CHECK(problems("other.yaml", good) == "");  // of no plugin's folder
  CHECK(problems("a/good/other.role.yaml", good) == "2:7 wrong-name\n");
  CHECK(problems("taken.role.yaml", with("name: good", "name: taken")) == "2:7 same-name\n");
  CHECK(problems("good.role.yaml", good + "params: [strip, tally]\n") == "12:17 same-kind\n");
  CHECK(problems("other.role.yaml", with("kind: plain", "kind: round")) == "5:7 bad-choice\n");
}
