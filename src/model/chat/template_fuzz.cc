// Any bytes as a template, rendered with fixed messages under small limits: it must end, in a text or a Status, and the
// segments must alternate in trust and none be empty.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <boost/json.hpp>

#include "base/check.h"
#include "model/chat/template.h"

namespace {

const surety::model::TemplateInput& Input() {
  static const surety::model::TemplateInput input = [] {
    surety::model::TemplateInput result;
    result.values = boost::json::parse(R"({
      "messages": [{"role": "system", "content": "Be \u00fcber <|x|>"}, {"role": "user", "content": "Hi\n there "},
                   {"role": "assistant", "content": null,
                    "tool_calls": [{"function": {"name": "f", "arguments": {"x": [1, 2.5, true]}}}]}],
      "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}],
      "add_generation_prompt": true, "s": "a,b", "l": [3, 1, 2], "d": {"k": "v"}, "i": 7})")
                        .as_object();
    result.bos_token = "<s>";
    result.eos_token = "</s>";
    return result;
  }();
  return input;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  surety::model::TemplateLimits limits;
  limits.max_steps = 20'000;
  limits.max_output_bytes = 1 << 16;
  const auto parsed =
      surety::model::ChatTemplate::Parse(std::string_view(reinterpret_cast<const char*>(data), size), limits);
  if (!parsed) {
    SURETY_CHECK(!parsed.error().message().empty());
    return 0;
  }
  const auto segments = (*parsed)->Render(Input());
  if (!segments) return 0;
  for (size_t i = 0; i < segments->size(); ++i) {
    SURETY_CHECK(!(*segments)[i].text.empty());
    SURETY_CHECK(i == 0 || (*segments)[i].trusted != (*segments)[i - 1].trusted);
  }
  return 0;
}
