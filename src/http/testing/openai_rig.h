// For tests of the API: a backend that plays scripted events, and a writer that records.
//
// Threads: the backend's events come on the thread that calls Submit (scripts) or Emit.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <boost/json.hpp>

#include "base/check.h"
#include "http/openai_api.h"
#include "http/sse.h"

namespace surety::http::testing {

// Token ids are bytes; 256 begins a text, 257 ends it, 258 is "Hello", 259 is " world", 260 two bytes of a character of
// three.
constexpr api::TokenId kBos = 256, kEos = 257, kHello = 258, kWorld = 259, kHalf = 260;
constexpr int kVocabulary = 261;

inline std::string BytesOf(api::TokenId id) {
  if (id < 0 || id >= kVocabulary) return "";
  if (id < 256) return std::string(1, static_cast<char>(id));
  static const char* const kTexts[] = {"<s>", "</s>", "Hello", " world", "\xE4\xBD"};
  return kTexts[id - 256];
}

class FakeBackend : public api::Backend {
 public:
  using Script = std::vector<api::Event>;

  FakeBackend() {
    description_.name = "tiny";
    description_.digest = "d1";
    description_.architecture = "fake";
    description_.created_unix_s = 1700000000;
    description_.context_tokens = 128;
    description_.vocab_size = kVocabulary;
    description_.d_model = 3;
    description_.bos = kBos;
    description_.eos = kEos;
    description_.generates = true;
    description_.embeds = true;
  }

  const api::ModelDescription& description() const override { return description_; }
  api::Health health() const override { return api::Health::kReady; }

  std::expected<api::RequestId, api::Refusal> Submit(api::GenerationRequest request, api::EventSink sink) override {
    SURETY_CHECK(!in_sink_);
    const std::lock_guard lock(mutex_);
    if (refuse && requests.size() >= refuse_after) return std::unexpected(*refuse);
    const api::RequestId id = requests.size() + 1;
    sinks_[id] = {sink, request.n_choices};
    requests.push_back(std::move(request));
    if (requests.size() <= scripts.size()) {
      for (api::Event event : scripts[requests.size() - 1]) {
        event.request = id;
        Call(sink, event);
      }
      sinks_.erase(id);
    }
    return id;
  }

  void Cancel(api::RequestId id) override {
    const std::lock_guard lock(cancel_mutex_);
    cancelled.push_back(id);
  }

  // An event of a request that was submitted beyond the scripts.
  void Emit(api::RequestId id, api::Event event) {
    event.request = id;
    Call(sinks_.at(id).first, event);
  }
  void Forget(api::RequestId id) { sinks_.erase(id); }

  Result<std::vector<api::TokenId>> Tokenize(const api::GenerationRequest& request) const override {
    SURETY_CHECK(!in_sink_);
    if (request.has_tokens) return request.tokens;
    if (request.has_prompt) return TokenizeText(request.prompt, true, true);
    return TokenizeText(*RenderTemplate(request), false, true);
  }
  Result<std::vector<api::TokenId>> TokenizeText(std::string_view text, bool special, bool) const override {
    SURETY_CHECK(!in_sink_);
    std::vector<api::TokenId> ids;
    if (special) ids.push_back(kBos);
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  Result<std::string> RenderTemplate(const api::GenerationRequest& request) const override {
    SURETY_CHECK(!in_sink_);
    return boost::json::serialize(request.messages);
  }
  Result<std::string> Detokenize(std::span<const api::TokenId> tokens) const override {
    std::string text;
    for (const api::TokenId id : tokens) text += BytesOf(id);
    return LossyUtf8(text);
  }
  std::string TokenBytes(api::TokenId id) const override { return BytesOf(id); }

  Result<std::vector<api::EmbeddingResult>> Embed(std::span<const std::string> texts) override {
    std::vector<api::EmbeddingResult> results;
    for (const std::string& text : texts) results.push_back({{0.5f, -1, static_cast<float>(text.size())}, 2});
    return results;
  }
  Result<std::vector<api::EmbeddingResult>> EmbedTokens(std::span<const std::vector<api::TokenId>> lists) override {
    std::vector<api::EmbeddingResult> results;
    for (const auto& list : lists) {
      results.push_back({{0, 0, static_cast<float>(list.size())}, static_cast<int>(list.size())});
    }
    return results;
  }
  Result<api::ForgetReceipt> Forget(const api::Scope&, api::ForgetExtent) override { return api::ForgetReceipt{}; }
  void Drain(int64_t) override {}
  boost::json::object DebugState() const override { return {}; }
  boost::json::array RecentSteps(int) const override { return {}; }

  api::ModelDescription description_;
  std::vector<Script> scripts;                    // of the first requests; later ones wait for Emit
  std::vector<api::GenerationRequest> requests;   // as they came
  std::vector<api::RequestId> cancelled;
  std::optional<api::Refusal> refuse;
  size_t refuse_after = 0;

 private:
  static void Call(const api::EventSink& sink, const api::Event& event) {
    in_sink_ = true;  // a sink may call Cancel and TokenBytes alone
    sink(event);
    in_sink_ = false;
  }

  static inline thread_local bool in_sink_ = false;
  std::mutex mutex_, cancel_mutex_;
  std::map<api::RequestId, std::pair<api::EventSink, int>> sinks_;
};

class RecordingWriter : public ResponseWriter {
 public:
  struct Record {
    int status = 0;
    std::string content_type, body;   // of a stream: all pieces
    std::vector<std::string> pieces;
    HeaderList headers;
    bool streamed = false, finished = false;
    int n_answers = 0;                // Send or StartStream
    int fail_after = -1;              // writes that work; -1: all
    std::function<void()> on_disconnect;

