#include "core/state/sync.h"

#include <algorithm>
#include <span>

#include "core/base/assert.h"
#include "core/base/mutant.h"
#include "core/kernels/checksum.h"
#include "core/wire/limits.h"

namespace lockstep::state {

namespace {

// Enough jobs to keep several threads busy. A state of any size is digested and copied in short steps.
constexpr std::size_t kJobsAtOnce = 8;
// The most wrong pieces of one source: more than bit flips on the way explain, and few enough that a source with wrong
// data costs little.
constexpr std::uint32_t kMostWrong = 3;

template <typename List>
bool contains(const List& list, const typename List::value_type& entry) {
  return std::find(list.begin(), list.end(), entry) != list.end();
}

}  // namespace

Sync::Sync(const Statement& statement, std::vector<BufferRef> memory, BufferRef staging, PeerId self, Duration patience,
           Duration reach)
    : statement_(statement),
      memory_(std::move(memory)),
      staging_(staging),
      self_(self),
      patience_(patience),
      reach_(reach),
      pieces_(statement.manifest),
      own_(pieces_.count()),
      revision_(statement.revision),
      values_(statement.values) {
  defined_ = !statement.blank;
  for (std::uint32_t piece = 0; piece < pieces_.count() && defined_; ++piece) undigested_.push_back(piece);
  root_if_digested();
}

// ---- memory ----

BufferRef Sync::own_place(std::uint32_t piece) const {
  const Pieces::Place place = pieces_.place(PieceIndex{piece});
  return memory_[place.tensor].slice(place.offset, place.bytes);
}

BufferRef Sync::staging_place(std::uint32_t piece) const {
  const Pieces::Place place = pieces_.place(PieceIndex{piece});
  return staging_.slice(pieces_.bytes_before(place.tensor) + place.offset, place.bytes);
}

bool Sync::is_staged(std::uint32_t piece) const {
  const auto at = staged_.find(piece);
  return at != staged_.end() && at->second == tree_.pieces[piece];
}

bool Sync::has(std::uint32_t piece) const {
  return elected_ && (!receives_ || (fetch_ && fetch_->is_here(PieceIndex{piece})));
}

// ---- claiming ----

void Sync::know(const std::vector<std::optional<Digest>>& digests) {
  LOCKSTEP_ASSERT(digests.size() == own_.size() && digesting_ == 0);
  std::erase_if(undigested_, [&](std::uint32_t piece) {
    const std::uint32_t tensor = pieces_.place(PieceIndex{piece}).tensor;
    if (!statement_.unchanged.contains(tensor) && !mutant(Mutant::kStaleHash)) return false;
    own_[piece] = digests[piece];
    return own_[piece].has_value();
  });
  root_if_digested();
}

void Sync::disown() {
  defined_ = false;
  torn_ = true;
  root_ = {};
}

void Sync::root_if_digested() {
  if (digested() && defined_) root_ = root_of(pieces_, own_digests());
}

void Sync::start(const Job& job, JobKind kind, BufferRef into, BufferRef from, std::vector<KernelJob>& jobs) {
  KernelJob& started = jobs.emplace_back();
  started.token = JobToken{++jobs_};
  started.kind = kind;
  started.into = into;
  started.from = from;
  running_.emplace(started.token.value, job);
}

void Sync::digest_some(std::vector<KernelJob>& jobs) {
  while (!undigested_.empty() && digesting_ < kJobsAtOnce && !stopped_) {
    const std::uint32_t piece = undigested_.front();
    undigested_.pop_front();
    ++digesting_;
    start({Purpose::kOwn, piece, {}}, JobKind::kDigest, {}, own_place(piece), jobs);
  }
}

Claim Sync::claim() const { return {self_, statement_.strategy, defined_, revision_, root_}; }

std::uint64_t Sync::parity() const {
  LOCKSTEP_ASSERT(digested() && defined_);
  const Digest described = digest_of(statement_.manifest);
  const std::uint64_t parts[] = {root_.high, root_.low, revision_, described.high, described.low};
  const std::uint64_t parity = digest(std::as_bytes(std::span(parts))).low;
  return parity == 0 ? 1 : parity;
}

Digests Sync::own_digests() const {
  Digests digests{{}, values_};
  for (const auto& digest : own_) digests.pieces.push_back(*digest);
  return digests;
}

std::optional<wire::StateOutline> Sync::outline(const wire::AskOutline& ask) const {
  const Manifest& manifest = statement_.manifest;
  wire::StateOutline outline{ask.key, ask.attempt, manifest.piece_bytes, {}, {}, 0};
  if (ask.of == wire::Outlined::kManifest) {
    for (const TensorSpec& tensor : manifest.tensors) outline.tensors.push_back(hash_of(tensor));
    for (const ValueSpec& value : manifest.values) outline.values.push_back(hash_of(value));
    return outline;
  }
  if (!defined_) return std::nullopt;
  const Digests own = own_digests();
  for (std::size_t tensor = 0; tensor < pieces_.tensors(); ++tensor) {
    outline.tensors.push_back(pieces_.is_compared(tensor) ? tensor_digest(pieces_, own, tensor).low : 0);
  }
  outline.values = own.values;
  outline.revision = revision_;
  return outline;
}

std::optional<wire::StateEntry> Sync::entry(const wire::AskEntry& ask) const {
  const auto said = [&](const auto& list) -> std::optional<wire::StateEntry> {
    if (ask.index >= list.size()) return std::nullopt;
    return wire::StateEntry{ask.key, ask.attempt, describe(list[ask.index])};
  };
  return ask.is_value ? said(statement_.manifest.values) : said(statement_.manifest.tensors);
}

// ---- an elected state ----

bool Sync::fits(const wire::Elected& elected) const {
  if (contains(elected.receivers, self_)) return statement_.strategy != Strategy::kSendOnly;
  return defined_ && root_ == elected.root && revision_ == elected.revision;
}

void Sync::elected(const wire::Elected& elected) {
  LOCKSTEP_ASSERT(fits(elected));
  elected_ = elected;
  receives_ = contains(elected.receivers, self_);
}

void Sync::sources_changed(const std::vector<PeerId>& sources) {
  for (const PeerId old : std::exchange(elected_->sources, sources)) {
    if (contains(sources, old)) continue;
    if (asked_digests_ && asked_digests_->to == old) asked_digests_.reset();
    if (fetch_) fetch_->remove_source(old);
  }
  if (!fetch_) return;
  for (const PeerId source : sources) {
    if (!liars_.contains(source)) fetch_->add_source(source, true);
  }
}

std::vector<PeerId> Sync::partners() const {
  std::vector<PeerId> partners;
  if (!elected_ || stopped_) return partners;
  if (receives_) partners = elected_->sources;
  if (receives_ || contains(elected_->sources, self_)) {
    partners.insert(partners.end(), elected_->receivers.begin(), elected_->receivers.end());
  }
  std::erase(partners, self_);
  return partners;
}

bool Sync::is_stranded() const {
  if (!receives_ || stopped_ || complete()) return false;
  const auto lied = [&](const PeerId& source) { return liars_.contains(source); };
  return std::all_of(elected_->sources.begin(), elected_->sources.end(), lied);
}

void Sync::ask(const std::set<PeerId>& linked, Instant now, Messages& out) {
  if (!elected_ || stopped_) return;
  for (const auto& [peer, first] : std::exchange(digests_asked_of_us_, {})) {
    if (!receives_) answer(peer, first, out);
  }
  look_for_sources(linked, now);
  if (receives_ && !fetch_) ask_digests(linked, now, out);
  if (!fetch_) return;
  for (const PeerId peer : linked) {
    std::vector<std::uint32_t> pieces;
    for (const PieceIndex piece : fetch_->ask(peer, now)) pieces.push_back(piece.value);
    if (!pieces.empty()) out.emplace_back(peer, wire::AskPieces{elected_->key, elected_->attempt, std::move(pieces)});
  }
  tell_fellows(linked, out);
}

void Sync::look_for_sources(const std::set<PeerId>& linked, Instant now) {
  const auto& sources = elected_->sources;
  const auto can_be_asked = [&](const PeerId& source) { return linked.contains(source) && !liars_.contains(source); };
  if (!receives_ || complete() || std::any_of(sources.begin(), sources.end(), can_be_asked)) {
    alone_since_.reset();
  } else if (!alone_since_ && !cut_off_) {
    alone_since_ = now;
  }
}

// Asks one source: the next one in turn, starting at this receiver's own index. So receivers ask different sources.
void Sync::ask_digests(const std::set<PeerId>& linked, Instant now, Messages& out) {
  if (asked_digests_ && linked.contains(asked_digests_->to)) return;
  const auto& sources = elected_->sources;
  const auto turn = static_cast<std::size_t>(std::find(elected_->receivers.begin(), elected_->receivers.end(), self_) -
                                             elected_->receivers.begin());
  const auto willing = [&](const PeerId& source) { return linked.contains(source) && !liars_.contains(source); };
  std::optional<PeerId> chosen;
  for (const bool again : {false, true}) {
    if (again && !chosen) silent_.clear();  // every source was asked once: begin again
    for (std::size_t i = 0; i < sources.size() && !chosen; ++i) {
      const PeerId source = sources[(turn + i) % sources.size()];
      if (willing(source) && !silent_.contains(source)) chosen = source;
    }
  }
  if (!chosen) return;
  tree_ = {};
  asked_digests_ = Question{*chosen, now};
  out.emplace_back(*chosen, wire::AskDigests{elected_->key, elected_->attempt, 0});
}

void Sync::tell_fellows(const std::set<PeerId>& linked, Messages& out) {
  for (const PeerId fellow : elected_->receivers) {
    if (fellow == self_ || !linked.contains(fellow)) continue;
    std::size_t& told = told_[fellow];
    while (told < here_.size()) {
      const std::size_t end = std::min<std::size_t>(here_.size(), told + kMaxPiecesAsked);
      const auto at = [&](std::size_t i) { return here_.begin() + static_cast<std::ptrdiff_t>(i); };
      out.emplace_back(fellow, wire::HavePieces{elected_->key, elected_->attempt, {at(told), at(end)}});
      told = end;
    }
  }
}

void Sync::answer(PeerId to, std::uint32_t first, Messages& out) const {
  wire::PieceDigests digests{elected_->key, elected_->attempt, first, {}, {}};
  const std::uint32_t end = std::min(pieces_.count(), first + kMaxDigestsPerMessage);
  for (std::uint32_t piece = first; piece < end; ++piece) digests.digests.push_back(*own_[piece]);
  if (first == 0) digests.values = values_;
  out.emplace_back(to, std::move(digests));
}

bool Sync::on_ask(PeerId from, const wire::AskDigests& ask) {
  if (ask.first > pieces_.count() || receives_) return false;
  if (!stopped_) digests_asked_of_us_[from] = ask.first;
  return true;
}

bool Sync::on_digests(PeerId from, const wire::PieceDigests& in, Instant now, Messages& out) {
  if (fetch_ || stopped_ || !asked_digests_ || asked_digests_->to != from) return true;  // too late
  const std::size_t left = pieces_.count() - tree_.pieces.size();
  const std::size_t wanted = std::min<std::size_t>(left, kMaxDigestsPerMessage);
  if (in.first != tree_.pieces.size() || in.digests.size() != wanted) return false;
  if (in.values.size() != (in.first == 0 ? statement_.manifest.values.size() : 0)) return false;
  tree_.pieces.insert(tree_.pieces.end(), in.digests.begin(), in.digests.end());
  if (in.first == 0) tree_.values = in.values;
  if (tree_.pieces.size() < pieces_.count()) {
    const auto next = static_cast<std::uint32_t>(tree_.pieces.size());
    out.emplace_back(from, wire::AskDigests{elected_->key, elected_->attempt, next});
    asked_digests_->since = now;
    return true;
  }
  if (root_of(pieces_, tree_) != elected_->root) return false;
  begin_fetch();
  return true;
}

void Sync::begin_fetch() {
  asked_digests_.reset();
  std::vector<PieceIndex> missing;
  for (std::uint32_t piece = 0; piece < pieces_.count(); ++piece) {
    const bool kept = mutant(Mutant::kEarlierPiecesKept) && contains(here_, piece);
    if (own_[piece] != tree_.pieces[piece] && !is_staged(piece) && !kept) missing.push_back(PieceIndex{piece});
  }
  const auto& receivers = elected_->receivers;
  const auto turn = static_cast<std::size_t>(std::find(receivers.begin(), receivers.end(), self_) - receivers.begin());
  const std::size_t first = missing.size() * turn / receivers.size();
  fetch_.emplace(pieces_, std::move(missing), first, patience_);
  for (const PeerId source : elected_->sources) {
    if (!liars_.contains(source)) fetch_->add_source(source, true);
  }
  for (const PeerId fellow : receivers) {
    if (fellow != self_) fetch_->add_source(fellow, false);
  }
  for (const auto& [fellow, pieces] : std::exchange(offered_, {})) {
    for (const std::uint32_t piece : pieces) fetch_->offered(fellow, PieceIndex{piece});
  }
  if (fetch_->complete() || (mutant(Mutant::kRootUnchecked) && !elected_->sources.empty())) adopt();
}

// All pieces are here. In place, the memory now holds the elected state; staged, it will hold it after the copy.
void Sync::adopt() {
  if (statement_.staged) return;
  take_over();
}

void Sync::take_over() {
  defined_ = true;
  torn_ = false;
  revision_ = elected_->revision;
  root_ = elected_->root;
  values_ = tree_.values;
}

bool Sync::on_ask(PeerId from, const wire::AskPieces& ask) {
  if (stopped_) return true;
  if (ask.pieces.size() > kMaxPiecesAsked) return false;
  std::deque<std::uint32_t>& asked = asked_of_us_[from];
  for (const std::uint32_t piece : ask.pieces) {
    if (piece >= pieces_.count()) return false;
    const bool queued = std::find(asked.begin(), asked.end(), piece) != asked.end();  // a repeated request: we are slow
    if (queued) continue;
    // the requester has given it up: it never has more requests under way
    if (asked.size() == kMaxPiecesAsked) asked.pop_front();
    asked.push_back(piece);
  }
  return true;
}

bool Sync::on_have(PeerId from, const wire::HavePieces& have) {
  if (stopped_) return true;
  for (const std::uint32_t piece : have.pieces) {
    if (piece >= pieces_.count()) return false;
    if (fetch_) {
      fetch_->offered(from, PieceIndex{piece});
    } else {
      offered_[from].insert(piece);
    }
  }
  return true;
}

void Sync::relinked(PeerId peer) {
  told_.erase(peer);
  asked_of_us_.erase(peer);  // the peer repeats its requests
  if (asked_digests_ && asked_digests_->to == peer) asked_digests_.reset();
  if (fetch_ && !mutant(Mutant::kLostAsksStay)) fetch_->forget_asked(peer);
}

void Sync::distrust(PeerId peer) {
  liars_.insert(peer);
  if (asked_digests_ && asked_digests_->to == peer) asked_digests_.reset();
  if (fetch_) fetch_->remove_source(peer);
}

// ---- pieces that come ----

Sync::Place Sync::begin(PeerId from, const wire::Segment& segment, StreamId stream, Instant now) {
  const std::uint32_t piece = segment.index.value;
  if (piece >= pieces_.count() || segment.length != pieces_.place(PieceIndex{piece}).bytes) {
    return {Landing::kNonsense, {}};
  }
  if (!fetch_ || stopped_ || !fetch_->begin(from, PieceIndex{piece}, now)) return {Landing::kSink, {}};
  arriving_[piece] = {from, stream};
  if (statement_.staged) {
    staged_.erase(piece);
    return {Landing::kPlace, staging_place(piece)};
  }
  if (mutant(Mutant::kChimera)) return {Landing::kPlace, own_place(piece)};
  own_[piece].reset();
  defined_ = false;
  torn_ = true;
  return {Landing::kPlace, own_place(piece)};
}

void Sync::landed(PeerId from, const wire::Segment& segment, bool taken_back, Instant now,
                  std::vector<KernelJob>& jobs) {
  const std::uint32_t piece = segment.index.value;
  const auto at = arriving_.find(piece);
  if (at == arriving_.end() || at->second.from != from) return;
  arriving_.erase(at);
  if (taken_back) return fetch_->lost(from, PieceIndex{piece});
  fetch_->landed(from, PieceIndex{piece}, now);
  alone_since_.reset();  // fellow receivers have missing pieces
  bytes_received_ += segment.length;
  start({Purpose::kArrived, piece, from}, JobKind::kDigest, {},
        statement_.staged ? staging_place(piece) : own_place(piece), jobs);
}

void Sync::stream_closed(StreamId stream) {
  for (auto at = arriving_.begin(); at != arriving_.end();) {
    if (at->second.stream != stream) {
      ++at;
      continue;
    }
    fetch_->lost(at->second.from, PieceIndex{at->first});
    at = arriving_.erase(at);
  }
}

// ---- pieces that go ----

std::optional<Sync::Outgoing> Sync::next(PeerId to) {
  const auto asked = asked_of_us_.find(to);
  if (asked == asked_of_us_.end() || stopped_ || !elected_) return std::nullopt;
  while (!asked->second.empty()) {
    const std::uint32_t piece = asked->second.front();
    asked->second.pop_front();
    if (!has(piece)) continue;  // a piece that we never offered
    const bool staged = receives_ && is_staged(piece);
    const BufferRef payload = staged ? staging_place(piece) : own_place(piece);
    bytes_sent_ += payload.length;
    return Outgoing{PieceIndex{piece}, payload, staged ? staged_.at(piece).low : own_[piece]->low};
  }
  asked_of_us_.erase(asked);
  return std::nullopt;
}

// ---- jobs, time, the end ----

std::optional<PeerId> Sync::job_done(JobToken token, const JobResult& result) {
  const auto at = running_.find(token.value);
  LOCKSTEP_ASSERT(at != running_.end());
  const Job job = at->second;
  running_.erase(at);
  switch (job.purpose) {
    case Purpose::kSwap: return std::nullopt;
    case Purpose::kOwn:
      own_[job.piece] = result.digest;
      --digesting_;
      root_if_digested();
      return std::nullopt;
    case Purpose::kArrived: break;
  }
  if (result.digest == tree_.pieces[job.piece] || (mutant(Mutant::kFirstPieceChecked) && !here_.empty())) {
    piece_arrived(job, tree_.pieces[job.piece]);
    return std::nullopt;
  }
  if (!stopped_) fetch_->spoilt(PieceIndex{job.piece});
  if (++wrong_[job.from] == kMostWrong) distrust(job.from);
  return job.from;
}

void Sync::piece_arrived(const Job& job, const Digest& digest) {
  if (statement_.staged) {
    staged_[job.piece] = digest;
  } else {
    own_[job.piece] = digest;
  }
  if (stopped_) return;
  fetch_->verified(PieceIndex{job.piece});
  here_.push_back(job.piece);
  if (fetch_->complete()) adopt();
}

Instant Sync::deadline() const {
  if (stopped_) return kNever;
  Instant next = alone_since_ ? *alone_since_ + reach_ : kNever;
  if (fetch_) next = std::min(next, fetch_->deadline());
  if (asked_digests_) next = std::min(next, asked_digests_->since + patience_);
  return next;
}

void Sync::on_timer(Instant now) {
  if (stopped_) return;
  if (fetch_) fetch_->on_timer(now);
  if (alone_since_ && now >= *alone_since_ + reach_) {
    alone_since_.reset();
    cut_off_ = true;
  }
  if (asked_digests_ && now >= asked_digests_->since + patience_) {
    silent_.insert(asked_digests_->to);
    asked_digests_.reset();
  }
}

void Sync::stop() { stopped_ = true; }

void Sync::begin_again() {
  LOCKSTEP_ASSERT(running_.empty());
  stopped_ = false;
  elected_.reset();
  receives_ = false;
  fetch_.reset();
  arriving_.clear();
  asked_digests_.reset();
  alone_since_.reset();
  cut_off_ = false;
  silent_.clear();
  liars_.clear();
  wrong_.clear();
  if (!mutant(Mutant::kEarlierPiecesKept)) here_.clear();
  told_.clear();
  asked_of_us_.clear();
  digests_asked_of_us_.clear();
  offered_.clear();
}

void Sync::swap_some(std::vector<KernelJob>& jobs) {
  if (!receives_) return;
  LOCKSTEP_ASSERT(statement_.staged && complete());
  for (; swapped_ < pieces_.count() && running_.size() < kJobsAtOnce; ++swapped_) {
    if (own_[swapped_] == tree_.pieces[swapped_]) continue;
    start({Purpose::kSwap, swapped_, {}}, JobKind::kCopy, own_place(swapped_), staging_place(swapped_), jobs);
    own_[swapped_] = tree_.pieces[swapped_];
  }
  if (!running_.empty()) return;
  take_over();
}

}  // namespace lockstep::state
