// The functions of UCX that are used here, out of the library when it is first wanted.
//
// The program is not linked with UCX: a process that reads no remote memory neither needs the
// library nor runs its constructors. Loading it leaves the process as it was: signal handlers that
// it installs are taken back, it prints nothing, and it patches no function of the memory's.
// Thread: any. Errors: unavailable, with the package that is missing.
#pragma once

#include <ucp/api/ucp.h>

#include <string>

#include "base/result.h"

namespace sluice::ucx {

struct Library {
  decltype(&::ucp_get_version) get_version = nullptr;
  decltype(&::ucp_config_read) config_read = nullptr;
  decltype(&::ucp_config_modify) config_modify = nullptr;
  decltype(&::ucp_config_release) config_release = nullptr;
  decltype(&::ucp_init_version) init_version = nullptr;
  decltype(&::ucp_cleanup) cleanup = nullptr;
  decltype(&::ucp_mem_map) mem_map = nullptr;
  decltype(&::ucp_mem_query) mem_query = nullptr;
  decltype(&::ucp_mem_unmap) mem_unmap = nullptr;
  decltype(&::ucp_rkey_pack) rkey_pack = nullptr;
  decltype(&::ucp_rkey_buffer_release) rkey_buffer_release = nullptr;
  decltype(&::ucp_worker_create) worker_create = nullptr;
  decltype(&::ucp_worker_destroy) worker_destroy = nullptr;
  decltype(&::ucp_worker_get_address) worker_get_address = nullptr;
  decltype(&::ucp_worker_release_address) worker_release_address = nullptr;
  decltype(&::ucp_worker_get_efd) worker_get_efd = nullptr;
  decltype(&::ucp_worker_arm) worker_arm = nullptr;
  decltype(&::ucp_worker_progress) worker_progress = nullptr;
  decltype(&::ucp_ep_create) ep_create = nullptr;
  decltype(&::ucp_ep_close_nbx) ep_close_nbx = nullptr;
  decltype(&::ucp_ep_rkey_unpack) ep_rkey_unpack = nullptr;
  decltype(&::ucp_rkey_destroy) rkey_destroy = nullptr;
  decltype(&::ucp_rkey_ptr) rkey_ptr = nullptr;
  decltype(&::ucp_get_nbx) get_nbx = nullptr;
  decltype(&::ucp_request_check_status) request_check_status = nullptr;
  decltype(&::ucp_request_free) request_free = nullptr;
  decltype(&::ucs_status_string) status_string = nullptr;
};

/// Loaded once, and never unloaded.
Result<const Library*> library();

/// "WHAT: what UCX says".
Error failure(const Library& ucx, const std::string& what, ucs_status_t status);

}  // namespace sluice::ucx
