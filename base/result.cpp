#include "base/result.h"

namespace sluice {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument: return "invalid_argument";
    case ErrorCode::not_found: return "not_found";
    case ErrorCode::exhausted: return "exhausted";
    case ErrorCode::deadline: return "deadline";
    case ErrorCode::unavailable: return "unavailable";
    case ErrorCode::stale: return "stale";
    case ErrorCode::corrupt: return "corrupt";
    case ErrorCode::cancelled: return "cancelled";
  }
  return "unknown";
}

}  // namespace sluice
