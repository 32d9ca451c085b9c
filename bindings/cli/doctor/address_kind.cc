#include "bindings/cli/doctor/address_kind.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "core/base/assert.h"
#include "transport/address.h"

namespace lockstep::cli::doctor {
namespace {

struct Network {
  io::Address::Family family;
  std::array<std::uint8_t, 4> prefix;
  unsigned bits;
  AddressKind kind;
};

using Family = io::Address::Family;

// The first network that contains an address decides.
constexpr std::array kNetworks = {
    Network{Family::kV4, {169, 254}, 16, AddressKind::kLinkLocal},
    // the default bridges of Docker, Podman, and libvirt
    Network{Family::kV4, {172, 17, 0, 1}, 32, AddressKind::kBridge},
    Network{Family::kV4, {10, 88, 0, 1}, 32, AddressKind::kBridge},
    Network{Family::kV4, {192, 168, 122, 1}, 32, AddressKind::kBridge},
    Network{Family::kV4, {10}, 8, AddressKind::kPrivate},
    Network{Family::kV4, {172, 16}, 12, AddressKind::kPrivate},
    Network{Family::kV4, {192, 168}, 16, AddressKind::kPrivate},
    Network{Family::kV4, {100, 64}, 10, AddressKind::kShared},
    Network{Family::kV6, {0xfe, 0x80}, 10, AddressKind::kLinkLocal},
    Network{Family::kV6, {0xfc}, 7, AddressKind::kPrivate},
};

bool contains(const Network& network, const io::Address& address) {
  if (network.family != address.family) return false;
  for (unsigned bit = 0; bit < network.bits; ++bit) {
    const unsigned mask = 0x80U >> (bit % 8);
    if (((network.prefix[bit / 8] ^ address.bytes[bit / 8]) & mask) != 0) return false;
  }
  return true;
}

}  // namespace

AddressKind kind_of(const io::Address& address) {
  if (transport::is_loopback(address)) return AddressKind::kLoopback;
  const auto* const network =
      std::ranges::find_if(kNetworks, [&](const Network& each) { return contains(each, address); });
  return network == kNetworks.end() ? AddressKind::kPublic : network->kind;
}

std::string_view name_of(AddressKind kind) {
  switch (kind) {
    case AddressKind::kLoopback: return "loopback";
    case AddressKind::kLinkLocal: return "link_local";
    case AddressKind::kBridge: return "bridge";
    case AddressKind::kPrivate: return "private";
    case AddressKind::kShared: return "shared";
    case AddressKind::kPublic: return "public";
  }
  LOCKSTEP_UNREACHABLE();
}

std::string_view words_of(AddressKind kind) {
  switch (kind) {
    case AddressKind::kLoopback: return "loopback: programs of this machine only";
    case AddressKind::kLinkLocal: return "link-local: machines on the same cable only";
    case AddressKind::kBridge: return "a bridge of container software: many machines have the same address";
    case AddressKind::kPrivate: return "private: machines of the same network only";
    case AddressKind::kShared: return "shared: behind the address translation of a provider, or in a VPN";
    case AddressKind::kPublic: return "public";
  }
  LOCKSTEP_UNREACHABLE();
}

}  // namespace lockstep::cli::doctor
