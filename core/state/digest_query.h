// How one receiver obtains the digests of the elected state: it asks one source at a time, for one message of digests
// after the other, and asks the next source if a source does not answer (rule 38 of docs/protocol.md). The digests are
// accepted if they make up the elected root (rule 26). Emits no messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "core/base/digest.h"
#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/state/pieces.h"
#include "core/wire/message.h"

namespace lockstep::state {

class DigestQuery {
 public:
  // `patience`: a source that does not answer for this long is silent.
  explicit DigestQuery(Duration patience) : patience_(patience) {}

  // The source that is asked now.
  [[nodiscard]] std::optional<PeerId> asked() const;
  // Asks the first of `sources` that is not silent, from the first piece on. If all are silent, each of them gets
  // another chance. Returns the source that was chosen.
  [[nodiscard]] std::optional<PeerId> begin(const std::vector<PeerId>& sources, Instant now);
  // The source cannot be asked any more, or its answer may be lost.
  void forget(PeerId source);

  enum class Answer : std::uint8_t {
    kComplete,  // digests() make up the root
    kMore,      // next_piece() is to be asked for
    kWrong,     // not an answer to the question, or not the digests of this root
  };
  // An answer of the source that is asked. `values`: the number of values of the state.
  [[nodiscard]] Answer on_digests(const wire::PieceDigests& in, const Pieces& pieces, std::size_t values,
                                  const Digest& root, Instant now);
  [[nodiscard]] std::uint32_t next_piece() const { return static_cast<std::uint32_t>(digests_.pieces.size()); }
  [[nodiscard]] const Digests& digests() const { return digests_; }

  [[nodiscard]] Instant deadline() const { return question_ ? question_->since + patience_ : kNever; }
  void on_timer(Instant now);

  // Left out: patience_, an argument of the constructor.
  template <typename Archive>
  void archive(Archive& a) {
    a.all(digests_, question_, silent_);
  }

 private:
  struct Question {
    PeerId to;
    Instant since;
    template <typename Archive>
    void archive(Archive& a) {
      a.all(to, since);
    }
  };

  Duration patience_;
  Digests digests_;  // the known digests of the elected state
  std::optional<Question> question_;
  std::set<PeerId> silent_;  // sources that did not answer
};

}  // namespace lockstep::state
