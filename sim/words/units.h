// Quantities as people write them: "200ms", "64KiB", "100Mbit/s".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/time.h"

namespace lockstep::sim {

// A whole or decimal number and ns, us, ms, s, min or h.
std::optional<Duration> duration_of(std::string_view text);
// "90s", "1500ms": in the largest unit of which it is a whole number; `space` goes between the two.
std::string words_of(Duration duration, std::string_view space = "");
std::string text_of(Instant at);  // "1.234567s"
// A number and nothing (bytes), B, KiB, MiB or GiB.
std::optional<std::uint64_t> bytes_of(std::string_view text);
// Bytes per second: a number and kB/s, MB/s, GB/s, kbit/s, Mbit/s or Gbit/s, powers of ten, as for lines.
std::optional<std::uint64_t> rate_of(std::string_view text);
// Millionths, below all: a number and %.
std::optional<std::uint32_t> loss_of(std::string_view text);

// ---- for people: three digits, and a unit that suits them ----

std::string short_text(Duration duration);    // "1.43 s", "90.5 ms"
std::string short_size(std::uint64_t bytes);  // "16 MiB", "3.81 MiB", "100 bytes"
std::string short_rate(double bytes_per_s);   // "2.34 MB/s"

}  // namespace lockstep::sim
