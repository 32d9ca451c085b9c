// Point-to-point transfers. S2: a receive that has ended well holds what one send of its tag and of its sender gave; no
// other receive has taken that send, and the sends of one member with one tag are taken in the order of their calls, by
// receives in the order of theirs. L1: a transfer that both sides have called ends. L2: no transfer ends without a
// cause, and the loss of a third member is none. S10: arguments that agree are not refused.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "sim/checkers/complaint.h"
#include "sim/engine/memory.h"
#include "sim/workload/call.h"
#include "sim/workload/text.h"

namespace lockstep::sim {

class Transfers {
 public:
  // Whether the peer is out of the run, or leaves it.
  using IsGone = std::function<bool(PeerId)>;

  // The call's memory has its contents.
  void called(const Call& call) {
    if (call.kind == CallKind::kSend) {
      ways_[{call.peer, call.transfer.peer, call.transfer.tag}].sends.push_back({&call, false});
    } else {
      receives_[{call.peer, call.transfer.tag}].push_back(&call);
    }
  }

  // A call has ended.
  Complaint ended(const Call& call, const Memory& memory, const IsGone& gone) {
    const peer::Outcome& outcome = *call.outcome;
    if (is_out(outcome.status) || outcome.status == Status::kTimedOut) return {};
    const bool sends = call.kind == CallKind::kSend;
    const std::string what = text_of(call.peer) + ": " + outcome.text;
    switch (outcome.status) {
      case Status::kOk: return sends ? Complaint{} : received(call, memory);
      case Status::kPeerLost:
      case Status::kInvalidArgument:  // it was no member when the call was made
        if (gone(outcome.partner.is_nobody() ? call.transfer.peer : outcome.partner)) return {};
        return what + " (the other member lives and does not leave)";
      case Status::kAborted:
        if (anybody_stopped(call)) return {};
        [[fallthrough]];
      default: return what + " (both sides gave the same arguments, and nobody stopped the transfer)";
    }
  }

  // An open call that should have ended by now: both sides have made their call, and it is the first in line.
  [[nodiscard]] Complaint overdue(const Call& call, Instant healed, Instant now, Duration bound,
                                  const IsGone& gone) const {
    const bool sends = call.kind == CallKind::kSend;
    const Call* const other = sends ? receive_for(call, gone) : send_for(call, gone);
    if (other == nullptr) return {};
    const Instant since = std::max({call.made, other->made, healed});
    if (now - since <= bound) return {};
    return text_of(call.peer) + " waits in its " + name_of(call.kind) + " with tag " +
           std::to_string(call.transfer.tag.value) + " since " + text_of(since) + ", although " + text_of(other->peer) +
           " has called the other side";
  }

 private:
  struct Way {
    PeerId from;
    PeerId to;
    Tag tag;
    auto operator<=>(const Way&) const = default;
  };
  struct Sent {
    const Call* call = nullptr;
    bool taken = false;
  };
  struct Traffic {
    std::vector<Sent> sends;                                      // in the order of the calls
    std::vector<std::pair<std::uint64_t, std::size_t>> received;  // receive and send, by their places
  };

  Complaint received(const Call& call, const Memory& memory) {
    const peer::Outcome& outcome = *call.outcome;
    const auto& wanted = call.transfer;
    const std::string what = text_of(call.peer) + " received with tag " + std::to_string(wanted.tag.value) + " from " +
                             text_of(outcome.partner) + " ";
    if (!wanted.peer.is_nobody() && wanted.peer != outcome.partner) return what + "what it wanted of another member";
    const auto way = ways_.find({outcome.partner, call.peer, wanted.tag});
    if (way == ways_.end()) return what + "what nobody has sent with that tag";
    if (wanted.memory.length < 16) return {};  // several may be alike
    const std::uint64_t holds = memory.fingerprint(wanted.memory);
    std::vector<Sent>& sends = way->second.sends;
    const auto same = [&](const Sent& sent) { return sent.call->prints.inputs.front() == holds; };
    const auto at = std::find_if(sends.begin(), sends.end(), same);
    if (at == sends.end()) return what + "bytes that were not sent";
    if (at->call->transfer.count != wanted.count || at->call->transfer.type != wanted.type)
      return what + "another count or type";
    if (std::exchange(at->taken, true)) return what + "the same send a second time";
    const auto place = static_cast<std::size_t>(at - sends.begin());
    for (const auto& [receive, send] : way->second.received) {
      if ((receive < call.id.value) != (send < place)) return what + "sends in another order than that of their calls";
    }
    way->second.received.emplace_back(call.id.value, place);
    return {};
  }

  // Whether a program has stopped this transfer, or one that it may have met.
  [[nodiscard]] bool anybody_stopped(const Call& call) const {
    const bool sends = call.kind == CallKind::kSend;
    const PeerId partner = call.outcome->partner;
    const auto way = ways_.find({sends ? call.peer : partner, sends ? partner : call.peer, call.transfer.tag});
    if (call.stopped || way == ways_.end()) return call.stopped;
    const auto is_stopped = [](const Sent& sent) { return sent.call->stopped; };
    return std::any_of(way->second.sends.begin(), way->second.sends.end(), is_stopped);
  }

  // The receive that should take this send: the first open one, if this send is the first that nobody has taken.
  [[nodiscard]] const Call* receive_for(const Call& send, const IsGone& gone) const {
    if (gone(send.transfer.peer) || first_on({send.peer, send.transfer.peer, send.transfer.tag}) != &send)
      return nullptr;
    const auto waiting = receives_.find({send.transfer.peer, send.transfer.tag});
    if (waiting == receives_.end()) return nullptr;
    const auto at = std::find_if(waiting->second.begin(), waiting->second.end(), [&](const Call* receive) {
      const PeerId from = receive->transfer.peer;
      return !receive->outcome && (from.is_nobody() || from == send.peer);
    });
    return at == waiting->second.end() ? nullptr : *at;
  }

  [[nodiscard]] const Call* send_for(const Call& receive, const IsGone& gone) const {
    const auto& waiting = receives_.at({receive.peer, receive.transfer.tag});
    const auto first = std::find_if(waiting.begin(), waiting.end(), [](const Call* open) { return !open->outcome; });
    if (first == waiting.end() || *first != &receive) return nullptr;
    for (const auto& [way, traffic] : ways_) {
      if (way.to != receive.peer || way.tag != receive.transfer.tag || gone(way.from)) continue;
      if (!receive.transfer.peer.is_nobody() && receive.transfer.peer != way.from) continue;
      const Call* const send = first_on(way);
      if (send != nullptr && !send->outcome) return send;
    }
    return nullptr;
  }

  // The first send that is open; null if one that nobody has taken comes before it.
  [[nodiscard]] const Call* first_on(const Way& way) const {
    const auto traffic = ways_.find(way);
    if (traffic == ways_.end()) return nullptr;
    for (const Sent& sent : traffic->second.sends) {
      if (!sent.taken && !sent.call->outcome) return sent.call;
    }
    return nullptr;
  }

  std::map<Way, Traffic> ways_;
  std::map<std::pair<PeerId, Tag>, std::vector<const Call*>> receives_;  // in the order of the calls
};

}  // namespace lockstep::sim
