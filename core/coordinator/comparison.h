// Where the states of two members differ, which they claim or watch, found out by asking them: first for an outline of each state,
// then for the words of the first entry in which these differ. Ends with a text for all; what ends the attempt before ends this,
// too.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "core/wire/message.h"

namespace lockstep::coordinator {

class Comparison {
 public:
  static constexpr const char* kNone = "none";  // has no such entry
  static constexpr const char* kStateTheSame = ": state the same tensors and values on all peers";

  struct Side {
    PeerId peer;
    std::string name;
    bool asked = false;  // and has not answered
    std::string words = kNone;
    template <typename Archive>
    void state(Archive& a) {
      a.all(peer, name, asked, words);
    }
  };
  // The difference goes between `before` and `after`; if there is none to be seen, `otherwise` does.
  struct Texts {
    std::string before;
    std::string otherwise;
    std::string after;
    template <typename Archive>
    void state(Archive& a) {
      a.all(before, otherwise, after);
    }
  };
  Comparison() = default;  // to be loaded into
  // `watched`: these are no states that are claimed, and the round commits when it is over. Their manifests come first, and their
  // contents if these are the same.
  Comparison(const RoundKey& key, Generation attempt, wire::Outlined of, Side a, Side b, Texts texts,
             bool watched = false)
      : key_(key),
        attempt_(attempt),
        of_(of),
        sides_{std::move(a), std::move(b)},
        texts_(std::move(texts)),
        watched_(watched) {}

  [[nodiscard]] const RoundKey& key() const { return key_; }
  [[nodiscard]] Generation attempt() const { return attempt_; }
  [[nodiscard]] bool is_of(const RoundKey& key, Generation attempt) const { return key == key_ && attempt == attempt_; }

  [[nodiscard]] bool watched() const { return watched_; }

  using Questions = std::vector<std::pair<PeerId, wire::Message>>;
  [[nodiscard]] Questions begin();
  // What is to be asked then. Nothing: the sender was not asked.
  [[nodiscard]] std::optional<Questions> take(PeerId from, wire::StateOutline outline);
  [[nodiscard]] std::optional<Questions> take(PeerId from, wire::StateEntry entry);
  // All that were asked have answered.
  [[nodiscard]] bool over() const { return !sides_[0].asked && !sides_[1].asked; }
  // As far as it is known.
  [[nodiscard]] std::string text() const;

  template <typename Archive>
  void state(Archive& a) {
    a.all(key_, attempt_, of_, sides_, texts_, watched_, outline_, where_);
  }

 private:
  // The one with this question open.
  [[nodiscard]] Side* asked(PeerId peer);
  [[nodiscard]] Questions ask_where_they_differ(const wire::StateOutline& a, const wire::StateOutline& b);

  RoundKey key_;
  Generation attempt_;
  wire::Outlined of_ = wire::Outlined::kManifest;
  std::array<Side, 2> sides_;
  Texts texts_;
  bool watched_ = false;
  std::optional<wire::StateOutline> outline_;  // the one that came first, until the other is here
  std::string where_;                          // "tensor 3", once both have come and differ
};

}  // namespace lockstep::coordinator
