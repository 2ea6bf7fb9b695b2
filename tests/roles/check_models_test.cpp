// What `validate` says of checkpoints that do not fit their roles, or these their pages.
#include "roles/check_models.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "engine/family/architecture.h"
#include "graph/check.h"
#include "roles/check_model.h"
#include "tests/directories.h"
#include "workflows/load.h"

using namespace sluice;

namespace {

const std::string root = SLUICE_SOURCE_DIR;

std::string of(const std::string& name) { return root + "/tests/golden/" + name; }

/// All that is said of a workflow, a line each: its code and message, paths without their folder.
std::string said(const std::string& yaml) {
  Catalog catalog;
  add_builtin_plugins(catalog);
  LoadedWorkflow loaded = load_workflow("w.yaml", yaml);
  REQUIRE(loaded.readable);
  Diagnostics diagnostics;
  check_models(loaded.spec, catalog, diagnostics);
  std::string text;
  for (const Diagnostic& one : diagnostics) text += one.code + ": " + one.message + "\n";
  for (std::size_t at = 0; (at = text.find(root + "/", at)) != std::string::npos;)
    text.erase(at, root.size() + 1);
  return text;
}

std::string workflow(const std::string& params, const std::string& role,
                     const std::string& run = "r.answer") {
  return "sluice: 1\nworkflow: w\ninputs: { text: text }\nglobal_params: { " + params +
         " }\nroles:\n  r: { " + role + ", balance: session }\nnodes:\n  n: { run: " + run +
         ", inputs: [ { any: inputs.text } ] }\noutputs: { o: n.token }\n";
}

/// With a role over the pages of its model, whose node reads these fields.
std::string reads(const std::string& plugin, const std::string& model, const std::string& run,
                  const std::string& fields, const std::string& more = "") {
  std::string group;
  for (std::size_t at = 0; at < fields.size();) {
    const std::size_t end = std::min(fields.find(' ', at), fields.size());
    group += (group.empty() ? "" : ", ") + fields.substr(at, end - at) + ": inputs.text";
    at = end + 1;
  }
  return said(
      "sluice: 1\nworkflow: w\ninputs: { text: text }\nglobal_params: { kv: { kind: "
      "paged_kv, model: " +
      model + " } }\nroles: { r: { plugin: " + plugin + ", model: " + model +
      ", global_params: [kv], balance: session" + more + " } }\nnodes:\n  n: { run: r." + run +
      ", inputs: [ { " + group + " }, { " + group + " } ] }\n");
}

/// With commas: a new family changes nothing here.
std::string names_of(std::initializer_list<FamilyKind> kinds) {
  std::string names;
  for (const Family family : families_of(kinds))
    names += (names.empty() ? "" : ", ") + std::string(to_string(family));
  return names;
}

}  // namespace

TEST_CASE("a role computes on the keys of its own model, which are in one place") {
  const std::string qwen = of("conversation_qwen"), other = of("conversation_smolvlm");
  const std::string chat = "plugin: chat_model, model: " + qwen;
  const std::string kv = "kv: { kind: paged_kv, model: " + qwen + " }";
  CHECK(said(workflow(kv, chat + ", global_params: [kv]")).empty());
  CHECK(said(workflow("kv: { kind: paged_kv, model: " + qwen + "/../conversation_qwen }",
                      chat + ", global_params: [kv]"))
            .empty());
  CHECK(said(workflow("kv: { kind: paged_kv, model: " + other + " }",
                      chat + ", global_params: [kv]")) ==
        "other-model: the model of role 'r' is tests/golden/conversation_qwen, that of its 'kv' is "
        "tests/golden/conversation_smolvlm\n");
  // One of the two is wrong by itself, or was refused: that they differ follows from it.
  const std::string none = root + "/tests";
  CHECK(said(workflow("kv: { kind: paged_kv, model: " + none + " }",
                      chat + ", global_params: [kv]")) ==
        "wrong-model: tests/config.json: no such file\n");
  CHECK(said(workflow(kv, "plugin: chat_model, model: " + none + ", global_params: [kv]")) ==
        "wrong-model: tests/config.json: no such file\n");
  CHECK(said(workflow("kv: { kind: paged_kv, model: [" + qwen + "] }",
                      chat + ", global_params: [kv]"))
            .empty());
  CHECK(said(workflow("kv: { kind: paged_kv }", chat + ", global_params: [kv]")) ==
        "missing-model: role 'r' computes on 'kv', which says no model\n");
  CHECK(said(workflow(kv + ", two: { kind: paged_kv, model: " + qwen + " }",
                      chat + ", global_params: [kv, two]")) ==
        "second-global-param: role 'r' lists 'kv' and 'two', both of kind paged_kv; it computes on "
        "one\n");
  // A scripted role computes on nothing.
  CHECK(said(workflow("kv: { kind: paged_kv }, two: { kind: paged_kv }",
                      "plugin: scripted, global_params: [kv, two]"))
            .empty());
}

