#include "roles/kv_pages.h"

#include <sys/random.h>

#include <algorithm>

#include "engine/family/memory_plan.h"
#include "engine/storage/page_store.h"
#include "engine/storage/shared_pages.h"

namespace sluice {

namespace {

/// Tokens for which there is room when the workflow does not say how many pages.
constexpr std::size_t default_tokens = 16384;
/// Of the machine's memory, for pages of a GPU where the workflow does not say how much.
constexpr double host_share = 0.25;

KvShape rows_of(const DecoderShape& shape, const GlobalParamSpec& spec) {
  return {.layers = shape.layers,
          .row = shape.block.kv_heads * shape.block.head_dim,
          .page_tokens = static_cast<std::size_t>(spec.page_tokens),
          .dtype = spec.kv_dtype};
}

Result<void> check_memory(const DecoderShape& shape, const GlobalParamSpec& spec) {
  const std::size_t tokens = pages_of(spec) * static_cast<std::size_t>(spec.page_tokens);
  const double bytes = kv_bytes(shape, spec.kv_dtype) * static_cast<double>(tokens);
  return MemoryPlan{0, bytes, machine_bytes(), tokens}.check();
}

class PagesOfProcesses final : public SharedParam {
 public:
  explicit PagesOfProcesses(std::unique_ptr<SharedPages> pages) : pages_(std::move(pages)) {}

  Result<int> connect(const std::string& name) override {
    Result<OwnedFile> socket = pages_->connect(name);
    if (!socket.ok()) return socket.error();
    return socket->release();
  }
  void show(PoolReport& report) const override {
    const SharedPages::Report now = pages_->report();
    report.page_tokens = pages_->shape().rows_per_page;
    report.page_bytes = pages_->shape().page_bytes;
    report.pages = pages_->shape().pages;
    report.free = now.free;
    report.cached = now.cached;
    report.used = report.pages - report.free - report.cached;
    report.shared = now.shared;
    report.published = now.published;
    report.window_blocks = now.window.blocks;
    report.window_hits = now.window.hits;
    report.window_optimum = now.window.optimum;
  }

