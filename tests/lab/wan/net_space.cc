#include "tests/lab/wan/net_space.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <optional>

#include "core/base/assert.h"

namespace lockstep::wan {
namespace {

File open_own() { return File(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)); }

std::optional<Error> raise_loopback() {
  const File socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP;
  if (::ioctl(socket.number(), SIOCSIFFLAGS, &request) != 0) return system_error("cannot start a loopback device");
  return std::nullopt;
}

}  // namespace

Result<NetSpace> NetSpace::make() {
  const File home = open_own();
  if (!home.is_open()) return system_error("cannot open /proc/thread-self/ns/net");
  if (::unshare(CLONE_NEWNET) != 0) return system_error("cannot make a network namespace");
  File made = open_own();
  const std::optional<Error> error = made.is_open() ? raise_loopback() : system_error("cannot open a new namespace");
  LOCKSTEP_ASSERT(::setns(home.number(), CLONE_NEWNET) == 0);
  if (error) return *error;
  return NetSpace(std::move(made));
}

bool NetSpace::enter() const { return ::setns(file_.number(), CLONE_NEWNET) == 0; }

std::string NetSpace::path() const { return fmt::format("/proc/{}/fd/{}", ::getpid(), file_.number()); }

NetSpace::Visit::Visit(const NetSpace& space) : home_(open_own()) { LOCKSTEP_ASSERT(home_.is_open() && space.enter()); }

NetSpace::Visit::~Visit() { LOCKSTEP_ASSERT(::setns(home_.number(), CLONE_NEWNET) == 0); }

}  // namespace lockstep::wan
