#include "core/wire/link_reader.h"

#include <algorithm>
#include <string>
#include <utility>

namespace lockstep::wire {
namespace {

// Room behind the rest of a payload: for the trailer and the next headers, and for little of the next payload, because
// those bytes have to be copied.
constexpr std::size_t kTailForTrailer = 256;

using Next = Result<std::optional<ReadEvent>>;

Next nothing() { return Next(std::nullopt); }

template <typename Event>
Next found(Event event) {
  return Next(std::optional<ReadEvent>(std::in_place, std::in_place_type<Event>, std::move(event)));
}

}  // namespace

LinkReader::LinkReader(std::uint32_t max_body_bytes) : max_body_bytes_(max_body_bytes) {}

LinkReader::Window LinkReader::window() {
  LOCKSTEP_ASSERT(!window_ && !awaits_place() && !error_);
  Window window;
  if (state_ == State::kPayload) {
    LOCKSTEP_ASSERT(pending().empty());  // place() and next() have consumed it
    const std::uint64_t rest = payload_rest();
    window.place =
        sunk_ ? BufferRef{kSinkBuffer, 0, std::min(rest, kStandingBufferBytes)} : into_.slice(payload_done_, rest);
  }
  const std::size_t tail = tail_bytes();
  make_room(tail);
  window.tail = buffer_.part(end_, tail);
  window_ = window;
  return window;
}

std::size_t LinkReader::tail_bytes() const {
  switch (state_) {
    case State::kPreamble:
    case State::kHeader: return header_tail_;
    case State::kBody: return std::clamp(header_.length - pending().size(), kTailForHeader, kMaxTailBytes);
    case State::kPayload:  // a sink smaller than the rest: more payload follows
      return sunk_ && payload_rest() > kStandingBufferBytes ? 0 : kTailForTrailer;
    case State::kTrailer: return kTailForTrailer;
    case State::kAwaitPlace: break;
  }
  LOCKSTEP_UNREACHABLE();
}

// Moves pending bytes to the front if there is no room behind them, and releases the memory of a long body. Early bytes
// that place() returned stay where they are until the next landed(), because the driver copies them after our step.
void LinkReader::make_room(std::size_t bytes) {
  if (begin_ == end_) {
    begin_ = end_ = 0;
    if (buffer_.size > kMaxTailBytes && !early_out_) buffer_ = {};
  }
  if (end_ + bytes <= buffer_.size) return;
  const std::span<const std::byte> kept = pending();
  const std::size_t room = kept.size() + bytes;
  if (!early_out_ && room <= buffer_.size) {
    std::ranges::copy(kept, buffer_.bytes.get());
  } else {
    Buffer& next = spare_;
    if (next.size < room) next = Buffer::of(room);
    std::ranges::copy(kept, next.bytes.get());
    std::swap(buffer_, next);
    if (!early_out_) spare_ = {};
  }
  begin_ = 0;
  end_ = kept.size();
}

void LinkReader::landed(std::size_t bytes) {
  LOCKSTEP_ASSERT(window_ && bytes <= window_->place.length + window_->tail.size());
  const std::uint64_t placed = std::min<std::uint64_t>(bytes, window_->place.length);
  end_ += bytes - placed;
  window_.reset();
  early_out_ = false;
  if (state_ == State::kPayload) payload_came(placed);
}

Result<std::optional<ReadEvent>> LinkReader::next() {
  if (error_) return *error_;
  return next_event();
}

LinkReader::Step LinkReader::next_event() {
  switch (state_) {
    case State::kPreamble: return next_preamble();
    case State::kHeader: return next_header();
    case State::kBody: return next_body();
    case State::kTrailer: return next_trailer();
    case State::kAwaitPlace:
    case State::kPayload: return nothing();
  }
  LOCKSTEP_UNREACHABLE();
}

LinkReader::Step LinkReader::next_preamble() {
  if (pending().size() < kMagicBytes) return nothing();
  if (const auto magic = check_magic(pending_first<kMagicBytes>()); !magic) return fail(magic.error());
  if (pending().size() < kPreambleBytes) return nothing();
  const auto preamble = decode_preamble(pending_first<kPreambleBytes>());
  if (!preamble) return fail(preamble.error());
  begin_ += kPreambleBytes;
  ++frames_;
  state_ = State::kHeader;
  return found(*preamble);
}

LinkReader::Step LinkReader::next_header() {
  if (pending().size() < kHeaderBytes) return nothing();
  const auto header = decode_header(pending_first<kHeaderBytes>());
  if (!header) return fail(header.error());
  if (header->length > max_body_bytes_) {
    return fail({Status::kProtocolError, std::string(name_of_type(header->type)) + ": the body has " +
                                             std::to_string(header->length) + " bytes, the limit for this peer is " +
                                             std::to_string(max_body_bytes_)});
  }
  header_ = *header;
  begin_ += kHeaderBytes;
  state_ = State::kBody;
  return next_body();
}

LinkReader::Step LinkReader::next_body() {
  if (pending().size() < header_.length) return nothing();
  auto message = decode_body(header_, pending().first(header_.length));
  if (!message) return fail(message.error());
  begin_ += header_.length;
  ++frames_;
  if (const auto* segment = std::get_if<Segment>(&*message)) {
    arriving_ = *segment;
    state_ = State::kAwaitPlace;
    return found(SegmentBegan{header_.term, *segment});
  }
  state_ = State::kHeader;
  return found(Received{header_.term, std::move(*message)});
}

LinkReader::Step LinkReader::next_trailer() {
  if (pending().size() < kTrailerBytes) return nothing();
  const auto trailer = decode_trailer(pending_first<kTrailerBytes>());
  if (!trailer) return fail(trailer.error());
  begin_ += kTrailerBytes;
  ++frames_;
  state_ = State::kHeader;
  const SegmentEnded ended{*arriving_, into_, sunk_, trailer->taken_back, trailer->checksum};
  arriving_.reset();
  return found(ended);
}

std::span<const std::byte> LinkReader::place(BufferRef into) {
  LOCKSTEP_ASSERT(awaits_place() && into.length == arriving_->length);
  into_ = into;
  sunk_ = false;
  const std::span<const std::byte> early = take_payload();
  early_out_ = early_out_ || !early.empty();
  return early;
}

void LinkReader::sink() {
  LOCKSTEP_ASSERT(arriving_ && !window_);
  const bool began = awaits_place();
  into_ = {};
  sunk_ = true;
  if (began) take_payload();
}

// Starts the payload with the bytes that arrived together with the header.
std::span<const std::byte> LinkReader::take_payload() {
  const auto stray = pending().first(std::min<std::size_t>(pending().size(), arriving_->length));
  begin_ += stray.size();
  state_ = State::kPayload;
  payload_done_ = 0;
  payload_came(stray.size());
  return stray;
}

void LinkReader::payload_came(std::uint64_t bytes) {
  payload_done_ += bytes;
  if (payload_rest() == 0) state_ = State::kTrailer;
}

// The first bytes of a TLS connection: a handshake record of version 3.x (RFC 8446, section 5.1).
bool LinkReader::met_tls() const {
  if (state_ != State::kPreamble || !error_ || pending().size() < kMagicBytes) return false;
  return pending()[0] == std::byte{22} && pending()[1] == std::byte{3};
}

LinkReader::Step LinkReader::fail(Error error) {
  error_ = std::move(error);
  return *error_;
}

}  // namespace lockstep::wire
