// Finds the first difference between the states that two members claim or watch (rule 40 of docs/protocol.md). Asks
// both members for an outline, then for a description of the first entry that differs. Ends with a text for all
// members, or with the attempt.
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
  static constexpr const char* kNone = "none";  // the state has no such entry
  static constexpr const char* kStateTheSame = ": state the same tensors and values on all peers";

  struct Side {
    PeerId peer;
    std::string name;
    bool asked = false;  // a question is open
    std::string words = kNone;
    template <typename Archive>
    void archive(Archive& a) {
      a.all(peer, name, asked, words);
    }
  };
  // The text is `before`, the difference, `after`. `otherwise` stands for a difference that was not found.
  struct Texts {
    std::string before;
    std::string otherwise;
    std::string after;
    template <typename Archive>
    void archive(Archive& a) {
      a.all(before, otherwise, after);
    }
  };
  Comparison() = default;  // to be loaded into
  // `watched`: the states are watched, not claimed, and the round commits afterwards. The manifests are compared first;
  // if they are equal, the contents.
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
  [[nodiscard]] wire::Outlined of() const { return of_; }
  [[nodiscard]] std::pair<PeerId, PeerId> peers() const { return {sides_[0].peer, sides_[1].peer}; }

  using Questions = std::vector<std::pair<PeerId, wire::Message>>;
  [[nodiscard]] Questions begin();
  // The next questions. Nothing: the sender was not asked.
  [[nodiscard]] std::optional<Questions> take(PeerId from, wire::StateOutline outline);
  [[nodiscard]] std::optional<Questions> take(PeerId from, wire::StateEntry entry);
  // No question is open.
  [[nodiscard]] bool over() const { return !sides_[0].asked && !sides_[1].asked; }
  // The difference as far as it is known.
  [[nodiscard]] std::string text() const;

  template <typename Archive>
  void archive(Archive& a) {
    a.all(key_, attempt_, of_, sides_, texts_, watched_, outline_, where_);
  }

 private:
  // The side of this peer, if a question to it is open; else null.
  [[nodiscard]] Side* asked(PeerId peer);
  [[nodiscard]] Questions ask_where_they_differ(const wire::StateOutline& a, const wire::StateOutline& b);

  RoundKey key_;
  Generation attempt_;
  wire::Outlined of_ = wire::Outlined::kManifest;
  std::array<Side, 2> sides_;
  Texts texts_;
  bool watched_ = false;
  std::optional<wire::StateOutline> outline_;  // the first outline, until the second has arrived
  std::string where_;                          // "tensor 3", once both outlines have arrived and differ
};

}  // namespace lockstep::coordinator