TEST_CASE("a checkpoint of a family that the role cannot play is refused with those that can") {
  const std::string chats =
      names_of({FamilyKind::language, FamilyKind::vision_language, FamilyKind::action_tokens});
  CHECK(chats.starts_with("llama, qwen2, gemma, "));
  CHECK(chats.ends_with(", paligemma, qwen2_5_vl, smolvlm, openvla"));
  const std::pair<const char*, const char*> silent[] = {
      {"pi0", "its trunk was trained for actions, and there is no reference for words of it"},
      {"pi05",
       "its words go on behind what its robot sees and was told: run prefill and decode of a "
       "language_model"},
      {"smolvla",
       "its trunk has other rotary positions and scales, and as a rule fewer layers, than the "
       "language model whose head it carries"}};
  for (const auto& [family, why] : silent) {
    const std::string path = of(family);
    CHECK(said(workflow("kv: { kind: paged_kv, model: " + path + " }",
                        "plugin: chat_model, model: " + path + ", global_params: [kv]")) ==
          "wrong-model: tests/golden/" + std::string(family) + " holds a model of the family " +
              family + ", which chat_model does not play: " + why + "; it plays " + chats + "\n");
    const bool answers = family == std::string("pi05");
    for (const char* interface : {"generate", "decode"})
      CHECK(said(workflow("kv: { kind: paged_kv, model: " + path + " }",
                          "plugin: language_model, model: " + path + ", global_params: [kv]",
                          std::string("r.") + interface)) ==
            (answers && interface == std::string("decode")
                 ? ""
                 : "wrong-interface: language_model over a robot policy" +
                       std::string(answers ? " that answers" : "") + " (tests/golden/" + family +
                       ") runs prefill" + (answers ? ", decode" : "") + ", not " + interface +
                       ": " + why + "\n"));
  }
  const std::string llama = of("llama");
  CHECK(
      said(workflow("kv: { kind: paged_kv, model: " + llama + " }",
                    "plugin: robot_policy, model: " + llama + ", global_params: [kv]", "r.act")) ==
      "wrong-model: tests/golden/llama holds a model of the family llama, which robot_policy does "
      "not play; it plays pi0, pi05, smolvla, openvla\n");
  const std::string openvla = of("openvla");
  CHECK(said(workflow("kv: { kind: paged_kv, model: " + openvla + " }",
                      "plugin: action_expert, model: " + openvla + ", global_params: [kv]",
                      "r.act")) ==
        "wrong-model: tests/golden/openvla holds a model of the family openvla, which "
        "action_expert does not play: its actions are words of its language model, and a "
        "robot_policy's whole cycle; it plays pi0, pi05, smolvla\n");
  CHECK(said(workflow("kv: { kind: paged_kv, model: " + of("siglip") + " }", "plugin: scripted")) ==
        "wrong-model: tests/golden/siglip holds a model of the family siglip, which a paged_kv "
        "does not play; it plays " +
            names_of({FamilyKind::language, FamilyKind::vision_language, FamilyKind::policy,
                      FamilyKind::action_tokens, FamilyKind::diffusion, FamilyKind::drawer}) +
            "\n");
  CHECK(said(workflow("kv: { kind: paged_kv }",
                      "plugin: chat_model, model: " + root + "/models/scenes")) ==
        "wrong-model: models/scenes holds a model of the family scenes, which chat_model does "
        "not play; it plays " +
            chats + "\n");
}

