#include "gateway/http_client.h"

#include <algorithm>
#include <array>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>

#include "base/clock.h"
#include "gateway/http_connection.h"
#include "gateway/http_reply_parser.h"

namespace surety::gateway {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
constexpr int64_t kDefaultLimitNs = 30 * kSecondNs;
constexpr int64_t kKeepNs = 4 * kSecondNs;         // many servers close what is idle for five seconds
constexpr int64_t kKeepForWritesNs = kSecondNs;
constexpr size_t kMaxKept = 256, kMaxKeptForOne = 64;
constexpr size_t kCallReadBytes = 16 << 10;

// Connections that wait for their next call, newest last.
class ConnectionPool {
 public:
  static ConnectionPool& Shared() {
    static auto& pool = *new ConnectionPool();
    return pool;
  }

  std::unique_ptr<HttpConnection> Take(const std::string& key, int64_t max_idle_ns) {
    std::vector<Kept> dropped;  // closed without the lock
    std::unique_ptr<HttpConnection> taken;
    const std::lock_guard lock(mutex_);
    Expire(dropped);
    const auto found = by_key_.find(key);
    if (found == by_key_.end()) return nullptr;
    std::deque<Kept>& list = found->second;
    while (!list.empty() && taken == nullptr) {
      Kept kept = std::move(list.back());
      list.pop_back();
      --n_kept_;
      const bool fit = Clock::Real().NowNanos() - kept.since_ns < max_idle_ns && kept.connection->IsQuiet();
      if (fit) taken = std::move(kept.connection);
      else dropped.push_back(std::move(kept));
    }
    if (list.empty()) by_key_.erase(found);
    return taken;
  }

  void Keep(const std::string& key, std::unique_ptr<HttpConnection> connection, int64_t keep_ns) {
    std::vector<Kept> dropped;
    const std::lock_guard lock(mutex_);
    Expire(dropped);
    std::deque<Kept>& list = by_key_[key];
    const int64_t now = Clock::Real().NowNanos();
    if (n_kept_ < kMaxKept && list.size() < kMaxKeptForOne) {
      list.push_back({std::move(connection), now, now + keep_ns});
      ++n_kept_;
    } else {
      dropped.push_back({std::move(connection), now, now});
    }
    if (list.empty()) by_key_.erase(key);
  }

 private:
  struct Kept {
    std::unique_ptr<HttpConnection> connection;
    int64_t since_ns = 0, until_ns = 0;
  };

  void Expire(std::vector<Kept>& dropped) {
    const int64_t now = Clock::Real().NowNanos();
    if (now < next_sweep_ns_) return;
    next_sweep_ns_ = now + kSecondNs / 4;
    for (auto entry = by_key_.begin(); entry != by_key_.end();) {
      std::deque<Kept>& list = entry->second;
      for (auto kept = list.begin(); kept != list.end();) {
        if (kept->until_ns > now) {
          ++kept;
          continue;
        }
        dropped.push_back(std::move(*kept));
        kept = list.erase(kept);
        --n_kept_;
      }
      entry = list.empty() ? by_key_.erase(entry) : std::next(entry);
    }
  }

  std::mutex mutex_;
  std::map<std::string, std::deque<Kept>> by_key_;
  size_t n_kept_ = 0;
  int64_t next_sweep_ns_ = 0;
};

bool IsCallToken(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  });
}

bool EqualsIgnoringCase(std::string_view a, std::string_view lower) {
  return std::ranges::equal(a, lower, [](char x, char y) { return (x >= 'A' && x <= 'Z' ? x - 'A' + 'a' : x) == y; });
}

Result<std::string> RequestBytes(const HttpCall& call, const HttpAddress& address) {
  static constexpr std::array<std::string_view, 6> kOurs = {"host", "content-length", "transfer-encoding",
                                                            "connection", "expect", "upgrade"};
  if (!IsCallToken(call.method)) return Error(InvalidArgumentError("the method is no word of HTTP"));
  std::string bytes = call.method + " " + address.path + " HTTP/1.1\r\nHost: " + address.authority + "\r\n";
  bool has_agent = false;
  for (const auto& [name, value] : call.headers) {
    if (!IsCallToken(name)) {
      return Error(InvalidArgumentError("a header's name is empty or has a character that none may"));
    }
    if (std::ranges::any_of(value, [](char c) { return (c >= 0 && c < ' ' && c != '\t') || c == 0x7f; })) {
      return Error(InvalidArgumentError("header '" + name + "' holds a line break or another control byte"));
    }
    if (std::ranges::any_of(kOurs, [&](std::string_view ours) { return EqualsIgnoringCase(name, ours); })) {
      return Error(InvalidArgumentError("header '" + name + "' frames the message; the client sets it"));
    }
    has_agent = has_agent || EqualsIgnoringCase(name, "user-agent");
    bytes.append(name).append(": ").append(value).append("\r\n");
  }
  if (!has_agent) bytes += "User-Agent: surety/" SURETY_VERSION "\r\n";
  if (call.fresh_connection) bytes += "Connection: close\r\n";
  if (!call.body.empty() || (call.method != "GET" && call.method != "HEAD")) {
    bytes += "Content-Length: " + std::to_string(call.body.size()) + "\r\n";
  }
  return bytes + "\r\n" + call.body;
}

