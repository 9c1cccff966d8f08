// Any JSON as a schema: it must end in a grammar or a message with a pointer, and a text sampled from the grammar must
// be JSON.
#include <boost/json.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "engine/grammar/parse_states.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace surety::engine;
  boost::system::error_code error;
  boost::json::parse_options options;
  options.max_depth = 200;
  const auto schema =
      boost::json::parse(std::string_view(reinterpret_cast<const char*>(data), size), error, {}, options);
  if (error) return 0;
  GrammarLimits limits;
  limits.max_states = 20'000;
  limits.max_edges = 100'000;
  limits.max_rules = 5000;
  const auto grammar = CompileJsonSchema(schema, limits);
  if (!grammar) {
    SURETY_CHECK(grammar.error().message().starts_with("schema #"));
    return 0;
  }
  ParseStates states(*grammar);
  ParseStates::Id id = states.IdOf(states.start());
  std::string text;
  for (size_t step = 0; step < 300 && id != ParseStates::kDeadId && !states.state(id)->complete; ++step) {
    // Mostly towards an end: quotes and brackets first.
    ParseStates::Id next = ParseStates::kDeadId;
    uint8_t taken = 0;
    for (int i = 0; i < 256 && next == ParseStates::kDeadId; ++i) {
      const size_t seed = size == 0 ? 0 : data[step % size];
      taken = i == 0 ? '"' : i == 1 ? '}' : i == 2 ? ']' : static_cast<uint8_t>(i * 37 + static_cast<int>(seed));
      next = states.Step(id, taken);
    }
    text += static_cast<char>(taken);
    id = next;
  }
  if (id != ParseStates::kDeadId && states.state(id)->complete) {
    boost::json::parse(text, error, {}, options);
    SURETY_CHECK(!error);
  }
  return 0;
}
