// The only way out. Everything that leaves for a caller goes through a Sink of this file; what a model made goes into a
// HeldAnswer, which has no socket, and comes out only with a ReleaseToken, which only a judgement of all verifiers of
// the route, a person's approval, or a template can make. That a route that holds cannot stream is a matter of types:
// the pieces of a model's answer can be given to a StreamingSink alone, and OpenStream refuses to make one for a held
// route.
//
// Threads: one request's objects belong to one thread at a time, but for Progress, which any may call. Owns: the
// caller's sink, which is called under a lock: it must not call back here.
// Invariants: (1) a sink gets one last event for each choice. (2) Between Hold and Release no byte of the answer, of
// its reasoning or of its tool calls reaches the caller's sink, nor how much of it there is. (3) A token is for one
// decision and is used once. (4) Progress comes before any piece of the answer and before the last event, never after.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "api/backend.h"
#include "base/status.h"
#include "gateway/policy.h"
#include "gateway/verifier.h"

namespace surety::gateway {

class ReleaseToken {
 public:
  ReleaseToken(ReleaseToken&& other) noexcept;
  ReleaseToken& operator=(ReleaseToken&&) = delete;
  ReleaseToken(const ReleaseToken&) = delete;

  // `answer`: that was judged. kPermissionDenied unless the judgement is kRelease and holds a verdict for each of the
  // route's verifiers, or where a person releases the route's answers.
  static Result<ReleaseToken> ForJudgement(const RouteSpec& route, const Policy& policy, const std::string& decision,
                                           const AnswerText& answer, const Judgement& judgement);
  // `approved_digest`: SHA-256 of the text that was approved, as the row of its release has it.
  static ReleaseToken ForApproval(const std::string& decision, std::string approved_digest);
  // A text that the policy holds; no model made it.
  static ReleaseToken ForTemplate(const std::string& decision, const AnswerText& answer);
  // Of a cached answer that was released before under the same key, and whose validity was checked again.
  static ReleaseToken ForCacheHit(const std::string& decision, std::string stored_digest);

  const std::string& decision() const { return decision_; }

 private:
  friend class CallerSink;
  friend Result<std::string> OpenApproved(ReleaseToken&& token, const std::string& decision, std::string text);
  ReleaseToken(std::string decision, std::string digest) : decision_(std::move(decision)), digest_(std::move(digest)) {}
  std::string decision_;
  std::string digest_;     // of the answer it is for
  bool spent_ = false;
};

// Canonical digest of text, reasoning and calls.
std::string DigestOf(const AnswerText& answer);

class CallerSink {
 public:
  // `n_choices` of the request; a governed answer has one choice.
  CallerSink(std::string decision, api::EventSink sink);

  // Releases a whole answer in one event. kPermissionDenied: a spent token, another decision's, or another text's; then
  // nothing has left.
  Status Release(ReleaseToken&& token, const AnswerText& answer, api::Event last);
  // Ends without content: refused, review, failed.
  void Refuse(api::Event last);
  // Says where the request stands: of `now` the id, route, policy's version, stage and objectives leave, and nothing
  // else. False: something has left or the request has ended, so nothing more is said.
  bool Progress(api::RequestId request, const api::Decision& now);

 private:
  friend class StreamingSink;
  std::string decision_;
  api::EventSink sink_;
  std::mutex mutex_;       // the sink is called under it, so that nothing can pass the last event
  bool begun_ = false, ended_ = false;
};

// An approved text, for who asks for it later. kPermissionDenied: a spent token, another decision's, or another text's
// (`text` is not the one that was approved).
Result<std::string> OpenApproved(ReleaseToken&& token, const std::string& decision, std::string text);

// For internal readers below high risk: pieces leave as drafts.
class StreamingSink {
 public:
  // kPermissionDenied: the route holds, its audience is the customer, or the risk is high.
  static Result<StreamingSink> Open(const RouteSpec& route, Level risk, CallerSink& sink);
  void Pass(api::Event event);      // not a last one
  void End(api::Event last);

 private:
  explicit StreamingSink(CallerSink& sink) : sink_(&sink) {}
  CallerSink* sink_;
};

}  // namespace surety::gateway
