#include "gateway/conversation.h"

#include <string>
#include <vector>

#include <boost/json.hpp>
#include <gtest/gtest.h>

#include "base/random.h"
#include "gateway/tools.h"

namespace surety::gateway {
namespace {

namespace json = boost::json;

api::GenerationRequest DrawnRequest(uint64_t n) {
  uint32_t drawn = 0;
  const RandomKey key{.seed = 11, .position = n, .purpose = RandomPurpose::kTest};
  const auto below = [&](uint64_t limit) { return RandomBits(key, drawn++) % limit; };
  const auto text = [&] {
    static const std::vector<std::string> kTexts = {"", "a", "\"\\\n\x01 b", "\xC3\xA9\xE2\x82\xAC", "\x7F\xFF",
                                                    std::string(9000, 'x'), std::string("nul\0in", 6)};
    return kTexts[below(kTexts.size())];
  };
  const auto number = [&] { return static_cast<float>(below(5)) / 4; };
  api::GenerationRequest request;
  request.has_messages = true;
  for (uint64_t i = 0; i < 1 + below(4); ++i) {
    const char* role = i == 0 || below(2) == 0 ? "user" : "assistant";
    request.messages.push_back(json::object{{"role", role}, {"content", text()}, {"n", below(3)}});
  }
  if (below(2) == 0) request.template_values = {{"b", text()}, {"a", {1, nullptr, {{"deep", 0.5}}}}};
  for (uint64_t i = 0; i < below(3); ++i) {
    request.sampling.logit_bias.emplace_back(static_cast<int>(below(9)), number());
  }
  request.sampling.temperature = number();
  request.sampling.top_p = number();
  request.sampling.top_k = static_cast<int>(below(50));
  request.sampling.seed = RandomBits(key, drawn++);
  request.sampling.lane = static_cast<uint32_t>(below(4));
  request.max_tokens = static_cast<int>(below(3)) - 1;
  for (uint64_t i = 0; i < below(3); ++i) request.stop.push_back(text());
  for (uint64_t i = 0; i < below(3); ++i) request.stop_tokens.push_back(static_cast<int>(below(9)));
  if (below(2) == 0) request.constraint.schema = {{"type", "object"}, {"required", {"x", text()}}};
  request.constraint.grammar = text();
  request.tool_use.name = text();
  request.prediction = text();
  request.seed_is_secret = below(2) == 0;
  return request;
}

// The plain way: the object that replay reads, with what is no parameter taken out.
TEST(ConversationTest, DecodingIsTheCanonicalTextOfAllParameters) {
  for (uint64_t n = 0; n < 500; ++n) {
    const api::GenerationRequest request = DrawnRequest(n);
    json::object all = RequestToJson(request);
    all.erase("messages");
    if (request.seed_is_secret) all.erase("seed");
    ASSERT_EQ(DecodingOf(request), CanonicalJson(all)) << n;
  }
}

TEST(ConversationTest, TheRestOfAConversationIsOneCanonicalText) {
  for (uint64_t n = 0; n < 500; ++n) {
    const auto conversation = ReadConversation(DrawnRequest(n));
    ASSERT_TRUE(conversation) << n;
    ASSERT_EQ(conversation->canonical, CanonicalJson(json::array{conversation->history, conversation->after})) << n;
  }
}

// Character by character, as RFC 8785 has it.
TEST(ConversationTest, ACanonicalTextIsEscapedByteByByte) {
  const std::string hex = "0123456789abcdef";
  for (uint64_t n = 0; n < 2000; ++n) {
    const RandomKey key{.seed = 12, .position = n, .purpose = RandomPurpose::kTest};
    std::string text, expected = "\"";
    for (uint32_t i = 0; i < RandomBits(key, 0) % 20; ++i) {
      const uint64_t drawn = RandomBits(key, i + 1);
      const char c = drawn % 3 == 0 ? static_cast<char>(drawn >> 8) : "\"\\\n\x1F z\x7F/"[(drawn >> 8) % 8];
      text += c;
      const size_t named = std::string("\b\t\n\f\r\"\\").find(c);
      const auto code = static_cast<unsigned char>(c);
      if (named != std::string::npos) {
        expected += std::string("\\") + "btnfr\"\\"[named];
      } else if (code < 0x20) {
        expected += std::string("\\u00") + hex[code >> 4] + hex[code & 15];
      } else {
        expected += c;
      }
    }
    ASSERT_EQ(CanonicalJson(json::value(text)), expected + "\"") << n;
  }
}

}  // namespace
}  // namespace surety::gateway
