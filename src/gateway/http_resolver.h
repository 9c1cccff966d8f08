// Addresses of a host's name. A look-up cannot be stopped, so it has a thread of its own, which is left behind when the
// deadline passes; at most 64 do so at a time.
//
// Threads: any. Errors: kUnavailable (no such name, too many look-ups that do not end), kDeadlineExceeded, kCancelled.
#pragma once

#include <sys/socket.h>

#include <string>
#include <vector>

#include "base/status.h"
#include "gateway/http_connection.h"

namespace surety::gateway {

struct SocketAddress {
  sockaddr_storage address = {};
  socklen_t size = 0;
};

Result<std::vector<SocketAddress>> LookUpHost(const std::string& host, const std::string& port,
                                              const HttpLimits& limits);

}  // namespace surety::gateway
