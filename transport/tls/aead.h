// Authenticated encryption of messages with one key, for the records of TLS 1.3: AES-128-GCM or ChaCha20-Poly1305.
//
// A message may come in parts, from any memory to any memory: encrypting it is the only pass over its bytes. Intel's
// ipsec-mb encrypts where the processor is of its kind, since OpenSSL 3.0 lacks the wide instructions (VAES), and takes
// half the speed. OpenSSL encrypts everywhere else.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace lockstep::transport::tls {

enum class Cipher : std::uint8_t { kAes128Gcm, kChaCha20Poly1305 };

inline constexpr std::size_t kTagBytes = 16;
inline constexpr std::size_t kNonceBytes = 12;
inline constexpr std::size_t kMostKeyBytes = 32;
using Tag = std::array<std::byte, kTagBytes>;
using Nonce = std::array<std::byte, kNonceBytes>;

[[nodiscard]] constexpr std::size_t key_bytes(Cipher cipher) { return cipher == Cipher::kAes128Gcm ? 16 : 32; }

// One direction: an object either encrypts all messages or decrypts all. No nonce may come twice.
class Aead {
 public:
  enum class Use : std::uint8_t { kEncrypt, kDecrypt };
  enum class Library : std::uint8_t { kFastest, kOpenSsl };

  // `key`: key_bytes(cipher) bytes. Throws std::bad_alloc.
  static std::unique_ptr<Aead> create(Cipher cipher, std::span<const std::byte> key, Use use,
                                      Library library = Library::kFastest);

  Aead() = default;
  Aead(const Aead&) = delete;
  Aead& operator=(const Aead&) = delete;
  virtual ~Aead() = default;

  // Begins a message. `bound`: further bytes that the tag covers.
  virtual void begin(const Nonce& nonce, std::span<const std::byte> bound) = 0;
  // Encrypts or decrypts the next part of the message. `to` is `from`, or does not overlap it.
  virtual void apply(std::span<const std::byte> from, std::byte* to) = 0;
  // The tag of a message that was encrypted.
  [[nodiscard]] virtual Tag tag() = 0;
  // Whether this is the tag of a message that was decrypted. False: the message is not what the other side encrypted.
  [[nodiscard]] virtual bool verify(const Tag& tag) = 0;
};

}  // namespace lockstep::transport::tls
