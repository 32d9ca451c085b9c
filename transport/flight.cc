#include "transport/flight.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "core/trace/event.h"
#include "transport/clock.h"
#include "transport/entropy.h"
#include "transport/no_signals.h"

namespace lockstep::transport {
namespace {

std::string system_says() { return std::error_code(errno, std::generic_category()).message(); }

// A new name in the same folder.
std::string beside(const std::string& path) { return fmt::format("{}.{:08x}", path, random_u64() & 0xffffffffU); }

bool write_all(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return ::fsync(file) == 0;
}

}  // namespace

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

  const auto fails = [&](const std::string& what) {
    return Error{Status::kInvalidArgument,
                 fmt::format("the flight recording was not written: {}: {}", what, system_says())};
  };
  struct stat there {};
  if (::stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
    return Error{Status::kInvalidArgument,
                 fmt::format("the flight recording was not written: {} exists and is not a regular file: choose "
                             "another path",
                             path)};
  }
  const NoSizeSignal none;
  const std::string other = beside(path);
  const int file = ::open(other.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (file < 0) return fails(other);
  const bool written = write_all(file, bytes);
  Error error = written ? Error{} : fails(other);
  if (::close(file) != 0 && error.text.empty()) error = fails(other);
  if (error.text.empty() && std::rename(other.c_str(), path.c_str()) != 0) error = fails(path);
  if (error.text.empty()) return path;
  ::unlink(other.c_str());
  return error;
}

}  // namespace lockstep::transport
