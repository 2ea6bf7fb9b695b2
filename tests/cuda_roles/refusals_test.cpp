// What a `paged_kv` with `device: cuda` refuses, before anything runs: each says what, where and
// what to do.
#include <catch2/catch.hpp>
#include <optional>
#include <tuple>

#include "tests/cuda_roles/watched_texts.h"
#include "tests/directories.h"
#include "tests/peer_hub.h"
#include "tests/roles/chat_world.h"
#ifdef SLUICE_EMULATED_TESTS
#include "kernels/cuda/emulation.h"
#endif

#include "graph/check.h"
#include "runtime/runner.h"
#include "workflows/load.h"

using namespace sluice;

namespace {

const std::string root = SLUICE_SOURCE_DIR;

/// A machine without a GPU, or one that has no room.
class NoTexts final : public TextDevice {
 public:
  explicit NoTexts(bool there) : there_(there) {}
  Result<void> find() const override {
    if (there_) return {};
    return Error{ErrorCode::unavailable, "the machine has no CUDA device"};
  }
  Result<std::unique_ptr<TextEngine>> load(const Architecture&, const SafetensorsFile&,
                                           kernels::WeightFormat, const Pages&) const override {
    return Error{ErrorCode::exhausted, "no room for 17 bytes on the device"};
  }

 private:
  bool there_;
};

GlobalParamSpec on_cuda() {
  GlobalParamSpec spec;
  spec.name.text = "kv";
  spec.kind.text = "paged_kv";
  spec.page_tokens = 8;
  spec.pages = 16;
  spec.device = EngineDevice::cuda;
  return spec;
}

/// Why the catalog makes none; empty: it does.
Result<void> made(const GlobalParamSpec& spec, const TextDevice* cuda,
                  const std::string& model = "tests/golden/conversation_qwen",
                  PeerPort* peers = nullptr) {
  Catalog catalog;
  add_builtin_plugins(catalog, cuda);
  const auto param = catalog.make_global_param({&spec, root + "/" + model, -1, peers, "kv"});
  return param.ok() ? Result<void>() : Result<void>(param.error());
}

}  // namespace

TEST_CASE("a program without CUDA, and a machine without a GPU, are told of at the start") {
  const NoTexts none(false);
  for (const TextDevice* device :
       {static_cast<const TextDevice*>(nullptr), static_cast<const TextDevice*>(&none)}) {
    Catalog catalog;
    add_builtin_plugins(catalog, device);
    LoadedWorkflow loaded = load_workflow_file(root + "/workflows/chat.yaml").value();
    loaded.spec.global_params[0].device = EngineDevice::cuda;
    const Plan plan = plan_workflow(loaded, catalog.declarations());
    CHECK(loaded.diagnostics.empty());
    RunnerOptions options;
    options.root = root;
    const auto runner = Runner::create(loaded.spec, plan, catalog, options);
    REQUIRE(!runner.ok());
    CHECK(runner.error().code == ErrorCode::unavailable);
    CHECK(runner.error().message ==
          (device == nullptr
               ? "global parameter 'kv': its device: cuda cannot be had, this program was built "
                 "without CUDA: build it where nvcc is found, or leave device out to run on the CPU"
               : "global parameter 'kv': its device: cuda cannot be had: the machine has no CUDA "
                 "device; leave device out to run on the CPU"));
  }
}

TEST_CASE("what a GPU's pages are not kept in is refused, whoever wrote the specification") {
  const NoTexts there(true);
  CHECK(made(on_cuda(), &there).ok());
  GlobalParamSpec folder = on_cuda(), narrow = on_cuda(), alone = on_cuda();
  narrow.kv_dtype = Dtype::bf16;
  alone.host_bytes = 0;
  folder.host_bytes = 0;
  folder.ssd = Name{"/nowhere", {}};
  PeerHub hub;
  PeerPort* const others = &hub.add(1);
  PeerPort* const none = nullptr;
  CHECK(made(alone, &there).ok());
  const std::string through = "go through the host's memory";
  for (const auto& [spec, peers, why] :
       {std::tuple(folder, none, through), std::tuple(alone, others, through),
        std::tuple(narrow, none, std::string("not in a kv_dtype of their own"))}) {
    const Result<void> done = made(spec, &there, "tests/golden/conversation_qwen", peers);
    REQUIRE(!done.ok());
    CHECK(done.error().code == ErrorCode::invalid_argument);
    CHECK(done.error().message.find(why) != std::string::npos);
  }
}

