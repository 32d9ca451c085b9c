#include "bindings/cli/callers.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>

#include "core/wire/reach.h"

namespace lockstep::cli {

std::string short_id(PeerId id) { return fmt::format("{:016x}", id.high).substr(0, 8); }

std::string label_of(const wire::View& view, const wire::Member& member) {
  if (member.name.empty()) return short_id(member.id);
  const bool alone =
      std::ranges::count_if(view.members, [&](const auto& other) { return other.name == member.name; }) < 2;
  return alone ? member.name : fmt::format("{} ({})", member.name, short_id(member.id));
}

std::vector<std::string> callers(const wire::View& view) {
  std::vector<std::string> lines;
  for (const wire::Member& member : view.members) {
    if (!member.calls_out) continue;
    lines.push_back(fmt::format("{} calls out: nobody can dial {}, so it dials the others", label_of(view, member),
                                member.address.text()));
  }
  return lines;
}

std::vector<std::string> parted_neighbours(const wire::View& view) {
  std::vector<std::string> lines;
  const auto& members = view.members;
  for (std::size_t first = 0, end = 0; first < members.size(); first = end) {
    while (end < members.size() && members[end].group == members[first].group) ++end;
    for (std::size_t i = first; i < end; ++i) {
      const bool last = i + 1 == end;
      if (last && end - first < 3) break;  // two members are one pair
      const wire::Member& next = members[last ? first : i + 1];
      if (wire::can_link(members[i], next)) continue;
      lines.push_back(
          fmt::format("{} and {} are neighbours in the ring of group {}: {}; a call that needs that link "
                      "waits until one of the two is evicted",
                      label_of(view, members[i]), label_of(view, next), members[i].group.value, wire::kNobodyDials));
    }
  }
  return lines;
}

}  // namespace lockstep::cli
