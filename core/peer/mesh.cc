#include "core/peer/mesh.h"

#include <algorithm>

#include "core/base/mutant.h"
#include "core/base/overloaded.h"
#include "core/wire/limits.h"
#include "core/wire/link_key.h"

namespace lockstep::peer {

namespace {

// A stripe whose neighbour does not listen yet, or no more, is tried again at once, then ever more slowly.
constexpr Duration kFirstBackoff = milliseconds(10);
constexpr Duration kLastBackoff = milliseconds(500);
// The stripe of a stream that only asks the other side to dial.
constexpr StripeIndex kKnock{0xffff};
// Streams in a row that break the protocol before their link is said to be broken: more than bits on the way are ever
// flipped.
constexpr std::uint32_t kMaxFaults = 8;

// Dripping streams in a row, with others in between that greet well.
constexpr std::uint32_t kDripWeight = 3;
// Why a stream does not belong to a link.
constexpr const char* kOtherKey = "the other side proves another key than the member's";

}  // namespace

void Mesh::set_key(const LinkKey& key, Instant now, Effects& out) {
  if (key_) return;
  key_ = key;
  for (auto& [stream, flow] : flows_) {
    if (flow.kind != Kind::kParked) continue;
    if (flow.key != key) {
      refuse_key(flow, now, out);
    } else if (is_impostor(flow, flow.peer)) {
      refuse_impostor(flow, now, out);
    } else {
      lobby_.leave(stream);
      tell_caller(flow);
    }
  }
}

void Mesh::tell_caller(const Flow& flow) {
  if (flow.is_prefetch) return;
  if (flow.use == wire::LinkUse::kDirect) owners_->links.on_direct_caller(flow.peer);
  if (flow.use == wire::LinkUse::kTransfer) owners_->links.on_transfer_caller(flow.peer);
}

void Mesh::want(const std::map<PeerId, Wanted>& neighbours, Instant now, Effects& out) {
  for (auto at = links_.begin(); at != links_.end();) {
    const auto wanted = neighbours.find(at->first);
    const auto relation =
        wanted != neighbours.end() && wanted->second.prefetch_key ? Relation::kSource : Relation::kNeighbour;
    const bool stays =
        wanted == neighbours.end() ? at->second.relation == Relation::kPrefetcher : at->second.relation == relation;
    at = stays ? std::next(at) : let_go(at, now, out);
  }
  for (const auto& [peer, wanted] : neighbours) {
    const auto [at, fresh] = links_.try_emplace(peer);
    Link& link = at->second;
    if (link.contact.addresses != wanted.contact.addresses) link.next_address = 0;
    link.contact = wanted.contact;
    if (std::exchange(link.use, wanted.use) != wanted.use && !fresh) greet_again(peer, link, now, out);
    if (wanted.prefetch_key) link.key = *wanted.prefetch_key;
    if (!std::exchange(link.needed, wanted.needed) && wanted.needed) link.reported = link.avoided = now;
    const bool knocks = link.use == wire::LinkUse::kTransfer && !wanted.prefetch_key && !link.contact.dials;
    if (!fresh) {
      if (knocks) set_timer(now);
      continue;
    }
    if (wanted.prefetch_key) link.relation = Relation::kSource;
    link.dials = wanted.prefetch_key || wanted.contact.dials;
    link.reported = link.avoided = now;
    const std::uint16_t width = wanted.prefetch_key ? 1 : line_.wanted_stripes(links_);
    link.stripes.resize(link.dials ? width : 1, new_stripe(now));
    if (link.dials) {
      for (std::uint16_t i = 0; i < link.width(); ++i) dial(peer, link, StripeIndex{i}, now, out);
    }
    link.knock = new_stripe(now);
    if (knocks) set_timer(now);
    set_timer(now + options_.link_timeout);
  }
  std::vector<io::Address> callers;
  for (const auto& [peer, link] : links_) {
    if (!link.dials && link.relation == Relation::kNeighbour) {
      callers.insert(callers.end(), link.contact.addresses.begin(), link.contact.addresses.end());
    }
  }
  // Those of all stripes, and those that replace them.
  lobby_.expect(callers, std::uint32_t{options_.stripes} * 2);
  std::vector<StreamId> parked;
  for (const auto& [stream, flow] : flows_) {
    if (flow.kind == Kind::kParked) parked.push_back(stream);
  }
  for (const StreamId stream : parked) attach_parked(flows_.at(stream), now, out);
}

Links::iterator Mesh::let_go(Links::iterator at, Instant now, Effects& out) {
  if (at->second.knock.stream.value != 0) {
    Flow& flow = flows_.at(at->second.knock.stream);
    if (flow.kind != Kind::kDying) drop(flow, false, now, out);
  }
  for (const Stripe& stripe : at->second.stripes) {
    if (stripe.stream.value == 0) continue;
    Flow& flow = flows_.at(stripe.stream);
    const bool open = flow.kind == Kind::kUp;
    flow.kind = Kind::kDying;
    flow.since = now;
    set_timer(now + options_.dial_timeout);
    if (open) {
      flow.channel.finish(out);
    } else {
      flow.channel.close(out);
    }
  }
  return links_.erase(at);
}

void Mesh::close_all(Effects& out) {
  closed_ = true;
  links_.clear();
  for (auto& [stream, flow] : flows_) {
    flow.kind = Kind::kDying;
    flow.channel.close(out);
  }
  lobby_ = io::Lobby(options_.strangers);
  next_timer_ = kNever;
}

Stripe Mesh::new_stripe(Instant now) { return {{}, false, false, now, now, kFirstBackoff}; }

void Mesh::dial(PeerId peer, Link& link, StripeIndex stripe, Instant now, Effects& out) {
  Stripe& slot = link.stripes[stripe.value];
  slot.stream = names_.next();
  Flow& flow = flows_.try_emplace(slot.stream, slot.stream, now, Kind::kDialling).first->second;
  flow.peer = peer;
  flow.stripe = stripe;
  flow.is_prefetch = link.relation == Relation::kSource;
  flow.address = link.next_address;
  out.emplace_back(io::Dial{slot.stream, link.address()});
  set_timer(now + options_.dial_timeout);
}

// Rule 44: a greeting says the use of its link. A peer that does not want a link for one use keeps the stream and does
// not welcome it, or lets a link go that is up, although it would want the link for another use. A stream that waits
// for its welcome stays: the welcome may be on its way.
void Mesh::greet_again(PeerId peer, Link& link, Instant now, Effects& out) {
  if (link.use == wire::LinkUse::kRing) return;
  if (const auto up = first_stream(peer)) {
    Flow& flow = flows_.at(*up);
    touch(flow);
    greet(flow, link);
  }
  if (!link.dials) return;
  for (std::uint16_t i = 0; i < link.width(); ++i) {
    Stripe& stripe = link.stripes[i];
    if (stripe.up) continue;
    link.avoided = now;
    stripe.backoff = kFirstBackoff;
    if (stripe.stream.value == 0) {
      dial(peer, link, StripeIndex{i}, now, out);
    } else if (Flow& flow = flows_.at(stripe.stream); flow.kind == Kind::kGreeting) {
      if (mutant(Mutant::kNewUseNewStream)) {
        drop(flow, false, now, out);
      } else {
        touch(flow);
        greet(flow, link);
      }
    }
  }
}

// ---- more streams where packets are lost (rule 60 of docs/protocol.md) ----

void Mesh::widen(PeerId peer, Link& link, std::uint16_t stripes, Instant now, Effects& out) {
  if (stripes <= link.width()) return;
  if (!link.dials) {
    if (stripes > link.asked && say(peer, wire::Link{options_.id, peer, {}, stripes, *key_, link.use}))
      link.asked = stripes;
    return;
  }
  const std::uint16_t before = link.width();
  link.stripes.resize(stripes, new_stripe(now));
  for (std::uint16_t i = before; i < stripes; ++i) dial(peer, link, StripeIndex{i}, now, out);
}

void Mesh::widen_links(Instant now, Effects& out) {
  const std::uint16_t wanted = line_.wanted_stripes(links_);
  if (wanted == options_.stripes) return;
  for (auto& [peer, link] : links_) {
    if (link.relation == Relation::kNeighbour) widen(peer, link, wanted, now, out);
  }
}

void Mesh::put_off_knock(Link& link, Instant now) {
  link.knock.retry_at = now + link.knock.backoff;
  link.knock.backoff = std::min(link.knock.backoff * 2, kLastBackoff);
  set_timer(link.knock.retry_at);
}

// Rule 44: a link that this peer may not dial.
void Mesh::knock(PeerId peer, Link& link, Instant now, Effects& out) {
  if (link.dials || link.relation != Relation::kNeighbour || link.use != wire::LinkUse::kTransfer) return;
  const auto is_open = [](const Stripe& stripe) { return stripe.stream.value != 0; };
  if (link.knock.stream.value != 0 || std::any_of(link.stripes.begin(), link.stripes.end(), is_open)) return;
  if (now < link.knock.retry_at) return set_timer(link.knock.retry_at);
  if (link.contact.calls_out) {
    owners_->links.ask_to_dial(peer);
    return put_off_knock(link, now);
  }
  link.knock.stream = names_.next();
  Flow& flow = flows_.try_emplace(link.knock.stream, link.knock.stream, now, Kind::kDialling).first->second;
  flow.peer = peer;
  flow.stripe = kKnock;
  flow.address = link.next_address;
  out.emplace_back(io::Dial{link.knock.stream, link.address()});
  set_timer(now + options_.dial_timeout);
}

void Mesh::on_accepted(const io::Accepted& in, Instant now, Effects& out) {
  Flow& flow = flows_.try_emplace(in.stream, in.stream, now, Kind::kStranger).first->second;
  touch(flow);
  flow.round_trip = in.round_trip;
  flow.proved = in.identity.key;
  if (closed_) return drop(flow, false, now, out);
  set_timer(now + options_.dial_timeout);
  if (const auto goes = lobby_.enter(in.stream, in.from)) drop(flows_.at(*goes), false, now, out);
}

void Mesh::on_opened(const io::Opened& in, Instant now, Effects& out) {
  Flow& flow = flows_.at(in.stream);
  if (flow.kind == Kind::kDying) return;
  touch(flow);
  flow.kind = Kind::kGreeting;
  flow.channel.forgive_silence(now);
  Link& link = links_.at(flow.peer);
  // Rule 65: checked before the greeting, which names the key of the run.
  if (in.identity.key != link.contact.key && !mutant(Mutant::kDialledKeyUnchecked)) {
    link.failure = kOtherKey;
    return break_protocol(flow, kOtherKey, now, out);
  }
  link.note_round_trip(in.round_trip);
  flow.channel.writer.preamble();
  greet(flow, link);
}

void Mesh::greet(Flow& flow, const Link& link) {
  const LinkKey& key = flow.is_prefetch ? link.key : *key_;
  const bool knocks = flow.stripe == kKnock;
  const StripeIndex stripe = knocks ? StripeIndex{0} : flow.stripe;
  const std::uint16_t width = knocks ? options_.stripes : link.width();
  const wire::LinkUse use = knocks ? wire::LinkUse::kTransfer : link.use;
  flow.channel.writer.message(wire::Link{options_.id, flow.peer, stripe, width, key, use}, term_);
}

void Mesh::on_read_done(const io::ReadDone& in, Instant now, Effects& out) {
  Flow& flow = flows_.at(in.stream);
  flow.channel.read_done(in.bytes, now);
  if (mutant(Mutant::kDripRenews) && flow.kind == Kind::kStranger) flow.since = now;
  take_events(flow, now, out);
}

void Mesh::on_write_done(const io::WriteDone& in, Instant now) {
  Flow& flow = flows_.at(in.stream);
  touch(flow);
  flow.channel.write_done(in.bytes);
  if (in.written && line_.written(*in.written, in.bytes, now)) set_timer(now);
}

void Mesh::on_revoked(const io::Revoked& in, Instant now, Effects& out) {
  Flow& flow = flows_.at(in.stream);
  touch(flow);
  flow.channel.revoked(in.direction, in.bytes, now);
  if (in.direction == io::Direction::kRead) take_events(flow, now, out);
}

void Mesh::take_events(Flow& flow, Instant now, Effects& out) {
  touch(flow);
  while (!flow.channel.finishing() && flow.kind != Kind::kDying) {
    auto next = flow.channel.reader.next();
    if (!next.ok()) {
      return break_protocol(flow, next.error().text, now, out);
    }
    if (!next->has_value()) return;
    std::visit(overloaded{
                   [&](wire::Preamble& in) {
                     if (flow.kind == Kind::kStranger) flow.channel.writer.preamble();
                     if (in.version != wire::kVersion) {
                       refuse(flow,
                              "this peer speaks protocol version " + std::to_string(wire::kVersion) +
                                  ", you speak version " + std::to_string(in.version),
                              now, out);
                     }
                   },
                   [&](wire::Received& in) {
                     if (in.term >= term_ || flow.kind != Kind::kUp) on_message(flow, in.message, now, out);
                   },
                   [&](wire::SegmentBegan& in) { take_segment(flow, in, now, out); },
                   [&](wire::SegmentEnded& in) {
                     if (in.sunk) return;
                     exchange_of(flow, in.segment).on_segment_ended(flow.peer, flow.channel.stream(), in);
                   },
               },
               **next);
    if (flow.channel.reader.awaits_place()) return;
  }
}

// Rule 10: a segment lands only where the round that it belongs to has a place; otherwise in a sink.
void Mesh::take_segment(Flow& flow, const wire::SegmentBegan& in, Instant now, Effects& out) {
  if (flow.kind != Kind::kUp) return break_protocol(flow, "a segment before the greeting", now, out);
  if (in.term < term_) return flow.channel.reader.sink();
  const StreamId stream = flow.channel.stream();
  const auto place = exchange_of(flow, in.segment).on_segment_began(flow.peer, stream, in.segment);
  switch (place.landing) {
    case ring::Operation::Landing::kPlace: return put(flow, place.into, out);
    case ring::Operation::Landing::kLater: return;
    case ring::Operation::Landing::kSink: return flow.channel.reader.sink();
    case ring::Operation::Landing::kNonsense: return break_protocol(flow, "a segment that no round expects", now, out);
  }
}

void Mesh::on_message(Flow& flow, wire::Message& message, Instant now, Effects& out) {
  if (flow.kind == Kind::kStranger) {
    const auto* link = std::get_if<wire::Link>(&message);
    if (link == nullptr)
      return refuse(flow, "a stream to a peer starts with Link; this is a peer, not a coordinator", now, out);
    return on_greeting(flow, *link, now, out);
  }
  if (flow.kind == Kind::kGreeting) {
    if (std::holds_alternative<wire::LinkWelcome>(message) && flow.stripe != kKnock) return bring_up(flow, now);
    if (const auto* refused = std::get_if<wire::Refused>(&message)) {
      out.emplace_back(trace::Event{.kind = trace::Kind::kLinkLost,
                                    .view = {},
                                    .peer = flow.peer,
                                    .round = {},
                                    .status = refused->status,
                                    .text = refused->text});
    }
    return drop(flow, false, now, out);
  }
  if (const auto* link = std::get_if<wire::Link>(&message)) {
    if (is_greeting_again(flow, *link)) {
      flow.use = link->use;
      flow.stripes = link->stripes;
      if (key_) tell_caller(flow);
      return;
    }
    if (is_greeting_back(flow, *link)) {
      flow.use = link->use;
      tell_caller(flow);
      return widen(flow.peer, links_.at(flow.peer), std::min(link->stripes, line_.most_stripes(links_)), now, out);
    }
  }
  if (flow.kind == Kind::kParked) return break_protocol(flow, "a message before the welcome", now, out);
  if (std::holds_alternative<wire::Heartbeat>(message)) return;
  if (flow.is_prefetch) return on_prefetch_message(flow, message, now, out);
  if (auto* ready = std::get_if<wire::Ready>(&message)) {
    return owners_->neighbours.on_ready(flow.peer, flow.stripe, flow.channel.stream(), std::move(*ready));
  }
  if (const auto* offer = std::get_if<wire::Offer>(&message)) {
    return owners_->neighbours.on_offer(flow.peer, flow.channel.stream(), *offer);
  }
  if (const auto* parameter = std::get_if<wire::RankParameter>(&message))
    return owners_->neighbours.on_rank_parameter(flow.peer, *parameter);
  if (const auto* done = std::get_if<wire::Done>(&message)) return owners_->neighbours.on_done(flow.peer, *done);
  if (wire::is_about_state(message))
    return owners_->neighbours.on_state_message(flow.peer, flow.channel.stream(), message);
  if (wire::is_about_sends(message))
    return owners_->transfers.on_message(flow.peer, flow.stripe, flow.channel.stream(), message);
  break_protocol(flow, "a message that neighbours do not send", now, out);
}

// A prefetcher asks, a source answers.
void Mesh::on_prefetch_message(Flow& flow, const wire::Message& message, Instant now, Effects& out) {
  const bool asks =
      std::holds_alternative<wire::AskDigests>(message) || std::holds_alternative<wire::AskPieces>(message);
  const bool to_us = links_.at(flow.peer).relation == Relation::kPrefetcher;
  if (to_us ? asks : std::holds_alternative<wire::PieceDigests>(message)) {
    return owners_->prefetches.on_message(flow.peer, flow.channel.stream(), message);
  }
  break_protocol(flow, "a message that prefetchers and sources do not send", now, out);
}

// Rule 20: a caller that proves the run's key leaves the lobby, and a stranger no longer displaces it.
void Mesh::on_greeting(Flow& flow, const wire::Link& link, Instant now, Effects& out) {
  if (link.to != options_.id) return refuse(flow, "another peer was meant: this is not the one you look for", now, out);
  if (link.from == options_.id) return refuse(flow, "a link goes to another peer", now, out);
  if (link.use == wire::LinkUse::kDialBack) {  // the coordinator tries whether this peer can be dialled (rule 70)
    flow.channel.writer.message(wire::Link{options_.id, {}, {}, 1, {}, link.use}, term_);
    return drop(flow, true, now, out);
  }
  flow.is_prefetch = key_ && link.key == wire::prefetcher_key(*key_, link.from);
  if (key_ && link.key != *key_ && !flow.is_prefetch) return refuse_key(flow, now, out);
  if (is_impostor(flow, link.from)) return refuse_impostor(flow, now, out);
  if (flow.is_prefetch) {
    if (const auto refusal = validate_prefetch_link(link.from)) return refuse(flow, *refusal, now, out);
    if (link.stripes != 1) return refuse(flow, "a prefetch link has one stream", now, out);
  } else if (const Contact* known = owners_->links.find_contact(link.from); known != nullptr && known->dials) {
    return on_knock(flow, link.from, link.use, now, out);
  }
  if (link.stripes == 0 || link.stripes > kMaxStripes || link.stripe.value >= link.stripes) {
    return refuse(flow,
                  "stripe " + std::to_string(link.stripe.value) + " of " + std::to_string(link.stripes) + ": at most " +
                      std::to_string(kMaxStripes) + " are taken",
                  now, out);
  }
  for (auto& [stream, other] : flows_) {  // a newer one for the same stripe: its dialler has given up on the older
    if (other.kind == Kind::kParked && other.peer == link.from && other.stripe == link.stripe &&
        other.key == link.key && other.proved == flow.proved)
      drop(other, false, now, out);
  }
  flow.peer = link.from;
  flow.stripe = link.stripe;
  flow.stripes = link.stripes;
  flow.key = link.key;
  flow.use = link.use;
  flow.kind = Kind::kParked;
  flow.since = now;
  if (is_proven(flow)) {
    lobby_.leave(flow.channel.stream());
    make_room_for_parked(now, out);
  }
  set_timer(now + options_.dial_timeout);
  if (flow.is_prefetch) {
    const auto [at, fresh] = links_.try_emplace(link.from);
    at->second.relation = Relation::kPrefetcher;
    at->second.needed = false;
    if (fresh) at->second.stripes.assign(1, new_stripe(now));
  }
  attach_parked(flow, now, out);
  if (key_) tell_caller(flow);
}

// Rules 44 and 70: a member that this peer dials has dialled.
void Mesh::on_knock(Flow& flow, PeerId from, wire::LinkUse use, Instant now, Effects& out) {
  if (use != wire::LinkUse::kTransfer) {
    return refuse(flow, "you are dialled: the side dials that nobody can dial, or that has the smaller id", now, out);
  }
  if (key_) owners_->links.on_transfer_caller(from);
  drop(flow, true, now, out);
}

// Only the use may be another, and the number of stripes.
bool Mesh::is_greeting_again(const Flow& flow, const wire::Link& link) const {
  const auto at = links_.find(flow.peer);
  const bool we_dialled = flow.kind != Kind::kParked && (at == links_.end() || at->second.dials);
  return !flow.is_prefetch && !we_dialled && link.from == flow.peer && link.to == options_.id &&
         link.stripe == flow.stripe && link.key == flow.key;
}

// Rules 44 and 60: the side that does not dial says another use of a link that is up, or asks for more streams.
bool Mesh::is_greeting_back(const Flow& flow, const wire::Link& link) const {
  const auto at = links_.find(flow.peer);
  return flow.kind == Kind::kUp && !flow.is_prefetch && at != links_.end() && at->second.dials &&
         link.from == flow.peer && link.to == options_.id && link.key == *key_;
}

// Rule 3: of the streams with the key that no link waits for, the oldest go when there are too many.
void Mesh::make_room_for_parked(Instant now, Effects& out) {
  std::uint32_t waiting = 0;
  Flow* oldest = nullptr;
  for (auto& [stream, flow] : flows_) {
    if (flow.kind != Kind::kParked || links_.contains(flow.peer) || !is_proven(flow)) continue;
    waiting += 1;
    if (oldest == nullptr || flow.since < oldest->since) oldest = &flow;
  }
  if (waiting > options_.strangers) drop(*oldest, false, now, out);
}

std::optional<std::string> Mesh::validate_prefetch_link(PeerId from) const {
  const auto link = links_.find(from);
  if (link != links_.end() && link->second.relation != Relation::kPrefetcher) return "a neighbour does not prefetch";
  if (auto refusal = owners_->prefetches.validate_prefetcher(from)) return refusal;
  const auto prefetchers = std::count_if(
      links_.begin(), links_.end(), [](const auto& entry) { return entry.second.relation == Relation::kPrefetcher; });
  if (link == links_.end() && prefetchers >= kMaxPrefetchers) return "this member serves as many prefetchers as it may";
  return std::nullopt;
}

// Welcomes a parked stream once its link is wanted and its stripe is free.
void Mesh::attach_parked(Flow& flow, Instant now, Effects& out) {
  const auto at = links_.find(flow.peer);
  if (at == links_.end()) return;
  Link& link = at->second;
  if (flow.is_prefetch != (link.relation == Relation::kPrefetcher) || link.relation == Relation::kSource) return;
  if (!proves(flow, link.contact.key)) return refuse_impostor(flow, now, out);
  if (link.dials) return on_knock(flow, flow.peer, flow.use, now, out);
  link.greeted = flow.stripes;
  if (link.width() < flow.stripes) link.stripes.resize(flow.stripes, new_stripe(now));
  Stripe& stripe = link.stripes[flow.stripe.value];
  if (stripe.stream == flow.channel.stream()) return;
  if (stripe.stream.value != 0) {  // on_closed comes back to the parked one
    Flow& old = flows_.at(stripe.stream);
    if (old.kind != Kind::kDying) drop(old, false, now, out);
    return;
  }
  stripe.stream = flow.channel.stream();
  link.note_round_trip(flow.round_trip);
  flow.channel.writer.message(wire::LinkWelcome{}, term_);
  if (link.use != wire::LinkUse::kRing && link.use != flow.use && !flow.is_prefetch) greet(flow, link);
  bring_up(flow, now);
}

void Mesh::bring_up(Flow& flow, Instant now) {
  touch(flow);
  lobby_.leave(flow.channel.stream());
  flow.kind = Kind::kUp;
  flow.since = now;
  const bool asks = flow.is_prefetch && links_.at(flow.peer).relation == Relation::kPrefetcher;
  flow.channel.reader.set_max_body_bytes(asks ? kMaxWaitingBodyBytes : kMaxBodyBytes);
  if (!asks) flow.channel.reader.expect_segments();
  flow.channel.forgive_silence(now);
  Link& link = links_.at(flow.peer);
  link.failure.clear();
  Stripe& stripe = link.stripes[flow.stripe.value];
  stripe.up = stripe.worked = true;
  stripe.backoff = kFirstBackoff;
  if (next_timer_ == kNever || next_heartbeat_ <= now) next_heartbeat_ = now + options_.link_heartbeat;
  set_timer(next_heartbeat_);
  if (flow.is_prefetch) return;
  owners_->neighbours.on_stripe_up(flow.peer, flow.stripe, flow.channel.stream());
  owners_->transfers.on_stripe_up(flow.peer, flow.stripe, flow.channel.stream());
}

// Rule 35: a stripe whose stream broke is dialled again at once.
void Mesh::on_closed(const io::Closed& in, Instant now, Effects& out) {
  const auto at = flows_.find(in.stream);
  LOCKSTEP_ASSERT(at != flows_.end());
  const PeerId peer = at->second.peer;
  const StripeIndex index = at->second.stripe;
  const bool was_up = at->second.kind == Kind::kUp;
  const bool is_prefetch = at->second.is_prefetch;
  const bool was_dialling = at->second.kind == Kind::kDialling;
  const std::size_t address = at->second.address;
  flows_.erase(at);
  lobby_.leave(in.stream);
  if (is_prefetch) {
    owners_->prefetches.on_stream_gone(peer, in.stream);
  } else {
    owners_->neighbours.on_stream_gone(peer, in.stream);
    owners_->transfers.on_stream_gone(peer, in.stream);
  }
  const auto link = links_.find(peer);
  if (link != links_.end() && in.stream.value % 2 == 0) link->second.try_next_address(address);
  if (link != links_.end() && link->second.knock.stream == in.stream) {
    if (was_dialling) link->second.failure = in.text;
    link->second.knock.stream = {};
    return put_off_knock(link->second, now);
  }
  if (link == links_.end() || index.value >= link->second.width()) return;
  Stripe& stripe = link->second.stripes[index.value];
  if (stripe.stream != in.stream) return;
  if ((stripe.up || was_up) && link->second.relation != Relation::kPrefetcher) {
    stripe.down_since = now;
    out.emplace_back(
        trace::Event{.kind = trace::Kind::kLinkLost, .view = {}, .peer = peer, .round = {}, .text = in.text});
  }
  stripe.stream = {};
  stripe.up = false;
  link->second.asked = 0;  // what was asked on it may be lost
  set_timer(now + options_.link_timeout);
  if (link->second.dials) {
    if (was_dialling) link->second.failure = in.text;
    const bool late = mutant(Mutant::kRedialsLate) || link->second.is_spare(index.value, options_.stripes);
    stripe.retry_at = now + (late ? options_.link_silence : stripe.backoff);
    stripe.backoff = std::min(stripe.backoff * 2, kLastBackoff);
    set_timer(stripe.retry_at);
    return;
  }
  for (auto& [stream, flow] : flows_) {
    if (flow.kind == Kind::kParked && flow.peer == peer) attach_parked(flow, now, out);
  }
  if (link->second.relation == Relation::kPrefetcher && link->second.stripes.front().stream.value == 0)
    links_.erase(link);
}

void Mesh::drop(Flow& flow, bool in_order, Instant now, Effects& out) {
  if (flow.kind == Kind::kUp) {
    Stripe& stripe = links_.at(flow.peer).stripes[flow.stripe.value];
    stripe.up = false;
    stripe.down_since = now;
  }
  flow.kind = Kind::kDying;
  flow.since = now;
  lobby_.leave(flow.channel.stream());
  if (in_order) {
    flow.channel.finish(out);
    set_timer(now + options_.dial_timeout);
  } else {
    flow.channel.close(out);
  }
}

void Mesh::refuse(Flow& flow, const std::string& why, Instant now, Effects& out) {
  out.emplace_back(trace::Event{.kind = trace::Kind::kPeerRefused,
                                .view = {},
                                .peer = flow.peer,
                                .round = {},
                                .status = Status::kRefused,
                                .text = why});
  flow.channel.writer.message(wire::Refused{Status::kRefused, why}, term_);
  drop(flow, true, now, out);
}

// A stranger's stream, whomever it names.
void Mesh::refuse_key(Flow& flow, Instant now, Effects& out) {
  flow.peer = {};
  refuse(flow, "the key is not that of this run: only its members may link", now, out);
}

// ---- the keys of members (rule 65 of docs/protocol.md) ----

// Members do not know the keys of prefetchers, which show a secret of their own (rule 39).
bool Mesh::proves(const Flow& flow, const io::KeyDigest& key) {
  return flow.is_prefetch || flow.proved == key || mutant(Mutant::kAcceptedKeyUnchecked);
}

// The caller may be in a view that has not arrived here: attach_parked() compares the keys then.
bool Mesh::is_impostor(const Flow& flow, PeerId named) const {
  const Contact* const contact = owners_->links.find_contact(named);
  return contact != nullptr && !proves(flow, contact->key);
}

// No fault of the link: anybody may have sent this greeting.
void Mesh::refuse_impostor(Flow& flow, Instant now, Effects& out) {
  flow.peer = {};
  refuse(flow, kOtherKey, now, out);
}

bool Mesh::reset(StreamId stream, const std::string& why, Instant now, Effects& out) {
  const auto at = flows_.find(stream);
  if (at == flows_.end() || at->second.kind == Kind::kDying) return false;
  break_protocol(at->second, why, now, out);
  return true;
}

void Mesh::reset_link(PeerId peer, const std::string& why, Instant now, Effects& out) {
  for (auto& [stream, flow] : flows_) {
    if (flow.kind == Kind::kUp && flow.peer == peer) break_protocol(flow, why, now, out);
  }
}

void Mesh::reopen(StreamId stream, PeerId peer, const std::string& why, Instant now, Effects& out) {
  const auto at = flows_.find(stream);
  if (at != flows_.end() && at->second.kind != Kind::kDying) return close_as_wrong(at->second, why, now, out);
  for (auto& [id, flow] : flows_) {
    if (flow.kind == Kind::kUp && flow.peer == peer) close_as_wrong(flow, why, now, out);
  }
}

// Rules 3 and 23: a stream that breaks the protocol is closed, and may be opened again, because bits flip on the way. A
// link on which that happens again and again is reported to the coordinator. A stranger has no link.
void Mesh::break_protocol(Flow& flow, const std::string& why, Instant now, Effects& out) {
  const PeerId peer = flow.peer;
  close_as_wrong(flow, why, now, out);
  note_fault(peer, 1, "breaks the protocol again and again: " + why, now);
}

void Mesh::close_as_wrong(Flow& flow, const std::string& why, Instant now, Effects& out) {
  out.emplace_back(trace::Event{.kind = trace::Kind::kProtocolError,
                                .view = {},
                                .peer = flow.peer,
                                .round = {},
                                .status = Status::kProtocolError,
                                .text = why});
  drop(flow, false, now, out);
}

void Mesh::note_fault(PeerId peer, std::uint32_t weight, const std::string& why, Instant now) {
  const auto at = links_.find(peer);
  if (at == links_.end()) return;
  Link& link = at->second;
  if (link.relation != Relation::kNeighbour) return;
  if (now - link.last_fault > options_.link_timeout) link.faults = 0;
  link.last_fault = now;
  link.faults += weight;
  if (link.faults < kMaxFaults) return;
  link.faults = 0;
  link.reported = now;
  owners_->links.on_link_broken(peer, why, false);
}

// Rules 24 and 51: a stripe that is silent, or brings nearly nothing, is opened again, and a link without a stripe is
// reported as broken.
void Mesh::on_timer(Instant now, Effects& out) {
  if (now < next_timer_) return;
  // When this very process stood still, everybody seems silent: give them the time that we lost.
  const bool slept = now - next_timer_ > options_.link_heartbeat;
  const bool beat = now >= next_heartbeat_;
  if (beat) next_heartbeat_ = now + options_.link_heartbeat;
  next_timer_ = kNever;
  for (auto& [stream, flow] : flows_) {
    if (slept) {
      flow.channel.forgive_silence(now);
      flow.since = now;
    }
    if (flow.channel.closing()) continue;
    if (flow.kind == Kind::kUp) {
      watch(flow, beat, now, out);
    } else if (flow.kind == Kind::kGreeting &&
               flow.channel.is_nearly_dead(now, options_.link_heartbeat, progress_.drip_limit(flow.peer))) {
      drop_dripping(flow, now, out);
    } else if (now >= flow.since + options_.dial_timeout) {
      if (flow.kind == Kind::kDying) {
        flow.channel.close(out);
      } else {
        drop(flow, false, now, out);
      }
    } else {
      set_timer(flow.since + options_.dial_timeout);
      if (flow.kind == Kind::kGreeting) {
        const Duration drips = progress_.drip_limit(flow.peer);
        set_timer(now + drips / 2);
        set_timer(flow.channel.progress().look_at(now, options_.link_heartbeat, drips));
      }
    }
  }
  widen_links(now, out);
  std::vector<PeerId> broken;
  std::vector<PeerId> suspects;
  for (auto& [peer, link] : links_) {
    const bool needed = link.needed || owners_->links.needs_link(peer);
    if (slept || !needed) link.reported = now;
    if (!needed) link.avoided = now;  // its limits count from when a round needs it
    knock(peer, link, now, out);
    for (std::uint16_t i = 0; i < link.width(); ++i) {
      Stripe& stripe = link.stripes[i];
      if (stripe.up) continue;
      if (slept) stripe.down_since = now;
      if (link.dials && stripe.stream.value == 0) {
        if (now >= stripe.retry_at) {
          dial(peer, link, StripeIndex{i}, now, out);
        } else {
          set_timer(stripe.retry_at);
        }
      }
      if (link.is_spare(i, options_.stripes)) continue;
      const Instant limit = std::max(stripe.down_since, link.reported) + options_.link_timeout;
      if (now >= limit) {
        link.reported = link.avoided = now;
        broken.push_back(peer);
      }
      if (!needed) set_timer(now + options_.link_heartbeat);
      set_timer(std::max(stripe.down_since, link.reported) + options_.link_timeout);
      // Rule 51. Not from `reported` on: dials that are nearly dead would put it off again and again.
      const Instant patience = std::max(stripe.down_since, link.avoided) + progress_.down_limit(link, stripe);
      if (now >= patience && !progress_.another_works(link, stripe.stream, now)) suspects.push_back(peer);
      set_timer(now >= patience ? now + progress_.down_limit(link, stripe) : patience);
    }
  }
  for (const PeerId peer : broken) {
    const Link& link = links_.at(peer);
    owners_->links.on_link_broken(peer,
                                  "no stream to " + link.address().text() + " for " +
                                      std::to_string(options_.link_timeout.ns / 1'000'000) + " ms" +
                                      (link.failure.empty() ? "" : ": " + link.failure),
                                  false);
  }
  for (const PeerId peer : suspects) {
    const Link& link = links_.at(peer);
    avoid(peer, "no stream to " + link.address().text() + (link.failure.empty() ? "" : ": " + link.failure), now);
  }
}

// ---- progress (rule 51 of docs/protocol.md) ----

// A dripping stripe is opened again, and a link of which every stripe drips is reported as broken. A link that is slow,
// or that has had no stripe for a short while, is reported as one to avoid, which costs no member the run.

// A stripe that is up.
void Mesh::watch(Flow& flow, bool beat, Instant now, Effects& out) {
  // Nothing is read while a segment waits for its place, on our own kernels as a rule: that the other side is silent is
  // not known.
  if (flow.channel.reader.awaits_place()) flow.channel.forgive_silence(now);
  const Link& link = links_.at(flow.peer);
  // Then this stripe may wait behind the bytes of the others, on a line that they share.
  const bool other_works = progress_.another_works(link, flow.channel.stream(), now);
  const Duration drips = other_works ? options_.link_silence : progress_.drip_limit(link.round_trip);
  if (flow.channel.is_nearly_dead(now, options_.link_heartbeat, drips)) return drop_dripping(flow, now, out);
  const Duration silence = other_works ? options_.link_silence : progress_.silence_limit(flow, link.round_trip);
  const wire::Progress& progress = flow.channel.progress();
  const Instant limit = progress.since() + silence + progress.grace(options_.link_heartbeat);
  if (now >= limit) {
    if (!mutant(Mutant::kSilentStripeStays)) drop(flow, false, now, out);
    return;
  }
  if (beat) {
    sample(flow, now, out);
    if (flow.kind != Kind::kUp) return;
    touch(flow);
    flow.channel.writer.message(wire::Heartbeat{}, term_);
  }
  set_timer(std::min(limit, next_heartbeat_));
  set_timer(progress.look_at(now, options_.link_heartbeat, drips));
}

// Segments on their way go again on the next stream of the stripe (rule 35). If no other stripe makes progress, the
// next stream is not waited for.
void Mesh::drop_dripping(Flow& flow, Instant now, Effects& out) {
  const std::string why = "nearly dead: " + flow.channel.progress().words(now);
  out.emplace_back(
      trace::Event{.kind = trace::Kind::kLinkLost, .view = {}, .peer = flow.peer, .round = {}, .text = why});
  const bool other_works = progress_.another_works(links_.at(flow.peer), flow.channel.stream(), now);
  const PeerId peer = flow.peer;
  drop(flow, false, now, out);
  const Link& link = links_.at(peer);
  const bool needed = link.relation == Relation::kNeighbour && (link.needed || owners_->links.needs_link(peer));
  if (needed) note_fault(peer, other_works ? kDripWeight : kMaxFaults, why, now);
}

// Once in a beat.
void Mesh::sample(Flow& flow, Instant now, Effects& out) {
  Link& link = links_.at(flow.peer);
  const auto slow = progress_.sample(flow, link);
  if (!slow) return;
  if (slow->others_are_well) return drop(flow, false, now, out);
  avoid(flow.peer, "slow: " + std::to_string(slow->rate) + " bytes a second, and it had " + std::to_string(link.best),
        now);
}

void Mesh::avoid(PeerId peer, const std::string& why, Instant now) {
  Link& link = links_.at(peer);
  link.avoided = now;
  if (link.relation != Relation::kNeighbour || !(link.needed || owners_->links.needs_link(peer))) return;
  owners_->links.on_link_broken(peer, why, true);
}

// ---- what is said and sent ----

bool Mesh::say(PeerId to, const wire::Message& message) {
  const auto link = links_.find(to);
  if (link == links_.end()) return false;
  for (const Stripe& stripe : link->second.stripes) {
    if (!stripe.up) continue;
    Flow& flow = flows_.at(stripe.stream);
    touch(flow);
    flow.channel.writer.message(message, term_);
    return true;
  }
  return false;
}

std::optional<StreamId> Mesh::first_stream(PeerId to) const {
  const auto link = links_.find(to);
  if (link == links_.end()) return std::nullopt;
  for (const Stripe& stripe : link->second.stripes) {
    if (stripe.up && flows_.contains(stripe.stream)) return stripe.stream;  // no flow: on_closed() tells of its end
  }
  return std::nullopt;
}

void Mesh::say_on(StreamId stream, const wire::Message& message) {
  const auto at = flows_.find(stream);
  if (at == flows_.end() || at->second.kind != Kind::kUp) return;
  touch(at->second);
  at->second.channel.writer.message(message, term_);
}

void Mesh::put(Flow& flow, BufferRef into, Effects& out) {
  const std::span<const std::byte> early = flow.channel.reader.place(into);
  if (!early.empty()) out.emplace_back(io::CopyBytes{into.slice(0, early.size()), early});
}

void Mesh::place(StreamId stream, BufferRef into, Instant now, Effects& out) {
  const auto at = flows_.find(stream);
  if (at == flows_.end() || !at->second.channel.reader.awaits_place()) return;
  at->second.channel.waited(now);
  put(at->second, into, out);
  take_events(at->second, now, out);
}

void Mesh::ask_again(const RoundKey& key, AttemptId attempt, Instant now, Effects& out) {
  for (auto& [stream, flow] : flows_) {
    const auto& arriving = flow.channel.reader.arriving();
    if (!flow.channel.reader.awaits_place() || arriving->key != key || arriving->attempt != attempt) continue;
    flow.channel.waited(now);
    take_segment(flow, {term_, *arriving}, now, out);
    if (!flow.channel.reader.awaits_place()) take_events(flow, now, out);
  }
}

bool Mesh::release_write(Flow& flow, const RoundKey& key, AttemptId attempt, Effects& out) {
  wire::Channel& channel = flow.channel;
  if (!channel.writer.lends(key, attempt)) {
    channel.writer.forget(key, attempt);
    return true;
  }
  channel.revoke(io::Direction::kWrite, out);
  return mutant(Mutant::kWriteLoanNotAwaited);
}

bool Mesh::release_read(Flow& flow, const RoundKey& key, AttemptId attempt, std::vector<StreamId>& sunk, Effects& out) {
  wire::Channel& channel = flow.channel;
  const auto& arriving = channel.reader.arriving();
  if (!arriving || arriving->key != key || arriving->attempt != attempt) return true;
  if (channel.reader.awaits_place()) {
    channel.reader.sink();
    sunk.push_back(channel.stream());
  } else if (channel.reader.holds_place()) {
    if (channel.revoke(io::Direction::kRead, out)) return mutant(Mutant::kReadLoanNotAwaited);
    channel.reader.sink();
  }
  return true;
}

// Rule 16: true once no stream reads or writes the memory of this attempt.
bool Mesh::release(const RoundKey& key, AttemptId attempt, Instant now, Effects& out) {
  bool free = true;
  std::vector<StreamId> sunk;
  for (auto& [stream, flow] : flows_) {
    touch(flow);
    free = release_write(flow, key, attempt, out) && free;
    free = release_read(flow, key, attempt, sunk, out) && free;
  }
  for (const StreamId stream : sunk) take_events(flows_.at(stream), now, out);
  return free;
}

bool Mesh::release_sent(PeerId to, const RoundKey& key, Effects& out) {
  bool free = true;
  for (auto& [stream, flow] : flows_) {
    if (flow.peer != to) continue;
    touch(flow);
    free = release_write(flow, key, {}, out) && free;
  }
  return free;
}

bool Mesh::release_received(PeerId from, const RoundKey& key, Instant now, Effects& out) {
  bool free = true;
  std::vector<StreamId> sunk;
  for (auto& [stream, flow] : flows_) {
    if (flow.peer != from) continue;
    touch(flow);
    free = release_read(flow, key, {}, sunk, out) && free;
  }
  for (const StreamId stream : sunk) take_events(flows_.at(stream), now, out);
  return free;
}

void Mesh::pump(Instant now, Effects& out) {
  send_segments(now);
  std::sort(touched_.begin(), touched_.end());
  for (const StreamId stream : touched_) {
    const auto at = flows_.find(stream);
    if (at == flows_.end()) continue;
    Flow& flow = at->second;
    flow.touched = false;
    if (flow.kind == Kind::kDialling || flow.channel.closing()) continue;
    if (flow.channel.writer.control_bytes_queued() > kMaxQueuedControlBytes) {
      flow.channel.close(out);
      continue;
    }
    flow.channel.pump(out);
  }
  touched_.clear();
}

void Mesh::send_segments(Instant now) {
  const SegmentSender::Streams streams{links_, flows_, touched_};
  bool all = true;
  if (owners_->neighbours.has_segments() || owners_->transfers.has_segments())
    all = sender_.fill_stripes(streams, line_.wanted_stripes(links_), *owners_, now);
  all = sender_.serve_prefetchers(streams, *owners_, now) && all;
  if (!all) set_timer(sender_.next_at());
}

std::set<PeerId> Mesh::linked(Relation relation) const {
  std::set<PeerId> peers;
  for (const auto& [peer, link] : links_) {
    if (link.relation != relation) continue;
    if (std::any_of(link.stripes.begin(), link.stripes.end(), [](const Stripe& s) { return s.up; })) peers.insert(peer);
  }
  return peers;
}

std::size_t Mesh::queued_bytes() const {
  std::size_t bytes = 0;
  for (const auto& [stream, flow] : flows_) bytes += flow.channel.writer.control_bytes_queued();
  return bytes;
}

}  // namespace lockstep::peer
