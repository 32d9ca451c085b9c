// Writes flight recordings (core/flight/recording.h) to files.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/flight/recording.h"

namespace lockstep::transport {

// About 200,000 inputs: a few seconds of a peer that only runs all-reduces on loopback, minutes to hours of a peer that
// computes in between. Memory that is not used yet takes no physical pages.
inline constexpr std::size_t kFlightBytes = std::size_t{8} << 20U;

// "FOLDER/lockstep-0123abcd.rec"; empty without a folder.
std::string flight_path(const std::string& folder, PeerId peer);

// The reason why no recording can be written into this folder, or nullopt after a file was created there, and removed.
std::optional<std::string> unwritable_folder(const std::string& folder);
// The same for a recording with this name.
std::optional<std::string> unwritable_file(const std::string& file);

// Writes the whole file or nothing: a reader never sees a partial file, and after a failure an older file of this name
// is unchanged. Only the user may read the file, because it contains the key of the run. Returns the path; an error has
// the system's message.
Result<std::string> write_flight(const std::string& path, flight::Recording recording, std::string reason);

}  // namespace lockstep::transport
