#include "transport/flight.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "core/trace/event.h"
#include "transport/clock.h"
#include "transport/whole_file.h"

namespace lockstep::transport {

std::string flight_path(const std::string& folder, PeerId peer) {
  return folder.empty() ? std::string() : fmt::format("{}/lockstep-{}.rec", folder, trace::short_name(peer));
}

std::optional<std::string> unwritable_folder(const std::string& folder) {
  std::error_code none;
  if (!std::filesystem::is_directory(folder, none)) return "there is no folder " + plain(folder);
  const std::string file = beside(folder + "/lockstep");
  const int made = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (made < 0) return fmt::format("no file can be created in {} ({})", plain(folder), system_says());
  ::close(made);
  ::unlink(file.c_str());
  return std::nullopt;
}

std::optional<std::string> unwritable_file(const std::string& file) {
  std::error_code none;
  if (std::filesystem::is_directory(file, none)) return plain(file) + " is a folder: give the name of a file";
  const std::string folder = std::filesystem::path(file).parent_path().string();
  const auto why = unwritable_folder(folder.empty() ? "." : folder);
  if (why) return fmt::format("{}: {}", plain(file), *why);
  return std::nullopt;
}

Result<std::string> write_flight(const std::string& path, flight::Recording recording, std::string reason) {
  using std::chrono::system_clock;
  recording.version = LOCKSTEP_VERSION;
  recording.reason = std::move(reason);
  const auto since_1970 = system_clock::now().time_since_epoch();
  recording.written = std::chrono::duration_cast<std::chrono::nanoseconds>(since_1970).count();
  recording.clock = recording.written - now().ns;
  const std::vector<std::byte> bytes = flight::encode(recording);

  struct stat there {};
  if (::stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
    return Error{Status::kInvalidArgument,
                 fmt::format("the flight recording was not written: {} exists and is not a regular file: choose "
                             "another path",
                             path)};
  }
  if (const auto failed = replace_file(path, bytes)) {
    return Error{Status::kInvalidArgument, "the flight recording was not written: " + *failed};
  }
  return path;
}

}  // namespace lockstep::transport
