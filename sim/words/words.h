// Texts of people, word by word.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::sim {

// "a b, c": the words between spaces and commas.
inline std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find_first_of(" ,", at), text.size());
    if (end > at) words.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

inline std::optional<std::uint64_t> number_of(std::string_view digits) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (digits.empty() || error != std::errc{} || end != digits.data() + digits.size()) return {};
  return value;
}

// The value of an enumeration with `count` values that has this name.
template <typename T, typename Name>
std::optional<T> named(std::string_view word, std::uint8_t count, Name&& name) {
  for (std::uint8_t i = 0; i < count; ++i) {
    if (name(static_cast<T>(i)) == word) return static_cast<T>(i);
  }
  return {};
}
template <typename T>
std::optional<T> named(std::string_view word, std::uint8_t count) {
  return named<T>(word, count, [](T value) { return name_of(value); });
}

}  // namespace lockstep::sim
