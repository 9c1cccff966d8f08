// One client's connection: requests in, one after the other, answers out.
//
// It reads while an answer is under way, so that a client that leaves is noticed at once; what a client sends ahead
// (pipelining) waits, up to a limit. An end of input counts as leaving: half-closed connections are not kept waiting.
//
// Threads: Start, Drain and Abort from any thread; everything else on the stream's strand. Owns: the stream.
// Invariants: (1) at most one request is being answered; answers come in the order of requests. (2) Every wait for the
// client has a deadline, except between the pieces of a stream that the handler has yet to write. (3) The owner hears
// of the end exactly once.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "http/auth.h"
#include "http/body_decoder.h"
#include "http/exchange.h"
#include "http/gate.h"
#include "http/request_head.h"
#include "http/request_log.h"
#include "http/server_options.h"
#include "http/stream.h"

namespace surety::http {

// What the connections of a listener share; outlives them.
struct ConnectionContext {
  const ServerLimits& limits;
  const Gate& gate;
  RequestLog& log;
  FailureBrake& brake;
  std::atomic<int64_t>& buffered_body_bytes;
  const Clock& clock;
};

class Connection : public ExchangeHost, public std::enable_shared_from_this<Connection> {
 public:
  // `on_closed` runs on the strand when the connection has ended.
  Connection(std::unique_ptr<Stream> stream, const ConnectionContext& context, std::function<void()> on_closed);
  ~Connection() override;

  void Start();                  // posts
  void StartRefused();           // posts: answers 503 and closes
  void Drain();                  // ends after the request under way, at once if there is none
  void Abort();
  void WakeForOutput() override;

 private:
  enum class State : uint8_t { kHandshake, kHead, kBody, kAnswering, kLingering, kClosed };
  using Step = void (Connection::*)();
  using IoStep = void (Connection::*)(IoResult, size_t);

  // Callbacks hold the connection, and let no exception out: it would end the connection, not the server.
  Stream::Done Guarded(IoStep step);
  std::function<void()> Guarded(Step step);
  void PostStep(Step step);

  void DoStart();
  void DoRefuse();
  void DoDrain();
  void DoAbort();
  void OnHandshake(IoResult result, size_t n);
  void ReadMore();
  void OnRead(IoResult result, size_t n);
  void OnInputEnd();
  void Process();
  bool ProcessHead();            // false: needs more bytes
  bool ProcessBody();
  void BeginRecord();
  void OnHead();
  void AskForBody();
  void Dispatch();
  void BeginAnswer(bool keep_alive);
  void Refuse(const Refused& refused);
  void SendRefusal();
  void PullOutput();
  void WriteNext();
  void OnWritten(IoResult result, size_t n);
  void OnAnswerDone();
  void EndRequest(Outcome outcome);
  void ReleaseBody();
  void Linger();
  void OnShutdown(IoResult result, size_t n);
  void Close(Outcome outcome);

  void SetDeadline(int64_t delay_ms, Step action);
  void ClearDeadline() { deadline_ns_ = INT64_MAX; }
  void OnTimer();
  void OnHeadLate();
  void OnBodyLate();
  void OnIdle();
  void OnWriteLate();

  std::string_view unread() const { return std::string_view(input_).substr(input_begin_); }
  void Consume(size_t n);

  std::unique_ptr<Stream> stream_;
  const ConnectionContext& context_;
  std::function<void()> on_closed_;
  State state_ = State::kHandshake;
  bool reading_ = false;
  bool writing_ = false;
  bool draining_ = false;
  bool input_ended_ = false;

  std::string input_;            // bytes received and not yet understood: [input_begin_, size)
  size_t input_begin_ = 0;
  std::string read_buffer_;
  std::deque<std::string> output_;
  size_t output_begin_ = 0;      // sent of output_.front()
  size_t lingered_bytes_ = 0;

  std::optional<HeadParser> head_;
  std::optional<BodyDecoder> body_;
  int64_t counted_body_bytes_ = 0;
  Target target_;
  Gate::Decision decision_;
  std::optional<Refused> refusal_;  // waiting for its delay
  std::shared_ptr<Exchange> exchange_;
  bool answer_complete_ = false;
  RequestRecord record_;
  bool counted_request_ = false;

  int64_t deadline_ns_ = INT64_MAX;
  int64_t timer_ns_ = INT64_MAX;  // when the running timer fires
  Step on_deadline_ = nullptr;
};

}  // namespace surety::http