TEST_CASE("models that draw or act are refused on a GPU, with what to do") {
  const NoTexts there(true);
  for (const auto& [model, what] : {std::pair("models/scenes", "draws (family scenes)"),
                                    std::pair("tests/golden/dit", "draws (family DiT"),
                                    std::pair("tests/golden/pi0", "acts (family pi0)"),
                                    std::pair("tests/golden/smolvla", "acts (family smolvla)")}) {
    INFO(model);
    const Result<void> done = made(on_cuda(), &there, model);
    REQUIRE(!done.ok());
    CHECK(done.error().code == ErrorCode::invalid_argument);
    CHECK(done.error().message.find(what) != std::string::npos);
    CHECK(done.error().message.find("leave device out") != std::string::npos);
    GlobalParamSpec on_cpu = on_cuda();
    on_cpu.device = EngineDevice::cpu;
    CHECK(made(on_cpu, &there, model).ok());
  }
}

TEST_CASE("a GPU without room, and a precision that it does not run, are the role's error") {
  const auto why = [](const TextDevice& cuda, const std::string& precision,
                      std::optional<std::int64_t> host_bytes = {}) {
    GlobalParamSpec spec = on_cuda();
    spec.host_bytes = host_bytes;
    const auto sessions = ChatSessions::make({&spec, directory}, &cuda).value();
    RoleSpec role;
    role.name.text = "llm";
    role.options = {{{"precision", {}}, {precision, {}}}};
    RoleMaking making;
    making.role = &role;
    making.model_directory = directory;
    making.global_params = {sessions.get()};
    const auto chat = chat_model_plugin().make(making);
    return chat.ok() ? "" : chat.error().message;
  };
  CHECK(why(NoTexts(true), "bf16") == "device: cuda of 'kv': no room for 17 bytes on the device");
  if (!cuda_is_there()) return;
  CHECK(why(cuda_texts(), "int8") ==
        "device: cuda of 'kv': a GPU runs the precisions exact and bf16, not int8");
  CHECK(why(cuda_texts(), "exact", 100) ==
        "device: cuda of 'kv': its host_bytes, 100, have no room for a page of this model, which "
        "takes 4096 bytes: give more, or 0 for none");
  CHECK(why(cuda_texts(), "exact") == "");
  CHECK(why(cuda_texts(), "bf16") == "");
}

TEST_CASE("roles over a GPU's pages that say no precision agree, over a GGUF file too") {
  if (!cuda_is_there()) return;
  const WatchedTexts watched;
  const std::string model = root + "/tests/golden/gguf/llama.gguf";
  GlobalParamSpec spec = on_cuda();
  const auto sessions = ChatSessions::make({&spec, model}, &watched).value();
  RoleSpec role;
  role.name.text = "llm";
  RoleMaking making;
  making.role = &role;
  making.model_directory = model;
  making.global_params = {sessions.get()};
  const auto without = chat_model_plugin().make(making);
  REQUIRE(without.ok());
  role.options = {{{"precision", {}}, {"bf16", {}}}};
  CHECK(chat_model_plugin().make(making).ok());
  CHECK(watched.formats == std::vector{kernels::WeightFormat::bf16});
  role.options = {{{"precision", {}}, {"exact", {}}}};
  CHECK(chat_model_plugin().make(making).error().message.find("another precision") !=
        std::string::npos);
  auto& chat = *std::get<std::unique_ptr<SteppedRole>>(*without);
  FakeActivation asked = piece("Hello", "a", true, 4);
  chat.admit(asked);
  std::vector<StepOutcome> ended;
  while (chat.busy()) chat.step(ended);
  REQUIRE(ended.size() == 1);
  CHECK(ended[0].result.ok());
  CHECK(watched.asked.steps.size() == 3);
}

#ifdef SLUICE_EMULATED_TESTS
TEST_CASE("a GPU that fails amid an answer fails that answer, and the session goes on") {
  ChatWorld alone;
  FakeActivation want = piece("Hello there", "a");
  alone.chat->admit(want);
  alone.run();
  std::size_t failed = 0;
  for (const std::size_t call : {0, 1, 5, 11}) {
    ChatWorld world(64, {}, {}, &cuda_texts());
    FakeActivation first = piece("Hello there", "a"), again = piece("Hello there", "a");
    again.call_number = 2;
    device::emulated::Fault fault{device::emulated::Fault::Of::waits, call};
    world.chat->admit(first);
    device::emulated::plan_fault(&fault);
    world.run();
    device::emulated::plan_fault(nullptr);
    REQUIRE(fault.happened);
    REQUIRE(world.ended.size() == 1);
    // A step that fails is run again as a forward.
    if (world.ended[0].result.ok())
      CHECK(said(first) == said(want));
    else
      ++failed;
    world.chat->admit(again);
    world.run();
    CHECK(world.ended[1].result.ok());
    if (!world.ended[0].result.ok()) CHECK(said(again) == said(want));
    world.sessions->end_session("a");
    CHECK(world.pool().pages_free() == world.pool().pages());
  }
  CHECK(failed > 0);
}
#endif
