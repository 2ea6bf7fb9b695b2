// All that is read of a configuration, each field of each part: of the sound one in words, and of
// all that differ from it in one value by a digest.
#include <catch2/catch.hpp>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "engine/family/architecture.h"
#include "tests/directories.h"
#include "tests/journal.h"
#include "tests/outcomes.h"

namespace sluice {
namespace {

using Json = nlohmann::json;

struct Words {
  std::string text;
  template <typename... Values>
  void add(const char* name, Values... values) {
    text += std::string(text.empty() ? "" : "; ") + name;
    (number(static_cast<double>(values)), ...);
  }
  void number(double value) {
    char shown[32];
    std::snprintf(shown, sizeof shown, " %.9g", value);
    text += shown;
  }
  template <typename List>
  void list(const char* name, const List& values) {
    text += std::string("; ") + name;
    for (const auto value : values) number(static_cast<double>(value));
  }
  void add(const BlockShape& b) {
    add("block", b.width, b.heads, b.kv_heads, b.head_dim, b.mlp, static_cast<int>(b.norm), b.eps,
        b.eps2, b.norm_plus_one, b.adaptive, b.layer_scale, static_cast<int>(b.activation), b.gated,
        b.qkv_bias, b.out_bias, b.mlp_bias);
  }
  void add(const char* name, const DecoderShape& d) {
    add(name, d.layers, d.vocabulary, d.positions_max, d.embedding_scale, d.tied, d.cross_every,
        d.head);
    add(d.block);
    add("rope", d.rope.theta, static_cast<int>(d.rope.scaling), d.rope.factor,
        d.rope.low_freq_factor, d.rope.high_freq_factor, d.rope.original_positions);
    list("sections", d.rope.sections);
    list("divisors", d.rope.divisors);
    list("without rope", d.layers_without_rope);
  }
  void add(const char* name, const TowerShape& t) {
    add(name, t.layers, t.side, t.patch, t.registers, t.class_position, t.class_token, t.final_norm,
        t.keep_extra);
    add(t.block);
  }
};

void add_layers(const std::vector<CodecLayer>& layers, Words& words) {
  for (const CodecLayer& layer : layers) {
    words.add(layer.name.c_str(), static_cast<int>(layer.kind), layer.in, layer.out, layer.stride,
              layer.body.size());
    add_layers(layer.body, words);
  }
}

void add_pictures(const Architecture& a, Words& words) {
  if (a.vision) words.add("vision", *a.vision);
  if (a.second_vision) words.add("second", *a.second_vision);
  if (const auto& q = a.qwen_vision) {
    words.add("qwen", q->layers, q->patch, q->temporal, q->merge, q->window, q->out_width);
    words.add(q->block);
    words.list("full", q->full_layers);
  }
  if (const auto& d = a.diffusion) {
    words.add("trunk", d->trunk);
    words.add("diffusion", d->side, d->patch, d->channels, d->out_channels, d->classes,
              d->train_steps);
  }
  if (const auto& v = a.vae) {
    words.add("vae", v->latent_channels, v->out_channels, v->groups, v->residuals, v->attention,
              v->post_convolution, v->scaling, v->shift);
    words.list("channels", v->channels);
  }
  if (const auto& c = a.codec) {
    words.add("codec", c->side, c->channels, c->latent, c->patch, c->encoder.size(),
              c->decoder.size());
    words.add("tokens", c->tokens(), c->token_values());
    add_layers(c->encoder, words);
    add_layers(c->decoder, words);
  }
  if (const auto& f = a.flow)
    words.add("flow", f->width, f->tokens, f->token_values, f->time_values, f->min_period,
              f->max_period, f->predicts_x0, f->steps, f->guidance);
}

std::string words_of(const Architecture& a) {
  Words words;
  words.text = to_string(a.family);
  if (a.text) words.add("text", *a.text);
  add_pictures(a, words);
  if (const auto& p = a.action) {
    words.add("expert", p->expert);
    words.add("action", p->horizon, p->dims, p->steps, p->cameras, p->state_dims,
              p->causal_language);
  }
  if (const auto& t = a.turns)
    words.add("turns", t->bos, t->eos, t->user, t->assistant, t->image, t->image_end, t->draw);
  for (const ActionStatistics& one : a.statistics) {
    words.text += "; of " + one.dataset;
    words.list("low", one.low);
    words.list("high", one.high);
    words.list("scaled", one.scaled);
  }
  words.add("others", a.action_tokens_end, a.image_token, a.pixel_shuffle, a.projector_hidden,
            a.bidirectional_prefix, static_cast<int>(a.usual_format));
  return words.text;
}

std::string read(const Json& json) {
  const Result<Architecture> made = Architecture::parse(json.dump(), "c");
  return made.ok() ? words_of(*made)
                   : std::string(to_string(made.error().code)) + ", " + made.error().message;
}

/// Each number, flag and text below `at` as another one, and each key left out.
void change(Json& whole, Json& at, std::vector<std::string>& journal) {
  std::size_t place = 0;
  for (auto it = at.begin(); it != at.end(); ++it, ++place) {
    if (it->is_structured()) {
      if (at.is_object() || place < 3) change(whole, *it, journal);
      continue;
    }
    if (at.is_array() && place > 3) continue;
    const Json was = *it;
    std::vector<Json> others{Json(), Json("x"), Json(true), Json(0)};
    if (was.is_number())
      for (const double factor : {0.5, 2.0, 3.0, -1.0})
        others.push_back(was.is_number_integer()
                             ? Json(static_cast<std::int64_t>(was.get<double>() * factor))
                             : Json(was.get<double>() * factor));
    if (was.is_number_integer())
      others.insert(others.end(), {was.get<std::int64_t>() + 1, was.get<std::int64_t>() - 1});
    if (was.is_boolean()) others.emplace_back(!was.get<bool>());
    if (was.is_string())
      others.insert(others.end(), {Json("gelu"), Json("silu"), Json("gelu_pytorch_tanh"),
                                   Json("linear"), Json("llama3"), Json("mrope")});
    for (const Json& other : others) {
      *it = other;
      journal.push_back(read(whole));
    }
    *it = was;
  }
  if (!at.is_object()) return;
  const Json all = at;
  for (const auto& [key, value] : all.items()) {
    at.erase(key);
    journal.push_back(read(whole));
    at = all;
  }
}

}  // namespace

TEST_CASE("each field that is read of each family's configuration is what it was") {
  test::Outcomes outcomes("whole_configurations");
  const std::string source = SLUICE_SOURCE_DIR;
  for (const char* folder :
       {"tests/golden/dinov2", "tests/golden/dit", "tests/golden/gemma", "tests/golden/llama",
        "tests/golden/llama3", "tests/golden/openvla", "tests/golden/paligemma", "tests/golden/pi0",
        "tests/golden/pi05", "tests/golden/qwen2", "tests/golden/qwen2_5_vl", "tests/golden/siglip",
        "tests/golden/smollm3", "tests/golden/smolvla", "tests/golden/smolvlm", "tests/golden/vae",
        "models/scenes"}) {
    INFO(folder);
    std::ifstream file(source + "/" + folder + "/config.json");
    REQUIRE(file);
    Json json = Json::parse(file);
    outcomes.add(folder, read(json));
    std::vector<std::string> journal;
    change(json, json, journal);
    outcomes.add(folder, test::digest_of(journal));
  }
  outcomes.require_as_kept();
}

}  // namespace sluice
