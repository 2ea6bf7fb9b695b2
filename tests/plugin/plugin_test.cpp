// Roles in shared objects, good and bad: what goes wrong is an error of its call, or of the start,
// that names node, role and field; the program goes on.
#include <elf.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <span>
#include <thread>

#include "plugin/elf_size.h"
#include "world.h"

using namespace sluice;

namespace {

const std::string troubling = R"(
sluice: 1
workflow: test
inputs: { text: text }
roles: { actor: { plugin: trouble } }
nodes:
  act: { run: actor.act, inputs: [ { text: inputs.text } ] }
outputs: { words: act.word, pictures: act.picture, grids: act.grid }
)";

CallRequest request(const std::string& deed) { return {.inputs = {{"text", make_text(deed)}}}; }

CallRequest count_to(std::int64_t upto, const std::string& note, const std::string& session = "s") {
  return {.session = session, .inputs = {{"upto", make_number(upto)}, {"note", make_text(note)}}};
}

const std::string broken_manifest =
    "sluice_role: 1\nname: broken\nabi: 1.0\nkind: plain\n"
    "interfaces: { say: { inputs: { x: { type: text } }, outputs: { y: { type: text } } } }\n";

const std::string breaking = R"(
sluice: 1
workflow: test
inputs: { x: text }
roles: { one: { plugin: broken } }
nodes: { say: { run: one.say, inputs: [ { x: inputs.x } ] } }
outputs: { y: say.y }
)";

std::string whole_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::uint64_t bytes_needed(const std::string& begin) {
  return elf_bytes_needed(std::as_bytes(std::span(begin)));
}

}  // namespace

TEST_CASE("what a plugin does wrong in a call is an error of that call, and the next goes well") {
  World world(built_plugins(), troubling);
  const std::string role = "act: the role 'actor' ";
  const std::vector<std::pair<std::string, std::string>> rows{
      {"well", "ok"},
      {"good grid", "ok"},
      {"throw", "act: the plugin threw: a tantrum"},
      {"throw a number", "act: the plugin threw: something that is no std::exception"},
      {"fail", "act: no?? way"},
      {"fail oddly", "act: odd (code 77)"},
      {"fail silently", "act: the role failed and gave no reason"},
      {"fail at length", "act: " + std::string(1024, 'a')},
      {"field", role + "yielded the undeclared field 'nowhere'"},
      {"type", role + "yielded number in 'word', which is declared as text"},
      {"unknown type", role + "yielded a value of the unknown type 99 in 'word'"},
      {"dtype", role + "yielded i32[3, 2] in 'grid', which is declared as f32[?, 2]"},
      {"unknown dtype", role + "yielded a tensor of the unknown dtype 9 in 'grid'"},
      {"shape", role + "yielded f32[3, 3] in 'grid', which is declared as f32[?, 2]"},
      {"rank", role + "yielded a tensor of 9 dimensions, or without its shape in 'grid'"},
      {"negative", role + "yielded a tensor with the size -3 in dimension 0 in 'grid'"},
      {"overflow",
       role + "yielded a tensor with the size 4611686018427387904 in dimension 0 in 'grid'"},
      {"data size", role + "yielded a tensor of 1152921504606846976 bytes, its shape has 24, or "
                           "without its bytes in 'grid'"},
      {"no grid data",
       role + "yielded a tensor of 24 bytes, its shape has 24, or without its bytes in 'grid'"},
      {"no rows", "ok"},
      {"huge", role + "yielded a text of 18446744073709551615 bytes, or without its bytes in "
                      "'word'"},
      {"no data", role + "yielded a text of 5 bytes, or without its bytes in 'word'"},
      {"not text", role + "yielded a text that is not UTF-8 in 'word'"},
      {"long", role + "yielded 41 bytes in 'word', at most 40 are declared"},
      {"three", role + "yielded frame 3 of 'word', it declares at most 2 (yields_max)"},
      {"handle", role + "yielded a handle that is not the host's in 'word'"},
      {"small value", role + "yielded no value of ABI 1.0 in 'word'"},
      {"no value", role + "yielded no value of ABI 1.0 in 'word'"},
      {"no name", role + "yielded a field without a readable name"},
      {"many fields", role + "yielded a frame of 1099511627776 fields, at most 64 are allowed"},
      {"read", role + "read the field 'secret', which it does not declare"},
      {"retire", role + "retired an activation, but is plain"},
      {"stale", "ok"},
      {"tensor", "ok"},
  };
  for (const auto& [deed, says] : rows) {
    INFO(deed);
    const Answer answer = world.call(request(deed));
    CHECK(answer.error() == says);
    if (deed == "good grid") CHECK(answer.outputs == std::vector<std::string>{"f32[3, 2]"});
    // SLUICE_STALE and cancelled, for an activation that has ended.
    if (deed == "stale") CHECK(answer.outputs == std::vector<std::string>{"6 1"});
    if (deed == "tensor") CHECK(answer.outputs == std::vector<std::string>{"11111"});
    CHECK(world.call(request("well")).outputs == std::vector<std::string>{"well"});
  }
}

