#include "core/wire/codec.h"

#define XXH_INLINE_ALL  // most hashed data is short, and the hash state is on the stack
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>
#include <utility>

#include "core/base/mutant.h"
#include "core/base/text.h"
#include "core/wire/fields.h"

namespace lockstep::wire {
namespace {

constexpr std::string_view kTypeNames[] = {
    "Join",      "Link",        "StatusRequest", "Refused",       "Waiting",     "LinkWelcome",  "Heartbeat",
    "Done",      "Admit",       "AdmitCancel",   "Leave",         "StopRound",   "LinkBroken",   "Flush",
    "Pending",   "Admitting",   "AdmitEnded",    "Propose",       "Install",     "Commit",       "Evicted",
    "Left",      "StatusReply", "Ready",         "RankParameter", "Segment",     "Offer",        "Claim",
    "Elected",   "AskDigests",  "PieceDigests",  "AskPieces",     "HavePieces",  "AskOutline",   "StateOutline",
    "AskEntry",  "StateEntry",  "Publish",       "WantState",     "Published",   "SendOffer",    "SendReport",
    "SendReady", "SendsHeard",  "CallWaits",     "TransfersWait", "CallAwaited", "EvictRequest", "EvictReply",
    "Knock"};
constexpr std::size_t kTypes = std::variant_size_v<Message>;
static_assert(std::size(kTypeNames) == kTypes);

// ---- numbers ----

template <std::unsigned_integral U>
void store(U value, std::byte* at) {
  if constexpr (std::endian::native == std::endian::little) {
    std::memcpy(at, &value, sizeof value);
    return;
  }
  for (std::size_t i = 0; i < sizeof(U); ++i) at[i] = static_cast<std::byte>(value >> (8 * i));
}

template <std::unsigned_integral U>
U load(const std::byte* at) {
  U value = 0;
  if constexpr (std::endian::native == std::endian::little) {
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  for (std::size_t i = 0; i < sizeof(U); ++i) value = static_cast<U>(value | (static_cast<U>(at[i]) << (8 * i)));
  return value;
}

// ---- encoding ----

// Collects numbers and appends them in groups.
class Encoder {
 public:
  explicit Encoder(std::vector<std::byte>& out) : out_(out) {}
  ~Encoder() { flush(); }
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;

  template <std::unsigned_integral U>
  void append(U value) {
    if (filled_ + sizeof(U) > sizeof chunk_) flush();
    store(value, chunk_ + filled_);
    filled_ += sizeof(U);
  }
  void append(std::span<const std::byte> bytes) {
    flush();
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }

  template <typename T>
  void operator()(std::string_view name, const T& field) {
    if constexpr (std::same_as<T, bool>) {
      append(static_cast<std::uint8_t>(field ? 1 : 0));
    } else if constexpr (std::unsigned_integral<T>) {
      append(field);
    } else if constexpr (std::is_enum_v<T>) {
      LOCKSTEP_ASSERT(is_known(field));
      append(static_cast<std::underlying_type_t<T>>(field));
    } else if constexpr (kIsNumber<T>) {
      (*this)(name, field.value);
    } else if constexpr (std::same_as<T, Duration>) {
      LOCKSTEP_ASSERT(field >= Duration{} && field <= kMaxDuration);
      append(static_cast<std::uint64_t>(field.ns));
    } else {
      LOCKSTEP_ASSERT(fault(field).empty());
      fields(*this, field);
    }
  }

  template <typename T>
  void operator()(std::string_view name, const T& number, std::uint32_t most) {
    if constexpr (kIsNumber<T>) {
      LOCKSTEP_ASSERT(number.value <= most);
    } else {
      LOCKSTEP_ASSERT(number <= most);
    }
    (*this)(name, number);
  }

  template <typename T>
  void operator()(std::string_view name, const std::vector<T>& list, std::uint32_t most) {
    LOCKSTEP_ASSERT(list.size() <= most);
    append(static_cast<std::uint32_t>(list.size()));
    for (const T& entry : list) (*this)(name, entry);
  }

  void operator()(std::string_view, const std::string& text, std::size_t most) {
    const std::string kept = plain(cut(text, most));
    append(static_cast<std::uint16_t>(kept.size()));
    append(std::as_bytes(std::span(kept)));
  }

 private:
  void flush() {
    out_.insert(out_.end(), chunk_, chunk_ + filled_);
    filled_ = 0;
  }

  std::vector<std::byte>& out_;
  std::byte chunk_[128];  // pending bytes: the first filled_ bytes
  std::size_t filled_ = 0;
};

// Counts the bytes of the encoding of an empty T.
struct LeastBytes {
  std::size_t bytes = 0;

  template <typename T>
  void operator()(std::string_view name, const T& field) {
    if constexpr (std::same_as<T, bool>) {
      bytes += 1;
    } else if constexpr (std::unsigned_integral<T> || std::is_enum_v<T>) {
      bytes += sizeof(T);
    } else if constexpr (kIsNumber<T>) {
      (*this)(name, field.value);
    } else if constexpr (std::same_as<T, Duration>) {
      bytes += sizeof(std::uint64_t);
    } else {
      fields(*this, field);
    }
  }
  template <typename T>
  void operator()(std::string_view name, const T& number, std::uint32_t) {
    (*this)(name, number);
  }
  template <typename T>
  void operator()(std::string_view, const std::vector<T>&, std::uint32_t) {
    bytes += sizeof(std::uint32_t);
  }
  void operator()(std::string_view, const std::string&, std::size_t) { bytes += sizeof(std::uint16_t); }
};

template <typename T>
std::size_t least_bytes() {
  LeastBytes least;
  least("", T{});
  return least.bytes;
}

// ---- decoding ----

// Reads fields until the first error. After an error, every field keeps its default, and later errors are ignored.
class Decoder {
 public:
  Decoder(std::string_view message, std::span<const std::byte> body) : rest_(body) { path_[depth_++] = message; }

  [[nodiscard]] bool failed() const { return !error_.empty(); }
  // Returns the error, or reports trailing bytes that no field has read.
  [[nodiscard]] std::string finish() {
    if (!failed() && !rest_.empty()) fail(std::to_string(rest_.size()) + " extra bytes after the last field");
    return std::move(error_);
  }

  // Reads the whole message.
  template <typename T>
  void message(T& message) {
    fields(*this, message);
    if (failed()) return;
    if (const std::string_view why = fault(message); !why.empty()) fail(std::string(why));
  }

  template <typename T>
  void operator()(std::string_view name, T& field) {
    if (failed()) return;
    const Step step(*this, name);
    if constexpr (std::same_as<T, bool>) {
      const auto value = take<std::uint8_t>();
      if (value > 1) return unknown(value, "a bool (0 or 1)");
      field = value == 1;
    } else if constexpr (std::unsigned_integral<T>) {
      field = take<T>();
    } else if constexpr (std::is_enum_v<T>) {
      const auto value = take<std::underlying_type_t<T>>();
      if (!is_known(static_cast<T>(value))) return unknown(value, "a known value");
      field = static_cast<T>(value);
    } else if constexpr (kIsNumber<T>) {
      field.value = take<typename T::Value>();
    } else if constexpr (std::same_as<T, Duration>) {
      const auto ns = take<std::uint64_t>();
      if (at_most(ns, static_cast<std::uint64_t>(kMaxDuration.ns), " ns")) field.ns = static_cast<std::int64_t>(ns);
    } else {
      message(field);
    }
  }

  template <typename T>
  void operator()(std::string_view name, T& number, std::uint32_t most) {
    if (failed()) return;
    (*this)(name, number);
    const Step step(*this, name);
    if constexpr (kIsNumber<T>) {
      at_most(number.value, most, "");
    } else {
      at_most(number, most, "");
    }
  }

  template <typename T>
  void operator()(std::string_view name, std::vector<T>& list, std::uint32_t most) {
    if (failed()) return;
    {
      const Step step(*this, name);
      const auto count = take<std::uint32_t>();
      if (!at_most(count, most, " entries") || count == 0) return list.clear();
      if (!has(count * least_bytes<T>())) return;
      list.resize(count);
    }
    for (T& entry : list) (*this)(name, entry);
  }

  void operator()(std::string_view name, std::string& text, std::size_t most) {
    if (failed()) return;
    const Step step(*this, name);
    const auto size = take<std::uint16_t>();
    if (!at_most(size, most, " bytes") || !has(size)) return;
    text.resize(size);
    std::transform(rest_.begin(), rest_.begin() + size, text.begin(), [](std::byte b) { return static_cast<char>(b); });
    rest_ = rest_.subspan(size);
    if (!is_plain(text)) fail("must be UTF-8 without control and invisible characters");
  }

 private:
  // The current field, for error texts: "Propose.view.members".
  class Step {
   public:
    Step(Decoder& decoder, std::string_view name) : decoder_(decoder) {
      LOCKSTEP_ASSERT(decoder.depth_ < decoder.path_.size());
      decoder.path_[decoder.depth_++] = name;
    }
    ~Step() { --decoder_.depth_; }
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;

   private:
    Decoder& decoder_;
  };

  // Not inlined, like everything that handles errors: a valid field takes only a few instructions.
  [[gnu::cold, gnu::noinline]] void fail(const std::string& what) {
    if (failed()) return;
    for (std::size_t i = 0; i < depth_; ++i) error_.append(i == 0 ? "" : ".").append(path_[i]);
    error_.append(": ").append(what);
  }

  [[gnu::cold, gnu::noinline]] void unknown(std::uint64_t value, const char* what) {
    fail(std::to_string(value) + " is not " + what);
  }

  bool at_most(std::uint64_t value, std::uint64_t most, const char* unit) {
    if (failed()) return false;
    if (value > most) too_much(value, most, unit);
    return value <= most;
  }
  [[gnu::cold, gnu::noinline]] void too_much(std::uint64_t value, std::uint64_t most, const char* unit) {
    fail(std::to_string(value) + unit + ", at most " + std::to_string(most) + " allowed");
  }

  bool has(std::size_t bytes) {
    if (failed()) return false;
    if (bytes > rest_.size()) too_short(bytes);
    return bytes <= rest_.size();
  }
  [[gnu::cold, gnu::noinline]] void too_short(std::size_t bytes) {
    fail("needs " + std::to_string(bytes) + " bytes, the message has " + std::to_string(rest_.size()) + " left");
  }

  template <std::unsigned_integral U>
  U take() {
    if (!has(sizeof(U))) return 0;
    const U value = load<U>(rest_.data());
    rest_ = rest_.subspan(sizeof(U));
    return value;
  }

  std::span<const std::byte> rest_;
  std::string error_;
  // names of the message, its field, the field's field and so on; at most four today
  std::array<std::string_view, 8> path_{};
  std::size_t depth_ = 0;
};

// CRC-16/CCITT-FALSE: detects every burst of up to 16 flipped bits. Two bytes take one step: the tables hold the CRC of
// one byte, and of one byte before a zero byte. All CRCs here have their bytes swapped, so that load() fits them.
struct CrcTables {
  std::array<std::uint16_t, 256> last{};
  std::array<std::uint16_t, 256> before{};
};
constexpr std::uint16_t swapped(std::uint32_t crc) {
  return static_cast<std::uint16_t>((crc << 8U) | ((crc >> 8U) & 0xffU));
}
constexpr CrcTables kCrc = [] {
  CrcTables tables;
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte << 8U;
    for (int bit = 0; bit < 8; ++bit) crc = (crc << 1U) ^ ((crc & 0x8000U) != 0 ? 0x1021U : 0U);
    tables.last[byte] = swapped(crc);
  }
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    const std::uint32_t crc = tables.last[byte];
    tables.before[byte] = static_cast<std::uint16_t>((crc >> 8U) ^ tables.last[crc & 0xffU]);
  }
  return tables;
}();

// The bytes of a header that its CRC and the checksum of the frame cover: all but the checksum.
constexpr std::size_t kCoveredBytes = 16;

// The CRC of the first 16 bytes of a header, without bytes 2 and 3, which hold the CRC.
std::uint16_t header_crc(std::span<const std::byte, kHeaderBytes> header) {
  std::uint32_t crc = 0xffff;
  const auto add = [&](std::size_t at) {
    crc ^= load<std::uint16_t>(header.data() + at);
    crc = kCrc.before[crc & 0xffU] ^ std::uint32_t{kCrc.last[crc >> 8U]};
  };
  add(0);
  add(4);
  add(6);
  add(8);
  add(10);
  add(12);
  add(14);
  return swapped(crc);
}

std::uint64_t checksum_of(std::span<const std::byte, kCoveredBytes> header, std::span<const std::byte> body) {
  constexpr std::size_t kShort = 240;  // XXH3 hashes up to this many bytes at once, without a state
  if (header.size() + body.size() <= kShort) {
    std::byte bytes[kShort];  // not zeroed: this code runs for every frame
    std::copy(header.begin(), header.end(), bytes);
    std::copy(body.begin(), body.end(), bytes + header.size());
    return XXH3_64bits(bytes, header.size() + body.size());
  }
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  XXH3_64bits_update(&state, header.data(), header.size());
  XXH3_64bits_update(&state, body.data(), body.size());
  return XXH3_64bits_digest(&state);
}

constexpr std::uint64_t kTakenBack = ~std::uint64_t{0};

Error protocol_error(std::string text) { return Error{Status::kProtocolError, std::move(text)}; }

template <typename T>
Result<Message> decode_as(std::string_view name, std::span<const std::byte> body) {
  Result<Message> decoded(Message(std::in_place_type<T>));
  Decoder decoder(name, body);
  decoder.message(std::get<T>(*decoded));
  if (std::string error = decoder.finish(); !error.empty()) decoded = protocol_error(std::move(error));
  return decoded;
}

// One decoder for each type of message, in the order of the variant.
using DecodeAs = Result<Message> (*)(std::string_view, std::span<const std::byte>);
constexpr auto kDecoders = []<std::size_t... I>(std::index_sequence<I...>) {
  return std::array<DecodeAs, kTypes>{decode_as<std::variant_alternative_t<I, Message>>...};
}
(std::make_index_sequence<kTypes>{});

// "47 45 54 20 ('GET ')"
std::string as_text(std::span<const std::byte> bytes) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string hex;
  std::string text;
  for (const std::byte byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    hex.append({kHex[value >> 4U], kHex[value & 15U], ' '});
    text += value >= 0x20 && value < 0x7f ? static_cast<char>(value) : '.';
  }
  return hex + "('" + text + "')";
}

}  // namespace