TEST_CASE(
    "a DiT draws with an engine of its own, or with that of its pages, which nobody else uses") {
  const std::string kv = "kv: { kind: paged_kv, model: " + of("dit") + " }";
  const std::string painter = "plugin: class_denoiser, model: " + of("dit") +
                              ", options: { step_tokens: 64, priority: 3, deadline_ms: 500 }";
  CHECK(said(workflow("none: { kind: paged_kv }", painter, "r.draw")).empty());
  CHECK(said(workflow(kv, painter + ", global_params: [kv]", "r.draw")).empty());
  CHECK(said(workflow(kv, "plugin: language_model, model: " + of("dit") + ", global_params: [kv]",
                      "r.generate"))
            .starts_with("wrong-model: tests/golden/dit holds a model of the family "
                         "DiTTransformer2DModel, which language_model does not play; it plays "));
}

TEST_CASE(
    "a file that is no checkpoint is said to be missing where paths are looked for, not again") {
  CHECK(
      said(workflow("kv: { kind: paged_kv }", "plugin: chat_model, model: " + root + "/README.md"))
          .empty());
}

TEST_CASE("an interface that a role does not run over its kind of checkpoint is refused") {
  const auto over = [](const std::string& model, const std::string& interface) {
    return said(workflow("kv: { kind: paged_kv, model: " + model + " }",
                         "plugin: language_model, model: " + model + ", global_params: [kv]",
                         "r." + interface));
  };
  const std::string scenes = root + "/models/scenes";
  CHECK(over(of("conversation_qwen"), "embed") ==
        "wrong-interface: language_model over a model that answers (tests/golden/conversation_qwen)"
        " runs generate, prefill, decode, not embed\n");
  CHECK(over(of("pi05"), "embed") ==
        "wrong-interface: language_model over a robot policy that answers (tests/golden/pi05) runs "
        "prefill, decode, not embed\n");
  CHECK(over(scenes, "prefill") ==
        "wrong-interface: language_model over a model that draws (models/scenes) runs embed, "
        "generate, not prefill\n");
  for (const char* interface : {"embed", "generate"}) CHECK(over(scenes, interface).empty());
  for (const char* interface : {"generate", "prefill", "decode"})
    CHECK(over(of("llama"), interface).empty());
}

TEST_CASE("an option for the engine of a paged_kv is refused where none is listed") {
  const std::string kv = "kv: { kind: paged_kv, model: " + root + "/models/scenes }";
  const auto eyes = [&](const std::string& rest) {
    return said(workflow(kv, "plugin: vision_encoder, model: " + root + "/models/scenes" + rest,
                         "r.encode"));
  };
  for (const char* option : {"step_tokens", "priority"}) {
    const std::string options = ", options: { " + std::string(option) + ": 3 }";
    CHECK(eyes(options) == "idle-option: role 'r': the option '" + std::string(option) +
                               "' is for the engine that a paged_kv brings; list one in "
                               "global_params, or leave the option out\n");
    CHECK(eyes(options + ", global_params: [kv]").empty());
  }
  CHECK(eyes(", options: { precision: exact }").empty());
}

