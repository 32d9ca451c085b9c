// The addresses of this machine by which others may reach it.
#pragma once

#include <vector>

#include "core/io/stream.h"

namespace lockstep::transport {

// By which other machines reach a program that listens here: of a program that listens on all addresses, those of the
// route to the internet, else loopback addresses. No packet is sent.
std::vector<io::Address> reachable_at(const io::Address& bound);

}  // namespace lockstep::transport
