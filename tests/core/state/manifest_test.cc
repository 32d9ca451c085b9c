#include "core/state/manifest.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/wire/limits.h"

namespace lockstep::state {
namespace {

Manifest sample() {
  return {.tensors = {{"w", DataType::kF32, 10, false}, {"b", DataType::kBF16, 3, true}},
          .values = {{"step", ValueType::kUint}, {"rate", ValueType::kReal}}};
}

TEST(Manifest, EveryDifferenceChangesItsDigest) {
  void (*const changes[])(Manifest&) = {
      [](Manifest& m) { m.tensors[0].count = 12; },
      [](Manifest& m) { m.tensors[1].name = "c"; },
      [](Manifest& m) { m.tensors[1].may_differ = false; },
      [](Manifest& m) { m.tensors[0].type = DataType::kI32; },
      [](Manifest& m) { m.tensors.pop_back(); },
      [](Manifest& m) { m.values[1].type = ValueType::kInt; },
      [](Manifest& m) { m.values[1].name = "seed"; },
      [](Manifest& m) { m.values.push_back(m.values[0]); },
      [](Manifest& m) { m.piece_bytes /= 2; },
  };
  for (const auto& change : changes) {
    Manifest other = sample();
    change(other);
    EXPECT_NE(digest_of(other), digest_of(sample())) << &change - changes;
    for (std::size_t i = 0; i < std::min(other.tensors.size(), sample().tensors.size()); ++i) {
      const bool same = other.tensors[i] == sample().tensors[i];
      EXPECT_EQ(hash_of(other.tensors[i]) == hash_of(sample().tensors[i]), same) << &change - changes;
    }
    for (std::size_t i = 0; i < sample().values.size(); ++i) {
      const bool same = other.values[i] == sample().values[i];
      EXPECT_EQ(hash_of(other.values[i]) == hash_of(sample().values[i]), same) << &change - changes;
    }
  }
  EXPECT_EQ(digest_of(sample()), digest_of(sample()));
}

TEST(Manifest, DescribesEntriesInWords) {
  EXPECT_EQ(describe(sample().tensors[0]), "w f32 [10]");
  EXPECT_EQ(describe(sample().tensors[1]), "b bf16 [3], may differ");
  EXPECT_EQ(describe(sample().values[0]), "step uint");
  const TensorSpec longest{std::string(kMaxStateNameBytes, 'x'), DataType::kBF16, UINT64_MAX, true};
  EXPECT_LE(describe(longest).size(), kMaxStateEntryBytes);
}

// Moving a letter from one name to the next gives another manifest.
TEST(Manifest, BoundariesOfNamesCount) {
  const Manifest one{.tensors = {{"ab", DataType::kU8, 1, false}, {"c", DataType::kU8, 1, false}}, .values = {}};
  const Manifest two{.tensors = {{"a", DataType::kU8, 1, false}, {"bc", DataType::kU8, 1, false}}, .values = {}};
  EXPECT_NE(digest_of(one), digest_of(two));
}

TEST(Manifest, TheErrorSaysWhatIsInvalid) {
  const struct {
    void (*change)(Manifest&);
    std::string error;
  } flaws[] = {
      {[](Manifest& m) { m.tensors[1].name.clear(); }, "tensor 1 has no name"},
      {[](Manifest& m) { m.tensors[1].name = "w"; }, "tensor 1 has the same name as an earlier one: w"},
      {[](Manifest& m) { m.values[0].name = "a\nb"; }, "value 0 has a name that is not plain text: a?b"},
      {[](Manifest& m) { m.values[0].name.assign(300, 'x'); }, "value 0 has a name of 300 bytes, more than 256"},
      {[](Manifest& m) { m.tensors[0].count = UINT64_MAX / 2; },
       "tensor w has 9223372036854775807 elements: all tensors together may have at most 4398046511104 bytes"},
      {[](Manifest& m) { m.tensors.resize(kMaxStateTensors + 1); }, "65537 tensors, more than 65536"},
      {[](Manifest& m) { m.values.resize(257); }, "257 values, more than 256"},
  };
  for (const auto& [change, error] : flaws) {
    Manifest manifest = sample();
    change(manifest);
    EXPECT_EQ(validate_manifest(manifest), error);
  }
  EXPECT_FALSE(validate_manifest(sample()));
  EXPECT_FALSE(validate_manifest(Manifest{}));
}

}  // namespace
}  // namespace lockstep::state
