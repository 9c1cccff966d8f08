// Text that a grammar forces, drafted over windows of its bytes.
#include "engine/forced_drafter.h"

#include <string>

#include <gtest/gtest.h>

#include "engine/sequence.h"
#include "engine/testing/speculation_fixture.h"

namespace surety::engine {
namespace {

class ForcedDrafterTest : public testing::SpeculationFixture {
 protected:
  // A choice of a request that must write an object with this one key and value.
  struct Written {
    RequestState state;
    std::unique_ptr<kv::PagePool> pool;
    std::unique_ptr<Sequence> sequence;
  };

  static std::unique_ptr<Written> Writing(const std::string& key, const std::string& value) {
    auto made = std::make_unique<Written>();
    api::GenerationRequest& request = made->state.prepared.request;
    request.constraint.kind = api::Constraint::Kind::kJsonSchema;
    request.constraint.schema = boost::json::object{
        {"type", "object"}, {"properties", {{key, {{"const", value}}}}}, {"required", {key}},
        {"additionalProperties", false}};
    ShapeMaker maker(Llama().tokenizer(), "");
    auto shape = maker.Make(request);
    EXPECT_TRUE(shape.has_value()) << shape.error().ToString();
    made->state.prepared.shape = *std::move(shape);
    made->state.prepared.prompt = {3, 4, 5};
    made->state.prepared.max_tokens = 1000;
    made->pool = *kv::PagePool::Make(Llama().config().KvLayoutFor(KvType::kF16, 16), 4);
    made->sequence = std::make_unique<Sequence>(made->state, 0, made->state.prepared.prompt, Llama().tokenizer(),
                                                *made->pool);
    return made;
  }

  // Draft upon draft, each as it would be verified, until nothing is forced any more: how long each was.
  static std::vector<int> TakeAll(ForcedDrafter& drafter, Sequence& sequence, int max_depth) {
    std::vector<int> lengths;
    for (DraftProposal proposal;; lengths.push_back(static_cast<int>(proposal.tree.size()) - 1)) {
      proposal.Clear(sequence.tokens.back());
      DraftProposal* const proposals[] = {&proposal};
      const DraftWish wish = {.sequence = &sequence, .max_nodes = max_depth, .max_depth = max_depth};
      drafter.Draft({&wish, 1}, proposals);
      if (proposal.tree.size() == 1 || lengths.size() == 1000) return lengths;
      for (int n = 1; n < static_cast<int>(proposal.tree.size()); ++n) {
        const int32_t token = proposal.tree.token(n);
        sequence.shaped.Accept(token);
        sequence.tokens.push_back(token);
        drafter.Observe(sequence, token);
      }
    }
  }
};

// All of a forced text is drafted, whatever window of bytes it is found in and wherever a window cuts a character.
TEST_F(ForcedDrafterTest, AForcedTextIsDraftedToItsEndOverManyWindows) {
  for (const char* letter : {"a", "ab ", "\xC3\xA9", "\xE2\x82\xAC\xC3\xA9x"}) {
    for (const int max_depth : {1, 5, 16, 63}) {
      std::string key = "k";
      while (key.size() < 500) key += letter;
      const auto written = Writing(key, "v" + key);
      ASSERT_TRUE(written->sequence->shaped.constrained());
      // The object may begin with white space; behind its brace and a quote there is no choice.
      ForcedDrafter drafter(Llama().tokenizer());
      for (const int32_t token : Llama().tokenizer().Encode("{\"", false)) {
        written->sequence->shaped.Accept(token);
        written->sequence->tokens.push_back(token);
      }
      const int n_before = written->sequence->n_tokens();
      const auto lengths = TakeAll(drafter, *written->sequence, max_depth);
      const std::string text = Llama().tokenizer().Decode(
          std::span(written->sequence->tokens).subspan(static_cast<size_t>(n_before)));
      EXPECT_TRUE(text.starts_with(key + "\"")) << text;
      EXPECT_GE(lengths.size(), 3u);
      for (size_t i = 0; i + 1 < lengths.size(); ++i) EXPECT_GE(lengths[i], std::max(1, std::min(max_depth, 16) / 2));
    }
  }
}

}  // namespace
}  // namespace surety::engine
