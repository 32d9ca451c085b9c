// Messages of the wire among bytes that begin or end anywhere: for people, and for what a coordinator was told.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "core/wire/codec.h"
#include "core/wire/message.h"

namespace lockstep::sim {

// Takes one frame off the front of these bytes; nullopt if there is none that is whole.
inline std::optional<wire::Message> take_frame(std::span<const std::byte>& bytes) {
  if (bytes.size() < wire::kHeaderBytes) return std::nullopt;
  const auto header = wire::decode_header(bytes.first<wire::kHeaderBytes>());
  if (!header || header->length > bytes.size() - wire::kHeaderBytes) return std::nullopt;
  auto message = wire::decode_body(*header, bytes.subspan(wire::kHeaderBytes, header->length));
  if (!message) return std::nullopt;
  bytes = bytes.subspan(wire::kHeaderBytes + header->length);
  return std::move(*message);
}

// The preamble of a stream likewise.
inline bool take_preamble(std::span<const std::byte>& bytes) {
  if (bytes.size() < wire::kPreambleBytes || !wire::check_magic(bytes.first<wire::kMagicBytes>())) return false;
  bytes = bytes.subspan(wire::kPreambleBytes);
  return true;
}

}  // namespace lockstep::sim
