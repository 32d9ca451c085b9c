// Records of TLS 1.3: against the example of RFC 8448, against OpenSSL's own, and against changed and foreign bytes.
#include "transport/tls/records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <asio/error.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "transport/tls/credentials.h"
#include "transport/tls/key_pair.h"
#include "transport/tls/session.h"

namespace lockstep::transport::tls {
namespace {

using ::testing::HasSubstr;
using Bytes = std::vector<std::byte>;
using Outcome = RecordReader::Outcome;

constexpr std::uint64_t kManyRecords = 1U << 20U;

TrafficSecret secret_of(std::string_view digits) {
  TrafficSecret secret{};
  for (std::size_t i = 0; i < secret.size(); ++i) {
    secret[i] = static_cast<std::byte>(std::stoul(std::string(digits.substr(2 * i, 2)), nullptr, 16));
  }
  return secret;
}
const TrafficSecret kSecret = secret_of("9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5");

Bytes random_bytes(std::mt19937& random, std::size_t size) {
  Bytes bytes(size);
  std::ranges::generate(bytes, [&] { return static_cast<std::byte>(random()); });
  return bytes;
}

ByteQueue queue_of(std::span<const std::byte> bytes) {
  ByteQueue queue;
  queue.append(bytes);
  return queue;
}

RecordReader::Step read(RecordReader& reader, ByteQueue& from, std::span<std::byte> into) {
  const asio::mutable_buffer buffer(into.data(), into.size());
  Destination to({&buffer, 1});
  return reader.read(from, to);
}

// Section 3 of RFC 8448: the client's first record of content.
TEST(Records, AsInTheRfc) {
  Bytes content;
  for (int i = 0; i < 50; ++i) content.push_back(static_cast<std::byte>(i));
  RecordWriter writer(Cipher::kAes128Gcm, kSecret, kManyRecords);
  ByteQueue written;
  writer.write(content, written);
  constexpr std::string_view kExpected =
      "1703030043a23f7054b62c94d0affafe8228ba55cbefacea42f914aa66bcab3f2b9819a8a5b46b395bd54a9a20441e2b62974e1f5a6292a2"
      "977014bd1e3deae63aeebb21694915e4";
  std::string digits;
  for (const std::byte byte : written.bytes()) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    digits += kDigits[std::to_integer<std::size_t>(byte) / 16];
    digits += kDigits[std::to_integer<std::size_t>(byte) % 16];
  }
  EXPECT_EQ(digits, kExpected);
}

// What arrives is what was written, however the writer's slices, the network and the reader's buffers cut it, and
// whenever keys change.
TEST(Records, WhatIsWrittenIsRead) {
  std::mt19937 random(1);
  for (int round = 0; round < 60; ++round) {
    const Cipher cipher = round % 2 == 0 ? Cipher::kAes128Gcm : Cipher::kChaCha20Poly1305;
    RecordWriter writer(cipher, kSecret, 1 + random() % 7);
    RecordReader reader(cipher, kSecret);
    const Bytes content = random_bytes(random, random() % 200'000);
    std::vector<asio::const_buffer> slices;
    for (std::size_t at = 0; at < content.size();) {
      const std::size_t bytes =
          std::min<std::size_t>(content.size() - at, random() % (random() % 3 == 0 ? 60'000 : 90));
      slices.emplace_back(content.data() + at, bytes);
      at += bytes;
    }
    Source source(slices);
    ByteQueue line;
    while (!source.at_end()) writer.write(source, 1 + random() % 70'000, line);
    ByteQueue arrived;
    Bytes result(content.size());
    std::size_t filled = 0;
    while (filled < result.size()) {
      const std::size_t bytes =
          std::min<std::size_t>(result.size() - filled, 1 + random() % (round % 5 == 0 ? 40 : 40'000));
      const auto step = read(reader, arrived, std::span(result).subspan(filled, bytes));
      ASSERT_TRUE(step.outcome == Outcome::kContent || step.outcome == Outcome::kIncomplete) << reader.why();
      filled += step.bytes;
      if (step.outcome == Outcome::kIncomplete) {
        ASSERT_LT(arrived.size(), RecordReader::wanted(arrived));
        const std::size_t next = std::min<std::size_t>(line.size(), 1 + random() % 30'000);
        arrived.append(line.bytes().first(next));
        line.drop(next);
      }
    }
    EXPECT_EQ(result, content) << round;
    EXPECT_TRUE(line.empty() && arrived.empty());
  }
}

// A large slice is not joined with what comes before it, so it needs no copy where it is read.
TEST(Records, ALargeSliceBeginsARecord) {
  const Bytes small(40);
  const Bytes large(65'536);
  const std::array slices{asio::buffer(small), asio::buffer(large)};
  const std::vector<asio::const_buffer> buffers(slices.begin(), slices.end());
  Source source(buffers);
  EXPECT_EQ(source.run(kRecordBytes, 8192), small.size());
  source.skip(small.size());
  EXPECT_EQ(source.run(kRecordBytes, 8192), kRecordBytes);
}

Bytes one_record(std::size_t size) {
  RecordWriter writer(Cipher::kAes128Gcm, kSecret, kManyRecords);
  ByteQueue line;
  writer.write(Bytes(size, std::byte{7}), line);
  return {line.bytes().begin(), line.bytes().end()};
}

// Small: decrypted where it arrived. Large: decrypted into the reader's memory.
TEST(Records, AnyChangedByteEndsTheSession) {
  for (const std::size_t size : {20UL, 400UL}) {
    const Bytes record = one_record(size);
    for (std::size_t at = 0; at < record.size(); ++at) {
      Bytes changed = record;
      changed[at] ^= std::byte{1};
      if (at == 3 || at == 4) changed.resize(70'000);  // another length: more bytes are there
      RecordReader reader(Cipher::kAes128Gcm, kSecret);
      ByteQueue from = queue_of(changed);
      Bytes into(20'000);
      const auto step = read(reader, from, into);
      EXPECT_EQ(step.outcome, Outcome::kBroken) << at;
      EXPECT_EQ(step.bytes, 0U);
      EXPECT_TRUE(reader.alert().has_value());
      EXPECT_EQ(read(reader, from, into).outcome, Outcome::kBroken);
    }
  }
}

TEST(Records, ARepeatedAndALostRecordEndTheSession) {
  RecordWriter writer(Cipher::kAes128Gcm, kSecret, kManyRecords);
  ByteQueue line;
  writer.write(Bytes(10), line);
  const Bytes first(line.bytes().begin(), line.bytes().end());
  line.drop(line.size());
  writer.write(Bytes(10), line);
  const Bytes second(line.bytes().begin(), line.bytes().end());
  Bytes into(100);
  RecordReader repeated(Cipher::kAes128Gcm, kSecret);
  ByteQueue from = queue_of(first);
  from.append(first);
  EXPECT_EQ(read(repeated, from, into).bytes, 10U);
  EXPECT_EQ(read(repeated, from, into).outcome, Outcome::kBroken);
  RecordReader lost(Cipher::kAes128Gcm, kSecret);
  from = queue_of(second);
  EXPECT_EQ(read(lost, from, into).outcome, Outcome::kBroken);
}

TEST(Records, LengthsThatTlsForbidsAreRefusedBeforeTheRecordIsThere) {
  for (const unsigned size : {0U, 16U, 16'384U + 257U, 65'535U}) {
    const Bytes header{std::byte{23}, std::byte{3}, std::byte{3}, static_cast<std::byte>(size >> 8U),
                       static_cast<std::byte>(size & 0xffU)};
    RecordReader reader(Cipher::kAes128Gcm, kSecret);
    ByteQueue from = queue_of(header);
    Bytes into(10);
    EXPECT_EQ(read(reader, from, into).outcome, Outcome::kBroken) << size;
  }
}

TEST(Records, AnEndIsRememberedAndWordsOfTheOtherSideAreTold) {
  RecordWriter writer(Cipher::kAes128Gcm, kSecret, kManyRecords);
  ByteQueue line;
  writer.write(Bytes(10), line);
  writer.write_alert(Alert::kCloseNotify, line);
  RecordReader reader(Cipher::kAes128Gcm, kSecret);
  Bytes into(100);
  EXPECT_EQ(read(reader, line, into).bytes, 10U);
  EXPECT_EQ(read(reader, line, into).outcome, Outcome::kEnd);
  EXPECT_EQ(read(reader, line, into).outcome, Outcome::kEnd);

  RecordWriter other(Cipher::kAes128Gcm, kSecret, kManyRecords);
  other.write_alert(Alert::kBadRecordMac, line);
  RecordReader told(Cipher::kAes128Gcm, kSecret);
  EXPECT_EQ(read(told, line, into).outcome, Outcome::kBroken);
  EXPECT_THAT(told.why(), HasSubstr("bad record mac"));
  EXPECT_FALSE(told.alert().has_value()) << "the other side knows";
  EXPECT_FALSE(told.was_refused());
}

TEST(Records, AnAlertAboutTheCertificateIsARefusal) {
  for (const Alert alert :
       {Alert::kBadCertificate, Alert::kUnsupportedCertificate, Alert::kCertificateRevoked, Alert::kCertificateExpired,
        Alert::kCertificateUnknown, Alert::kUnknownCa, Alert::kAccessDenied}) {
    RecordWriter writer(Cipher::kAes128Gcm, kSecret, kManyRecords);
    ByteQueue line;
    writer.write_alert(alert, line);
    RecordReader reader(Cipher::kAes128Gcm, kSecret);
    Bytes into(10);
    EXPECT_EQ(read(reader, line, into).outcome, Outcome::kBroken);
    EXPECT_TRUE(reader.was_refused()) << static_cast<int>(alert);
  }
}

// ---- a session of ours with one of OpenSSL ----

class WithOpenSsl : public ::testing::Test {
 protected:
  WithOpenSsl() {
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, sockets_.data()), 0);
    const KeyPair keys = KeyPair::generate();
    SSL_CTX* const c = context_.get();
    SSL_CTX_use_certificate(c, keys.certificate());
    SSL_CTX_use_PrivateKey(c, keys.key());
    SSL_CTX_set_num_tickets(c, 0);
    SSL_CTX_set_verify(c, SSL_VERIFY_PEER, [](int, X509_STORE_CTX*) { return 1; });
  }
  void TearDown() override {
    for (const int socket : sockets_) ::close(socket);
  }

  void connect(Session::Side side, const char* cipher, std::uint64_t rekey_bytes = Credentials::kRekeyBytes) {
    SSL_CTX_set_ciphersuites(context_.get(), cipher);
    theirs_.reset(SSL_new(context_.get()));
    SSL_set_fd(theirs_.get(), sockets_[1]);
    if (side == Session::Side::kAccepts) {
      SSL_set_connect_state(theirs_.get());
    } else {
      SSL_set_accept_state(theirs_.get());
    }
    ours_ =
        std::make_unique<Session>(std::make_shared<Credentials>(KeyPair::generate(), rekey_bytes), sockets_[0], side);
    auto step = Session::Step::kWantsRead;
    int result = 0;
    for (int i = 0; i < 100 && (step != Session::Step::kDone || result != 1); ++i) {
      if (step != Session::Step::kDone) step = ours_->handshake();
      if (result != 1) result = SSL_do_handshake(theirs_.get());
    }
    ASSERT_EQ(step, Session::Step::kDone);
    ASSERT_EQ(result, 1);
  }

  Bytes we_read(std::size_t size) {
    Bytes into(size);
    std::size_t filled = 0;
    std::error_code error;
    while (filled < size && !error) {
      const asio::mutable_buffer rest = asio::buffer(into) + filled;
      filled += ours_->read({&rest, 1}, error);
    }
    EXPECT_EQ(filled, size) << ours_->words_of(error);
    return into;
  }
  Bytes they_read(std::size_t size) {
    Bytes into(size);
    for (std::size_t filled = 0; filled < size;) {
      std::size_t bytes = 0;
      if (SSL_read_ex(theirs_.get(), into.data() + filled, size - filled, &bytes) != 1) {
        ADD_FAILURE() << "OpenSSL reads no more";
        break;
      }
      filled += bytes;
    }
    return into;
  }
  void they_write(const Bytes& bytes) {
    std::size_t written = 0;
    EXPECT_EQ(SSL_write_ex(theirs_.get(), bytes.data(), bytes.size(), &written), 1);
  }
  void we_write(const Bytes& bytes) {
    std::error_code error;
    const asio::const_buffer buffer = asio::buffer(bytes);
    EXPECT_EQ(ours_->write({&buffer, 1}, bytes.size(), error), bytes.size());
    EXPECT_FALSE(error) << error.message();
  }
  void exchange(std::size_t size) {
    const Bytes there = random_bytes(random_, size);
    we_write(there);
    EXPECT_EQ(they_read(size), there);
    const Bytes back = random_bytes(random_, size);
    they_write(back);
    EXPECT_EQ(we_read(size), back);
  }

  std::mt19937 random_{1};
  std::array<int, 2> sockets_{};
  ContextPtr context_{SSL_CTX_new(TLS_method())};
  SslPtr theirs_;
  std::unique_ptr<Session> ours_;
};

class WithOpenSslAs : public WithOpenSsl,
                      public ::testing::WithParamInterface<std::tuple<Session::Side, const char*>> {};

TEST_P(WithOpenSslAs, EachReadsWhatTheOtherWrites) {
  connect(std::get<0>(GetParam()), std::get<1>(GetParam()));
  for (const std::size_t size : {1UL, 48UL, 4096UL, 16'384UL, 50'000UL}) exchange(size);
}

TEST_P(WithOpenSslAs, EachTakesANewKeyOfTheOther) {
  connect(std::get<0>(GetParam()), std::get<1>(GetParam()), kRecordBytes);  // one record of each key
  for (int i = 0; i < 5; ++i) exchange(40'000);
  for (const int kind : {SSL_KEY_UPDATE_NOT_REQUESTED, SSL_KEY_UPDATE_REQUESTED}) {
    EXPECT_EQ(SSL_key_update(theirs_.get(), kind), 1);
    for (int i = 0; i < 3; ++i) exchange(300);
  }
}

TEST_P(WithOpenSslAs, EachEndsInOrder) {
  connect(std::get<0>(GetParam()), std::get<1>(GetParam()));
  const std::vector<std::byte> rest = ours_->finish();
  ASSERT_EQ(::send(sockets_[0], rest.data(), rest.size(), 0), static_cast<ssize_t>(rest.size()));
  char byte = 0;
  const int result = SSL_read(theirs_.get(), &byte, 1);
  EXPECT_EQ(SSL_get_error(theirs_.get(), result), SSL_ERROR_ZERO_RETURN);
  SSL_shutdown(theirs_.get());
  std::error_code error;
  const asio::mutable_buffer into(&byte, 1);
  EXPECT_EQ(ours_->read({&into, 1}, error), 0U);
  EXPECT_EQ(error, asio::error::eof);
}

INSTANTIATE_TEST_SUITE_P(Sides, WithOpenSslAs,
                         ::testing::Combine(::testing::Values(Session::Side::kAccepts, Session::Side::kDialsPeer),
                                            ::testing::Values("TLS_AES_128_GCM_SHA256",
                                                              "TLS_CHACHA20_POLY1305_SHA256")));

TEST_F(WithOpenSsl, AServerThatSendsTicketsIsNoPeer) {
  SSL_CTX_set_num_tickets(context_.get(), 1);
  connect(Session::Side::kDialsPeer, "TLS_AES_128_GCM_SHA256");
  std::array<std::byte, 10> bytes{};
  std::error_code error;
  const asio::mutable_buffer into = asio::buffer(bytes);
  EXPECT_EQ(ours_->read({&into, 1}, error), 0U);
  EXPECT_TRUE(error);
  EXPECT_THAT(ours_->words_of(error), HasSubstr("a message of TLS came that no peer of Lockstep sends"));
}

TEST_F(WithOpenSsl, OpenSslIsToldWhyWeEndTheSession) {
  connect(Session::Side::kAccepts, "TLS_AES_128_GCM_SHA256");
  const Bytes garbage(100, std::byte{23});
  ASSERT_EQ(::send(sockets_[1], garbage.data(), garbage.size(), 0), 100);
  std::array<std::byte, 10> bytes{};
  std::error_code error;
  const asio::mutable_buffer into = asio::buffer(bytes);
  EXPECT_EQ(ours_->read({&into, 1}, error), 0U);
  EXPECT_TRUE(error);
  const std::vector<std::byte> rest = ours_->finish();
  ASSERT_EQ(::send(sockets_[0], rest.data(), rest.size(), 0), static_cast<ssize_t>(rest.size()));
  char byte = 0;
  EXPECT_LE(SSL_read(theirs_.get(), &byte, 1), 0);
  EXPECT_THAT(take_error(), HasSubstr("alert"));
}

}  // namespace
}  // namespace lockstep::transport::tls
