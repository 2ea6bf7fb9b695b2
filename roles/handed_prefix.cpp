#include "roles/handed_prefix.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/little_endian.h"
#include "roles/tenant.h"

namespace sluice {

namespace {

std::int64_t bits_of(float value) { return std::bit_cast<std::int32_t>(value); }
float float_of(std::int64_t bits) { return std::bit_cast<float>(static_cast<std::int32_t>(bits)); }

bool are_tokens(std::span<const std::int32_t> tokens, std::size_t vocabulary) {
  return std::ranges::all_of(tokens, [&](std::int32_t token) {
    return token >= 0 && static_cast<std::size_t>(token) < vocabulary;
  });
}

constexpr std::uint64_t tokens_most = std::uint64_t{1} << 31U;

/// Numbers, lists of tokens and texts behind each other; lengths take 4 bytes, the lowest first.
class Parts {
 public:
  explicit Parts(std::span<const std::byte> bytes) : bytes_(bytes) {}

  bool ok() const { return ok_; }
  bool is_at_end() const { return ok_ && at_ == bytes_.size(); }
  std::uint64_t number(unsigned size) {
    const auto bytes = take(size);
    return ok_ ? little_endian(bytes) : 0;
  }
  std::string text() {
    const auto bytes = take(number(4));
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  std::vector<std::int32_t> tokens() {
    const auto bytes = take(4 * number(4));
    std::vector<std::int32_t> list(bytes.size() / 4);
    for (std::size_t i = 0; i < list.size(); ++i)
      list[i] = static_cast<std::int32_t>(little_endian(bytes.subspan(4 * i, 4)));
    return list;
  }

 private:
  /// None of them where there are fewer.
  std::span<const std::byte> take(std::uint64_t size) {
    ok_ = ok_ && size <= bytes_.size() - at_;
    if (!ok_) return {};
    at_ += size;
    return bytes_.subspan(at_ - size, size);
  }

  const std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
  bool ok_ = true;
};

void append(std::string_view text, std::vector<std::byte>& bytes) {
  append_little_endian(text.size(), 4, bytes);
  for (const char one : text) bytes.push_back(static_cast<std::byte>(one));
}

void append(std::span<const std::int32_t> tokens, std::vector<std::byte>& bytes) {
  append_little_endian(tokens.size(), 4, bytes);
  for (const std::int32_t token : tokens)
    append_little_endian(static_cast<std::uint32_t>(token), 4, bytes);
}

/// What an answer may be told by others; a number below 0 is a very large one here.
bool are_options(std::uint64_t answer, std::uint64_t top_k, float temperature, float top_p) {
  return answer >= 1 && answer <= tokens_most && top_k <= tokens_most && temperature >= 0 &&
         temperature < 1e6F && top_p >= 0 && top_p <= 1e6F;
}

}  // namespace

PayloadRef prefix_frame(const HandedPrefix& prefix) {
  auto* payload = new Payload;
  payload->type = ValueType::number;
  payload->number = static_cast<std::int64_t>(prefix.number);
  payload->attributes = {{"length", static_cast<std::int64_t>(prefix.length)}};
  if (!prefix.from.has_value() && prefix.prompt.empty()) return PayloadRef(payload);
  if (prefix.from.has_value()) {
    payload->attributes.emplace_back("machine", prefix.from->machine);
    payload->attributes.emplace_back("incarnation", prefix.from->incarnation);
  }
  const GenerationOptions& options = prefix.options;
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, std::int64_t>>{
           {"pictures", prefix.has_pictures ? 1 : 0},
           {"tokens_max", static_cast<std::int64_t>(options.tokens_max)},
           {"temperature", bits_of(options.sampling.temperature)},
           {"top_k", static_cast<std::int64_t>(options.sampling.top_k)},
           {"top_p", bits_of(options.sampling.top_p)},
           {"seed", static_cast<std::int64_t>(options.seed)},
           {"share", options.share_prefix ? 1 : 0}})
    payload->attributes.emplace_back(name, value);
  add_tenant(options.tenant, payload->attributes);
  if (!prefix.history.role.empty()) {
    payload->text = prefix.history.role;
    payload->attributes.emplace_back("behind", prefix.history.behind.count);
    payload->attributes.emplace_back("chain",
                                     static_cast<std::int64_t>(prefix.history.behind.chain));
  }
  const auto count = static_cast<std::int64_t>(prefix.prompt.size());
  payload->tensor =
      Tensor::zeros(Dtype::i32, {count}, prefix.prompt.size() * sizeof(std::int32_t)).value();
  std::ranges::copy(prefix.prompt, payload->tensor.i32().begin());
  return PayloadRef(payload);
}

Result<HandedPrefix> read_prefix(const Payload& frame, std::size_t vocabulary) {
  HandedPrefix prefix;
  prefix.number = static_cast<std::uint64_t>(frame.number);
  const auto number = [&](const char* name) { return frame.attribute(name).value_or(0); };
  const bool has_prompt =
      frame.attribute("machine").has_value() || frame.attribute("tokens_max").has_value();
  if (!has_prompt) return prefix;
  constexpr std::int64_t most = std::numeric_limits<std::uint32_t>::max();
  const std::int64_t machine = number("machine"), incarnation = number("incarnation");
  const std::int64_t answer = number("tokens_max"), top_k = number("top_k");
  const float temperature = float_of(number("temperature")), top_p = float_of(number("top_p"));
  const bool is_right = machine >= 0 && machine <= most && incarnation >= 0 &&
                        incarnation <= most &&
                        are_options(static_cast<std::uint64_t>(answer),
                                    static_cast<std::uint64_t>(top_k), temperature, top_p);
  const bool has_tokens = frame.tensor.dtype() == Dtype::i32 && frame.tensor.shape().size() == 1 &&
                          frame.tensor.count() > 0;
  Result<std::string> tenant = tenant_of(frame);
  if (!is_right || !has_tokens || !tenant.ok() || !are_tokens(frame.tensor.i32(), vocabulary))
    return invalid_argument("the prefix is none that a `prefill` of this model has made");
  if (frame.attribute("machine").has_value())
    prefix.from =
        PeerLife{static_cast<std::uint32_t>(machine), static_cast<std::uint32_t>(incarnation)};
  prefix.has_pictures = number("pictures") != 0;
  prefix.prompt.assign(frame.tensor.i32().begin(), frame.tensor.i32().end());
  prefix.options.tokens_max = static_cast<std::size_t>(answer);
  prefix.options.sampling.temperature = temperature;
  prefix.options.sampling.top_k = static_cast<std::size_t>(top_k);
  prefix.options.sampling.top_p = top_p;
  prefix.options.seed = static_cast<std::uint64_t>(number("seed"));
  prefix.options.share_prefix = number("share") != 0;
  prefix.options.tenant = std::move(tenant).value();
  const std::int64_t behind = number("behind");
  if (!frame.text.empty() && behind >= 0 && behind < static_cast<std::int64_t>(history_records_max))
    prefix.history = {
        frame.text,
        {static_cast<std::uint32_t>(behind), static_cast<std::uint64_t>(number("chain"))}};
  return prefix;
}

std::vector<std::byte> encode_begun(const Generation& begun) {
  std::vector<std::byte> bytes;
  const auto put = [&](std::uint64_t value, unsigned count) {
    append_little_endian(value, count, bytes);
  };
  const GenerationOptions& options = begun.options;
  put(options.tokens_max, 8);
  put(std::bit_cast<std::uint32_t>(options.sampling.temperature), 4);
  put(options.sampling.top_k, 8);
  put(std::bit_cast<std::uint32_t>(options.sampling.top_p), 4);
  put(options.seed, 8);
  put(options.share_prefix ? 1 : 0, 1);
  append(options.tenant, bytes);
  append(options.end_tokens, bytes);
  append(begun.tokens, bytes);
  append(begun.text, bytes);
  put(static_cast<std::uint64_t>(begun.finish), 1);
  put(static_cast<std::uint32_t>(begun.end_token), 4);
  put(static_cast<std::uint64_t>(begun.limit), 1);
  put(static_cast<std::uint32_t>(begun.next_position), 4);
  append(begun.origin.model, bytes);
  put(static_cast<std::uint32_t>(begun.origin.picture_token.value_or(-1)), 4);
  put(begun.origin.block, 8);
  put(begun.origin.pictures.size(), 4);
  for (const PictureRows& picture : begun.origin.pictures) {
    append(picture.content, bytes);
    put(picture.rows, 8);
  }
  return bytes;
}

std::optional<Generation> decode_begun(std::span<const std::byte> bytes,
                                       std::span<const std::int32_t> prompt,
                                       std::size_t vocabulary) {
  Parts parts(bytes);
  const auto signed_number = [&] { return static_cast<std::int32_t>(parts.number(4)); };
  Generation begun;
  GenerationOptions& options = begun.options;
  options.tokens_max = parts.number(8);
  options.sampling.temperature = std::bit_cast<float>(signed_number());
  options.sampling.top_k = parts.number(8);
  options.sampling.top_p = std::bit_cast<float>(signed_number());
  options.seed = parts.number(8);
  options.share_prefix = parts.number(1) != 0;
  options.tenant = begun.origin.tenant = parts.text();
  options.end_tokens = parts.tokens();
  begun.tokens = parts.tokens();
  begun.text = parts.text();
  const std::uint64_t finish = parts.number(1);
  begun.end_token = signed_number();
  const std::uint64_t limit = parts.number(1);
  begun.next_position = signed_number();
  begun.origin.model = parts.text();
  if (const std::int32_t token = signed_number(); token != -1) begun.origin.picture_token = token;
  begun.origin.block = parts.number(8);
  const std::uint64_t pictures = parts.number(4);
  for (std::uint64_t i = 0; i < pictures && parts.ok(); ++i) {
    std::string content = parts.text();
    begun.origin.pictures.push_back({std::move(content), parts.number(8)});
  }
  const bool is_tenants = options.tenant.empty() || is_tenant_name(options.tenant);
  if (!parts.is_at_end() || !is_tenants || !are_tokens(begun.tokens, vocabulary) ||
      finish > static_cast<std::uint64_t>(Generation::Finish::length) ||
      limit > static_cast<std::uint64_t>(Generation::CutOff::tenant) ||
      !are_options(options.tokens_max, options.sampling.top_k, options.sampling.temperature,
                   options.sampling.top_p))
    return std::nullopt;
  begun.finish = static_cast<Generation::Finish>(finish);
  begun.limit = static_cast<Generation::CutOff>(limit);
  begun.history.assign(prompt.begin(), prompt.end());
  begun.history.insert(begun.history.end(), begun.tokens.begin(), begun.tokens.end());
  // A picture takes no more positions than tokens.
  const auto furthest = static_cast<std::int64_t>(begun.history.size());
  if (begun.next_position < -1 || begun.next_position > furthest) return std::nullopt;
  return begun;
}

// Number (8 bytes), ok (1), how many bytes of session and text and how many tokens (4 each), then
// these; the lowest byte first.
std::vector<std::byte> encode_said(const SaidAnswer& said) {
  std::vector<std::byte> bytes;
  const auto put = [&](std::uint64_t value, unsigned count) {
    append_little_endian(value, count, bytes);
  };
  put(said.number, 8);
  put(said.ok ? 1 : 0, 1);
  put(said.session.size(), 4);
  put(said.text.size(), 4);
  put(said.tokens.size(), 4);
  for (const std::string* text : {&said.session, &said.text})
    for (const char one : *text) bytes.push_back(static_cast<std::byte>(one));
  for (const std::int32_t token : said.tokens) put(static_cast<std::uint32_t>(token), 4);
  return bytes;
}

std::optional<SaidAnswer> decode_said(std::span<const std::byte> bytes, std::size_t vocabulary) {
  constexpr std::size_t head = 8 + 1 + 3 * 4;
  if (bytes.size() < head) return std::nullopt;
  std::size_t at = 0;
  const auto take = [&](unsigned count) {
    at += count;
    return little_endian(bytes.subspan(at - count, count));
  };
  const auto text = [&](std::uint64_t size) {
    const auto part = bytes.subspan(at, size);
    at += size;
    return std::string(reinterpret_cast<const char*>(part.data()), part.size());
  };
  SaidAnswer said;
  said.number = take(8);
  const std::uint64_t ok = take(1), session = take(4), words = take(4), tokens = take(4);
  if (ok > 1 || bytes.size() - head != session + words + 4 * tokens) return std::nullopt;
  said.ok = ok == 1;
  said.session = text(session);
  said.text = text(words);
  for (std::uint64_t i = 0; i < tokens; ++i)
    said.tokens.push_back(static_cast<std::int32_t>(take(4)));
  if (!are_tokens(said.tokens, vocabulary)) return std::nullopt;
  return said;
}

}  // namespace sluice