TEST_CASE("a plugin sees a tensor's bytes and all of its sizes") {
  World world(built_plugins(), R"(
sluice: 1
workflow: test
inputs: { text: text }
roles: { actor: { plugin: trouble } }
nodes:
  act: { run: actor.act, inputs: [ { text: inputs.text } ] }
  look: { run: actor.look, inputs: [ { grid: act.grid } ] }
outputs: { words: look.word }
)");
  CHECK(world.call(request("good grid")).outputs == std::vector<std::string>{"24 bytes: 3 2"});
}

TEST_CASE("a plugin that never looks at cancellation is given up, and named") {
  int pipe_ends[2];
  REQUIRE(::pipe(pipe_ends) == 0);
  {
    World world(built_plugins(), troubling);
    CallRequest waiting = request("wait " + std::to_string(pipe_ends[0]));
    waiting.deadline = std::chrono::seconds(1);  // time to begin
    const Answer answer = world.call(std::move(waiting));
    CHECK(answer.outcome.error.code == ErrorCode::deadline);
    CHECK(answer.error().find("act") != std::string::npos);
    CHECK(world.runner->counts().given_up == 1);
    REQUIRE(::write(pipe_ends[1], "x", 1) == 1);  // now it returns, and the runner can end
  }
  ::close(pipe_ends[0]);
  ::close(pipe_ends[1]);
}

TEST_CASE("an instance that cannot be made refuses the start, with the role's name") {
  const auto with = [](const std::string& how) {
    std::string text = troubling;
    const std::string role = "plugin: trouble";
    text.replace(text.find(role), role.size(), role + ", options: { create: " + how + " }");
    return World(built_plugins(), text).refused;
  };
  CHECK(with("well") == "");
  CHECK(with("badly") == "role 'actor': out of stock");
  CHECK(with("throw") == "role 'actor': the plugin threw: no start");
}

TEST_CASE("a plugin is told on how many threads it may compute") {
  RunnerOptions options;
  options.threads = 3;
  World world(built_plugins(), troubling, true, options);
  CHECK(world.call(request("threads")).outputs == std::vector<std::string>{"3"});
}

