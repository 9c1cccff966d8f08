// What a server streams (chat.completion.chunk, text_completion, or one whole body) as events of the choices.
//
// Threads: one. Errors: of Chunk and Whole: kInternal for what is no such answer (no JSON, a choice that was not asked
// for, text behind the end, a reason that is not known), or the error that the server reports inside the stream.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/request.h"

namespace surety::gateway {

class RemoteAnswer {
 public:
  struct Choice {
    api::FinishReason finish = api::FinishReason::kNone;
    std::string stop_text;
    std::vector<std::string> call_ids;  // by index of the call
    size_t n_bytes = 0;                 // of text and arguments
  };

  // `secrets`: what no error may repeat; may be null, else outlives this.
  RemoteAnswer(int n_choices, size_t prompt_bytes, const std::vector<std::string>* secrets = nullptr)
      : choices_(static_cast<size_t>(n_choices)), prompt_bytes_(prompt_bytes), secrets_(secrets) {}

  // The data of one server-sent event. What came is appended to `events`, without a finish.
  Status Chunk(std::string_view data, std::vector<api::Event>& events);
  // A body that is no stream: all choices with their ends.
  Status Whole(std::string_view body, std::vector<api::Event>& events);

  bool done() const { return done_; }                // [DONE] has come
  bool has_usage() const { return has_usage_; }
  bool all_finished() const;
  const Choice& choice(int index) const { return choices_[static_cast<size_t>(index)]; }
  // As the server says. Where it says nothing: a token for every three bytes. Output tokens of several choices come as
  // one number; each gets its share by length, so that their sum is that number.
  api::Usage UsageOf(int index) const;

 private:
  Status Apply(const boost::json::value& chunk, bool whole, std::vector<api::Event>& events);
  Status ApplyChoice(const boost::json::object& object, bool whole, std::vector<api::Event>& events);
  Status ApplyCalls(const boost::json::value& calls, Choice& choice, api::Event& event);
  Status Finish(const boost::json::value& reason, const boost::json::object& object, Choice& choice);
  void ReadUsage(const boost::json::value& usage);

  std::vector<Choice> choices_;
  const size_t prompt_bytes_;
  const std::vector<std::string>* secrets_;
  bool done_ = false, has_usage_ = false;
  api::Usage usage_;
};

// How many tokens a text has, where nobody can be asked: one for every three bytes, more than most texts have.
int EstimatedTokens(size_t n_bytes);

}  // namespace surety::gateway
