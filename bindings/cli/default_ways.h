// How the collectives of each group go whose callers leave the choice, and why: as the members choose (rule 57 of
// docs/protocol.md), from the view alone.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/wire/message.h"

namespace lockstep::cli {

struct DefaultWay {
  GroupId group;
  std::size_t members = 0;
  Duration farthest;      // the longest round trip between a member and the coordinator, when it joined
  std::string algorithm;  // of a small all-reduce: "ring", "direct" or "grid"
  std::string why;

  [[nodiscard]] std::string text() const;
  [[nodiscard]] nlohmann::json json() const;
};

// One for each group with two members or more.
std::vector<DefaultWay> default_ways(const wire::View& view);

}  // namespace lockstep::cli