TEST_CASE("a shared object that is not what its manifest says is refused before it is called") {
  const std::string manifest = broken_manifest;
  const std::vector<std::pair<std::string, std::string>> rows{
      {"nothing", ""},
      {"symbol", "it has no symbol 'sluice_plugin_entry', so it is no plugin of Sluice"},
      {"major",
       "it was built for plugin ABI 2.1, this program plays 1.1: build it with this "
       "program's headers"},
      {"minor", "it was built for plugin ABI 1.9, this program plays 1.1: it needs a newer sluice"},
      {"size", "its table has 16 bytes, ABI 1.0 has"},
      {"empty", "its sluice_plugin_entry returned nothing"},
      {"name", "it says that its name is 'brokem', the manifest says 'broken'"},
      {"kind",
       "it was built with another manifest than the one beside it: kind is plain in the "
       "manifest, stepped in it"},
      {"run", "it has no function 'run', which a plain role needs"},
      {"text", "it holds no readable declaration"},
      {"yaml", "the declaration in it is wrong"}};
  for (const auto& [name, says] : rows) {
    INFO(name);
    const Folder folder;
    folder.write("broken.role.yaml", manifest);
    std::filesystem::copy_file(built_plugins() + "/broken_" + name + ".so",
                               folder.path / "libbroken.so");
    World world(folder.str(), breaking);
    CHECK(world.problems == "");
    CHECK(world.diagnostics() == "");
    CHECK(world.refused.find(says) != std::string::npos);
    CHECK((name == "nothing") == world.refused.empty());
    if (world.refused.empty()) {
      const Answer answer = world.call({.inputs = {{"x", make_text("as it is")}}});
      CHECK(answer.outputs == std::vector<std::string>{"as it is"});
    }
  }
}

