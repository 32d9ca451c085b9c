#include "sim/flight/tell.h"

#include <fmt/format.h>

#include <algorithm>
#include <concepts>
#include <set>
#include <span>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "core/base/text.h"
#include "core/coordinator/fields.h"
#include "core/peer/fields.h"
#include "core/trace/event.h"
#include "core/wire/codec.h"
#include "core/wire/describe.h"
#include "sim/flight/frames.h"
#include "sim/workload/text.h"

namespace lockstep::sim {
namespace {

constexpr std::size_t kMostOfAList = 8;

// ---- the names of alternatives ----

template <typename T>
constexpr std::string_view kind_of() {
  // "...<T = lockstep::io::ReadDone>": the last word of the type.
  std::string_view name = __PRETTY_FUNCTION__;
  name = name.substr(name.find("T = ") + 4);
  name = name.substr(0, name.find_first_of(";]"));
  return name.substr(name.rfind(':') + 1);
}

// ---- fields ----

class FieldsTeller {
 public:
  explicit FieldsTeller(std::string& out) : out_(out) {}

  template <typename T>
  void operator()(std::string_view name, const T& field) {
    out_ += first_ ? "" : ", ";
    first_ = false;
    out_.append(name).append(": ");
    tell(name, field);
  }
  template <typename T, typename Most>
  void operator()(std::string_view name, const T& field, Most) {
    (*this)(name, field);
  }

 private:
  template <typename T>
  void tell(std::string_view name, const T& field) {
    if constexpr (std::same_as<T, bool>) {
      out_ += field ? "true" : "false";
    } else if constexpr (std::integral<T>) {
      const bool digest = name == "hash" || name == "checksum" || name == "expected" || name == "layout";
      out_ += digest ? hex(static_cast<std::uint64_t>(field)) : fmt::format("{}", field);
    } else if constexpr (std::floating_point<T>) {
      out_ += fmt::format("{}", field);
    } else if constexpr (std::same_as<T, Status>) {
      out_ += status_name(field);
    } else if constexpr (requires { name_of(field); }) {
      out_ += name_of(field);
    } else if constexpr (std::is_enum_v<T>) {
      out_ += fmt::format("{}", static_cast<std::underlying_type_t<T>>(field));
    } else if constexpr (wire::kIsNumber<T>) {
      out_ += fmt::format("{}", field.value);
    } else {
      out_ += '{';
      FieldsTeller inner(out_);
      if constexpr (archive::OfTheWire<const T, FieldsTeller>) {
        wire::fields(inner, field);
      } else {
        using archive::fields;  // and the lists beside the structs of the machines
        fields(inner, field);
      }
      out_ += '}';
    }
  }

  template <typename T>
  void tell(std::string_view name, const std::optional<T>& field) {
    if (!field) {
      out_ += "none";
    } else {
      tell(name, *field);
    }
  }
  void tell(std::string_view, const PeerId& id) { out_ += sim::text_of(id); }
  void tell(std::string_view, const LinkKey&) { out_ += "(secret)"; }
  void tell(std::string_view, const Duration& duration) { out_ += fmt::format("{} ns", duration.ns); }
  void tell(std::string_view, const RoundKey& round) { out_ += sim::text_of(round); }
  void tell(std::string_view, const io::Address& address) { out_ += address.text(); }
  void tell(std::string_view, const io::KeyDigest& key) {
    out_ += key.is_none() ? "none" : "";
    for (const std::uint8_t byte : key.bytes) out_ += key.is_none() ? "" : fmt::format("{:02x}", byte);
  }
  void tell(std::string_view name, const io::Identity& identity) {
    tell(name, identity.key);
    if (!identity.certificate.empty()) out_ += fmt::format(" with certificate {}", plain(identity.certificate));
    if (!identity.doubt.empty()) out_ += fmt::format(" (in doubt: {})", plain(identity.doubt));
    if (identity.token == io::TokenId{}) return;
    out_ += fmt::format(" with token {}{}", hex(identity.token.value), identity.proved ? "" : " (not proved)");
  }
  void tell(std::string_view, const Instant& instant) { out_ += fmt::format("{} ns", instant.ns); }
  void tell(std::string_view, const BufferRef& ref) {
    out_ += ref.length == 0 ? "none" : fmt::format("{}[{} +{}]", ref.id.value, ref.offset, ref.length);
  }
  void tell(std::string_view, const std::string& text) { out_ += fmt::format("'{}'", plain(text)); }
  void tell(std::string_view, const std::span<const std::byte>& bytes) {
    out_ += fmt::format("{} bytes", bytes.size());
  }
  template <typename T>
  void tell(std::string_view name, const std::vector<T>& list) {
    tell(name, std::span<const T>(list));
  }
  template <typename T>
  void tell(std::string_view name, const std::set<T>& list) {
    tell(name, std::vector<T>(list.begin(), list.end()));
  }
  template <typename T>
  void tell(std::string_view name, const std::span<const T>& list) {
    out_ += '[';
    for (std::size_t i = 0; i < std::min(list.size(), kMostOfAList); ++i) {
      out_ += i == 0 ? "" : ", ";
      tell(name, list[i]);
    }
    out_ += list.size() > kMostOfAList ? fmt::format(", and {} more]", list.size() - kMostOfAList) : "]";
  }
  template <typename T>
  void tell(std::string_view name, const std::shared_ptr<const T>& there) {
    if (there) return tell(name, *there);
    out_ += "none";
  }
  template <typename T>
  void tell(std::string_view name, const Result<T>& result) {
    if (result.ok()) return tell(name, *result);
    out_ += fmt::format("{}: {}", status_name(result.error().status), plain(result.error().text));
  }

