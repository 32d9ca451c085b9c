// How many contributions of one rank may be under way at once: prepared, and their finals not here yet (rule 61 of
// docs/protocol.md). Fewer leave its line empty; more wait in queues of the network, which lose what does not fit.
#pragma once

#include <cstdint>

namespace lockstep::ring {

struct UnderWay {
  std::uint64_t bytes = 0;     // to all owners together
  std::uint32_t segments = 0;  // to each owner, whatever the bytes; as many bytes of smaller ones on lossy lines
  bool is_guess = false;       // to begin with: each final that arrives makes room for one segment more

  friend bool operator==(const UnderWay&, const UnderWay&) = default;
  template <typename Archive>
  void archive(Archive& a) {
    a.all(bytes, segments, is_guess);
  }
};

}  // namespace lockstep::ring
