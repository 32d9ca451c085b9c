#include "sim/words/units.h"

#include <array>
#include <charconv>
#include <cmath>
#include <iterator>

namespace lockstep::sim {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr Unit kTimes[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"min", 60e9}, {"h", 3600e9}};
constexpr Unit kSizes[] = {{"", 1}, {"B", 1}, {"KiB", 1024}, {"MiB", 1048576}, {"GiB", 1073741824}};
constexpr Unit kLosses[] = {{"%", 10'000}};
constexpr Unit kRates[] = {{"kB/s", 1e3},     {"MB/s", 1e6},     {"GB/s", 1e9},
                           {"kbit/s", 125.0}, {"Mbit/s", 125e3}, {"Gbit/s", 125e6}};

// A number that is not negative and one of the units behind it, in units of factor 1; within what 62 bits hold.
template <std::size_t N>
std::optional<std::int64_t> quantity(std::string_view text, const Unit (&units)[N]) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (error != std::errc{} || number < 0) return {};
  std::string_view name(rest, static_cast<std::size_t>(end - rest));
  while (name.starts_with(' ')) name.remove_prefix(1);
  for (const Unit& unit : units) {
    if (unit.name != name) continue;
    const double value = std::round(number * unit.factor);
    if (!(value < 4e18)) return {};
    return static_cast<std::int64_t>(value);
  }
  return {};
}

// Three digits, or all digits before the point; never an exponent.
std::string three_digits(double number) {
  const double size = std::abs(number);
  const int after = size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
  std::array<char, 400> digits{};  // of any double
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number, std::chars_format::fixed, after);
  std::string text(digits.data(), end.ptr);
  if (after == 0) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

struct Step {
  double from;  // so that three digits do not round to the next unit's 1
  double factor;
  std::string_view name;
};

// In the largest unit that the number reaches.
template <std::size_t N>
std::string in_unit(double number, const Step (&steps)[N]) {
  const Step* step = steps;
  while (step + 1 != std::end(steps) && std::abs(number) < step->from) ++step;
  return three_digits(number / step->factor) + " " + std::string(step->name);
}

constexpr Step kShortTimes[] = {{0.9995e9, 1e9, "s"}, {0.9995e6, 1e6, "ms"}, {0.9995e3, 1e3, "us"}, {0, 1, "ns"}};
constexpr Step kShortSizes[] = {
    {1023.5 * 1048576, 1073741824, "GiB"}, {1023.5 * 1024, 1048576, "MiB"}, {1023.5, 1024, "KiB"}, {0, 1, "bytes"}};
constexpr Step kShortRates[] = {{0.9995e9, 1e9, "GB/s"}, {0.9995e6, 1e6, "MB/s"}, {0, 1e3, "kB/s"}};

}  // namespace

std::string text_of(Instant at) {
  const std::string digits = std::to_string(at.ns % 1'000'000'000);
  return std::to_string(at.ns / 1'000'000'000) + "." + std::string(9 - digits.size(), '0').append(digits).substr(0, 6) +
         "s";
}

std::string short_text(Duration duration) {
  return duration.ns == 0 ? "0 s" : in_unit(static_cast<double>(duration.ns), kShortTimes);
}

std::string short_size(std::uint64_t bytes) {
  return bytes == 1 ? "1 byte" : in_unit(static_cast<double>(bytes), kShortSizes);
}

std::string short_rate(double bytes_per_s) { return in_unit(bytes_per_s, kShortRates); }

std::optional<Duration> duration_of(std::string_view text) {
  const auto ns = quantity(text, kTimes);
  if (!ns) return {};
  return nanoseconds(*ns);
}

std::string words_of(Duration duration, std::string_view space) {
  std::int64_t number = duration.ns;
  std::string_view unit = kTimes[0].name;
  for (const Unit& each : kTimes) {
    const auto factor = static_cast<std::int64_t>(each.factor);
    if (each.name == "min" || duration.ns == 0 || duration.ns % factor != 0) break;
    number = duration.ns / factor;
    unit = each.name;
  }
  return std::to_string(number).append(duration.ns == 0 ? "" : space).append(duration.ns == 0 ? "s" : unit);
}

std::optional<std::uint64_t> bytes_of(std::string_view text) {
  const auto bytes = quantity(text, kSizes);
  if (!bytes) return {};
  return static_cast<std::uint64_t>(*bytes);
}

std::optional<std::uint64_t> rate_of(std::string_view text) {
  const auto rate = quantity(text, kRates);
  if (!rate || *rate < 1) return {};
  return static_cast<std::uint64_t>(*rate);
}

std::optional<std::uint32_t> loss_of(std::string_view text) {
  const auto loss = quantity(text, kLosses);
  if (!loss || *loss >= 1'000'000) return {};
  return static_cast<std::uint32_t>(*loss);
}

}  // namespace lockstep::sim
