#include "runtime/ucx/ucx_context.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include "base/check.h"
#include "runtime/ucx/ucx_segments.h"

namespace sluice::ucx {

namespace {

class Registered final : public Buffer {
 public:
  Registered(std::shared_ptr<Context> context, const Context::Mapping& mapping)
      : Buffer(mapping.data, mapping.size, context.get()),
        context_(std::move(context)),
        mapping_(mapping) {}
  ucp_mem_h handle() const { return mapping_.handle; }

 private:
  void end() override {
    context_->retire(mapping_);
    delete this;
  }

  const std::shared_ptr<Context> context_;
  const Context::Mapping mapping_;
};

/// What may reach other computers is what the options name, and what reaches this one goes through
/// memory that only this user's processes open.
ucs_status_t configure(const Library& ucx, const UcxOptions& options, ucp_config_t* config) {
  using Setting = std::pair<const char*, std::string>;
  const bool is_local = options.trusted_devices.empty();
  // A process that ends is to be noticed, through shared memory too.
  std::vector<Setting> settings{
      {"MM_ERROR_HANDLING", "y"}, {"KEEPALIVE_INTERVAL", "1s"}, {"MEMTYPE_CACHE", "n"}};
  // Never over tcp: there the owner's thread answers reads, and UCX ends its process when a reader
  // has gone meanwhile. A card answers by itself.
  settings.push_back({"TLS", is_local ? "sysv" : "rc,dc,sysv"});
  if (!is_local) settings.push_back({"NET_DEVICES", options.trusted_devices});
  for (const auto& [name, value] : settings)
    if (const auto status = ucx.config_modify(config, name, value.c_str()); status != UCS_OK)
      return status;
  return UCS_OK;
}

/// The first of the devices that is no card of this computer: UCX itself goes on without it.
std::optional<std::string> missing_device(const std::string& devices) {
  std::istringstream names(devices);
  for (std::string name; std::getline(names, name, ',');) {
    const std::string device = name.substr(0, name.find(':'));
    const bool is_plain = !device.empty() && device.find('/') == std::string::npos;
    std::error_code failed;
    if (!is_plain || !std::filesystem::exists(
                         std::filesystem::path("/sys/class/infiniband") / device, failed))
      return name;
  }
  return std::nullopt;
}

}  // namespace

Result<std::shared_ptr<Context>> Context::make(const UcxOptions& options) {
  if (const auto name = missing_device(options.trusted_devices))
    return Error{ErrorCode::not_found,
                 "this computer has no RDMA device '" + *name +
                     "' (/sys/class/infiniband has those that there are; pages are not read over "
                     "other devices)"};
  const Result<const Library*> loaded = ucx::library();
  if (!loaded.ok()) return loaded.error();
  const Library& ucx = **loaded;
  ucp_config_t* config = nullptr;
  if (const ucs_status_t status = ucx.config_read(nullptr, nullptr, &config); status != UCS_OK)
    return failure(ucx, "UCX's settings (UCX_... in the environment) are wrong", status);
  ucs_status_t status = configure(ucx, options, config);
  ucp_context_h handle = nullptr;
  if (status == UCS_OK) {
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
    params.features = UCP_FEATURE_RMA | UCP_FEATURE_WAKEUP;
    params.mt_workers_shared = 1;  // memory is made beside the thread of the worker
    status = ucx.init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &handle);
  }
  ucx.config_release(config);
  if (status != UCS_OK) {
    const std::string& devices = options.trusted_devices;
    return failure(ucx,
                   "UCX cannot be used " + (devices.empty() ? std::string("on this computer")
                                                            : "over the devices " + devices),
                   status);
  }
  return std::make_shared<Context>(ucx, handle);
}

Context::~Context() {
  for (const Mapping& one : retired_) ucx_.mem_unmap(handle_, one.handle);
  ucx_.cleanup(handle_);
}

Result<Ref<Buffer>> Context::map(std::size_t size) {
  const Result<Mapping> taken = take(size);
  if (!taken.ok()) return taken.error();
  std::memset(taken->data, 0, size);
  return Ref<Buffer>(new Registered(shared_from_this(), *taken));
}

Result<Context::Mapping> Context::take(std::size_t size) {
  {
    const std::lock_guard lock(mutex_);
    const auto it = std::ranges::find(retired_, size, &Mapping::size);
    if (it != retired_.end()) {
      const Mapping again = *it;
      retired_.erase(it);
      return again;
    }
  }
  const auto failed = [&](ucs_status_t status) {
    return Error{ErrorCode::exhausted, std::to_string(size) + " bytes that others can read: " +
                                           ucx_.status_string(status)};
  };
  ucp_mem_map_params_t params{};
  params.field_mask =
      UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS | UCP_MEM_MAP_PARAM_FIELD_PROT;
  params.length = size;
  params.flags = UCP_MEM_MAP_ALLOCATE;
  params.prot =
      UCP_MEM_MAP_PROT_LOCAL_READ | UCP_MEM_MAP_PROT_LOCAL_WRITE | UCP_MEM_MAP_PROT_REMOTE_READ;
  ucp_mem_h handle = nullptr;
  if (const ucs_status_t status = ucx_.mem_map(handle_, &params, &handle); status != UCS_OK)
    return failed(status);
  keep_group_out();
  ucp_mem_attr_t attributes{};
  attributes.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS | UCP_MEM_ATTR_FIELD_LENGTH;
  const ucs_status_t status = ucx_.mem_query(handle, &attributes);
  if (status == UCS_OK && attributes.length >= size)
    return Mapping{handle, static_cast<std::byte*>(attributes.address), size};
  ucx_.mem_unmap(handle_, handle);
  return failed(status);
}

void Context::retire(const Mapping& mapping) {
  std::memset(mapping.data, 0, mapping.size);  // no stamp says that there is a page
  const std::lock_guard lock(mutex_);
  retired_.push_back(mapping);
}

Result<std::vector<std::byte>> Context::pack(const Ref<Buffer>& region) const {
  if (!region || region->keeper() != this)
    return Error{ErrorCode::invalid_argument, "the memory is not made to be read by others"};
  const auto& registered = static_cast<const Registered&>(*region);
  void* bytes = nullptr;
  std::size_t size = 0;
  const ucs_status_t status = ucx_.rkey_pack(handle_, registered.handle(), &bytes, &size);
  if (status != UCS_OK) return failure(ucx_, "a key for memory", status);
  const auto* const first = static_cast<const std::byte*>(bytes);
  std::vector<std::byte> key(first, first + size);
  ucx_.rkey_buffer_release(bytes);
  return key;
}

}  // namespace sluice::ucx
