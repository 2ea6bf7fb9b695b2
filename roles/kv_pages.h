// What every `paged_kv` of a checkpoint begins with: pages as large as its specification says, and
// the model and engine that the first role over them loads.
#pragma once

#include <memory>

#include "engine/family/model.h"
#include "engine/layers/decoder.h"
#include "engine/plan/planner.h"
#include "engine/storage/kept_pool.h"
#include "roles/catalog.h"

namespace sluice {

/// For a decoder of this shape; left out, room for 16,384 tokens. Errors: exhausted (more than the
/// machine has), invalid_argument (they are to be kept on a disk, as only those are of models that
/// answer with words).
Result<std::unique_ptr<KvPool>> make_pages(const DecoderShape& shape, const GlobalParamSpec& spec);
/// The same with the folder that the specification may name, and among the pages of other machines
/// (null: none), as which they have `shared_name`. Errors: the folder's too; those of
/// `KeptPool::make_among`.
Result<KeptPool> make_kept_pages(const DecoderShape& shape, const GlobalParamSpec& spec,
                                 PeerPort* peers = nullptr, const std::string& shared_name = {});

/// Those of a parameter of a decoder of this shape: of several processes of this machine where
/// these share it, else its own, kept as its specification says. Errors: those of both.
Result<KeptPool> open_pages(const DecoderShape& shape, const GlobalParamMaking& making);
/// Whether `more` pages are free besides what is still being read back and what tasks wait for.
bool has_room(const KvPages& pages, const PageSource* source, const Planner& planner,
              std::size_t more);

/// What a GPU's pages are in: as wide as the weights.
Dtype dtype_on_gpu(kernels::WeightFormat format);
/// The host's memory below the pages that a GPU has of such a decoder, with the folder and other
/// machines behind it. No pool: it has none. The specification's `kv_dtype` is what the GPU's pages
/// are in. Errors: as `make_kept_pages`; invalid_argument (it has no room for a page).
Result<KeptPool> make_host_pages(const DecoderShape& shape, const GlobalParamSpec& spec,
                                 PeerPort* peers, const std::string& shared_name);
/// Whether `host_bytes` has room for a page. Errors: invalid_argument.
Result<void> check_host_bytes(const DecoderShape& shape, const GlobalParamSpec& spec);

/// Those of a decoder of this shape that several processes of this machine use. Errors: exhausted,
/// those of `SharedPages::make`.
Result<std::unique_ptr<SharedParam>> share_pages(const DecoderShape& shape,
                                                 const GlobalParamSpec& spec);
/// The same as one of these processes has them, over the socket that it was given. Errors: those of
/// `AttachedPages::attach`; corrupt (they are another decoder's).
Result<std::unique_ptr<KvPool>> attach_pages(const DecoderShape& shape, const GlobalParamSpec& spec,
                                             int socket);

/// Whether the folder of a specification that names one has room for pages of this decoder. Errors:
/// invalid_argument (`ssd_bytes` is too little).
Result<void> check_page_folder(const DecoderShape& shape, const GlobalParamSpec& spec);

/// Whether machines can exchange pages of this decoder. Errors: those of `KeptPool::check_travels`.
Result<void> check_pages_travel(const DecoderShape& shape, const GlobalParamSpec& spec);

/// How many a specification means.
std::size_t pages_of(const GlobalParamSpec& spec);

/// What all roles over one `paged_kv` agree on.
struct KvUse {
  kernels::WeightFormat format = kernels::WeightFormat::exact;
  std::uint32_t step_rows = 0;
};
/// Errors: invalid_argument, which of them differs.
Result<void> check_same_use(const KvUse& made, const KvUse& asked);

/// Errors: invalid_argument (a role's model is not the one that the pages were made for).
Result<void> check_made_for(const std::string& made_for, const std::string& directory);

/// The checkpoint at `directory`, which must be the one that the pages were made for and fit this
/// machine together with them. Errors: invalid_argument, exhausted, and those of its files.
Result<Model> open_beside(const KvPool& pool, const std::string& made_for,
                          const std::string& directory, kernels::WeightFormat format);

/// A parameter's name, the checkpoint that its pages are for, and these.
struct KvPlace {
  std::string name, directory;
  std::unique_ptr<KvPool> pool;
};
/// Of the checkpoint's decoder of words. Errors: those of its configuration, of `make_pages` and
/// `attach_pages`.
Result<KvPlace> make_place(const GlobalParamMaking& making);

/// The host of all roles over a place: made by `make(Model)`, a Result of a pointer, for the first
/// that asks. `host`: where it is kept; it has `model` and `step_rows`. Errors: invalid_argument
/// (`wanted` is another directory than `made_for`, another use than the first
/// role's); those of `open_beside` and `make`.
template <typename Host, typename Make>
Result<Host*> host_over(std::unique_ptr<Host>& host, const KvPool& pool,
                        const std::string& made_for, const std::string& wanted,
                        const KvUse& asked, const Make& make) {
  if (host != nullptr && wanted == made_for) {
    if (Result<void> same = check_same_use({host->model.format(), host->step_rows}, asked);
        !same.ok())
      return same.error();
    return host.get();
  }
  Result<Model> model = open_beside(pool, made_for, wanted, asked.format);
  if (!model.ok()) return model.error();
  Result<std::unique_ptr<Host>> made = make(std::move(model).value());
  if (!made.ok()) return made.error();
  host = std::move(made).value();
  return host.get();
}

}  // namespace sluice
