#include "core/peer/context.h"

#include <algorithm>

namespace lockstep::peer {

void Context::complete(CallId call, Outcome outcome) const {
  outcome.view = view->number;
  if (!outcome.contributors) {
    outcome.world = static_cast<std::uint32_t>(
        std::count_if(view->members.begin(), view->members.end(),
                      [&](const wire::Member& member) { return member.group == options.group; }));
    outcome.sizes = WorldSizes::of(*view);
  }
  out().emplace_back(Complete{call, std::move(outcome)});
}

void Context::fail(CallId call, Status status, std::string text) const {
  Outcome outcome;
  outcome.status = status;
  outcome.text = std::move(text);
  complete(call, std::move(outcome));
}

std::string Context::name_of(PeerId peer) const {
  if (peer == options.id) return trace::short_name(peer, options.name);
  const auto at = std::find_if(view->members.begin(), view->members.end(),
                               [&](const wire::Member& member) { return member.id == peer; });
  return trace::short_name(peer, at == view->members.end() ? std::string_view{} : std::string_view{at->name});
}

}  // namespace lockstep::peer
