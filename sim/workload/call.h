// One call of an application, with all that the application may know about it. Checkers judge by it.
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
#include "core/peer/input.h"
#include "core/ring/request.h"

namespace lockstep::sim {

// What programs give as their reason to refuse a call.
inline constexpr const char* kWhyRefused = "out has another dtype";

enum class CallKind : std::uint8_t { kConnect, kCollective, kAdmit, kLeave, kPublish, kPrefetch, kSend, kReceive };
constexpr const char* name_of(CallKind kind) {
  constexpr const char* kNames[] = {"connect", "collective", "admit", "leave", "publish", "prefetch", "send", "recv"};
  return kNames[static_cast<std::size_t>(kind)];
}

// Copies of inputs and residuals, by tensor.
struct Given {
  std::vector<std::vector<std::byte>> inputs;
  std::vector<std::vector<std::byte>> residuals;
};

// An element of an input that differs from the content: infinite or NaN.
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
  bool refused = false;                    // by the application's side
  bool stopped = false;                    // the application asked for its end
  bool told_to_wait = false;               // it may rightly wait for others (joining, minimum world)
  std::uint32_t at_least = 1;              // admit: members that are wanted

  // ---- collectives, publish and prefetch ----
  // The caller, when it launched the call.
  struct Launch {
    std::uint32_t segment_bytes = 0;  // in its options
    std::uint32_t by_rate_bytes = 0;
    CohortId cohort;        // the newest that it knew
    std::uint32_t use = 0;  // number of earlier launches of the tag in that cohort
  };
  // The contents of the tensors.
  struct Data {
    std::uint64_t content = 0;      // of tensor t: content_of(content, t), unless the caller is a guest
    std::optional<Given> given;     // tensors of a guest; nothing if they are too large to keep
    std::optional<OddElement> odd;  // bytes mode, encoded
    bool odd_weight = false;        // the weight is tiny, huge, 0, or missing
    bool rewritten = false;         // the nemesis has written to an input during the call
  };
  // Fingerprints of memory, by tensor.
  struct Fingerprints {
    std::vector<std::uint64_t> inputs;     // at the call
    std::vector<std::uint64_t> residuals;  // at the call
    std::vector<std::uint64_t> watched;    // at the call; 0 for a tensor that may differ between peers
    std::vector<std::uint64_t> at_end;     // of `buffers`, when the call ended
  };
  // What the application tells the other peers in an all-gather.
  struct Told {
    std::uint64_t step = 0;
    std::uint64_t state = 0;
    bool wish = false;
  };
  ring::Request request;
  peer::Transfer transfer;  // send, recv
  bool of_guest = false;
  Launch launch;
  Data data;
  std::vector<BufferId> buffers;
  Fingerprints prints;
  Told told;

  std::optional<RoundKey> round_at_death;  // the round of the call when its process died
  std::optional<peer::Outcome> outcome;
  Instant ended;
};

constexpr std::uint64_t content_of(std::uint64_t content, std::size_t tensor) { return mix64(content + tensor); }
constexpr std::uint64_t content_of_residual(std::uint64_t content, std::size_t tensor) {
  return mix64(content_of(content, tensor));
}

// The memory of a tensor's input.
inline BufferRef input_of(const ring::Request& request, const ring::Tensor& tensor) {
  const std::uint64_t bytes = tensor.count * size_of(request.type);
  const bool in_recv =
      request.collective == wire::Collective::kBroadcast || request.collective == wire::Collective::kSync;
  const BufferRef& from = in_recv ? tensor.recv : tensor.send;
  return {from.id, from.offset, bytes};
}

// Whether the status says that the peer is out of the run, so that its rounds are given up for all.
inline bool is_out(Status status) {
  return status == Status::kOutcomeUnknown || status == Status::kEvicted || status == Status::kNotConnected;
}

}  // namespace lockstep::sim
