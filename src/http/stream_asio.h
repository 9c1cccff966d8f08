// Streams over Boost.Asio sockets. Included by server.cc and stream_asio.cc alone: it brings the network library.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>

#include <memory>

#include "http/stream.h"

namespace surety::http {

// `socket`'s executor must be a strand. `tls`, if not null, must live as long as the stream.
std::unique_ptr<Stream> MakeStream(boost::asio::ip::tcp::socket socket, boost::asio::ssl::context* tls);

}  // namespace surety::http
