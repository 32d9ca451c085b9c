#include "transport/tls/records.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/base/assert.h"
#include "transport/driver_mutant.h"
#include "transport/tls/openssl.h"

namespace lockstep::transport::tls {
namespace {

// A header: the type of all encrypted records, the version of old, and the number of bytes that follow.
constexpr std::size_t kHeaderBytes = 5;
constexpr std::size_t kTypeBytes = 1;  // the real type, encrypted after the content
constexpr std::size_t kTrailerBytes = kTypeBytes + kTagBytes;
constexpr auto kOuterType = static_cast<std::byte>(ContentType::kApplicationData);
constexpr std::byte kOldMajor{3};
constexpr std::byte kOldMinor{3};
constexpr std::size_t kMostOverhead = 256;  // a sender may add so much to the content

// Content as large as this begins a record of its own, so that the other side decrypts it right to its place.
constexpr std::size_t kLargeBytes = 8192;
// Content up to this size is decrypted where it has arrived: it may be no content but a message of TLS.
constexpr std::size_t kControlBytes = 255;

constexpr std::byte kKeyUpdate{24};
constexpr std::size_t kKeyUpdateBytes = 5;

std::array<std::byte, kHeaderBytes> header_of(std::size_t content) {
  const std::size_t size = content + kTrailerBytes;
  return {kOuterType, kOldMajor, kOldMinor, static_cast<std::byte>(size >> 8U), static_cast<std::byte>(size & 0xffU)};
}

std::size_t body_size(std::span<const std::byte> header) {
  return (std::to_integer<std::size_t>(header[3]) << 8U) | std::to_integer<std::size_t>(header[4]);
}

// HKDF-Expand-Label without a context (RFC 8446, section 7.1).
void derive(const TrafficSecret& secret, std::string_view label, std::span<std::byte> into) {
  using KdfPtr = std::unique_ptr<EVP_KDF, Freed<EVP_KDF_free>>;
  using KdfContextPtr = std::unique_ptr<EVP_KDF_CTX, Freed<EVP_KDF_CTX_free>>;
  const KdfPtr kdf(EVP_KDF_fetch(nullptr, OSSL_KDF_NAME_TLS1_3_KDF, nullptr));
  require(kdf != nullptr);
  const KdfContextPtr context(EVP_KDF_CTX_new(kdf.get()));
  require(context != nullptr);
  int mode = EVP_KDF_HKDF_MODE_EXPAND_ONLY;
  std::string digest = "SHA256";
  std::string prefix = "tls13 ";
  std::string name(label);
  TrafficSecret key = secret;
  const std::array<OSSL_PARAM, 6> parameters{
      OSSL_PARAM_construct_int(OSSL_KDF_PARAM_MODE, &mode),
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest.data(), digest.size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, key.data(), key.size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_PREFIX, prefix.data(), prefix.size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_LABEL, name.data(), name.size()),
      OSSL_PARAM_construct_end()};
  require(EVP_KDF_derive(context.get(), reinterpret_cast<unsigned char*>(into.data()), into.size(),
                         parameters.data()) == 1);
  OPENSSL_cleanse(key.data(), key.size());
}

}  // namespace

// ---- RecordKey ----

RecordKey::RecordKey(Cipher cipher, const TrafficSecret& secret, Aead::Use use)
    : cipher_(cipher), use_(use), secret_(secret) {
  use_secret();
}

RecordKey::~RecordKey() { OPENSSL_cleanse(secret_.data(), secret_.size()); }

void RecordKey::use_secret() {
  std::array<std::byte, kMostKeyBytes> key{};
  const auto used = std::span(key).first(key_bytes(cipher_));
  derive(secret_, "key", used);
  derive(secret_, "iv", iv_);
  aead_ = Aead::create(cipher_, used, use_);
  OPENSSL_cleanse(key.data(), key.size());
  records_ = 0;
}

void RecordKey::update() {
  TrafficSecret next{};
  derive(secret_, "traffic upd", next);
  std::swap(secret_, next);
  OPENSSL_cleanse(next.data(), next.size());
  use_secret();
}

