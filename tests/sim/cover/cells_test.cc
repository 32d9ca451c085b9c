// The cells of the coverage matrices: how runs report them, how tallies add up, and the texts about them.
#include "sim/cover/cells.h"
#include "sim/cover/curve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/coordinator/coordinator.h"
#include "core/io/stream.h"
#include "core/peer/input.h"
#include "core/wire/message.h"
#include "sim/cover/judge.h"
#include "sim/cover/page.h"
#include "sim/cover/type_names.h"
#include "sim/plan/plan.h"

namespace lockstep::sim::cover {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr Reason kExcluded[] = {{Matrix::kPeerInput, "idle", "JobDone", "because"}};
constexpr Reason kOwed[] = {{Matrix::kPeerInput, "over", "Timer Stop", "hard to get to"}};

Cell cell_called(const std::string& name) {
  for (Cell cell = 0; cell < cell_count(); ++cell) {
    if (name_of(cell) == name) return cell;
  }
  ADD_FAILURE() << name;
  return 0;
}

Reasons some_reasons() { return reasons_of(kExcluded, kOwed).value(); }

// All cells without a reason are hit.
Tally all_but_explained() {
  Hits hits;
  const Reasons reasons = some_reasons();
  for (std::size_t m = 0; m < kMatrixCount; ++m) {
    const Shape& shape = shapes()[m];
    for (std::size_t row = 0; row < shape.rows.size(); ++row) {
      for (std::size_t column = 0; column < shape.columns.size(); ++column) {
        const Cell cell = shape.cell(row, column);
        if (!reasons.impossible[cell].empty() || !reasons.unreached[cell].empty()) continue;
        hits.hit(static_cast<Matrix>(m), row, column);
      }
    }
  }
  Tally tally;
  tally.add(hits);
  return tally;
}

TEST(CoverCells, AreNamedAsTheyAreDeclared) {
  EXPECT_EQ((type_names<wire::Message>()[index_in<wire::Propose, wire::Message>()]), "Propose");
  EXPECT_EQ((type_names<peer::Input>()[index_in<io::ReadDone, peer::Input>()]), "ReadDone");
  EXPECT_EQ(name_of(shape_of(Matrix::kPeerInput).cell(0, 0)), "peer-input: new x Connect");
  EXPECT_EQ(name_of(cell_count() - 1), "coordinator-fault: settling x shut");
}

TEST(CoverCells, OfARunComeThroughAPipe) {
  Hits hits;
  hits.hit(Matrix::kPeerInput, 0, 0);
  hits.hit(Matrix::kCoordinatorFault, coordinator::kLifecycleCount - 1, kFaultCount - 1);
  const auto again = Hits::from_text(hits.text());
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(*again, hits);
  EXPECT_TRUE(again->has(0));
  EXPECT_FALSE(again->has(1));
  EXPECT_TRUE(again->has(cell_count() - 1));
  EXPECT_FALSE(Hits::from_text("").has_value());
  EXPECT_FALSE(Hits::from_text(std::string(hits.text().size(), 'x')).has_value());
}

TEST(CoverCells, AreCountedByRuns) {
  Hits one;
  one.hit(Matrix::kPeerInput, 0, 0);
  Hits other = one;
  other.hit(Matrix::kPeerInput, 0, 1);
  Tally tally;
  tally.add(one);
  tally.add(other);
  Tally more;
  more.add(other);
  more.add(tally);
  EXPECT_EQ(more.runs(), 3U);
  EXPECT_EQ(more.of(0), 3U);
  EXPECT_EQ(more.of(1), 2U);
  EXPECT_EQ(more.of(2), 0U);
}

TEST(CoverCells, AreKeptAsJson) {
  const Tally tally = all_but_explained();
  const Result<Tally> again = tally_from(to_json(tally));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(*again, tally);
  nlohmann::json other = to_json(tally);
  other["matrices"]["peer-input"]["asleep"]["Timer"] = 1;
  const Result<Tally> refused = tally_from(other);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().text, HasSubstr("asleep"));
  EXPECT_FALSE(tally_from(nlohmann::json::object()).ok());
}

TEST(CoverCurve, CountsTheCellsOfTheFirstRunsInAnyOrder) {
  Hits one;
  one.hit(Matrix::kPeerInput, 0, 0);
  Hits two = one;
  two.hit(Matrix::kPeerInput, 0, 1);
  two.hit(Matrix::kPeerFault, 1, 1);
  Curve curve;
  curve.take(3, two);
  curve.take(0, one);
  curve.take(9, two);
  EXPECT_EQ(curve.cells(0), 0U);
  EXPECT_EQ(curve.cells(1), 1U);
  EXPECT_EQ(curve.cells(3), 1U);
  EXPECT_EQ(curve.cells(4), 3U);
  EXPECT_EQ(curve.text(10),
            "     runs   cells     new  runs for each new\n"
            "        1       1       1                1.0\n"
            "        2       1       0                  -\n"
            "        5       3       2                1.5\n"
            "       10       3       0                  -\n");
}