TEST_CASE("an option that does nothing over a checkpoint is refused") {
  const auto over = [](const std::string& model, const std::string& plugin,
                       const std::string& options, const std::string& run) {
    return said(workflow("kv: { kind: paged_kv, model: " + model + " }",
                         "plugin: " + plugin + ", model: " + model +
                             ", global_params: [kv], options: { " + options + " }",
                         run));
  };
  const std::string scenes = root + "/models/scenes";
  CHECK(over(scenes, "language_model", "share_prefixes: yes", "r.generate").empty());
  CHECK(over(of("pi0"), "language_model", "max_tokens: 3, precision: bf16", "r.prefill") ==
        "idle-option: language_model over a robot policy (tests/golden/pi0) does nothing with the "
        "option 'max_tokens': leave it out\n");
  CHECK(over(scenes, "language_model", "max_tokens: 3, precision: bf16", "r.generate").empty());
  CHECK(over(of("llama"), "language_model", "share_prefixes: no", "r.generate").empty());
  CHECK(over(scenes, "denoiser", "precision: int8, step_tokens: 64", "r.generate").empty());
}

TEST_CASE("a policy whose actions are words needs statistics, by a name that the checkpoint has") {
  const std::string openvla = of("openvla");
  const auto over = [&](const std::string& model, const std::string& options) {
    return said(workflow("kv: { kind: paged_kv, model: " + model + " }",
                         "plugin: robot_policy, model: " + model + ", global_params: [kv]" +
                             (options.empty() ? "" : ", options: { " + options + " }"),
                         "r.act"));
  };
  CHECK(over(openvla, "").empty());
  CHECK(over(openvla, "statistics: toy, deadline_ms: 100, priority: 3").empty());
  CHECK(over(openvla, "statistics: bridge") ==
        "missing-statistics: tests/golden/openvla: the checkpoint has no statistics of 'bridge'; "
        "there are toy\n");
  CHECK(over(openvla, "steps: 3") ==
        "idle-option: robot_policy over a policy whose actions are words (tests/golden/openvla) "
        "does nothing with the option 'steps': leave it out\n");
  CHECK(over(of("pi0"), "statistics: toy") ==
        "idle-option: robot_policy over a policy with an action expert (tests/golden/pi0) does "
        "nothing with the option 'statistics': leave it out\n");
  CHECK(over(of("pi0"), "steps: 3").empty());
}

TEST_CASE("roles over the same keys that compute in different ways are refused") {
  const std::string scenes = root + "/models/scenes";
  const auto two = [&](const std::string& model, const std::string& plugin,
                       const std::string& first, const std::string& second) {
    const auto role = [&](const std::string& name, const std::string& options) {
      return "  " + name + ": { plugin: " + plugin + ", model: " + model +
             ", global_params: [kv], balance: session" +
             (options.empty() ? "" : ", options: { " + options + " }") + " }\n";
    };
    return said(
        "sluice: 1\nworkflow: w\ninputs: { text: text }\nglobal_params: { kv: { kind: "
        "paged_kv, model: " +
        model + " } }\nroles:\n" + role("a", first) + role("b", second) +
        "nodes:\n  n: { run: a.generate, inputs: [ { any: inputs.text } ] }\noutputs: "
        "{ o: n.token }\n");
  };
  CHECK(two(scenes, "language_model", "precision: bf16", "precision: int8") ==
        "other-use: roles 'a' and 'b' compute on 'kv' with different precision\n");
  CHECK(two(of("llama"), "language_model", "step_tokens: 64", "") ==
        "other-use: roles 'a' and 'b' compute on 'kv' with different step_tokens\n");
  // What is left out is what it would be: exact for models/scenes, bf16 for others.
  CHECK(two(scenes, "language_model", "precision: exact", "").empty());
  CHECK(two(of("llama"), "language_model", "precision: bf16", "").empty());
  CHECK_FALSE(two(of("llama"), "language_model", "precision: exact", "").empty());
}

