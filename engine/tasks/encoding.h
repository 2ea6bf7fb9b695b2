// One picture's encoding: through the tower in pieces, between the works of others.
//
// It takes no pages. What it asks for is counted in rows of the decoder that would cost as much, so
// the planner's budget and its predicted times hold for it too. It gets whole pieces: one that
// costs more than the budget goes nevertheless, alone, when it has waited long enough or nobody
// else runs.
// Thread: one. Source: omni-flow, section 5.2.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "engine/tasks/task.h"

namespace sluice {

class Encoding final : public Task {
 public:
  struct Options {
    std::uint8_t priority = 0;
    Nanoseconds deadline = no_deadline;
  };

  /// `pixels` and `grids` as `Model::features` takes them. Borrows the model. Errors:
  /// invalid_argument (they are not what it takes; there is no picture).
  static Result<std::unique_ptr<Encoding>> make(const Model& model, std::vector<float> pixels,
                                                std::vector<Grid> grids, const Options& options);

  /// Requires: done, without an error.
  std::vector<float> take_features() { return picture_.take_features(); }
  const std::optional<Error>& error() const { return error_; }

  bool done() const override { return error_.has_value() || picture_.done(); }
  PagesWanted pages_wanted(TextEngine&) const override { return {0, 0, false}; }
  std::size_t pages_taken() const override { return 0; }
  Need need(const TextEngine& engine) const override;
  void lay_out(const TextEngine& engine, std::size_t rows, Work& work) override;
  void take(TextEngine&, const StepResult&) override {}
  void fail(const Error& error) override { error_ = error; }

 private:
  Encoding(PictureForward picture, const Options& options)
      : picture_(std::move(picture)), options_(options) {}

  PictureForward picture_;
  Options options_;
  std::optional<Error> error_;
};

}  // namespace sluice
