#include "runtime/redis/reply.h"

#include <hiredis/read.h>

namespace sluice {

namespace {

constexpr std::size_t waiting_bytes_max = std::size_t{256} << 10U;
constexpr std::size_t text_bytes_max = std::size_t{64} << 10U;
constexpr int list_items_max = 1024;
constexpr std::size_t items_max = 2048;

/// Where the value of a task goes: into its list, or a root of its own. Null: too many.
RedisValue* place_of(const redisReadTask* task) {
  auto& items = *static_cast<std::size_t*>(task->privdata);
  if (++items > items_max) return nullptr;
  if (task->parent == nullptr) return new RedisValue;
  return &static_cast<RedisValue*>(task->parent->obj)->list[static_cast<std::size_t>(task->idx)];
}

void* make_text(const redisReadTask* task, char* bytes, std::size_t size) {
  RedisValue* const value = size <= text_bytes_max ? place_of(task) : nullptr;
  if (value == nullptr) return nullptr;
  value->kind = task->type == REDIS_REPLY_ERROR ? RedisValue::Kind::error : RedisValue::Kind::text;
  value->text.assign(bytes, size);
  return value;
}

void* make_list(const redisReadTask* task, int items) {
  RedisValue* const value = items >= 0 && items <= list_items_max ? place_of(task) : nullptr;
  if (value == nullptr) return nullptr;
  value->kind = RedisValue::Kind::list;
  value->list.resize(static_cast<std::size_t>(items));
  return value;
}

void* make_number(const redisReadTask* task, long long number) {
  RedisValue* const value = place_of(task);
  if (value == nullptr) return nullptr;
  value->kind = RedisValue::Kind::number;
  value->number = number;
  return value;
}

void* make_nothing(const redisReadTask* task) { return place_of(task); }

/// Called for roots only.
void let_go(void* value) { delete static_cast<RedisValue*>(value); }

redisReplyObjectFunctions functions{make_text, make_list, make_number, make_nothing, let_go};

}  // namespace

struct ReplyReader::State {
  redisReader* reader = redisReaderCreateWithFunctions(&functions);
  std::size_t items = 0;  // of the answer that is being read
  bool failed = false;

  State() {
    SLUICE_CHECK(reader != nullptr, "no memory for a reader");
    reader->privdata = &items;
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { redisReaderFree(reader); }

  Error fail(const std::string& what) {
    failed = true;
    return {ErrorCode::corrupt, "its answer is refused: " + what};
  }
};

ReplyReader::ReplyReader() : state_(std::make_unique<State>()) {}
ReplyReader::~ReplyReader() = default;
ReplyReader::ReplyReader(ReplyReader&&) noexcept = default;
ReplyReader& ReplyReader::operator=(ReplyReader&&) noexcept = default;

Result<void> ReplyReader::feed(std::string_view bytes) {
  if (state_->failed) return state_->fail("it follows one that was refused");
  if (state_->reader->len - state_->reader->pos + bytes.size() > waiting_bytes_max)
    return state_->fail("it is longer than 256 KiB");
  if (redisReaderFeed(state_->reader, bytes.data(), bytes.size()) != REDIS_OK)
    return state_->fail("there is no memory for it");
  return {};
}

Result<std::optional<RedisValue>> ReplyReader::next() {
  if (state_->failed) return state_->fail("it follows one that was refused");
  void* answer = nullptr;
  if (redisReaderGetReply(state_->reader, &answer) != REDIS_OK)
    return state_->fail(state_->reader->err == REDIS_ERR_OOM
                            ? "it has more items or longer texts than are allowed"
                            : "it is no answer of a Redis server");
  if (answer == nullptr) return std::optional<RedisValue>();
  state_->items = 0;
  const std::unique_ptr<RedisValue> owned(static_cast<RedisValue*>(answer));
  return std::optional<RedisValue>(std::move(*owned));
}

}  // namespace sluice
