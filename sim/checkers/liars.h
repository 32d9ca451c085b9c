// Members that lie (sim/network/liar.h; rule 56). What they say may change the outcome of each round that they take
// part in, and the state that they share, so nothing is promised of these. What remains promised: no machine fails,
// memory stays bounded, and every call ends once the liars are gone; an honest peer calls nobody else a liar, no honest
// peer is taken out of the run but for a link to a liar, and none loses the run by what the coordinator tells it; and
// rounds without liars are as without lies.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "core/trace/event.h"
#include "core/wire/message.h"
#include "sim/checkers/l2_causes.h"

namespace lockstep::sim {

class Liars {
 public:
  void lies(PeerId peer, std::string name) {
    ids_.insert(peer);
    names_.insert(trace::short_name(peer));  // by those whose newest view does not hold it any more
    names_.insert(std::move(name));
  }
  [[nodiscard]] bool any() const { return !ids_.empty(); }
  [[nodiscard]] bool include(PeerId peer) const { return ids_.contains(peer); }
  [[nodiscard]] bool are_in(const wire::View& view) const {
    return any() && std::ranges::any_of(view.members, [&](const wire::Member& member) { return include(member.id); });
  }

  // Whether lies explain what a peer, or the coordinator (nobody), reports. `is_peer`: whether there is such a peer.
  template <typename IsPeer>
  [[nodiscard]] bool explain(PeerId by, const trace::Event& event, const IsPeer& is_peer) const {
    if (!any()) return false;
    if (include(by) || include(event.peer)) return true;
    if (Causes::is_breach(event)) {
      // A stream that has not said whose it is, or has given a name that nobody has; or an honest peer has passed a
      // false segment on.
      return !is_peer(event.peer) || is_passed_on(event);
    }
    if (event.kind == trace::Kind::kPeerRefused) return true;  // a liar gives the name of another gang
    if (event.kind == trace::Kind::kLinkReported && is_passed_on(event)) return true;
    return names_a_liar(event.text);
  }

  // Whether a peer may lose the run by lies. A liar can tell the only other member of a round that both agree, and tell
  // the coordinator something else: nobody can say who of the two is right. `untold`: for each round that the peer has
  // reported as committed and the coordinator has not committed, the members.
  [[nodiscard]] bool cost_the_run(PeerId peer, std::string_view text,
                                  const std::vector<std::vector<PeerId>>& untold) const {
    if (include(peer) || names_a_liar(text)) return true;
    if (text.find("took back a round that all members had agreed on") == std::string_view::npos) return false;
    return std::ranges::any_of(untold, [&](const std::vector<PeerId>& members) {
      return members.size() == 2 && (include(members.front()) || include(members.back()));
    });
  }

 private:
  [[nodiscard]] bool names_a_liar(std::string_view text) const {
    return std::ranges::any_of(names_, [&](const std::string& name) { return names(text, name); });
  }
  // Two honest members quarrel because of a liar. The liar has made up a final of a ring, whose partial sum has not
  // passed the next member. Or it has told the two different sizes of the blocks of an all-gather.
  static bool is_passed_on(const trace::Event& event) {
    return event.text.find("a segment that no round expects") != std::string::npos ||
           event.text.find("a Ready that does not fit its round") != std::string::npos;
  }
  // Names end with a number.
  static bool names(std::string_view text, std::string_view name) {
    for (std::size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
      const std::size_t end = at + name.size();
      if (end == text.size() || std::isdigit(static_cast<unsigned char>(text[end])) == 0) return true;
    }
    return false;
  }

  std::set<PeerId> ids_;
  std::set<std::string> names_;
};

}  // namespace lockstep::sim