std::string_view name_of_type(std::uint8_t type) {
  LOCKSTEP_ASSERT(type >= 1 && type <= kTypes);
  return kTypeNames[type - 1U];
}

std::uint8_t type_of(const Message& message) { return static_cast<std::uint8_t>(message.index() + 1); }

std::uint64_t frame_checksum(const FrameHeader& header, std::span<const std::byte> body) {
  std::byte bytes[kHeaderBytes];  // not zeroed: encode() writes all of them
  encode(header, bytes);
  return checksum_of(std::span(bytes).first<kCoveredBytes>(), body);
}

void encode(const Preamble& preamble, std::vector<std::byte>& out) {
  Encoder encoder(out);
  encoder.append(kMagic);
  encoder.append(preamble.version);
  encoder.append(std::uint32_t{0});
  encoder.append(preamble.features);
}

void encode(const Message& message, Term term, std::vector<std::byte>& out) {
  const std::size_t start = out.size();
  out.resize(start + kHeaderBytes);
  {
    Encoder encoder(out);
    std::visit([&](const auto& m) { encoder("", m); }, message);
  }

  const auto header = std::span(out).subspan(start).first<kHeaderBytes>();
  const auto body = std::span<const std::byte>(out).subspan(start + kHeaderBytes);
  LOCKSTEP_ASSERT(body.size() <= kMaxBodyBytes);
  encode(FrameHeader{type_of(message), static_cast<std::uint32_t>(body.size()), term, 0}, header);
  store(checksum_of(header.first<kCoveredBytes>(), body), header.data() + kCoveredBytes);
}

