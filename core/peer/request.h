// One collective call as the caller states it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/data_type.h"
#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/buffers/buffer_ref.h"
#include "core/kernels/formats/format.h"
#include "core/state/statement.h"
#include "core/wire/message.h"

namespace lockstep::peer {

using wire::Collective;

// One tensor of a call. What the two places mean:
//   all-reduce      send, recv: `count` elements each; the same buffer and offset (in place), or no overlap
//   reduce-scatter  send: `count` elements; recv: room for this rank's chunk (recv.length bytes of room; the chunk of
//                   rank r of n has count/n elements, one more for r < count % n)
//   all-gather      send: this rank's block, `count` elements (may differ between peers); recv: room for all blocks, in
//                   the order of ranks; send may lie inside recv only exactly at its own place
//   broadcast       recv: `count` elements, read on the root and written elsewhere; send is ignored
//   sync            recv: a tensor of the state, as the statement's manifest says; read, and written where another
//                   state is elected; send is ignored
struct Tensor {
  BufferRef send;
  BufferRef recv;
  std::uint64_t count = 0;
  // All-reduce that goes direct: error feedback, `count` elements; empty: none. It is added to this peer's
  // contribution, and when the call has committed it is what encoding has lost of that: what weight * (send +
  // residual) was made, decoded and divided by the weight again, is less than send + residual. What a rank adds as it
  // is (its own chunk, of a small one all) leaves 0. Untouched where the weight is 0 or nobody else takes part.
  BufferRef residual{};
};

// A state that is digested beside a call, as it is when that begins: do all who take part hold the same? Nothing of it
// may change until the call completes. `unchanged` is meant since the last call that was launched with one.
struct Watched {
  std::shared_ptr<const state::Statement> state;
  std::vector<BufferRef> memory;  // of each tensor
};

struct Request {
  Collective collective = Collective::kBarrier;
  DataType type = DataType::kU8;
  ReduceOp op = ReduceOp::kSum;
  Tag tag;
  bool retry = true;  // all-reduce and barrier only; the others never retry
  std::uint32_t minimum_world = 1;
  PeerId root;                               // broadcast
  Formats formats;                           // all-reduce of f32, sum or average: how it travels
  std::optional<wire::Algorithm> algorithm;  // of the same: nothing: as fits the formats
  std::optional<float> weight;  // of this peer's contribution: all-reduce of f32, average; 0: it does not count
  Duration timeout{0};          // 0: none
  std::vector<Tensor> tensors;  // exactly one for all-gather; none for barrier
  std::shared_ptr<const state::Statement> state;  // sync, and nothing else
  std::shared_ptr<const Watched> watch;           // none; or not of a sync
  BufferRef scratch;                              // scratch_bytes() bytes, lent until the call completes
};

// Around the ring contributions are rounded at every member, which is too often for formats of less than 8 bits.
inline wire::Algorithm algorithm_of(const Request& request) {
  return request.algorithm.value_or(bits_of(request.formats.up) < 8 ? wire::Algorithm::kDirect
                                                                    : wire::Algorithm::kRing);
}
inline bool goes_direct(const Request& request) { return algorithm_of(request) == wire::Algorithm::kDirect; }

// Its elements are more than copied and folded as they come: they are encoded, or weighed, or gathered. No element may
// be infinite or NaN then. In place the tensor keeps what it holds until the round has committed.
inline bool is_encoded(const Request& request) {
  return !request.formats.native() || request.weight || goes_direct(request);
}

// What a contribution may weigh.
inline bool is_weight(float weight) { return std::isfinite(weight) && !std::signbit(weight); }

// Why no call can have such formats, weights or algorithm, in words for its caller. What the weight is, is another
// matter: it is this peer's own, and the others wait for it.
std::optional<std::string> flaw_of_encoding(const Request& request);

// The arguments that must be equal on all peers (rule 11). `segment_bytes`: Options::segment_bytes.
wire::Descriptor descriptor_of(const Request& request, std::uint32_t segment_bytes);

// An all-reduce whose result replaces its input.
inline bool reduces_in_place(const Request& request, const Tensor& tensor) {
  return request.collective == Collective::kAllReduce && tensor.send.id == tensor.recv.id &&
         tensor.send.offset == tensor.recv.offset;
}

// How much scratch a tensor needs: a copy of the input where it is reduced in place (to restore it after an abort; or
// what is encoded, until the commit), or the partial sums of a reduce-scatter.
inline std::uint64_t scratch_bytes(const Request& request, const Tensor& tensor) {
  const bool needed = request.collective == Collective::kReduceScatter || reduces_in_place(request, tensor);
  return needed ? tensor.count * size_of(request.type) : 0;
}

// Direct: room for what others contribute to a rank's own chunks, behind the scratch of the tensors. A sixteenth of
// the tensors, in which contributions take turns; of small ones as much as the others' contributions may take that are
// many.
inline std::uint64_t direct_room(const Request& request) {
  constexpr std::uint64_t kLeast = std::uint64_t{2} << 20U;
  constexpr std::uint64_t kMost = std::uint64_t{32} << 20U;
  constexpr std::uint64_t kContributions = 64;
  if (!goes_direct(request)) return 0;
  std::uint64_t bytes = 0;
  for (const Tensor& tensor : request.tensors) bytes += tensor.count * size_of(request.type);
  return std::clamp(bytes / 16, std::min(bytes * kContributions, kLeast), kMost);
}

// How much scratch a call needs: that of its tensors, one after the other, and the room of the direct form.
inline std::uint64_t scratch_bytes(const Request& request) {
  if (request.collective == Collective::kSync)
    return request.state->staged ? state::staging_bytes(request.state->manifest) : 0;
  std::uint64_t bytes = 0;
  for (const Tensor& tensor : request.tensors) bytes += scratch_bytes(request, tensor);
  return bytes + direct_room(request);
}

}  // namespace lockstep::peer
