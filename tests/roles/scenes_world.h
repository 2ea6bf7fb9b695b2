// The roles of models/scenes by themselves: turns, drawings and pictures, stepped by hand.
#pragma once

#include <catch2/catch.hpp>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "fake_activation.h"
#include "roles/denoiser.h"
#include "roles/image_codec.h"
#include "roles/language_model.h"
#include "roles/paged_kv.h"
#include "roles/vision_encoder.h"
#include "tests/directories.h"

namespace sluice {

/// The roles of models/scenes over one pool, stepped by hand.
struct ScenesWorld {
  static std::string directory() { return std::string(SLUICE_SOURCE_DIR) + "/models/scenes"; }
  GlobalParamSpec param;
  RoleSpec role, plain;  // of the language model, and of the others
  std::unique_ptr<GlobalParam> shared;
  std::unique_ptr<SteppedRole> model, denoiser;
  std::unique_ptr<Role> codec, vision;
  std::vector<StepOutcome> ended;
  std::deque<FakeActivation> activations;

  /// `ssd`: the folder of its pages; empty: none. `shares`: its sessions' prefixes.
  explicit ScenesWorld(std::int64_t pages = 64, const std::string& ssd = {}, bool shares = true,
                       std::int64_t page_tokens = 16) {
    param.name.text = "kv";
    param.pages = pages;
    param.page_tokens = page_tokens;
    if (!ssd.empty()) param.ssd = Name{ssd, {}};
    role.name.text = plain.name.text = "llm";
    if (!shares) role.options.push_back({{"share_prefixes", {}}, {"no", {}}});
    shared = PagedKv::make({&param, directory()}).value();
    model = std::get<std::unique_ptr<SteppedRole>>(make(language_model_plugin()));
    denoiser = std::get<std::unique_ptr<SteppedRole>>(make(denoiser_plugin()));
    codec = std::get<std::unique_ptr<Role>>(make(image_codec_plugin()));
    vision = std::get<std::unique_ptr<Role>>(make(vision_encoder_plugin()));
  }
  RoleInstance make(const Plugin& plugin) {
    RoleMaking making;
    making.role = plugin.declaration.name == "language_model" ? &role : &plain;
    making.model_directory = directory();
    if (plugin.declaration.session_state) making.global_params = {shared.get()};
    return std::move(plugin.make(making)).value();
  }
  PagedKv& kv() { return static_cast<PagedKv&>(*shared); }
  KvSequence& sequence(const std::string& session = "s") {
    return kv().conversation(session).written.sequence;
  }

  /// A piece of a turn; the last one asks for the answer. `step`: behind so many turns.
  FakeActivation& say(const std::string& text, std::uint64_t call, bool last = true,
                      const std::string& session = "s", std::optional<std::int64_t> step = {}) {
    FakeActivation embed("embed", session);
    auto* payload = new Payload;
    payload->type = ValueType::text;
    payload->text = text;
    if (!last) payload->attributes = {{"generate", 0}};  // without it a text is a whole message
    if (step) payload->attributes.emplace_back("step", *step);
    embed.give("text", PayloadRef(payload));
    std::vector<StepOutcome> embedded;
    SteppedRole& embedder = *embedder_();
    embedder.admit(embed);
    while (embedder.busy()) embedder.step(embedded);
    FakeActivation& activation = activations.emplace_back("generate", session);
    activation.call_number = call;
    activation.give("hidden", embed.frames.at(0).second);
    model->admit(activation);
    return activation;
  }
  void run() {
    while (model->busy()) model->step(ended);
  }
  bool well(const FakeActivation& activation) const {
    for (const StepOutcome& outcome : ended)
      if (outcome.activation == &activation) return outcome.result.ok();
    return false;
  }

 private:
  /// Another instance, so that embedding advances nobody's turn.
  SteppedRole* embedder_() {
    if (!second_) second_ = std::get<std::unique_ptr<SteppedRole>>(make(language_model_plugin()));
    return second_.get();
  }
  std::unique_ptr<SteppedRole> second_;
};

inline std::string frames_in_words(const FakeActivation& activation) {
  std::string text;
  for (const auto& [field, payload] : activation.frames) text += field + ":" + payload->text + " ";
  return text;
}

}  // namespace sluice
