#include "http/testing/test_server.h"

#include <chrono>
#include <utility>

#include "base/check.h"

namespace surety::http {

using WriterPtr = std::shared_ptr<ResponseWriter>;

TestServer::TestServer(Options options) : metrics_(observe::Registry::Make()) {
  Server::Dependencies dependencies;
  dependencies.metrics = metrics_.get();
  dependencies.clock = options.clock != nullptr ? options.clock : &Clock::Real();
  dependencies.authenticator = options.authenticator;
  dependencies.access_log = [this](std::string_view line) {
    std::lock_guard lock(mutex_);
    log_lines_.emplace_back(line);
  };
  ListenerOptions api, admin;
  api.routes = Routes();
  admin.name = "admin";
  admin.open_role = Role::kAdmin;
  admin.routes = Routes();
  auto started = Server::Start(options.server, {std::move(api), std::move(admin)}, dependencies);
  SURETY_CHECK_MSG(started.has_value(), started ? "" : started.error().message());
  server_ = *std::move(started);
}

TestServer::~TestServer() {
  server_.reset();
  std::vector<std::thread> threads;
  {
    std::lock_guard lock(mutex_);
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

void TestServer::Park(WriterPtr writer) {
  std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(writer));
  changed_.notify_all();
}

Handler TestServer::Recorded(Handler handler) {
  return [this, handler = std::move(handler)](HttpRequest request, WriterPtr writer) {
    ++n_calls_;
    {
      std::lock_guard lock(mutex_);
      last_request_ = request;
    }
    handler(std::move(request), std::move(writer));
  };
}

std::vector<Route> TestServer::Routes() {
  std::vector<Route> routes;
  const auto add = [&](const char* method, const char* path, Handler handler, Role role = Role::kUser) {
    routes.push_back({method, path, role, Recorded(std::move(handler))});
  };
  const auto count_disconnect = [this] {
    ++n_disconnects_;
    std::lock_guard lock(mutex_);
    changed_.notify_all();
  };
  const Handler hello = [](HttpRequest, WriterPtr writer) { writer->Send(200, "text/plain", "hello"); };
  add("GET", "/hello", hello);
  add("POST", "/method", hello);
  add("GET", "/public", hello, Role::kNone);
  add("GET", "/admin", hello, Role::kAdmin);
  add("GET", "/things/*", [](HttpRequest request, WriterPtr writer) { writer->Send(200, "text/plain", request.path); });
  add("POST", "/echo", [](HttpRequest request, WriterPtr writer) {
    writer->Send(200, "application/octet-stream", std::move(request.body), {{"x-extra", "1"}, {"bad\r\nname", "2"}});
  });
  add("GET", "/stream", [this](HttpRequest request, WriterPtr writer) {
    const int n = request.query.contains("n") ? std::stoi(request.query["n"]) : 3;
    std::lock_guard lock(mutex_);
    threads_.emplace_back([n, writer = std::move(writer)] {
      writer->StartStream(200, "text/event-stream");
      for (int i = 0; i < n; ++i) (void)writer->Write("piece " + std::to_string(i) + "\n");
      writer->FinishStream();
    });
  });
  add("GET", "/wait", [this, count_disconnect](HttpRequest, WriterPtr writer) {
    writer->OnDisconnect(count_disconnect);
    Park(std::move(writer));
  });
  add("GET", "/idle", [this, count_disconnect](HttpRequest, WriterPtr writer) {
    writer->OnDisconnect(count_disconnect);
    writer->StartStream(200, "text/event-stream");
    (void)writer->Write("data: first\n\n");
    Park(std::move(writer));
  });
  add("GET", "/fail", [](HttpRequest, WriterPtr) { (void)std::string().at(1); });  // the library's exception
  add("GET", "/drop", [](HttpRequest, WriterPtr) {});
  add("GET", "/cut", [](HttpRequest, WriterPtr writer) {
    writer->StartStream(200, "text/plain");
    (void)writer->Write("begun");
  });
  return routes;
}

WriterPtr TestServer::NextWaiting() {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, std::chrono::seconds(10), [&] { return !waiting_.empty(); })) return nullptr;
  WriterPtr writer = std::move(waiting_.front());
  waiting_.erase(waiting_.begin());
  return writer;
}

bool TestServer::WaitForDisconnects(int n, int limit_ms) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::milliseconds(limit_ms), [&] { return n_disconnects_ >= n; });
}

std::vector<std::string> TestServer::log_lines() const {
  std::lock_guard lock(mutex_);
  return log_lines_;
}

HttpRequest TestServer::last_request() const {
  std::lock_guard lock(mutex_);
  return last_request_;
}

}  // namespace surety::http
