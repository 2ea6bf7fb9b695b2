// Pictures that were seen are kept while there is room, those used last: beside a plain list.
#include "engine/picture/picture_cache.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>

#include "base/random.h"

using namespace sluice;

namespace {

PictureInput picture(std::uint64_t name, std::size_t pixels, std::size_t features) {
  PictureInput made;
  made.content = "picture " + std::to_string(name);
  made.pixels.assign(pixels, 1);
  made.features.assign(features, static_cast<float>(name));
  return made;
}

}  // namespace

TEST_CASE("a cache of pictures keeps what was used last, to the byte") {
  struct Kept {
    std::uint64_t name;
    std::size_t bytes;
  };
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SplitMix64 random(seed);
    const std::size_t most = 40 + 4 * (random.next() % 30);
    PictureCache cache(most);
    std::deque<Kept> want;  // used last first
    for (int i = 0; i < 300; ++i) {
      const std::uint64_t name = random.next() % 12;
      const std::size_t pixels = random.next() % 4, features = random.next() % 16;
      auto it = std::ranges::find(want, name, &Kept::name);
      if (random.next() % 2 == 0) {
        const PictureInput* found = cache.find("picture " + std::to_string(name));
        REQUIRE((found != nullptr) == (it != want.end()));
        if (found == nullptr) continue;
        CHECK(found->content == "picture " + std::to_string(name));
        CHECK((found->pixels.size() + found->features.size()) * 4 == it->bytes);
        std::rotate(want.begin(), it, it + 1);
        continue;
      }
      cache.keep(picture(name, pixels, features));
      const std::size_t bytes = (pixels + features) * 4;
      if (bytes > most) continue;
      if (it != want.end()) {
        std::rotate(want.begin(), it, it + 1);
        continue;
      }
      want.push_front({name, bytes});
      const auto sum = [&] {
        std::size_t all = 0;
        for (const Kept& one : want) all += one.bytes;
        return all;
      };
      while (sum() > most) want.pop_back();
    }
    for (std::uint64_t name = 0; name < 12; ++name)
      CHECK((cache.find("picture " + std::to_string(name)) != nullptr) ==
            (std::ranges::find(want, name, &Kept::name) != want.end()));
  }
}
