#include "api/decision.h"

namespace surety::api {

std::string_view NameOf(Outcome outcome) {
  switch (outcome) {
    case Outcome::kNone: return "none";
    case Outcome::kStreamed: return "streamed";
    case Outcome::kHeld: return "held";
    case Outcome::kTemplate: return "template";
    case Outcome::kReview: return "review";
    case Outcome::kRefused: return "refused";
  }
  return "unknown";
}

std::string_view NameOf(Stage stage) {
  switch (stage) {
    case Stage::kNone: return "none";
    case Stage::kGathering: return "gathering";
    case Stage::kGenerating: return "generating";
    case Stage::kVerifying: return "verifying";
  }
  return "unknown";
}

}  // namespace surety::api