void encode(const FrameHeader& header, std::span<std::byte, kHeaderBytes> out) {
  std::byte* at = out.data();
  store(header.type, at);
  store(std::uint8_t{0}, at + 1);
  store(header.length, at + 4);
  store(header.term.value, at + 8);
  store(header.checksum, at + 16);
  store(header_crc(out), at + 2);
}

void encode(const Trailer& trailer, std::span<std::byte, kTrailerBytes> out) {
  store(trailer.checksum, out.data());
  store(trailer.taken_back ? kTakenBack : std::uint64_t{0}, out.data() + 8);
}

Result<bool> check_magic(std::span<const std::byte, kMagicBytes> bytes) {
  if (load<std::uint64_t>(bytes.data()) == kMagic) return true;
  return protocol_error("not a Lockstep stream: first bytes " + as_text(bytes.first<4>()));
}

Result<Preamble> decode_preamble(std::span<const std::byte, kPreambleBytes> bytes) {
  if (const auto magic = check_magic(bytes.first<kMagicBytes>()); !magic) return magic.error();
  const Preamble preamble{load<std::uint32_t>(bytes.data() + 8), load<std::uint64_t>(bytes.data() + 16)};
  const auto reserved = load<std::uint32_t>(bytes.data() + 12);
  if (preamble.version == kVersion && reserved != 0) {
    return protocol_error("preamble.reserved: " + std::to_string(reserved) + ", must be 0");
  }
  return preamble;
}

