// Journals: invalid journals are refused, a run that kept its promises passes, and a broken promise is reported.
#include "sim/flight/audit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/sim/run_sim.h"

namespace lockstep::sim {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string kAnna(32, 'a');
const std::string kBert(32, 'b');

std::string opened(const std::string& peer) {
  return R"({"peer":")" + peer + R"(","what":"opened","name":"","group":0,"gang":0,"gang_size":1})";
}

std::string installed(const std::string& peer, int view, const std::vector<std::string>& members) {
  std::string list;
  for (const std::string& member : members) {
    list += (list.empty() ? "" : ",") + (R"({"id":")" + member + R"(","group":0,"gang":0,"name":""})");
  }
  return R"({"peer":")" + peer + R"(","what":"installed","term":1,"view":)" + std::to_string(view) +
         R"(,"cohort":1,"members":[)" + list + "]}";
}

std::string called(const std::string& peer, int count = 8) {
  return R"({"peer":")" + peer +
         R"(","what":"called","call":1,"kind":"collective","collective":"all_reduce","type":"f32","op":"sum","tag":5,)" +
         R"("retry":true,"minimum_world":1,"root":")" + std::string(32, '0') + R"(","counts":[)" +
         std::to_string(count) + "]}";
}

std::string ended(const std::string& peer, int hash = 7, int sent = 32) {
  return R"({"peer":")" + peer +
         R"(","what":"ended","call":1,"status":"ok","view":1,"world":2,"round":{"cohort":1,"group":0,"tag":5,"use":0},)" +
         R"("attempt":1,"retries":0,"bytes_received":32,"bytes_sent":)" + std::to_string(sent) + R"(,"hash":)" +
         std::to_string(hash) + R"(,"contributors":[")" + kAnna + R"(",")" + kBert + R"("]})";
}

std::string synced(const std::string& peer, int revision, const std::string& strategy = "popular") {
  return R"({"peer":")" + peer +
         R"(","what":"called","call":1,"kind":"collective","collective":"sync_state","type":"u8","op":"sum","tag":5,)" +
         R"("retry":true,"minimum_world":1,"counts":[8],"root":")" + std::string(32, '0') +
         R"(","state":{"revision":)" + std::to_string(revision) + R"(,"strategy":")" + strategy + R"("}})";
}

std::string has_synced(const std::string& peer, int revision, char root = 'c', int lineage = 5) {
  std::string line = ended(peer);
  line.insert(line.size() - 1, R"(,"state":{"is_defined":true,"revision":)" + std::to_string(revision) +
                                   R"(,"lineage":)" + std::to_string(lineage) + R"(,"root":")" + std::string(32, root) +
                                   R"("})");
  return line;
}

std::string closed(const std::string& peer) { return R"({"peer":")" + peer + R"(","what":"closed"})"; }

std::string stopped(const std::string& peer) {
  return R"({"peer":")" + peer + R"(","what":"stopped","why":"No space left on device"})";
}

// The promises that are broken, as "S1 S2".
std::string broken(const std::vector<std::string>& lines) {
  Audit audit;
  for (const std::string& line : lines) {
    const auto error = audit.take(line);
    EXPECT_FALSE(error) << error->text << ": " << line;
  }
  std::string promises;
  for (const Failure& failure : audit.judge()) promises += (promises.empty() ? "" : " ") + failure.promise;
  return promises;
}

TEST(Audit, ANumberThatDoesNotFitIsNoLine) {
  const auto error_of = [](const std::string& line, const std::string& from, const std::string& to) {
    std::string other = line;
    other.replace(other.find(from), from.size(), to);
    Audit audit;
    const auto error = audit.take(other);
    return error ? error->text : "none";
  };
  EXPECT_EQ(error_of(ended(kAnna), R"("world":2)", R"("world":4294967298)"),
            "world is 4294967298: no whole number from 0 to 4294967295");
  EXPECT_EQ(error_of(ended(kAnna), R"("hash":7)", R"("hash":1e300)"),
            "hash is 1e+300: no whole number from 0 to 18446744073709551615");
  EXPECT_EQ(error_of(called(kAnna), R"("counts":[8)", R"("counts":[-8)"),
            "counts is -8: no whole number from 0 to 18446744073709551615");
  EXPECT_EQ(error_of(called(kAnna), R"("call":1)", R"("call":1.5)"),
            "call is 1.5: no whole number from 0 to 18446744073709551615");
  EXPECT_EQ(error_of(opened(kAnna), R"("gang_size":1)", R"("gang_size":4294967297)"),
            "gang_size is 4294967297: no whole number from 0 to 4294967295");
}

