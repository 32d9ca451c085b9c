// The sizes of the whole run in one view, for programs that decide by them: equal on every peer that has the view.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/wire/message.h"

namespace lockstep::peer {

struct WorldSizes {
  std::uint32_t members = 0;        // of all groups
  std::uint32_t groups = 0;         // with at least one member
  std::uint32_t largest_group = 0;  // members of the group that has the most

  // Members of one group are neighbours in a view (rule 28).
  static WorldSizes of(const wire::View& view) {
    WorldSizes sizes;
    std::uint32_t in_group = 0;
    for (std::size_t i = 0; i < view.members.size(); ++i) {
      const bool begins = i == 0 || view.members[i].group != view.members[i - 1].group;
      if (begins) ++sizes.groups;
      in_group = begins ? 1 : in_group + 1;
      sizes.largest_group = std::max(sizes.largest_group, in_group);
      ++sizes.members;
    }
    return sizes;
  }

  template <typename Archive>
  void archive(Archive& a) {
    a.all(members, groups, largest_group);
  }
};

}  // namespace lockstep::peer
