// Links between members that the members report as broken: which ring is laid around which link, and which member must
// go when no ring avoids a link (rule 23 of docs/protocol.md). Membership holds the broken pairs.
#pragma once

#include <compare>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/coordinator/connections.h"
#include "core/coordinator/context.h"
#include "core/coordinator/membership.h"
#include "core/coordinator/participants.h"
#include "core/wire/message.h"

namespace lockstep::coordinator {

class BrokenLinks {
 public:
  BrokenLinks(Context& context, Connections& connections, Membership& membership, Participants& participants)
      : context_(context), connections_(connections), membership_(membership), participants_(participants) {}

  struct Ignored {};  // the report changes nothing
  struct Relaid {};   // the ring of the group is to be laid around the link: take_groups()
  using Answer = std::variant<Ignored, Relaid, Eviction>;
  [[nodiscard]] Answer report(PeerId from, const wire::LinkBroken& in);

  // The groups whose rings are to be laid around broken links.
  [[nodiscard]] std::set<GroupId> take_groups() { return std::exchange(groups_, {}); }
  [[nodiscard]] std::size_t avoided_groups() const { return avoided_.size(); }
  // The names of the ends of the link that a ring was last laid around.
  [[nodiscard]] const std::string& around() const { return around_; }
  // A proposal that would have laid these rings was withdrawn.
  void add_groups(std::set<GroupId>& groups) { groups_.merge(groups); }

  // The member that must go because no ring of these members avoids a broken link, or nullopt: no member must go, or it
  // is too early to decide which one: ask again at settles_at().
  [[nodiscard]] std::optional<Eviction> unavoidable(const std::vector<wire::Member>& members);
  [[nodiscard]] Instant settles_at() const { return settles_at_; }

  // Left out: context_, connections_, membership_ and participants_, which are saved before it.
  template <typename Archive>
  void archive(Archive& a) {
    a.all(groups_, around_, avoided_, settles_at_);
  }

 private:
  // A report that is older does not count: members that need a link report it again and again.
  [[nodiscard]] Instant counts_from() const { return context_.now - context_.options.link_patience * 2; }
  [[nodiscard]] Answer report_to_avoid(PeerId from, const wire::LinkBroken& in, const wire::Member& member);
  // The numbers of its broken links. A report of long ago breaks a tie: it proves little, and a place in the list of
  // members proves nothing. A report of a link to a peer that has left counts as such. A link to the next neighbour may
  // take as long to be reported as an old report counts.
  struct Links {
    std::size_t lately = 0;
    std::size_t ever = 0;
    auto operator<=>(const Links&) const = default;
  };
  [[nodiscard]] Links links_of(PeerId peer) const;
  [[nodiscard]] bool is_laid_around(const Pair& pair) const;
  // The one of these two with more broken links.
  [[nodiscard]] Eviction give_up(PeerId from, PeerId to, const std::string& why) const;
  [[nodiscard]] Relaid relay(PeerId a, PeerId b, GroupId group);
  void note(PeerId from, const wire::LinkBroken& in);
  [[nodiscard]] bool can_link(PeerId a, PeerId b) const;
  [[nodiscard]] bool has_others(const std::vector<wire::Member>& members, const Pair& pair) const;
  [[nodiscard]] std::string describe(PeerId victim, PeerId other, const std::string& consequence) const;

  Context& context_;
  Connections& connections_;
  Membership& membership_;
  Participants& participants_;
  std::set<GroupId> groups_;
  std::string around_;
  std::map<GroupId, Instant> avoided_;  // when a ring was last laid around a link that costs no member
  Instant settles_at_ = kNever;
};

}  // namespace lockstep::coordinator
