// Writes flight recordings (core/flight/recording.h) to files.
#pragma once

#include <cstddef>
#include <string>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/flight/recording.h"

namespace lockstep::transport {

// About 200,000 inputs: some seconds of a peer that does nothing but all-reduce on loopback, minutes to hours of one that computes
// in between. Memory that is not used yet costs nothing.
inline constexpr std::size_t kFlightBytes = std::size_t{8} << 20U;

// "FOLDER/lockstep-0123abcd.rec"; empty without a folder.
std::string flight_path(const std::string& folder, PeerId peer);

// Writes it whole or not at all: a reader never sees half of one, and an older file of this name stays when this fails. Only the
// user may read it: it holds the key of the run. Returns the path; the error says what the system says.
Result<std::string> write_flight(const std::string& path, flight::Recording recording, std::string reason);

}  // namespace lockstep::transport
