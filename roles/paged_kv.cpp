#include "roles/paged_kv.h"

#include "engine/family/memory_plan.h"

namespace sluice {

namespace {

/// Sessions' worth of pages when the workflow does not say how many.
constexpr std::size_t default_sessions = 32;

}  // namespace

Result<std::unique_ptr<GlobalParam>> PagedKv::make(const GlobalParamMaking& making) {
  if (making.model_directory.empty())
    return invalid_argument("a paged_kv needs `model:`, the directory whose backbone fills it");
  auto made = std::make_unique<PagedKv>();
  made->directory_ = making.model_directory;
  Result<ModelConfig> config = ModelConfig::load(making.model_directory);
  if (!config.ok()) return config.error();
  made->config_ = std::move(config).value();
  Result<SafetensorsFile> file =
      SafetensorsFile::open(making.model_directory + "/model.safetensors");
  if (!file.ok()) return file.error();
  made->file_ = std::move(file).value();
  Result<Tokenizer> tokenizer = Tokenizer::load(making.model_directory + "/tokenizer.json");
  if (!tokenizer.ok()) return tokenizer.error();
  made->tokenizer_ = std::move(tokenizer).value();
  Result<Decoder> backbone =
      Decoder::load(made->config_.decoder(), ModelConfig::decoder_names(), made->file_);
  if (!backbone.ok()) return backbone.error();
  made->backbone_ = std::move(backbone).value();
  const auto page_tokens = static_cast<std::size_t>(making.spec->page_tokens);
  const std::size_t pages =
      making.spec->pages > 0
          ? static_cast<std::size_t>(making.spec->pages)
          : default_sessions * ((made->config_.positions_max + page_tokens - 1) / page_tokens);
  const MemoryPlan plan{
      0, kv_bytes(made->config_.decoder()) * static_cast<double>(pages * page_tokens),
      machine_bytes(), pages * page_tokens};
  if (Result<void> fits = plan.check(); !fits.ok()) return fits.error();
  made->pool_ = std::make_unique<KvPool>(made->backbone_.kv_shape(page_tokens), pages);
  made->text_ = std::make_unique<CpuText>(made->backbone_, *made->pool_);
  made->engine_ = std::make_unique<SharedEngine>(*made->text_, PlannerOptions{});
  return std::unique_ptr<GlobalParam>(std::move(made));
}

Conversation& PagedKv::conversation(std::string_view session) {
  const auto it = conversations_.find(session);
  if (it != conversations_.end()) return it->second;
  Conversation& made = conversations_[std::string(session)];
  made.id = next_id_++;
  return made;
}

bool PagedKv::give_back(std::string_view session, std::uint64_t id, KvSequence sequence) {
  const auto it = conversations_.find(session);
  if (it == conversations_.end() || it->second.id != id) {
    pool_->release(sequence);
    return false;
  }
  it->second.sequence = std::move(sequence);
  it->second.is_answering = false;
  return true;
}

void PagedKv::end_session(std::string_view session) {
  SharedEngine::Turn turn(*engine_);
  turn.was_used();
  const auto it = conversations_.find(session);
  if (it == conversations_.end()) return;
  conversations_.erase(it);
}

Result<PagedKv*> paged_kv_of(const RoleMaking& making) {
  for (GlobalParam* param : making.global_params)
    if (auto* kv = dynamic_cast<PagedKv*>(param)) {
      if (kv->directory() == making.model_directory) return kv;
      return invalid_argument("the model of role '" + making.role->name.text + "' is " +
                              making.model_directory + ", its paged_kv is made for " +
                              kv->directory());
    }
  return invalid_argument("role '" + making.role->name.text +
                          "' needs a paged_kv of a checkpoint made as models/scenes is among its "
                          "global_params");
}

}  // namespace sluice
