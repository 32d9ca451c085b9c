// One call that an application made, and all that it may know about it: what checkers judge by.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/base/ids.h"
#include "core/base/rng.h"
#include "core/base/time.h"
#include "core/buffers/buffer_ref.h"
#include "core/peer/effect.h"
#include "core/peer/request.h"

namespace lockstep::sim {

enum class CallKind : std::uint8_t { kConnect, kCollective, kAdmit, kLeave, kPublish, kPrefetch };
constexpr const char* name_of(CallKind kind) {
  constexpr const char* kNames[] = {"connect", "collective", "admit", "leave", "publish", "prefetch"};
  return kNames[static_cast<std::size_t>(kind)];
}

// Copies of inputs, by tensor, and of what is added to them.
struct Given {
  std::vector<std::vector<std::byte>> inputs;
  std::vector<std::vector<std::byte>> residuals;
};

// An element of an input that is not what its content says: infinite or NaN.
struct OddElement {
  std::size_t tensor = 0;
  std::uint64_t element = 0;
  float value = 0;
};

struct Call {
  CallKind kind = CallKind::kCollective;
  std::uint32_t process = 0;
  PeerId peer;
  GroupId group;
  CallId id;
  Instant made;
  std::shared_ptr<const wire::View> view;  // the newest that the caller had installed then; may be null
  bool stopped = false;                    // the application asked for its end
  bool told_to_wait = false;               // it may rightly wait for others (joining, minimum world)
  std::uint32_t at_least = 1;              // admit: members that are wanted

  // collectives, publish and prefetch
  peer::Request request;
  std::uint32_t segment_bytes = 0;  // as the caller has configured it
  std::uint64_t content = 0;        // of tensor t: content_of(content, t); but of a guest:
  std::optional<Given> given;       // what its program has given; nothing: too much to keep
  bool of_guest = false;
  std::optional<OddElement> odd;  // bytes mode, encoded
  bool odd_weight = false;        // tiny, huge, 0, or none
  CohortId cohort;                // the newest that the caller knew of
  std::uint32_t use = 0;          // how many launches of the tag in that cohort came before
  std::optional<RoundKey> round_at_death;
  std::vector<BufferId> buffers;
  std::vector<std::uint64_t> inputs;     // fingerprints of the inputs at the call
  std::vector<std::uint64_t> residuals;  // and of what is added to them
  std::vector<std::uint64_t> watched;    // likewise of the tensors that are watched; 0 if it may differ
  std::uint64_t step = 0;                // what the application tells the others in an all-gather
  std::uint64_t state = 0;
  bool wish = false;

  std::optional<peer::Outcome> outcome;
  Instant ended;
  std::vector<std::uint64_t> at_end;  // fingerprints of `buffers` when it was completed
};

constexpr std::uint64_t content_of(std::uint64_t content, std::size_t tensor) { return mix64(content + tensor); }
constexpr std::uint64_t content_of_residual(std::uint64_t content, std::size_t tensor) {
  return mix64(content_of(content, tensor));
}

// Where the input of a tensor lies.
inline BufferRef input_of(const peer::Request& request, const peer::Tensor& tensor) {
  const std::uint64_t bytes = tensor.count * size_of(request.type);
  const bool in_recv =
      request.collective == peer::Collective::kBroadcast || request.collective == peer::Collective::kSync;
  const BufferRef& from = in_recv ? tensor.recv : tensor.send;
  return {from.id, from.offset, bytes};
}

// The peer knows that the round was given up for all.
inline bool is_out(Status status) {
  return status == Status::kOutcomeUnknown || status == Status::kEvicted || status == Status::kNotConnected;
}

}  // namespace lockstep::sim
