// Converts values to bytes and back, with one list of fields for both directions. Recordings are made of these bytes.
// This file does not know which classes are saved.
//
// A class with state has a member `archive(a)` that lists its fields: a.all(first_, second_). A plain struct has a list
// of fields like the structs of the wire (wire/fields.h, archive/fields.h). Numbers take as many bytes as they need.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "core/wire/fields.h"

namespace lockstep::archive {

using wire::Is;
using wire::kIsNumber;

template <typename T, typename Archive>
concept HasState = requires(T& value, Archive& a) {
  value.archive(a);
};
template <typename T, typename Archive>
concept OfTheWire = requires(T& value, Archive& a) {
  wire::fields(a, value);
};

// Maps small numbers of either sign to small unsigned numbers.
constexpr std::uint64_t zigzag(std::int64_t value) {
  return (static_cast<std::uint64_t>(value) << 1U) ^ static_cast<std::uint64_t>(value >> 63U);
}
constexpr std::int64_t unzigzag(std::uint64_t value) {
  return static_cast<std::int64_t>((value >> 1U) ^ (~(value & 1U) + 1));
}

class Saver {
 public:
  static constexpr bool kLoads = false;

  explicit Saver(std::vector<std::byte>& out) : out_(out) {}

  template <typename... T>
  void all(const T&... values) {
    (put(values), ...);
  }
  // Called by lists of fields; the limits are meant for the reader.
  template <typename T>
  void operator()(std::string_view, const T& field) {
    put(field);
  }
  template <typename T, typename Most>
  void operator()(std::string_view, const T& field, Most) {
    put(field);
  }

  void bytes(std::span<const std::byte> raw) { out_.insert(out_.end(), raw.begin(), raw.end()); }
  void number(std::uint64_t value) {
    while (value >= 0x80) {
      out_.push_back(static_cast<std::byte>(value | 0x80U));
      value >>= 7U;
    }
    out_.push_back(static_cast<std::byte>(value));
  }

 private:
  template <typename T>
  void put(const T& value) {
    if constexpr (std::same_as<T, std::byte>) {
      out_.push_back(value);
    } else if constexpr (std::same_as<T, bool>) {
      out_.push_back(value ? std::byte{1} : std::byte{0});
    } else if constexpr (std::unsigned_integral<T>) {
      number(value);
    } else if constexpr (std::signed_integral<T>) {
      number(zigzag(value));
    } else if constexpr (std::same_as<T, float>) {
      number(std::bit_cast<std::uint32_t>(value));
    } else if constexpr (std::is_enum_v<T>) {
      put(static_cast<std::underlying_type_t<T>>(value));
    } else if constexpr (kIsNumber<T>) {
      put(value.value);
    } else if constexpr (std::same_as<T, Duration> || std::same_as<T, Instant>) {
      put(value.ns);
    } else if constexpr (HasState<T, Saver>) {
      const_cast<T&>(value).archive(*this);  // writes only when an archive loads
    } else if constexpr (OfTheWire<const T, Saver>) {
      wire::fields(*this, value);
    } else {
      fields(*this, value);
    }
  }
  void put(const std::string& text) {
    number(text.size());
    bytes(std::as_bytes(std::span(text)));
  }
  void put(const std::span<const std::byte>& raw) {
    number(raw.size());
    bytes(raw);
  }
  void put(const std::vector<std::byte>& list) { put(std::span(list)); }
  template <typename List>
  void put_each(const List& list) {
    number(list.size());
    for (const auto& entry : list) put(entry);
  }
  template <typename T>
  void put(const std::vector<T>& list) {
    put_each(list);
  }
  template <typename T>
  void put(const std::span<const T>& list) {
    put_each(list);
  }
  template <typename T>
  void put(const std::deque<T>& list) {
    put_each(list);
  }
  template <typename K, typename V>
  void put(const std::map<K, V>& list) {
    put_each(list);
  }
  template <typename T>
  void put(const std::set<T>& list) {
    put_each(list);
  }
  template <typename T, std::size_t N>
  void put(const std::array<T, N>& list) {
    for (const T& entry : list) put(entry);
  }
  template <typename A, typename B>
  void put(const std::pair<A, B>& pair) {
    all(pair.first, pair.second);
  }
  template <typename... T>
  void put(const std::tuple<T...>& tuple) {
    std::apply([this](const T&... entries) { all(entries...); }, tuple);
  }
  template <typename T>
  void put(const std::optional<T>& value) {
    put(value.has_value());
    if (value) put(*value);
  }
  template <typename T>
  void put(const std::unique_ptr<T>& value) {
    put(value != nullptr);
    if (value) put(*value);
  }
  template <typename T>
  void put(const std::shared_ptr<const T>& value) {
    put(value != nullptr);
    if (value) put(*value);
  }
  void put(const Error& error) { all(error.status, error.text); }
  template <typename T>
  void put(const Result<T>& result) {
    put(result.ok());
    if (result.ok()) {
      put(*result);
    } else {
      put(result.error());
    }
  }

  std::vector<std::byte>& out_;
};

// Reads the output of a Saver. Invariant: whatever the bytes are, the loader reads within them and allocates at most a
// multiple of their size. After the first error every field keeps its default.
class Loader {
 public:
  static constexpr bool kLoads = true;

  explicit Loader(std::span<const std::byte> bytes) : rest_(bytes) {}

  [[nodiscard]] bool failed() const { return failed_; }
  void fail() {
    failed_ = true;
    rest_ = {};
  }
  [[nodiscard]] std::span<const std::byte> rest() const { return rest_; }

