// What a picture's features are known by, for whoever keeps keys and values of them.
#include "roles/picture_features.h"

#include "chat_world.h"

using namespace sluice;

TEST_CASE("features of another grid are another picture") {
  const Model model = Model::open(directory).value();
  const auto content = [&](std::int64_t rows, std::int64_t columns, float value) {
    const PayloadRef made = make_tensor(Tensor::of_f32({8, 64}, std::vector<float>(8 * 64, value)),
                                        {{"grid_t", 1}, {"grid_h", rows}, {"grid_w", columns}});
    const Result<PictureInput> picture = picture_of(*made, model);
    REQUIRE(picture.ok());
    CHECK(picture->content.size() == 32);
    return picture->content;
  };
  CHECK((content(4, 8, 1) == content(4, 8, 1)));  // bytes that nobody can read
  CHECK((content(4, 8, 1) != content(8, 4, 1)));
  CHECK((content(4, 8, 1) != content(2, 16, 1)));
  CHECK((content(4, 8, 1) != content(4, 8, 2)));
}
