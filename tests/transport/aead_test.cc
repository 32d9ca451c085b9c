// Authenticated encryption against the standards' examples, and one library against the other.
#include "transport/tls/aead.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::transport::tls {
namespace {

using Bytes = std::vector<std::byte>;

Bytes from_hex(std::string_view digits) {
  Bytes bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoul(std::string(digits.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

struct Message {
  Bytes key;
  Nonce nonce{};
  Bytes bound;
  Bytes content;
};

struct Sealed {
  Bytes content;
  Tag tag{};
  bool operator==(const Sealed&) const = default;
};

// In parts of `part` bytes.
Bytes applied(Aead& aead, const Message& message, const Bytes& content, std::size_t part) {
  Bytes result(content.size());
  aead.begin(message.nonce, message.bound);
  for (std::size_t at = 0; at < content.size(); at += part) {
    const std::size_t bytes = std::min(part, content.size() - at);
    aead.apply(std::span(content).subspan(at, bytes), result.data() + at);
  }
  return result;
}

Sealed seal(Cipher cipher, const Message& message, Aead::Library library, std::size_t part = 1U << 20U) {
  const auto aead = Aead::create(cipher, message.key, Aead::Use::kEncrypt, library);
  Bytes content = applied(*aead, message, message.content, part);
  return {std::move(content), aead->tag()};
}

constexpr Aead::Library kLibraries[] = {Aead::Library::kFastest, Aead::Library::kOpenSsl};

// Test case 4 of the specification of GCM (McGrew and Viega).
TEST(Aead, Aes128GcmAsItsAuthorsDo) {
  Message message{from_hex("feffe9928665731c6d6a8f9467308308"),
                  {},
                  from_hex("feedfacedeadbeeffeedfacedeadbeefabaddad2"),
                  from_hex("d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449"
                           "a6b525b16aedf5aa0de657ba637b39")};
  std::ranges::copy(from_hex("cafebabefacedbaddecaf888"), message.nonce.begin());
  for (const auto library : kLibraries) {
    const Sealed sealed = seal(Cipher::kAes128Gcm, message, library);
    EXPECT_EQ(sealed.content,
              from_hex("42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e21d514b25466931c7d8f6a5aac84aa0"
                       "51ba30b396a0aac973d58e091"));
    EXPECT_TRUE(std::ranges::equal(sealed.tag, from_hex("5bc94fbc3221a5db94fae95ae7121a47")));
  }
}

// RFC 8439, section 2.8.2.
TEST(Aead, ChaCha20Poly1305AsItsRfcDoes) {
  const std::string_view text =
      "Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen would be "
      "it.";
  Message message{from_hex("808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f"),
                  {},
                  from_hex("50515253c0c1c2c3c4c5c6c7"),
                  {}};
  for (const char c : text) message.content.push_back(static_cast<std::byte>(c));
  std::ranges::copy(from_hex("070000004041424344454647"), message.nonce.begin());
  const Sealed sealed = seal(Cipher::kChaCha20Poly1305, message, Aead::Library::kFastest);
  EXPECT_TRUE(std::ranges::equal(sealed.tag, from_hex("1ae10b594f09e26a7e902ecbd0600691")));
  EXPECT_TRUE(std::ranges::equal(std::span(sealed.content).first(16), from_hex("d31a8d34648e60db7b86afbc53ef7ec2")));
}

Message random_message(std::mt19937& random, std::size_t size) {
  const auto byte = [&] { return static_cast<std::byte>(random()); };
  Message message{Bytes(16), {}, Bytes(5), Bytes(size)};
  for (auto* bytes : {&message.key, &message.bound, &message.content}) std::ranges::generate(*bytes, byte);
  std::ranges::generate(message.nonce, byte);
  return message;
}

TEST(Aead, BothLibrariesAgreeOnMessagesOfAllSizesInAnyParts) {
  std::mt19937 random(1);
  for (std::size_t size = 0; size < 900; ++size) {
    const Message message = random_message(random, size);
    const Sealed expected = seal(Cipher::kAes128Gcm, message, Aead::Library::kOpenSsl);
    EXPECT_EQ(seal(Cipher::kAes128Gcm, message, Aead::Library::kFastest), expected) << size;
    EXPECT_EQ(seal(Cipher::kAes128Gcm, message, Aead::Library::kFastest, 1 + random() % 300), expected) << size;
    const auto aead = Aead::create(Cipher::kAes128Gcm, message.key, Aead::Use::kDecrypt);
    EXPECT_EQ(applied(*aead, message, expected.content, 1 + random() % 300), message.content) << size;
    EXPECT_TRUE(aead->verify(expected.tag)) << size;
  }
}

TEST(Aead, BothLibrariesAgreeOnRecords) {
  std::mt19937 random(2);
  for (const std::size_t size : {4096UL, 16'383UL, 16'384UL, 16'385UL}) {
    const Message message = random_message(random, size);
    EXPECT_EQ(seal(Cipher::kAes128Gcm, message, Aead::Library::kFastest, 1000),
              seal(Cipher::kAes128Gcm, message, Aead::Library::kOpenSsl));
  }
}

TEST(Aead, DecryptsInPlace) {
  std::mt19937 random(3);
  for (const auto cipher : {Cipher::kAes128Gcm, Cipher::kChaCha20Poly1305}) {
    Message message = random_message(random, 700);
    message.key.resize(key_bytes(cipher));
    Sealed sealed = seal(cipher, message, Aead::Library::kFastest);
    const auto aead = Aead::create(cipher, message.key, Aead::Use::kDecrypt);
    aead->begin(message.nonce, message.bound);
    aead->apply(sealed.content, sealed.content.data());
    EXPECT_TRUE(aead->verify(sealed.tag));
    EXPECT_EQ(sealed.content, message.content);
  }
}

// One bit of the content, of the bound bytes, of the tag, of the nonce, of the key.
TEST(Aead, AnyChangedBitIsFound) {
  std::mt19937 random(4);
  for (const auto library : kLibraries) {
    const Message message = random_message(random, 100);
    const Sealed sealed = seal(Cipher::kAes128Gcm, message, library);
    for (std::size_t bit = 0; bit < 8 * (100 + 5 + kTagBytes + kNonceBytes + 16); ++bit) {
      Message changed = message;
      Sealed shown = sealed;
      std::byte* const bytes[] = {shown.content.data(), changed.bound.data(), shown.tag.data(), changed.nonce.data(),
                                  changed.key.data()};
      const std::size_t sizes[] = {100, 5, kTagBytes, kNonceBytes, 16};
      std::size_t at = bit / 8;
      std::size_t part = 0;
      for (; at >= sizes[part]; ++part) at -= sizes[part];
      bytes[part][at] ^= static_cast<std::byte>(1U << (bit % 8));
      const auto aead = Aead::create(Cipher::kAes128Gcm, changed.key, Aead::Use::kDecrypt, library);
      applied(*aead, changed, shown.content, 64);
      EXPECT_FALSE(aead->verify(shown.tag)) << bit;
    }
  }
}

}  // namespace
}  // namespace lockstep::transport::tls
