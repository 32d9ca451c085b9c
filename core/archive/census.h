// Counts what a machine holds, by the lists of fields of recordings (archive.h). A container that is added to such a
// list, as check_fields.sh demands, is counted, too.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "core/archive/archive.h"
#include "core/base/result.h"

namespace lockstep::archive {

class Census {
 public:
  static constexpr bool kLoads = false;

  template <typename... T>
  void all(const T&... values) {
    (count(values), ...);
  }
  template <typename T>
  void operator()(std::string_view, const T& field) {
    count(field);
  }
  template <typename T, typename Most>
  void operator()(std::string_view, const T& field, Most) {
    count(field);
  }
  // Adds memory that no list names.
  void kept(std::size_t bytes) { bytes_ += bytes; }

  [[nodiscard]] std::size_t entries() const { return entries_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  // The bytes of a node of a map or a set, without its entry: three pointers and a colour.
  static constexpr std::size_t kNodeBytes = 4 * sizeof(void*);

  template <typename T>
  void count(const T& value) {
    if constexpr (std::same_as<T, std::byte> || std::is_arithmetic_v<T> || std::is_enum_v<T> || kIsNumber<T> ||
                  std::same_as<T, Duration> || std::same_as<T, Instant>) {
      return;
    } else if constexpr (HasState<T, Census>) {
      const_cast<T&>(value).archive(*this);  // writes only when an archive loads
    } else if constexpr (OfTheWire<const T, Census>) {
      wire::fields(*this, value);
    } else {
      fields(*this, value);
    }
  }
  void count(const std::string& text) {
    if (text.capacity() >= sizeof(std::string)) bytes_ += text.capacity();
  }
  void count(const std::span<const std::byte>&) {}
  void count(const std::vector<std::byte>& list) { bytes_ += list.capacity(); }
  template <typename List>
  void count_each(const List& list, std::size_t bytes_each) {
    entries_ += list.size();
    bytes_ += list.size() * bytes_each;
    for (const auto& entry : list) count(entry);
  }
  template <typename T>
  void count(const std::vector<T>& list) {
    count_each(list, 0);
    bytes_ += list.capacity() * sizeof(T);
  }
  template <typename T>
  void count(const std::span<const T>& list) {
    for (const T& entry : list) count(entry);
  }
  template <typename T>
  void count(const std::deque<T>& list) {
    count_each(list, sizeof(T));
  }
  template <typename K, typename V>
  void count(const std::map<K, V>& list) {
    count_each(list, sizeof(std::pair<const K, V>) + kNodeBytes);
  }
  template <typename T>
  void count(const std::set<T>& list) {
    count_each(list, sizeof(T) + kNodeBytes);
  }
  template <typename T, std::size_t N>
  void count(const std::array<T, N>& list) {
    for (const T& entry : list) count(entry);
  }
  template <typename A, typename B>
  void count(const std::pair<A, B>& pair) {
    all(pair.first, pair.second);
  }
  template <typename... T>
  void count(const std::tuple<T...>& tuple) {
    std::apply([this](const T&... entries) { all(entries...); }, tuple);
  }
  template <typename T>
  void count(const std::optional<T>& value) {
    if (value) count(*value);
  }
  template <typename T>
  void count(const std::unique_ptr<T>& value) {
    if (!value) return;
    bytes_ += sizeof(T);
    count(*value);
  }
  template <typename T>
  void count(const std::shared_ptr<const T>& value) {
    if (!value) return;
    bytes_ += sizeof(T);
    count(*value);
  }
  void count(const Error& error) { count(error.text); }
  template <typename T>
  void count(const Result<T>& result) {
    if (result.ok()) {
      count(*result);
    } else {
      count(result.error());
    }
  }

  std::size_t entries_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace lockstep::archive
