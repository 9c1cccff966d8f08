// TLS as this server offers it: 1.2 and 1.3, no renegotiation, no compression, HTTP/1.1 by ALPN.
//
// Errors: kInvalidArgument naming the file and what is wrong with it (unreadable, no PEM, key of another certificate).
// Included by server.cc alone.
#pragma once

#include <boost/asio/ssl/context.hpp>

#include <memory>

#include "base/status.h"
#include "http/server_options.h"

namespace surety::http {

Result<std::unique_ptr<boost::asio::ssl::context>> MakeTlsContext(const TlsOptions& options);

}  // namespace surety::http
