// Streams of the coordinator, who is behind them, and whether they live.
#include <algorithm>
#include <utility>

#include "core/base/mutant.h"
#include "core/base/overloaded.h"
#include "core/coordinator/machine.h"
#include "core/wire/limits.h"

namespace lockstep::coordinator {

Coordinator::Machine::Machine(const Options& options, Instant now)
    : options_(options), born_(now), now_(now), lobby_(options.strangers) {
  LOCKSTEP_ASSERT(flaw_of(options).empty());
}

void Coordinator::Machine::step(Input& input, Instant now, Effects& out) {
  LOCKSTEP_ASSERT(now >= now_);  // drivers never run time backwards
  now_ = now;
  out_ = &out;
  bool news = true;  // that a decision may depend on
  std::visit(overloaded{
                 [&](Timer&) { look(now); },
                 [&](io::Accepted& in) { on_accepted(in); },
                 [&](io::ReadDone& in) {
                   Party& party = parties_.at(in.stream);
                   party.channel.read_done(in.bytes, now);
                   mark(party);
                   take_events(party);
                 },
                 [&](io::WriteDone& in) {
                   Party& party = parties_.at(in.stream);
                   party.channel.write_done(in.bytes);
                   mark(party);
                   news = false;
                 },
                 [&](io::Revoked& in) {
                   Party& party = parties_.at(in.stream);
                   party.channel.revoked(in.direction, in.bytes, now);
                   mark(party);
                 },
                 [&](io::Closed& in) { on_closed(in); },
             },
             input);
  if (news) decide();
  announce_published();
  pump_all();
  out_ = nullptr;
}

void Coordinator::Machine::on_accepted(const io::Accepted& in) {
  const auto [at, fresh] = parties_.try_emplace(in.stream, in.stream, now_, in.from);
  LOCKSTEP_ASSERT(fresh);
  if (const auto goes = lobby_.enter(in.stream, in.from)) show_out(parties_.at(*goes));
  mark(at->second);
  if (next_look_ == kNever) {
    next_heartbeat_ = now_ + options_.heartbeat;
    next_look_ = next_heartbeat_;
  }
  next_look_ = std::min(next_look_, now_ + options_.greeting);
}

void Coordinator::Machine::on_closed(const io::Closed& in) {
  const auto at = parties_.find(in.stream);
  LOCKSTEP_ASSERT(at != parties_.end());
  const PeerId peer = at->second.peer;
  parties_.erase(at);
  lobby_.leave(in.stream);
  const auto seat = seats_.find(peer);
  if (seat == seats_.end() || seat->second.stream != in.stream) return;
  lose(peer, Status::kPeerLost, "its stream to the coordinator ended" + (in.text.empty() ? "" : " (" + in.text + ")"),
       false);
}

void Coordinator::Machine::take_events(Party& party) {
  const StreamId stream = party.channel.stream();
  while (!party.channel.finishing()) {
    auto next = party.channel.reader.next();
    if (!next.ok()) {
      if (party.peer.is_nobody()) {
        note({.kind = trace::Kind::kPeerRefused,
              .view = {},
              .peer = {},
              .round = {},
              .status = Status::kProtocolError,
              .text = party.from.text() + ": " + next.error().text});
        if (party.greeted) {
          refuse(party, Status::kProtocolError, next.error().text);
        } else {
          break_off(party);
        }
      } else {
        lose(party.peer, Status::kProtocolError, next.error().text, true);
      }
      return;
    }
    if (!next->has_value()) return;
    std::visit(overloaded{
                   [&](wire::Preamble& in) { on_preamble(party, in); },
                   [&](wire::Received& in) { on_message(party, std::move(in)); },
                   [&](wire::SegmentBegan&) {
                     party.channel.reader.sink();
                     if (party.peer.is_nobody()) {
                       refuse(party, Status::kProtocolError, "a coordinator takes no tensor data");
                     } else {
                       lose(party.peer, Status::kProtocolError, "sent tensor data to the coordinator", true);
                     }
                   },
                   [&](wire::SegmentEnded&) {},
               },
               **next);
    if (!parties_.contains(stream)) return;
  }
}

void Coordinator::Machine::on_preamble(Party& party, const wire::Preamble& preamble) {
  party.greeted = true;
  party.channel.writer.preamble();
  if (preamble.version == wire::kVersion) return;
  refuse(party, Status::kProtocolError,
         "this coordinator speaks protocol version " + std::to_string(wire::kVersion) + ", you speak version " +
             std::to_string(preamble.version) + ": run the same release on both sides");
}

void Coordinator::Machine::refuse(Party& party, Status status, std::string text) {
  note({.kind = trace::Kind::kPeerRefused,
        .view = {},
        .peer = party.peer,
        .round = {},
        .status = status,
        .text = party.from.text() + ": " + text});
  say_on(party, wire::Refused{status, std::move(text)});
  break_off(party);
}

// Ends a stream in order; look() ends it by force when that takes too long.
void Coordinator::Machine::break_off(Party& party) {
  lobby_.leave(party.channel.stream());
  party.since = now_;
  party.channel.finish(*out_);
  next_look_ = std::min(next_look_, now_ + options_.greeting);
}

void Coordinator::Machine::show_out(Party& party) {
  lobby_.leave(party.channel.stream());
  party.channel.close(*out_);
}

void Coordinator::Machine::on_message(Party& party, wire::Received received) {
  if (party.peer.is_nobody()) return on_greeting(party, received.message);
  if (received.term > options_.term) {
    return lose(party.peer, Status::kProtocolError, "speaks of a term that does not exist yet", true);
  }
  const PeerId from = party.peer;
  const auto unexpected = [&] {
    lose(from, Status::kProtocolError, "said what only a coordinator or a neighbour says", true);
  };
  std::visit(overloaded{
                 [&](wire::Heartbeat&) {},
                 [&](wire::Done& in) { on_done(from, rounds_.on_done(from, in)); },
                 [&](wire::Claim& in) { on_done(from, rounds_.on_claim(from, in)); },
                 [&](wire::StateOutline& in) { on_done(from, rounds_.on_outline(from, std::move(in))); },
                 [&](wire::StateEntry& in) { on_done(from, rounds_.on_entry(from, std::move(in))); },
                 [&](wire::Admit& in) { on_admit(from, std::move(in)); },
                 [&](wire::AdmitCancel& in) { on_admit_cancel(from, in); },
                 [&](wire::Leave& in) { on_leave(from, std::move(in)); },
                 [&](wire::StopRound& in) {
                   if (in.status == Status::kCohortClosed && !closed_by_admit(in.key)) return;
                   const std::string fault = rounds_.on_stop(from, in);
                   if (!fault.empty()) lose(from, Status::kProtocolError, fault, true);
                   changed_ = true;
                 },
                 [&](wire::LinkBroken& in) { on_link_broken(from, in); },
                 [&](wire::Publish& in) { on_publish(from, in); },
                 [&](wire::WantState& in) { on_want(from, in); },
                 [&](wire::Flush& in) { on_flush(from, std::move(in)); },
                 [&](wire::Join&) { unexpected(); },
                 [&](wire::Link&) { unexpected(); },
                 [&](wire::StatusRequest&) { unexpected(); },
                 [&](wire::Refused&) { unexpected(); },
                 [&](wire::Waiting&) { unexpected(); },
                 [&](wire::LinkWelcome&) { unexpected(); },
                 [&](wire::Pending&) { unexpected(); },
                 [&](wire::Admitting&) { unexpected(); },
                 [&](wire::AdmitEnded&) { unexpected(); },
                 [&](wire::Propose&) { unexpected(); },
                 [&](wire::Install&) { unexpected(); },
                 [&](wire::Commit&) { unexpected(); },
                 [&](wire::Evicted&) { unexpected(); },
                 [&](wire::Left&) { unexpected(); },
                 [&](wire::StatusReply&) { unexpected(); },
                 [&](wire::Ready&) { unexpected(); },
                 [&](wire::Stake&) { unexpected(); },
                 [&](wire::Segment&) { unexpected(); },
                 [&](wire::Offer&) { unexpected(); },
                 [&](wire::Elected&) { unexpected(); },
                 [&](wire::AskDigests&) { unexpected(); },
                 [&](wire::PieceDigests&) { unexpected(); },
                 [&](wire::AskPieces&) { unexpected(); },
                 [&](wire::HavePieces&) { unexpected(); },
                 [&](wire::AskOutline&) { unexpected(); },
                 [&](wire::AskEntry&) { unexpected(); },
                 [&](wire::Published&) { unexpected(); },
             },
             received.message);
}

void Coordinator::Machine::on_greeting(Party& party, const wire::Message& message) {
  if (const auto* join = std::get_if<wire::Join>(&message)) return on_join(party, *join);
  if (std::holds_alternative<wire::StatusRequest>(message)) {
    say_on(party, snapshot(now_));
    return break_off(party);
  }
  if (std::holds_alternative<wire::Link>(message)) {
    return refuse(party, Status::kProtocolError, "this is a coordinator, not a peer");
  }
  refuse(party, Status::kProtocolError, "a stream to a coordinator starts with Join or StatusRequest");
}

void Coordinator::Machine::on_join(Party& party, const wire::Join& join) {
  Candidate candidate;
  candidate.member = {join.peer, join.group, join.gang, join.advertised, join.name, join.round_trip};
  if (join.advertised.family == io::Address::Family::kNone) {
    const std::uint16_t port = join.advertised.port;
    candidate.member.address = party.from;
    candidate.member.address.port = port;
  }
  if (candidate.member.address.port == 0) {
    return refuse(party, Status::kInvalidArgument, "a peer must say on which port it listens");
  }
  candidate.gang_size = join.gang_size;
  candidate.founders = join.founders;
  candidate.auto_admit = join.auto_admit;
  candidate.arrival = ++arrivals_;
  if (const auto allowed = membership_.may_wait(candidate); !allowed.ok()) {
    return refuse(party, allowed.error().status, allowed.error().text);
  }
  if (seats_.contains(join.peer)) return refuse(party, Status::kRefused, "this peer id has joined already");
  if (seats_.size() + lost_.size() >= kMaxMembers) {
    return refuse(party, Status::kRefused,
                  "the run is full: " + std::to_string(kMaxMembers) + " peers wait, are members, or leave");
  }
  const io::Address network = io::network_of(party.from);
  if (waiting_of(network) >= options_.waiting_of_one) {
    return refuse(party, Status::kRefused,
                  std::to_string(options_.waiting_of_one) + " peers of your address wait already: no more may");
  }
  lobby_.leave(party.channel.stream());
  party.peer = join.peer;
  party.channel.reader.set_max_body_bytes(kMaxWaitingBodyBytes);
  Seat& seat = seats_[join.peer];
  seat.stream = party.channel.stream();
  seat.name = join.name;
  seat.network = network;
  say_on(party, wire::Waiting{candidate.member.address, options_.heartbeat, options_.silence});
  note({.kind = trace::Kind::kPeerWaiting,
        .view = membership_.view().number,
        .peer = join.peer,
        .round = {},
        .text = join.name + " at " + candidate.member.address.text()});
  ask_newcomer(candidate);
  membership_.add_candidate(std::move(candidate));
}

std::size_t Coordinator::Machine::waiting_of(const io::Address& network) const {
  return static_cast<std::size_t>(std::ranges::count_if(membership_.candidates(), [&](const auto& entry) {
    const auto seat = seats_.find(entry.first);
    return seat != seats_.end() && seat->second.network == network;
  }));
}

void Coordinator::Machine::look(Instant now) {
  // When this very machine stood still, everybody seems silent: give them the time that we lost.
  const bool slept = now - next_look_ > options_.heartbeat && !mutant(Mutant::kPauseIsSilence);
  const bool beat = now >= next_heartbeat_;
  if (beat) next_heartbeat_ = now + options_.heartbeat;
  next_look_ = next_heartbeat_;
  std::vector<PeerId> silent;
  for (auto& [stream, party] : parties_) {
    if (slept) {
      party.channel.forgive_silence(now);
      party.since = std::max(party.since, now);
    }
    if (party.channel.closing()) continue;
    if (party.peer.is_nobody() || party.channel.finishing()) {
      const Instant limit = party.since + options_.greeting;
      if (now >= limit) {
        if (!party.channel.finishing()) {
          note({.kind = trace::Kind::kPeerRefused,
                .view = {},
                .peer = {},
                .round = {},
                .status = Status::kTimedOut,
                .text = party.from.text() + ": said nothing that makes sense in time"});
        }
        show_out(party);
      } else {
        next_look_ = std::min(next_look_, limit);
      }
      continue;
    }
    const bool suspect = mutant(Mutant::kSuspectStays) && suspects(party.peer, now - party.channel.heard());
    const Instant limit = party.channel.heard() + options_.silence / (suspect ? 2 : 1);
    if (now >= limit) {
      if (!mutant(Mutant::kSilentMemberStays)) silent.push_back(party.peer);
      continue;
    }
    next_look_ = std::min(next_look_, limit);
    if (beat) say_on(party, wire::Heartbeat{});
  }
  for (const PeerId peer : silent) {
    lose(peer, Status::kEvicted, "silent for " + std::to_string(options_.silence.ns / 1'000'000) + " ms", true);
  }
  hurry_gangs(now);
  hurry_answers(now, slept);
  hurry_newcomers(now, slept);
  hurry_comparison(now, slept);
  if (parties_.empty()) next_look_ = kNever;
}

// Only as a planted bug: who was silent for half of the time that it has is remembered, among its complaints.
bool Coordinator::Machine::suspects(PeerId peer, Duration silent) {
  std::string& complaint = seats_.at(peer).complaint;
  const bool suspect = complaint == "suspect";
  if (silent >= options_.silence / 2) complaint = "suspect";
  return suspect && silent >= options_.silence / 2;
}

// A gang leaves whole: those who stay behind too long are taken out.
void Coordinator::Machine::hurry_gangs(Instant now) {
  std::map<PeerId, std::string> late;
  for (const auto& [peer, seat] : seats_) {
    if (!seat.leave || seat.cut) continue;
    const Instant limit = seat.leave_since + options_.gang_leave;
    if (now < limit) {
      next_look_ = std::min(next_look_, limit);
      continue;
    }
    for (const PeerId mate : membership_.gang_of(peer)) {
      const auto other = seats_.find(mate);
      if (other != seats_.end() && !other->second.leave) late.emplace(mate, seat.name);
    }
  }
  for (const auto& [mate, leaver] : late) {
    lose_one(mate, Status::kEvicted, leaver + " of its gang has left, and it did not follow in time", true);
  }
}

// One that lives and never answers a proposal would hold up everybody.
void Coordinator::Machine::hurry_answers(Instant now, bool slept) {
  if (!proposal_ || proposal_->awaited.empty()) return;
  if (slept) proposal_->since = now;
  std::vector<PeerId> late;
  for (const PeerId peer : proposal_->awaited) {
    if (membership_.candidates().contains(peer)) continue;  // hurry_newcomers()
    const Instant limit = proposal_->since + answer_limit();
    if (now >= limit) {
      late.push_back(peer);
    } else {
      next_look_ = std::min(next_look_, limit);
    }
  }
  for (const PeerId peer : late) {
    const std::string limit = std::to_string(answer_limit().ns / 1'000'000);
    lose(peer, Status::kEvicted, "did not answer a proposal within " + limit + " ms", true);
  }
}

// All are done with that round. Who is asked where its state differs answers at once, unless it lies.
void Coordinator::Machine::hurry_comparison(Instant now, bool slept) {
  if (!rounds_.compares_watched()) return;
  if (slept) compared_since_ = now;
  const Instant limit = compared_since_ + options_.silence;
  if (now < limit) {
    next_look_ = std::min(next_look_, limit);
  } else {
    carry_out(rounds_.give_up_comparison());
  }
}

void Coordinator::Machine::say(PeerId to, const wire::Message& message) {
  const auto seat = seats_.find(to);
  if (seat == seats_.end()) return;
  const auto party = parties_.find(seat->second.stream);
  if (party != parties_.end()) say_on(party->second, message);
}

void Coordinator::Machine::say_on(Party& party, const wire::Message& message) {
  if (party.channel.finishing()) return;
  party.channel.writer.message(message, options_.term);
  mark(party);
}

void Coordinator::Machine::pump_all() {
  std::vector<PeerId> deaf;
  while (!dirty_.empty()) {
    std::sort(dirty_.begin(), dirty_.end());
    std::swap(pumped_, dirty_);
    for (const StreamId stream : pumped_) {
      const auto at = parties_.find(stream);
      if (at == parties_.end()) continue;
      Party& party = at->second;
      party.dirty = false;
      party.channel.pump(*out_);
      if (party.channel.writer.control_bytes_queued() > kMaxQueuedControlBytes && !party.channel.finishing()) {
        if (party.peer.is_nobody()) {
          show_out(party);
        } else {
          deaf.push_back(party.peer);
        }
      }
    }
    pumped_.clear();
    if (deaf.empty()) continue;
    for (const PeerId peer : std::exchange(deaf, {}))
      lose(peer, Status::kEvicted, "does not read what it is told", true);
    decide();
    announce_published();
  }
}

std::string Coordinator::Machine::name_of(PeerId peer) const {
  const auto at = seats_.find(peer);
  return trace::short_name(peer, at == seats_.end() ? std::string_view{} : std::string_view{at->second.name});
}

wire::StatusReply Coordinator::Machine::snapshot(Instant now) const {
  wire::StatusReply reply;
  reply.view = membership_.view();
  for (const auto& [id, candidate] : membership_.candidates()) reply.waiting.push_back(candidate.member);
  reply.rounds = rounds_.status();
  reply.proposal_open = proposal_.has_value();
  reply.uptime = now - born_;
  reply.commits = counters_.commits;
  reply.aborts = counters_.aborts;
  reply.admitted = counters_.admitted;
  reply.lost = counters_.lost;
  reply.left = counters_.left;
  reply.bytes_reduced = counters_.bytes_reduced;
  return reply;
}

bool Coordinator::Machine::is_quiet() const {
  if (proposal_ || rounds_.size() > 0 || !lost_.empty() || membership_.view().members.empty()) return false;
  const auto acts = [](const auto& entry) { return entry.second.admit || entry.second.leave; };
  const auto moves = [](const auto& entry) {
    return entry.second.channel.finishing() || entry.second.channel.writer.wants_write();
  };
  return std::none_of(seats_.begin(), seats_.end(), acts) && std::none_of(parties_.begin(), parties_.end(), moves);
}

Coordinator::Footprint Coordinator::Machine::footprint() const {
  Footprint footprint{parties_.size(),
                      membership_.view().members.size(),
                      membership_.candidates().size(),
                      rounds_.size(),
                      0,
                      drafts_,
                      publications_.size(),
                      lobby_.size()};
  for (const auto& [stream, party] : parties_) footprint.queued_bytes += party.channel.writer.control_bytes_queued();
  return footprint;
}

}  // namespace lockstep::coordinator
