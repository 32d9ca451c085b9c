// Bytes as choices: what to do next, with which numbers, and which typed message to say. A fuzzer gives the bytes, or a
// seed. Numbers are often ones that mean something at the moment, sometimes small, sometimes as large as they can be.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/text.h"
#include "core/wire/fields.h"

namespace lockstep::fuzz {

class Choices {
 public:
  explicit Choices(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
  [[nodiscard]] bool empty() const { return bytes_.empty(); }
  // The next byte; 0 when there is none.
  std::uint8_t byte() {
    if (bytes_.empty()) return 0;
    const std::uint8_t value = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return value;
  }
  std::size_t below(std::size_t bound) { return byte() % bound; }
  bool one_in(std::size_t n) { return below(n) == 0; }
  template <typename T>
  const T& of(const std::vector<T>& list) {
    return list[below(list.size())];
  }

 private:
  std::span<const std::uint8_t> bytes_;
};

// What means something now.
struct Known {
  std::vector<PeerId> peers;
  std::uint64_t cohort = 1;
  std::uint64_t view = 1;
  std::uint64_t proposal = 1;
  std::uint32_t length = 16;  // of a segment
};

// Visits the fields of a message and chooses them.
class ChosenFields {
 public:
  ChosenFields(Choices& choices, const Known& known) : choices_(choices), known_(known) {}

  template <typename T>
  void operator()(std::string_view name, T& field) {
    if constexpr (std::same_as<T, bool>) {
      field = choices_.one_in(2);
    } else if constexpr (std::unsigned_integral<T>) {
      field = static_cast<T>(number(name));
    } else if constexpr (std::is_enum_v<T>) {
      field = static_cast<T>(choices_.below(32));
      if (!wire::is_known(field)) field = T{};
    } else if constexpr (wire::kIsNumber<T>) {
      (*this)(name, field.value);
    } else if constexpr (std::same_as<T, Duration>) {
      field.ns = static_cast<std::int64_t>(number(name) % static_cast<std::uint64_t>(wire::kMaxDuration.ns));
    } else if constexpr (std::same_as<T, PeerId>) {
      field = choices_.one_in(16) ? PeerId{} : choices_.of(known_.peers);
    } else if constexpr (std::same_as<T, io::KeyDigest>) {
      field.bytes.fill(choices_.one_in(8) ? choices_.byte() : 0);
    } else {
      wire::fields(*this, field);
      mend(field);
    }
  }
  template <typename T>
  void operator()(std::string_view name, T& field, std::uint32_t most) {
    (*this)(name, field);
    if constexpr (wire::kIsNumber<T>) {
      field.value = std::min<typename T::Value>(field.value, static_cast<typename T::Value>(most));
    } else {
      field = std::min<T>(field, static_cast<T>(most));
    }
  }
  template <typename T>
  void operator()(std::string_view name, std::vector<T>& list, std::uint32_t most) {
    list.resize(std::min<std::size_t>(choices_.below(6), most));
    for (T& entry : list) (*this)(name, entry);
  }
  void operator()(std::string_view, std::string& text, std::size_t) { text.assign(choices_.below(8), 'x'); }

 private:
  std::uint64_t number(std::string_view name) {
    const std::uint8_t how = choices_.byte();
    if (how < 150) {
      if (name == "cohort") return known_.cohort;
      if (name == "attempt" || name == "number") return known_.view;
      if (name == "proposal") return known_.proposal;
      if (name == "group" || name == "gang" || name == "use") return 0;
      if (name == "length") return known_.length;
    }
    if (how >= 250) return UINT64_MAX - how % 2U;
    if (how >= 240) return std::uint64_t{1} << choices_.below(64);
    return name == "tag" || name == "index" || name == "rank" ? how % 4U : how % 7U;
  }

  template <typename T>
  void mend(T& m) {
    if constexpr (requires { m.status = Status::kOk; }) {
      if (!std::same_as<T, wire::Verdict> && m.status == Status::kOk) m.status = Status::kAborted;
    }
  }
  void mend(io::Address& m) {
    m = {};
    if (choices_.one_in(8)) return;
    m = {io::Address::Family::kV4, {10, 0, 0, choices_.byte()}, 4000};
  }
  static void mend(wire::Descriptor& m) {
    if (!wire::has_root(m.collective)) m.root = {};
    if (wire::has_blocks(m.collective)) m.count = m.layout = 0;
    if (m.collective == wire::Collective::kAllReduce && m.type == DataType::kF32) {
      if (m.algorithm == wire::Algorithm::kGrid) m.algorithm = wire::Algorithm::kDirect;  // it may be encoded
      return;
    }
    m.formats = {};
    if (m.algorithm != wire::Algorithm::kGrid || !wire::has_choice(m.collective)) m.algorithm = wire::Algorithm::kRing;
    m.weighted = false;
  }
  static void mend(wire::Link& m) {
    m.stripes = std::clamp<std::uint16_t>(m.stripes, 1, kMaxStripes);
    m.stripe.value = static_cast<std::uint16_t>(m.stripe.value % m.stripes);
  }

  Choices& choices_;
  const Known& known_;
};

// Any message but a Segment, which has a payload.
inline wire::Message chosen_message(Choices& choices, const Known& known) {
  constexpr std::size_t kKinds = std::variant_size_v<wire::Message>;
  const std::size_t kind = choices.below(kKinds);
  wire::Message message;
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    ((I == kind ? static_cast<void>(message.emplace<I>()) : static_cast<void>(0)), ...);
  }
  (std::make_index_sequence<kKinds>{});
  if (std::holds_alternative<wire::Segment>(message)) message = wire::Heartbeat{};
  ChosenFields fields(choices, known);
  std::visit([&](auto& m) { fields("", m); }, message);
  return message;
}

template <typename T>
T chosen(Choices& choices, const Known& known) {
  T value;
  ChosenFields fields(choices, known);
  fields("", value);
  return value;
}

}  // namespace lockstep::fuzz
