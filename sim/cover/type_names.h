// The names of a variant's alternatives, as they are written in its declaration: the compiler knows them.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

namespace lockstep::sim {

// "Propose" for wire::Propose.
template <typename T>
constexpr std::string_view type_name() {
  // GCC: "... [with T = lockstep::wire::Propose; std::string_view = ...]"; clang: "... [T = lockstep::wire::Propose]".
  constexpr std::string_view kPretty = __PRETTY_FUNCTION__;
  constexpr std::size_t kBegin = kPretty.find("T = ") + 4;
  constexpr std::size_t kEnd = kPretty.find_first_of(";]", kBegin);
  constexpr std::string_view kWhole = kPretty.substr(kBegin, kEnd - kBegin);
  return kWhole.substr(kWhole.rfind(':') + 1);  // npos + 1: all of it
}

template <typename Variant>
constexpr auto type_names() {
  return []<std::size_t... I>(std::index_sequence<I...>) {
    return std::array<std::string_view, sizeof...(I)>{type_name<std::variant_alternative_t<I, Variant>>()...};
  }
  (std::make_index_sequence<std::variant_size_v<Variant>>());
}

// The place of an alternative in its variant.
template <typename T, typename Variant>
constexpr std::size_t index_in() {
  return []<std::size_t... I>(std::index_sequence<I...>) {
    return ((std::is_same_v<T, std::variant_alternative_t<I, Variant>> ? I : 0) + ...);
  }
  (std::make_index_sequence<std::variant_size_v<Variant>>());
}

}  // namespace lockstep::sim
