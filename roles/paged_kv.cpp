#include "roles/paged_kv.h"

#include "engine/tasks/chat_model.h"
#include "roles/kv_pages.h"

namespace sluice {

Result<std::unique_ptr<GlobalParam>> PagedKv::make(const GlobalParamMaking& making) {
  const Result<Architecture> architecture = Architecture::load(making.model_directory);
  if (!architecture.ok()) return architecture.error();
  Result<std::unique_ptr<KvPool>> pool = make_pages(*architecture->text, *making.spec);
  if (!pool.ok()) return pool.error();
  auto made = std::make_unique<PagedKv>();
  made->directory_ = making.model_directory;
  made->pool_ = std::move(pool).value();
  return std::unique_ptr<GlobalParam>(std::move(made));
}

Result<DrawingHost*> PagedKv::host(const std::string& directory, const EngineOptions& options) {
  if (host_ != nullptr && directory == directory_) {
    if (Result<void> same = check_same_use({host_->model.format(), host_->step_rows},
                                           {options.format, options.planner.budget});
        !same.ok())
      return same.error();
    return host_.get();
  }
  Result<Model> model = open_beside(*pool_, directory_, directory, options.format);
  if (!model.ok()) return model.error();
  if (!model->architecture().flow.has_value() || !model->architecture().turns.has_value())
    return invalid_argument(directory + ": a model of the family " +
                            std::string(to_string(model->architecture().family)) +
                            " does not draw");
  Result<Tokenizer> tokenizer = open_tokenizer(directory);
  if (!tokenizer.ok()) return tokenizer.error();
  host_ = std::make_unique<DrawingHost>(std::move(model).value(), std::move(tokenizer).value(),
                                        *pool_, options.planner);
  return host_.get();
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
  if (host_ == nullptr) return;  // nobody has said anything
  SharedEngine::Turn turn(host_->shared);
  turn.was_used();
  const auto it = conversations_.find(session);
  if (it == conversations_.end()) return;
  conversations_.erase(it);
}

Result<PagedKv*> paged_kv_of(const RoleMaking& making) {
  for (GlobalParam* param : making.global_params)
    if (auto* kv = dynamic_cast<PagedKv*>(param)) return kv;
  return invalid_argument("role '" + making.role->name.text +
                          "' needs a paged_kv of a model that draws among its global_params");
}

}  // namespace sluice
