// Any text as an answer: cut anywhere, it must give the same text and the same calls, and calls must hold JSON objects.
#include <algorithm>
#include <boost/json.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "engine/tool_calls.h"

namespace {

std::string Joined(surety::engine::ToolFamily family, std::string_view text, size_t step) {
  surety::engine::ToolCallParser parser(family, {"f", "g"});
  std::string all, calls;
  const auto add = [&](const surety::engine::ToolCallText& out) {
    all += out.text;
    for (const auto& delta : out.calls) {
      calls += '\0' + std::to_string(delta.index) + delta.name + delta.arguments;
      boost::system::error_code error;
      boost::json::parse_options options;
      options.max_depth = 100;
      if (delta.name.empty()) {
        SURETY_CHECK(boost::json::parse(delta.arguments, error, {}, options).is_object());
      } else {
        SURETY_CHECK(delta.name == "f" || delta.name == "g");
      }
    }
  };
  for (size_t at = 0; at < text.size(); at += step) add(parser.Push(text.substr(at, step)));
  add(parser.Finish());
  SURETY_CHECK(!calls.empty() || all == text);
  return all + calls;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto family = static_cast<surety::engine::ToolFamily>(data[0] % 5);
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string whole = Joined(family, text, std::max<size_t>(1, text.size()));
  SURETY_CHECK(Joined(family, text, 1) == whole);
  SURETY_CHECK(Joined(family, text, 7) == whole);
  return 0;
}
