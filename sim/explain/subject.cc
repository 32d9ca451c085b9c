#include "sim/explain/subject.h"

#include <type_traits>
#include <variant>

#include "sim/workload/text.h"

namespace lockstep::sim {
namespace {

template <typename M>
concept HasRound = requires(const M& message) {
  message.key;
};

template <typename M>
constexpr bool kIsSignOfLife = std::is_same_v<M, wire::Heartbeat> || std::is_same_v<M, wire::Link> ||
                               std::is_same_v<M, wire::LinkWelcome> || std::is_same_v<M, wire::StatusRequest> ||
                               std::is_same_v<M, wire::StatusReply> || std::is_same_v<M, wire::EvictReply>;

}  // namespace

std::string subject_of(const RoundKey& round) { return text_of(round); }

Subjects subjects_of(const wire::Message& message) {
  return std::visit(
      []<typename M>(const M& m) -> Subjects {
        if constexpr (kIsSignOfLife<M>) {
          return {};
        } else if constexpr (HasRound<M>) {
          return {subject_of(m.key)};
        } else {
          Subjects subjects{kMembershipSubject};
          if constexpr (requires { m.open; }) {
            for (const wire::OpenRound& round : m.open) subjects.push_back(subject_of(round.key));
          }
          if constexpr (requires { m.verdicts; }) {
            for (const wire::Verdict& verdict : m.verdicts) subjects.push_back(subject_of(verdict.key));
          }
          return subjects;
        }
      },
      message);
}

Subjects subjects_of(const trace::Event& event) {
  if (event.round != RoundKey{}) return {subject_of(event.round)};
  switch (event.kind) {
    case trace::Kind::kLinkLost:
    case trace::Kind::kLinkRestored:
    case trace::Kind::kProtocolError: return {};
    default: return {kMembershipSubject};
  }
}

}  // namespace lockstep::sim
