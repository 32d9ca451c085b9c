// Point-to-point transfers. S2: a receive that has ended well holds what one send of its tag and of its sender gave; no
// other receive has taken that send, and the sends of one member with one tag are taken in the order of their calls, by
// receives in the order of theirs. A send that has ended well is at its receiver, whatever happens to its sender. L1: a
// transfer that both sides have called ends, on both sides. L2: no transfer ends without a cause, the loss of a third
// member is none, and a leave ends after the transfers of its caller. S10: arguments that agree are not refused.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
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
      ways_[{call.peer, call.transfer.peer, call.transfer.tag}].sends.push_back({&call, nullptr});
    } else {
      receives_[{call.peer, call.transfer.tag}].push_back(&call);
    }
  }

  // A call has ended.
  Complaint ended(const Call& call, const Memory& memory, const IsGone& gone) {
    const peer::Outcome& outcome = *call.outcome;
    const bool sends = call.kind == CallKind::kSend;
    if (outcome.status == Status::kOk) return sends ? Complaint{} : received(call, memory);
    if (is_out(outcome.status)) return {};
    const std::string what = text_of(call.peer) + ": " + outcome.text;
    const bool is_early = !sends && holds_the_next(call);
    // A loss ends no receive that has its tensor; any other end may take a send with it.
    const bool is_loss = outcome.status == Status::kPeerLost || outcome.status == Status::kInvalidArgument;
    if (!sends && !is_loss) broken_.insert({call.peer, call.transfer.tag});
    switch (outcome.status) {
      case Status::kPeerLost:
      case Status::kInvalidArgument:  // it was no member when the call was made
        if (!gone(partner_of(call))) return what + " (the other member lives and does not leave)";
        return is_early ? Complaint(what + " (its send had ended well before)") : Complaint{};
      case Status::kUnreachable:  // rule 70
        if (call.view != nullptr && calls_out(*call.view, call.peer) && calls_out(*call.view, partner_of(call)))
          return {};
        break;
      case Status::kTimedOut:
        if (anybody(call, [](const Call& one) { return one.transfer.timeout.ns > 0; })) return {};
        return what + " (no side has a time-out)";
      case Status::kAborted:
        if (anybody(call, [](const Call& one) { return one.stopped; })) return {};
        break;
      case Status::kMismatch:
      case Status::kStateConflict:
      case Status::kProtocolError:  // rules 52, 53 and 67: the run is over for the caller, with all of its calls
        if (gone(call.peer)) return {};
        break;
      default: break;
    }
    return what + " (both sides gave the same arguments, and nobody stopped the transfer)";
  }

  // Its caller has left the run politely, and the call is still open.
  [[nodiscard]] static Complaint left_behind(const Call& call) {
    return text_of(call.peer) + " has left the run before its " + text_of(call) + " ended";
  }

  // Whether the other side of a send has called: it is the first in line, or a receive has taken it.
  [[nodiscard]] bool is_awaited(const Call& send, const IsGone& gone) const {
    return taker_of(send) != nullptr ? !gone(send.transfer.peer) : receive_for(send, gone) != nullptr;
  }

  // An open call that should have ended by now: both sides have made their call, and it is the first in line.
  [[nodiscard]] Complaint overdue(const Call& call, Instant healed, Instant now, Duration bound,
                                  const IsGone& gone) const {
    const bool sends = call.kind == CallKind::kSend;
    const Call* const taker = sends ? taker_of(call) : nullptr;
    if (taker != nullptr && gone(taker->peer)) return {};  // with it the report of the receipt
    const Call* const other = taker != nullptr ? taker : sends ? receive_for(call, gone) : send_for(call, gone);
    if (other == nullptr) return {};
    const Instant since = std::max({call.made, taker != nullptr ? taker->ended : other->made, healed});
    if (now - since <= bound) return {};
    return text_of(call.peer) + " waits in its " + name_of(call.kind) + " with tag " +
           std::to_string(call.transfer.tag.value) + " since " + text_of(since) + ", although " + text_of(other->peer) +
           (taker != nullptr ? " has received it" : " has called the other side");
  }

 private:
  static bool calls_out(const wire::View& view, PeerId peer) {
    const auto at = std::ranges::find(view.members, peer, &wire::Member::id);
    return at != view.members.end() && at->calls_out;
  }
  struct Way {
    Way(PeerId sender, PeerId receiver, Tag its) : to(receiver), tag(its), from(sender) {}
    PeerId to;
    Tag tag;
    PeerId from;  // last: the ways of a receive from anybody stand together
    auto operator<=>(const Way&) const = default;
  };
  struct Sent {
    const Call* call = nullptr;
    const Call* taker = nullptr;  // the receive that has ended well with it
  };
  struct Traffic {
    std::vector<Sent> sends;                                      // in the order of the calls
    std::vector<std::pair<std::uint64_t, std::size_t>> received;  // receive and send, by their places
  };

  Complaint received(const Call& call, const Memory& memory) {
    const peer::Outcome& outcome = *call.outcome;
    const auto& wanted = call.transfer;
    const std::string what = text_of(call.peer) + " received with tag " + std::to_string(wanted.tag.value) + " from " +
                             text_of(outcome.transfer.partner) + " ";
    if (!wanted.peer.is_nobody() && wanted.peer != outcome.transfer.partner)
      return what + "what it wanted of another member";
    const auto way = ways_.find({outcome.transfer.partner, call.peer, wanted.tag});
    if (way == ways_.end()) return what + "what nobody has sent with that tag";
    if (!is_known_by_content(call)) return {};
    const std::uint64_t holds = memory.fingerprint(wanted.memory);
    std::vector<Sent>& sends = way->second.sends;
    const auto same = [&](const Sent& sent) { return sent.call->prints.inputs.front() == holds; };
    const auto at = std::find_if(sends.begin(), sends.end(), same);
    if (at == sends.end()) return what + "bytes that were not sent";
    if (at->call->transfer.count != wanted.count || at->call->transfer.type != wanted.type)
      return what + "another count or type";
    if (std::exchange(at->taker, &call) != nullptr) return what + "the same send a second time";
    const auto place = static_cast<std::size_t>(at - sends.begin());
    for (const auto& [receive, send] : way->second.received) {
      if ((receive < call.id.value) != (send < place)) return what + "sends in another order than that of their calls";
    }
    way->second.received.emplace_back(call.id.value, place);
    return {};
  }

  // Shorter tensors may be alike.
  [[nodiscard]] static bool is_known_by_content(const Call& call) { return call.transfer.memory.length >= 16; }

  [[nodiscard]] static PeerId partner_of(const Call& call) {
    const PeerId partner = call.outcome->transfer.partner;
    return partner.is_nobody() ? call.transfer.peer : partner;
  }

  [[nodiscard]] static bool fits(const Call& receive, PeerId from) {
    return receive.transfer.peer.is_nobody() || receive.transfer.peer == from;
  }

  // Whether it holds for this transfer, or for one that it may have met.
  template <typename Is>
  [[nodiscard]] bool anybody(const Call& call, Is&& is) const {
    const bool sends = call.kind == CallKind::kSend;
    const PeerId from = sends ? call.peer : partner_of(call);
    const PeerId to = sends ? partner_of(call) : call.peer;
    if (is(call)) return true;
    const auto way = ways_.find({from, to, call.transfer.tag});
    const auto is_sent = [&](const Sent& sent) { return is(*sent.call); };
    if (way != ways_.end() && std::any_of(way->second.sends.begin(), way->second.sends.end(), is_sent)) return true;
    const auto receives = receives_.find({to, call.transfer.tag});
    return receives != receives_.end() &&
           std::any_of(receives->second.begin(), receives->second.end(),
                       [&](const Call* receive) { return fits(*receive, from) && is(*receive); });
  }

  // Whether a receive has ended in vain although the send that it should take had ended well. Another receive that has
  // ended in vain may have taken that send.
  [[nodiscard]] bool holds_the_next(const Call& receive) const {
    const auto way = ways_.find({partner_of(receive), receive.peer, receive.transfer.tag});
    if (way == ways_.end() || broken_.contains({receive.peer, receive.transfer.tag})) return false;
    const auto at = std::find_if(way->second.sends.begin(), way->second.sends.end(),
                                 [](const Sent& sent) { return sent.taker == nullptr; });
    if (at == way->second.sends.end() || !has_ended_well(*at->call)) return false;
    const auto& waiting = receives_.at({receive.peer, receive.transfer.tag});
    return std::none_of(waiting.begin(), waiting.end(), [&](const Call* other) {
      return other->id.value < receive.id.value && !other->outcome && fits(*other, at->call->peer);
    });
  }

  [[nodiscard]] static bool has_ended_well(const Call& send) {
    return send.outcome && send.outcome->status == Status::kOk && is_known_by_content(send);
  }

  // Returns the receive that has ended with this send, or null if no receive has.
  [[nodiscard]] const Call* taker_of(const Call& send) const {
    const auto way = ways_.find({send.peer, send.transfer.peer, send.transfer.tag});
    if (way == ways_.end()) return nullptr;
    const auto at = std::find_if(way->second.sends.begin(), way->second.sends.end(),
                                 [&](const Sent& sent) { return sent.call == &send; });
    return at == way->second.sends.end() ? nullptr : at->taker;
  }

  // The receive that should take this send: the first open one, if this send is the first that nobody has taken.
  [[nodiscard]] const Call* receive_for(const Call& send, const IsGone& gone) const {
    const auto way = ways_.find({send.peer, send.transfer.peer, send.transfer.tag});
    if (gone(send.transfer.peer) || way == ways_.end() || first_open(way->second) != &send) return nullptr;
    const auto waiting = receives_.find({send.transfer.peer, send.transfer.tag});
    if (waiting == receives_.end()) return nullptr;
    const auto at = std::find_if(waiting->second.begin(), waiting->second.end(),
                                 [&](const Call* receive) { return !receive->outcome && fits(*receive, send.peer); });
    return at == waiting->second.end() ? nullptr : *at;
  }

  // The send that this receive should take, if the receive is the first that is open.
  [[nodiscard]] const Call* send_for(const Call& receive, const IsGone& gone) const {
    const auto& waiting = receives_.at({receive.peer, receive.transfer.tag});
    const auto first = std::find_if(waiting.begin(), waiting.end(), [](const Call* open) { return !open->outcome; });
    if (first == waiting.end() || *first != &receive) return nullptr;
    for (auto at = ways_.lower_bound({PeerId{}, receive.peer, receive.transfer.tag}); at != ways_.end(); ++at) {
      const auto& [way, traffic] = *at;
      if (way.to != receive.peer || way.tag != receive.transfer.tag) break;
      if (!fits(receive, way.from)) continue;
      if (const Call* const held = first_held(way, traffic)) return held;
      if (gone(way.from)) continue;
      if (const Call* const send = first_open(traffic)) return send;
    }
    return nullptr;
  }

  [[nodiscard]] static const Call* first_open(const Traffic& traffic) {
    for (const Sent& sent : traffic.sends) {
      if (sent.taker == nullptr && !sent.call->outcome) return sent.call;
    }
    return nullptr;
  }

  // The first send that has ended well and that nobody has taken: it waits at its receiver.
  [[nodiscard]] const Call* first_held(const Way& way, const Traffic& traffic) const {
    if (broken_.contains({way.to, way.tag})) return nullptr;
    for (const Sent& sent : traffic.sends) {
      if (sent.taker == nullptr && has_ended_well(*sent.call)) return sent.call;
    }
    return nullptr;
  }

  std::map<Way, Traffic> ways_;
  std::map<std::pair<PeerId, Tag>, std::vector<const Call*>> receives_;  // in the order of the calls
  std::set<std::pair<PeerId, Tag>> broken_;                              // some such receive has ended in vain
};

}  // namespace lockstep::sim