TEST_CASE("a shared object that is cut off is refused before it is loaded, which would end us") {
  const std::string code = whole_file(built_plugins() + "/broken_nothing.so");
  const std::uint64_t needed = bytes_needed(code);
  REQUIRE(needed > 5'000);
  REQUIRE(needed <= code.size());
  for (const std::uint64_t size :
       {std::uint64_t{10}, std::uint64_t{63}, std::uint64_t{64}, std::uint64_t{100},
        std::uint64_t{4'096}, needed / 2, needed - 1}) {
    INFO(size);
    const Folder folder;
    folder.write("broken.role.yaml", broken_manifest);
    folder.write("broken.so", code.substr(0, size));
    CHECK(World(folder.str(), breaking)
              .refused.find("broken.so: it cannot be loaded: it is cut off (its headers need " +
                            std::to_string(size < 64 ? 64 : needed) + " bytes, it has " +
                            std::to_string(size) + "); build it or copy it anew") !=
          std::string::npos);
  }
}

TEST_CASE("the bytes that a shared object needs are those of its tables and of what is loaded") {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_shentsize = sizeof(Elf64_Shdr);
  Elf64_Phdr segment{};
  const auto needs = [&] {
    std::string bytes(sizeof header + sizeof segment, '\0');
    std::memcpy(bytes.data(), &header, sizeof header);
    std::memcpy(bytes.data() + sizeof header, &segment, sizeof segment);
    return bytes_needed(bytes);
  };
  CHECK(needs() == 64);
  header.e_phoff = header.e_shoff = 1'000;  // of no entries
  CHECK(needs() == 64);
  header.e_shnum = 3;
  CHECK(needs() == 1'000 + 3 * 64);
  header.e_phnum = 5;  // none of them can be seen
  CHECK(needs() == 1'000 + 5 * 56);
  header.e_phoff = 64;
  header.e_phnum = 1;
  segment.p_offset = 2'000;
  segment.p_filesz = 500;
  CHECK(needs() == 1'000 + 3 * 64);  // of a kind that is not loaded
  segment.p_type = PT_LOAD;
  CHECK(needs() == 2'500);
  segment.p_filesz = 0;  // zeros, which no file holds
  CHECK(needs() == 1'000 + 3 * 64);
  segment.p_filesz = UINT64_MAX;
  CHECK(needs() == UINT64_MAX);
  header.e_phoff = UINT64_MAX - 10;
  CHECK(needs() == UINT64_MAX);
  for (const int place : {EI_MAG3, EI_CLASS, EI_DATA}) {
    ++header.e_ident[place];
    CHECK(needs() == 0);
    --header.e_ident[place];
  }
  const std::string begin(reinterpret_cast<const char*>(&header), sizeof header);
  CHECK(bytes_needed("") == 0);
  CHECK(bytes_needed(begin.substr(0, 5)) == 0);
  CHECK(bytes_needed(begin.substr(0, 6)) == 64);
  CHECK(bytes_needed("no code at all, and no shared object") == 0);
}

TEST_CASE("a stepped role's table lacks none of its functions") {
  std::string manifest = broken_manifest;
  const std::string kind = "kind: plain";
  manifest.replace(manifest.find(kind), kind.size(), "kind: stepped");
  for (const auto& [name, lacks] : {std::pair("kind", "admit"), std::pair("step", "step")}) {
    const Folder folder;
    folder.write("broken.role.yaml", manifest);
    std::filesystem::copy_file(built_plugins() + "/broken_" + name + ".so",
                               folder.path / "broken.so");
    CHECK(World(folder.str(), breaking)
              .refused.find("it has no function '" + std::string(lacks) +
                            "', which a stepped role needs") != std::string::npos);
  }
}

TEST_CASE("the code is looked for in the folder alone, by name, and not where anybody may write") {
  const Folder folder;
  folder.write("broken.role.yaml", broken_manifest);
  const auto refused = [&] { return World(folder.str(), breaking).refused; };
  CHECK(refused().find("plugin 'broken': neither broken.so nor libbroken.so is in ") !=
        std::string::npos);
  folder.write("broken.so", "no code at all");
  CHECK(refused().find("broken.so: it cannot be loaded: ") != std::string::npos);
  folder.write("libbroken.so", "");
  CHECK(refused().find("both broken.so and libbroken.so are in ") != std::string::npos);
  std::filesystem::remove(folder.path / "libbroken.so");
  namespace fs = std::filesystem;
  const auto refuses_open = [&](const fs::path& open) {
    fs::permissions(open, fs::perms::others_write, fs::perm_options::add);
    CHECK(refused().find(open.string() + ": anybody may write it, so its code is not run") !=
          std::string::npos);
    fs::permissions(open, fs::perms::others_write, fs::perm_options::remove);
  };
  refuses_open(folder.path / "broken.so");
  refuses_open(folder.path);
  // Where a link leads counts as much: file and folder there.
  const Folder elsewhere;
  fs::rename(folder.path / "broken.so", elsewhere.path / "code.so");
  fs::create_symlink(elsewhere.path / "code.so", folder.path / "broken.so");
  for (const fs::path& open : {elsewhere.path / "code.so", elsewhere.path, folder.path})
    refuses_open(open);
  CHECK(refused().find((elsewhere.path / "code.so").string() + ": it cannot be loaded: ") !=
        std::string::npos);
}

TEST_CASE("a stepped plugin with options and a parameter advances calls together") {
  World world(built_plugins(), counting);
  const Answer first = world.call(count_to(4, "a note"));
  CHECK(first.error() == "ok");
  CHECK(first.outputs == std::vector<std::string>{"and 3 of 1", "and 4 of 2", "f32[4]", "a note"});
  CHECK(world.call(count_to(3, "")).outputs[0] == "and 3 of 3");
  CHECK(world.call(count_to(3, "", "another")).outputs[0] == "and 3 of 1");
  REQUIRE(world.runner->end_session("s").ok());
  CHECK(world.call(count_to(3, "")).outputs[0] == "and 3 of 1");
}

TEST_CASE("the role of the guide does what it says, and hands its input on") {
  World world(built_plugins(), R"(
sluice: 1
workflow: test
inputs: { x: text }
roles: { guide: { plugin: guide, options: { times: 2 } } }
nodes: { say: { run: guide.say, inputs: [ { text: inputs.x } ] } }
outputs: { y: say.word }
)");
  CHECK(world.call({.inputs = {{"x", make_text("ho")}}}).outputs ==
        std::vector<std::string>{"ho", "ho"});
  CHECK(world.call({.inputs = {{"x", make_text("")}}}).error() == "say: there is nothing to say");
}

TEST_CASE("a stepped plugin that refuses or throws fails what it holds, and goes on") {
  World world(built_plugins(), counting);
  CHECK(world.call(count_to(-1, "")).error() == "count: it cannot count to that");
  CHECK(world.call(count_to(3, "throw")).error() == "count: the role threw: the crowd ran away");
  // It holds the ended one still and throws again for its sake, though the host gives it no note:
  // what it says of it is refused, and the next is counted.
  CHECK(world.call(count_to(3, "")).outputs[0] == "and 3 of 1");
}

TEST_CASE("parallel calls of a stepped plugin each get their own numbers") {
  World world(built_plugins(), counting);
  constexpr int callers = 4;
  std::vector<std::string> last(callers);
  std::vector<std::thread> threads;
  for (int i = 0; i < callers; ++i)
    threads.emplace_back([&, i] {
      (void)world.runner->call(count_to(200 + i, "", "s" + std::to_string(i)),
                               [&](std::string_view output, const PayloadRef& value) {
                                 if (output == "said")
                                   last[static_cast<std::size_t>(i)] = value->text;
                               });
    });
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < callers; ++i)
    CHECK(last[static_cast<std::size_t>(i)] ==
          "and " + std::to_string(200 + i) + " of " + std::to_string(198 + i));
}

TEST_CASE("a workflow's mistakes about a plugin are found without its code, at their place") {
  const Folder folder;
  std::filesystem::copy_file(built_plugins() + "/crowd.role.yaml", folder.path / "crowd.role.yaml");
  const World world(folder.str(), R"(sluice: 1
workflow: test
inputs: { upto: text, note: text }
global_params: { tally: { kind: tally } }
roles:
  crowd: { plugin: crowd, global_params: [tally], balance: session, options: { gain: 2, fro: 1 } }
  other: { plugin: crowds }
nodes:
  count: { run: crowd.count, inputs: [ { upto: inputs.upto, note: inputs.note } ] }
  again: { run: crowd.recount, inputs: [ { upto: inputs.upto } ] }
outputs: { said: count.sad }
)");
  CHECK(world.diagnostics() ==
        "6:3 missing-option: role 'crowd' runs 'crowd', which needs the option 'from'\n"
        "6:86 bad-option: gain is '2', it must be a number from -1 to 1\n"
        "6:89 unknown-option: 'crowd' has no option 'fro'\n"
        "7:20 unknown-plugin: role 'other' wants the plugin 'crowds', which is not there\n"
        "9:48 wrong-type: 'inputs.upto' brings text, the input 'upto' of 'count' takes number\n"
        "10:17 unknown-interface: 'crowd' has no interface 'recount'\n"
        "11:18 unknown-field: node 'count' has no output 'sad'\n");
}

TEST_CASE("ports of different dtype or shape are not connected") {
  const Folder folder;
  folder.write("maker.role.yaml", R"(sluice_role: 1
name: maker
abi: 1.0
kind: plain
interfaces:
  make:
    inputs: { x: { type: text } }
    outputs: { g: { type: tensor, dtype: f32, shape: [any, 7] } }
  take:
    inputs: { g: { type: tensor, dtype: f32, shape: [3, any] } }
    outputs: { x: { type: text } }
  six:  { inputs: { g: { type: tensor, shape: [any, 6] } }, outputs: { x: { type: text } } }
  bf:   { inputs: { g: { type: tensor, dtype: bf16 } }, outputs: { x: { type: text } } }
)");
  const World world(folder.str(), R"(sluice: 1
workflow: test
inputs: { x: text }
roles: { m: { plugin: maker } }
nodes:
  make: { run: m.make, inputs: [ { x: inputs.x } ] }
  take: { run: m.take, inputs: [ { g: make.g } ] }
  six: { run: m.six, inputs: [ { g: make.g } ] }
  bf: { run: m.bf, inputs: [ { g: make.g } ] }
outputs: { a: take.x, b: six.x, c: bf.x }
)",
                    false);
  CHECK(world.problems == "");
  CHECK(world.diagnostics() ==
        "8:37 wrong-shape: 'make.g' brings f32[?, 7], the input 'g' of 'six' takes any[?, 6]\n"
        "9:35 wrong-shape: 'make.g' brings f32[?, 7], the input 'g' of 'bf' takes bf16[...]\n");
}
