// One HTTP request from its backend requests to its last byte: submits them, turns their events into the answer, and
// cancels them when the client leaves or the answer fails.
//
// Threads: Run on a worker (Submit tokenizes); events on the backend's threads; a disconnect on an I/O thread.
// Owns: keeps itself alive through the sinks it gave to the backend; holds the writer. It does not keep the backend
// alive: the last owner must not go on the backend's own thread, and while a sink is called the backend is there.
// Invariants: (1) the writer gets exactly one answer. (2) Nothing is written before every request was accepted, and
// nothing of a stream before the first event: a refusal, and a time-out in the queue, keep their HTTP status. Progress
// of a governed request is an event too, which a comment tells of. (3) No event is looked at after the answer's end,
// but by the request's trace. (4) Once the client has left, every request has been cancelled.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "api/backend.h"
#include "http/handler.h"
#include "http/openai_answer.h"

namespace surety::http {

class ApiExchange : public std::enable_shared_from_this<ApiExchange> {
 public:
  struct Setup {
    std::shared_ptr<ResponseWriter> writer;
    std::unique_ptr<Answer> answer;
    HeaderList headers;  // of the answer
    // The error for a refusal of the part-th request.
    std::function<ApiError(const api::Refusal&, size_t part)> explain;
  };

  static void Run(Setup setup, const std::shared_ptr<api::Backend>& backend,
                  std::vector<api::GenerationRequest> requests);
  ApiExchange(Setup setup, api::Backend& backend) : setup_(std::move(setup)), backend_(&backend) {}

 private:
  void Submit(std::vector<api::GenerationRequest> requests);
  void OnEvent(int part, api::Event event);
  // Under write_mutex_. True if the remaining requests must be cancelled.
  bool Take(int part, const api::Event& event);
  bool TakeProgress(const api::Event& event);
  bool Fail(const ApiError& error);
  bool Deliver(std::string text);
  void End();
  void CancelAll();
  HeaderList Headers() const;

  Setup setup_;
  api::Backend* const backend_;  // for Submit and for sinks; a disconnect comes with an owner of its own

  std::mutex ids_mutex_;
  std::vector<api::RequestId> ids_;
  std::atomic<bool> cancelled_ = false;  // written under ids_mutex_

  std::mutex write_mutex_;  // events, answer, writer; never held while the backend is called
  std::shared_ptr<const api::Decision> decision_;  // of a governed backend, the newest
  bool submitted_ = false, started_ = false, ended_ = false, produced_ = false;
  std::vector<std::pair<int, api::Event>> early_;  // came before every request was accepted
  std::vector<int> n_choices_;
  int n_open_ = 0;  // choices without their last event
};

}  // namespace surety::http
