#include "runtime/wire/payload_codec.h"

#include <cstring>
#include <utility>

#include "runtime/wire/codec.h"

namespace sluice::wire {

namespace {

// Which parts follow. A part that is empty is left out.
constexpr std::uint8_t has_text = 1;
constexpr std::uint8_t has_tensor = 2;
constexpr std::uint8_t has_number = 4;
constexpr std::uint8_t has_attributes = 8;
constexpr std::uint8_t has_lent = 16;  // a tensor whose bytes are not in the message
constexpr std::uint8_t all_parts = 31;
constexpr std::size_t name_max = 256;
constexpr std::uint64_t most_of_all = ~std::uint64_t{0};

bool is_there(const Tensor& tensor) { return !tensor.shape().empty() || tensor.count() != 0; }

struct TensorHead {
  Dtype dtype = Dtype::u8;
  std::vector<std::int64_t> shape;
};

void put_tensor_head(const Tensor& tensor, ByteWriter& writer) {
  writer.u8(static_cast<std::uint8_t>(tensor.dtype()));
  writer.number(tensor.shape().size());
  for (const std::int64_t size : tensor.shape()) writer.number(static_cast<std::uint64_t>(size));
}

TensorHead read_tensor_head(ByteReader& reader) {
  const auto dtype = static_cast<Dtype>(
      reader.number("a tensor's dtype", static_cast<std::uint64_t>(Dtype::bf16)));
  std::vector<std::int64_t> shape(reader.count("a tensor's rank", Tensor::rank_max));
  for (std::int64_t& size : shape)
    size = static_cast<std::int64_t>(reader.number("a dimension", std::uint64_t{1} << 62U));
  return {dtype, std::move(shape)};
}

void read_tensor(ByteReader& reader, Tensor& tensor) {
  TensorHead head = read_tensor_head(reader);
  if (!reader.ok()) return;
  // No more than what is left, so nothing is allocated for bytes that are not there.
  Result<Tensor> made = Tensor::zeros(head.dtype, std::move(head.shape), reader.left());
  if (!made) return reader.fail(made.error().message);
  tensor = std::move(made).value();
  const std::span<const std::byte> data = reader.bytes(tensor.bytes_size(), "a tensor's bytes");
  if (!data.empty()) std::memcpy(tensor.bytes().data(), data.data(), data.size());
}

void put_handle(const Handle& handle, ByteWriter& writer) {
  writer.number(handle.slab);
  writer.number(handle.block);
  writer.number(handle.generation);
}

/// How many bytes the handle stands for is what the shape says, and nothing else.
void read_lent(ByteReader& reader, Tensor& tensor, Lending& lending, std::size_t bytes_max) {
  TensorHead head = read_tensor_head(reader);
  Handle handle;
  handle.slab = static_cast<std::uint32_t>(reader.number("a slab", 0xffffffffU));
  handle.block = static_cast<std::uint32_t>(reader.number("a block", 0xffffffffU));
  handle.generation = reader.number("a generation", most_of_all);
  if (!reader.ok()) return;
  if (lending.lender == nullptr)
    return reader.fail("a value in memory that this machine does not share");
  const Result<std::size_t> size = Tensor::bytes_of(head.dtype, head.shape);
  if (!size) return reader.fail(size.error().message);
  if (*size == 0 || *size > bytes_max - lending.bytes)
    return reader.fail("a value of " + std::to_string(*size) + " bytes in shared memory");
  Result<Ref<Buffer>> bytes = lending.lender->borrow(lending.other, handle, *size);
  if (!bytes) return reader.fail(bytes.error().message);
  lending.bytes += *size;
  tensor = Tensor::over(head.dtype, std::move(head.shape), std::move(*bytes)).value();
}

}  // namespace

Result<void> put_payload(const Payload& payload, ByteWriter& writer, Lending& lending) {
  if (payload.attributes.size() > attributes_max)
    return Error{ErrorCode::exhausted, "a value with " + std::to_string(payload.attributes.size()) +
                                           " attributes; the limit is " +
                                           std::to_string(attributes_max)};
  const bool tensor = is_there(payload.tensor);
  std::optional<Handle> handle;
  if (tensor && lending.lender != nullptr && payload.tensor.buffer())
    handle = lending.lender->lend(lending.other, payload.tensor.buffer());
  const std::uint8_t tensor_part = handle ? has_lent : has_tensor;
  if (handle) {
    lending.handles.push_back(*handle);
    lending.bytes += payload.tensor.bytes_size();
  }
  writer.u8(static_cast<std::uint8_t>(payload.type));
  writer.u8(static_cast<std::uint8_t>((payload.text.empty() ? 0U : has_text) |
                                      (tensor ? tensor_part : 0U) |
                                      (payload.number == 0 ? 0U : has_number) |
                                      (payload.attributes.empty() ? 0U : has_attributes)));
  if (!payload.text.empty()) writer.text(payload.text);
  if (tensor) {
    put_tensor_head(payload.tensor, writer);
    handle ? put_handle(*handle, writer) : writer.bytes(payload.tensor.bytes());
  }
  if (payload.number != 0) writer.signed_number(payload.number);
  if (payload.attributes.empty()) return {};
  writer.number(payload.attributes.size());
  for (const auto& [name, value] : payload.attributes) {
    if (name.size() > name_max)
      return Error{ErrorCode::exhausted, "an attribute's name of " + std::to_string(name.size()) +
                                             " bytes; the limit is " + std::to_string(name_max)};
    writer.text(name);
    writer.signed_number(value);
  }
  return {};
}

PayloadRef read_payload(ByteReader& reader, Lending& lending, std::size_t bytes_max) {
  auto* payload = new Payload;
  const PayloadRef made(payload);
  payload->type = static_cast<ValueType>(
      reader.number("a value's type", static_cast<std::uint64_t>(ValueType::bytes)));
  const std::uint64_t parts = reader.number("a value's parts", all_parts);
  if ((parts & has_text) != 0) {
    payload->text = reader.text("a value's text", most_of_all);
    if (payload->text.empty()) reader.fail("an empty text where one was announced");
  }
  if ((parts & has_tensor) != 0) read_tensor(reader, payload->tensor);
  if ((parts & has_lent) != 0) {
    if ((parts & has_tensor) != 0) reader.fail("a tensor that is there twice");
    read_lent(reader, payload->tensor, lending, bytes_max);
  }
  if ((parts & has_number) != 0) {
    payload->number = reader.signed_number("a value's number");
    if (payload->number == 0) reader.fail("a number 0 where another was announced");
  }
  if ((parts & has_attributes) != 0) {
    const std::size_t attributes = reader.count("a value's attributes", attributes_max, 2);
    if (attributes == 0) reader.fail("no attributes where some were announced");
    for (std::size_t i = 0; i < attributes && reader.ok(); ++i) {
      std::string name = reader.text("an attribute's name", name_max);
      payload->attributes.emplace_back(std::move(name), reader.signed_number("an attribute"));
    }
  }
  return reader.ok() ? made : PayloadRef();
}

}  // namespace sluice::wire
