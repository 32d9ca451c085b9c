#include "core/wire/describe.h"

#include <algorithm>
#include <string_view>

#include "core/wire/codec.h"
#include "core/wire/fields.h"

namespace lockstep::wire {
namespace {

constexpr std::size_t kMaxEntries = 8;  // the most entries of a list in one line

std::string hex(std::uint64_t value) {
  std::string digits(16, '0');
  for (auto digit = digits.rbegin(); digit != digits.rend(); ++digit, value >>= 4U) {
    *digit = "0123456789abcdef"[value & 15U];
  }
  return digits;
}

// Without leading zeros.
std::string text_of(PeerId id) {
  const std::string digits = hex(id.high) + hex(id.low);
  return digits.substr(std::min(digits.find_first_not_of('0'), digits.size() - 1));
}

std::string_view name_of(Status status) { return status_name(status); }
std::string_view name_of(Phase phase) {
  constexpr std::string_view kNames[] = {"reduce_scatter", "all_gather", "state", "transfer"};
  return kNames[static_cast<std::size_t>(phase)];
}
std::string_view name_of(LinkUse use) {
  constexpr std::string_view kNames[] = {"ring", "direct", "transfer", "dial_back"};
  return kNames[static_cast<std::size_t>(use)];
}
std::string_view name_of(SendState state) {
  constexpr std::string_view kNames[] = {"held", "freed", "received", "refused", "withdrawn"};
  return kNames[static_cast<std::size_t>(state)];
}

std::string_view name_of(CallStage stage) {
  constexpr std::string_view kNames[] = {"to_come", "called", "over"};
  return kNames[static_cast<std::size_t>(stage)];
}

std::string_view name_of(Outlined of) { return of == Outlined::kManifest ? "manifest" : "contents"; }

std::string counted(std::uint64_t count, std::string_view noun) {
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

// Visits fields and writes them as text: "name: value, name: value".
class Writer {
 public:
  explicit Writer(std::string& out) : out_(out) {}

  template <typename T>
  void operator()(std::string_view name, const T& field) {
    begin(name);
    value(name, field);
  }
  template <typename T>
  void operator()(std::string_view name, const T& field, std::size_t) {
    (*this)(name, field);
  }

 private:
  void begin(std::string_view name) {
    if (!first_) out_ += ", ";
    first_ = false;
    out_.append(name).append(": ");
  }

  template <typename T>
  void value(std::string_view name, const T& field) {
    if constexpr (std::same_as<T, bool>) {
      out_ += field ? "true" : "false";
    } else if constexpr (std::unsigned_integral<T>) {
      out_ += name == "hash" || name == "state_fingerprint" ? hex(field) : std::to_string(field);
    } else if constexpr (std::is_enum_v<T>) {
      out_ += name_of(field);
    } else if constexpr (kIsNumber<T>) {
      out_ += std::to_string(field.value);
    } else {
      out_ += '{';
      Writer inner(out_);
      fields(inner, field);
      out_ += '}';
    }
  }

  template <typename T>
  void value(std::string_view name, const std::vector<T>& list) {
    out_ += '[';
    for (std::size_t i = 0; i < std::min(list.size(), kMaxEntries); ++i) {
      if (i > 0) out_ += ", ";
      value(name, list[i]);
    }
    if (list.size() > kMaxEntries) out_ += ", and " + std::to_string(list.size() - kMaxEntries) + " more";
    out_ += ']';
  }

  // The text comes from another process and must not break the line.
  void value(std::string_view, const std::string& text) {
    out_ += '"';
    for (const char c : text) out_ += static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == '"' ? '?' : c;
    out_ += '"';
  }

  void value(std::string_view, const PeerId& id) { out_ += text_of(id); }
  void value(std::string_view, const LinkKey&) { out_ += "(secret)"; }  // descriptions are logged and sent to others
  void value(std::string_view, const Descriptor& what) { out_ += "(" + describe(what) + ")"; }
  void value(std::string_view, const io::Address& address) { out_ += address.text(); }
  // The first quarter is enough to tell keys apart.
  void value(std::string_view, const io::KeyDigest& key) {
    if (key.is_none()) {
      out_ += "none";
      return;
    }
    std::uint64_t front = 0;
    for (std::size_t i = 0; i < sizeof front; ++i) front = front << 8U | key.bytes[i];
    out_ += hex(front);
  }
  void value(std::string_view, const Duration& duration) { out_ += std::to_string(duration.ns) + "ns"; }
  void value(std::string_view, const RoundKey& key) {
    out_ += "c" + std::to_string(key.cohort.value) + " g" + std::to_string(key.group.value) + " t" +
            std::to_string(key.tag.value) + " #" + std::to_string(key.use);
  }

  std::string& out_;
  bool first_ = true;
};

}  // namespace

std::string describe(const Descriptor& what) {
  const bool moves = what.collective != Collective::kBarrier;
  const bool is_state = what.collective == Collective::kSync;  // the tensors of a state have their own types
  std::string out(name_of(what.collective));
  // A field that the collective does not use is named only if it is set.
  if ((moves && !is_state) || what.type != DataType::kU8) out.append(" ").append(lockstep::name_of(what.type));
  if (reduces(what.collective) || what.op != ReduceOp::kSum) out.append(" ").append(lockstep::name_of(what.op));
  if (is_state) {
    out += ", " + describe_size(what);
  } else if (moves || what.tensors != 0 || what.count != 0) {
    out += ", ";
    if (!has_blocks(what.collective)) out += counted(what.count, "element") + " in ";
    out += counted(what.tensors, "tensor");
  }
  if ((what.tensors != 1 || is_state) && what.layout != 0) out += ", layout " + hex(what.layout);
  if (!what.root.is_nobody()) out += ", root " + text_of(what.root);
  if (!what.formats.native()) {
    out.append(", ").append(lockstep::name_of(what.formats.up)) += " up, ";
    out.append(lockstep::name_of(what.formats.down)) += " down";
  }
  if (what.collective == Collective::kAllReduce && what.algorithm != Algorithm::kAuto)
    out.append(", ").append(name_of(what.algorithm));
  if (what.weighted) out += ", weighted";
  if (what.segment_bytes != 0) out += ", segments of " + counted(what.segment_bytes, "byte");
  if (what.minimum_world != 1) out += ", minimum world " + std::to_string(what.minimum_world);
  return out + (what.retry ? ", retry" : ", no retry");
}

std::string describe_size(const Descriptor& state) {
  return counted(state.count, "byte") + " in " + counted(state.tensors, "tensor");
}

namespace {

// As programs write it.
std::string dtype_of(DataType type) {
  constexpr std::string_view kNames[kDataTypeCount] = {"uint8",   "int8",    "uint16", "int16",   "uint32",
                                                       "int32",   "uint64",  "int64",  "float16", "bfloat16",
                                                       "float32", "float64", "bool"};
  return std::string(kNames[static_cast<std::size_t>(type)]);
}

// The first field in which two descriptors differ, and its value on each side.
struct Difference {
  std::string name;
  std::string a;
  std::string b;
};
Difference difference_of(const Descriptor& a, const Descriptor& b) {
  const auto numbers = [](std::string name, std::uint64_t x, std::uint64_t y) {
    return Difference{std::move(name), std::to_string(x), std::to_string(y)};
  };
  const auto names = [](std::string name, std::string_view x, std::string_view y) {
    return Difference{std::move(name), std::string(x), std::string(y)};
  };
  const bool is_state = a.collective == Collective::kSync;
  if (a.collective != b.collective) return {"", std::string(name_of(a.collective)), std::string(name_of(b.collective))};
  if (a.type != b.type) return {"dtype", dtype_of(a.type), dtype_of(b.type)};
  if (a.op != b.op) return names("op", lockstep::name_of(a.op), lockstep::name_of(b.op));
  if (a.tensors != b.tensors) return numbers("number of arrays", a.tensors, b.tensors);
  if (a.count != b.count) return numbers(is_state ? "bytes of the state" : "count", a.count, b.count);
  if (a.layout != b.layout) {
    return names(is_state ? "names, types or sizes in the state" : "counts of the arrays", "these", "others");
  }
  if (a.root != b.root) return names("root", hex(a.root.high).substr(0, 8), hex(b.root.high).substr(0, 8));
  if (a.formats.up != b.formats.up)
    return names("up", lockstep::name_of(a.formats.up), lockstep::name_of(b.formats.up));
  if (a.formats.down != b.formats.down)
    return names("down", lockstep::name_of(a.formats.down), lockstep::name_of(b.formats.down));
  if (a.algorithm != b.algorithm) return names("algorithm", name_of(a.algorithm), name_of(b.algorithm));
  if (a.weighted != b.weighted) return names("weight", a.weighted ? "given" : "none", b.weighted ? "given" : "none");
  if (a.segment_bytes != b.segment_bytes) return numbers("segment_bytes", a.segment_bytes, b.segment_bytes);
  if (a.minimum_world != b.minimum_world) return numbers("minimum_world", a.minimum_world, b.minimum_world);
  return names("retry", a.retry ? "true" : "false", b.retry ? "true" : "false");
}

}  // namespace

std::string arguments_differ(Tag tag, std::string_view a, const Descriptor& of_a, std::string_view b,
                             const Descriptor& of_b) {
  const Difference found = difference_of(of_a, of_b);
  const bool same_call = !found.name.empty();
  std::string text = "arguments differ in ";
  if (same_call) text.append(name_of(of_a.collective)).append(" with ");
  text += "tag " + std::to_string(tag.value) + ": ";
  if (same_call) text += found.name + " ";
  text.append(found.a).append(" on ").append(a).append(", ").append(found.b).append(" on ").append(b);
  return text + ": call it with the same arguments on all members";
}

std::string refused(std::string_view member, std::string_view operation, Tag tag, std::string_view why) {
  return std::string(member) + " refused its " + std::string(operation) + " with tag " + std::to_string(tag.value) +
         ": " + std::string(why);
}

std::string not_launched(std::string_view member, Tag tag) {
  return std::string(member) + " did not launch tag " + std::to_string(tag.value) +
         " before the admission: launch the same calls on all peers before admit";
}

std::string has_waited(std::string_view call, std::optional<Tag> tag, Duration age) {
  std::string text(call);
  if (tag) text += " with tag " + std::to_string(tag->value);
  const std::int64_t tenths = age.ns / 100'000'000;
  return text + " has waited " + std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

std::string describe(const Message& message) {
  std::string out(name_of_type(type_of(message)));
  out += '{';
  Writer writer(out);
  std::visit([&](const auto& m) { fields(writer, m); }, message);
  return out + '}';
}

}  // namespace lockstep::wire
