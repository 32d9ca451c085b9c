#include "sim/cover/surveyor.h"

#include <utility>
#include <variant>

namespace lockstep::sim::cover {
namespace {

constexpr std::uint32_t kNoEnd = UINT32_MAX;

std::size_t at(auto value) { return static_cast<std::size_t>(value); }

// The round that a message names. Nothing: the message names no round, as on prefetch links, whose key belongs to no
// cohort.
std::optional<RoundKey> round_of(const wire::Message& message) {
  return std::visit(
      [](const auto& in) -> std::optional<RoundKey> {
        if constexpr (requires { RoundKey{in.key}; }) {
          return in.key.cohort.value == 0 ? std::nullopt : std::optional(in.key);
        } else {
          return std::nullopt;
        }
      },
      message);
}

HostState state_of(peer::Lifecycle lifecycle) {
  switch (lifecycle) {
    case peer::Lifecycle::kNew:
    case peer::Lifecycle::kLooking:
    case peer::Lifecycle::kDialling:
    case peer::Lifecycle::kGreeting:
    case peer::Lifecycle::kWaiting:
    case peer::Lifecycle::kInvited: return HostState::kJoining;
    case peer::Lifecycle::kIdle:
    case peer::Lifecycle::kInRounds: return HostState::kIdle;
    case peer::Lifecycle::kAdmitting: return HostState::kAdmitting;
    case peer::Lifecycle::kFrozen: return HostState::kFrozen;
    case peer::Lifecycle::kLeaving:
    case peer::Lifecycle::kGoing: return HostState::kLeaving;
    case peer::Lifecycle::kOver: return HostState::kOver;
  }
  return HostState::kDown;
}

}  // namespace

// ---- processes ----

void Surveyor::started(std::uint32_t process, std::uint32_t host, PeerId) {
  if (processes_.size() <= process) processes_.resize(process + 1U);
  processes_[process].host = host;
  processes_[process].alive = true;
  if (on_host_.size() <= host) on_host_.resize(host + 1U, kNoProcess);
  on_host_[host] = process;
}

void Surveyor::stopped(std::uint32_t process, Death) {
  processes_[process].alive = false;
  processes_[process].peer = nullptr;
}

void Surveyor::stepped(std::uint32_t process, const peer::Peer& peer, const Program&) {
  processes_[process].peer = &peer;
}
void Surveyor::stepped(std::uint32_t, const coordinator::Coordinator& coordinator) { coordinator_ = &coordinator; }

void Surveyor::hit_phases(const peer::Snapshot& posture, Matrix matrix, std::size_t first_row, std::size_t column) {
  if (posture.phases == 0) return;
  for (std::size_t row = 0; row < kOpenPhaseCount; ++row) {
    const auto phase = static_cast<peer::RoundPhase>(kFirstOpenPhase + row);
    if (posture.has(phase)) hits_.hit(matrix, first_row + row, column);
  }
}

void Surveyor::steps(std::uint32_t process, const peer::Input& input) {
  const peer::Peer* const peer = processes_[process].peer;
  const peer::Snapshot posture = peer == nullptr ? peer::Snapshot{} : peer->snapshot();
  hits_.hit(Matrix::kPeerInput, at(posture.lifecycle), input.index());
  if (const std::size_t column = round_event_column_of_input(input.index()); column != kNoColumn) {
    hit_phases(posture, Matrix::kRoundEvent, 0, column);
  }
  const std::optional<Coming> message = message_in(process, peer, input);
  if (!message) return;
  hits_.hit(Matrix::kPeerMessage, at(posture.lifecycle), message->kind);
  if (const std::size_t column = round_event_column_of_message(message->kind); column != kNoColumn) {
    hit_phases(posture, Matrix::kRoundEvent, 0, column);
  }
  const std::size_t column = round_message_column(message->kind);
  if (column == kNoColumn || !message->round || peer == nullptr) return;
  hits_.hit(Matrix::kRoundMessage, at(peer->phase_of(*message->round)), column);
}

void Surveyor::steps(std::uint32_t process, const coordinator::Input& input) {
  const auto lifecycle = coordinator_ == nullptr ? coordinator::Lifecycle::kEmpty : coordinator_->lifecycle();
  hits_.hit(Matrix::kCoordinatorInput, at(lifecycle), input.index());
  const std::optional<Coming> message = message_in(process, coordinator_, input);
  if (message) hits_.hit(Matrix::kCoordinatorMessage, at(lifecycle), message->kind);
}

// ---- the wire ----

void Surveyor::opens(std::uint32_t end, std::uint32_t process, StreamId stream) {
  std::vector<std::uint32_t>& ends = processes_[process].ends;
  if (ends.size() <= stream.value) ends.resize(stream.value + 1, kNoEnd);
  ends[stream.value] = end;
}

void Surveyor::sends(std::uint32_t end, std::span<const std::byte> bytes, std::size_t size) {
  const std::uint32_t to = end ^ 1U;
  if (sides_.size() <= to) sides_.resize(to + 1U);
  heard_.clear();
  sides_[to].tap.hear(bytes, size, heard_);
  for (const WireTap::Heard& heard : heard_) {
    sides_[to].coming.push_back({heard.end, heard.message.index(), round_of(heard.message)});
  }
}

std::optional<Surveyor::Coming> Surveyor::arrived(std::uint32_t process, StreamId stream, std::size_t bytes) {
  const std::vector<std::uint32_t>& ends = processes_[process].ends;
  const std::uint32_t end = stream.value < ends.size() ? ends[stream.value] : kNoEnd;
  if (end >= sides_.size()) return {};
  Side& side = sides_[end];
  side.read += bytes;
  std::optional<Coming> first;
  while (!side.coming.empty() && side.coming.front().end <= side.read) {
    if (!first) first = side.coming.front();
    side.coming.pop_front();
  }
  return first;
}

template <typename Machine, typename Input>
std::optional<Surveyor::Coming> Surveyor::message_in(std::uint32_t process, const Machine* machine,
                                                     const Input& input) {
  StreamId stream;
  std::size_t bytes = 0;
  if (const auto* read = std::get_if<io::ReadDone>(&input)) {
    stream = read->stream;
    bytes = read->bytes;
  } else if (const auto* revoked = std::get_if<io::Revoked>(&input);
             revoked != nullptr && revoked->direction == io::Direction::kRead) {
    stream = revoked->stream;
    bytes = revoked->bytes;
  }
  if (bytes == 0) return {};
  std::optional<Coming> first = arrived(process, stream, bytes);
  if (machine == nullptr || !machine->hears(stream)) first.reset();
  return first;
}

// ---- faults ----

void Surveyor::fault_begins(std::uint64_t, const Entry& fault) {
  fault_at(fault.a, at(fault.fault));
  if (is_of_pair(fault.fault) && fault.b != fault.a) fault_at(fault.b, at(fault.fault));
}

void Surveyor::fault_at(std::uint32_t host, std::size_t fault) {
  if (host == 0) {
    const auto lifecycle = coordinator_ == nullptr ? coordinator::Lifecycle::kEmpty : coordinator_->lifecycle();
    return hits_.hit(Matrix::kCoordinatorFault, at(lifecycle), fault);
  }
  const std::uint32_t process = host < on_host_.size() ? on_host_[host] : kNoProcess;
  if (process == kNoProcess || !processes_[process].alive) {
    return hits_.hit(Matrix::kPeerFault, at(HostState::kDown), fault);
  }
  const peer::Peer* const peer = processes_[process].peer;
  const peer::Snapshot posture = peer == nullptr ? peer::Snapshot{} : peer->snapshot();
  const bool out = posture.lifecycle == peer::Lifecycle::kOver;
  if (out || posture.phases == 0) return hits_.hit(Matrix::kPeerFault, at(state_of(posture.lifecycle)), fault);
  hit_phases(posture, Matrix::kPeerFault, kHostStateCount, fault);
}

}  // namespace lockstep::sim::cover
