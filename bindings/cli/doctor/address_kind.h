// Kinds of addresses: they tell which machines can reach a program there.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/io/stream.h"

namespace lockstep::cli::doctor {

enum class AddressKind : std::uint8_t {
  kLoopback,   // this machine only
  kLinkLocal,  // the same cable or radio cell only
  kBridge,     // the address that container software gives to its own bridge: many machines have the same one
  kPrivate,    // the same local network only (RFC 1918, RFC 4193)
  kShared,     // behind the translation of a provider, or in a VPN that uses its addresses (RFC 6598)
  kPublic,
};

AddressKind kind_of(const io::Address& address);

// A stable word, such as "private".
std::string_view name_of(AddressKind kind);
// For people: "private: machines of the same network only".
std::string_view words_of(AddressKind kind);

}  // namespace lockstep::cli::doctor
