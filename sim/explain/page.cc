#include "sim/explain/page.h"

#include <string_view>

#include <nlohmann/json.hpp>

#include "core/base/assert.h"
#include "sim/explain/embedded.h"

namespace lockstep::sim {
namespace {

// Data inside of a script element: "</script>" in a text of ours must not end it.
std::string harmless(std::string text) {
  for (std::size_t at = 0; (at = text.find("</", at)) != std::string::npos; at += 3) text.replace(at, 2, "<\\/");
  return text;
}

void replace(std::string& text, std::string_view mark, std::string_view with) {
  const std::size_t at = text.find(mark);
  LOCKSTEP_ASSERT(at != std::string::npos);
  text.replace(at, mark.size(), with);
}

}  // namespace

std::string page_of(const nlohmann::json& history) {
  std::string script;
  for (const std::string_view part : {kHistoryJs, kScaleJs, kDrawJs, kPanelJs, kTimelineJs}) script += part;
  std::string page(kTimelineHtml);
  replace(page, "/* timeline.css */", kTimelineCss);
  replace(page, "/* history.json */", harmless(history.dump()));
  replace(page, "/* timeline.js */", script);
  return page;
}

}  // namespace lockstep::sim