TEST_CASE("each golden checkpoint is played by the roles that have the parts it has") {
  for (const auto& entry : std::filesystem::directory_iterator(of(""))) {
    const std::string path = entry.path().string();
    const Result<Architecture> model = Architecture::load(path);
    if (!model.ok()) continue;
    INFO(path);
    const bool robot = model->action.has_value();
    const bool acts = robot || model->family == Family::openvla;
    const bool sees = model->vision.has_value() || model->qwen_vision.has_value();
    CHECK(check_chat_model(path).ok() == (model->text.has_value() && !robot));
    CHECK(check_language_model(path).ok() == model->text.has_value());
    CHECK(check_policy(path).ok() == acts);
    CHECK(check_action_expert(path).ok() == robot);
    CHECK(check_vision_encoder(path).ok() == sees);
  }
}

TEST_CASE("on a GPU run models that answer with words, exact or in bf16") {
  const auto on_cuda = [](const std::string& model, const std::string& plugin,
                          const std::string& more = "", const std::string& run = "r.answer") {
    return said(workflow("kv: { kind: paged_kv, model: " + model + ", device: cuda }",
                         "plugin: " + plugin + ", model: " + model + ", global_params: [kv]" + more,
                         run));
  };
  const std::string qwen = of("conversation_qwen"), gguf = of("gguf/llama.gguf");
  CHECK(on_cuda(qwen, "chat_model").empty());
  CHECK(on_cuda(gguf, "chat_model").empty());
  CHECK(on_cuda(of("openvla"), "robot_policy", "", "r.act").empty());
  for (const char* precision : {"exact", "bf16"})
    CHECK(on_cuda(qwen, "chat_model", std::string(", options: { precision: ") + precision + " }")
              .empty());
  CHECK(
      on_cuda(qwen, "chat_model", ", options: { precision: int8 }") ==
      "wrong-device: role 'r' computes on 'kv' on a GPU (device: cuda), which runs the precisions "
      "exact and bf16\n");
  CHECK(
      on_cuda(root + "/models/scenes", "language_model", "", "r.generate") ==
      "wrong-device: with device: cuda roles run models that answer with words, and models/scenes "
      "holds one that draws (family scenes): leave device out\n");
  CHECK(on_cuda(of("pi0"), "robot_policy", "", "r.act") ==
        "wrong-device: with device: cuda roles run models that answer with words, and "
        "tests/golden/pi0 holds one that acts (family pi0): leave device out\n");
  const auto with_host = [&](const std::string& bytes, const std::string& precision) {
    return said(workflow(
        "kv: { kind: paged_kv, model: " + qwen + ", device: cuda, host_bytes: " + bytes + " }",
        "plugin: chat_model, model: " + qwen +
            ", global_params: [kv], options: { precision: " + precision + " }",
        "r.answer"));
  };
  CHECK(with_host("0", "bf16").empty());
  CHECK(with_host("4KiB", "bf16").empty());
  CHECK(with_host("4KiB", "exact") ==
        "small-host: its host_bytes, 4096, have no room for a page of this model, which takes "
        "8192 bytes: give more, or 0 for none\n");
  // What is wrong with the checkpoint itself is said alone.
  CHECK(on_cuda(root + "/tests", "chat_model") == "wrong-model: tests/config.json: no such file\n");
}

TEST_CASE("roles that say no precision agree with bf16 on a GPU, and over a GGUF file with exact") {
  const std::string gguf = of("gguf/llama.gguf");
  const auto two = [&](const std::string& device, const std::string& precision) {
    const std::string role = "plugin: chat_model, model: " + gguf + ", global_params: [kv]";
    return said(workflow("kv: { kind: paged_kv, model: " + gguf + ", device: " + device + " }",
                         role + ", balance: session }\n  s: { " + role +
                             ", options: { precision: " + precision + " }"));
  };
  const std::string differ =
      "other-use: roles 'r' and 's' compute on 'kv' with different precision\n";
  CHECK(two("cuda", "bf16").empty());
  CHECK(two("cuda", "exact") == differ);
  CHECK(two("cpu", "exact").empty());
  CHECK(two("cpu", "bf16") == differ);
}

