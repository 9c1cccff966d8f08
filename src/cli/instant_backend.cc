#include "cli/instant_backend.h"

#include <atomic>
#include <string_view>
#include <vector>

namespace surety::cli {
namespace {

constexpr int kContextTokens = 32768;
constexpr size_t kBytesPerToken = 4;
constexpr size_t kQuotes = 2;            // passages that an answer cites
constexpr size_t kLeastQuote = 40;       // bytes; a shorter first sentence is left out

std::string Unescaped(std::string_view text) {
  static constexpr std::pair<std::string_view, char> kMarks[] = {{"&lt;", '<'}, {"&gt;", '>'}, {"&amp;", '&'}};
  std::string out;
  for (size_t at = 0; at < text.size();) {
    size_t taken = 1;
    char c = text[at];
    for (const auto& [mark, plain] : kMarks) {
      if (!text.substr(at).starts_with(mark)) continue;
      c = plain;
      taken = mark.size();
      break;
    }
    out += c;
    at += taken;
  }
  return out;
}

// The first sentence that a citation can quote; empty: none.
std::string_view Quotable(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && text[end] != '\n' &&
           !(text[end] == '.' && (end + 1 == text.size() || text[end + 1] == ' ' || text[end + 1] == '\n'))) {
      ++end;
    }
    const std::string_view sentence = text.substr(at, end - at);
    const bool whole = end < text.size() && text[end] == '.';
    if (whole && sentence.size() >= kLeastQuote && sentence.find_first_of("\"[]") == std::string_view::npos) {
      return sentence;
    }
    at = end + 1;
    while (at < text.size() && (text[at] == ' ' || text[at] == '\n')) ++at;
  }
  return {};
}

std::string_view SystemText(const api::GenerationRequest& request) {
  for (const boost::json::value& message : request.messages) {
    const boost::json::value* role = message.is_object() ? message.get_object().if_contains("role") : nullptr;
    if (role == nullptr || !role->is_string() || role->get_string() != "system") continue;
    const boost::json::value* content = message.get_object().if_contains("content");
    if (content != nullptr && content->is_string()) return content->get_string();
  }
  return {};
}

class InstantBackend final : public api::Backend {
 public:
  explicit InstantBackend(const std::string& name) {
    description_.name = name;
    description_.architecture = "instant";
    description_.context_tokens = description_.trained_context_tokens = kContextTokens;
    description_.generates = true;
  }

  const api::ModelDescription& description() const override { return description_; }
  api::Health health() const override { return api::Health::kReady; }

  std::expected<api::RequestId, api::Refusal> Submit(api::GenerationRequest request, api::EventSink sink) override {
    api::Event event;
    event.request = ++n_requests_;
    event.text = InstantAnswer(request);
    event.finish = api::FinishReason::kStop;
    event.usage.output_tokens = static_cast<int>(event.text.size() / kBytesPerToken);
    const api::RequestId id = event.request;
    sink(std::move(event));
    return id;
  }
  void Cancel(api::RequestId) override {}

  Result<std::vector<api::TokenId>> Tokenize(const api::GenerationRequest&) const override { return None(); }
  Result<std::vector<api::TokenId>> TokenizeText(std::string_view text, bool, bool) const override {
    return std::vector<api::TokenId>((text.size() + kBytesPerToken - 1) / kBytesPerToken);
  }
  Result<std::string> RenderTemplate(const api::GenerationRequest&) const override { return None(); }
  Result<std::string> Detokenize(std::span<const api::TokenId>) const override { return None(); }
  std::string TokenBytes(api::TokenId) const override { return {}; }
  Result<std::vector<api::EmbeddingResult>> Embed(std::span<const std::string>) override { return None(); }
  Result<std::vector<api::EmbeddingResult>> EmbedTokens(std::span<const std::vector<api::TokenId>>) override {
    return None();
  }
  Result<api::ForgetReceipt> Forget(const api::Scope&, api::ForgetExtent) override { return api::ForgetReceipt{}; }
  void Drain(int64_t) override {}
  boost::json::object DebugState() const override { return {{"model", description_.name}}; }
  boost::json::array RecentSteps(int) const override { return {}; }

 private:
  static std::unexpected<Status> None() {
    return Error(UnimplementedError("a model that answers at once has no words"));
  }

  api::ModelDescription description_;
  std::atomic<api::RequestId> n_requests_ = 0;
};

}  // namespace

std::string InstantAnswer(const api::GenerationRequest& request) {
  constexpr std::string_view kOpen = "<source id=\"", kClose = "</source>";
  const std::string_view system = SystemText(request);
  std::string answer;
  size_t n_quotes = 0;
  size_t at = 0;
  while (n_quotes < kQuotes && (at = system.find(kOpen, at)) != std::string_view::npos) {
    at += kOpen.size();
    const size_t id_end = system.find('"', at);
    const size_t begin = system.find("\">", id_end);
    const size_t end = system.find(kClose, begin);
    if (id_end == std::string_view::npos || begin == std::string_view::npos || end == std::string_view::npos) break;
    const std::string text = Unescaped(system.substr(begin + 2, end - begin - 2));
    const std::string_view quote = Quotable(text);
    if (quote.empty()) continue;
    if (n_quotes++ > 0) answer += ' ';
    answer.append(quote).append(" [").append(system.substr(at, id_end - at)).append(" \"").append(quote).append("\"].");
  }
  return answer.empty() ? "Thank you for the question." : answer;
}

std::shared_ptr<api::Backend> MakeInstantBackend(const std::string& name) {
  return std::make_shared<InstantBackend>(name);
}

}  // namespace surety::cli
