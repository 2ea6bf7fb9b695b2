#include "roles/vision_encoder.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "engine/picture/picture_cache.h"
#include "engine/tasks/encoding.h"
#include "roles/contents.h"
#include "roles/emissions.h"
#include "roles/engine_options.h"
#include "roles/picture_features.h"
#include "roles/policy_role.h"
#include "roles/shared_model.h"
#include "roles/tenant.h"

namespace sluice {

namespace {

constexpr std::string_view option_names[] = {"precision", "step_tokens", "priority"};
constexpr std::size_t seen_bytes_max = std::size_t{64} << 20U;

/// Of the rows: the decoder's where there is one.
std::size_t width_of(const Architecture& model) {
  return model.text.has_value() ? model.text->block.width : model.vision->block.width;
}

/// What an activation shows: one picture, or what cameras see.
Result<PictureInput> prepare(const Activation& activation, const PictureSteps& steps,
                             const Architecture& model) {
  if (activation.interface() == "encode")
    return prepare_picture(steps, model, activation.input("image")->tensor);
  Result<std::vector<float>> pixels = read_cameras(activation, steps, model);
  if (!pixels.ok()) return pixels.error();
  if (pixels->empty()) return invalid_argument("no camera's picture came: " + camera_names());
  PictureInput made;
  made.pixels = std::move(pixels).value();
  return made;
}

/// By which it is found again; empty: it is not kept, for what a robot sees does not come again.
std::string content_of(const Activation& activation) {
  if (activation.interface() != "encode") return {};
  const Payload& image = *activation.input("image");
  const Result<std::string> tenant = tenant_of(image);
  return tenant.ok() ? picture_content(image.tensor, *tenant) : std::string();
}

/// The tower of a checkpoint, and its projector where it has a decoder.
class VisionEncoder final : public Role {
 public:
  VisionEncoder(Model model, PictureSteps steps)
      : model_(std::move(model)), steps_(std::move(steps)) {}

  Result<void> run(Activation& activation) override {
    const std::string content = content_of(activation);
    if (const PictureInput* seen = content.empty() ? nullptr : seen_.find(content))
      return yield(*seen, activation);
    Result<PictureInput> made = prepare(activation, steps_, model_.architecture());
    if (!made.ok()) return made.error();
    Result<std::vector<float>> features = model_.features(made->pixels, made->grids);
    if (!features.ok()) return features.error();
    made->features = std::move(features).value();
    made->pixels = {};
    made->content = content;
    if (!content.empty()) seen_.keep(*made);
    return yield(*made, activation);
  }

 private:
  Result<void> yield(const PictureInput& seen, Activation& activation) const {
    Result<PayloadRef> features =
        features_payload(seen, width_of(model_.architecture()), activation);
    if (!features.ok()) return features.error();
    activation.yield("features", std::move(features).value());
    return {};
  }

  Model model_;
  PictureSteps steps_;
  PictureCache seen_{seen_bytes_max};
};

/// The tower of the checkpoint that a paged_kv holds: its encodings go into the forwards of all.
class SharedEncoder final : public SteppedRole {
 public:
  SharedEncoder(SharedModel shared, PictureSteps steps, std::uint8_t priority)
      : model_(*shared.model),
        engine_(*shared.engine),
        steps_(std::move(steps)),
        priority_(priority) {}
  ~SharedEncoder() override {
    SharedEngine::Turn mine(engine_);
    mine.was_used();
    for (const Asked& asked : asked_) mine.engine().remove(asked.id);
    asked_.clear();
  }
  SharedEncoder(const SharedEncoder&) = delete;
  SharedEncoder& operator=(const SharedEncoder&) = delete;

  void admit(Activation& activation) override { asked_.push_back({&activation, {}, {}, {}, 0}); }
  bool busy() const override { return !asked_.empty(); }

  void step(std::vector<StepOutcome>& ended) override {
    look_at_one();
    {
      SharedEngine::Turn mine(engine_);
      advance(mine, ended);
      const bool ran = mine.forward();
      advance(mine, ended);
      if (ran || !ended.empty()) mine.was_used();
    }
    emissions_.send();
  }

 private:
  struct Asked {
    Activation* activation = nullptr;
    std::optional<PictureInput> picture;  // once it has been looked at
    Result<void> outcome;                 // of looking at it
    std::unique_ptr<Encoding> encoding;
    TaskId id = 0;
  };

  /// Outside the turn: the works of others go on meanwhile.
  void look_at_one() {
    for (Asked& asked : asked_) {
      if (asked.picture.has_value() || asked.activation->cancelled()) continue;
      asked.picture.emplace();
      Result<PictureInput> made = prepare(*asked.activation, steps_, model_.architecture());
      if (made.ok())
        asked.picture = std::move(made).value();
      else
        asked.outcome = made.error();
      asked.picture->content = content_of(*asked.activation);
      return;
    }
  }

  void end(Asked& asked, Result<void> outcome, SharedEngine::Turn& mine,
           std::vector<StepOutcome>& ended) {
    mine.engine().remove(asked.id);
    if (outcome.ok()) {
      Result<PayloadRef> features =
          features_payload(*asked.picture, width_of(model_.architecture()), *asked.activation);
      if (features.ok())
        emissions_.add(*asked.activation, "features", std::move(features).value());
      else
        outcome = features.error();
    }
    asked.encoding.reset();
    ended.push_back({asked.activation, std::move(outcome)});
    asked.activation = nullptr;
  }