TEST_CASE(
    "an input that a role does not read over its checkpoint is refused, once, with what it reads") {
  const std::string scenes = root + "/models/scenes", qwen = of("conversation_qwen");
  const auto unread = [](const std::string& what, const std::string& field,
                         const std::string& instead) {
    return "unread-input: " + what + " does not read `" + field + "`: " + instead + "\n";
  };
  CHECK(reads("language_model", scenes, "generate", "text") ==
        unread("`generate` of language_model over a model of the family scenes (models/scenes)",
               "text", "run `embed` over the text, and take its `hidden`"));
  CHECK(reads("language_model", scenes, "generate", "hidden features latents").empty());
  const std::string answers = "a message is `text`, and `features` of its pictures";
  const std::string over =
      " of language_model over a model of the family qwen2_5_vl "
      "(tests/golden/conversation_qwen)";
  for (const char* field : {"hidden", "latents"})
    CHECK(reads("language_model", qwen, "generate", field) ==
          unread("`generate`" + over, field, answers));
  for (const char* field : {"instruction", "tokens", "state"})
    CHECK(reads("language_model", qwen, "prefill", field) ==
          unread("`prefill`" + over, field, answers));
  CHECK(reads("language_model", qwen, "generate", "text features").empty());
  CHECK(reads("language_model", of("pi05"), "prefill", "text")
            .ends_with(
                "does not read `text`: what a robot is told is its `instruction`, or `tokens`\n"));
  CHECK(reads("language_model", of("pi0"), "prefill", "state")
            .ends_with("does not read `state`: it is read with the actions: give it to `act`\n"));
  CHECK(reads("action_expert", of("pi0"), "act", "state").empty());
  for (const char* family : {"pi05", "smolvla"}) {
    CHECK(reads("language_model", of(family), "prefill", "state features instruction").empty());
    CHECK(reads("action_expert", of(family), "act", "state")
              .ends_with("does not read `state`: it is read with what the robot sees: give it to "
                         "`prefill`\n"));
  }
  for (const char* field : {"state", "noise"}) {
    CHECK(reads("robot_policy", of("openvla"), "act", field)
              .ends_with("does not read `" + std::string(field) + "`: leave it out\n"));
    CHECK(reads("robot_policy", of("pi05"), "act", field).empty());
  }
  CHECK(reads("robot_policy", of("openvla"), "act", "image0 instruction").empty());
  const std::string two =
      "unread-input: a policy whose actions are words (tests/golden/openvla) sees one camera, and "
      "this group has `image0` and `image2`\n";
  CHECK(reads("robot_policy", of("openvla"), "act", "image0 instruction image2") == two + two);
  CHECK(reads("robot_policy", of("pi05"), "act", "image0 image2").empty());
  const std::string asks = ", options: { prompt: subtask }";
  CHECK(reads("language_model", of("pi05"), "prefill", "instruction state", asks) ==
        "unread-input: the prompt of a sub-task holds no `state`, and role 'r' has the option "
        "`prompt: subtask`\n");
  CHECK(reads("language_model", of("pi05"), "prefill", "instruction features", asks).empty());
  // Where the interface or the checkpoint is wrong, that is said alone.
  CHECK(reads("language_model", qwen, "embed", "hidden").starts_with("wrong-interface: "));
  CHECK(reads("language_model", root + "/tests", "generate", "hidden") ==
        "wrong-model: tests/config.json: no such file\n");
}

TEST_CASE("a picture for a model that sees none is warned of") {
  CHECK(reads("chat_model", of("llama"), "answer", "image") ==
        "unread-input: the model tests/golden/llama (family llama) takes no pictures\n");
  CHECK(reads("language_model", of("llama"), "generate", "text features") ==
        "unread-input: the model tests/golden/llama (family llama) takes no pictures\n");
  for (const char* model : {"conversation_qwen", "conversation_smolvlm", "paligemma", "openvla"})
    CHECK(reads("chat_model", of(model), "answer", "image text").empty());
}

