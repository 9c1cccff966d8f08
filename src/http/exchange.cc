#include "http/exchange.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "http/response_head.h"

namespace surety::http {
namespace {

// Small pieces are joined, so that a head and a short body leave in one packet; a long body is moved, not copied.
constexpr size_t kJoinBytes = 16 * 1024;

bool HasNoBody(int status) { return status == 204 || status == 304 || status < 200; }

void CallSafely(const std::function<void()>& callback) {
  if (!callback) return;
  try {
    callback();
  } catch (...) {  // a callback that fails must not take other connections with it
  }
}

class ExchangeWriter : public ResponseWriter {
 public:
  explicit ExchangeWriter(std::shared_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {}
  ~ExchangeWriter() override { exchange_->Abandon(); }

  void Send(int status, std::string_view content_type, std::string body, HeaderList headers) override {
    exchange_->Send(status, content_type, std::move(body), std::move(headers));
  }
  void StartStream(int status, std::string_view content_type, HeaderList headers) override {
    exchange_->StartStream(status, content_type, std::move(headers));
  }
  bool Write(std::string data) override { return exchange_->Write(std::move(data)); }
  void FinishStream() override { exchange_->FinishStream(); }
  void OnDisconnect(std::function<void()> callback) override { exchange_->OnDisconnect(std::move(callback)); }

 private:
  std::shared_ptr<Exchange> exchange_;
};

}  // namespace

std::shared_ptr<ResponseWriter> Exchange::MakeWriter(std::shared_ptr<Exchange> exchange) {
  return std::make_shared<ExchangeWriter>(std::move(exchange));
}

std::string Exchange::Head(int status, std::string_view content_type, const HeaderList& headers, int64_t length) {
  HeaderList all = options_.common_headers;
  all.insert(all.end(), headers.begin(), headers.end());
  ResponseFrame frame;
  frame.status = status;
  frame.content_type = content_type;
  frame.headers = &all;
  frame.content_length = length;
  frame.chunked = chunked_;
  frame.close = !options_.keep_alive;
  frame.http_1_1 = options_.http_1_1;
  frame.request_id = options_.request_id;
  frame.wall_nanos = options_.clock->WallNanos();
  status_ = status;
  no_body_ = options_.head_only || HasNoBody(status);
  return SerializeHead(frame);
}

void Exchange::Append(std::string data) {
  if (data.empty()) return;
  unsent_bytes_ += data.size();
  if (!pieces_.empty() && pieces_.back().size() + data.size() <= kJoinBytes) {
    pieces_.back() += data;
  } else {
    pieces_.push_back(std::move(data));
  }
}

void Exchange::Wake() {
  if (host_ == nullptr || woken_) return;
  woken_ = true;
  host_->WakeForOutput();
}

void Exchange::Send(int status, std::string_view content_type, std::string body, HeaderList headers) {
  std::function<void()> dropped;  // destroyed after the lock is gone
  std::lock_guard lock(mutex_);
  if (host_ == nullptr || state_ != State::kOpen) return;
  const int64_t length = HasNoBody(status) ? -1 : static_cast<int64_t>(body.size());
  Append(Head(status, content_type, headers, length));
  if (!no_body_) Append(std::move(body));
  state_ = State::kComplete;
  dropped.swap(on_disconnect_);
  Wake();
}

void Exchange::SendError(const Refused& refused, HeaderList headers) {
  Send(refused.status, "application/json", ErrorBody(refused), std::move(headers));
}

void Exchange::StartStream(int status, std::string_view content_type, HeaderList headers) {
  std::lock_guard lock(mutex_);
  if (host_ == nullptr || state_ != State::kOpen) return;
  const bool has_body = !HasNoBody(status);
  chunked_ = has_body && options_.http_1_1;
  if (has_body && !chunked_) options_.keep_alive = false;  // the end of the connection is the end of the body
  Append(Head(status, content_type, headers, -1));
  state_ = State::kStreaming;
  Wake();
}

bool Exchange::Write(std::string data) {
  std::lock_guard lock(mutex_);
  if (host_ == nullptr || cut_ || state_ != State::kStreaming) return false;
  if (data.empty() || no_body_) return true;
  if (unsent_bytes_ > options_.max_buffer_bytes) {
    cut_ = overflowed_ = true;
    Wake();
    return false;
  }
  if (chunked_) {
    std::array<char, 24> size;
    const int n = std::snprintf(size.data(), size.size(), "%zx\r\n", data.size());
    data.insert(0, size.data(), static_cast<size_t>(n));
    data += "\r\n";
  }
  Append(std::move(data));
  Wake();
  return true;
}

void Exchange::FinishStream() {
  std::function<void()> dropped;
  std::lock_guard lock(mutex_);
  if (host_ == nullptr || cut_ || state_ != State::kStreaming) return;
  if (chunked_ && !no_body_) Append("0\r\n\r\n");
  state_ = State::kComplete;
  dropped.swap(on_disconnect_);
  Wake();
}

void Exchange::OnDisconnect(std::function<void()> callback) {
  {
    std::lock_guard lock(mutex_);
    if (state_ == State::kComplete) return;
    if (host_ != nullptr) {
      on_disconnect_ = std::move(callback);
      return;
    }
  }
  CallSafely(callback);
}

void Exchange::Abandon() {
  {
    std::lock_guard lock(mutex_);
    if (host_ == nullptr || state_ == State::kComplete) return;
    if (state_ == State::kStreaming) {
      cut_ = true;
      Wake();
      return;
    }
  }
  SendError({500, "internal_error", "the server did not answer this request; that is a fault of the server"});
}

Exchange::Output Exchange::Take() {
  std::lock_guard lock(mutex_);
  woken_ = false;
  Output output;
  output.pieces.swap(pieces_);
  output.complete = state_ == State::kComplete;
  output.cut = cut_;
  return output;
}

void Exchange::OnSent(size_t n_bytes) {
  std::lock_guard lock(mutex_);
  unsent_bytes_ -= std::min(unsent_bytes_, n_bytes);
}

void Exchange::Detach() {
  std::function<void()> callback;
  {
    std::lock_guard lock(mutex_);
    host_ = nullptr;
    callback.swap(on_disconnect_);
    if (state_ == State::kComplete) return;
  }
  CallSafely(callback);
}

void Exchange::ForbidKeepAlive() {
  std::lock_guard lock(mutex_);
  options_.keep_alive = false;
}

int Exchange::status() const {
  std::lock_guard lock(mutex_);
  return status_;
}

bool Exchange::keep_alive() const {
  std::lock_guard lock(mutex_);
  return options_.keep_alive;
}

bool Exchange::complete() const {
  std::lock_guard lock(mutex_);
  return state_ == State::kComplete;
}

bool Exchange::overflowed() const {
  std::lock_guard lock(mutex_);
  return overflowed_;
}

}  // namespace surety::http
