#include "transport/token_file_hold.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "core/base/text.h"
#include "transport/forks.h"
#include "transport/whole_file.h"

namespace lockstep::transport {

TokenFileHold::TokenFileHold(int descriptor) : descriptor_(descriptor), process_(process_number()) { own(descriptor); }

Result<std::unique_ptr<TokenFileHold>> TokenFileHold::take(const std::string& path) {
  watch_forks();
  const std::string lock_file = behind_links(path) + ".lock";
  const auto cannot = [&](const std::string& why) {
    return Error{Status::kInvalidArgument, fmt::format("token file {}: {}", plain(path), why)};
  };
  const ForkLock lock;  // a child of fork() closes its copy of the descriptor
  const int file = ::open(lock_file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600);
  if (file < 0) return cannot(fmt::format("{} cannot be opened: {}", plain(lock_file), system_says()));
  while (::flock(file, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    const std::string why =
        errno == EWOULDBLOCK ? "another coordinator uses it: stop that coordinator, or give this one a file of its own"
                             : "it cannot be locked: " + system_says();
    ::close(file);
    return cannot(why);
  }
  return std::unique_ptr<TokenFileHold>(new TokenFileHold(file));
}

TokenFileHold::~TokenFileHold() {
  const ForkLock lock;
  if (process_ != process_number()) return;  // in a child of fork(), which has closed its copy
  disown(descriptor_);
  ::flock(descriptor_, LOCK_UN);  // a child that was forked by other means than fork() may have a copy
  ::close(descriptor_);
}

}  // namespace lockstep::transport
