// The states that members publish, the waiting peers that prefetch them, and the news for these peers. Decides nothing:
// a prefetched state is only a head start, and no peer trusts it (rule 39 of docs/protocol.md).
#pragma once

#include <compare>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "core/coordinator/tally.h"
#include "core/io/stream.h"
#include "core/wire/message.h"

namespace lockstep::coordinator {

class Publications {
 public:
  // Not empty: the sender breaks the protocol.
  [[nodiscard]] std::string publish(const wire::Member& from, const wire::Publish& in);
  [[nodiscard]] std::string want(PeerId from, GroupId group, const wire::WantState& in);
  // The peer is out of the run.
  void gone(PeerId peer);
  // The peer is a member now: it wants no state in advance any more.
  void admitted(PeerId peer);

  // The news since the last call. `run`: the key of the run.
  [[nodiscard]] std::vector<std::pair<PeerId, wire::Published>> take_news(const LinkKey& run);
  // Number of peers that want a state and hold none yet, of some tag.
  [[nodiscard]] std::uint32_t fetching() const { return static_cast<std::uint32_t>(fetches_.peers()); }
  // Number of peers that hold all states that they want (rule 49).
  [[nodiscard]] std::uint32_t holding() const { return static_cast<std::uint32_t>(wants_.peers()) - fetching(); }
  [[nodiscard]] std::size_t size() const { return published_.size() + wanted_.size(); }
  // Entries of all lists.
  [[nodiscard]] std::size_t entries() const {
    std::size_t sum = size() + publishes_.peers() + wants_.peers() + fetches_.peers();
    for (const auto& [name, wish] : wanted_) sum += wish.told ? wish.told->sources.size() : 0;
    return sum;
  }

  template <typename Archive>
  void archive(Archive& a) {
    a.all(published_, publishes_, wanted_, wants_, fetches_, changed_);
  }

 private:
  // One peer's part in the state of a group.
  struct Name {
    GroupId group;
    Tag tag;
    PeerId peer;
    auto operator<=>(const Name&) const = default;
    template <typename Archive>
    void archive(Archive& a) {
      a.all(group, tag, peer);
    }
  };
  struct Publication {
    wire::Publish said;
    std::string name;  // of the peer
    io::Address address;
    io::KeyDigest key;
    bool calls_out = false;  // nobody can dial it
    template <typename Archive>
    void archive(Archive& a) {
      a.all(said, name, address, key, calls_out);
    }
  };
  struct Wish {
    wire::Descriptor what;
    std::optional<wire::Published> told;
    bool holds = false;
    template <typename Archive>
    void archive(Archive& a) {
      a.all(what, told, holds);
    }
  };

  template <typename Entries>
  void forget(Entries& entries, Tally& tally, PeerId peer);
  void forget_wishes(PeerId peer);
  void note_fetch(PeerId peer, bool before, bool now);
  [[nodiscard]] wire::Published answer(GroupId group, Tag tag, const wire::Descriptor& what) const;

  std::map<Name, Publication> published_;
  Tally publishes_;  // of published_
  std::map<Name, Wish> wanted_;
  Tally wants_;    // of wanted_
  Tally fetches_;  // of wanted_, those of peers that do not hold the state
  std::set<std::pair<GroupId, Tag>> changed_;
};

}  // namespace lockstep::coordinator
