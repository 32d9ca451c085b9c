#include "bindings/cli/size.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstddef>
#include <limits>
#include <string_view>

namespace lockstep::cli {

CLI::Validator size_text() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        std::uint64_t value = 0;
        const char* const end = text.data() + text.size();
        const auto [rest, error] = std::from_chars(text.data(), end, value);
        const std::string_view unit(rest, static_cast<std::size_t>(end - rest));
        unsigned shift = 0;
        bool known = true;
        if (unit == "K" || unit == "k" || unit == "KiB") {
          shift = 10;
        } else if (unit == "M" || unit == "MiB") {
          shift = 20;
        } else if (unit == "G" || unit == "GiB") {
          shift = 30;
        } else {
          known = unit.empty();
        }
        if (error != std::errc{} || !known || value > std::numeric_limits<std::uint64_t>::max() >> shift) {
          return fmt::format("'{}' is not a size: give bytes, or a number with K, M or G, such as 64K", text);
        }
        text = std::to_string(value << shift);
        return {};
      },
      "SIZE");
}

std::string size_words(std::uint64_t bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  const bool whole = value == static_cast<double>(static_cast<std::uint64_t>(value));
  return whole ? fmt::format("{:.0f} {}", value, kUnits.at(unit)) : fmt::format("{:.1f} {}", value, kUnits.at(unit));
}

}  // namespace lockstep::cli