TEST(CoverCells, AreAllHitOrExplained) {
  const Tally tally = all_but_explained();
  const Verdict verdict = judge(tally, some_reasons());
  EXPECT_TRUE(is_complete(verdict));
  EXPECT_EQ(verdict.hit, cell_count() - 3);
  EXPECT_EQ(verdict.impossible, 1U);
  EXPECT_EQ(verdict.unreached, 2U);
  EXPECT_EQ(complaints_of(tally, some_reasons(), verdict), "");
}

TEST(CoverCells, OpenCellsAreListed) {
  Tally tally;
  tally.add(Hits{});
  const Verdict verdict = judge(tally, some_reasons());
  EXPECT_FALSE(is_complete(verdict));
  EXPECT_EQ(verdict.open.size(), cell_count() - 3);
  const std::string text = complaints_of(tally, some_reasons(), verdict);
  EXPECT_THAT(text, HasSubstr("open: peer-input: new x Connect\n"));
  EXPECT_THAT(text, Not(HasSubstr("idle x JobDone")));
  EXPECT_THAT(text, Not(HasSubstr("over x Timer")));
}

TEST(CoverCells, CellsWithAWrongReasonAreListed) {
  Tally tally = all_but_explained();
  Hits hits;
  const Shape& shape = shape_of(Matrix::kPeerInput);
  const Cell excluded = cell_called("peer-input: idle x JobDone") - shape.first;
  const Cell owed = cell_called("peer-input: over x Timer") - shape.first;
  for (const Cell in : {excluded, owed}) {
    hits.hit(Matrix::kPeerInput, in / shape.columns.size(), in % shape.columns.size());
  }
  tally.add(hits);
  const Verdict verdict = judge(tally, some_reasons());
  EXPECT_FALSE(is_complete(verdict));
  const std::string text = complaints_of(tally, some_reasons(), verdict);
  EXPECT_THAT(text, HasSubstr("wrong reason: peer-input: idle x JobDone was hit in 1 runs, but: because\n"));
  EXPECT_THAT(text, HasSubstr("note: peer-input: over x Timer was hit in 1 runs: take it off the list"));
}

TEST(CoverCells, HaveOneReasonAtMost) {
  constexpr Reason kTwice[] = {{Matrix::kPeerInput, "idle", "*", "one"},
                               {Matrix::kPeerInput, "!new over", "Timer", "two"}};
  const Result<Reasons> twice = reasons_of(kTwice, {});
  ASSERT_FALSE(twice.ok());
  EXPECT_THAT(twice.error().text, HasSubstr("peer-input: idle x Timer has a second reason: two"));
  EXPECT_FALSE(reasons_of(kExcluded, kExcluded).ok());
  constexpr Reason kUnknown[] = {{Matrix::kPeerInput, "idle asleep", "Timer", "one"}};
  const Result<Reasons> unknown = reasons_of(kUnknown, {});
  ASSERT_FALSE(unknown.ok());
  EXPECT_THAT(unknown.error().text, HasSubstr("peer-input has no 'asleep'"));
}

TEST(CoverCells, HaveReasonsThatFitTheMatrices) {
  const Result<Reasons> reasons = reasons_of(impossible(), unreached());
  EXPECT_TRUE(reasons.ok()) << reasons.error().text;
}

TEST(CoverCells, AreShownAsTables) {
  const Tally tally = all_but_explained();
  const std::string tables = tables_of(tally, some_reasons());
  EXPECT_THAT(tables, HasSubstr("peer-input: a peer, and what its driver tells it\n"));
  EXPECT_THAT(tables, HasSubstr("\nidle "));
  EXPECT_THAT(tables, Not(HasSubstr("never:")));
  constexpr Reason kNever[] = {{Matrix::kCoordinatorInput, "*", "Revoked", "one"},
                               {Matrix::kCoordinatorInput, "settling", "!Revoked", "two"}};
  const std::string fewer = tables_of(Tally{}, reasons_of(kNever, {}).value());
  EXPECT_THAT(fewer, HasSubstr("never: settling Revoked\n"));
}

}  // namespace
}  // namespace lockstep::sim::cover