class HttpExchange {
 public:
  HttpExchange(const HttpCall& call, HttpAddress address, FunctionRef<bool(std::string_view)> on_body,
               const std::function<void(const HttpReply&)>& on_head)
      : call_(call), address_(std::move(address)), on_body_(on_body), on_head_(on_head) {
    limits_.deadline_ns = call.deadline_ns > 0 ? call.deadline_ns : Clock::Real().NowNanos() + kDefaultLimitNs;
    limits_.stop = &call_.stop;
    limits_.authority = address_.authority;
    key_ = std::string(address_.tls ? "s" : "p") + address_.host;
    for (const std::string* part : {&address_.port, &call.tls.ca_file, &call.tls.certificate, &call.tls.key}) {
      key_ += '\n' + *part;
    }
    repeatable_ = call.method == "GET" || call.method == "HEAD";
  }

  Result<HttpReply> Run() {
    SURETY_ASSIGN_OR_RETURN(request_, RequestBytes(call_, address_));
    SURETY_RETURN_IF_ERROR(limits_.Check("connecting"));
    if (!call_.fresh_connection) {
      connection_ = ConnectionPool::Shared().Take(key_, repeatable_ ? kKeepNs : kKeepForWritesNs);
    }
    if (connection_ != nullptr) {
      Result<HttpReply> reply = Exchange();
      if (reply || !MayRepeat(reply.error())) return reply;
    }
    SURETY_ASSIGN_OR_RETURN(connection_, HttpConnection::Open(address_, call_.tls, limits_));
    return Exchange();
  }

 private:
  // The kept connection turned out to be closed, and nothing can have come of the request.
  bool MayRepeat(const Status& error) const {
    const bool untouched = connection_->n_sent() == sent_before_;
    return error.code() == StatusCode::kUnavailable && !answered_ && (repeatable_ || untouched);
  }

  Status Failed(const Status& status) const {
    if (status.message().starts_with(address_.authority)) return status;
    return status.WithContext(address_.authority);
  }

  Result<HttpReply> Exchange() {
    HttpReplyParser parser(call_.method == "HEAD");
    HttpReply reply;
    answered_ = false;
    sent_before_ = connection_->n_sent();
    std::string_view to_send = request_;
    Status send_error;
    if (call_.on_send) call_.on_send();
    std::array<char, kCallReadBytes> piece;
    while (!parser.done()) {
      if (send_error.ok() && (!to_send.empty() || connection_->unsent())) {
        const HttpConnection::Io io = connection_->Write(to_send);
        to_send.remove_prefix(io.n_bytes);
        send_error = io.error;  // its server may have answered before it closed
      }
      const HttpConnection::Io io = connection_->Read(piece);
      if (io.n_bytes > 0) {
        answered_ = true;
        SURETY_RETURN_IF_ERROR(Take(std::string_view(piece.data(), io.n_bytes), parser, reply));
        continue;
      }
      if (!io.error.ok() || io.ended) {
        SURETY_RETURN_IF_ERROR(AtEnd(io, send_error, parser));
        break;
      }
      const bool sending = send_error.ok() && (!to_send.empty() || connection_->unsent());
      SURETY_RETURN_IF_ERROR(connection_->Wait(sending, limits_, Doing(sending, parser)));
    }
    reply.status = parser.status();
    reply.headers = parser.headers();
    const bool reusable = parser.keep_alive() && to_send.empty() && send_error.ok() && !connection_->unsent() &&
                          !leftover_ && !call_.fresh_connection;
    if (reusable) {
      const int64_t said = parser.keep_alive_seconds();
      const int64_t keep_ns = said < 0 ? kKeepNs : std::min(kKeepNs, said * kSecondNs - kSecondNs / 2);
      if (keep_ns > 0) ConnectionPool::Shared().Keep(key_, std::move(connection_), keep_ns);
    }
    return reply;
  }

  static std::string_view Doing(bool sending, const HttpReplyParser& parser) {
    if (sending) return "sending";
    return parser.head_done() ? "reading the answer" : "waiting for the answer";
  }

  Status AtEnd(const HttpConnection::Io& io, const Status& send_error, HttpReplyParser& parser) {
    if (!io.error.ok()) return Failed(send_error.ok() ? io.error : send_error);
    if (io.cut && parser.ends_by_close()) return Failed(UnavailableError("TLS: closed inside the answer's body"));
    const Status ended = parser.End();
    return ended.ok() ? ended : Failed(send_error.ok() ? ended : send_error);
  }