    std::string Header(std::string_view name) const {
      for (const auto& [key, value] : headers) {
        if (key == name) return value;
      }
      return "";
    }
    boost::json::object Json() const { return boost::json::parse(body).as_object(); }
  };

  explicit RecordingWriter(std::shared_ptr<Record> record) : record_(std::move(record)) {}
  ~RecordingWriter() override {
    if (record_->n_answers == 0) record_->status = 500;  // as the transport does
  }

  void Send(int status, std::string_view type, std::string body, HeaderList headers) override {
    ++record_->n_answers;
    record_->status = status;
    record_->content_type = type;
    record_->body = std::move(body);
    record_->headers = std::move(headers);
    record_->finished = true;
  }
  void StartStream(int status, std::string_view type, HeaderList headers) override {
    ++record_->n_answers;
    record_->status = status;
    record_->content_type = type;
    record_->headers = std::move(headers);
    record_->streamed = true;
  }
  bool Write(std::string data) override {
    SURETY_CHECK(record_->streamed && !record_->finished);
    if (record_->fail_after >= 0 && static_cast<int>(record_->pieces.size()) >= record_->fail_after) return false;
    record_->body += data;
    record_->pieces.push_back(std::move(data));
    return true;
  }
  void FinishStream() override {
    SURETY_CHECK(record_->streamed && !record_->finished);
    record_->finished = true;
  }
  void OnDisconnect(std::function<void()> callback) override { record_->on_disconnect = std::move(callback); }

 private:
  std::shared_ptr<Record> record_;
};

using Record = RecordingWriter::Record;

// The API over one fake model "tiny" (alias "small"); seeds drawn are 77.
class ApiRig {
 public:
  explicit ApiRig(observe::Tracer* tracer = nullptr, Clock* clock = nullptr) {
    SURETY_CHECK(registry->Add("tiny", backend).ok());
    SURETY_CHECK(registry->AddAlias("small", "tiny").ok());
    OpenAiOptions options;
    options.models = registry;
    options.clock = clock != nullptr ? clock : &clock_;
    options.tracer = tracer;
    options.draw_seed = [] { return uint64_t{77}; };
    options.post = post;
    routes = OpenAiRoutes(options);
  }

  // As a server would: the first route that fits.
  std::shared_ptr<Record> Call(std::string_view method, const std::string& path, std::string body,
                               std::shared_ptr<Record> record = std::make_shared<Record>()) {
    HttpRequest request;
    request.method = method;
    request.path = path;
    request.body = std::move(body);
    request.request_id = "r1";
    request.identity = identity;
    request.headers = headers;
    for (const Route& route : routes) {
      const bool rest = route.path.ends_with("/*") && path.starts_with(route.path.substr(0, route.path.size() - 1));
      if (route.method != method || (route.path != path && !rest)) continue;
      route.handler(std::move(request), std::make_shared<RecordingWriter>(record));
      return record;
    }
    SURETY_CHECK_MSG(false, "no such route");
    return record;
  }
  std::shared_ptr<Record> Post(const std::string& path, std::string body) {
    return Call("POST", path, std::move(body));
  }

  std::shared_ptr<FakeBackend> backend = std::make_shared<FakeBackend>();
  std::shared_ptr<ModelRegistry> registry = std::make_shared<ModelRegistry>();
  Identity identity;
  std::map<std::string, std::string> headers;  // of requests
  PostTask post;
  std::vector<Route> routes;

 private:
  class FixedClock : public Clock {
    int64_t NowNanos() const override { return 0; }
    int64_t WallNanos() const override { return 1'750'000'000'000'000'000; }
    void SleepNanos(int64_t) override {}
  };
  FixedClock clock_;
};

// ---- Events.

inline api::Event Text(std::string text, int choice = 0) {
  api::Event event;
  event.choice = choice;
  event.text = std::move(text);
  return event;
}

inline api::Event End(api::FinishReason finish, int choice = 0, api::Usage usage = {10, 4, 3, 0, 0}) {
  api::Event event;
  event.choice = choice;
  event.finish = finish;
  event.usage = usage;
  event.timings = {1'000'000, 2'000'000, 3'500'000};
  return event;
}

// The JSON of each "data: " event, the names of the events in `names`; a last [DONE] is left out and told by `done`.
inline std::vector<boost::json::object> Chunks(std::string_view stream, bool& done,
                                               std::vector<std::string>* names = nullptr) {
  std::vector<boost::json::object> chunks;
  done = false;
  std::string name;
  while (!stream.empty()) {
    const size_t end = stream.find('\n');
    SURETY_CHECK(end != std::string_view::npos);
    const std::string_view line = stream.substr(0, end);
    stream.remove_prefix(end + 1);
    if (line.empty()) {
      name.clear();
    } else if (line.starts_with("event: ")) {
      name = line.substr(7);
    } else {
      SURETY_CHECK(line.starts_with("data: ") && !done);
      const std::string_view data = line.substr(6);
      if (data == "[DONE]") {
        done = true;
        continue;
      }
      chunks.push_back(boost::json::parse(boost::json::string_view(data.data(), data.size())).as_object());
      if (names != nullptr) names->push_back(name);
    }
  }
  return chunks;
}

}  // namespace surety::http::testing
