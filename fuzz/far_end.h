// Streams in memory for one machine: whoever holds their far ends says typed messages, or any bytes, and hears what the
// machine says. Every effect is carried out at once and in order. For fuzzers and tests that lie to a machine.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/assert.h"
#include "core/base/overloaded.h"
#include "core/io/stream.h"
#include "core/wire/codec.h"
#include "core/wire/link_reader.h"

namespace lockstep::fuzz {

// What a machine that dials is told of the stream.
inline constexpr Duration kRoundTrip = milliseconds(2);

class FarEnd {
 public:
  FarEnd(StreamId stream, io::Address dialled) : stream_(stream), dialled_(dialled) {}

  [[nodiscard]] StreamId stream() const { return stream_; }
  [[nodiscard]] const io::Address& dialled() const { return dialled_; }  // where the machine wanted to go

  // ---- saying ----
  void greet() { wire::encode(wire::Preamble{}, said_); }
  void say(const wire::Message& message, Term term = Term{1}) { wire::encode(message, term, said_); }
  void say_bytes(std::span<const std::byte> bytes) { said_.insert(said_.end(), bytes.begin(), bytes.end()); }
  // With a payload as long as the header says.
  void say_segment(const wire::Segment& segment, std::byte filling, std::uint64_t checksum, bool taken_back = false) {
    say(wire::Message(segment));
    said_.insert(said_.end(), segment.length, filling);
    said_.resize(said_.size() + wire::kTrailerBytes);
    wire::encode(wire::Trailer{checksum, taken_back}, std::span(said_).last<wire::kTrailerBytes>());
  }
  [[nodiscard]] std::span<const std::byte> said() const { return said_; }  // and not landed yet
  void hang_up() { hung_up_ = true; }

  // ---- hearing ----
  [[nodiscard]] const std::vector<wire::Message>& heard() const { return heard_; }
  [[nodiscard]] std::uint64_t segments_heard() const { return segments_heard_; }
  // The newest that came to its end.
  struct Heard {
    wire::SegmentEnded segment;
    std::vector<std::byte> payload;
  };
  [[nodiscard]] const std::optional<Heard>& last_segment() const { return last_segment_; }
  // Reads no more of what the machine says.
  void stop_reading() { reads_ = false; }
  // The machine has ended the stream.
  [[nodiscard]] bool shown_out() const { return shown_out_; }
  // The newest message of this kind; null: there is none.
  template <typename T>
  [[nodiscard]] const T* last() const {
    for (auto at = heard_.rbegin(); at != heard_.rend(); ++at) {
      if (const T* found = std::get_if<T>(&*at)) return found;
    }
    return nullptr;
  }
  // All messages of this kind, the oldest first.
  template <typename T>
  [[nodiscard]] std::vector<T> all() const {
    std::vector<T> all;
    for (const wire::Message& message : heard_) {
      if (const T* found = std::get_if<T>(&message)) all.push_back(*found);
    }
    return all;
  }
  template <typename T>
  [[nodiscard]] std::size_t count() const {
    return count_if<T>([](const T&) { return true; });
  }
  template <typename T, typename Is>
  [[nodiscard]] std::size_t count_if(Is is) const {
    return static_cast<std::size_t>(std::count_if(heard_.begin(), heard_.end(), [&](const wire::Message& message) {
      const T* const found = std::get_if<T>(&message);
      return found != nullptr && is(*found);
    }));
  }
  void forget_heard() { heard_.clear(); }

  // What each of the two machines says, the other hears.
  static void join(FarEnd& a, FarEnd& b) {
    a.other_ = &b;
    b.other_ = &a;
  }

 private:
  friend class Streams;
  static constexpr std::size_t kMostKept = 4096;  // messages

