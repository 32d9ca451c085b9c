// Members that nobody can dial, and what follows from that (rule 70 of docs/protocol.md), in words.
#pragma once

#include <string>
#include <vector>

#include "core/wire/message.h"

namespace lockstep::cli {

std::string short_id(PeerId id);

// The name of a member, with its id if another member has the same name; its id if it has none.
std::string label_of(const wire::View& view, const wire::Member& member);

// A line for each member that nobody can dial.
std::vector<std::string> callers(const wire::View& view);

// A line for each pair of neighbours in a ring of which neither can dial the other, and what to do.
std::vector<std::string> parted_neighbours(const wire::View& view);

}  // namespace lockstep::cli
