// Members by their names, for texts.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "core/trace/event.h"
#include "core/wire/message.h"

namespace lockstep::coordinator {

inline std::string name_in(const std::vector<wire::Member>& members, PeerId peer) {
  const auto at = std::find_if(members.begin(), members.end(), [&](const wire::Member& m) { return m.id == peer; });
  return trace::short_name(peer, at == members.end() ? std::string_view{} : std::string_view{at->name});
}

}  // namespace lockstep::coordinator
