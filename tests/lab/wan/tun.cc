#include "tests/lab/wan/tun.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <string>
#include <utility>

namespace lockstep::wan {
namespace {

constexpr std::size_t kIpHeaderBytes = 20;
constexpr std::size_t kIpDestination = 16;

ifreq request_for_device() {
  ifreq request{};
  std::strcpy(request.ifr_name, "wan0");
  return request;
}

sockaddr address(const std::string& text) {
  sockaddr_in in{};
  in.sin_family = AF_INET;
  ::inet_pton(AF_INET, text.c_str(), &in.sin_addr);
  sockaddr any{};
  std::memcpy(&any, &in, sizeof in);
  return any;
}

std::optional<Error> settle(const Topology& topology, std::uint32_t host) {
  const File socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto set = [&](unsigned long what, auto&& fill) {
    ifreq request = request_for_device();
    fill(request);
    return ::ioctl(socket.number(), what, &request) == 0;
  };
  const bool done =
      set(SIOCSIFMTU, [&](ifreq& r) { r.ifr_mtu = static_cast<int>(topology.mtu); }) &&
      // As long as those of fast network cards: what does not fit is to be dropped by the model, not before it.
      set(SIOCSIFTXQLEN, [&](ifreq& r) { r.ifr_qlen = 10'000; }) &&
      set(SIOCSIFADDR, [&](ifreq& r) { r.ifr_addr = address(address_of(host)); }) &&
      set(SIOCSIFNETMASK, [&](ifreq& r) { r.ifr_netmask = address("255.255.255.0"); }) &&
      set(SIOCSIFFLAGS, [&](ifreq& r) { r.ifr_flags = IFF_UP | IFF_RUNNING; });
  if (!done) return system_error("cannot set up the device of " + address_of(host));
  return std::nullopt;
}

std::optional<Error> write_setting(const std::string& name, const std::string& value) {
  const std::string path = "/proc/sys/net/ipv4/" + name;
  const File file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (file.is_open() && ::write(file.number(), value.data(), value.size()) == static_cast<ssize_t>(value.size())) {
    return std::nullopt;
  }
  // A namespace may only have the congestion control that the machine's tcp_allowed_congestion_control lists.
  return system_error("cannot write '" + value + "' to " + path + " of a namespace");
}

std::optional<Error> set_tcp(const TcpOptions& tcp) {
  // The least and the first size of a buffer are those of the kernel (Documentation/networking/ip-sysctl.rst).
  const std::pair<std::string, std::string> settings[] = {
      {"tcp_congestion_control", tcp.congestion_control},
      {"tcp_rmem", tcp.receive_buffer == 0 ? "" : fmt::format("4096 131072 {}", tcp.receive_buffer)},
      {"tcp_wmem", tcp.send_buffer == 0 ? "" : fmt::format("4096 16384 {}", tcp.send_buffer)}};
  for (const auto& [name, value] : settings) {
    if (value.empty()) continue;
    if (auto error = write_setting(name, value)) return error;
  }
  return std::nullopt;
}

}  // namespace

Result<File> open_tun(const Topology& topology, std::uint32_t host) {
  File file(::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!file.is_open()) return system_error("cannot open /dev/net/tun");
  ifreq request = request_for_device();
  request.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
  if (::ioctl(file.number(), TUNSETIFF, &request) != 0) return system_error("cannot make a TUN device");
  // Checksums are left to the device. Packets are not: no offload of segmentation, so none is larger than the MTU.
  const int header = kTunHeaderBytes;  // virtio_net_hdr
  if (::ioctl(file.number(), TUNSETVNETHDRSZ, &header) != 0 || ::ioctl(file.number(), TUNSETOFFLOAD, TUN_F_CSUM) != 0) {
    return system_error("cannot set up a TUN device");
  }
  if (auto error = settle(topology, host)) return *error;
  if (auto error = set_tcp(topology.tcp)) return *error;
  return file;
}

std::optional<std::uint32_t> destination_of(std::span<const std::byte> packet) {
  if (packet.size() < kTunHeaderBytes + kIpHeaderBytes) return std::nullopt;
  const std::span<const std::byte> ip = packet.subspan(kTunHeaderBytes);
  if (std::to_integer<unsigned>(ip[0]) >> 4U != 4) return std::nullopt;
  std::uint32_t address = 0;
  std::memcpy(&address, ip.data() + kIpDestination, sizeof address);
  return ntohl(address);
}

}  // namespace lockstep::wan
