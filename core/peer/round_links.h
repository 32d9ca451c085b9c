// Which links rounds need: the rings of earlier generations and cohorts, links to everybody for the direct algorithm,
// and links to the partners of a sync. Opens no link: Machine hands what is needed to Mesh.
#pragma once

#include <utility>

#include "core/base/ids.h"
#include "core/peer/context.h"
#include "core/peer/round.h"
#include "core/peer/round_table.h"
#include "core/peer/views.h"

namespace lockstep::peer {

class RoundLinks {
 public:
  RoundLinks(const Context& context, const Views& views, const RoundTable& rounds)
      : context_(context), views_(views), rounds_(rounds) {}

  // Links to everybody in the group: a round has the direct algorithm, or a member wants such a round.
  [[nodiscard]] bool is_direct() const { return direct_; }
  void go_direct() { relinks_ = !std::exchange(direct_, true) || relinks_; }
  void on_direct_caller(PeerId from);
  // Whether a round waits for a link that is not needed all the time.
  [[nodiscard]] bool needs_link(PeerId to) const;
  // A member to which the attempt needs a link beside the ring, and no way leads (rule 70). Null: there is none.
  [[nodiscard]] const PeerId* find_beyond_reach(const Attempt& attempt) const;
  // Adds the links that open rounds need.
  void add(Views::Links& links) const;
  // True, once: the links that are needed have changed in this step.
  [[nodiscard]] bool take_relink() { return std::exchange(relinks_, false); }
  [[nodiscard]] bool relinks() const { return relinks_; }

  // Left out: context_, views_ and rounds_, which are saved before; and relinks_, which is set in steps only.
  template <typename Archive>
  void archive(Archive& a) {
    a.all(direct_);
  }

 private:
  [[nodiscard]] bool needs_link(const Round& round, PeerId to) const;

  const Context& context_;
  const Views& views_;
  const RoundTable& rounds_;
  bool direct_ = false;
  bool relinks_ = false;  // in this step
};

}  // namespace lockstep::peer
