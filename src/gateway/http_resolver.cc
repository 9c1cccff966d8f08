#include "gateway/http_resolver.h"

#include <netdb.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

namespace surety::gateway {
namespace {

constexpr int kMaxLookUps = 64;

struct LookUp {
  std::string host, port;
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  int error = 0;
  std::vector<SocketAddress> found;
};

int ResolveNow(const std::string& host, const std::string& port, int flags, std::vector<SocketAddress>& found) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int error = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &list);
  if (error != 0) return error;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    SocketAddress address;
    std::memcpy(&address.address, entry->ai_addr, entry->ai_addrlen);
    address.size = entry->ai_addrlen;
    found.push_back(address);
  }
  ::freeaddrinfo(list);
  return 0;
}

}  // namespace

Result<std::vector<SocketAddress>> LookUpHost(const std::string& host, const std::string& port,
                                              const HttpLimits& limits) {
  static constexpr std::string_view kDoing = "looking up the name";
  std::vector<SocketAddress> numeric;
  if (ResolveNow(host, port, AI_NUMERICHOST, numeric) == 0) return numeric;
  static std::atomic<int> n_running{0};
  if (n_running.fetch_add(1) >= kMaxLookUps) {
    n_running.fetch_sub(1);
    return Error(UnavailableError(std::string(limits.authority) + ": " + std::to_string(kMaxLookUps) +
                                  " look-ups of names have not ended yet"));
  }
  auto look_up = std::make_shared<LookUp>();
  look_up->host = host;
  look_up->port = port;
  try {
    std::thread([look_up] {
      std::vector<SocketAddress> found;
      const int error = ResolveNow(look_up->host, look_up->port, 0, found);
      n_running.fetch_sub(1);
      const std::lock_guard lock(look_up->mutex);
      look_up->found = std::move(found);
      look_up->error = error;
      look_up->done = true;
      look_up->changed.notify_all();
    }).detach();
  } catch (const std::system_error& error) {
    n_running.fetch_sub(1);
    return Error(UnavailableError(std::string(limits.authority) + ": " + error.what()));
  }
  std::unique_lock lock(look_up->mutex);
  while (!look_up->done) {
    SURETY_RETURN_IF_ERROR(limits.Check(kDoing));
    look_up->changed.wait_for(lock, std::chrono::milliseconds(std::min(limits.WaitMillis(), 100)));
  }
  if (look_up->error != 0) {
    return Error(UnavailableError(std::string(limits.authority) + ": " + std::string(kDoing) + ": " +
                                  ::gai_strerror(look_up->error)));
  }
  return std::move(look_up->found);
}

}  // namespace surety::gateway
