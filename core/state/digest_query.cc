#include "core/state/digest_query.h"

#include <algorithm>

#include "core/base/assert.h"
#include "core/wire/limits.h"

namespace lockstep::state {

std::optional<PeerId> DigestQuery::asked() const { return question_ ? std::optional(question_->to) : std::nullopt; }

std::optional<PeerId> DigestQuery::begin(const std::vector<PeerId>& sources, Instant now) {
  const auto answers = [&](const PeerId& source) { return !silent_.contains(source); };
  auto chosen = std::find_if(sources.begin(), sources.end(), answers);
  if (chosen == sources.end()) {
    silent_.clear();  // every source was asked once: begin again
    chosen = sources.begin();
  }
  if (chosen == sources.end()) return std::nullopt;
  digests_ = {};
  question_ = Question{*chosen, now};
  return *chosen;
}

void DigestQuery::forget(PeerId source) {
  if (question_ && question_->to == source) question_.reset();
}

DigestQuery::Answer DigestQuery::on_digests(const wire::PieceDigests& in, const Pieces& pieces, std::size_t values,
                                            const Digest& root, Instant now) {
  LOCKSTEP_ASSERT(question_ && next_piece() <= pieces.count());
  const std::size_t wanted = std::min<std::size_t>(pieces.count() - next_piece(), kMaxDigestsPerMessage);
  if (in.first != next_piece() || in.digests.size() != wanted) return Answer::kWrong;
  if (in.values.size() != (in.first == 0 ? values : 0)) return Answer::kWrong;
  digests_.pieces.insert(digests_.pieces.end(), in.digests.begin(), in.digests.end());
  if (in.first == 0) digests_.values = in.values;
  if (next_piece() < pieces.count()) {
    question_->since = now;
    return Answer::kMore;
  }
  if (root_of(pieces, digests_) != root) return Answer::kWrong;
  question_.reset();
  return Answer::kComplete;
}

void DigestQuery::on_timer(Instant now) {
  if (now < deadline()) return;
  silent_.insert(question_->to);
  question_.reset();
}

}  // namespace lockstep::state
