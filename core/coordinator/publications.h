// Which members publish which states, which waiting peers want them in advance, and what each of these is to be told. Nothing
// here decides anything: what a newcomer fetches early is only a head start, and nobody believes it.
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
  // What is wrong with it; empty: nothing. The sender's group, and, of a member, its name and where it listens.
  [[nodiscard]] std::string publish(const wire::Member& from, const wire::Publish& in);
  [[nodiscard]] std::string want(PeerId from, GroupId group, const wire::WantState& in);
  // Is no member and does not wait any more.
  void gone(PeerId peer);
  // Waits no more: its wishes are over, and what it publishes from now on is another matter.
  void admitted(PeerId peer);

  // What is to be told since the last call; `run`: the key of the run.
  [[nodiscard]] std::vector<std::pair<PeerId, wire::Published>> take_news(const LinkKey& run);
  // Peers that want a state and do not have it yet.
  [[nodiscard]] std::uint32_t fetching() const { return static_cast<std::uint32_t>(wants_.peers()); }
  [[nodiscard]] std::size_t size() const { return published_.size() + wanted_.size(); }
  // With what belongs to them.
  [[nodiscard]] std::size_t entries() const {
    std::size_t sum = size() + publishes_.peers() + wants_.peers();
    for (const auto& [name, wish] : wanted_) sum += wish.told ? wish.told->sources.size() : 0;
    return sum;
  }

  template <typename Archive>
  void state(Archive& a) {
    a.all(published_, publishes_, wanted_, wants_, changed_);
  }

 private:
  // A state of one group, and whose part in it.
  struct Name {
    GroupId group;
    Tag tag;
    PeerId peer;
    auto operator<=>(const Name&) const = default;
    template <typename Archive>
    void state(Archive& a) {
      a.all(group, tag, peer);
    }
  };
  struct Publication {
    wire::Publish said;
    std::string name;  // of its peer
    io::Address address;
    template <typename Archive>
    void state(Archive& a) {
      a.all(said, name, address);
    }
  };
  struct Wish {
    wire::Descriptor what;
    std::optional<wire::Published> told;
    template <typename Archive>
    void state(Archive& a) {
      a.all(what, told);
    }
  };

  template <typename Entries>
  void forget(Entries& entries, Tally& tally, PeerId peer);
  [[nodiscard]] wire::Published answer(GroupId group, Tag tag, const wire::Descriptor& what) const;

  std::map<Name, Publication> published_;
  Tally publishes_;  // of published_
  std::map<Name, Wish> wanted_;
  Tally wants_;  // of wanted_
  std::set<std::pair<GroupId, Tag>> changed_;
};

}  // namespace lockstep::coordinator
