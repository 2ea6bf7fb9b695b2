#include "roles/drawing_role.h"

#include <algorithm>
#include <utility>

#include "roles/emissions.h"

namespace sluice {

namespace {

/// A drawing that was asked for.
struct Asked {
  Activation* activation = nullptr;
  DrawingOptions options;
  std::unique_ptr<Drawing> drawing;  // null: not begun
  TaskId id = 0;
};

class DrawingRole final : public SteppedRole {
 public:
  DrawingRole(std::unique_ptr<Painter> painter, const EngineOptions& options)
      : painter_(std::move(painter)), priority_(options.priority), time_(options.deadline) {}
  ~DrawingRole() override {
    SharedEngine::Turn mine(painter_->engine());
    mine.was_used();
    for (const Asked& asked : asked_) mine.engine().remove(asked.id);
    asked_.clear();
  }
  DrawingRole(const DrawingRole&) = delete;
  DrawingRole& operator=(const DrawingRole&) = delete;

  void admit(Activation& activation) override {
    const Nanoseconds now = engine_clock();
    asked_.push_back(
        {&activation, {priority_, now, time_ != 0 ? now + time_ : no_deadline, {}}, nullptr, 0});
  }
  bool busy() const override { return !asked_.empty(); }
  void step(std::vector<StepOutcome>& ended) override;

 private:
  Result<void> begin(Asked& asked, SharedEngine::Turn& mine);
  void finish(Asked& asked, Result<void> outcome, SharedEngine::Turn& mine,
              std::vector<StepOutcome>& ended);
  void look(Asked& asked, SharedEngine::Turn& mine, std::vector<StepOutcome>& ended);

  std::unique_ptr<Painter> painter_;
  const std::uint8_t priority_;
  const Nanoseconds time_;  // for a drawing; 0: any
  std::vector<Asked> asked_;
  Emissions emissions_;
};

Result<void> DrawingRole::begin(Asked& asked, SharedEngine::Turn& mine) {
  Result<std::unique_ptr<Drawing>> made = painter_->begin(*asked.activation, asked.options);
  if (!made.ok()) return made.error();
  asked.drawing = std::move(made).value();
  if (!asked.drawing->done()) asked.id = mine.add(*asked.drawing);
  return {};
}

void DrawingRole::finish(Asked& asked, Result<void> outcome, SharedEngine::Turn& mine,
                         std::vector<StepOutcome>& ended) {
  if (asked.drawing != nullptr) mine.engine().remove(asked.id);
  asked.drawing.reset();
  ended.push_back({asked.activation, std::move(outcome)});
  asked.activation = nullptr;
}

void DrawingRole::look(Asked& asked, SharedEngine::Turn& mine, std::vector<StepOutcome>& ended) {
  if (asked.activation->cancelled())
    return finish(asked, Error{ErrorCode::cancelled, "the drawing was cancelled"}, mine, ended);
  if (asked.drawing == nullptr) {
    if (Result<void> begun = begin(asked, mine); !begun.ok()) finish(asked, begun, mine, ended);
    return;
  }
  Drawing& drawing = *asked.drawing;
  if (!drawing.done()) return;
  if (drawing.error().has_value()) return finish(asked, *drawing.error(), mine, ended);
  Result<Tensor> latents =
      asked.activation->output_of_f32("latents", painter_->shape(), drawing.take_latents());
  if (!latents.ok()) return finish(asked, latents.error(), mine, ended);
  emissions_.add(*asked.activation, "latents", make_tensor(std::move(latents).value()));
  finish(asked, {}, mine, ended);
}

void DrawingRole::step(std::vector<StepOutcome>& ended) {
  const auto look_at_all = [&](SharedEngine::Turn& mine, bool begun_only) {
    for (Asked& asked : asked_)
      if (!begun_only || asked.drawing != nullptr) look(asked, mine, ended);
    std::erase_if(asked_, [](const Asked& asked) { return asked.activation == nullptr; });
  };
  {
    SharedEngine::Turn mine(painter_->engine());
    look_at_all(mine, false);
    const bool ran = mine.forward();
    look_at_all(mine, true);
    if (ran || !ended.empty()) mine.was_used();
  }
  emissions_.send();
}

}  // namespace

std::unique_ptr<SteppedRole> make_drawing_role(std::unique_ptr<Painter> painter,
                                               const EngineOptions& options) {
  return std::make_unique<DrawingRole>(std::move(painter), options);
}

}  // namespace sluice
