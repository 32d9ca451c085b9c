#include "core/state/sync.h"

#include <algorithm>
#include <iterator>

#include "core/base/assert.h"
#include "core/base/mutant.h"
#include "core/state/piece_digests.h"
#include "core/wire/limits.h"

namespace lockstep::state {

namespace {

// Enough jobs to keep several threads busy. A state of any size is digested and copied in short steps.
constexpr std::size_t kJobsAtOnce = 8;

template <typename List>
bool contains(const List& list, const typename List::value_type& entry) {
  return std::find(list.begin(), list.end(), entry) != list.end();
}

}  // namespace

Sync::Sync(const Statement& statement, std::vector<BufferRef> memory, BufferRef staging, PeerId self, Duration patience,
           Duration reach)
    : self_(self),
      patience_(patience),
      reach_(reach),
      own_(statement, std::move(memory), staging),
      attempt_(patience, reach) {}

// ---- claiming ----

void Sync::start(const PieceJob& job, const JobWork& work, std::vector<KernelJob>& jobs) {
  jobs.push_back({jobs_.begin(job), work});
}

void Sync::digest_some(std::vector<KernelJob>& jobs) {
  while (own_.digesting() < kJobsAtOnce && !attempt_.stopped) {
    const std::optional<PieceIndex> piece = own_.begin_digest();
    if (!piece) return;
    start({PieceJob::Purpose::kOwn, *piece, {}}, DigestJob{own_.place(*piece)}, jobs);
  }
}

// ---- an elected state ----

// Rule 25: the winner is the state of its sources; a receiver takes it over, unless the peer only sends.
bool Sync::fits(const Elected& elected) const {
  if (contains(elected.receivers, self_)) return own_.statement().strategy != Strategy::kSendOnly;
  return own_.defined() && own_.root() == elected.root && own_.revision() == elected.revision;
}

void Sync::elected(const TransferName& name, const Elected& elected) {
  LOCKSTEP_ASSERT(fits(elected) && !attempt_.elected && !attempt_.fetch);
  attempt_.name = name;
  attempt_.elected = elected;
  attempt_.receives = contains(elected.receivers, self_);
  if (!attempt_.receives) own_.belong_to(elected.lineage);
}

// Rule 38: sources may be lost, and others may be added.
void Sync::sources_changed(const std::vector<PeerId>& sources) {
  LOCKSTEP_ASSERT(attempt_.elected.has_value());
  for (const PeerId old : std::exchange(attempt_.elected->sources, sources)) {
    if (contains(sources, old)) continue;
    attempt_.query.forget(old);
    if (attempt_.fetch) attempt_.fetch->remove_source(old);
  }
  if (!attempt_.fetch) return;
  for (const PeerId source : sources) {
    if (attempt_.trust.trusts(source)) attempt_.fetch->add_source(source, true);
  }
}

std::vector<PeerId> Sync::partners() const {
  std::vector<PeerId> partners;
  if (!attempt_.elected || attempt_.stopped) return partners;
  const Elected& elected = *attempt_.elected;
  if (attempt_.receives) partners = elected.sources;
  if (attempt_.receives || contains(elected.sources, self_)) {
    partners.insert(partners.end(), elected.receivers.begin(), elected.receivers.end());
  }
  std::erase(partners, self_);
  return partners;
}

// Rule 38: with no source left, the attempt ends.
bool Sync::is_stranded() const {
  if (!attempt_.receives || attempt_.stopped || complete()) return false;
  return std::none_of(sources().begin(), sources().end(), [&](PeerId source) { return attempt_.trust.trusts(source); });
}

void Sync::ask(const std::set<PeerId>& linked, Instant now, Messages& out) {
  if (!attempt_.elected || attempt_.stopped) return;
  const auto& [key, attempt] = attempt_.name;
  for (const auto& [peer, first] : attempt_.requests.take_digests()) {
    if (knows_digests()) out.emplace_back(peer, digests_for(first));
  }
  watch_sources(linked, now);
  if (attempt_.receives && !attempt_.fetch) ask_digests(linked, now, out);
  if (!attempt_.fetch) return;
  for (const bool stalled : {false, true}) {
    for (const PeerId peer : linked) {
      if (attempt_.fetch->has_stalled(peer) != stalled) continue;
      std::vector<std::uint32_t> pieces;
      for (const PieceIndex piece : attempt_.fetch->ask(peer, now)) pieces.push_back(piece.value);
      if (!pieces.empty()) out.emplace_back(peer, wire::AskPieces{key, attempt, std::move(pieces)});
    }
  }
  tell_fellows(linked, out);
}

void Sync::watch_sources(const std::set<PeerId>& linked, Instant now) {
  if (!attempt_.receives || complete()) return attempt_.reach.delivered();
  std::vector<PeerId> willing;
  std::ranges::copy_if(sources(), std::back_inserter(willing),
                       [&](PeerId source) { return linked.contains(source) && attempt_.trust.trusts(source); });
  attempt_.reach.watch(willing, now);
}

// Digests of the elected state, of one that is published, or of those that this receiver has fetched.
wire::PieceDigests Sync::digests_for(std::uint32_t first) const {
  const auto& [key, attempt] = attempt_.name;
  if (!attempt_.receives) return own_.answer(key, attempt, first);
  return digests_from(
      key, attempt, first, own_.pieces().count(),
      [&](std::uint32_t piece) { return elected_digest(PieceIndex{piece}); }, attempt_.query.digests().values);
}

std::size_t Sync::turn() const {
  const std::vector<PeerId>& receivers = attempt_.elected->receivers;
  return static_cast<std::size_t>(std::find(receivers.begin(), receivers.end(), self_) - receivers.begin());
}

// Rule 38: asks one source, beginning at this receiver's own turn. So receivers ask different sources. Without a link
// to any source it asks a fellow receiver: one that offers pieces knows the digests.
void Sync::ask_digests(const std::set<PeerId>& linked, Instant now, Messages& out) {
  const std::optional<PeerId> asked = attempt_.query.asked();
  if (asked && linked.contains(*asked)) return;
  std::vector<PeerId> willing;
  const std::size_t first = turn();
  for (std::size_t i = 0; i < sources().size(); ++i) {
    const PeerId source = sources()[(first + i) % sources().size()];
    if (linked.contains(source) && attempt_.trust.trusts(source)) willing.push_back(source);
  }
  if (willing.empty()) {
    std::ranges::copy_if(attempt_.elected->receivers, std::back_inserter(willing), [&](PeerId fellow) {
      return attempt_.fellows.has_kept(fellow) && linked.contains(fellow) && attempt_.trust.trusts(fellow);
    });
  }
  const std::optional<PeerId> chosen = attempt_.query.begin(willing, now);
  if (chosen) out.emplace_back(*chosen, wire::AskDigests{attempt_.name.key, attempt_.name.attempt, 0});
}

void Sync::tell_fellows(const std::set<PeerId>& linked, Messages& out) {
  const Elected& elected = *attempt_.elected;
  for (const PeerId fellow : elected.receivers) {
    if (fellow == self_ || !linked.contains(fellow)) continue;
    for (std::vector<std::uint32_t>& pieces : attempt_.fellows.tell(fellow, attempt_.here)) {
      out.emplace_back(fellow, wire::HavePieces{attempt_.name.key, attempt_.name.attempt, std::move(pieces)});
    }
    // Others may miss pieces that this receiver had from the beginning.
    if (complete() && attempt_.fellows.tell_whole(fellow)) {
      out.emplace_back(fellow, wire::HavePieces{attempt_.name.key, attempt_.name.attempt, {}, true});
    }
  }
}

bool Sync::on_ask(PeerId from, const wire::AskDigests& ask) {
  if (ask.first > own_.pieces().count() || !(knows_digests() || attempt_.stopped)) return false;
  if (!attempt_.stopped) attempt_.requests.ask_digests(from, ask.first);
  return true;
}

// Rule 26: the digests make up the elected root, or the source has sent wrong data.
bool Sync::on_digests(PeerId from, const wire::PieceDigests& in, Instant now, Messages& out) {
  if (attempt_.fetch || attempt_.stopped || attempt_.query.asked() != from) return true;  // too late
  if (in.first < attempt_.query.next_piece())
    return true;  // the question was repeated (relinked()), and answered twice
  const Elected& elected = *attempt_.elected;
  const std::size_t values = own_.statement().manifest.values.size();
  switch (attempt_.query.on_digests(in, own_.pieces(), values, elected.root, now)) {
    case DigestQuery::Answer::kWrong: return false;
    case DigestQuery::Answer::kMore:
      attempt_.reach.delivered();
      out.emplace_back(from, wire::AskDigests{attempt_.name.key, attempt_.name.attempt, attempt_.query.next_piece()});
      return true;
    case DigestQuery::Answer::kComplete:
      attempt_.reach.delivered();
      begin_fetch();
      return true;
  }
  LOCKSTEP_UNREACHABLE();
}

// Rule 38: fetches the pieces that differ, from sources and fellow receivers.
void Sync::begin_fetch() {
  LOCKSTEP_ASSERT(attempt_.receives && !attempt_.fetch && attempt_.arriving.empty());
  const std::uint32_t count = own_.pieces().count();
  LOCKSTEP_ASSERT(attempt_.query.digests().pieces.size() == count);
  std::vector<PieceIndex> missing;
  for (PieceIndex piece; piece.value < count; piece = piece.next()) {
    const bool kept = mutant(Mutant::kEarlierPiecesKept) && contains(attempt_.here, piece);
    if (!own_.has(piece, elected_digest(piece)) && !kept) missing.push_back(piece);
  }
  note_differed(missing);
  const std::size_t first = missing.size() * turn() / attempt_.elected->receivers.size();
  Fetch& fetch = attempt_.fetch.emplace(own_.pieces(), std::move(missing), first, patience_);
  for (const PeerId source : sources()) {
    if (attempt_.trust.trusts(source)) fetch.add_source(source, true);
  }
  for (const PeerId fellow : attempt_.elected->receivers) {
    if (fellow != self_) fetch.add_source(fellow, false);
  }
  for (const auto& [fellow, pieces] : attempt_.fellows.take()) {
    for (const PieceIndex piece : pieces) fetch.offered(fellow, piece);
  }
  for (const PeerId fellow : attempt_.fellows.take_whole()) fetch.has_all(fellow);
  if (fetch.complete() || (mutant(Mutant::kRootUnchecked) && !sources().empty())) adopt();
}

void Sync::note_differed(const std::vector<PieceIndex>& missing) {
  if (differed_) return;  // an earlier attempt has overwritten some pieces already
  Differed& differed = differed_.emplace();
  std::optional<std::uint32_t> last;
  for (const PieceIndex piece : missing) {
    const std::uint32_t tensor = own_.pieces().place(piece).tensor;
    if (!last) differed.first = tensor;
    if (last != tensor) ++differed.tensors;
    last = tensor;
  }
  differed.pieces = static_cast<std::uint32_t>(missing.size());
  differed.values = attempt_.query.digests().values != own_.statement().values;
}

// Rule 55.
std::string Sync::fetched() const {
  if (!differed_) return {};
  const Manifest& manifest = own_.statement().manifest;
  if (differed_->tensors == 0) return differed_->values ? "in its values" : "";
  std::string text = "in '" + manifest.tensors[differed_->first].name + "'";
  if (differed_->tensors > 1) text += " and " + std::to_string(differed_->tensors - 1) + " more";
  text += " (" + std::to_string(differed_->pieces) + " of " + std::to_string(own_.pieces().count()) + " pieces)";
  LOCKSTEP_ASSERT(text.size() <= kMaxFetchedBytes);
  return text;
}

// Rule 26: all pieces are here. In place, memory now holds the elected state; staged, it will hold it after the copy.
void Sync::adopt() {
  if (!own_.statement().staged) own_.take_over(*attempt_.elected, attempt_.query.digests().values);
}

bool Sync::on_ask(PeerId from, const wire::AskPieces& ask) {
  if (attempt_.stopped) return true;
  if (ask.pieces.size() > kMaxPiecesAsked) return false;
  return attempt_.requests.ask_pieces(from, ask.pieces, own_.pieces().count());
}

bool Sync::on_have(PeerId from, const wire::HavePieces& have) {
  if (attempt_.stopped) return true;
  for (const std::uint32_t number : have.pieces) {
    if (number >= own_.pieces().count()) return false;
    const PieceIndex piece{number};
    if (attempt_.fetch) {
      attempt_.fetch->offered(from, piece);
    } else {
      attempt_.fellows.keep(from, piece);
    }
  }
  if (!have.whole) return true;
  if (attempt_.fetch) {
    attempt_.fetch->has_all(from);
  } else {
    attempt_.fellows.keep_whole(from);
  }
  return true;
}

void Sync::link_lost(PeerId peer) {
  attempt_.requests.relinked(peer);
  if (attempt_.fetch && !mutant(Mutant::kLostAsksStay)) attempt_.fetch->lost_link(peer);
  ++attempt_.lost_streams[peer];
  if (attempt_.elected && contains(sources(), peer)) attempt_.reach.lost(peer);
  repeat_questions(peer);
}

void Sync::relinked(PeerId peer) {
  const auto lost = attempt_.lost_streams.find(peer);
  if (lost == attempt_.lost_streams.end()) return;  // another stream of a link that is being opened
  if (--lost->second == 0) attempt_.lost_streams.erase(lost);
  repeat_questions(peer);
}

void Sync::repeat_questions(PeerId peer) {
  attempt_.fellows.relinked(peer);
  attempt_.query.forget(peer);
  if (attempt_.fetch && !mutant(Mutant::kLostAsksStay)) attempt_.fetch->forget_asked(peer);
}

// Rule 38: a source of wrong data is not asked again; the others are.
void Sync::distrust(PeerId peer) {
  attempt_.trust.distrust(peer);
  attempt_.query.forget(peer);
  if (attempt_.fetch) attempt_.fetch->remove_source(peer);
}

// ---- arriving pieces ----

Sync::LandingPlace Sync::begin(PeerId from, const wire::Segment& segment, StreamId stream, Instant now) {
  const PieceIndex piece{segment.index.value};
  const Pieces& pieces = own_.pieces();
  if (piece.value >= pieces.count() || segment.length != pieces.place(piece).bytes) return {Landing::kNonsense, {}};
  if (!attempt_.fetch || attempt_.stopped || !attempt_.fetch->begin(from, piece, now)) return {Landing::kSink, {}};
  attempt_.arriving[piece] = {from, stream};
  own_.overwrite(piece);
  return {Landing::kPlace, own_.landing_place(piece)};
}

void Sync::landed(PeerId from, const wire::Segment& segment, bool taken_back, Instant now,
                  std::vector<KernelJob>& jobs) {
  const PieceIndex piece{segment.index.value};
  const auto at = attempt_.arriving.find(piece);
  if (at == attempt_.arriving.end() || at->second.from != from) return;
  LOCKSTEP_ASSERT(attempt_.fetch.has_value());
  attempt_.arriving.erase(at);
  if (taken_back) return attempt_.fetch->lost(from, piece);
  attempt_.fetch->landed(from, piece, now);
  attempt_.reach.delivered();  // also by fellow receivers, which have missing pieces
  bytes_received_ += segment.length;
  start({PieceJob::Purpose::kArrived, piece, from}, DigestJob{own_.landing_place(piece)}, jobs);
}

void Sync::stream_closed(StreamId stream) {
  for (auto at = attempt_.arriving.begin(); at != attempt_.arriving.end();) {
    if (at->second.stream != stream) {
      ++at;
      continue;
    }
    attempt_.fetch->lost(at->second.from, at->first);
    at = attempt_.arriving.erase(at);
  }
}

// ---- departing pieces ----

bool Sync::has(PieceIndex piece) const {
  return attempt_.elected && (!attempt_.receives || (attempt_.fetch && attempt_.fetch->is_here(piece)));
}

// Rule 27: the memory of a piece that is sent does not change before the sync ends.
std::optional<Sync::Outgoing> Sync::next(PeerId to) {
  if (attempt_.stopped || !attempt_.elected) return std::nullopt;
  while (const std::optional<PieceIndex> piece = attempt_.requests.next_piece(to)) {
    if (!has(*piece)) continue;  // a piece that we never offered
    const bool staged = attempt_.receives && own_.is_staged(*piece, elected_digest(*piece));
    const OwnState::Content content = staged ? own_.staged_content(*piece) : own_.content(*piece);
    bytes_sent_ += content.payload.length;
    return Outgoing{*piece, content.payload, content.checksum};
  }
  return std::nullopt;
}

// ---- jobs, time, end ----

std::optional<PeerId> Sync::job_done(JobToken token, const JobResult& result) {
  const PieceJob job = jobs_.end(token);
  switch (job.purpose) {
    case PieceJob::Purpose::kCopy: return std::nullopt;
    case PieceJob::Purpose::kOwn: own_.end_digest(job.piece, result.digest); return std::nullopt;
    case PieceJob::Purpose::kArrived: break;
  }
  LOCKSTEP_ASSERT(attempt_.fetch.has_value());
  // Rule 26: every piece is checked against the elected digests.
  const Digest& expected = elected_digest(job.piece);
  if (result.digest != expected && !(mutant(Mutant::kFirstPieceChecked) && !attempt_.here.empty())) {
    if (!attempt_.stopped) attempt_.fetch->spoilt(job.piece);
    if (attempt_.trust.is_one_too_many(job.from)) distrust(job.from);
    return job.from;
  }
  own_.arrived(job.piece, expected);
  if (attempt_.stopped) return std::nullopt;
  attempt_.fetch->verified(job.piece);
  attempt_.here.push_back(job.piece);
  if (attempt_.fetch->complete()) adopt();
  return std::nullopt;
}

Instant Sync::deadline() const {
  if (attempt_.stopped) return kNever;
  const Instant next = std::min(attempt_.reach.deadline(), attempt_.query.deadline());
  return attempt_.fetch ? std::min(next, attempt_.fetch->deadline()) : next;
}

void Sync::on_timer(Instant now) {
  if (attempt_.stopped) return;
  if (attempt_.fetch) attempt_.fetch->on_timer(now);
  attempt_.reach.on_timer(now);
  attempt_.query.on_timer(now);
}

void Sync::begin_again() {
  LOCKSTEP_ASSERT(jobs_.running() == 0);
  Attempt next(patience_, reach_);
  if (mutant(Mutant::kEarlierPiecesKept)) next.here = std::move(attempt_.here);
  attempt_ = std::move(next);
}

void Sync::swap_some(std::vector<KernelJob>& jobs) {
  if (!attempt_.receives) return;
  LOCKSTEP_ASSERT(own_.statement().staged && complete());
  while (jobs_.running() < kJobsAtOnce) {
    const std::optional<PieceIndex> piece = own_.begin_copy(attempt_.query.digests());
    if (!piece) break;
    start({PieceJob::Purpose::kCopy, *piece, {}},
          CopyJob{.into = own_.place(*piece), .from = own_.landing_place(*piece)}, jobs);
  }
  if (jobs_.running() == 0) own_.take_over(*attempt_.elected, attempt_.query.digests().values);
}

}  // namespace lockstep::state
