#include "core/state/manifest.h"

#include <gtest/gtest.h>

#include "core/wire/limits.h"

namespace lockstep::state {
namespace {

Manifest sample() {
  return {.tensors = {{"w", DataType::kF32, 10, false}, {"b", DataType::kBF16, 3, true}},
          .values = {{"step", ValueType::kUint}, {"rate", ValueType::kReal}}};
}

TEST(Manifest, EveryDifferenceChangesItsDigestAndIsNamed) {
  const struct {
    void (*change)(Manifest&);
    const char *where, *ours, *theirs;
  } changes[] = {
      {[](Manifest& m) { m.tensors[0].count = 12; }, "tensor 0", "w f32 [10]", "w f32 [12]"},
      {[](Manifest& m) { m.tensors[1].name = "c"; }, "tensor 1", "b bf16 [3], may differ", "c bf16 [3], may differ"},
      {[](Manifest& m) { m.tensors[1].may_differ = false; }, "tensor 1", "b bf16 [3], may differ", "b bf16 [3]"},
      {[](Manifest& m) { m.tensors[0].type = DataType::kI32; }, "tensor 0", "w f32 [10]", "w i32 [10]"},
      {[](Manifest& m) { m.tensors.pop_back(); }, "tensor 1", "b bf16 [3], may differ", "none"},
      {[](Manifest& m) { m.values[1].type = ValueType::kInt; }, "value 1", "rate real", "rate int"},
      {[](Manifest& m) {
         m.values.push_back({"seed", ValueType::kBool});
       },
       "value 2", "none", "seed bool"},
  };
  for (const auto& [change, where, ours, theirs] : changes) {
    Manifest other = sample();
    change(other);
    EXPECT_NE(digest_of(other), digest_of(sample())) << theirs;
    const auto difference = first_difference(sample(), other);
    ASSERT_TRUE(difference) << theirs;
    EXPECT_EQ(difference->where, where);
    EXPECT_EQ(difference->ours, ours);
    EXPECT_EQ(difference->theirs, theirs);
  }
  EXPECT_FALSE(first_difference(sample(), sample()));
  EXPECT_EQ(digest_of(sample()), digest_of(sample()));
}

// A name that ends where the next begins is another name.
TEST(Manifest, NamesDoNotRunIntoEachOther) {
  const Manifest one{.tensors = {{"ab", DataType::kU8, 1, false}, {"c", DataType::kU8, 1, false}}, .values = {}};
  const Manifest two{.tensors = {{"a", DataType::kU8, 1, false}, {"bc", DataType::kU8, 1, false}}, .values = {}};
  EXPECT_NE(digest_of(one), digest_of(two));
}

TEST(Manifest, FlawsAreNamed) {
  const struct {
    void (*change)(Manifest&);
    std::string flaw;
  } flaws[] = {
      {[](Manifest& m) { m.tensors[1].name.clear(); }, "tensor 1 has no name"},
      {[](Manifest& m) { m.tensors[1].name = "w"; }, "tensor 1 has the name of an earlier one: w"},
      {[](Manifest& m) { m.values[0].name = "a\nb"; }, "value 0 has a name that is not plain text: a?b"},
      {[](Manifest& m) { m.values[0].name.assign(300, 'x'); }, "value 0 has a name of 300 bytes, more than 256"},
      {[](Manifest& m) { m.tensors[0].count = UINT64_MAX / 2; },
       "tensor w of 9223372036854775807 elements: all tensors together hold 4398046511104 bytes at most"},
      {[](Manifest& m) { m.tensors.resize(kMaxStateTensors + 1); }, "65537 tensors, more than 65536"},
      {[](Manifest& m) { m.values.resize(257); }, "257 values, more than 256"},
  };
  for (const auto& [change, flaw] : flaws) {
    Manifest manifest = sample();
    change(manifest);
    EXPECT_EQ(flaw_of(manifest), flaw);
  }
  EXPECT_FALSE(flaw_of(sample()));
  EXPECT_FALSE(flaw_of(Manifest{}));
}

}  // namespace
}  // namespace lockstep::state
