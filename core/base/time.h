// Time as an argument: integer nanoseconds, never read from a clock in core.
#pragma once

#include <compare>
#include <cstdint>

namespace lockstep {

struct Duration {
  std::int64_t ns = 0;

  constexpr auto operator<=>(const Duration&) const = default;
  constexpr Duration operator+(Duration other) const { return {ns + other.ns}; }
  constexpr Duration operator-(Duration other) const { return {ns - other.ns}; }
  constexpr Duration operator*(std::int64_t factor) const { return {ns * factor}; }
  constexpr Duration operator/(std::int64_t divisor) const { return {ns / divisor}; }
  [[nodiscard]] constexpr double seconds() const { return static_cast<double>(ns) * 1e-9; }
};

constexpr Duration nanoseconds(std::int64_t n) { return {n}; }
constexpr Duration microseconds(std::int64_t n) { return {n * 1'000}; }
constexpr Duration milliseconds(std::int64_t n) { return {n * 1'000'000}; }
constexpr Duration seconds(std::int64_t n) { return {n * 1'000'000'000}; }

// A moment on the driver's monotonic clock. Only differences have a meaning.
struct Instant {
  std::int64_t ns = 0;

  constexpr auto operator<=>(const Instant&) const = default;
  constexpr Instant operator+(Duration d) const { return {ns + d.ns}; }
  constexpr Instant operator-(Duration d) const { return {ns - d.ns}; }
  constexpr Duration operator-(Instant other) const { return {ns - other.ns}; }
};

// "No deadline": later than any moment that a driver reaches.
inline constexpr Instant kNever{INT64_MAX};

}  // namespace lockstep
