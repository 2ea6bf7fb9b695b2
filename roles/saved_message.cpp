#include "roles/saved_message.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#include "base/little_endian.h"
#include "roles/picture_features.h"
#include "roles/tenant.h"

namespace sluice {

namespace {

constexpr unsigned form = 1, tenants_form = 2;  // the first byte of a record
constexpr std::size_t picture_head = 6 * 4;
constexpr std::size_t pictures_most = 1024;  // of a message

Error wrong(const std::string& what) {
  return Error{ErrorCode::corrupt, "a saved message " + what};
}

/// Reads numbers; a record that is too short makes all further ones 0.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::uint64_t number(unsigned size) {
    const auto part = take(size);
    return part.empty() ? 0 : little_endian(part);
  }
  std::span<const std::byte> take(std::size_t size) {
    if (size > bytes_.size()) {
      is_short_ = true;
      bytes_ = {};
      return {};
    }
    const auto part = bytes_.first(size);
    bytes_ = bytes_.subspan(size);
    return part;
  }
  std::size_t left() const { return bytes_.size(); }
  bool is_short() const { return is_short_; }

 private:
  std::span<const std::byte> bytes_;
  bool is_short_ = false;
};

/// Whether it has a grid; rows; then the grid's three sides, or the tiles down and across and 0.
Result<PictureInput> restore_picture(Reader& in, const Model& reader) {
  const std::uint64_t has_grid = in.number(4), rows = in.number(4);
  const std::uint64_t sides[] = {in.number(4), in.number(4), in.number(4)};
  const std::uint64_t width = in.number(4);
  if (in.is_short() || has_grid > 1) return wrong("ends amid a picture");
  if (width != reader.text().width() || rows > in.left() / sizeof(float) / width)
    return wrong("shows a picture whose rows are not those of this model");
  const auto values = in.take(rows * width * sizeof(float));
  Payload payload;
  payload.type = ValueType::tensor;
  const char* const grid[] = {"grid_t", "grid_h", "grid_w"};
  const char* const tiles[] = {"tile_rows", "tile_columns"};
  for (std::size_t i = 0; i < (has_grid == 1 ? 3U : 2U); ++i)
    payload.attributes.emplace_back(has_grid == 1 ? grid[i] : tiles[i],
                                    static_cast<std::int64_t>(sides[i]));
  Result<Tensor> tensor = Tensor::zeros(
      Dtype::f32, {static_cast<std::int64_t>(rows), static_cast<std::int64_t>(width)});
  if (!tensor.ok()) return tensor.error();
  std::memcpy(tensor->f32().data(), values.data(), values.size());
  payload.tensor = std::move(tensor).value();
  return picture_of(payload, reader);
}

}  // namespace

// The form (1 byte), whether it is the user's (1), of a tenant's session the name's length (1) and
// the name, how many bytes of text and how many pictures (4 each), the text; of each picture
// `picture_head` bytes and its rows. The lowest byte first.
HistoryRecord save_message(const ChatMessage& message) {
  HistoryRecord bytes;
  const auto put = [&](std::uint64_t value, unsigned count) {
    append_little_endian(value, count, bytes);
  };
  put(message.tenant.empty() ? form : tenants_form, 1);
  put(message.role == "user" ? 1 : 0, 1);
  if (!message.tenant.empty()) put(message.tenant.size(), 1);
  for (const char one : message.tenant) bytes.push_back(static_cast<std::byte>(one));
  put(message.text.size(), 4);
  put(message.pictures.size(), 4);
  for (const char one : message.text) bytes.push_back(static_cast<std::byte>(one));
  for (const PictureInput& picture : message.pictures) {
    const bool has_grid = !picture.grids.empty();
    const std::size_t rows = picture.feature_rows;
    put(has_grid ? 1 : 0, 4);
    put(rows, 4);
    put(has_grid ? picture.grids[0][0] : picture.tile_rows, 4);
    put(has_grid ? picture.grids[0][1] : picture.tile_columns, 4);
    put(has_grid ? picture.grids[0][2] : 0, 4);
    put(rows == 0 ? 0 : picture.features.size() / rows, 4);
    const auto values = std::as_bytes(std::span(picture.features));
    bytes.insert(bytes.end(), values.begin(), values.end());
  }
  return bytes;
}

Result<ChatMessage> restore_message(std::span<const std::byte> record, bool is_user,
                                    const Model& reader) {
  Reader in(record);
  const std::uint64_t form_said = in.number(1);
  if (form_said != form && form_said != tenants_form)
    return wrong("is of a form that this version does not know");
  if (in.number(1) != (is_user ? 1 : 0)) return wrong("is not of whose turn it is");
  std::string tenant;
  if (form_said == tenants_form) {
    const auto name = in.take(in.number(1));
    tenant.assign(reinterpret_cast<const char*>(name.data()), name.size());
    if (!is_tenant_name(tenant)) return wrong("names a tenant that cannot be");
  }
  const std::uint64_t text = in.number(4), pictures = in.number(4);
  const auto words = in.take(text);
  if (in.is_short() || pictures > pictures_most || (!is_user && pictures != 0) ||
      pictures > in.left() / picture_head)
    return wrong("is shorter than it says, or shows too many pictures");
  ChatMessage message{is_user ? "user" : "assistant",
                      std::string(reinterpret_cast<const char*>(words.data()), words.size()),
                      {},
                      std::move(tenant)};
  for (std::uint64_t i = 0; i < pictures; ++i) {
    Result<PictureInput> picture = restore_picture(in, reader);
    if (!picture.ok()) return picture.error();
    message.pictures.push_back(std::move(picture).value());
  }
  if (in.left() != 0) return wrong("is longer than it says");
  return message;
}

}  // namespace sluice