Aead& RecordKey::begin(std::span<const std::byte> header) {
  Nonce nonce = iv_;  // the number of the record, with the last byte first, changes its end
  for (std::size_t i = 0; i < sizeof(records_); ++i) {
    nonce[kNonceBytes - 1 - i] ^= static_cast<std::byte>(records_ >> (8 * i));
  }
  ++records_;
  aead_->begin(nonce, header);
  return *aead_;
}

// ---- RecordWriter ----

void RecordWriter::write_record(ContentType type, Source& from, std::size_t bytes, ByteQueue& to) {
  const std::span<std::byte> room = to.room(kHeaderBytes + bytes + kTrailerBytes);
  const auto header = header_of(bytes);
  std::ranges::copy(header, room.begin());
  Aead& aead = key_.begin(header);
  std::byte* at = room.data() + kHeaderBytes;
  for (std::size_t left = bytes; left > 0;) {
    const asio::const_buffer here = asio::buffer(from.here(), left);
    aead.apply({static_cast<const std::byte*>(here.data()), here.size()}, at);
    from.skip(here.size());
    at += here.size();
    left -= here.size();
  }
  const auto inner = static_cast<std::byte>(type);
  aead.apply({&inner, 1}, at);
  std::ranges::copy(aead.tag(), at + kTypeBytes);
  to.added(kHeaderBytes + bytes + kTrailerBytes);
}

std::size_t RecordWriter::write(Source& from, std::size_t most, ByteQueue& to) {
  std::size_t written = 0;
  while (!from.at_end() && written < most) {
    if (key_.records() >= records_of_key_ && !planted(DriverMutant::kNeverRekeys)) update_key(to);
    const std::size_t bytes = from.run(std::min(kRecordBytes, most - written), kLargeBytes);
    write_record(ContentType::kApplicationData, from, bytes, to);
    written += bytes;
  }
  return written;
}

void RecordWriter::write(std::span<const std::byte> content, ByteQueue& to) {
  const asio::const_buffer buffer(content.data(), content.size());
  Source from({&buffer, 1});
  write(from, content.size(), to);
}

// A message of TLS fits one record.
void RecordWriter::write_message(ContentType type, std::span<const std::byte> message, ByteQueue& to) {
  const asio::const_buffer buffer(message.data(), message.size());
  Source from({&buffer, 1});
  write_record(type, from, message.size(), to);
}

void RecordWriter::write_alert(Alert alert, ByteQueue& to) {
  constexpr std::byte kWarning{1};
  constexpr std::byte kFatal{2};
  const std::array content{alert == Alert::kCloseNotify ? kWarning : kFatal, static_cast<std::byte>(alert)};
  write_message(ContentType::kAlert, content, to);
}

void RecordWriter::update_key(ByteQueue& to) {
  constexpr std::array<std::byte, kKeyUpdateBytes> kMessage{kKeyUpdate, {}, {}, std::byte{1}, {}};
  write_message(ContentType::kHandshake, kMessage, to);
  key_.update();
}

// ---- RecordReader ----

std::size_t RecordReader::wanted(const ByteQueue& from) {
  if (from.size() < kHeaderBytes) return kHeaderBytes;
  return kHeaderBytes + body_size(from.bytes());
}

RecordReader::Step RecordReader::read(ByteQueue& from, Destination& to) {
  if (content_left_ > 0) return copy_content(from, to);
  if (!why_.empty()) return {Outcome::kBroken};
  if (has_ended_) return {Outcome::kEnd};
  if (from.size() < kHeaderBytes) return {Outcome::kIncomplete};
  const std::span<std::byte> header = from.bytes().first(kHeaderBytes);
  const std::size_t body = body_size(header);
  if (header[0] != kOuterType || header[1] != kOldMajor || header[2] != kOldMinor) {
    return fail(Alert::kUnexpectedMessage, "bytes arrived that are no record of TLS 1.3");
  }
  if (body > kRecordBytes + kMostOverhead) return fail(Alert::kRecordOverflow, "a record is too long");
  if (body < kTrailerBytes) return fail(Alert::kDecodeError, "a record is too short");
  if (from.size() < kHeaderBytes + body) return {Outcome::kIncomplete};
  const std::span<std::byte> record = from.bytes().first(kHeaderBytes + body);
  const std::size_t content = body - kTrailerBytes;
  const bool into_place = content > kControlBytes && to.left(content) == content;
  const Opened opened = into_place ? open_into(record, to) : open_in_place(record);
  if (!opened.is_right) return fail(Alert::kBadRecordMac, "a record was changed on its way");
  if (content > kRecordBytes) return fail(Alert::kRecordOverflow, "a record is too long");
  if (opened.type == ContentType::kApplicationData) {
    if (into_place) {
      from.drop(record.size());
      return {Outcome::kContent, content};
    }
    from.drop(kHeaderBytes);
    content_left_ = content;
    return copy_content(from, to);
  }
  const Step step = take_control(opened.type, record.subspan(kHeaderBytes, content));
  from.drop(record.size());
  return step;
}

