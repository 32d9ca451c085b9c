// Peers by the names of their hosts instead of by their ids, also inside of texts that were made elsewhere.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "core/base/ids.h"

namespace lockstep::sim {

class Names {
 public:
  // The name of the next process on this host: "h3", then "h3.2", "h3.3".
  std::string started(std::uint32_t process, std::uint32_t host, PeerId peer);
  [[nodiscard]] std::string name_of(PeerId peer) const;

  // `text` with every id of a peer, whole or its first eight digits, and the name by which core knows it (host and
  // number of the process) replaced by the name.
  [[nodiscard]] std::string plain(std::string_view text) const;

 private:
  std::map<std::uint32_t, std::uint32_t> lives_;  // by host
  std::map<std::string, std::string, std::less<>> names_;
};

}  // namespace lockstep::sim