TEST(Audit, ARunThatKeptItsPromisesPasses) {
  EXPECT_EQ(
      broken({opened(kAnna), opened(kBert), installed(kAnna, 1, {kAnna, kBert}), installed(kBert, 1, {kAnna, kBert}),
              called(kAnna), ended(kAnna), closed(kAnna), called(kBert), ended(kBert), closed(kBert)}),
      "");
}

TEST(Audit, OneThatWasKilledMayLeaveCallsOpen) {
  EXPECT_EQ(broken({installed(kAnna, 1, {kAnna, kBert}), called(kAnna), ended(kAnna), called(kBert)}), "");
}

TEST(Audit, EveryBrokenPromiseIsTold) {
  const std::string a = installed(kAnna, 1, {kAnna, kBert});
  const std::string b = installed(kBert, 1, {kAnna, kBert});
  EXPECT_EQ(broken({a, b, called(kAnna), ended(kAnna), called(kBert), ended(kBert, 8)}), "S1");
  EXPECT_EQ(broken({a, b, called(kAnna), ended(kAnna)}), "S2") << "b never launched it";
  EXPECT_EQ(broken({a, installed(kBert, 1, {kBert})}), "S6") << "two views of one number";
  EXPECT_EQ(broken({installed(kAnna, 1, {kBert, kAnna}), called(kAnna), ended(kAnna)}), "S6") << "another ring";
  EXPECT_EQ(broken({a, called(kAnna), closed(kAnna)}), "S8") << "never ended";
  EXPECT_EQ(broken({a, called(kAnna), called(kBert), ended(kAnna), ended(kAnna)}), "S8") << "ended twice";
  EXPECT_EQ(broken({a, b, called(kAnna), ended(kAnna), called(kBert, 9), ended(kBert)}), "S10 S10");
  EXPECT_EQ(broken({a, b, called(kAnna), ended(kAnna, 7, 10'000), called(kBert), ended(kBert)}), "P1");
}

TEST(Audit, OneStateOfASyncIsOnePromiseToo) {
  const auto ends_with = [](const std::string& a, const std::string& ended_a, const std::string& b,
                            const std::string& ended_b) {
    return broken({installed(kAnna, 1, {kAnna, kBert}), installed(kBert, 1, {kAnna, kBert}), a, ended_a, b, ended_b});
  };
  const std::string a = synced(kAnna, 4);
  EXPECT_EQ(ends_with(a, has_synced(kAnna, 4), synced(kBert, 0), has_synced(kBert, 4)), "");
  EXPECT_EQ(ends_with(a, has_synced(kAnna, 4), synced(kBert, 0), has_synced(kBert, 4, 'd')), "S5") << "another root";
  EXPECT_EQ(ends_with(a, has_synced(kAnna, 4), synced(kBert, 0), has_synced(kBert, 0)), "S5") << "its own state";
  EXPECT_EQ(ends_with(a, has_synced(kAnna, 3), synced(kBert, 0), has_synced(kBert, 3)), "S5 S5") << "nobody's state";
  EXPECT_EQ(ends_with(a, has_synced(kAnna, 4), synced(kBert, 0, "send_only"), has_synced(kBert, 4)), "S5 S5")
      << "who only sends came with another";
  EXPECT_EQ(ends_with(synced(kAnna, 4, "receive_only"), has_synced(kAnna, 4), synced(kBert, 0), has_synced(kBert, 4)),
            "S5 S5")
      << "that of who only receives";
}

TEST(Audit, AFileThatIsNoJournalIsRefused) {
  const struct {
    const char* line;
    const char* says;
  } cases[] = {
      {"", "parse error"},
      {"{}", "key 'peer' not found"},
      {R"({"peer":"me","what":"closed"})", "'me' is no peer: 32 hexadecimal digits"},
      {R"({"peer":"00000000000000000000000000000001","what":"slept"})", "nothing is called 'slept'"},
      {R"({"peer":"00000000000000000000000000000001","what":"called","call":1,"kind":"sing"})",
       "unknown kind of call 'sing'"},
      {R"({"peer":"00000000000000000000000000000001","what":"ended","call":1,"status":"fine","view":1,"world":1})",
       "unknown word 'fine'"},
      {R"({"peer":"00000000000000000000000000000001","what":"installed","term":1,"view":"one"})",
       R"(view is "one": no whole number from 0 to )"},
  };
  for (const auto& c : cases) {
    Audit audit;
    const auto error = audit.take(c.line);
    ASSERT_TRUE(error) << c.line;
    EXPECT_THAT(error->text, testing::HasSubstr(c.says));
  }
  Audit audit;
  EXPECT_FALSE(audit.take(called(kAnna)));
  EXPECT_TRUE(audit.take(called(kAnna))) << "a second call of one number";
}

// ---- the command ----

TEST(SimAudit, AnEmptyJournalIsNotJudged) {
  for (const std::string& file :
       {std::string("/dev/null"), file_with("", "empty.jsonl"), file_with(opened(kAnna).substr(0, 30), "half.jsonl")}) {
    const Ran ran = run_sim({"audit", file});
    EXPECT_EQ(ran.code, 2) << file;
    EXPECT_EQ(ran.out, "");
    EXPECT_THAT(ran.errors, AllOf(HasSubstr("incomplete: " + file + " has no whole line"),
                                  HasSubstr("no journal has a line to judge")));
  }
  const Ran folder = run_sim({"audit", testing::TempDir()});
  EXPECT_EQ(folder.code, 2);
  EXPECT_THAT(folder.errors, HasSubstr(testing::TempDir() + " is a directory: name the journals in it"));
}

// The disk was full before the peer wrote a line; the other journals are judged.
TEST(SimAudit, AnEmptyJournalAmongOthersIsIncomplete) {
  const std::string empty = file_with("", "empty.jsonl");
  const std::string other = file_with(opened(kAnna) + "\n" + closed(kAnna) + "\n", "other.jsonl");
  EXPECT_EQ(run_sim({"audit", other}).code, 0);
  const Ran ran = run_sim({"audit", empty, other});
  EXPECT_EQ(ran.code, 16) << ran.errors;
  EXPECT_THAT(ran.out, HasSubstr("1 of 2 journals lack their end"));
  EXPECT_THAT(ran.errors, HasSubstr("incomplete: " + empty + " has no whole line"));
}

TEST(SimAudit, AJournalThatEndsInTheMiddleOfALineIsIncomplete) {
  const std::string cut = file_with(opened(kAnna) + "\n" + called(kAnna).substr(0, 100), "cut.jsonl");
  const Ran ran = run_sim({"audit", cut});
  EXPECT_EQ(ran.code, 16) << ran.errors;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("1 of 1 journals lack their end"), Not(HasSubstr("were kept"))));
  EXPECT_THAT(ran.errors, HasSubstr("stopped: " + cut + " ends in the middle of a line"));
}

TEST(SimAudit, AJournalThatSaysThatItStoppedIsIncomplete) {
  const std::string anna = file_with(
      installed(kAnna, 1, {kAnna, kBert}) + "\n" + called(kAnna) + "\n" + ended(kAnna) + "\n" + closed(kAnna) + "\n",
      "anna.jsonl");
  const std::string bert = file_with(installed(kBert, 1, {kAnna, kBert}) + "\n" + stopped(kBert) + "\n", "bert.jsonl");
  const Ran ran = run_sim({"audit", anna, bert});
  EXPECT_EQ(ran.code, 16) << "what Bert launched is not in its journal, and breaks no promise: " << ran.errors;
  EXPECT_THAT(ran.errors, AllOf(HasSubstr("incomplete: "), HasSubstr("stopped: No space left on device")));
}

TEST(SimAudit, ABrokenPromiseCountsMoreThanAnIncompleteJournal) {
  const std::string file = file_with(
      called(kAnna) + "\n" + ended(kAnna) + "\n" + ended(kAnna) + "\n" + stopped(kAnna) + "\n" + closed(kBert) + "\n",
      "all.jsonl");
  const Ran ran = run_sim({"audit", file});
  EXPECT_EQ(ran.code, 10) << ran.errors;
  EXPECT_THAT(ran.errors, AllOf(HasSubstr("incomplete: "), HasSubstr("S8 broken")));
}

}  // namespace
}  // namespace lockstep::sim