  /// One that is the same as another's under way waits for that.
  bool is_under_way(const std::string& content) const {
    return !content.empty() && std::ranges::any_of(asked_, [&](const Asked& other) {
      return other.encoding != nullptr && other.picture->content == content;
    });
  }

  void begin(Asked& asked, SharedEngine::Turn& mine, std::vector<StepOutcome>& ended) {
    PictureInput& picture = *asked.picture;
    if (is_under_way(picture.content)) return;
    if (const PictureInput* seen =
            picture.content.empty() ? nullptr : seen_.find(picture.content)) {
      picture = *seen;
      return end(asked, {}, mine, ended);
    }
    Result<std::unique_ptr<Encoding>> made =
        Encoding::make(model_, std::move(picture.pixels), picture.grids, {priority_, no_deadline});
    if (!made.ok()) return end(asked, made.error(), mine, ended);
    asked.encoding = std::move(made).value();
    asked.id = mine.add(*asked.encoding);
  }

  void take(Asked& asked, SharedEngine::Turn& mine, std::vector<StepOutcome>& ended) {
    if (asked.encoding->error().has_value())
      return end(asked, *asked.encoding->error(), mine, ended);
    asked.picture->features = asked.encoding->take_features();
    asked.picture->pixels = {};
    if (!asked.picture->content.empty()) seen_.keep(*asked.picture);
    end(asked, {}, mine, ended);
  }

  void advance(SharedEngine::Turn& mine, std::vector<StepOutcome>& ended) {
    for (Asked& asked : asked_) {
      if (asked.activation->cancelled())
        end(asked, Error{ErrorCode::cancelled, "the call was cancelled"}, mine, ended);
      else if (!asked.outcome.ok())
        end(asked, asked.outcome, mine, ended);
      else if (asked.encoding != nullptr && asked.encoding->done())
        take(asked, mine, ended);
      else if (asked.encoding == nullptr && asked.picture.has_value())
        begin(asked, mine, ended);
    }
    std::erase_if(asked_, [](const Asked& asked) { return asked.activation == nullptr; });
  }

  const Model& model_;
  SharedEngine& engine_;
  PictureSteps steps_;
  std::uint8_t priority_;
  PictureCache seen_{seen_bytes_max};
  std::vector<Asked> asked_;
  Emissions emissions_;
};

Result<RoleInstance> make(const RoleMaking& making) {
  const std::string& directory = making.model_directory;
  const Result<EngineOptions> options =
      read_engine_options(*making.role, directory, engine_options(option_names));
  if (!options.ok()) return options.error();
  const Result<Architecture> architecture = Architecture::load(directory);
  if (!architecture.ok()) return architecture.error();
  Result<PictureSteps> steps = PictureSteps::load(directory, *architecture);
  if (!steps.ok()) return steps.error();
  if (!making.global_params.empty()) {
    const Result<SharedModel> shared = shared_model_of(making, *options);
    if (!shared.ok()) return shared.error();
    return RoleInstance(std::unique_ptr<SteppedRole>(
        std::make_unique<SharedEncoder>(*shared, std::move(steps).value(), options->priority)));
  }
  for (const OptionSpec& option : making.role->options)
    if (Result<void> read = check_option_alone(*making.role, option.key.text); !read.ok())
      return read.error();
  Result<Model> model = Model::open(directory, options->format, ModelParts::pictures);
  if (!model.ok()) return model.error();
  return RoleInstance(std::unique_ptr<Role>(
      std::make_unique<VisionEncoder>(std::move(model).value(), std::move(steps).value())));
}

std::vector<Port> cameras() {
  std::vector<Port> ports;
  for (const std::string_view camera : camera_ports)
    ports.push_back({.name = std::string(camera),
                     .type = ValueType::image,
                     .meaning = "what a camera sees",
                     .frames = PortFrames::at_most_one});
  return ports;
}

Port features(const char* meaning) {
  return {.name = "features",
          .type = ValueType::tensor,
          .meaning = meaning,
          .dtype = Dtype::f32,
          .shape = {any_size, any_size},
          .content = contents::picture_rows};
}

}  // namespace

Plugin vision_encoder_plugin() {
  Plugin plugin;
  plugin.declaration = {.name = "vision_encoder",
                        .meaning = "looks at a picture of any size",
                        .interfaces = {{.name = "encode",
                                        .inputs = {{.name = "image",
                                                    .type = ValueType::image,
                                                    .meaning = "the picture",
                                                    .frames = PortFrames::one}},
                                        .outputs = {features("its feature tokens")},
                                        .frames = {},
                                        .yields_max = 1},
                                       {.name = "encode_cameras",
                                        .inputs = cameras(),
                                        .outputs = {features("what a robot sees")},
                                        .frames = {},
                                        .yields_max = 1}},
                        .session_state = false,
                        .needs_model = true,
                        .any_ports = false,
                        .global_param_kinds = {"paged_kv"},
                        .options = engine_options(option_names)};
  plugin.make = make;
  return plugin;
}

}  // namespace sluice