  void hear(std::span<const std::byte> bytes) {
    if (other_ != nullptr) return other_->say_bytes(bytes);
    while (!bytes.empty()) {
      const auto window = reader_.window();
      const std::size_t placed = std::min<std::size_t>(bytes.size(), window.place.length);
      const auto tail = bytes.subspan(placed).first(std::min(bytes.size() - placed, window.tail.size()));
      payload_.insert(payload_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(placed));
      std::ranges::copy(tail, window.tail.begin());
      reader_.landed(placed + tail.size());
      bytes = bytes.subspan(placed + tail.size());
      drain();
    }
  }

  void drain() {
    for (;;) {
      auto event = reader_.next();
      LOCKSTEP_ASSERT(event.ok());  // a machine speaks well, whatever it is told
      if (!event->has_value()) return;
      if (auto* received = std::get_if<wire::Received>(&**event)) {
        if (heard_.size() >= kMostKept) heard_.erase(heard_.begin(), heard_.begin() + kMostKept / 2);
        heard_.push_back(std::move(received->message));
      }
      if (const auto* began = std::get_if<wire::SegmentBegan>(&**event)) {
        ++segments_heard_;
        const auto begun = reader_.place({kSinkBuffer, 0, began->segment.length});
        payload_.assign(begun.begin(), begun.end());
      }
      if (const auto* ended = std::get_if<wire::SegmentEnded>(&**event)) last_segment_ = Heard{*ended, payload_};
    }
  }

  StreamId stream_;
  io::Address dialled_;
  std::vector<std::byte> said_;  // and not landed yet
  std::size_t landed_ = 0;       // of those
  bool hung_up_ = false;
  bool reads_ = true;
  bool shown_out_ = false;
  FarEnd* other_ = nullptr;
  wire::LinkReader reader_{kMaxBodyBytes};
  std::vector<wire::Message> heard_;
  std::uint64_t segments_heard_ = 0;
  std::vector<std::byte> payload_;  // of the segment that is being heard
  std::optional<Heard> last_segment_;

  // The machine's end.
  bool open_ = false;
  std::optional<io::Read> read_;
  std::optional<io::Write> write_;
  std::optional<io::Closed> closed_;
};

// The streams of one machine. `Memory` is what buffer names stand for: std::span<std::byte> at(BufferRef).
class Streams {
 public:
  using Memory = std::function<std::span<std::byte>(BufferRef)>;
  explicit Streams(Memory memory) : memory_(std::move(memory)) {}

  // Somebody opens a stream to the machine. Lives as long as this.
  FarEnd& accept(const io::Address& from, const io::Identity& identity = {}) {
    FarEnd& end = add(names_.next(), {});
    end.open_ = true;
    inputs_.emplace_back(io::Accepted{end.stream(), from, kRoundTrip, identity});
    return end;
  }
  // The machine's dial succeeds, or fails.
  void open(FarEnd& end, Duration round_trip = kRoundTrip, const io::Identity& identity = {}) {
    if (end.open_ || end.closed_) return;
    end.open_ = true;
    inputs_.emplace_back(io::Opened{end.stream(), round_trip, identity});
  }
  void refuse(FarEnd& end, std::string why = {}, io::CloseReason reason = io::CloseReason::kRefused) {
    if (!end.open_) close(end, reason, std::move(why));
  }
  // The other side of an open stream refuses what this side has proved: a certificate is judged after the handshake.
  void reject(FarEnd& end, std::string why) { close(end, io::CloseReason::kRejected, std::move(why)); }
  // Dialled by the machine and neither opened nor refused.
  [[nodiscard]] std::vector<FarEnd*> dialling() const {
    std::vector<FarEnd*> ends;
    for (const auto& [stream, end] : ends_) {
      if (!end->open_ && !end->closed_) ends.push_back(end.get());
    }
    return ends;
  }
  [[nodiscard]] std::size_t size() const { return live_; }
  // What each write reports of all streams from now on.
  void set_written(const io::Written& written) { written_ = written; }

