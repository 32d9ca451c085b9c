// Which stream sets of one reactor listen where, so that a stream between two machines of the process needs no socket:
// bytes go straight from the memory of one to the memory of the other.
#pragma once

#include <vector>

#include "core/io/stream.h"
#include "transport/connector.h"

namespace lockstep::transport {

class StreamSet;

// Not thread-safe: used by the owner of the reactor's loop only.
class LocalStreams {
 public:
  void add(StreamSet& set, const ListenPlan& plan, std::uint16_t port);
  void remove(StreamSet& set);
  // The set that accepts streams to this address; null: none of this process, or not all of the process share a
  // reactor.
  [[nodiscard]] StreamSet* find(const io::Address& to) const;

 private:
  struct Listener {
    StreamSet* set;
    std::vector<io::Address> hosts;  // empty: all of this machine
    std::uint16_t port;
  };
  std::vector<Listener> listeners_;
};

}  // namespace lockstep::transport
