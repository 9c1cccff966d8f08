#include "cli/load_models.h"

#include <memory>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "cli/interrupt.h"

namespace surety::cli {
namespace {

constexpr size_t kMaxAnswerBytes = 4 << 20;

class Collector final : public ExchangeSink {
 public:
  explicit Collector(LoadLoop& loop) : loop_(loop) {}
  void OnSent(int64_t) override {}
  void OnHeader(int status, bool, double) override { status_ = status; }
  bool OnBody(std::string_view bytes, int64_t) override {
    body_ += bytes;
    return body_.size() <= kMaxAnswerBytes;
  }
  void OnEnd(ExchangeEnd end, const std::string& message, int64_t) override {
    end_ = end;
    message_ = message;
    loop_.Stop();
  }

  LoadLoop& loop_;
  int status_ = 0;
  std::string body_, message_;
  ExchangeEnd end_ = ExchangeEnd::kCancelled;
};

}  // namespace

Result<std::string> FirstModelOf(LoadLoop& loop, const std::string& url) {
  const auto answer = std::make_shared<Collector>(loop);
  if (const int fd = InterruptDescriptor(); fd >= 0) {
    loop.WhenReadable(fd, [&loop] { loop.CancelAll(); });
  }
  loop.Send("/models", "", answer);
  loop.Run();
  if (Interrupted()) return Error(CancelledError("interrupted"));
  if (answer->end_ != ExchangeEnd::kComplete) {
    const std::string why = answer->message_.empty() ? "its list of models is too long" : answer->message_;
    return Error(Status(StatusCode::kUnavailable, fmt::format("{}: {}", url, why)));
  }
  const auto other = [&](const std::string& what) {
    return Error(FailedPreconditionError(
        fmt::format("{}: GET /v1/models: {}; name a model with --model", url, what)));
  };
  if (answer->status_ != 200) return other(fmt::format("status {}", answer->status_));
  boost::system::error_code error;
  const boost::json::value value = boost::json::parse(answer->body_, error);
  const auto* object = error ? nullptr : value.if_object();
  const auto* data = object == nullptr ? nullptr : object->if_contains("data");
  if (data == nullptr || !data->is_array()) return other("not a list of models");
  if (data->get_array().empty()) return other("there is none");
  const auto* first = data->get_array()[0].if_object();
  const auto* id = first == nullptr ? nullptr : first->if_contains("id");
  if (id == nullptr || !id->is_string()) return other("a model without \"id\"");
  return std::string(id->get_string());
}

}  // namespace surety::cli