  // ---- effects ----
  void carry_out(const io::Dial& dial) { add(dial.stream, dial.to); }
  void carry_out(const io::Read& read) {
    if (FarEnd* end = find(read.stream)) end->read_ = read;
  }
  void carry_out(const io::Write& write) {
    if (FarEnd* end = find(write.stream)) end->write_ = write;
  }
  void carry_out(const io::Revoke& revoke) {
    FarEnd* end = find(revoke.stream);
    if (end == nullptr) return;
    revoke.direction == io::Direction::kRead ? end->read_.reset() : end->write_.reset();
    inputs_.emplace_back(io::Revoked{revoke.stream, revoke.direction, 0});
  }
  void carry_out(const io::Close& io) {
    if (FarEnd* end = find(io.stream)) close(*end, io::CloseReason::kAsked);
  }
  void carry_out(const io::CopyBytes& place) { std::ranges::copy(place.bytes, memory_(place.into).begin()); }

  // What happened, the oldest first; nothing when every stream stands still.
  std::optional<io::Input> next() {
    if (inputs_.empty()) move_bytes();
    if (inputs_.empty()) return std::nullopt;
    io::Input input = std::move(inputs_.front());
    inputs_.pop_front();
    if (std::holds_alternative<io::Closed>(input)) --live_;
    return input;
  }

 private:
  FarEnd& add(StreamId stream, const io::Address& to) {
    ++live_;
    return *ends_.emplace(stream, std::make_unique<FarEnd>(stream, to)).first->second;
  }
  FarEnd* find(StreamId stream) {
    const auto at = ends_.find(stream);
    return at == ends_.end() || at->second->closed_ ? nullptr : at->second.get();
  }

  void close(FarEnd& end, io::CloseReason reason, std::string why = {}) {
    if (end.closed_) return;
    end.closed_ = io::Closed{end.stream(), reason, std::move(why)};
    end.shown_out_ = reason == io::CloseReason::kAsked;
    end.read_.reset();
    end.write_.reset();
    if (end.other_ != nullptr) end.other_->hang_up();
    inputs_.emplace_back(*end.closed_);
  }

  void move_bytes() {
    for (auto& [stream, entry] : ends_) {
      FarEnd& end = *entry;
      if (end.closed_) continue;
      if (end.write_ && end.reads_) {
        std::size_t bytes = 0;
        const io::Write write = *std::exchange(end.write_, std::nullopt);
        for (const io::Slice& slice : write.slices.all()) {
          end.hear(slice.bytes.empty() ? std::span<const std::byte>(memory_(slice.payload)) : slice.bytes);
          bytes += slice.size();
        }
        inputs_.emplace_back(io::WriteDone{stream, bytes, written_});
      }
      if (!end.read_) continue;
      const auto waiting = std::span(end.said_).subspan(end.landed_);
      if (waiting.empty()) {
        if (end.hung_up_) close(end, io::CloseReason::kEnd);
        continue;
      }
      const io::Read read = *std::exchange(end.read_, std::nullopt);
      const std::size_t placed = std::min<std::size_t>(waiting.size(), read.place.length);
      if (placed > 0) std::ranges::copy(waiting.first(placed), memory_(read.place).begin());
      const auto tail = waiting.subspan(placed).first(std::min(waiting.size() - placed, read.tail.size()));
      std::ranges::copy(tail, read.tail.begin());
      end.landed_ += placed + tail.size();
      if (end.landed_ == end.said_.size()) {
        end.said_.clear();
        end.landed_ = 0;
      }
      inputs_.emplace_back(io::ReadDone{stream, placed + tail.size()});
    }
  }

  Memory memory_;
  io::StreamNames names_ = io::StreamNames::for_accepting();
  std::map<StreamId, std::unique_ptr<FarEnd>> ends_;
  std::optional<io::Written> written_;
  std::deque<io::Input> inputs_;
  std::size_t live_ = 0;
};

}  // namespace lockstep::fuzz
