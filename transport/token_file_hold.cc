#include "transport/token_file_hold.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "core/base/text.h"
#include "transport/forks.h"
#include "transport/whole_file.h"

namespace lockstep::transport {
namespace {

// A coordinator that was killed a moment ago, and restarted, may still be ending.
constexpr std::chrono::milliseconds kHoldPatience(1000);
constexpr std::chrono::milliseconds kHoldPause(5);

}  // namespace

TokenFileHold::TokenFileHold(int descriptor) : descriptor_(descriptor), process_(process_number()) { own(descriptor); }

Result<std::unique_ptr<TokenFileHold>> TokenFileHold::take(const std::string& path) {
  watch_forks();
  const std::string lock_file = behind_links(path) + ".lock";
  const auto limit = std::chrono::steady_clock::now() + kHoldPatience;
  const auto cannot = [&](const std::string& why) {
    return Error{Status::kInvalidArgument, fmt::format("token file {}: {}", plain(path), why)};
  };
  for (;; std::this_thread::sleep_for(kHoldPause)) {  // flock() has no time-out, and tells nobody that it is free
    const ForkLock lock;                              // a child of fork() closes its copy of the descriptor
    const int file = ::open(lock_file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600);
    if (file < 0) return cannot(fmt::format("{} cannot be opened: {}", plain(lock_file), system_says()));
    if (::flock(file, LOCK_EX | LOCK_NB) == 0) return std::unique_ptr<TokenFileHold>(new TokenFileHold(file));
    const int error = errno;
    const std::string says = system_says();
    ::close(file);
    if (error == EINTR) continue;
    if (error != EWOULDBLOCK) return cannot("it cannot be locked: " + says);
    if (std::chrono::steady_clock::now() >= limit)
      return cannot("another coordinator uses it: stop that coordinator, or give this one a file of its own");
  }
}

TokenFileHold::~TokenFileHold() {
  const ForkLock lock;
  if (process_ != process_number()) return;  // in a child of fork(), which has closed its copy
  disown(descriptor_);
  ::flock(descriptor_, LOCK_UN);  // a child that was forked by other means than fork() may have a copy
  ::close(descriptor_);
}

}  // namespace lockstep::transport