Result<FrameHeader> decode_header(std::span<const std::byte, kHeaderBytes> bytes) {
  const std::byte* at = bytes.data();
  const FrameHeader header{load<std::uint8_t>(at), load<std::uint32_t>(at + 4), Term{load<std::uint64_t>(at + 8)},
                           load<std::uint64_t>(at + 16)};
  if (header.type < 1 || header.type > kTypes) {
    return protocol_error("header.type: " + std::to_string(header.type) + " is not a known message (1 to " +
                          std::to_string(kTypes) + ")");
  }
  const auto flags = load<std::uint8_t>(at + 1);
  if (flags != 0) return protocol_error("header.flags: " + std::to_string(flags) + ", must be 0");
  if (load<std::uint16_t>(at + 2) != header_crc(bytes) && !mutant(Mutant::kHeaderUnchecked)) {
    return protocol_error(std::string(name_of_type(header.type)) + ": the CRC of the header is wrong");
  }
  return header;
}

Result<Message> decode_body(const FrameHeader& header, std::span<const std::byte> body) {
  LOCKSTEP_ASSERT(body.size() == header.length);
  const std::string_view name = name_of_type(header.type);
  if (frame_checksum(header, body) != header.checksum) {
    return protocol_error(std::string(name) + ": the checksum of header and body is wrong");
  }
  return kDecoders[header.type - 1U](name, body);
}

Result<Trailer> decode_trailer(std::span<const std::byte, kTrailerBytes> bytes) {
  const auto status = load<std::uint64_t>(bytes.data() + 8);
  const bool few_bits = status != 0 && mutant(Mutant::kTakenBackByABit);
  if (status != 0 && status != kTakenBack && !few_bits) {
    return protocol_error("trailer.status: " + std::to_string(status) + ", must be 0 or all ones");
  }
  return Trailer{load<std::uint64_t>(bytes.data()), status != 0};
}

}  // namespace lockstep::wire
