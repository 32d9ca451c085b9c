// All that a peer holds, named for recordings: saved and loaded by the same lists. A member that is missing here makes
// a peer go on otherwise than the one that was saved: tests/core/archive/check_fields.sh sees that none is forgotten,
// and the simulator that those that are left out on purpose are not missed.
#include <utility>
#include <variant>

#include "core/archive/archive.h"
#include "core/archive/census.h"
#include "core/peer/fields.h"
#include "core/peer/machine.h"
#include "core/ring/direct_operation.h"
#include "core/ring/exchange_operation.h"
#include "core/ring/ring_operation.h"
#include "core/wire/state.h"

namespace lockstep::peer {

// Left out: what it is made of, options_, names_ and owner_.
template <typename Archive>
void Session::archive(Archive& a) {
  a.all(state_, coordinator_, addresses_, port_, next_address_, failures_, answers_, began_, rounds_, term_, times_,
        since_, next_heartbeat_, next_timer_, held_until_);
  bool open = channel_.has_value();
  a.all(open);
  if constexpr (Archive::kLoads) {
    if (!open) return channel_.reset();
    channel_.emplace(StreamId{}, Instant{});
  }
  if (open) a.all(*channel_);
}

// Left out: what it is made of, options_, names_ and owners_; and progress_, which holds nothing.
template <typename Archive>
void Mesh::archive(Archive& a) {
  a.all(term_, key_, links_, lobby_, touched_, sender_, line_, next_heartbeat_, next_timer_, closed_);
  if constexpr (Archive::kLoads) {
    flows_.clear();
    a.entries(flows_, [this](StreamId stream) -> Flow& {
      return flows_.try_emplace(stream, stream, Instant{}, Kind::kDying).first->second;
    });
  } else {
    a.all(flows_);
  }
}

// Whether an operation can be made of what was loaded.
bool Rounds::can_run(const Round& round) const {
  const Attempt& attempt = *round.attempt;
  if (RoundLaunches::validate(round.request)) return false;
  if (attempt.direct && attempt.world() < 2) return false;
  if (attempt.rank_parameters.size() != (round.has_rank_parameters() ? attempt.world() : 0)) return false;
  const auto sound = [&](const auto& parameter) {
    return parameter.has_value() && !round.validate_rank_parameter(Rank{}, *parameter);
  };
  return std::all_of(attempt.rank_parameters.begin(), attempt.rank_parameters.end(), sound) && round.root() &&
         round.receiver_that_is_no_member().is_nobody() && !round.validate_operation(context_.options);
}

// The number of the stage in the variant, and what the stage holds.
template <typename Archive>
void archive_stage(Archive& a, Round::Stage& stage) {
  auto number = static_cast<std::uint8_t>(stage.index());
  a.all(number);
  if constexpr (Archive::kLoads) {
    if (number >= std::variant_size_v<Round::Stage>) return a.fail();
    [&]<std::size_t... Numbers>(std::index_sequence<Numbers...>) {
      ((number == Numbers ? void(stage.emplace<Numbers>()) : void()), ...);
    }
    (std::make_index_sequence<std::variant_size_v<Round::Stage>>());
  }
  if (auto* const ending = std::get_if<stage::Ending>(&stage)) a.all(*ending);
}

// Left out: sync, watch and the operation of the attempt, which are made anew of the request before they are loaded.
// Left out: round.unclosed, without which the round looks at all admits once more.
template <typename Archive>
void Rounds::archive_of(Archive& a, Round& round) {
  a.all(round.order, round.call, round.request, round.what, round.launched, round.deadline, round.limit, round.key,
        round.generation, round.attempt, round.hash, round.watch_jobs, round.stop, round.completed_early, round.passing,
        round.totals);
  archive_stage(a, round.stage);
  bool begun = round.operation() != nullptr;
  bool shares = round.sync != nullptr;
  bool watches = round.watch != nullptr;
  a.all(begun, shares, watches);
  if constexpr (Archive::kLoads) {
    round.sync.reset();
    round.watch.reset();
    if (a.failed()) return;
    if (!round.key && round.open()) return a.fail();
    const bool needs_attempt = begun || shares || round.attempted();
    if (needs_attempt && !round.attempt) return a.fail();
    const bool has_rank = round.attempt && round.attempt->ring && round.attempt->rank.value < round.attempt->world();
    if (round.attempt && !has_rank) return a.fail();
    const bool may_share = round.request.collective == Collective::kSync && !RoundLaunches::validate(round.request);
    const bool may_watch = round.request.watch != nullptr && !RoundLaunches::validate(round.request);
    if ((begun && !can_run(round)) || (shares && !may_share) || (watches && !may_watch)) return a.fail();
    if (begun) round.attempt->operation = round.new_operation(context_.options);
    if (shares) round.sync = states_.new_sync(round.request);
    if (watches) round.watch = states_.new_watch(round.request);
  }
  if (auto* const direct = dynamic_cast<ring::DirectOperation*>(round.operation())) {
    a.all(*direct);
  } else if (auto* const exchange = dynamic_cast<ring::ExchangeOperation*>(round.operation())) {
    a.all(*exchange);
  } else if (begun) {
    a.all(static_cast<ring::RingOperation&>(*round.operation()));
  }
  if (shares) a.all(*round.sync);
  if (watches) a.all(*round.watch);
}

template <typename Archive>
void StateTransfers::archive_of(Archive& a, Transfer& transfer) {
  a.all(transfer.order, transfer.call, transfer.request, transfer.serves, transfer.stage, transfer.deadline,
        transfer.announced, transfer.jobs, transfer.attempt, transfer.questions, transfer.offer, transfer.sources,
        transfer.holds, transfer.in_place, transfer.since, transfer.rests_until, transfer.status, transfer.text);
  bool begun = transfer.sync != nullptr;
  a.all(begun);
  if constexpr (Archive::kLoads) {
    using Stage = Transfer::Stage;
    transfer.sync.reset();
    if (a.failed()) return;
    const bool needs_sync = transfer.stage != Stage::kQueued && transfer.stage != Stage::kEnding;
    if (validate(transfer.request, transfer.serves) || (needs_sync && !begun)) return a.fail();
    if (transfer.stage == Stage::kServing && !transfer.attempt) return a.fail();
    if (begun) transfer.sync = states_.new_sync(transfer.request);
  }
  if (begun) a.all(*transfer.sync);
}

// Left out: context_, states_ and views_, which are saved before it.
template <typename Archive>
void StateTransfers::archive(Archive& a) {
  a.all(begun_, may_fetch_);
  std::uint64_t count = transfers_.size();
  a.all(count);
  if constexpr (Archive::kLoads) {
    transfers_.clear();
    for (; count > 0 && !a.failed(); --count) {
      std::uint64_t order = 0;
      a.all(order);
      archive_of(a, transfers_[order]);
    }
  } else {
    for (auto& [order, transfer] : transfers_) {
      a.all(order);
      archive_of(a, transfer);
    }
  }
}

// Left out: effects, which is set in steps only, and options, that it is made of.
template <typename Archive>
void Context::archive(Archive& a) {
  a.all(now, view, names, session, mesh, jobs);
  if constexpr (Archive::kLoads) {
    if (!view) a.fail();
  }
}

// Left out: context_, views_, admission_ and states_, which are saved before; and syncs_, greetings_, ends_, stops_,
// admissions_, commits_, attempts_ and traffic_, which hold nothing.
template <typename Archive>
void Rounds::archive(Archive& a) {
  LOCKSTEP_ASSERT(!links_.relinks() && !operations_.asks());  // between two steps
  a.all(rounds_, announcements_, links_, queue_, launches_, waits_, operations_);
  if constexpr (Archive::kLoads) {
    const auto sound = [](const LaunchQueue::Entry& entry) {
      return entry.stop || !RoundLaunches::validate(entry.request);
    };
    if (!queue_.all_of(sound)) a.fail();
  }
  rounds_.archive_rounds(a, [&](Round& round) { archive_of(a, round); });
}

// Left out: context_ and views_, which are saved before; and relinks_, which is set in steps only.
template <typename Archive>
void PointToPoint::archive(Archive& a) {
  LOCKSTEP_ASSERT(!relinks_);  // between two steps
  a.all(pairs_, sends_, receives_, arrivals_, calls_, waiting_, untaken_, deadlines_, ending_, closing_, gone_, slots_,
        begun_, sendable_, repeating_, leaving_, long_waits_);
}

template <typename Archive>
void Peer::Machine::archive(Archive& a) {
  LOCKSTEP_ASSERT(context_.effects == nullptr && context_.jobs.idle());  // between two steps
  a.all(context_, views_, admission_, states_, rounds_, transfers_, point_to_point_);
}

Holdings Peer::Machine::holdings() {
  archive::Census census;
  archive(census);
  census.kept(context_.session.memory() + context_.mesh.memory() + context_.jobs.memory());
  Holdings held{census.entries(), census.bytes()};
  held.members = context_.view->members.size();
  held.links = context_.mesh.links();
  held.stripes = context_.mesh.stripes();
  held.streams = context_.mesh.streams();
  held.direct = rounds_.links().is_direct();
  if (const Cohort* cohort = views_.newest()) {
    held.ring = cohort->now().ring->size();
    held.tags = cohort->uses.size() + states_.tags();
    held.awaited = static_cast<std::size_t>(std::count_if(
        cohort->early_verdicts.begin(), cohort->early_verdicts.end(),
        [&](const auto& entry) { return !is_earlier_use(entry.first.use, cohort->uses.next(entry.first.tag)); }));
  }
  held.awaited += rounds_.passing();
  archive::Census transfers;
  point_to_point_.archive(transfers);
  // Members that this peer has transfers with, what they have not heard, and sends of theirs that no receive has taken;
  // each of these has a prefix for jobs.
  held.awaited += transfers.entries() + point_to_point_.remembered();
  for (const auto& [id, cohort] : views_.cohorts()) {
    for (const auto& [peer, admit] : cohort.pending_admits) held.awaited += 1 + admit.open.size();
    if (cohort.retained_for_leavers.empty()) continue;  // then it has no generation but the current one
    held.awaited += cohort.retained_for_leavers.size();
    for (const auto& [generation, among] : cohort.generations) {
      if (generation != cohort.current) held.awaited += 1 + among.ring->size() + among.bound.size();
    }
  }
  held.spare = rounds_.announcements().free_slots() + context_.mesh.lobby_entries();
  held.entries += rounds_.announcements().taken_slots();
  held.digests = states_.digests();
  return held;
}

void Peer::Machine::lend_again(Effects& out) const {
  context_.session.lend_again(out);
  context_.mesh.lend_again(out);
}

void Peer::save(std::vector<std::byte>& out) const {
  archive::Saver saver(out);
  machine_->archive(saver);
}

Holdings Peer::holdings() const { return machine_->holdings(); }

bool Peer::load(std::span<const std::byte> state, Effects& lent) {
  archive::Loader loader(state);
  machine_->archive(loader);
  if (loader.failed() || !loader.rest().empty()) return false;
  machine_->lend_again(lent);
  return true;
}

}  // namespace lockstep::peer