TEST_CASE("a robot needs words in its instruction, a message may be a picture alone") {
  for (const char* plugin : {"robot_policy", "language_model"})
    CHECK(needs_words(plugin, "instruction"));
  for (const char* field : {"text", "features", "image0"})
    CHECK_FALSE(needs_words("language_model", field));
  CHECK_FALSE(needs_words("scripted", "instruction"));
}

namespace {

/// Two roles, each over its own pages and model; the second goes on with what the first makes.
std::string two_nodes(const std::string& first, const std::string& first_model,
                      const std::string& first_run, const std::string& output,
                      const std::string& second, const std::string& second_model,
                      const std::string& second_run, const std::string& input,
                      const std::string& pools, const std::string& calls = "serial") {
  const auto role = [](const std::string& plugin, const std::string& model,
                       const std::string& pool) {
    return "{ plugin: " + plugin + ", model: " + model +
           (pool.empty() ? "" : ", global_params: [" + pool + "]") + ", balance: session }";
  };
  const std::size_t comma = pools.find(',');
  return said("sluice: 1\nworkflow: w\ninputs: { x: text }\ncalls: " + calls +
              "\nglobal_params:\n  kv: { kind: paged_kv, model: " + first_model +
              " }\n  other: { kind: paged_kv, model: " + second_model +
              " }\nroles:\n  r: " + role(first, first_model, pools.substr(0, comma)) + "\n  s: " +
              role(second, second_model, pools.substr(comma + 1)) + "\nnodes:\n  n: { run: r." +
              first_run + ", inputs: [ { any: inputs.x } ] }\n  m: { run: s." + second_run +
              ", inputs: [ { " + input + ": n." + output + " } ] }\noutputs: { o: m.token }\n");
}

}  // namespace

TEST_CASE("what one role has read stands in its pages, and no other role's") {
  const std::string qwen = of("conversation_qwen"), pi05 = of("pi05"),
                    scenes = root + "/models/scenes";
  const std::string apart =
      "other-pool: what node 'n' has read stands in 'kv', and node 'm' goes on in 'other'\n";
  const auto answer = [&](const std::string& pools, const std::string& calls = "serial") {
    return two_nodes("language_model", qwen, "prefill", "prefix", "language_model", qwen, "decode",
                     "prefix", pools, calls);
  };
  const auto act = [&](const std::string& pools, const std::string& calls = "serial") {
    return two_nodes("language_model", pi05, "prefill", "prefix", "action_expert", pi05, "act",
                     "prefix", pools, calls);
  };
  const auto draw = [&](const std::string& pools, const std::string& calls = "serial") {
    return two_nodes("language_model", scenes, "generate", "draw_prompt", "denoiser", scenes,
                     "generate", "prompt", pools, calls);
  };
  CHECK(answer("kv,other") == apart);
  const std::string reads = "{ plugin: language_model, model: " + qwen + ", balance: session, ";
  CHECK(
      said(
          "sluice: 1\nworkflow: w\ninputs: { x: text }\nglobal_params:\n  kv: { kind: paged_kv, "
          "model: " +
          qwen + " }\n  other: { kind: paged_kv, model: " + qwen + " }\nroles:\n  r: " + reads +
          "global_params: [kv] }\n  s: " + reads +
          "global_params: [other] }\nnodes:\n  n: { run: r.prefill, inputs: [ { text: inputs.x } ] "
          "}\n  o: { run: s.prefill, inputs: [ { text: inputs.x } ] }\n  m: { run: s.decode, "
          "inputs: [ { prefix: o.prefix }, { prefix: n.prefix } ] }\noutputs: { o: m.token }\n") ==
      apart);
  CHECK(act("kv,other") == apart);
  CHECK(draw("kv,other") == apart);
  const std::string overlaps =
      "overlapping-calls: with `calls: overlap` a session's next call may take away what node 'n' "
      "has read before node 'm' goes on with it, which then fails\n";
  for (const std::string pools : {"kv,kv", "other,other"}) {
    CHECK(answer(pools).empty());
    CHECK(act(pools).empty());
    CHECK(draw(pools).empty());
    CHECK(answer(pools, "overlap") == overlaps);
    CHECK(act(pools, "overlap") == overlaps);
    CHECK(draw(pools, "overlap") == overlaps);
  }
}