RecordReader::Step RecordReader::copy_content(ByteQueue& from, Destination& to) {
  Step step{Outcome::kContent};
  while (content_left_ > 0 && !to.at_end()) {
    const std::size_t bytes = asio::buffer_copy(to.here(), asio::buffer(from.bytes().data(), content_left_));
    to.skip(bytes);
    from.drop(bytes);
    content_left_ -= bytes;
    step.bytes += bytes;
  }
  if (content_left_ == 0) from.drop(kTrailerBytes);
  return step;
}

RecordReader::Opened RecordReader::open_in_place(std::span<std::byte> record) {
  Aead& aead = key_.begin(record.first(kHeaderBytes));
  const std::span<std::byte> encrypted = record.subspan(kHeaderBytes, record.size() - kHeaderBytes - kTagBytes);
  aead.apply(encrypted, encrypted.data());
  Tag tag;
  std::ranges::copy(record.last(kTagBytes), tag.begin());
  return {static_cast<ContentType>(encrypted.back()), aead.verify(tag)};
}

// The bytes are told to nobody before the tag is verified.
RecordReader::Opened RecordReader::open_into(std::span<const std::byte> record, Destination& to) {
  Aead& aead = key_.begin(record.first(kHeaderBytes));
  std::span<const std::byte> content = record.subspan(kHeaderBytes, record.size() - kHeaderBytes - kTrailerBytes);
  while (!content.empty()) {
    const asio::mutable_buffer here = asio::buffer(to.here(), content.size());
    aead.apply(content.first(here.size()), static_cast<std::byte*>(here.data()));
    to.skip(here.size());
    content = content.subspan(here.size());
  }
  std::byte type{};
  aead.apply(record.last(kTrailerBytes).first(kTypeBytes), &type);
  Tag tag;
  std::ranges::copy(record.last(kTagBytes), tag.begin());
  return {static_cast<ContentType>(type), aead.verify(tag)};
}

RecordReader::Step RecordReader::take_control(ContentType type, std::span<const std::byte> content) {
  if (type == ContentType::kAlert) return take_alert(content);
  const bool is_update = type == ContentType::kHandshake && content.size() == kKeyUpdateBytes &&
                         content[0] == kKeyUpdate && content[1] == std::byte{0} && content[2] == std::byte{0} &&
                         content[3] == std::byte{1} && content[4] <= std::byte{1};
  if (!is_update) {
    return fail(Alert::kUnexpectedMessage, "a message of TLS came that no peer of Lockstep sends");
  }
  key_.update();
  return {content[4] == std::byte{1} ? Outcome::kKeyRequested : Outcome::kContent};
}

RecordReader::Step RecordReader::take_alert(std::span<const std::byte> content) {
  if (content.size() != 2) return fail(Alert::kDecodeError, "an alert has a wrong size");
  const auto alert = static_cast<Alert>(content[1]);
  if (alert == Alert::kCloseNotify) {
    has_ended_ = true;
    return {Outcome::kEnd};
  }
  if (alert == Alert::kUserCanceled) return {Outcome::kContent};
  was_refused_ = (alert >= Alert::kBadCertificate && alert <= Alert::kCertificateUnknown) ||
                 alert == Alert::kUnknownCa || alert == Alert::kAccessDenied;
  return fail(std::nullopt, std::string("the other side has ended the session: ") +
                                SSL_alert_desc_string_long(std::to_integer<int>(content[1])));
}

RecordReader::Step RecordReader::fail(std::optional<Alert> alert, std::string why) {
  alert_ = alert;
  why_ = std::move(why);
  return {Outcome::kBroken};
}

}  // namespace lockstep::transport::tls
