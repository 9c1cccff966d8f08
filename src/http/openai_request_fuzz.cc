// Any bytes as the body of each endpoint: a 4xx that says something, or requests within their ranges and one answer.
// The first byte chooses the endpoint.
#include <cstddef>
#include <cstdint>
#include <string>

#include "http/testing/openai_rig.h"

namespace {

using surety::http::testing::ApiRig;

constexpr const char* kPaths[] = {"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/embeddings",
                                  "/tokenize", "/detokenize", "/apply-template"};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  static ApiRig* rig = new ApiRig;
  rig->backend->requests.clear();
  const char* path = kPaths[data[0] % std::size(kPaths)];
  const auto record = rig->Post(path, std::string(reinterpret_cast<const char*>(data + 1), size - 1));
  const auto requests = rig->backend->requests;
  for (size_t r = 0; r < requests.size(); ++r) {
    SURETY_CHECK(requests[r].sampling.Validate(surety::http::testing::kVocabulary).ok());
    SURETY_CHECK(requests[r].has_messages + requests[r].has_prompt + requests[r].has_tokens == 1);
    SURETY_CHECK(requests[r].n_choices >= 1 && requests[r].n_choices <= 128 && requests[r].max_tokens != 0);
    for (int choice = 0; choice < requests[r].n_choices; ++choice) {
      rig->backend->Emit(r + 1, surety::http::testing::Text("t", choice));
      rig->backend->Emit(r + 1, surety::http::testing::End(surety::api::FinishReason::kStop, choice));
    }
    rig->backend->Forget(r + 1);
  }
  SURETY_CHECK(record->n_answers == 1 && record->finished);
  SURETY_CHECK(record->status == 200 || (record->status >= 400 && record->status < 500));
  if (record->status != 200) SURETY_CHECK(!record->Json().at("error").at("message").as_string().empty());
  return 0;
}
