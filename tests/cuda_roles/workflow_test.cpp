// Workflows that say `device: cuda`, as their authors run them.
#include <catch2/catch.hpp>

#include "tests/cuda_roles/watched_texts.h"
#include "tests/roles/running_workflow.h"

using namespace sluice;

namespace {

using Changes = std::vector<std::pair<std::string, std::string>>;

/// Of a shipped workflow over the tiny Qwen2.5-VL.
const Changes on_gpu{{"pages: 256", "pages: 256, device: cuda"}};

PayloadRef request(const std::string& text, const std::string& options = R"("max_tokens": 10)") {
  return make_json(R"({"content": [{"type": "text", "text": ")" + text + R"("}], "options": {)" +
                   options + "}}");
}

std::string text_of(const Outputs& outputs) {
  std::string text;
  if (const auto it = outputs.find("text"); it != outputs.end())
    for (const PayloadRef& piece : it->second) text += piece->text;
  return text;
}

/// What two sessions are told, the first of them twice.
std::vector<std::string> told(RunningWorkflow& workflow) {
  std::vector<std::string> made;
  for (const auto& [session, words] :
       {std::pair("a", "Hello there"), std::pair("b", "What now"), std::pair("a", "And then")})
    made.push_back(text_of(workflow.call({{"request", request(words)}}, session)));
  made.push_back(text_of(workflow.call(
      {{"request", request("Hello", R"("max_tokens": 10, "temperature": 0.9, "seed": 3)")}}, "c")));
  return made;
}

}  // namespace

TEST_CASE("a workflow with device: cuda says what it says with device: cpu") {
  if (!cuda_is_there()) return;
  for (const char* name : {"chat.yaml", "vlm_split.yaml", "prefill_decode.yaml"}) {
    INFO(name);
    const WatchedTexts watched;
    RunningWorkflow here(name, {{"pages: 256", "pages: 256, device: cpu"}}, &watched);
    const auto want = told(here);
    CHECK(watched.formats.empty());
    RunningWorkflow there(name, on_gpu, &watched);
    CHECK(told(there) == want);
    CHECK(watched.formats == std::vector{kernels::WeightFormat::exact});
    CHECK(watched.take().steps.size() > 20);
  }
}

TEST_CASE("without a precision the GPU runs bf16, over a GGUF file too") {
  if (!cuda_is_there()) return;
  const WatchedTexts watched;
  RunningWorkflow plain("chat.yaml", {on_gpu[0], {"options: { precision: exact }", ""}}, &watched);
  CHECK(!text_of(plain.call({{"request", request("Hello")}})).empty());
  CHECK(watched.formats == std::vector{kernels::WeightFormat::bf16});
}