  template <typename... T>
  void all(T&... values) {
    (get(values), ...);
  }
  template <typename T>
  void operator()(std::string_view, T& field) {
    get(field);
  }
  template <typename T, typename Most>
  void operator()(std::string_view, T& field, Most) {
    get(field);
  }

  std::span<const std::byte> bytes(std::uint64_t count) {
    if (count > rest_.size()) {
      fail();
      return {};
    }
    const auto taken = rest_.first(static_cast<std::size_t>(count));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }
  std::uint64_t number() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<std::uint64_t>(one());
      if (shift == 63 && byte > 1) break;
      value |= (byte & 0x7fU) << shift;
      if (byte < 0x80) return value;
    }
    fail();
    return 0;
  }
  // The number of entries of a list. Every entry takes at least one byte.
  std::size_t count() {
    const std::uint64_t value = number();
    if (value > rest_.size()) fail();
    return failed_ ? 0 : static_cast<std::size_t>(value);
  }

  // A map whose values are constructed by the caller: `make(key)` returns the place of the new value.
  template <typename K, typename V, typename Make>
  void entries(const std::map<K, V>&, Make make) {
    for (std::size_t n = count(); n > 0 && !failed_; --n) {
      K key{};
      get(key);
      get(make(key));
    }
  }

 private:
  std::byte one() {
    if (rest_.empty()) {
      fail();
      return {};
    }
    const std::byte byte = rest_.front();
    rest_ = rest_.subspan(1);
    return byte;
  }

  template <typename T>
  void get(T& value) {
    if constexpr (std::same_as<T, std::byte>) {
      value = one();
    } else if constexpr (std::same_as<T, bool>) {
      const std::byte byte = one();
      if (byte > std::byte{1}) fail();
      value = byte == std::byte{1};
    } else if constexpr (std::unsigned_integral<T>) {
      const std::uint64_t wide = number();
      value = static_cast<T>(wide);
      if (value != wide) fail();
    } else if constexpr (std::signed_integral<T>) {
      value = unzigzag(number());
    } else if constexpr (std::same_as<T, float>) {
      std::uint32_t plain{};
      get(plain);
      value = std::bit_cast<float>(plain);
    } else if constexpr (std::is_enum_v<T>) {
      std::underlying_type_t<T> plain{};
      get(plain);
      value = static_cast<T>(plain);
      if constexpr (requires { wire::is_known(value); }) {
        if (!wire::is_known(value)) fail();
      }
    } else if constexpr (kIsNumber<T>) {
      get(value.value);
    } else if constexpr (std::same_as<T, Duration> || std::same_as<T, Instant>) {
      get(value.ns);
    } else if constexpr (HasState<T, Loader>) {
      value.archive(*this);
    } else if constexpr (OfTheWire<T, Loader>) {
      wire::fields(*this, value);
    } else {
      fields(*this, value);
    }
    if constexpr (std::is_arithmetic_v<T>) {
      if (failed_) value = T{};
    }
  }
  void get(std::string& text) {
    const auto raw = bytes(count());
    text.resize(raw.size());
    if (!raw.empty()) std::memcpy(text.data(), raw.data(), raw.size());
  }
  void get(std::vector<std::byte>& list) {
    const auto raw = bytes(count());
    list.assign(raw.begin(), raw.end());
  }
  template <typename List>
  void append_each(List& list) {
    list.clear();
    for (std::size_t n = count(); n > 0 && !failed_; --n) get(list.emplace_back());
  }
  template <typename T>
  void get(std::vector<T>& list) {
    append_each(list);
  }
  template <typename T>
  void get(std::deque<T>& list) {
    append_each(list);
  }
  template <typename K, typename V>
  void get(std::map<K, V>& list) {
    list.clear();
    entries(list, [&](const K& key) -> V& { return list[key]; });
  }
  template <typename T>
  void get(std::set<T>& list) {
    list.clear();
    for (std::size_t n = count(); n > 0 && !failed_; --n) {
      T entry{};
      get(entry);
      list.insert(std::move(entry));
    }
  }
  template <typename T, std::size_t N>
  void get(std::array<T, N>& list) {
    for (T& entry : list) get(entry);
  }
  template <typename A, typename B>
  void get(std::pair<A, B>& pair) {
    all(pair.first, pair.second);
  }
  template <typename... T>
  void get(std::tuple<T...>& tuple) {
    std::apply([this](T&... entries_of) { all(entries_of...); }, tuple);
  }
  template <typename T>
  void get(std::optional<T>& value) {
    if (there()) {
      get(value.emplace(T{}));
    } else {
      value.reset();
    }
  }
  template <typename T>
  void get(std::unique_ptr<T>& value) {
    value = there() ? std::make_unique<T>() : nullptr;
    if (value) get(*value);
  }
  template <typename T>
  void get(std::shared_ptr<const T>& value) {
    value = nullptr;
    if (!there()) return;
    auto made = std::make_shared<T>();
    get(*made);
    value = std::move(made);
  }
  void get(Error& error) { all(error.status, error.text); }
  template <typename T>
  void get(Result<T>& result) {
    if (there()) {
      T value{};
      get(value);
      result = std::move(value);
    } else {
      Error error;
      get(error);
      result = std::move(error);
    }
  }
  [[nodiscard]] bool there() {
    bool is = false;
    get(is);
    return is && !failed_;
  }

  std::span<const std::byte> rest_;
  bool failed_ = false;
};

}  // namespace lockstep::archive
