#include "core/flight/recording.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/archive/archive.h"
#include "core/coordinator/fields.h"
#include "core/kernels/checksum.h"
#include "core/peer/fields.h"
#include "core/wire/link_reader.h"
#include "core/wire/message.h"

namespace lockstep::flight {
namespace {

constexpr std::size_t kFrameBytes = 8 + 4 + 4 + 8 + 8;

template <typename U>
void append(std::vector<std::byte>& out, U value) {
  for (std::size_t i = 0; i < sizeof(U); ++i) out.push_back(static_cast<std::byte>(value >> (8 * i)));
}

template <typename U>
U take(std::span<const std::byte>& bytes) {
  U value = 0;
  for (std::size_t i = 0; i < sizeof(U); ++i) value |= static_cast<U>(static_cast<U>(bytes[i]) << (8 * i));
  bytes = bytes.subspan(sizeof(U));
  return value;
}

void fields(auto& a, archive::Is<Recording> auto& m) {
  a.all(m.revision, m.version, m.reason, m.written, m.clock);
  bool peer = m.of_peer();
  a.all(peer);
  if constexpr (std::remove_reference_t<decltype(a)>::kLoads) {
    if (!peer) m.options.template emplace<coordinator::CoordinatorOptions>();
  }
  std::visit([&](auto& options) { a.all(options); }, m.options);
  a.all(m.born, m.before, m.last, m.hash, m.state, m.inputs, m.cut, m.records);
}

Error broken(std::string what) { return {Status::kInvalidArgument, "this recording " + std::move(what)}; }

// Constructs the alternative with this index and loads its fields.
template <typename Input, std::size_t I = 0>
bool load_alternative(std::size_t index, archive::Loader& a, Input& input) {
  if constexpr (I < std::variant_size_v<Input>) {
    if (index != I) return load_alternative<Input, I + 1>(index, a, input);
    using One = std::variant_alternative_t<I, Input>;
    if constexpr (std::is_same_v<One, peer::Listening>) {
      One one{Error{}};
      a.all(one);
      input = std::move(one);
    } else if constexpr (std::is_same_v<One, peer::Resolved>) {
      One one{Error{}};
      a.all(one);
      input = std::move(one);
    } else {
      One one{};
      a.all(one);
      input = std::move(one);
    }
    return true;
  }
  return false;
}

void load_landed(archive::Loader& a, std::vector<std::byte>& landed, std::vector<Hole>& holes) {
  const std::uint64_t size = a.number();
  std::uint64_t kept = size;
  std::uint64_t end = 0;
  for (std::size_t n = a.count(); n > 0 && !a.failed(); --n) {
    const std::uint64_t skip = a.number();
    const std::uint64_t bytes = a.number();
    if (skip > size - end || bytes > size - end - skip) return a.fail();
    holes.push_back({static_cast<std::size_t>(end + skip), static_cast<std::size_t>(bytes)});
    end += skip + bytes;
    kept -= bytes;
  }
  if (size > wire::LinkReader::kMaxTailBytes) return a.fail();
  auto rest = a.bytes(kept);
  if (a.failed()) return;
  landed.resize(static_cast<std::size_t>(size));
  std::size_t at = 0;
  const auto fill = [&](std::size_t until) {
    std::ranges::copy(rest.first(until - at), landed.begin() + static_cast<std::ptrdiff_t>(at));
    rest = rest.subspan(until - at);
  };
  for (const Hole& hole : holes) {
    fill(hole.at);
    at = hole.at + hole.bytes;
  }
  fill(landed.size());
}

}  // namespace

bool is_recording(std::span<const std::byte> bytes) {
  std::vector<std::byte> magic;
  append(magic, kMagic);
  const std::size_t seen = std::min(bytes.size(), magic.size());
  return seen > 0 && std::ranges::equal(bytes.first(seen), std::span(magic).first(seen));
}

std::vector<std::byte> encode(const Recording& recording) {
  std::vector<std::byte> body;
  body.reserve(recording.state.size() + recording.records.size() + 1024);
  archive::Saver saver(body);
  fields(saver, recording);
  std::vector<std::byte> out;
  out.reserve(kFrameBytes + body.size());
  append(out, kMagic);
  append(out, kFormat);
  append(out, wire::kVersion);
  append(out, static_cast<std::uint64_t>(body.size()));
  append(out, checksum(body));
  out.insert(out.end(), body.begin(), body.end());
  return out;
}

Result<Recording> decode(std::span<const std::byte> bytes) {
  if (!is_recording(bytes))
    return Error{Status::kInvalidArgument, "this is not a flight recording: its first bytes are wrong"};
  if (bytes.size() < kFrameBytes)
    return broken("is cut off: " + std::to_string(bytes.size()) + " bytes are less than its header");
  if (bytes.size() > kMaxRecordingBytes) {
    return broken("has " + std::to_string(bytes.size()) + " bytes, more than " + std::to_string(kMaxRecordingBytes));
  }
  bytes = bytes.subspan(sizeof kMagic);
  const auto format = take<std::uint32_t>(bytes);
  const auto version = take<std::uint32_t>(bytes);
  const auto length = take<std::uint64_t>(bytes);
  const auto sum = take<std::uint64_t>(bytes);
  if (format != kFormat) {
    return broken("has format " + std::to_string(format) + ", this build reads format " + std::to_string(kFormat) +
                  ": replay it with the build that wrote it");
  }
  if (version != wire::kVersion) {
    return broken("uses version " + std::to_string(version) + " of the protocol, this build uses version " +
                  std::to_string(wire::kVersion) + ": replay it with the build that wrote it");
  }
  if (length != bytes.size()) {
    return broken("should have " + std::to_string(length) + " bytes after its header, and has " +
                  std::to_string(bytes.size()) + (length > bytes.size() ? ": it is cut off" : ": bytes were added"));
  }
  if (checksum(bytes) != sum) return broken("is corrupt: its checksum is wrong");
  Recording recording;
  archive::Loader loader(bytes);
  fields(loader, recording);
  if (!loader.failed() && recording.revision != kRevision) {
    return broken("has revision " + std::to_string(recording.revision) + " of core (Lockstep " + recording.version +
                  "), this build has revision " + std::to_string(kRevision) +
                  ": replay it with the build that wrote it");
  }
  if (loader.failed() || !loader.rest().empty()) return broken("does not match its header");
  return recording;
}

template <typename Input>
Result<Record<Input>> take_record(std::span<const std::byte>& records) {
  archive::Loader a(records);
  Record<Input> record;
  const auto first = static_cast<std::uint8_t>(a.bytes(1).empty() ? std::byte{} : records.front());
  std::uint64_t since = 0;
  a.all(since);
  if (since > static_cast<std::uint64_t>(wire::kMaxDuration.ns)) a.fail();
  record.since = nanoseconds(static_cast<std::int64_t>(since));
  record.cut = (first & kCut) != 0;
  if (!load_alternative(first & kAlternative, a, record.input)) a.fail();
  if ((first & kLanded) != 0) load_landed(a, record.landed, record.holes);
  if ((first & (kSilent | kCut)) == 0) {
    auto raw = a.bytes(sizeof(std::uint32_t));
    if (!a.failed()) record.hash = take<std::uint32_t>(raw);
  }
  if (a.failed()) return broken("contains an invalid entry");
  records = a.rest();
  return record;
}

template Result<Record<peer::Input>> take_record(std::span<const std::byte>& records);
template Result<Record<coordinator::Input>> take_record(std::span<const std::byte>& records);

}  // namespace lockstep::flight
