#include "sim/cover/page.h"

#include <fmt/core.h>

#include <algorithm>

namespace lockstep::sim::cover {
namespace {

std::string short_count(std::uint64_t n) {
  if (n < 10'000) return std::to_string(n);
  return n < 10'000'000 ? std::to_string(n / 1000) + "k" : std::to_string(n / 1'000'000) + "M";
}

std::string table_of(const Shape& shape, const Tally& tally, const Reasons& reasons) {
  const auto can_be = [&](Cell cell) { return reasons.impossible[cell].empty() || tally.of(cell) > 0; };
  std::vector<std::size_t> rows;
  std::vector<std::size_t> columns;
  std::string never;
  const auto choose = [&](std::size_t count, std::size_t others, auto cell, auto names,
                          std::vector<std::size_t>& into) {
    for (std::size_t i = 0; i < count; ++i) {
      bool any = false;
      for (std::size_t j = 0; j < others; ++j) any = any || can_be(cell(i, j));
      if (any) {
        into.push_back(i);
      } else {
        never += " " + std::string(names[i]);
      }
    }
  };
  choose(
      shape.rows.size(), shape.columns.size(), [&](auto i, auto j) { return shape.cell(i, j); }, shape.rows, rows);
  choose(
      shape.columns.size(), shape.rows.size(), [&](auto i, auto j) { return shape.cell(j, i); }, shape.columns,
      columns);
  std::size_t width = 0;
  for (const std::size_t row : rows) width = std::max(width, shape.rows[row].size());
  std::string out = fmt::format("{}: {}\n{:{}}", shape.name, shape.what, "", width);
  const auto wide = [&](std::size_t column) { return std::max<std::size_t>(4, shape.columns[column].size()); };
  for (const std::size_t column : columns) out += fmt::format(" {:>{}}", shape.columns[column], wide(column));
  for (const std::size_t row : rows) {
    out += fmt::format("\n{:{}}", shape.rows[row], width);
    for (const std::size_t column : columns) {
      const Cell cell = shape.cell(row, column);
      const std::uint64_t count = tally.of(cell);
      const char* const none = !reasons.impossible[cell].empty() ? "-" : !reasons.unreached[cell].empty() ? "?" : ".";
      out += fmt::format(" {:>{}}", count > 0 ? short_count(count) : none, wide(column));
    }
  }
  return out + (never.empty() ? "" : "\nnever:" + never) + "\n\n";
}

}  // namespace

std::string tables_of(const Tally& tally, const Reasons& reasons) {
  std::string out;
  for (const Shape& shape : shapes()) out += table_of(shape, tally, reasons);
  return out;
}

std::string summary_of(const Tally& tally, const Verdict& verdict) {
  std::string out = fmt::format("cells: {} hit, {} impossible, {} unreached, {} open, in {} runs\n", verdict.hit,
                                verdict.impossible, verdict.unreached, verdict.open.size(), tally.runs());
  if (!verdict.rarest.empty()) out += "hit in the fewest runs:\n";
  for (const Cell cell : verdict.rarest) out += fmt::format("  {:>6}  {}\n", tally.of(cell), name_of(cell));
  return out;
}

std::string surprises_of(const Tally& tally, const Reasons& reasons, const Verdict& verdict) {
  std::string out;
  for (const Cell cell : verdict.stale) {
    out += fmt::format("wrong reason: {} was hit in {} runs, but: {}\n", name_of(cell), tally.of(cell),
                       reasons.impossible[cell]);
  }
  for (const Cell cell : verdict.paid) {
    out += fmt::format("note: {} was hit in {} runs: take it off the list of unreached cells\n", name_of(cell),
                       tally.of(cell));
  }
  return out;
}

std::string complaints_of(const Tally& tally, const Reasons& reasons, const Verdict& verdict) {
  std::string out;
  for (const Cell cell : verdict.open) out += "open: " + name_of(cell) + "\n";
  return out + surprises_of(tally, reasons, verdict);
}

}  // namespace lockstep::sim::cover
