// A collective that a program launches, and its words: "4x all_reduce 64KiB f32 sum".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/data_type.h"
#include "core/base/result.h"
#include "core/peer/request.h"

namespace lockstep::sim {

// All but a sync: what a program's state consists of is no word of a list (Plan::share_state).
inline constexpr std::uint8_t kWorkCollectives = static_cast<std::uint8_t>(peer::Collective::kSync);

struct Work {
  peer::Collective collective = peer::Collective::kAllReduce;
  std::uint64_t count = 0;  // of elements; of the smallest block in an all-gather
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
peer::Request request_of(const Work& work);

// The same, with a size ("64KiB") or a number of elements, a type (f32 if not said), an operation (sum if not said), wire
// formats (native/native if not said), "ring" or "direct" (as fits the formats if not said), and "4x" in front for four of them. Errors name the word that is wrong, and what was
// meant.
Result<std::vector<Work>> work_from_text(std::string_view text);

}  // namespace lockstep::sim
