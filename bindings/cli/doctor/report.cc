#include "bindings/cli/doctor/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>

#include "core/base/assert.h"
#include "core/base/text.h"
#include "core/wire/run_token.h"

namespace lockstep::cli::doctor {
namespace {

std::string_view word_of(Grade grade) {
  switch (grade) {
    case Grade::kOk: return "ok";
    case Grade::kWarning: return "warning";
    case Grade::kFailed: return "failed";
  }
  LOCKSTEP_UNREACHABLE();
}

// A name may come from a file, or from a variable, with any bytes.
std::string shown(const std::string& text) { return wire::redacted(plain(text)); }

auto count(const Findings& findings, Grade grade) { return std::ranges::count(findings, grade, &Finding::grade); }

}  // namespace

Grade worst_of(const Findings& findings) {
  Grade worst = Grade::kOk;
  for (const Finding& finding : findings) worst = std::max(worst, finding.grade);
  return worst;
}

std::string text_of(const Findings& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    text += fmt::format("{:<8} {:<12} {}\n", word_of(finding.grade), finding.check, shown(finding.found));
    if (!finding.remedy.empty()) text += fmt::format("{:<8} {:<12} -> {}\n", "", "", shown(finding.remedy));
  }
  const auto warnings = count(findings, Grade::kWarning);
  text += fmt::format("{} ok, {} {}, {} failed\n", count(findings, Grade::kOk), warnings,
                      warnings == 1 ? "warning" : "warnings", count(findings, Grade::kFailed));
  return text;
}

nlohmann::ordered_json json_of(const Findings& findings) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Finding& finding : findings) {
    nlohmann::ordered_json one = {
        {"check", finding.check}, {"grade", word_of(finding.grade)}, {"found", shown(finding.found)}};
    if (!finding.remedy.empty()) one["remedy"] = shown(finding.remedy);
    one["values"] = finding.values;
    list.push_back(std::move(one));
  }
  return {{"version", 1}, {"grade", word_of(worst_of(findings))}, {"findings", std::move(list)}};
}

}  // namespace lockstep::cli::doctor
