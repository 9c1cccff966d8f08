#include "engine/head_check.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "base/aligned_buffer.h"
#include "engine/text_front.h"
#include "engine/token_picker.h"
#include "kernels/cpu/cpu_ops.h"
#include "kv/page_pool.h"

namespace surety::engine {
namespace {

constexpr int kTrialPageTokens = 16;
// What the target writes about: answers, prose, code and a list, since heads are trained on such.
constexpr const char* kTrialPrompts[] = {"Explain how a bank decides whether to grant a loan.",
                                         "Tell a short story about a lighthouse keeper.",
                                         "Write a Python function that checks whether a number is prime.",
                                         "List five ways to save energy at home, with a reason for each."};
constexpr int kTrialTexts = 4;
// A neighbouring recipe is named if it knows this share of the tokens more: below it, both may be chance.
constexpr double kClearlyBetter = 0.05;

int32_t LargestOf(std::span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// Texts that the target wrote, and its hidden states along them.
class HeadTrial {
 public:
  explicit HeadTrial(LocalModel& model) : model_(model) {}

  // Writes n_tokens tokens in all, fewer where texts end.
  Status Write(int n_tokens);
  // The hidden states at these places, of every token but the last of each text.
  Status TakeStates(std::span<const model::HiddenTap> taps);
  Result<HeadCheckResult> Measure(model::DraftHead& head);

 private:
  struct Text {
    std::vector<int32_t> tokens;
    size_t n_prompt = 0;
    std::vector<float> states;
    bool ended = false;
  };
  Result<std::unique_ptr<kv::PagePool>> PoolOf(const KvLayout& layout) const {
    const int pages = static_cast<int>(longest_ + kTrialPageTokens) / kTrialPageTokens;
    return kv::PagePool::Make(layout, pages * kTrialTexts);
  }
  Status Begin(int n_each);
  void Forward(Text& text, size_t first, size_t end, std::span<const int32_t> pages, const PagedKvView& kv,
               MatrixF logits);
  void MeasureEagle(model::EagleHead& head, const Text& text, std::span<const int32_t> pages, const PagedKvView& kv,
                    HeadCheckResult& result) const;
  void MeasureMedusa(model::MedusaHead& head, const Text& text, HeadCheckResult& result) const;
  static void Score(const model::DraftHead& head, std::span<const float> logits, int32_t token,
                    HeadCheckResult& result);

  LocalModel& model_;
  std::vector<Text> texts_;
  size_t longest_ = 0;
};

Status HeadTrial::Begin(int n_each) {
  const auto context = static_cast<size_t>(model_.config().max_context);
  for (const char* prompt : kTrialPrompts) {
    api::GenerationRequest request;
    if (model_.chat_template() != nullptr) {
      request.has_messages = true;
      request.messages = {{{"role", "user"}, {"content", prompt}}};
    } else {
      request.has_prompt = true;
      request.prompt = prompt;
    }
    auto tokens = TokenizeRequest(model_, request, 0);
    Text text;
    if (tokens) text.tokens = *std::move(tokens);
    if (text.tokens.empty()) text.tokens.push_back(static_cast<int32_t>(texts_.size()) + 3);  // a bare vocabulary
    if (text.tokens.size() + 8 > context) text.tokens.resize(std::max<size_t>(1, context / 2));
    text.n_prompt = text.tokens.size();
    longest_ = std::max(longest_, std::min(context, text.tokens.size() + static_cast<size_t>(n_each)));
    texts_.push_back(std::move(text));
  }
  return OkStatus();
}

void HeadTrial::Forward(Text& text, size_t first, size_t end, std::span<const int32_t> pages, const PagedKvView& kv,
                        MatrixF logits) {
  std::vector<int32_t> positions(end - first);
  std::iota(positions.begin(), positions.end(), static_cast<int32_t>(first));
  const SequenceRows rows = {0, static_cast<int>(end - first), static_cast<int>(first), pages};
  const int32_t last = static_cast<int32_t>(end - first) - 1;
  const std::span<const int32_t> wanted = logits.rows > 0 ? std::span(&last, 1) : std::span<const int32_t>();
  model_.model().Forward({std::span(text.tokens).subspan(first, end - first), positions, {&rows, 1}, wanted}, kv,
                         logits);
}

Status HeadTrial::Write(int n_tokens) {
  const int n_each = std::max(8, n_tokens / kTrialTexts);
  SURETY_RETURN_IF_ERROR(Begin(n_each));
  SURETY_RETURN_IF_ERROR(model_.model().SetTaps({}));
  SURETY_RETURN_IF_ERROR(model_.model().Reserve(static_cast<int>(longest_), static_cast<int>(longest_)));
  SURETY_ASSIGN_OR_RETURN(const auto pool, PoolOf(model_.config().KvLayoutFor(KvType::kF16, kTrialPageTokens)));
  const std::vector<int32_t> ends = EndIds(model_.tokenizer());
  const auto n_words = static_cast<size_t>(model_.tokenizer().vocab_size());
  std::vector<float> logits(static_cast<size_t>(model_.config().vocab_size) * kTrialTexts);
  std::vector<kv::PageTable> tables;
  for (size_t i = 0; i < texts_.size(); ++i) {
    if (!tables.emplace_back(*pool).Extend(static_cast<int>(longest_))) return InternalError("no page for a trial");
    Forward(texts_[i], 0, texts_[i].n_prompt, tables[i].pages(), pool->view(),
            MatrixF(logits.data() + i * logits.size() / kTrialTexts, 1, model_.config().vocab_size));
  }
  for (;;) {
    std::vector<int32_t> ids, positions, wanted;
    std::vector<SequenceRows> rows;
    std::vector<size_t> who;
    for (size_t i = 0, row = 0; i < texts_.size(); ++i) {
      Text& text = texts_[i];
      if (text.ended) continue;
      const size_t stride = logits.size() / kTrialTexts;
      const size_t at = text.tokens.size() == text.n_prompt ? i : row;
      ++row;
      text.tokens.push_back(LargestOf(std::span(logits).subspan(at * stride, n_words)));
      text.ended = std::find(ends.begin(), ends.end(), text.tokens.back()) != ends.end() ||
                   text.tokens.size() >= text.n_prompt + static_cast<size_t>(n_each) || text.tokens.size() >= longest_;
      if (text.ended) continue;
      const int position = static_cast<int>(text.tokens.size()) - 1;
      rows.push_back({static_cast<int>(ids.size()), 1, position, tables[i].pages()});
      wanted.push_back(static_cast<int32_t>(ids.size()));
      ids.push_back(text.tokens.back());
      positions.push_back(position);
      who.push_back(i);
    }
    if (ids.empty()) return OkStatus();
    model_.model().Forward({ids, positions, rows, wanted}, pool->view(),
                           MatrixF(logits.data(), static_cast<int64_t>(ids.size()), model_.config().vocab_size));
  }
}

Status HeadTrial::TakeStates(std::span<const model::HiddenTap> taps) {
  SURETY_RETURN_IF_ERROR(model_.model().SetTaps(taps));
  SURETY_RETURN_IF_ERROR(model_.model().Reserve(static_cast<int>(longest_), static_cast<int>(longest_)));
  SURETY_ASSIGN_OR_RETURN(const auto pool, PoolOf(model_.config().KvLayoutFor(KvType::kF16, kTrialPageTokens)));
  for (Text& text : texts_) {
    kv::PageTable table(*pool);
    if (!table.Extend(static_cast<int>(text.tokens.size()))) return InternalError("no page for a trial");
    Forward(text, 0, text.tokens.size() - 1, table.pages(), pool->view(), MatrixF(nullptr, 0, 0));
    const ConstMatrixF kept = model_.model().taps();
    text.states.assign(kept.data, kept.data + kept.rows * kept.cols);
  }
  return OkStatus();
}

void HeadTrial::Score(const model::DraftHead& head, std::span<const float> logits, int32_t token,
                      HeadCheckResult& result) {
  const auto ids = head.target_ids();
  const int32_t said = LargestOf(logits);
  ++result.n_tried;
  result.n_held += (ids.empty() ? said : ids[static_cast<size_t>(said)]) == token ? 1 : 0;
}

// The row at slot s has read the tokens up to its own, so it says what stands at s + 1.
void HeadTrial::MeasureEagle(model::EagleHead& head, const Text& text, std::span<const int32_t> pages,
                             const PagedKvView& kv, HeadCheckResult& result) const {
  const size_t n_rows = text.tokens.size() - 2, first = std::max<size_t>(text.n_prompt, 2) - 2;
  std::vector<int32_t> positions(n_rows), wanted(n_rows - first);
  std::iota(positions.begin(), positions.end(), 1);
  std::iota(wanted.begin(), wanted.end(), static_cast<int32_t>(first));
  const SequenceRows rows = {0, static_cast<int>(n_rows), 1, pages, 1};
  const auto vocab = static_cast<size_t>(head.recipe().draft_vocab_size);
  std::vector<float> logits(wanted.size() * vocab);
  head.Forward({std::span(text.tokens).subspan(1, n_rows), positions, {&rows, 1}, wanted},
               ConstMatrixF(text.states.data(), static_cast<int64_t>(n_rows), head.state_dim(false)), false, kv,
               MatrixF(logits.data(), static_cast<int64_t>(wanted.size()), static_cast<int64_t>(vocab)));
  for (size_t i = 0; i < wanted.size(); ++i) {
    Score(head, std::span(logits).subspan(i * vocab, vocab), text.tokens[first + i + 2], result);
  }
}

void HeadTrial::MeasureMedusa(model::MedusaHead& head, const Text& text, HeadCheckResult& result) const {
  const size_t n_rows = text.tokens.size() - 2, first = std::max<size_t>(text.n_prompt, 2) - 2;
  const auto vocab = static_cast<size_t>(head.recipe().draft_vocab_size);
  std::vector<float> logits(n_rows * vocab);
  head.Forward(0, ConstMatrixF(text.states.data(), static_cast<int64_t>(n_rows), head.recipe().target_dim),
               MatrixF(logits.data(), static_cast<int64_t>(n_rows), static_cast<int64_t>(vocab)));
  for (size_t i = first; i < n_rows; ++i) {
    Score(head, std::span(logits).subspan(i * vocab, vocab), text.tokens[i + 2], result);
  }
}

Result<HeadCheckResult> HeadTrial::Measure(model::DraftHead& head) {
  SURETY_RETURN_IF_ERROR(head.Reserve(static_cast<int>(longest_), static_cast<int>(longest_)));
  HeadCheckResult result;
  std::unique_ptr<kv::PagePool> pool;
  const bool medusa = head.recipe().method == model::HeadMethod::kMedusa;
  if (!medusa) {
    SURETY_ASSIGN_OR_RETURN(pool, PoolOf(head.recipe().KvLayoutFor(KvType::kF16, kTrialPageTokens)));
  }
  for (const Text& text : texts_) {
    if (text.tokens.size() < 3) continue;
    if (medusa) {
      MeasureMedusa(static_cast<model::MedusaHead&>(head), text, result);
      continue;
    }
    kv::PageTable table(*pool);
    if (!table.Extend(static_cast<int>(text.tokens.size()))) return Error(InternalError("no page for a trial"));
    MeasureEagle(static_cast<model::EagleHead&>(head), text, table.pages(), pool->view(), result);
  }
  return result;
}

// Another way to read the same files.
struct Neighbour {
  model::HeadOptions options;
  std::string what;
};

std::vector<Neighbour> NeighboursOf(const model::HeadRecipe& recipe, const model::HeadOptions& options) {
  std::vector<Neighbour> result;
  if (recipe.method != model::HeadMethod::kEagle3) return result;
  model::HeadOptions other = options;
  other.norm_before_residual = !recipe.norm_before_residual;
  result.push_back({other, std::string("norm_before_residual ") + (*other.norm_before_residual ? "true" : "false")});
  for (const int shift : {1, -1}) {
    other = options;
    other.entering_layers.clear();
    std::string layers;
    for (const model::HiddenTap& tap : recipe.taps) {
      other.entering_layers.push_back(tap.layer + shift);
      layers += (layers.empty() ? "" : ",") + std::to_string(tap.layer + shift);
    }
    result.push_back({other, "hidden states entering layers " + layers});
  }
  return result;
}

std::string PerCent(double share) {
  const auto tenths = static_cast<int>(std::lround(share * 1000));
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " %";
}

// The best neighbour, if it is clearly better than `share`: "; with ... it would be ...".
std::string BetterNeighbour(FileSystem& files, LocalModel& model, HeadTrial& trial, const model::HeadOptions& options,
                            double share) {
  std::string best;
  share += kClearlyBetter;
  for (const Neighbour& neighbour : NeighboursOf(model.head()->recipe(), options)) {
    const auto ops = kernels::cpu::MakeCpuOps(model.executor(), nullptr);
    auto head = model::LoadDraftHead(files, neighbour.options, {model.source(), model.model()}, *ops);
    if (!head || !trial.TakeStates((*head)->recipe().taps).ok()) continue;
    const auto measured = trial.Measure(**head);
    if (!measured || measured->share() <= share) continue;
    share = measured->share();
    best = "; with " + neighbour.what + " it would be " + PerCent(share);
  }
  return best;
}

Result<HeadCheckResult> MeasureOwn(LocalModel& model, HeadTrial& trial, const HeadCheckOptions& options) {
  SURETY_RETURN_IF_ERROR(trial.Write(options.n_tokens));
  SURETY_RETURN_IF_ERROR(trial.TakeStates(model.head()->recipe().taps));
  return trial.Measure(*model.head());
}

}  // namespace

Result<HeadCheckResult> MeasureHead(LocalModel& model, const HeadCheckOptions& options) {
  HeadTrial trial(model);
  return MeasureOwn(model, trial, options);
}

Result<HeadCheckResult> CheckHead(FileSystem& files, LocalModel& model, const model::HeadOptions& head,
                                  const HeadCheckOptions& options) {
  HeadTrial trial(model);
  SURETY_ASSIGN_OR_RETURN(const HeadCheckResult result, MeasureOwn(model, trial, options));
  if (result.share() >= options.floor) return result;
  return Error(FailedPreconditionError(
      "'" + head.path + "' is of no use for '" + model.source().path() + "': of " + std::to_string(result.n_tried) +
      " tokens that the model wrote the head knew " + PerCent(result.share()) + ", below the floor of " +
      PerCent(options.floor) + BetterNeighbour(files, model, trial, head, result.share()) + " (read as " +
      model.head()->recipe().Describe() + ")"));
}

}  // namespace surety::engine
