// T1, links that exist: a member counts as one that can be dialled only if somebody can dial it, and no ring has two
// neighbours that can only call out, if there is a ring without (rule 70 of docs/protocol.md). Knows which hosts let
// nobody in, and judges the views that members install.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/trace/event.h"
#include "core/wire/message.h"
#include "sim/checkers/complaint.h"
#include "sim/plan/plan.h"

namespace lockstep::sim {

class Reach {
 public:
  explicit Reach(const Plan& plan) : judges_(plan.links.dials_back) {}

  void born(PeerId peer, std::uint32_t host, Instant now) { peers_[peer] = {host, now}; }
  void began(const Entry& entry, Instant now) {
    if (entry.fault != Fault::kShut) return;
    Shut& shut = shut_[entry.a];
    if (shut.faults++ == 0) shut.since = now;
  }
  void ended(const Entry& entry) {
    if (entry.fault == Fault::kShut) shut_[entry.a].faults -= 1;
  }
  // A link was reported as broken: rings may be laid around it, and then no ring may be left for the rest.
  void reported() { reports_ = true; }

  [[nodiscard]] Complaint installed(const wire::View& view) {
    if (!judges_) return {};
    for (const wire::Member& member : view.members) {
      if (!judged_.insert(member.id).second || member.calls_out || !is_shut_off(member.id)) continue;
      return trace::short_name(member.id, member.name) +
             " counts as one that can be dialled, and its host has let nobody in";
    }
    return reports_ ? Complaint{} : judge_rings(view);
  }

 private:
  struct Life {
    std::uint32_t host = 0;
    Instant born;
  };
  struct Shut {
    int faults = 0;
    Instant since;
  };
  // Nobody could dial it since it was there.
  [[nodiscard]] bool is_shut_off(PeerId peer) const {
    const auto life = peers_.find(peer);
    if (life == peers_.end()) return false;
    const auto shut = shut_.find(life->second.host);
    return shut != shut_.end() && shut->second.faults > 0 && shut->second.since <= life->second.born;
  }
  [[nodiscard]] static Complaint judge_rings(const wire::View& view) {
    for (std::size_t begin = 0; begin < view.members.size();) {
      std::size_t end = begin;
      std::size_t callers = 0;
      for (; end < view.members.size() && view.members[end].group == view.members[begin].group; ++end)
        callers += view.members[end].calls_out ? 1 : 0;
      const std::size_t n = end - begin;
      for (std::size_t i = 0; n >= 4 && callers * 2 <= n && i < n; ++i) {
        const wire::Member& a = view.members[begin + i];
        const wire::Member& b = view.members[begin + (i + 1) % n];
        if (!a.calls_out || !b.calls_out) continue;
        return "nobody can dial " + trace::short_name(a.id, a.name) + " or " + trace::short_name(b.id, b.name) +
               ", and they are neighbours, although a ring could part them";
      }
      begin = end;
    }
    return {};
  }

  bool judges_;
  bool reports_ = false;
  std::map<PeerId, Life> peers_;
  std::map<std::uint32_t, Shut> shut_;  // by host
  std::set<PeerId> judged_;
};

}  // namespace lockstep::sim
