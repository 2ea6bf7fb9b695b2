#include "engine/picture/picture_input.h"

#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "engine/family/architecture_parts.h"
#include "engine/picture/image_resize.h"

namespace sluice {

namespace {

using Channels = PictureSteps::Channels;

constexpr Channels half{0.5F, 0.5F, 0.5F};
constexpr Channels imagenet_mean{0.485F, 0.456F, 0.406F};
constexpr Channels imagenet_deviation{0.229F, 0.224F, 0.225F};
constexpr Channels clip_mean{0.48145466F, 0.4578275F, 0.40821073F};
constexpr Channels clip_deviation{0.26862954F, 0.26130258F, 0.27577711F};
constexpr std::size_t side_max = 1 << 14;

PictureSteps defaults(const Architecture& architecture) {
  PictureSteps steps;
  steps.mean = steps.deviation = {half};
  if (architecture.vision.has_value()) steps.height = steps.width = architecture.vision->side;
  switch (architecture.family) {
    case Family::dinov2:
      steps.fit = PictureSteps::Fit::shortest;
      steps.shortest = 256;
      steps.height = steps.width = 224;
      steps.mean = {imagenet_mean};
      steps.deviation = {imagenet_deviation};
      break;
    case Family::qwen2_5_vl:
      steps.fit = PictureSteps::Fit::whole_patches;
      steps.pixels_min = 56 * 56;
      steps.pixels_max = 28 * 28 * 1280;
      steps.mean = {clip_mean};
      steps.deviation = {clip_deviation};
      break;
    case Family::smolvlm:
      steps.filter = Filter::lanczos;
      steps.longest = 4 * steps.height;
      steps.split = true;
      break;
    case Family::openvla:
      steps.mean = {imagenet_mean, half};
      steps.deviation = {imagenet_deviation, half};
      break;
    case Family::pi0:
    case Family::pi05:
      steps.fit = PictureSteps::Fit::pad_centre;
      steps.filter = Filter::bilinear;
      break;
    case Family::smolvla:
      steps.fit = PictureSteps::Fit::pad_corner;
      break;
    case Family::scenes:
      steps.fit = PictureSteps::Fit::pad_border;
      break;
    default:
      break;
  }
  return steps;
}

void read_channels(JsonReader& reader, const char* key, std::vector<Channels>& to) {
  const Json* list = reader.get(key, true);
  if (list == nullptr || to.size() != 1) return;
  if (!list->is_array() || list->size() != 3) return reader.error(key, "must be three numbers");
  for (std::size_t i = 0; i < 3; ++i) {
    const Json& value = (*list)[i];
    if (!value.is_number()) return reader.error(key, "must be three numbers");
    to[0][i] = value.get<float>();
    if (std::string_view(key) == "image_std" && !(to[0][i] > 0))
      return reader.error(key, "must be above 0");
  }
}

void read_filter(JsonReader& reader, Filter& filter) {
  const Json* value = reader.get("resample", true);
  if (value == nullptr) return;
  const int number = value->is_number_integer() ? value->get<int>() : -1;
  if (number == 1)
    filter = Filter::lanczos;
  else if (number == 2)
    filter = Filter::bilinear;
  else if (number == 3)
    filter = Filter::bicubic;
  else
    reader.error("resample", "must be 1 (Lanczos), 2 (bilinear) or 3 (bicubic)");
}

void read_size(const Json& config, const std::string& place, std::string& problem,
               PictureSteps& steps) {
  JsonReader reader(config, place, problem);
  if (const Json* size = reader.get("size", true)) {
    if (size->is_number_integer() && size->get<std::int64_t>() > 0 &&
        size->get<std::int64_t>() <= static_cast<std::int64_t>(side_max)) {
      steps.height = steps.width = size->get<std::size_t>();
    } else if (size->is_object()) {
      JsonReader sizes(*size, place + "size.", problem);
      std::size_t shortest = steps.shortest;
      std::size_t longest = steps.longest;
      const bool by_area = steps.fit == PictureSteps::Fit::whole_patches;
      const auto most = static_cast<std::int64_t>(by_area ? side_max * side_max : side_max);
      sizes.count("shortest_edge", by_area ? steps.pixels_min : shortest, most);
      sizes.count("longest_edge", by_area ? steps.pixels_max : longest, most);
      if (steps.fit == PictureSteps::Fit::shortest) steps.shortest = shortest;
      steps.longest = steps.longest != 0 ? longest : 0;
      if (steps.fit == PictureSteps::Fit::stretch && steps.longest == 0) {
        sizes.count("height", steps.height, side_max);
        sizes.count("width", steps.width, side_max);
      }
    }
  }
  if (steps.fit == PictureSteps::Fit::whole_patches) {
    reader.count("min_pixels", steps.pixels_min, side_max * side_max);
    reader.count("max_pixels", steps.pixels_max, side_max * side_max);
  }
  if (const Json* tile = reader.object("max_image_size", true)) {
    JsonReader sizes(*tile, place + "max_image_size.", problem);
    sizes.count("longest_edge", steps.height, side_max);
    steps.width = steps.height;
  }
  reader.flag("do_image_splitting", steps.split);
  reader.flag("do_center_crop", steps.crop);
  if (steps.fit != PictureSteps::Fit::shortest) return;
  if (const Json* crop = reader.get("crop_size", true)) {
    if (crop->is_number_integer()) {
      reader.count("crop_size", steps.height, side_max);
      steps.width = steps.height;
    } else if (crop->is_object()) {
      JsonReader sizes(*crop, place + "crop_size.", problem);
      sizes.count("height", steps.height, side_max);
      sizes.count("width", steps.width, side_max);
    }
  }
}

/// Python's round: to even.
double round_even(double v) { return std::nearbyint(v); }

struct Size {
  std::size_t height, width;
};
std::size_t whole(double v) { return static_cast<std::size_t>(v); }

Result<Size> whole_patches(const PictureSteps& steps, const QwenVisionShape& shape, Size from) {
  const auto factor = static_cast<double>(shape.patch * shape.merge);
  const auto h = static_cast<double>(from.height);
  const auto w = static_cast<double>(from.width);
  if (std::max(h, w) / std::min(h, w) > 200)
    return invalid_argument("the picture is more than 200 times as long as wide");
  double rows = round_even(h / factor) * factor;
  double columns = round_even(w / factor) * factor;
  if (rows * columns > static_cast<double>(steps.pixels_max)) {
    const double beta = std::sqrt(h * w / static_cast<double>(steps.pixels_max));
    rows = std::max(factor, std::floor(h / beta / factor) * factor);
    columns = std::max(factor, std::floor(w / beta / factor) * factor);
  } else if (rows * columns < static_cast<double>(steps.pixels_min)) {
    const double beta = std::sqrt(static_cast<double>(steps.pixels_min) / (h * w));
    rows = std::ceil(h * beta / factor) * factor;
    columns = std::ceil(w * beta / factor) * factor;
  }
  return Size{whole(rows), whole(columns)};
}

/// SmolVLM: the long side to `longest`, the other by the ratio and even; at most 4096.
Size longest_size(Size from, std::size_t longest) {
  const double ratio = static_cast<double>(from.width) / static_cast<double>(from.height);
  const auto even = [](std::size_t v) { return v + v % 2; };
  Size size{longest, longest};
  if (from.width >= from.height)
    size.height = even(whole(static_cast<double>(longest) / ratio));
  else
    size.width = even(whole(static_cast<double>(longest) * ratio));
  size = {std::max<std::size_t>(size.height, 1), std::max<std::size_t>(size.width, 1)};
  constexpr std::size_t most = 4096;
  const double now = static_cast<double>(size.width) / static_cast<double>(size.height);
  if (size.width >= size.height && size.width > most)
    size = {whole(static_cast<double>(most) / now), most};
  else if (size.height > size.width && size.height > most)
    size = {most, whole(static_cast<double>(most) * now)};
  return {std::max<std::size_t>(size.height, 1), std::max<std::size_t>(size.width, 1)};
}

/// SmolVLM: both sides to whole tiles, the long one first.
Size tiled_size(Size from, std::size_t tile) {
  const double ratio = static_cast<double>(from.width) / static_cast<double>(from.height);
  const auto up = [&](std::size_t v) { return (v + tile - 1) / tile * tile; };
  Size size{};
  if (from.width >= from.height) {
    size.width = up(from.width);
    size.height = up(whole(static_cast<double>(size.width) / ratio));
  } else {
    size.height = up(from.height);
    size.width = up(whole(static_cast<double>(size.height) * ratio));
  }
  return size;
}

/// Within height x width, in its own ratio.
Size padded_size(const PictureSteps& steps, Size from) {
  const double ratio =
      std::max(static_cast<double>(from.width) / static_cast<double>(steps.width),
               static_cast<double>(from.height) / static_cast<double>(steps.height));
  return {std::max<std::size_t>(1, whole(static_cast<double>(from.height) / ratio)),
          std::max<std::size_t>(1, whole(static_cast<double>(from.width) / ratio))};
}

/// height x width of `from`, from (top, left) on; black where there is none.
RgbPicture crop(const RgbPicture& from, std::ptrdiff_t top, std::ptrdiff_t left, std::size_t height,
                std::size_t width) {
  RgbPicture made{std::vector<std::uint8_t>(height * width * 3), height, width};
  for (std::size_t row = 0; row < height; ++row)
    for (std::size_t column = 0; column < width; ++column) {
      const std::ptrdiff_t y = top + static_cast<std::ptrdiff_t>(row);
      const std::ptrdiff_t x = left + static_cast<std::ptrdiff_t>(column);
      if (y < 0 || x < 0 || y >= static_cast<std::ptrdiff_t>(from.height) ||
          x >= static_cast<std::ptrdiff_t>(from.width))
        continue;
      std::copy_n(
          &from.bytes[(static_cast<std::size_t>(y) * from.width + static_cast<std::size_t>(x)) * 3],
          3, &made.bytes[(row * width + column) * 3]);
    }
  return made;
}

std::ptrdiff_t centred(std::size_t inner, std::size_t outer) {
  return (static_cast<std::ptrdiff_t>(outer) - static_cast<std::ptrdiff_t>(inner)) / 2;
}

RgbPicture fit_shortest(const PictureSteps& steps, const RgbPicture& image) {
  const std::size_t shorter = std::min(image.height, image.width);
  const auto scaled = [&](std::size_t v) {
    return whole(static_cast<double>(steps.shortest * v) / static_cast<double>(shorter));
  };
  const bool tall = image.height >= image.width;
  const RgbPicture sized = resample(image, tall ? scaled(image.height) : steps.shortest,
                                    tall ? steps.shortest : scaled(image.width), steps.filter);
  if (!steps.crop) return sized;
  return crop(sized, centred(steps.height, sized.height), centred(steps.width, sized.width),
              steps.height, steps.width);
}

RgbPicture fit_padded(const PictureSteps& steps, const RgbPicture& image) {
  const Size size = padded_size(steps, {image.height, image.width});
  const RgbPicture sized = resample(image, size.height, size.width, steps.filter);
  return crop(sized, -centred(size.height, steps.height), -centred(size.width, steps.width),
              steps.height, steps.width);
}

/// Appends [3, height, width] of values 0 to 255.
template <typename T>
void append_plane(const std::vector<T>& values, const Channels& mean, const Channels& deviation,
                  std::vector<float>& pixels) {
  for (std::size_t c = 0; c < 3; ++c)
    for (std::size_t i = c; i < values.size(); i += 3) {
      const auto share = static_cast<float>(static_cast<double>(values[i]) * (1.0 / 255));
      pixels.push_back((share - mean[c]) / deviation[c]);
    }
}

void append_plane(const PictureSteps& steps, const RgbPicture& picture,
                  std::vector<float>& pixels) {
  for (std::size_t tower = 0; tower < steps.mean.size(); ++tower)
    append_plane(picture.bytes, steps.mean[tower], steps.deviation[tower], pixels);
}

void append_corner(const PictureSteps& steps, const RgbPicture& image, std::vector<float>& pixels) {
  const Size size = padded_size(steps, {image.height, image.width});
  const std::vector<float> inner = interpolate(image, size.height, size.width);
  std::vector<float> all(steps.height * steps.width * 3);
  for (std::size_t row = 0; row < size.height; ++row)
    std::copy_n(
        &inner[row * size.width * 3], size.width * 3,
        &all[((steps.height - size.height + row) * steps.width + steps.width - size.width) * 3]);
  append_plane(all, steps.mean[0], steps.deviation[0], pixels);
}

/// Patches in the order of the merger, each twice in time.
void append_patches(const QwenVisionShape& shape, const std::vector<float>& plane, Size size,
                    PictureInput& made) {
  const std::size_t patch = shape.patch;
  const std::size_t block = patch * shape.merge;
  for (std::size_t by = 0; by < size.height; by += block)
    for (std::size_t bx = 0; bx < size.width; bx += block)
      for (std::size_t my = by; my < by + block; my += patch)
        for (std::size_t mx = bx; mx < bx + block; mx += patch)
          for (std::size_t c = 0; c < 3; ++c)
            for (std::size_t t = 0; t < shape.temporal; ++t)
              for (std::size_t y = 0; y < patch; ++y) {
                const auto from = plane.begin() + static_cast<std::ptrdiff_t>(
                                                      (c * size.height + my + y) * size.width + mx);
                made.pixels.insert(made.pixels.end(), from,
                                   from + static_cast<std::ptrdiff_t>(patch));
              }
  made.grids.push_back({1, static_cast<std::uint32_t>(size.height / patch),
                        static_cast<std::uint32_t>(size.width / patch)});
}

/// SmolVLM: the tiles, then the whole picture as a tile.
void append_tiles(const PictureSteps& steps, const RgbPicture& image, PictureInput& made) {
  const std::size_t tile = steps.height;
  const Size first = longest_size({image.height, image.width}, steps.longest);
  RgbPicture sized = resample(image, first.height, first.width, steps.filter);
  if (steps.split) {
    const Size size = tiled_size(first, tile);
    sized = resample(sized, size.height, size.width, steps.filter);
    if (size.height > tile || size.width > tile) {
      made.tile_rows = size.height / tile;
      made.tile_columns = size.width / tile;
      for (std::size_t y = 0; y < size.height; y += tile)
        for (std::size_t x = 0; x < size.width; x += tile)
          append_plane(steps,
                       crop(sized, static_cast<std::ptrdiff_t>(y), static_cast<std::ptrdiff_t>(x),
                            tile, tile),
                       made.pixels);
    }
  }
  append_plane(steps, resample(sized, tile, tile, steps.filter), made.pixels);
}

/// A tower of a fixed side reads pictures of that side only; of another size they would be cut into
/// pictures that nobody took. Returns what is wrong, or nothing.
std::string side_problem(const PictureSteps& steps, std::size_t side) {
  const bool cuts = steps.fit == PictureSteps::Fit::shortest;
  if (cuts && !steps.crop) return "'do_center_crop' is false, and the tower reads squares only";
  if (steps.height == side && steps.width == side) return "";
  const std::string key = steps.longest != 0 ? "max_image_size" : cuts ? "crop_size" : "size";
  return "'" + key + "' makes pictures of " + std::to_string(steps.height) + " x " +
         std::to_string(steps.width) + ", and the tower reads " + std::to_string(side) + " x " +
         std::to_string(side);
}

}  // namespace

Result<PictureSteps> PictureSteps::load(const std::string& directory,
                                        const Architecture& architecture) {
  const std::string path = directory + "/preprocessor_config.json";
  const Result<std::string> text = read_whole_file(path, config_bytes_max);
  if (!text.ok() && text.error().code != ErrorCode::not_found) return text.error();
  Result<PictureSteps> steps = parse(text.ok() ? *text : "{}", path, architecture);
  if (!steps.ok() || !architecture.vision.has_value() || steps->fit == Fit::whole_patches)
    return steps;
  const std::string problem = side_problem(*steps, architecture.vision->side);
  if (!problem.empty()) return Error{ErrorCode::corrupt, path + ": " + problem};
  return steps;
}

Result<PictureSteps> PictureSteps::parse(const std::string& json, const std::string& name,
                                         const Architecture& architecture) {
  const Json config = Json::parse(json, nullptr, false);
  if (!config.is_object()) return Error{ErrorCode::corrupt, name + ": not a JSON object"};
  PictureSteps steps = defaults(architecture);
  std::string problem;
  JsonReader reader(config, "", problem);
  // Policies' clients resize as openpi and lerobot do, whatever a processor's file says.
  if (!architecture.action.has_value()) {
    read_filter(reader, steps.filter);
    read_channels(reader, "image_mean", steps.mean);
    read_channels(reader, "image_std", steps.deviation);
    read_size(config, "", problem, steps);
  }
  const bool sized = steps.fit == Fit::whole_patches || (steps.height != 0 && steps.width != 0);
  if (problem.empty() && !sized) reader.error("size", "must be above 0");
  if (problem.empty() && steps.fit == Fit::shortest && steps.shortest == 0)
    reader.error("size.shortest_edge", "must be above 0");
  if (problem.empty() && steps.fit == Fit::whole_patches && steps.pixels_max < 1)
    reader.error("max_pixels", "must be above 0");
  if (!problem.empty()) return Error{ErrorCode::corrupt, name + ": " + problem};
  return steps;
}

Result<PictureInput> prepare_picture(const PictureSteps& steps, const Architecture& architecture,
                                     const Tensor& image) {
  const auto& shape = image.shape();
  if (image.dtype() != Dtype::u8 || shape.size() != 3 || shape[2] != 3 || shape[0] < 1 ||
      shape[1] < 1 || shape[0] > static_cast<std::int64_t>(side_max) ||
      shape[1] > static_cast<std::int64_t>(side_max))
    return invalid_argument("a picture must be u8 [height, width, 3] of at most " +
                            std::to_string(side_max) + " a side, not " + image.describe());
  const RgbPicture picture{{image.u8().begin(), image.u8().end()},
                           static_cast<std::size_t>(shape[0]),
                           static_cast<std::size_t>(shape[1])};
  PictureInput made;
  if (steps.longest != 0) {
    append_tiles(steps, picture, made);
  } else {
    switch (steps.fit) {
      case PictureSteps::Fit::stretch:
        append_plane(steps, resample(picture, steps.height, steps.width, steps.filter),
                     made.pixels);
        break;
      case PictureSteps::Fit::shortest:
        append_plane(steps, fit_shortest(steps, picture), made.pixels);
        break;
      case PictureSteps::Fit::pad_centre:
        append_plane(steps, fit_padded(steps, picture), made.pixels);
        break;
      case PictureSteps::Fit::pad_corner:
        append_corner(steps, picture, made.pixels);
        break;
      case PictureSteps::Fit::pad_border: {
        const Result<Tensor> square = resize_to_square(image, steps.height);
        if (!square.ok()) return square.error();
        append_plane(steps, {{square->u8().begin(), square->u8().end()}, steps.height, steps.width},
                     made.pixels);
        break;
      }
      case PictureSteps::Fit::whole_patches: {
        const QwenVisionShape& vision = *architecture.qwen_vision;
        const Result<Size> size = whole_patches(steps, vision, {picture.height, picture.width});
        if (!size.ok()) return size.error();
        std::vector<float> plane;
        append_plane(steps, resample(picture, size->height, size->width, steps.filter), plane);
        append_patches(vision, plane, *size, made);
        made.feature_rows = size->height * size->width /
                            (vision.patch * vision.patch * vision.merge * vision.merge);
        return made;
      }
    }
  }
  if (architecture.vision.has_value()) {
    const std::size_t merged = architecture.pixel_shuffle * architecture.pixel_shuffle;
    made.feature_rows =
        (made.tile_rows * made.tile_columns + 1) * architecture.vision->patches() / merged;
  }
  return made;
}

}  // namespace sluice
