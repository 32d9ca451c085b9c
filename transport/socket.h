// The TCP socket of a stream.
#pragma once

#include <asio/ip/tcp.hpp>

#include "transport/forks.h"

namespace lockstep::transport {

using Socket = Owned<asio::ip::tcp::socket>;

}  // namespace lockstep::transport