 private:
  std::unique_ptr<SharedPages> pages_;
};

}  // namespace

std::size_t pages_of(const GlobalParamSpec& spec) {
  return spec.pages > 0 ? static_cast<std::size_t>(spec.pages)
                        : default_tokens / static_cast<std::size_t>(spec.page_tokens) + 1;
}

Result<KeptPool> make_kept_pages(const DecoderShape& shape, const GlobalParamSpec& spec,
                                 PeerPort* peers, const std::string& shared_name) {
  const std::size_t pages = pages_of(spec);
  if (Result<void> fits = check_memory(shape, spec); !fits.ok()) return fits.error();
  const KvShape rows = rows_of(shape, spec);
  const std::string folder = spec.ssd.has_value() ? spec.ssd->text : std::string();
  const auto bytes = static_cast<std::uint64_t>(spec.ssd_bytes);
  Result<KeptPool> made =
      peers != nullptr ? KeptPool::make_among(rows, pages, *peers, shared_name, folder, bytes)
                       : KeptPool::make(rows, pages, folder, bytes);
  if (made.ok() && spec.tenant_pages > 0)
    made->pool->limit_tenants(static_cast<std::size_t>(spec.tenant_pages));
  return made;
}

Result<KeptPool> open_pages(const DecoderShape& shape, const GlobalParamMaking& making) {
  if (making.shared < 0)
    return make_kept_pages(shape, *making.spec, making.peers, making.shared_name);
  Result<std::unique_ptr<KvPool>> pool = attach_pages(shape, *making.spec, making.shared);
  if (!pool.ok()) return pool.error();
  KeptPool made;
  made.pool = std::move(pool).value();
  return made;
}

bool has_room(const KvPages& pages, const PageSource* source, const Planner& planner,
              std::size_t more) {
  const std::size_t awaited = more + (source != nullptr ? source->pages_awaited() : 0);
  const RoomOfTenant room_of = [&pages](const std::string& one) { return pages.tenant_room(one); };
  const std::size_t free = pages.pages_free();
  return awaited <= free && planner.fits(static_cast<std::uint32_t>(free - awaited), room_of);
}

Dtype dtype_on_gpu(kernels::WeightFormat format) {
  return format == kernels::WeightFormat::bf16 ? Dtype::bf16 : Dtype::f32;
}

Result<void> check_host_bytes(const DecoderShape& shape, const GlobalParamSpec& spec) {
  const std::size_t page = rows_of(shape, spec).page_bytes();
  const auto given = static_cast<std::size_t>(spec.host_bytes.value_or(0));
  if (given == 0 || given >= page) return {};
  return invalid_argument("its host_bytes, " + std::to_string(given) +
                          ", have no room for a page of this model, which takes " +
                          std::to_string(page) + " bytes: give more, or 0 for none");
}

Result<KeptPool> make_host_pages(const DecoderShape& shape, const GlobalParamSpec& spec,
                                 PeerPort* peers, const std::string& shared_name) {
  if (Result<void> fits = check_host_bytes(shape, spec); !fits.ok()) return fits.error();
  const std::size_t page = rows_of(shape, spec).page_bytes();
  // Twice what the GPU has, of a quarter of the machine at most.
  const double usual =
      std::min(2.0 * static_cast<double>(pages_of(spec) * page), host_share * machine_bytes());
  const auto bytes = spec.host_bytes.has_value() ? static_cast<std::size_t>(*spec.host_bytes)
                                                 : static_cast<std::size_t>(usual);
  constexpr std::size_t most = std::size_t{1} << 30U;  // as `pages`
  GlobalParamSpec below = spec;
  below.tenant_pages = 0;  // is of the GPU's
  below.pages = static_cast<std::int64_t>(std::min(bytes / page, most));
  if (below.pages == 0) return KeptPool();
  return make_kept_pages(shape, below, peers, shared_name);
}

Result<void> check_page_folder(const DecoderShape& shape, const GlobalParamSpec& spec) {
  return PageStore::check_size(spec.ssd->text, rows_of(shape, spec).page_bytes(),
                               static_cast<std::uint64_t>(spec.ssd_bytes));
}

Result<void> check_pages_travel(const DecoderShape& shape, const GlobalParamSpec& spec) {
  return KeptPool::check_travels(rows_of(shape, spec));
}

Result<std::unique_ptr<KvPool>> make_pages(const DecoderShape& shape, const GlobalParamSpec& spec) {
  if (spec.ssd.has_value())
    return invalid_argument("global parameter '" + spec.name.text +
                            "' has `ssd`, where only a model that answers with words keeps pages: "
                            "leave it out");
  Result<KeptPool> made = make_kept_pages(shape, spec);
  if (!made.ok()) return made.error();
  return std::move(made->pool);
}

Result<std::unique_ptr<SharedParam>> share_pages(const DecoderShape& shape,
                                                 const GlobalParamSpec& spec) {
  if (Result<void> fits = check_memory(shape, spec); !fits.ok()) return fits.error();
  const KvShape rows = rows_of(shape, spec);
  SharedPagesShape all{static_cast<std::uint32_t>(pages_of(spec)),
                       static_cast<std::uint32_t>(rows.page_tokens),
                       rows.page_bytes(),
                       {}};
  SLUICE_CHECK(::getrandom(all.secret.data(), all.secret.size(), 0) ==
               static_cast<ssize_t>(all.secret.size()));
  auto made = SharedPages::make(all);
  if (!made.ok()) return made.error();
  return std::unique_ptr<SharedParam>(std::make_unique<PagesOfProcesses>(std::move(made).value()));
}

Result<std::unique_ptr<KvPool>> attach_pages(const DecoderShape& shape, const GlobalParamSpec& spec,
                                             int socket) {
  Result<AttachedPages> attached = AttachedPages::attach(OwnedFile(socket));
  if (!attached.ok()) return attached.error();
  const KvShape rows = rows_of(shape, spec);
  const SharedPagesShape& all = attached->shape;
  if (all.pages != pages_of(spec) || all.rows_per_page != rows.page_tokens ||
      all.page_bytes != rows.page_bytes())
    return Error{ErrorCode::corrupt,
                 "the pages that processes share are not those of '" + spec.name.text + "'"};
  return std::make_unique<KvPool>(rows,
                                  AttachedTable{std::move(attached->port), all.pages, all.secret},
                                  std::move(attached->bytes));
}

Result<void> check_same_use(const KvUse& made, const KvUse& asked) {
  if (made.format != asked.format)
    return invalid_argument("another role over the same paged_kv has another precision");
  if (made.step_rows != asked.step_rows)
    return invalid_argument("another role over the same paged_kv has other step_tokens");
  return {};
}

Result<void> check_made_for(const std::string& made_for, const std::string& directory) {
  if (directory == made_for) return {};
  return invalid_argument("its model is " + directory + ", its paged_kv is made for " + made_for);
}

Result<Model> open_beside(const KvPool& pool, const std::string& made_for,
                          const std::string& directory, kernels::WeightFormat format) {
  if (Result<void> same = check_made_for(made_for, directory); !same.ok()) return same.error();
  const std::size_t tokens = pool.pages() * pool.shape().page_tokens;
  return Model::open(
      directory, format, ModelParts::all,
      [&](const Architecture& architecture, const SafetensorsFile& file) {
        return plan_memory(file, architecture, tokens, format, pool.shape().dtype).check();
      });
}

Result<KvPlace> make_place(const GlobalParamMaking& making) {
  const Result<Architecture> architecture = Architecture::load(making.model_directory);
  if (!architecture.ok()) return architecture.error();
  Result<std::unique_ptr<KvPool>> pool =
      making.shared >= 0 ? attach_pages(*architecture->text, *making.spec, making.shared)
                         : make_pages(*architecture->text, *making.spec);
  if (!pool.ok()) return pool.error();
  return KvPlace{making.spec->name.text, making.model_directory, std::move(pool).value()};
}

}  // namespace sluice
