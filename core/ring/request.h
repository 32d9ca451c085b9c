// One collective call as the caller states it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/data_type.h"
#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/buffers/buffer_ref.h"
#include "core/kernels/formats/format.h"
#include "core/ring/schedule.h"
#include "core/state/statement.h"
#include "core/wire/message.h"

namespace lockstep::ring {

using wire::Collective;

// One tensor of a call. The meaning of its two places:
//   all-reduce      send, recv: `count` elements each; the same buffer and offset (in place), or no overlap
//   reduce-scatter  send: `count` elements; recv: room for this rank's chunk (recv.length bytes of room; the chunk of
//                   rank r of n has count/n elements, one more for r < count % n)
//   all-gather      send: this rank's block, `count` elements (may differ between peers); recv: room for all blocks, in
//                   the order of ranks; send may lie inside recv only exactly at its own place
//   reduce          send: `count` elements; recv: on the root room for `count` elements, ignored elsewhere
//   gather, scatter, all-to-all
//                   send: this rank's blocks (Request::blocks), one after the other, `count` elements in all; recv:
//                   room for the blocks that are for this rank, in the order of ranks; no overlap
//   broadcast       recv: `count` elements, read on the root and written elsewhere; send is ignored
//   sync            recv: a tensor of the state, as described by the manifest; read, and written if another state is
//                   elected (rule 26); send is ignored
struct Tensor {
  BufferRef send;
  BufferRef recv;
  std::uint64_t count = 0;
  // Direct all-reduce: error feedback, `count` elements; empty: none. The residual is added to this peer's
  // contribution. After the commit, the residual holds the error of the encoding: send + residual, minus the decoded
  // contribution divided by the weight. Elements that are added without encoding (the rank's own chunk) get a residual
  // of 0. With weight 0, or alone, the residual does not change.
  BufferRef residual{};
};

// A block of a gather, a scatter or an all-to-all.
struct Block {
  PeerId to;
  std::uint64_t count = 0;  // elements
  bool operator==(const Block&) const = default;
};

// A watched state (rule 40): it is digested beside a call and compared with the states of the other contributors. The
// state must not change until the call completes. `unchanged`: since the last call with a watched state.
struct Watched {
  std::shared_ptr<const state::Statement> state;
  std::vector<BufferRef> memory;  // of each tensor
};

// The tensors of a call as the caller stated them, where some of them travel as one (runs.h).
struct Stated {
  std::uint32_t tensors = 0;
  std::uint64_t layout = 0;  // layout_of() their numbers of elements
  bool operator==(const Stated&) const = default;
};

// The arguments of a call, without tensors, blocks and state.
struct Arguments {
  Collective collective = Collective::kBarrier;
  DataType type = DataType::kU8;
  ReduceOp op = ReduceOp::kSum;
  Tag tag;
  bool retry = true;  // all-reduce, barrier and sync only; the others never retry
  std::uint32_t minimum_world = 1;
  PeerId root;      // wire::has_root()
  Formats formats;  // all-reduce of f32, sum or average: encodings on the way up and down
  // Empty: each attempt chooses. Where wire::has_choice(); kDirect of an all-reduce only.
  std::optional<wire::Algorithm> algorithm;
  std::optional<float>
      weight;           // factor of this peer's contribution: all-reduce of f32, sum or average; 0: does not count
  Duration timeout{0};  // 0: none
};

struct Request : Arguments {
  std::vector<Tensor> tensors;   // exactly one where wire::has_blocks(); none for barrier
  std::optional<Stated> stated;  // nullopt: `tensors` are the caller's
  // Gather, scatter and all-to-all: what this peer sends to whom, in the order of tensors.front().send; nothing goes to
  // a member that is not listed. In a gather only the root may be listed; in a scatter only the root lists members.
  std::vector<Block> blocks;
  std::shared_ptr<const state::Statement> state;  // sync only
  std::shared_ptr<const Watched> watch;           // null: none; a sync has none
  BufferRef scratch;                              // scratch_bytes() bytes, lent until the call completes
};

// The algorithm that the descriptor names. The ring rounds contributions at every member, which is too often for
// formats of less than 8 bits.
inline wire::Algorithm algorithm_of(const Request& request) {
  if (!wire::has_choice(request.collective)) return request.algorithm.value_or(wire::Algorithm::kRing);
  const bool coarse = bits_of(request.formats.up) < 8;
  return request.algorithm.value_or(coarse ? wire::Algorithm::kDirect : wire::Algorithm::kAuto);
}
inline bool goes_direct(const Request& request) { return algorithm_of(request) == wire::Algorithm::kDirect; }

// The elements can be encoded and weighted.
inline bool can_encode(const Request& request) {
  return request.collective == Collective::kAllReduce && request.type == DataType::kF32 &&
         (request.op == ReduceOp::kSum || request.op == ReduceOp::kAvg);
}
// The elements are encoded or weighted, not only folded; or a rank may have residuals. Then no element may be infinite
// or NaN.
inline bool is_encoded(const Request& request) {
  return !request.formats.native() || request.weight || (goes_direct(request) && can_encode(request));
}

// The error text for a reduction that its element type does not have, such as "f32 has no band ..."; nothing if the
// reduction is defined.
std::optional<std::string> validate_reduction(const Request& request);

// Validates the weight of a contribution.
inline bool is_weight(float weight) { return std::isfinite(weight) && !std::signbit(weight); }

// Why no call can have these formats, weights or algorithm, in words for the caller. Ignores the value of the weight,
// which is validated where it is announced to the other ranks.
std::optional<std::string> validate_encoding(const Request& request);

// Why no call can send these blocks, in words for the caller. Whether all receivers are members is checked when an
// attempt begins.
std::optional<std::string> validate_blocks(const Request& request);

// The bytes that this call sends to a peer in a collective with blocks.
std::uint64_t block_bytes_to(const Request& request, PeerId to);

// The hash of the sizes of tensors, in elements, which a descriptor holds; 0 for no tensors.
std::uint64_t layout_of(std::span<const std::uint64_t> counts);

// The arguments that must be equal on all peers (rule 11). `segment_bytes`: PeerOptions::segment_bytes.
wire::Descriptor descriptor_of(const Request& request, std::uint32_t segment_bytes);

// An all-reduce whose result replaces its input.
inline bool reduces_in_place(const Request& request, const Tensor& tensor) {
  return request.collective == Collective::kAllReduce && tensor.send.id == tensor.recv.id &&
         tensor.send.offset == tensor.recv.offset;
}

// The scratch of a tensor, in bytes: for an all-reduce in place a copy of the input (rule 16: restored after an abort)
// or the encoded partial sums until the commit; for a reduce-scatter or a reduce the partial sums.
inline std::uint64_t scratch_bytes(const Request& request, const Tensor& tensor) {
  const bool partial_sums =
      request.collective == Collective::kReduceScatter || request.collective == Collective::kReduce;
  const bool needed = partial_sums || reduces_in_place(request, tensor);
  return needed ? tensor.count * size_of(request.type) : 0;
}

// With owners, or perhaps with owners: memory behind the scratch of the tensors, for the contributions of others to the
// chunks that this rank collects.
// An all-reduce: they take turns in it. All contributions at once, but at most the larger of 16 MiB and a sixteenth of
// the tensors, and at most 64 MiB: as much as is under way on a fast and long line.
// A reduce-scatter or a reduce: the scratch of the tensors holds all contributions, but for the elements that do not
// divide by the ranks, and the contributions that go straight to the root (goes_straight()). In a grid of r rows and c
// columns there are also the sums of relays, and their rows may be one longer: at most 2/c of the tensors in all, so a
// quarter where the view may choose a grid.
inline std::uint64_t direct_room(const Request& request) {
  constexpr std::uint64_t kUsual = std::uint64_t{16} << 20U;
  constexpr std::uint64_t kMost = std::uint64_t{64} << 20U;
  constexpr std::uint64_t kRanks = 64;  // that a meshed group has at most
  if (algorithm_of(request) == wire::Algorithm::kRing || !wire::reduces(request.collective)) return 0;
  const std::uint64_t element = size_of(request.type);
  std::uint64_t bytes = 0;
  std::uint64_t all = 0;
  for (const Tensor& tensor : request.tensors) {
    const std::uint64_t its = tensor.count * element;
    bytes += its;
    all += its <= kWholeBytes ? its * kRanks : its;
  }
  if (request.collective == Collective::kAllReduce) return std::min(all, std::clamp(bytes / 16, kUsual, kMost));
  const bool straight = request.collective == Collective::kReduce && bytes <= kUnderWay;
  const std::uint64_t of_relays = algorithm_of(request) == wire::Algorithm::kGrid ? bytes : bytes / 4;
  return request.tensors.size() * 2 * kRanks * element + of_relays +
         (straight ? std::min(bytes * kRanks, 2 * kUnderWay) : 0);
}

// The scratch of a call, in bytes: the scratch of its tensors, one after the other, and the room of the direct
// algorithm.
inline std::uint64_t scratch_bytes(const Request& request) {
  if (request.collective == Collective::kSync)
    return request.state->staged ? state::staging_bytes(request.state->manifest) : 0;
  std::uint64_t bytes = 0;
  for (const Tensor& tensor : request.tensors) bytes += scratch_bytes(request, tensor);
  return bytes + direct_room(request);
}

}  // namespace lockstep::ring
