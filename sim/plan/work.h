// A collective that a program launches, and its words: "4x all_reduce 64KiB f32 sum".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/data_type.h"
#include "core/base/result.h"
#include "core/ring/request.h"

namespace lockstep::sim {

// All collectives except sync: a list of work does not describe a program's state (StatePlan::shared).
inline constexpr wire::Collective kWorkCollectives[] = {
    wire::Collective::kAllReduce, wire::Collective::kReduceScatter, wire::Collective::kAllGather,
    wire::Collective::kBroadcast, wire::Collective::kBarrier,       wire::Collective::kReduce,
    wire::Collective::kGather,    wire::Collective::kScatter,       wire::Collective::kAllToAll,
};

struct Work {
  wire::Collective collective = wire::Collective::kAllReduce;
  // Of elements; of the smallest block in an all-gather or a gather; of all blocks in a scatter or an all-to-all.
  std::uint64_t count = 0;
  DataType type = DataType::kF32;
  ReduceOp op = ReduceOp::kSum;
  Formats formats{};                           // all-reduce of f32, sum or avg
  std::optional<wire::Algorithm> algorithm{};  // of the same

  bool operator==(const Work&) const = default;
};

// "int8/bf16": up and down.
std::string to_text(Formats formats);

// "all_reduce 1000 f32 sum", "all_reduce 1000 f32 avg int8/bf16 direct", "broadcast 8 u8", "barrier".
std::string to_text(const Work& work);

// A call of it, but for its tensors.
ring::Request request_of(const Work& work);

// The same, with a size ("64KiB") or a number of elements, a type (f32 if not said), an operation (sum if not said),
// wire formats (native/native if not said), "ring" or "direct" (as fits the formats if not said), and "4x" in front for
// four of them. Errors name the word that is wrong, and what was meant.
Result<std::vector<Work>> work_from_text(std::string_view text);

}  // namespace lockstep::sim
