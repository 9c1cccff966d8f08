#include "http/connection.h"

#include <algorithm>
#include <utility>

namespace surety::http {
namespace {

constexpr size_t kHeadReadBytes = 4096;
constexpr size_t kBodyReadBytes = 64 * 1024;
constexpr size_t kWatchReadBytes = 512;         // while answering: it is the only buffer of an idle stream
constexpr size_t kMaxAheadBytes = 16 * 1024;    // of further requests sent ahead
constexpr size_t kMaxLingerBytes = 4 << 20;
constexpr size_t kKeptBufferBytes = 4096;

void Shrink(std::string& buffer, size_t wanted) {
  if (buffer.capacity() > std::max(wanted, kKeptBufferBytes) || wanted == 0) std::string().swap(buffer);
}

}  // namespace

Connection::Connection(std::unique_ptr<Stream> stream, const ConnectionContext& context,
                       std::function<void()> on_closed)
    : stream_(std::move(stream)), context_(context), on_closed_(std::move(on_closed)) {
  context_.log.ConnectionOpened();
}

Connection::~Connection() {
  if (exchange_) exchange_->Detach();
}

Stream::Done Connection::Guarded(IoStep step) {
  return [self = shared_from_this(), step](IoResult result, size_t n) {
    try {
      (self.get()->*step)(result, n);
    } catch (...) {  // out of memory: this connection pays
      self->Close(Outcome::kAborted);
    }
  };
}

std::function<void()> Connection::Guarded(Step step) {
  return [self = shared_from_this(), step] {
    try {
      (self.get()->*step)();
    } catch (...) {
      self->Close(Outcome::kAborted);
    }
  };
}

void Connection::PostStep(Step step) { stream_->Post(Guarded(step)); }

void Connection::Start() { PostStep(&Connection::DoStart); }
void Connection::StartRefused() { PostStep(&Connection::DoRefuse); }
void Connection::Drain() { PostStep(&Connection::DoDrain); }
void Connection::Abort() { PostStep(&Connection::DoAbort); }

void Connection::WakeForOutput() {
  if (weak_from_this().expired()) return;  // being destroyed
  PostStep(&Connection::PullOutput);
}

void Connection::DoStart() {
  if (state_ == State::kClosed) return;
  SetDeadline(context_.limits.header_timeout_ms, &Connection::OnHeadLate);
  stream_->Handshake(Guarded(&Connection::OnHandshake));
}

void Connection::DoRefuse() {
  if (state_ == State::kClosed) return;
  context_.log.ConnectionRefused();
  state_ = State::kHead;
  Refuse({503, "too_many_connections", "too many connections are open; try again"});
  ReadMore();
}

void Connection::DoDrain() {
  draining_ = true;
  if (exchange_) exchange_->ForbidKeepAlive();
  if (state_ == State::kHandshake || (state_ == State::kHead && !head_)) Close(Outcome::kComplete);
}

void Connection::DoAbort() { Close(Outcome::kAborted); }

void Connection::OnHandshake(IoResult result, size_t) {
  if (state_ != State::kHandshake) return;
  if (result != IoResult::kOk) return Close(Outcome::kDisconnected);
  state_ = State::kHead;
  ReadMore();
}

// Input.

void Connection::Consume(size_t n) {
  input_begin_ += n;
  if (input_begin_ < input_.size()) return;
  input_begin_ = 0;
  input_.clear();
  Shrink(input_, kKeptBufferBytes);
}

void Connection::ReadMore() {
  if (reading_ || input_ended_ || state_ == State::kClosed) return;
  if (state_ == State::kAnswering && unread().size() >= kMaxAheadBytes) return;
  const size_t size = state_ == State::kBody || state_ == State::kLingering ? kBodyReadBytes
                      : state_ == State::kAnswering                         ? kWatchReadBytes
                                                                            : kHeadReadBytes;
  if (read_buffer_.size() != size) {
    std::string().swap(read_buffer_);
    read_buffer_.resize(size);
  }
  reading_ = true;
  stream_->ReadSome(read_buffer_.data(), read_buffer_.size(), Guarded(&Connection::OnRead));
}

void Connection::OnRead(IoResult result, size_t n) {
  reading_ = false;
  if (state_ == State::kClosed) return;
  if (result == IoResult::kFailed) return Close(Outcome::kDisconnected);
  if (result == IoResult::kEnd) {
    input_ended_ = true;
    return OnInputEnd();
  }
  if (state_ == State::kLingering) {
    lingered_bytes_ += n;
    if (lingered_bytes_ > kMaxLingerBytes) return Close(Outcome::kComplete);
    return ReadMore();
  }
  if (input_begin_ > 0) {
    input_.erase(0, input_begin_);
    input_begin_ = 0;
  }
  input_.append(read_buffer_, 0, n);
  if (state_ == State::kAnswering) return ReadMore();
  Process();
}

void Connection::OnInputEnd() {
  switch (state_) {
    case State::kHead:
      if (!head_) return Close(Outcome::kComplete);
      return Refuse({400, "bad_request", "the request ended in the middle of its head"});
    case State::kBody:
      return Refuse({400, "bad_request", "the request ended in the middle of its body"});
    case State::kAnswering:
      // An answer that is ready goes out all the same: the client may have closed its own direction alone.
      if (!exchange_->complete() && !refusal_) Close(Outcome::kDisconnected);
      return;
    default:
      return Close(Outcome::kComplete);
  }
}

void Connection::Process() {
  while (state_ == State::kHead || state_ == State::kBody) {
    if (!(state_ == State::kHead ? ProcessHead() : ProcessBody())) break;
  }
  if (input_ended_) {
    if (state_ != State::kClosed && state_ != State::kLingering) OnInputEnd();
    return;
  }
  ReadMore();
}

bool Connection::ProcessHead() {
  if (!head_) {
    while (unread().starts_with("\r\n")) Consume(2);  // RFC 9112, 2.2: empty lines before a request are let pass
    if (unread().empty() || unread() == "\r") return false;
    head_.emplace(static_cast<size_t>(context_.limits.max_header_bytes));
    SetDeadline(context_.limits.header_timeout_ms, &Connection::OnHeadLate);
  }
  Consume(head_->Feed(unread()));
  if (head_->refused()) {
    Refuse(Refused(*head_->refused()));
    return false;
  }
  if (!head_->done()) return false;
  OnHead();
  return true;
}

bool Connection::ProcessBody() {
  Consume(body_->Feed(unread()));
  const auto size = static_cast<int64_t>(body_->size());
  const int64_t total = context_.buffered_body_bytes += size - counted_body_bytes_;
  counted_body_bytes_ = size;
  if (body_->refused()) {
    Refuse(Refused(*body_->refused()));
    return false;
  }
  if (total > context_.limits.max_buffered_body_bytes) {
    Refuse({503, "overloaded", "the server is reading too many long requests; try again"});
    return false;
  }
  if (!body_->done()) return false;
  Dispatch();
  return true;
}

void Connection::BeginRecord() {
  if (counted_request_) return;
  counted_request_ = true;
  context_.log.RequestBegan();
  record_ = {};
  record_.remote = stream_->remote_address();
  record_.start_ns = context_.clock.NowNanos();
  if (head_) {
    const RequestHead& head = head_->head();
    record_.method = head.method;
    record_.path = head.target.substr(0, head.target.find('?'));
    const auto id = head.headers.find("x-request-id");
    if (id != head.headers.end() && IsSaneRequestId(id->second)) record_.request_id = id->second;
  }
  if (record_.request_id.empty()) record_.request_id = NewRequestId();
}

void Connection::OnHead() {
  BeginRecord();
  const RequestHead& head = head_->head();
  auto target = ParseTarget(head.target);
  if (!target) return Refuse({400, "bad_request", target.error().message()});
  target_ = *std::move(target);
  decision_ = context_.gate.Decide(head, target_);
  record_.path = target_.path;
  record_.route_index = decision_.route_index;
  record_.subject = decision_.identity.subject;
  if (decision_.refused) {
    const bool guessed = decision_.guessed;
    refusal_ = decision_.refused;
    BeginAnswer(head.keep_alive && !head.has_body());
    if (!guessed) return SendRefusal();
    context_.log.AuthenticationFailed();
    SetDeadline(context_.brake.DelayMsAfterFailure(stream_->remote_address(), stream_->NowNanos()),
                &Connection::SendRefusal);
  } else if (decision_.answer_empty) {
    BeginAnswer(head.keep_alive && !head.has_body());
    exchange_->Send(204, "", "", {});
  } else {
    AskForBody();
  }
}

void Connection::AskForBody() {
  const RequestHead& head = head_->head();
  body_.emplace(head, static_cast<uint64_t>(context_.limits.max_body_bytes));
  if (body_->refused()) return Refuse(Refused(*body_->refused()));
  if (body_->done()) return Dispatch();
  state_ = State::kBody;
  SetDeadline(context_.limits.body_timeout_ms, &Connection::OnBodyLate);
  if (head.expects_continue && unread().empty()) {
    output_.emplace_back("HTTP/1.1 100 Continue\r\n\r\n");
    if (!writing_) WriteNext();
  }
}

void Connection::Dispatch() {
  RequestHead& head = head_->head();
  HttpRequest request;
  request.method = std::move(head.method);
  request.path = std::move(target_.path);
  request.query = std::move(target_.query);
  request.headers = std::move(head.headers);
  request.body = body_->TakeBody();
  request.request_id = record_.request_id;
  request.start_ns = record_.start_ns;
  request.identity = std::move(decision_.identity);
  record_.body_bytes = static_cast<int64_t>(request.body.size());
  const Route& route = *decision_.route;
  BeginAnswer(head.keep_alive);
  auto writer = Exchange::MakeWriter(exchange_);
  try {
    route.handler(std::move(request), std::move(writer));
  } catch (...) {  // a handler's fault: with its writer gone, the answer is a 500
  }
}

// Answers.

void Connection::BeginAnswer(bool keep_alive) {
  state_ = State::kAnswering;
  ClearDeadline();
  ExchangeOptions options;
  options.max_buffer_bytes = static_cast<size_t>(context_.limits.max_stream_buffer_bytes);
  options.keep_alive = keep_alive && !draining_;
  options.head_only = record_.method == "HEAD";
  options.http_1_1 = !head_ || head_->head().http_1_1;
  options.request_id = record_.request_id;
  options.common_headers = std::move(decision_.headers);
  options.clock = &context_.clock;
  exchange_ = std::make_shared<Exchange>(*this, std::move(options));
  answer_complete_ = false;
  ReleaseBody();
}

// For what the connection cannot go on after.
void Connection::Refuse(const Refused& refused) {
  BeginRecord();
  if (body_) record_.body_bytes = static_cast<int64_t>(body_->size());
  BeginAnswer(false);
  HeaderList headers;
  if (refused.status == 503) headers.emplace_back("Retry-After", "1");
  exchange_->SendError(refused, std::move(headers));
}

void Connection::SendRefusal() {
  const Refused refused = *std::move(refusal_);
  refusal_.reset();
  exchange_->SendError(refused);
}

void Connection::ReleaseBody() {
  context_.buffered_body_bytes -= counted_body_bytes_;
  counted_body_bytes_ = 0;
  head_.reset();
  body_.reset();
  target_ = {};
  decision_ = {};
}

void Connection::PullOutput() {
  if (state_ == State::kClosed || !exchange_) return;
  Exchange::Output output = exchange_->Take();
  if (output.cut) return Close(exchange_->overflowed() ? Outcome::kTooSlow : Outcome::kAborted);
  for (std::string& piece : output.pieces) output_.push_back(std::move(piece));
  answer_complete_ = output.complete;
  if (!writing_) WriteNext();
}

void Connection::WriteNext() {
  if (!output_.empty()) {
    writing_ = true;
    if (state_ == State::kAnswering && !refusal_) {
      SetDeadline(context_.limits.write_timeout_ms, &Connection::OnWriteLate);
    }
    const std::string& front = output_.front();
    stream_->WriteSome(front.data() + output_begin_, front.size() - output_begin_, Guarded(&Connection::OnWritten));
    return;
  }
  if (state_ != State::kAnswering) return;
  if (answer_complete_) return OnAnswerDone();
  if (!refusal_) ClearDeadline();
}

void Connection::OnWritten(IoResult result, size_t n) {
  writing_ = false;
  if (state_ == State::kClosed) return;
  if (result != IoResult::kOk) return Close(Outcome::kDisconnected);
  record_.sent_bytes += static_cast<int64_t>(n);
  if (exchange_) exchange_->OnSent(n);
  output_begin_ += n;
  if (output_begin_ >= output_.front().size()) {
    output_.pop_front();
    output_begin_ = 0;
  }
  WriteNext();
}

void Connection::OnAnswerDone() {
  const bool keep_alive = exchange_->keep_alive() && !draining_;
  EndRequest(Outcome::kComplete);
  if (!keep_alive) return Linger();
  state_ = State::kHead;
  SetDeadline(context_.limits.idle_timeout_ms, &Connection::OnIdle);
  Process();
}

void Connection::EndRequest(Outcome outcome) {
  if (exchange_) {
    record_.status = exchange_->status();
    const std::shared_ptr<Exchange> exchange = std::exchange(exchange_, nullptr);
    exchange->Detach();
  }
  answer_complete_ = false;
  refusal_.reset();
  if (!counted_request_) return;
  counted_request_ = false;
  record_.outcome = outcome;
  try {
    context_.log.RequestEnded(record_);
  } catch (...) {  // a log that fails is no reason to fail the request
  }
}

// A socket closed with unread input resets the connection, and the client may lose the answer. So input is read and
// dropped for a while after the last answer.
void Connection::Linger() {
  state_ = State::kLingering;
  if (input_ended_) return Close(Outcome::kComplete);
  std::string().swap(input_);
  input_begin_ = 0;
  SetDeadline(context_.limits.linger_timeout_ms, &Connection::OnIdle);
  stream_->ShutdownSend(Guarded(&Connection::OnShutdown));
  ReadMore();
}

void Connection::OnShutdown(IoResult result, size_t) {
  if (result == IoResult::kFailed) Close(Outcome::kComplete);
}

void Connection::Close(Outcome outcome) {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  EndRequest(outcome);
  ReleaseBody();
  output_.clear();
  stream_->Close();
  context_.log.ConnectionClosed();
  if (const auto on_closed = std::exchange(on_closed_, nullptr)) on_closed();
}

// Deadlines. One timer runs, for the earliest deadline asked for; a later deadline only moves the time at which the
// timer's callback finds that it came too early.

void Connection::SetDeadline(int64_t delay_ms, Step action) {
  deadline_ns_ = stream_->NowNanos() + delay_ms * 1'000'000;
  on_deadline_ = action;
  if (timer_ns_ <= deadline_ns_) return;
  timer_ns_ = deadline_ns_;
  stream_->StartTimer(delay_ms, Guarded(&Connection::OnTimer));
}

void Connection::OnTimer() {
  timer_ns_ = INT64_MAX;
  if (state_ == State::kClosed || deadline_ns_ == INT64_MAX) return;
  const int64_t left_ns = deadline_ns_ - stream_->NowNanos();
  if (left_ns > 0) {
    timer_ns_ = deadline_ns_;
    stream_->StartTimer(left_ns / 1'000'000 + 1, Guarded(&Connection::OnTimer));
    return;
  }
  deadline_ns_ = INT64_MAX;
  (this->*on_deadline_)();
}

void Connection::OnHeadLate() {
  if (!head_) return Close(Outcome::kDisconnected);
  Refuse({408, "request_timeout", "the request's head did not arrive in time"});
}

void Connection::OnBodyLate() { Refuse({408, "request_timeout", "the request's body did not arrive in time"}); }

void Connection::OnIdle() { Close(Outcome::kComplete); }

void Connection::OnWriteLate() { Close(Outcome::kTooSlow); }

}  // namespace surety::http
