// Arbitrary messages for rapidcheck, generated from the lists of fields: new messages are covered automatically.
#pragma once

#include <rapidcheck.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/base/text.h"
#include "core/wire/codec.h"
#include "core/wire/fields.h"

namespace lockstep::test {

// Visits fields and fills each with an arbitrary value that may be sent. Only inside rc::gen::exec. Lists are short
// (their limits have separate tests), and numbers are small, large or sometimes the largest.
class FieldFiller {
 public:
  template <typename T>
  void operator()(std::string_view name, T& field) {
    if constexpr (std::same_as<T, bool>) {
      field = *rc::gen::arbitrary<bool>();
    } else if constexpr (std::unsigned_integral<T>) {
      field = *rc::gen::oneOf(rc::gen::arbitrary<T>(), rc::gen::element<T>(0, static_cast<T>(-1)));
    } else if constexpr (std::is_enum_v<T>) {
      using Value = std::underlying_type_t<T>;
      field = static_cast<T>(*rc::gen::suchThat(rc::gen::inRange<Value>(0, 32),
                                                [](Value v) { return wire::is_known(static_cast<T>(v)); }));
    } else if constexpr (wire::kIsNumber<T>) {
      (*this)(name, field.value);
    } else if constexpr (std::same_as<T, Duration>) {
      field.ns = *rc::gen::inRange<std::int64_t>(0, wire::kMaxDuration.ns + 1);
    } else {
      wire::fields(*this, field);
      mend(field);
    }
  }

  template <typename T>
  void operator()(std::string_view name, T& number, std::uint32_t most) {
    if constexpr (wire::kIsNumber<T>) {
      (*this)(name, number.value, most);
    } else {
      number = static_cast<T>(*rc::gen::inRange<std::uint64_t>(0, std::uint64_t{most} + 1));
    }
  }

  template <typename T>
  void operator()(std::string_view name, std::vector<T>& list, std::uint32_t) {
    list.resize(*rc::gen::inRange<std::size_t>(0, 5));
    for (T& entry : list) (*this)(name, entry);
  }

  void operator()(std::string_view, std::string& text, std::size_t most) {
    text = *rc::gen::arbitrary<std::string>();
    text = plain(text.substr(0, most));
  }

 private:
  // Satisfies fault().
  template <typename T>
  static void mend(T&) {}
  static void mend(io::Address& m) {
    using Family = io::Address::Family;
    const std::size_t used = m.family == Family::kV6 ? 16 : m.family == Family::kV4 ? 4 : 0;
    std::fill(m.bytes.begin() + static_cast<std::ptrdiff_t>(used), m.bytes.end(), std::uint8_t{0});
  }
  static void mend(wire::Descriptor& m) {
    if (m.collective != wire::Collective::kBroadcast) m.root = {};
    if (wire::has_blocks(m.collective)) m.count = m.layout = 0;
    const bool all_reduces = m.collective == wire::Collective::kAllReduce;
    const bool plain = m.formats.native() && !m.weighted;
    const bool in_grid = m.algorithm == wire::Algorithm::kGrid && wire::has_choice(m.collective);
    if (!all_reduces && wire::has_owners(m.algorithm) && !in_grid) m.algorithm = wire::Algorithm::kRing;
    if (all_reduces && m.type == DataType::kF32 && !plain && m.algorithm == wire::Algorithm::kGrid)
      m.algorithm = wire::Algorithm::kDirect;
    if (!wire::has_choice(m.collective)) m.algorithm = wire::Algorithm::kRing;
    if (all_reduces && m.type == DataType::kF32) return;
    m.formats = {};
    m.weighted = false;
  }
  template <typename T>
  requires requires(T& m) { m.status = Status::kOk; } &&(!std::same_as<T, wire::Verdict>)static void mend(T& m) {
    if (m.status == Status::kOk) m.status = Status::kAborted;
  }
  static void mend(wire::Link& m) {
    m.stripes = std::max<std::uint16_t>(m.stripes, 1);
    m.stripe.value = static_cast<std::uint16_t>(m.stripe.value % m.stripes);
  }
};

// A struct that has a field list: Descriptor, Segment, Propose, ...
template <typename T>
rc::Gen<T> arbitrary_struct() {
  return rc::gen::exec([] {
    T value;
    FieldFiller()("", value);
    return value;
  });
}

template <std::size_t... I>
rc::Gen<wire::Message> arbitrary_message_of(std::index_sequence<I...>) {
  return rc::gen::oneOf(rc::gen::map(arbitrary_struct<std::variant_alternative_t<I, wire::Message>>(),
                                     [](auto m) { return wire::Message(std::move(m)); })...);
}

// Any message, Segment's header included.
inline rc::Gen<wire::Message> arbitrary_message() {
  return arbitrary_message_of(std::make_index_sequence<std::variant_size_v<wire::Message>>{});
}

// Any control message: not a Segment, which has a payload.
inline rc::Gen<wire::Message> arbitrary_control_message() {
  return rc::gen::suchThat(arbitrary_message(),
                           [](const wire::Message& m) { return !std::holds_alternative<wire::Segment>(m); });
}

}  // namespace lockstep::test
