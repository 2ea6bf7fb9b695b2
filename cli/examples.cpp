// What stands in each command's --help besides its options. A test runs every one of them, from the
// repository.
#include <CLI/CLI.hpp>
#include <array>
#include <string>
#include <string_view>

#include "cli/commands.h"

namespace sluice::cli {

namespace {

struct Examples {
  std::string_view command;  // "model ask"
  std::string_view lines;
};

constexpr std::array<Examples, 27> all{
    {{"validate",
      R"(  sluice validate workflows/*.yaml
  sluice validate workflows/image_chat.yaml --set roles.vit.replicas=4
  sluice validate workflows/image_chat.yaml --format sarif > findings.sarif
)"},
     {"plan",
      R"(  sluice plan workflows/image_chat.yaml
  sluice plan workflows/image_chat.yaml --explain generate
  sluice plan workflows/image_chat.yaml --format svg > image_chat.svg
)"},
     {"run",
      R"(  sluice run workflows/image_chat.yaml --image models/scenes/samples/table.png \
    --prompt "what color is the circle"
  sluice run workflows/image_chat.yaml --prompt "draw a red circle" --out image=circle.png
  sluice run workflows/chat.yaml --prompt Hello --set roles.llm.options.precision=bf16
  echo '{"inputs": {"request": {"content": [{"type": "text", "text": "draw a star"}]}}}' |
    sluice run workflows/image_chat.yaml --calls -
  printf '{"inputs": {"request": {"content": [{"type": "image", "data": "%s"}, %s]}}}' \
    $(base64 -w0 models/scenes/samples/table.png) '{"type": "text", "text": "what is it"}' |
    sluice run workflows/image_chat.yaml --calls -
  sluice run --cluster examples/cluster/laptop.yaml --prompt "draw a star" --out image=star.png
)"},
     {"node",
      R"(  sluice node --cluster examples/cluster/laptop.yaml --name eyes > eyes.log 2>&1 &
    until sluice status --cluster examples/cluster/laptop.yaml 2> /dev/null; do sleep 0.1; done
  sluice down --cluster examples/cluster/laptop.yaml
)"},
     {"up",
      R"(  sluice up examples/cluster/laptop.yaml > up.log 2>&1 &
    until sluice status --cluster examples/cluster/laptop.yaml 2> /dev/null; do sleep 0.1; done
  sluice down --cluster examples/cluster/laptop.yaml
)"},
     {"status",
      R"(  sluice up examples/cluster/laptop.yaml > up.log 2>&1 &
    until sluice status --cluster examples/cluster/laptop.yaml 2> /dev/null; do sleep 0.1; done
  sluice status --cluster examples/cluster/laptop.yaml --format json
  sluice down --cluster examples/cluster/laptop.yaml
)"},
     {"down",
      R"(  sluice up examples/cluster/laptop.yaml > up.log 2>&1 &
    until sluice status --cluster examples/cluster/laptop.yaml 2> /dev/null; do sleep 0.1; done
  sluice down --cluster examples/cluster/laptop.yaml
)"},
     {"test",
      R"(  sluice test workflows
  sluice test workflows/scenarios/image_chat_two_pictures.yaml --seeds 1000
  sluice test workflows/scenarios/image_chat_two_pictures.yaml --json > results.jsonl
)"},
     {"simulate",
      R"(  sluice simulate workflows/image_chat.yaml --calls 200 --rate 20
  sluice simulate workflows/robot_multitask.yaml --rate 30 --trace t.json
  sluice simulate workflows/robot_multitask.yaml --calls 20 --nodes 2 --faults --seeds 50
)"},
     {"why",
      R"(  sluice simulate workflows/robot_multitask.yaml --rate 30 --trace t.json
  sluice why t.json 17
)"},
     {"roles", "  sluice roles\n  sluice roles denoiser\n"},
     {"chat",
      R"(  sluice chat tests/golden/conversation_smolvlm
  echo Hello | sluice chat tests/golden/gguf/llama.gguf --max-tokens 8
)"},
     {"pool", "  sluice pool trace --help\n"},
     {"pool trace",
      R"(  echo '{"timestamp": 0, "hash_ids": [1, 2, 3]}' > trace.jsonl
  echo '{"timestamp": 9, "hash_ids": [1, 2, 4]}' >> trace.jsonl
  sluice pool trace trace.jsonl --blocks 3
)"},
     {"pool functions", "  sluice pool functions > sluice_pages.lua\n"},
     {"pool status",
      R"(  sluice model ask tests/golden/gguf/llama.gguf Hello --tokens 8 --kv-folder pages
  sluice pool status pages
  sluice pool status pages --watch | head -n 9
  sluice up examples/cluster/laptop.yaml > up.log 2>&1 &
    until sluice pool status --cluster examples/cluster/laptop.yaml 2> /dev/null; do sleep 0.1; done
  sluice down --cluster examples/cluster/laptop.yaml
)"},
     {"pool sessions",
      R"(  sluice up examples/cluster/laptop.yaml > up.log 2>&1 &
    until sluice pool sessions --cluster examples/cluster/laptop.yaml 2> no.log; do sleep 0.1; done
  sluice down --cluster examples/cluster/laptop.yaml
)"},
     {"pool pages",
      R"(  sluice model ask tests/golden/gguf/llama.gguf Hello --tokens 8 --kv-folder pages
  sluice pool pages pages --keys
)"},
     {"pool verify",
      R"(  sluice model ask tests/golden/gguf/llama.gguf Hello --tokens 8 --kv-folder pages
  sluice pool verify pages
)"},
     {"new", "  sluice new role shout\n"},
     {"new role", "  sluice new role shout\n"},
     {"keys", "  sluice keys keys --machine arm --machine gpu\n"},
     {"model",
      R"(  sluice model inspect tests/golden/gguf/llama.gguf
  sluice model ask tests/golden/gguf/llama.gguf Hello --tokens 8
)"},
     {"model inspect", "  sluice model inspect tests/golden/gguf/llama.gguf\n"},
     {"model check",
      R"(  sluice model check tests/golden/llama
  sluice model check tests/golden/pi0 --inputs tests/golden/pi0/inputs.safetensors \
    --outputs out.safetensors
)"},
     {"model ask",
      R"(  sluice model ask tests/golden/gguf/llama.gguf Hello --max-tokens 8
  sluice model ask tests/golden/conversation_qwen "What is on the table?" --max-tokens 8 \
    --image models/scenes/samples/table.png
)"},
     {"model bench",
      R"(  sluice model bench tests/golden/llama --prompt 64 --tokens 16 --precision int8
  sluice model bench tests/golden/pi0 --views 2 --words 8 --batch 2
)"}}};

/// A list that is empty by default says nothing of it.
void hide_empty_defaults(CLI::App& app) {
  for (CLI::Option* option : app.get_options())
    if (option->get_default_str() == "[]") option->default_str("");
  for (CLI::App* command : app.get_subcommands({})) hide_empty_defaults(*command);
}

}  // namespace

void add_examples(CLI::App& app) {
  hide_empty_defaults(app);
  for (const Examples& examples : all) {
    CLI::App* command = &app;
    std::string_view rest = examples.command;
    while (!rest.empty()) {
      const std::size_t space = rest.find(' ');
      command = command->get_subcommand(std::string(rest.substr(0, space)));
      rest.remove_prefix(space == std::string_view::npos ? rest.size() : space + 1);
    }
    command->footer("\nExamples\n" + std::string(examples.lines));
  }
}

}  // namespace sluice::cli
