#include "api/backend.h"

namespace surety::api {

std::string_view NameOf(Health health) {
  switch (health) {
    case Health::kStarting: return "starting";
    case Health::kReady: return "ready";
    case Health::kStalled: return "stalled";
    case Health::kDraining: return "draining";
    case Health::kStopped: return "stopped";
  }
  return "unknown";
}

}  // namespace surety::api