  std::string& out_;
  bool first_ = true;
};

// ---- messages on the wire ----

// The messages among bytes that may begin or end inside of one, or with the trailer of a segment.
void tell_frames(std::span<const std::byte> bytes, std::string& out) {
  const auto say = [&](std::string_view what) { out.append(out.empty() ? "" : ", ").append(what); };
  while (!bytes.empty()) {
    if (take_preamble(bytes)) {
      say("Preamble");
    } else if (const auto message = take_frame(bytes)) {
      say(wire::describe(*message));
    } else if (auto behind = bytes.subspan(std::min(bytes.size(), wire::kTrailerBytes));
               bytes.size() == wire::kTrailerBytes || take_frame(behind)) {
      say("the end of a segment");
      bytes = bytes.subspan(wire::kTrailerBytes);
    } else {
      return say(fmt::format("{} bytes", bytes.size()));
    }
  }
}

template <typename Variant>
std::string alternative(const Variant& variant) {
  return std::visit(
      [](const auto& one) {
        std::string out(kind_of<std::remove_cvref_t<decltype(one)>>());
        out += '{';
        FieldsTeller teller(out);
        using archive::fields;
        fields(teller, one);
        return out + '}';
      },
      variant);
}

template <typename Input>
std::string tell_record(const flight::Record<Input>& record) {
  std::string frames;
  std::span<const std::byte> rest(record.landed);
  std::size_t end = 0;
  for (const flight::Hole& hole : record.holes) {
    tell_frames(rest.subspan(end, hole.at - end), frames);
    frames += fmt::format("{}{} bytes of payload", frames.empty() ? "" : ", ", hole.bytes);
    end = hole.at + hole.bytes;
  }
  tell_frames(rest.subspan(end), frames);
  return alternative(record.input) + (frames.empty() ? "" : ": ") + frames;
}

template <typename Effect>
std::string tell_effect(const Effect& effect) {
  if (const auto* event = std::get_if<trace::Event>(&effect)) return "notes " + trace::to_line(*event);
  std::string frames;
  if (const auto* write = std::get_if<io::Write>(&effect)) {
    for (const io::Slice& slice : write->slices.all()) tell_frames(slice.bytes, frames);
  }
  return alternative(effect) + (frames.empty() ? "" : ": ") + frames;
}

}  // namespace

std::string text_of(const flight::Record<peer::Input>& record) { return tell_record(record); }
std::string text_of(const flight::Record<coordinator::Input>& record) { return tell_record(record); }
std::string text_of(const peer::Effect& effect) { return tell_effect(effect); }
std::string text_of(const coordinator::Effect& effect) { return tell_effect(effect); }

}  // namespace lockstep::sim
