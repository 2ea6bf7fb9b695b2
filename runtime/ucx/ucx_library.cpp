#include "runtime/ucx/ucx_library.h"

#include <dlfcn.h>
#include <signal.h>
#include <ucm/api/ucm.h>

#include <array>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
/// libuct 1.13.1 keeps what it has allocated for a context: 100 bytes each.
extern "C" const char* __lsan_default_suppressions() { return "leak:libuct.so\n"; }
#endif

namespace sluice::ucx {

namespace {

constexpr const char* file_name = "libucp.so.0";
/// Of the library itself, not of a context: it can be set behind its constructors only.
using SetOption = ucs_status_t (*)(const char* name, const char* value);

/// The handlers that it installs are for crashes and a debugger.
class SignalHandlers {
 public:
  SignalHandlers() {
    for (int number = 1; number < NSIG; ++number)
      known_[number] = ::sigaction(number, nullptr, &was_[number]) == 0;
  }
  ~SignalHandlers() {
    for (int number = 1; number < NSIG; ++number) {
      struct sigaction now {};
      if (known_[number] && ::sigaction(number, nullptr, &now) == 0 &&
          now.sa_sigaction != was_[number].sa_sigaction)
        ::sigaction(number, &was_[number], nullptr);
    }
  }
  SignalHandlers(const SignalHandlers&) = delete;
  SignalHandlers& operator=(const SignalHandlers&) = delete;

 private:
  std::array<struct sigaction, NSIG> was_{};
  std::array<bool, NSIG> known_{};
};

Error missing() {
  const char* const why = ::dlerror();
  return {ErrorCode::unavailable, std::string("UCX cannot be used: ") +
                                      (why != nullptr ? why : file_name) +
                                      "; it is in the Debian package libucx0"};
}

template <typename Function>
bool find(void* from, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(from, name));
  return function != nullptr;
}

bool find_all(void* from, Library& made) {
  return find(from, "ucp_get_version", made.get_version) &&
         find(from, "ucp_config_read", made.config_read) &&
         find(from, "ucp_config_modify", made.config_modify) &&
         find(from, "ucp_config_release", made.config_release) &&
         find(from, "ucp_init_version", made.init_version) &&
         find(from, "ucp_cleanup", made.cleanup) && find(from, "ucp_mem_map", made.mem_map) &&

         find(from, "ucp_mem_query", made.mem_query) &&
         find(from, "ucp_mem_unmap", made.mem_unmap) &&
         find(from, "ucp_rkey_pack", made.rkey_pack) &&
         find(from, "ucp_rkey_buffer_release", made.rkey_buffer_release) &&
         find(from, "ucp_worker_create", made.worker_create) &&
         find(from, "ucp_worker_destroy", made.worker_destroy) &&
         find(from, "ucp_worker_get_address", made.worker_get_address) &&
         find(from, "ucp_worker_release_address", made.worker_release_address) &&
         find(from, "ucp_worker_get_efd", made.worker_get_efd) &&
         find(from, "ucp_worker_arm", made.worker_arm) &&
         find(from, "ucp_worker_progress", made.worker_progress) &&
         find(from, "ucp_ep_create", made.ep_create) &&
         find(from, "ucp_ep_close_nbx", made.ep_close_nbx) &&
         find(from, "ucp_ep_rkey_unpack", made.ep_rkey_unpack) &&
         find(from, "ucp_rkey_destroy", made.rkey_destroy) &&
         find(from, "ucp_rkey_ptr", made.rkey_ptr) && find(from, "ucp_get_nbx", made.get_nbx) &&
         find(from, "ucp_request_check_status", made.request_check_status) &&
         find(from, "ucp_request_free", made.request_free) &&
         find(from, "ucs_status_string", made.status_string);
}

Result<Library> load() {
  const SignalHandlers as_they_were;
  void* const from = ::dlopen(file_name, RTLD_NOW | RTLD_LOCAL);
  if (from == nullptr) return missing();
  Library made;
  SetOption set = nullptr;
  ucm_global_config_t* hooks = nullptr;
  if (!find_all(from, made) || !find(from, "ucs_global_opts_set_value", set) ||
      !find(from, "ucm_global_opts", hooks))
    return missing();
  // What it has to say comes back as a status.
  set("LOG_LEVEL", "fatal");
  set("HANDLE_ERRORS", "none");
  hooks->enable_events = 0;  // so it patches none of the system's functions
  hooks->enable_malloc_hooks = 0;
  hooks->enable_malloc_reloc = 0;
  unsigned major = 0, minor = 0, patch = 0;
  made.get_version(&major, &minor, &patch);
  if (major != UCP_API_MAJOR || minor < UCP_API_MINOR)
    return Error{ErrorCode::unavailable,
                 "UCX " + std::to_string(major) + '.' + std::to_string(minor) + " is here, and " +
                     std::to_string(UCP_API_MAJOR) + '.' + std::to_string(UCP_API_MINOR) +
                     " or a later one is needed (package libucx0)"};
  return made;
}

}  // namespace

Result<const Library*> library() {
  static const Result<Library> loaded = load();
  if (!loaded.ok()) return loaded.error();
  return &loaded.value();
}

Error failure(const Library& ucx, const std::string& what, ucs_status_t status) {
  return {ErrorCode::unavailable, what + ": " + ucx.status_string(status)};
}

}  // namespace sluice::ucx
