#include "http/openai_exchange.h"

#include <string>

#include "http/governance_note.h"
#include "http/request_trace.h"
#include "http/sse.h"

namespace surety::http {
namespace {

// Nobody reads it; the log of requests shows it.
ApiError ClientLeft() {
  ApiError error;
  error.status = 499;
  error.message = "the client closed the connection";
  error.code = "client_closed_request";
  return error;
}

ApiError Draining() {
  ApiError error = ErrorOf(UnavailableError("the server is shutting down or the model is being unloaded"));
  error.retry_after_s = 1;
  return error;
}

}  // namespace

void ApiExchange::Run(Setup setup, const std::shared_ptr<api::Backend>& backend,
                   std::vector<api::GenerationRequest> requests) {
  const auto exchange = std::make_shared<ApiExchange>(std::move(setup), *backend);
  exchange->setup_.writer->OnDisconnect(
      [weak = exchange->weak_from_this(), owner = std::weak_ptr<api::Backend>(backend)] {
        const auto alive = owner.lock();
        const auto self = weak.lock();
        if (alive != nullptr && self != nullptr) self->CancelAll();
      });
  exchange->Submit(std::move(requests));
}

void ApiExchange::Submit(std::vector<api::GenerationRequest> requests) {
  for (const api::GenerationRequest& request : requests) {
    n_choices_.push_back(request.n_choices);
    n_open_ += request.n_choices;
  }
  for (size_t part = 0; part < requests.size(); ++part) {
    if (cancelled_) break;
    const auto id = backend_->Submit(
        std::move(requests[part]), [self = shared_from_this(), part = static_cast<int>(part)](api::Event event) {
          self->OnEvent(part, std::move(event));
        });
    if (!id) {
      ApiError error = setup_.explain(id.error(), part);
      AddGovernance(id.error().decision, error);
      {
        const std::lock_guard lock(write_mutex_);
        decision_ = id.error().decision;
        Fail(error);
      }
      CancelAll();
      return;
    }
    std::unique_lock lock(ids_mutex_);
    if (!cancelled_) {
      ids_.push_back(*id);
    } else {
      lock.unlock();
      backend_->Cancel(*id);
    }
  }
  bool cancel = false;
  {
    const std::lock_guard lock(write_mutex_);
    submitted_ = true;
    if (cancelled_) Fail(ClientLeft());
    for (auto& [part, event] : std::exchange(early_, {})) cancel |= Take(part, event);
  }
  if (cancel) CancelAll();
}

void ApiExchange::OnEvent(int part, api::Event event) {
  RequestTrace* trace = event.progress ? nullptr : setup_.writer->trace();
  if (trace != nullptr) trace->OnEvent(part, event);
  bool cancel = false;
  {
    const std::lock_guard lock(write_mutex_);
    if (!submitted_ && !ended_) {
      if (event.progress) return;
      early_.emplace_back(part, std::move(event));
      return;
    }
    cancel = Take(part, event);
  }
  if (cancel) CancelAll();
}

bool ApiExchange::Take(int part, const api::Event& event) {
  if (ended_) return false;
  if (cancelled_) return Fail(ClientLeft());
  if (event.choice < 0 || event.choice >= n_choices_[static_cast<size_t>(part)]) return false;
  if (event.progress) return TakeProgress(event);
  if (event.decision != nullptr) decision_ = event.decision;
  produced_ |= !event.text.empty() || !event.tokens.empty() || !event.tool_calls.empty();
  switch (event.finish) {
    case api::FinishReason::kError: {
      ApiError error = ErrorOf(event.error.ok() ? InternalError("") : event.error);
      // A governed prompt is built here: that it has no room is known of the request, not of a field.
      if (decision_ != nullptr && event.error.code() == StatusCode::kOutOfRange) {
        error.status = 413;
        error.code = "context_length_exceeded";
      }
      AddGovernance(decision_, error);
      return Fail(error);
    }
    case api::FinishReason::kFiltered:
      if (setup_.answer->streams()) return Fail(FilteredError(decision_));
      break;
    case api::FinishReason::kCancelled: return Fail(Draining());
    case api::FinishReason::kTimeout:
      if (!produced_) {
        return Fail(ErrorOf(Status(StatusCode::kDeadlineExceeded, "the request's time limit passed before it began"),
                            "timeout"));
      }
      break;
    default: break;
  }
  std::string text;
  setup_.answer->Add(part, event, text);
  if (event.finish != api::FinishReason::kNone) --n_open_;
  const bool last = n_open_ == 0;
  if (!setup_.answer->streams()) {
    if (last) End();
    return false;
  }
  if (last) text += setup_.answer->Finish();
  const bool stays = Deliver(std::move(text));
  if (last && stays) {
    ended_ = true;
    setup_.writer->FinishStream();
  }
  return !stays;
}

// From here on the status line is out: what fails later ends the stream with an error.
bool ApiExchange::TakeProgress(const api::Event& event) {
  if (!setup_.answer->streams() || event.decision == nullptr) return false;
  decision_ = event.decision;
  return !Deliver(ProgressComment(*event.decision));
}

// Of a body: the whole of it.
void ApiExchange::End() {
  ended_ = true;
  std::string body = setup_.answer->Finish();
  HeaderList headers = Headers();
  for (auto& header : setup_.answer->Headers()) headers.push_back(std::move(header));
  setup_.writer->Send(200, "application/json", std::move(body), std::move(headers));
}

// False if the client has left: then the stream is finished.
bool ApiExchange::Deliver(std::string text) {
  if (text.empty()) return true;
  if (!started_) {
    started_ = true;
    HeaderList headers = Headers();
    headers.emplace_back("Cache-Control", "no-cache");
    headers.emplace_back("X-Accel-Buffering", "no");  // proxies in front pass each piece on at once
    setup_.writer->StartStream(200, kSseContentType, std::move(headers));
  }
  if (setup_.writer->Write(std::move(text))) return true;
  ended_ = true;
  setup_.writer->FinishStream();
  return false;
}

bool ApiExchange::Fail(const ApiError& error) {
  if (ended_) return false;
  ended_ = true;
  early_.clear();
  if (!started_) {
    SendError(*setup_.writer, error, decision_ == nullptr ? HeaderList() : GovernanceHeaders(*decision_));
  } else {
    if (RequestTrace* trace = setup_.writer->trace()) trace->Failed(error.code, error.status >= 500);
    setup_.writer->Write(setup_.answer->Fail(error));
    setup_.writer->FinishStream();
  }
  return true;
}

HeaderList ApiExchange::Headers() const {
  HeaderList headers = setup_.headers;
  if (decision_ == nullptr) return headers;
  for (auto& header : GovernanceHeaders(*decision_)) headers.push_back(std::move(header));
  return headers;
}

void ApiExchange::CancelAll() {
  std::vector<api::RequestId> ids;
  {
    const std::lock_guard lock(ids_mutex_);
    cancelled_ = true;
    ids.swap(ids_);
  }
  for (const api::RequestId id : ids) backend_->Cancel(id);
}

}  // namespace surety::http
