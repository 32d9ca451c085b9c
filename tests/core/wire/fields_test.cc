// No struct may have a member that is missing in its list of fields: the member would silently not be sent.
#include "core/wire/fields.h"

#include <gtest/gtest.h>

#include <typeinfo>
#include <variant>

namespace lockstep::wire {
namespace {

// Converts to the type of any member.
struct Anything {
  template <typename T>
  operator T() const;  // NOLINT(google-explicit-constructor): only named, never called
};

template <typename T, typename... Args>
constexpr std::size_t members() {
  if constexpr (requires { T{Args{}..., Anything{}}; }) {
    return members<T, Args..., Anything>();
  } else {
    return sizeof...(Args);
  }
}

struct Count {
  std::size_t fields = 0;
  void operator()(std::string_view, const auto&) { ++fields; }
  void operator()(std::string_view, const auto&, std::size_t) { ++fields; }
};

template <typename T>
void expect_all_listed(const char* name) {
  Count count;
  const T empty;
  fields(count, empty);
  EXPECT_EQ(count.fields, members<T>()) << name << ": its members and its list in core/wire/fields.h differ";
}

template <typename... Ts>
void expect_all_listed(const std::variant<Ts...>&) {
  (expect_all_listed<Ts>(typeid(Ts).name()), ...);
}

TEST(Fields, EveryMemberIsListed) {
  expect_all_listed(Message{});
  expect_all_listed<PeerId>("PeerId");
  expect_all_listed<LinkKey>("LinkKey");
  expect_all_listed<RoundKey>("RoundKey");
  expect_all_listed<Formats>("Formats");
  expect_all_listed<Descriptor>("Descriptor");
  expect_all_listed<wire::Member>("Member");
  expect_all_listed<View>("View");
  expect_all_listed<OpenRound>("OpenRound");
  expect_all_listed<Verdict>("Verdict");
  expect_all_listed<RoundStatus>("RoundStatus");
}

}  // namespace
}  // namespace lockstep::wire
