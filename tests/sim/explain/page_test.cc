// The timeline, in a real browser when there is one: it comes up without an error, a click explains, and 50'000 moments
// do not stop it.
#include "sim/explain/page.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "sim/explain/history_json.h"
#include "sim/explain/slice.h"
#include "tests/sim/explain/runs.h"
#include "tests/support/sanitized.h"

namespace lockstep::sim {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr auto kProbe = LOCKSTEP_SOURCE_DIR "/tests/sim/explain/page_probe.js";

std::string page(const History& history) {
  return page_of(to_json(history, causal_slice(history, history.failed), "lockstep sim run --seed 1"));
}

// A run whose last moment is said to break a promise.
History failing(History history) {
  history.failed = static_cast<MomentId>(history.moments.size() - 1);
  const Moment& last = history.moments.back();
  history.failure = Failure{"S2", "</script> is not the end", last.at_ns, last.event};
  return history;
}

// Many copies of a run, one after the other.
History many_times(const History& once, std::size_t moments) {
  History all = once;
  while (all.moments.size() < moments) {
    const auto shift = static_cast<MomentId>(all.moments.size());
    const std::int64_t later = all.moments.back().at_ns;
    for (Moment moment : once.moments) {
      moment.at_ns += later;
      for (Cause& cause : moment.causes) cause.moment += shift;
      all.moments.push_back(std::move(moment));
    }
    for (Sent message : once.messages) {
      message.from += shift;
      message.sent_ns += later;
      if (message.to != kNoMoment) message.to += shift;
      all.messages.push_back(std::move(message));
    }
    for (Bar bar : once.calls) {
      bar.made += shift;
      if (bar.ended != kNoMoment) bar.ended += shift;
      all.calls.push_back(std::move(bar));
    }
    all.ended_ns = all.moments.back().at_ns;
  }
  return all;
}

std::string output_of(const std::string& command) {
  std::string out;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
  if (!pipe) return out;
  char bytes[65536];
  for (std::size_t n = 0; (n = std::fread(bytes, 1, sizeof bytes, pipe.get())) > 0;) out.append(bytes, n);
  return out;
}

// Under sanitizers there is none: the page is the same, and takes a browser half a minute.
std::string browser() {
  if (kSanitized) return {};
  std::string path =
      output_of("command -v chromium || command -v chromium-browser || command -v google-chrome || true");
  while (!path.empty() && path.back() == '\n') path.pop_back();
  return path;
}

struct Seen {
  nlohmann::json verdict;  // what the probe found
  std::string console;
};

// Shows a page with the probe in it. The probe leaves its verdict in the page.
Seen shown(std::string html) {
  const auto folder = std::filesystem::path(testing::TempDir()) /
                      ("page_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
  std::filesystem::create_directories(folder);
  std::ifstream file(kProbe);
  const std::string probe((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  html.insert(html.find("</head>"),
              "<script>window.errors = []; window.onerror = (e) => window.errors.push(String(e));</script>");
  html.insert(html.rfind("</body>"), "<pre id=\"verdict-of-probe\"></pre><script>" + probe + "</script>");
  std::ofstream(folder / "page.html") << html;
  const std::string out =
      output_of("timeout 100 " + browser() +
                " --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --window-size=1400,800" +
                " --enable-logging=stderr --virtual-time-budget=4000 --user-data-dir=" + (folder / "profile").string() +
                " --dump-dom file://" + (folder / "page.html").string() + " 2>" + (folder / "console").string());
  std::ifstream log(folder / "console");
  Seen seen;
  for (std::string line; std::getline(log, line);) {
    if (line.find(":CONSOLE") != std::string::npos) seen.console += line + "\n";
  }
  const std::string open = "<pre id=\"verdict-of-probe\">";
  const std::size_t begin = out.rfind(open);
  if (begin != std::string::npos) {
    const std::size_t from = begin + open.size();
    seen.verdict = nlohmann::json::parse(out.substr(from, out.find("</pre>", from) - from), nullptr, false);
  }
  std::filesystem::remove_all(folder);
  return seen;
}

TEST(Page, HasEverythingInside) {
  const std::string html = page(failing(history_of(calm_plan())));
  EXPECT_THAT(html, HasSubstr("class Timeline"));
  EXPECT_THAT(html, HasSubstr("\"version\":1"));
  EXPECT_THAT(html, Not(HasSubstr("http://")));
  EXPECT_THAT(html, Not(HasSubstr("https://")));
  EXPECT_THAT(html, Not(HasSubstr("</script> is not the end")));
  EXPECT_THAT(html, HasSubstr("<\\/script> is not the end"));
}

TEST(Page, AClickShowsTheMomentItsCausesAndItsState) {
  if (browser().empty()) GTEST_SKIP() << "no browser: apt-get install chromium";
  const Seen seen = shown(page(failing(history_with(Fault::kCrash))));
  ASSERT_TRUE(seen.verdict.is_object()) << seen.console;
  EXPECT_EQ(seen.console, "");
  EXPECT_EQ(seen.verdict.at("errors"), nlohmann::json::array());
  EXPECT_EQ(seen.verdict.at("failed"), nlohmann::json::array()) << seen.verdict.dump(2);
  EXPECT_GT(seen.verdict.at("checks"), 15);
}

TEST(Page, FiftyThousandMomentsCanBeLookedAt) {
  if (browser().empty()) GTEST_SKIP() << "no browser: apt-get install chromium";
  const History once = history_with(Fault::kCut);
  const Seen seen = shown(page(failing(many_times(once, 50'000))));
  ASSERT_TRUE(seen.verdict.is_object()) << seen.console;
  EXPECT_EQ(seen.console, "");
  EXPECT_EQ(seen.verdict.at("failed"), nlohmann::json::array()) << seen.verdict.dump(2);
  EXPECT_LT(seen.verdict.at("elements"), 600);
}

}  // namespace
}  // namespace lockstep::sim