  Status Take(std::string_view bytes, HttpReplyParser& parser, HttpReply& reply) {
    const auto too_long = [&] {
      return ResourceExhaustedError(address_.authority + ": the answer is longer than " +
                                    std::to_string(call_.max_body_bytes) + " bytes");
    };
    bool over = false;
    const auto on_body = [&](std::string_view piece) {
      HeadSeen(parser, reply);
      n_body_ += piece.size();
      over = n_body_ > call_.max_body_bytes;
      if (over) return false;
      if (parser.status() >= 200 && parser.status() < 300) return on_body_(piece);
      reply.body += piece;
      return true;
    };
    const Result<size_t> used = parser.Feed(bytes, on_body);
    if (over) return too_long();
    if (!used) return Failed(used.error());
    leftover_ = *used < bytes.size();
    if (parser.head_done()) HeadSeen(parser, reply);
    const bool has_body = parser.head_done() && !parser.done();
    if (has_body && parser.content_length() > static_cast<int64_t>(call_.max_body_bytes)) return too_long();
    return limits_.Check(Doing(false, parser));  // a peer that never pauses must not outrun the deadline
  }

  void HeadSeen(const HttpReplyParser& parser, HttpReply& reply) {
    if (head_seen_) return;
    head_seen_ = true;
    if (!on_head_) return;
    reply.status = parser.status();
    reply.headers = parser.headers();
    on_head_(reply);
  }

  const HttpCall& call_;
  const HttpAddress address_;
  FunctionRef<bool(std::string_view)> on_body_;
  const std::function<void(const HttpReply&)>& on_head_;
  HttpLimits limits_;
  std::string key_, request_;
  std::unique_ptr<HttpConnection> connection_;
  int64_t sent_before_ = 0;
  size_t n_body_ = 0;
  bool repeatable_ = false, answered_ = false, leftover_ = false, head_seen_ = false;
};

Status SplitAuthority(std::string_view authority, HttpAddress& address) {
  std::string_view port;
  const bool bracketed = authority.starts_with("[");
  if (bracketed) {
    const size_t close = authority.find(']');
    if (close == std::string_view::npos) return InvalidArgumentError("'[' without ']'");
    address.host = authority.substr(1, close - 1);
    port = authority.substr(close + 1);
  } else {
    const size_t colon = std::min(authority.find(':'), authority.size());
    address.host = authority.substr(0, colon);
    port = authority.substr(colon);
  }
  if (address.host.empty()) return InvalidArgumentError("no host");
  const std::string_view also = bracketed ? ":.%" : ".-_";
  if (!std::ranges::all_of(address.host, [&](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               also.find(c) != std::string_view::npos;
      })) {
    return InvalidArgumentError("the host's name has a character that none may");
  }
  if (port.empty()) {
    address.port = address.tls ? "443" : "80";
    return OkStatus();
  }
  int number = 0;
  const bool digits = port[0] == ':' && port.size() >= 2 && port.size() <= 6 &&
                      std::ranges::all_of(port.substr(1), [](char c) { return c >= '0' && c <= '9'; });
  if (digits) number = std::stoi(std::string(port.substr(1)));
  if (number < 1 || number > 65535) {
    return InvalidArgumentError("after the host comes ':' and a port number from 1 to 65535");
  }
  address.port = port.substr(1);
  return OkStatus();
}

}  // namespace

Result<HttpAddress> ParseHttpAddress(std::string_view url) {
  const auto wrong = [&](std::string_view why) {
    return Error(InvalidArgumentError("'" + std::string(url) + "': " + std::string(why)));
  };
  HttpAddress address;
  address.tls = url.starts_with("https://");
  if (!address.tls && !url.starts_with("http://")) return wrong("an address begins with http:// or https://");
  const std::string_view rest = url.substr(address.tls ? 8 : 7);
  if (std::ranges::any_of(rest, [](char c) { return c <= ' ' || c >= 0x7f; })) {
    return wrong("a space, control byte or a byte beyond ASCII; write it as %XX");
  }
  if (rest.find('#') != std::string_view::npos) return wrong("a fragment (#...) is not sent to a server");
  const size_t slash = std::min(rest.find_first_of("/?"), rest.size());
  const std::string_view authority = rest.substr(0, slash);
  address.path = rest.substr(slash);
  if (!address.path.starts_with('/')) address.path.insert(0, "/");
  if (authority.find('@') != std::string_view::npos) return wrong("give credentials by a header, not in the address");
  address.authority = authority;
  if (Status status = SplitAuthority(authority, address); !status.ok()) return wrong(status.message());
  return address;
}

Result<HttpReply> StreamHttp(const HttpCall& call, FunctionRef<bool(std::string_view)> on_body,
                             const std::function<void(const HttpReply&)>& on_head) {
  SURETY_ASSIGN_OR_RETURN(HttpAddress address, ParseHttpAddress(call.url));
  try {
    HttpExchange exchange(call, std::move(address), on_body, on_head);
    return exchange.Run();
  } catch (const std::exception& error) {
    return Error(UnavailableError("'" + call.url + "': " + error.what()));
  }
}

Result<HttpReply> CallHttp(const HttpCall& call) {
  std::string body;
  const auto collect = [&](std::string_view piece) {
    body += piece;
    return true;
  };
  SURETY_ASSIGN_OR_RETURN(HttpReply reply, StreamHttp(call, collect));
  if (!body.empty()) reply.body = std::move(body);
  return reply;
}

}  // namespace surety::gateway
