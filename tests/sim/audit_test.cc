// Journals: what is none is refused, a run that kept its promises passes, one that broke any is told.
#include "sim/audit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lockstep::sim {
namespace {

const std::string kA(32, 'a');
const std::string kB(32, 'b');

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
         std::to_string(hash) + R"(,"contributors":[")" + kA + R"(",")" + kB + R"("]})";
}

std::string closed(const std::string& peer) { return R"({"peer":")" + peer + R"(","what":"closed"})"; }

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

TEST(Audit, ARunThatKeptItsPromisesPasses) {
  EXPECT_EQ(broken({opened(kA), opened(kB), installed(kA, 1, {kA, kB}), installed(kB, 1, {kA, kB}), called(kA),
                    ended(kA), closed(kA), called(kB), ended(kB), closed(kB)}),
            "");
}

TEST(Audit, OneThatWasKilledMayLeaveCallsOpen) {
  EXPECT_EQ(broken({installed(kA, 1, {kA, kB}), called(kA), ended(kA), called(kB)}), "");
}

TEST(Audit, EveryBrokenPromiseIsTold) {
  const std::string a = installed(kA, 1, {kA, kB});
  const std::string b = installed(kB, 1, {kA, kB});
  EXPECT_EQ(broken({a, b, called(kA), ended(kA), called(kB), ended(kB, 8)}), "S1");
  EXPECT_EQ(broken({a, b, called(kA), ended(kA)}), "S2") << "b never launched it";
  EXPECT_EQ(broken({a, installed(kB, 1, {kB})}), "S6") << "two views of one number";
  EXPECT_EQ(broken({installed(kA, 1, {kB, kA}), called(kA), ended(kA)}), "S6") << "another ring";
  EXPECT_EQ(broken({a, called(kA), closed(kA)}), "S8") << "never ended";
  EXPECT_EQ(broken({a, called(kA), called(kB), ended(kA), ended(kA)}), "S8") << "ended twice";
  EXPECT_EQ(broken({a, b, called(kA), ended(kA), called(kB, 9), ended(kB)}), "S10 S10");
  EXPECT_EQ(broken({a, b, called(kA), ended(kA, 7, 10'000), called(kB), ended(kB)}), "P1");
}

TEST(Audit, WhatIsNoJournalIsRefused) {
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
       "type must be number"},
  };
  for (const auto& c : cases) {
    Audit audit;
    const auto error = audit.take(c.line);
    ASSERT_TRUE(error) << c.line;
    EXPECT_THAT(error->text, testing::HasSubstr(c.says));
  }
  Audit audit;
  EXPECT_FALSE(audit.take(called(kA)));
  EXPECT_TRUE(audit.take(called(kA))) << "a second call of one number";
}

}  // namespace
}  // namespace lockstep::sim
