#include "engine/answer_shape.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace surety::engine {

std::shared_ptr<const TokenTrie> ShapeMaker::Trie(bool with_markers) {
  const std::lock_guard lock(mutex_);
  auto& trie = with_markers ? with_markers_ : plain_;
  if (trie == nullptr) {
    trie = with_markers ? TokenTrie::Make(tokenizer_, ToolMarkers(family_)) : TokenTrie::Make(tokenizer_);
  }
  return trie;
}

Result<std::shared_ptr<const AnswerShape>> ShapeMaker::Make(const api::GenerationRequest& request) {
  using Choice = api::ToolUse::Choice;
  const bool is_constrained = request.constraint.kind != api::Constraint::Kind::kNone;
  const Choice choice = request.tool_use.choice;
  if (!is_constrained && choice == Choice::kNone) return nullptr;
  auto shape = std::make_shared<AnswerShape>();
  if (choice != Choice::kNone) {
    const auto* tools = request.template_values.if_contains("tools");
    if (tools == nullptr || !tools->is_array()) {
      return Error(InvalidArgumentError("tool_use: tool calls are asked for, but there are no tools"));
    }
    SURETY_ASSIGN_OR_RETURN(shape->tool_names, ToolNames(tools->get_array()));
    shape->family = family_;
    shape->markers = ToolMarkers(family_);
    if (choice == Choice::kRequired || choice == Choice::kNamed) {
      if (is_constrained) {
        return Error(InvalidArgumentError("tool_use: a required call and a constraint on the text exclude each other"));
      }
      SURETY_ASSIGN_OR_RETURN(shape->grammar, ToolCallGrammar(family_, tools->get_array(), request.tool_use));
      shape->trie = Trie(true);
    }
  }
  if (is_constrained) {
    SURETY_ASSIGN_OR_RETURN(shape->grammar, CompileConstraint(request.constraint));
    shape->trie = Trie(false);
  }
  if (shape->grammar != nullptr) {
    SURETY_ASSIGN_OR_RETURN([[maybe_unused]] auto tried, GrammarSession::Make(shape->grammar, shape->trie));
  }
  return shape;
}

ShapedAnswer::ShapedAnswer(std::shared_ptr<const AnswerShape> shape) : shape_(std::move(shape)) {
  if (shape_ == nullptr) return;
  if (shape_->grammar != nullptr) {
    auto session = GrammarSession::Make(shape_->grammar, shape_->trie);
    SURETY_CHECK(session.has_value());
    matcher_.emplace(*std::move(session));
    mask_.resize(shape_->trie->mask_words());
  }
  if (shape_->family != ToolFamily::kNone) parser_.emplace(shape_->family, shape_->tool_names);
}

ShapedAnswer ShapedAnswer::Fork() const {
  ShapedAnswer fork(nullptr);
  fork.shape_ = shape_;
  fork.matcher_ = matcher_;
  fork.mask_ = mask_;
  return fork;
}

Status ShapedAnswer::Mask(std::span<float> logits) {
  SURETY_RETURN_IF_ERROR(matcher_->FillMask(mask_));
  constexpr float kForbidden = -std::numeric_limits<float>::infinity();
  bool any = false;
  for (size_t i = 0; i < logits.size(); ++i) {
    if ((mask_[i / 64] >> (i % 64) & 1) == 0) {
      logits[i] = kForbidden;
    } else {
      any |= logits[i] != kForbidden;
    }
  }
  if (any) return OkStatus();
  if (!matcher_->CanEnd()) {
    return FailedPreconditionError("of the tokens that the constraint allows here the request forbids every one");
  }
  // Complete, and only a request for more tokens than the constraint has room for forbade the end.
  for (const int32_t id : shape_->trie->end_ids()) logits[static_cast<size_t>(id)] = 0;
  return OkStatus();
}

void ShapedAnswer::Accept(int32_t token) {
  if (matcher_) matcher_->AcceptToken(token);
}

uint64_t ShapedAnswer::AllowedNodes(const spec::DraftTree& tree, uint64_t wanted) const {
  if (!matcher_) return wanted;
  uint64_t allowed = 1;
  std::vector<std::optional<GrammarMatcher>> states(static_cast<size_t>(tree.size()));  // of nodes that are allowed
  states[0] = *matcher_;
  for (int n = 1; n < tree.size(); ++n) {
    if ((wanted >> n & 1) == 0 || (allowed >> tree.parent(n) & 1) == 0) continue;
    std::optional<GrammarMatcher>& state = states[static_cast<size_t>(n)];
    state = states[static_cast<size_t>(tree.parent(n))];
    if (state->AcceptToken(tree.token(n))) allowed |= uint64_t{1} << n;
  }
  return allowed;
}

std::string_view ShapedAnswer::MarkerText(const model::Tokenizer& tokenizer, int32_t token) const {
  if (shape_ == nullptr || shape_->markers.empty() || !tokenizer.IsControl(token)) return {};
  const std::string_view text = tokenizer.TokenText(token);
  return std::find(shape_->markers.begin(), shape_->markers.end(), text) != shape_->markers.end() ? text
                                                                                                   : std::string_view();
}

ToolCallText ShapedAnswer::Push(std::string text) {
  if (parser_) return parser_->Push(text);
  return {std::move(text), {}};
}

ToolCallText ShapedAnswer::Finish() { return parser_ ? parser_->Finish() : ToolCallText(); }

}  // namespace surety::engine
