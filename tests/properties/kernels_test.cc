// Laws of the kernels.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/kernels/checksum.h"
#include "core/kernels/reduce.h"
#include "core/kernels/run_job.h"
#include "tests/support/elements.h"

namespace lockstep {
namespace {

using test::Bytes;

struct FoldCase {
  DataType type;
  ReduceOp op;
  Bytes incoming;
  Bytes own;
};

FoldCase any_case() {
  const auto type = *rc::gen::elementOf(std::vector<DataType>(std::begin(test::kAllTypes), std::end(test::kAllTypes)));
  const auto op = *rc::gen::elementOf(test::ops_of(type));
  const auto count = *rc::gen::inRange<std::size_t>(0, 5000);
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  return {type, op, test::hostile_elements(type, count, seed), test::hostile_elements(type, count, ~seed)};
}

Bytes folded(const FoldCase& c) {
  Bytes into(c.own.size());
  fold(c.type, c.op, into, c.incoming, c.own);
  return into;
}

// Law: the vector loops compute the bits of the scalar reference.
RC_GTEST_PROP(Kernels, FoldIsTheReference, ()) {
  const FoldCase c = any_case();
  Bytes expected(c.own.size());
  reference::fold(c.type, c.op, expected, c.incoming, c.own);
  RC_ASSERT(folded(c) == expected);
}

RC_GTEST_PROP(Kernels, DivideIsTheReference, ()) {
  const FoldCase c = any_case();
  RC_PRE(is_defined(c.type, ReduceOp::kAvg));
  const auto contributors = *rc::gen::suchThat<std::uint32_t>([](std::uint32_t n) { return n >= 1; });
  Bytes values = c.own;
  Bytes expected = c.own;
  divide(c.type, values, contributors);
  reference::divide(c.type, expected, contributors);
  RC_ASSERT(values == expected);
}

// Law: an element of the result depends on its two operands only, so a fold may be cut anywhere.
RC_GTEST_PROP(Kernels, FoldIsElementwise, ()) {
  const FoldCase c = any_case();
  const auto count = c.own.size() / size_of(c.type);
  const auto cut = *rc::gen::inRange<std::size_t>(0, count + 1) * size_of(c.type);
  Bytes into(c.own.size());
  const std::span all(into);
  const std::span incoming(c.incoming);
  const std::span own(c.own);
  fold(c.type, c.op, all.subspan(cut), incoming.subspan(cut), own.subspan(cut));
  fold(c.type, c.op, all.first(cut), incoming.first(cut), own.first(cut));
  RC_ASSERT(into == folded(c));
}

// Law: the order of two operands does not change a bit, not even for NaNs and zeros.
RC_GTEST_PROP(Kernels, FoldIsCommutative, ()) {
  FoldCase c = any_case();
  const Bytes one_way = folded(c);
  std::swap(c.incoming, c.own);
  RC_ASSERT(folded(c) == one_way);
}

// Law: the checksum detects every single flipped bit, alone or in a fold.
RC_GTEST_PROP(Kernels, DetectsAnyFlippedBit, ()) {
  FoldCase c = any_case();
  RC_PRE(!c.incoming.empty());
  FoldJob fold;
  fold.type = c.type;
  fold.op = c.op;
  fold.expected = checksum(c.incoming);
  const VerifyJob verify{.from = {}, .expected = fold.expected};
  const JobWork job = *rc::gen::arbitrary<bool>() ? JobWork{verify} : JobWork{fold};
  Bytes into(c.own.size());
  RC_ASSERT(run_job(job, into, c.incoming, c.own).intact);
  const auto bit = *rc::gen::inRange<std::size_t>(0, c.incoming.size() * 8);
  c.incoming[bit / 8] ^= std::byte{1} << (bit % 8);
  RC_ASSERT(!run_job(job, into, c.incoming, c.own).intact);
}

}  // namespace
}  // namespace lockstep
