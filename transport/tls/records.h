// The records of one direction of a TLS 1.3 session, after the handshake (RFC 8446, section 5).
//
// OpenSSL makes the handshake. Its own records copy each byte three times and are encrypted one after the other; here,
// encrypting is the only pass over a byte: from where the program has it to what goes to the socket, and back.
//
// A peer of Lockstep never pads a record, and sends nothing but content, updates of keys and one alert at the end.
// Anything else is an error.
#pragma once

#include <array>
#include <asio/buffer.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "transport/tls/aead.h"
#include "transport/tls/byte_queue.h"

namespace lockstep::transport::tls {

// The most bytes of content in one record.
inline constexpr std::size_t kRecordBytes = 16'384;

// What the handshake of a cipher with SHA-256 leaves of each direction.
using TrafficSecret = std::array<std::byte, 32>;

enum class ContentType : std::uint8_t { kAlert = 21, kHandshake = 22, kApplicationData = 23 };

// RFC 8446, section 6. All are fatal but the first two.
enum class Alert : std::uint8_t {
  kCloseNotify = 0,
  kUserCanceled = 90,
  kUnexpectedMessage = 10,
  kBadRecordMac = 20,
  kRecordOverflow = 22,
  kBadCertificate = 42,
  kUnsupportedCertificate = 43,
  kCertificateRevoked = 44,
  kCertificateExpired = 45,
  kCertificateUnknown = 46,
  kUnknownCa = 48,
  kAccessDenied = 49,
  kDecodeError = 50,
};

// A place in a list of buffers.
template <typename Buffer>
class Position {
 public:
  explicit Position(std::span<const Buffer> buffers) : buffers_(buffers) { skip_empty(); }

  [[nodiscard]] bool at_end() const { return buffers_.empty(); }
  // The rest of the buffer at the place. Precondition: not at the end.
  [[nodiscard]] Buffer here() const { return buffers_.front() + offset_; }
  void skip(std::size_t bytes) {
    offset_ += bytes;
    skip_empty();
  }
  // The bytes from the place to the end, counted up to `most`.
  [[nodiscard]] std::size_t left(std::size_t most) const {
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < buffers_.size() && bytes < most; ++i) {
      bytes += buffers_[i].size() - (i == 0 ? offset_ : 0);
    }
    return bytes < most ? bytes : most;
  }
  // The bytes of the next record: up to `most`, without a buffer of `large` bytes that follows others.
  [[nodiscard]] std::size_t run(std::size_t most, std::size_t large) const {
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < buffers_.size() && bytes < most; ++i) {
      const std::size_t size = buffers_[i].size() - (i == 0 ? offset_ : 0);
      if (bytes > 0 && size >= large) break;
      bytes += size;
    }
    return bytes < most ? bytes : most;
  }

 private:
  void skip_empty() {
    while (!buffers_.empty() && offset_ == buffers_.front().size()) {
      buffers_ = buffers_.subspan(1);
      offset_ = 0;
    }
  }

  std::span<const Buffer> buffers_;
  std::size_t offset_ = 0;
};
using Source = Position<asio::const_buffer>;
using Destination = Position<asio::mutable_buffer>;

// The key of one direction, and how many records it has protected.
class RecordKey {
 public:
  RecordKey(Cipher cipher, const TrafficSecret& secret, Aead::Use use);
  RecordKey(const RecordKey&) = delete;
  RecordKey& operator=(const RecordKey&) = delete;
  ~RecordKey();

  // Begins the next record; its header is a part of what the tag covers.
  Aead& begin(std::span<const std::byte> header);
  [[nodiscard]] std::uint64_t records() const { return records_; }
  // Takes the next key (section 7.2).
  void update();

 private:
  void use_secret();

  Cipher cipher_;
  Aead::Use use_;
  TrafficSecret secret_;
  std::unique_ptr<Aead> aead_;
  Nonce iv_{};
  std::uint64_t records_ = 0;
};

class RecordWriter {
 public:
  // `records_of_key`: a new key comes after so many records.
  RecordWriter(Cipher cipher, const TrafficSecret& secret, std::uint64_t records_of_key)
      : key_(cipher, secret, Aead::Use::kEncrypt), records_of_key_(records_of_key) {}

  // Appends up to `most` bytes of content as records. Returns their number; `from` moves on.
  std::size_t write(Source& from, std::size_t most, ByteQueue& to);
  void write(std::span<const std::byte> content, ByteQueue& to);
  // Says that the session ends; nothing may follow.
  void write_alert(Alert alert, ByteQueue& to);
  // Takes a new key, and says so.
  void update_key(ByteQueue& to);

 private:
  void write_record(ContentType type, Source& from, std::size_t bytes, ByteQueue& to);
  void write_message(ContentType type, std::span<const std::byte> message, ByteQueue& to);

  RecordKey key_;
  std::uint64_t records_of_key_;
};

class RecordReader {
 public:
  RecordReader(Cipher cipher, const TrafficSecret& secret) : key_(cipher, secret, Aead::Use::kDecrypt) {}

  enum class Outcome : std::uint8_t {
    kContent,       // `bytes` of it are in the buffers; they may be none
    kIncomplete,    // the next record has not arrived whole
    kKeyRequested,  // the other side wants a new key of ours, too
    kEnd,           // the other side sends nothing more
    kBroken,        // why() says why, alert() what to tell the other side
  };
  struct Step {
    Outcome outcome = Outcome::kIncomplete;
    std::size_t bytes = 0;
  };
  // Takes what is left of a record, or the next one, from the front of `from`. Precondition: `to` is not at its end.
  Step read(ByteQueue& from, Destination& to);
  // The size of the record that kIncomplete has waited for, as far as it is known.
  [[nodiscard]] static std::size_t wanted(const ByteQueue& from);

  [[nodiscard]] const std::string& why() const { return why_; }
  // Nothing: the other side has said that the session ends.
  [[nodiscard]] std::optional<Alert> alert() const { return alert_; }
  // Whether the other side has ended the session because of this side's certificate.
  [[nodiscard]] bool was_refused() const { return was_refused_; }

 private:
  struct Opened {
    ContentType type = ContentType::kApplicationData;
    bool is_right = false;
  };
  Step copy_content(ByteQueue& from, Destination& to);
  Opened open_in_place(std::span<std::byte> record);
  Opened open_into(std::span<const std::byte> record, Destination& to);
  Step take_control(ContentType type, std::span<const std::byte> content);
  Step take_alert(std::span<const std::byte> content);
  Step fail(std::optional<Alert> alert, std::string why);

  RecordKey key_;
  bool has_ended_ = false;
  bool was_refused_ = false;
  std::size_t content_left_ = 0;  // decrypted, at the front of the queue; the rest of its record follows
  std::string why_;
  std::optional<Alert> alert_;
};

}  // namespace lockstep::transport::tls