TEST_CASE("rows and latents of another model are refused where their shapes differ") {
  const std::string qwen = of("conversation_qwen"), smol = of("conversation_smolvlm");
  const std::string scenes = root + "/models/scenes";
  const auto width = [](const std::string& path) {
    return std::to_string(Architecture::load(path)->text->block.width);
  };
  const auto seen = [&](const std::string& eyes, const std::string& reader) {
    return two_nodes("vision_encoder", eyes, "encode", "features", "language_model", reader,
                     "generate", "features", ",other");
  };
  CHECK(seen(qwen, qwen).empty());
  CHECK(seen(smol, smol).empty());
  for (const std::string& eyes : {qwen, smol})
    CHECK(seen(eyes, scenes) == "other-model: node 'n' makes rows of " + width(eyes) + " values (" +
                                    eyes.substr(root.size() + 1) +
                                    "), and node 'm' reads rows of " + width(scenes) +
                                    " values (models/scenes)\n");
  const auto drawn = [&](const std::string& painter, const std::string& model,
                         const std::string& codec) {
    const std::string all = two_nodes(painter, model, painter == "denoiser" ? "generate" : "draw",
                                      "latents", "image_codec", codec, "decode", "latents", "kv,");
    // A VAE has no pages: what that says of `other` is not meant here.
    const std::size_t at = all.find("other-model: node");
    return at == std::string::npos ? std::string() : all.substr(at);
  };
  CHECK(drawn("denoiser", scenes, scenes).empty());
  CHECK(drawn("class_denoiser", of("dit"), of("vae")).empty());
  CHECK(
      drawn("denoiser", scenes, of("vae")).starts_with("other-model: node 'n' makes latents of "));
  CHECK(drawn("class_denoiser", of("dit"), scenes)
            .starts_with("other-model: node 'n' makes latents of 4 channels (tests/golden/dit), "
                         "and node 'm' reads latents of "));
}

TEST_CASE("a folder of pages that cannot be one is said where it stands", "[roles]") {
  const auto with = [](const std::string& model, const std::string& more) {
    const std::string kv = "{ kind: paged_kv, model: " + of(model) + ", ";
    return said(workflow("kv: " + kv + "ssd: /pages }, other: " + kv + more + " }",
                         "plugin: chat_model, model: " + of(model) + ", global_params: [ kv ]"));
  };
  CHECK(with("qwen2", "ssd: /pages2") == "");
  CHECK(with("qwen2", "ssd: /x/.././pages/") ==
        "same-folder: 'kv' and 'other' keep pages in one folder, /x/.././pages/; a folder is of "
        "one of them\n");
  const std::string small = with("qwen2", "page_tokens: 4096, ssd: /few, ssd_bytes: 1MiB");
  CHECK(small.starts_with("small-folder: /few: its 1024 KiB are too few: a page of this model "));
  CHECK(small.find(", give at least ") != std::string::npos);
  const auto kept = [](const std::string& model, const std::string& plugin,
                       const std::string& run) {
    return said(workflow("kv: { kind: paged_kv, model: " + model + ", ssd: /pages }",
                         "plugin: " + plugin + ", model: " + model + ", global_params: [ kv ]",
                         run));
  };
  CHECK(kept(root + "/models/scenes", "language_model", "r.embed").empty());
  CHECK(kept(of("pi0"), "robot_policy", "r.act") ==
        "idle-ssd: 'kv' has ssd, where only a model that answers with words keeps pages\n");
  CHECK(kept(of("dit"), "class_denoiser", "r.draw") ==
        "idle-ssd: 'kv' has ssd, where only a model that answers with words keeps pages\n");
}
