// The role that turns latents into pictures: which latents it takes, and a picture that finds no
// place.
#include "roles/image_codec.h"

#include <catch2/catch.hpp>
#include <memory>

#include "fake_activation.h"
#include "tests/directories.h"

using namespace sluice;

namespace {

std::unique_ptr<Role> decoder() {
  RoleSpec role;
  role.name.text = "role";
  RoleMaking making;
  making.role = &role;
  making.model_directory = std::string(SLUICE_SOURCE_DIR) + "/tests/golden/vae";
  Result<RoleInstance> made = image_codec_plugin().make(making);
  REQUIRE(made.ok());
  return std::move(std::get<std::unique_ptr<Role>>(*made));
}

PayloadRef latents(std::vector<std::int64_t> shape, Dtype dtype = Dtype::f32) {
  return make_tensor(Tensor::zeros(dtype, std::move(shape)).value());
}

/// Its picture, or what the role says.
std::string decoded(Role& role, const PayloadRef& given) {
  FakeActivation asked("decode");
  asked.give("latents", given);
  const Result<void> ran = role.run(asked);
  CHECK(asked.frames.size() == (ran.ok() ? 1 : 0));
  return ran.ok() ? asked.frames.at(0).second->tensor.describe() : ran.error().message;
}

/// Has no room for an output.
class Full final : public Activation {
 public:
  explicit Full(FakeActivation& inner) : inner_(inner) {}
  std::string_view node() const override { return inner_.node(); }
  std::string_view interface() const override { return inner_.interface(); }
  std::string_view session() const override { return inner_.session(); }
  std::uint64_t call() const override { return inner_.call(); }
  std::size_t group() const override { return inner_.group(); }
  std::span<const PayloadRef> inputs(std::string_view field) const override {
    return inner_.inputs(field);
  }
  using Activation::yield;
  void yield(std::span<const FieldValue> fields) override { inner_.yield(fields); }
  Result<Tensor> make_output(std::string_view, Dtype, std::vector<std::int64_t>) override {
    return Error{ErrorCode::exhausted, "no room for it"};
  }
  void warn(std::string warning) override { inner_.warn(std::move(warning)); }
  bool cancelled() const override { return false; }

 private:
  FakeActivation& inner_;
};

}  // namespace

TEST_CASE("latents of up to 1024 a side become a picture, others are refused by their shape") {
  const std::unique_ptr<Role> role = decoder();
  CHECK(decoded(*role, latents({4, 1, 1024})) == "u8[4, 4096, 3]");
  CHECK(decoded(*role, latents({4, 1024, 1})) == "u8[4096, 4, 3]");
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{4, 1, 1025},
                                                 {4, 1025, 1},
                                                 {4, 0, 1},
                                                 {4, 1, 0},
                                                 {3, 1, 1},
                                                 {5, 1, 1},
                                                 {4, 1},
                                                 {4, 1, 1, 1}}) {
    const PayloadRef given = latents(shape);
    CHECK(decoded(*role, given) == "the latents are " + given->tensor.describe() +
                                       ", this model needs f32[4, height, width] of at most 1024");
  }
  CHECK(decoded(*role, latents({4, 1, 1}, Dtype::i32)).starts_with("the latents are i32[4, 1, 1]"));
}

TEST_CASE("a picture for which there is no room is an error, and nothing is yielded") {
  const std::unique_ptr<Role> role = decoder();
  FakeActivation asked("decode");
  asked.give("latents", latents({4, 2, 2}));
  Full full(asked);
  const Result<void> ran = role->run(full);
  REQUIRE(!ran.ok());
  CHECK(ran.error().message == "no room for it");
  CHECK(asked.frames.empty());
}
