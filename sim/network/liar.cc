#include "sim/network/liar.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "core/base/assert.h"
#include "core/wire/fields.h"

namespace lockstep::sim {
namespace {

// Where a number of a message is in its body.
struct Place {
  std::size_t at = 0;
  std::size_t bytes = 0;
};

// Visits the fields of a message in the order of the bytes, and lists the numbers.
class Places {
 public:
  explicit Places(bool with_length) : with_length_(with_length) {}

  template <typename T>
  void operator()(std::string_view name, const T& field) {
    if constexpr (std::same_as<T, bool>) {
      add(1);
    } else if constexpr (std::unsigned_integral<T> || std::is_enum_v<T>) {
      if (name == "length" && !with_length_) {
        end_ += sizeof(T);
      } else {
        add(sizeof(T));
      }
    } else if constexpr (wire::kIsNumber<T>) {
      (*this)(name, field.value);
    } else if constexpr (std::same_as<T, Duration>) {
      add(sizeof(std::uint64_t));
    } else {
      wire::fields(*this, field);
    }
  }
  template <typename T>
  void operator()(std::string_view name, const T& number, std::uint32_t) {
    (*this)(name, number);
  }
  template <typename T>
  void operator()(std::string_view name, const std::vector<T>& list, std::uint32_t) {
    add(sizeof(std::uint32_t));
    for (const T& entry : list) (*this)(name, entry);
  }
  void operator()(std::string_view, const std::string& text, std::size_t) {
    add(sizeof(std::uint16_t));
    end_ += text.size();
  }
  [[nodiscard]] const std::vector<Place>& all() const { return all_; }
  [[nodiscard]] std::size_t end() const { return end_; }

 private:
  void add(std::size_t bytes) {
    all_.push_back({end_, bytes});
    end_ += bytes;
  }

  bool with_length_;
  std::vector<Place> all_;
  std::size_t end_ = 0;
};

std::uint64_t number_at(std::span<const std::byte> body, const Place& place) {
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < place.bytes; ++i) number |= static_cast<std::uint64_t>(body[place.at + i]) << (8 * i);
  return number;
}

void write_number(std::span<std::byte> body, const Place& place, std::uint64_t number) {
  for (std::size_t i = 0; i < place.bytes; ++i) body[place.at + i] = static_cast<std::byte>(number >> (8 * i));
}

// Another number: near the true one, the smallest, the largest, a large power of two, or one with another bit.
std::uint64_t other_than(std::uint64_t number, std::size_t bytes, std::uint64_t luck) {
  const std::uint64_t bits = 8 * bytes;
  const std::uint64_t choices[] = {number + 1,
                                   number - 1,
                                   0,
                                   UINT64_MAX,
                                   std::uint64_t{1} << (bits - 4),
                                   number ^ std::uint64_t{1} << (luck / 16 % bits),
                                   luck / 16 % 5};
  return choices[luck % std::size(choices)];
}

bool has_payload(const wire::Message& message) { return std::holds_alternative<wire::Segment>(message); }

}  // namespace

void Liar::pass(std::span<const std::byte> bytes, const Manner& manner, std::vector<std::byte>& out) {
  while (!bytes.empty()) {
    const bool plain = plain_left_ > 0;
    const std::size_t n = std::min(bytes.size(), plain ? plain_left_ : frame_left_);
    std::vector<std::byte>& into = plain ? out : frame_;
    into.insert(into.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n));
    bytes = bytes.subspan(n);
    (plain ? plain_left_ : frame_left_) -= n;
    if (!plain && frame_left_ == 0) take_frame(manner, out);
  }
}

// The header is complete, or header and body are. Strangers say what is no frame.
void Liar::take_frame(const Manner& manner, std::vector<std::byte>& out) {
  const auto header = wire::decode_header(std::span(frame_).first<wire::kHeaderBytes>());
  const bool is_stranger = !header.ok();
  if (!is_stranger && frame_.size() < wire::kHeaderBytes + header.value().length) {
    frame_left_ = header.value().length;
    return;
  }
  if (is_stranger) {
    append_frame(out);
    plain_left_ = SIZE_MAX;
  } else {
    say(header.value(), manner, out);
  }
  frame_.clear();
  frame_left_ = wire::kHeaderBytes;
}

void Liar::say(const wire::FrameHeader& header, const Manner& manner, std::vector<std::byte>& out) {
  const auto message = wire::decode_body(header, std::span(frame_).subspan(wire::kHeaderBytes));
  LOCKSTEP_ASSERT(message.ok());
  said_ += 1;
  std::visit(
      [&]<typename T>(const T& m) {
        wire::StopRound stop;
        if constexpr (requires { stop.attempt = m.attempt, stop.key = m.key; }) {
          stop.attempt = m.attempt;
          stop.key = m.key;
          stop_ = stop;
        }
      },
      message.value());
  if (has_payload(message.value())) plain_left_ = wire::kTrailerBytes;
  // A LinkBroken is never changed: the coordinator cannot tell which end of a link is wrong, and may evict the honest
  // one. Other plans show that.
  const bool is_true = manner.one_in == 0 || draw(manner, 0) % manner.one_in != 0 ||
                       std::holds_alternative<wire::LinkBroken>(message.value());
  if (!is_true) return lie(header, message.value(), manner, out);
  append_frame(out);
  if (!has_payload(message.value()) && draw(manner, 1) % 4 == 0) earlier_ = frame_;
}

void Liar::lie(const wire::FrameHeader& header, const wire::Message& message, const Manner& manner,
               std::vector<std::byte>& out) {
  lies_ += 1;
  const std::uint64_t kind = has_payload(message) ? 0 : draw(manner, 2) % 10;
  if (kind == 6) {
    append_frame(out);
    append_frame(out);
  } else if (kind == 7) {  // it is not said
  } else if (kind == 8 && manner.to_coordinator && stop_) {
    append_frame(out);
    wire::StopRound stop = *stop_;
    stop.done = draw(manner, 3) % 2 == 0;
    wire::encode(stop, header.term, out);
  } else if (kind == 9 && !earlier_.empty()) {
    append_frame(out);
    out.insert(out.end(), earlier_.begin(), earlier_.end());
  } else {
    change(header, message, manner, out);
  }
}

void Liar::change(const wire::FrameHeader& header, const wire::Message& message, const Manner& manner,
                  std::vector<std::byte>& out) {
  Places places(!manner.true_lengths);
  std::visit([&](const auto& m) { wire::fields(places, m); }, message);
  std::vector<std::byte> changed = frame_;
  const std::span<std::byte> body = std::span(changed).subspan(wire::kHeaderBytes);
  LOCKSTEP_ASSERT(places.end() == body.size());
  if (!places.all().empty()) {
    const Place& place = places.all()[draw(manner, 3) % places.all().size()];
    write_number(body, place, other_than(number_at(body, place), place.bytes, draw(manner, 4)));
  }
  wire::FrameHeader stated = header;
  stated.checksum = wire::frame_checksum(header, body);
  wire::encode(stated, std::span(changed).first<wire::kHeaderBytes>());
  out.insert(out.end(), changed.begin(), changed.end());
}

}  // namespace lockstep::sim
