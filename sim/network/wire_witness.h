// The interface of an observer of the wire. Changes nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/ids.h"

namespace lockstep::sim {

class WireWitness {
 public:
  virtual ~WireWitness() = default;
  // A process names its side of a connection (Network::End; the other side is end ^ 1).
  virtual void opens(std::uint32_t /*end*/, std::uint32_t /*process*/, StreamId) {}
  // A side puts `size` bytes on the wire; `bytes` is empty where the bytes are payload.
  virtual void sends(std::uint32_t /*end*/, std::span<const std::byte> /*bytes*/, std::size_t /*size*/) {}
};

}  // namespace lockstep::sim
