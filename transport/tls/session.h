// TLS 1.3 on one stream: the handshake, the proof of a run token, and encryption of what the stream carries.
//
// asio's ssl::stream encrypts one record in an operation and copies gathered writes. A Session reads from the socket
// straight into OpenSSL's buffer, and sends several records in one call. It never blocks, and never waits: its owner
// calls again when the socket is ready.
#pragma once

#include <array>
#include <asio/buffer.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "core/io/identity.h"
#include "transport/tls/credentials.h"

namespace lockstep::transport::tls {

// Of TLS: the most bytes in one record.
inline constexpr std::size_t kRecordBytes = 16'384;

// Memory in which small slices become one record. Sessions that one thread uses at a time may share it.
using Scratch = std::array<std::byte, kRecordBytes>;

// Not thread-safe: used by the owner of the reactor's loop only. The socket must outlive it.
class Session {
 public:
  enum class Side : std::uint8_t { kDialsPeer, kDialsCoordinator, kAccepts };

  // Makes the context judge certificates as sessions do; for the constructor of the credentials.
  static void prepare(SSL_CTX* context);

  // `socket`: connected and non-blocking. Throws std::bad_alloc.
  Session(std::shared_ptr<const Credentials> credentials, int socket, Side side);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() = default;

  // ---- handshake ----

  enum class Step : std::uint8_t { kDone, kWantsRead, kWantsWrite, kFailed };
  // Goes on with the handshake and the proof. Call it again when the socket is ready, until kDone or kFailed.
  [[nodiscard]] Step handshake();
  // What the other side has proved. Valid after kDone.
  [[nodiscard]] const io::Identity& identity() const { return identity_; }

  // ---- bytes ----

  // Fills the buffers as far as bytes have arrived. Errors: would_block; eof: an orderly end; any other: the stream is
  // broken. After fewer bytes than the buffers hold, without an error, more may be there.
  std::size_t read(std::span<const asio::mutable_buffer> into, std::error_code& error);
  // Whether the last read() found that no more bytes are there.
  [[nodiscard]] bool is_dry() const { return is_dry_; }

  // Encrypts up to `most` bytes of the buffers, and sends what the socket takes. Returns the number of bytes that were
  // encrypted: their memory is free again. Error would_block: earlier bytes are pending, and none was encrypted.
  std::size_t write(std::span<const asio::const_buffer> from, std::size_t most, Scratch& scratch,
                    std::error_code& error);
  // Encrypted bytes that the socket has not taken yet.
  [[nodiscard]] std::size_t pending() const { return out_.size() - sent_; }
  // Sends pending bytes. Error would_block: some are left.
  std::error_code flush();

  // Says that no more bytes follow. Returns what is still to be sent; the session is not used any more.
  std::vector<std::byte> finish();

  // Why the stream is broken. `error`: what the last call has returned.
  [[nodiscard]] std::string words_of(const std::error_code& error) const {
    return why_.empty() ? error.message() : why_;
  }

 private:
  static BIO_METHOD* socket_method();
  static int on_verify(X509_STORE_CTX* chain, void* nothing);
  [[nodiscard]] bool demands_certificate() const;
  int judge_certificate(X509_STORE_CTX* chain);
  int receive(char* into, int size);
  int append(const char* from, int size);

  [[nodiscard]] Step shake_hands();
  void send_proof();
  [[nodiscard]] bool take_proof();
  Step fail(std::string why);
  [[nodiscard]] std::string words_of_failure();
  [[nodiscard]] Mac mac_with(const Secret& secret, io::TokenId id);
  void encrypt(std::span<const std::byte> record);
  // The error of a failed call of OpenSSL that returned `result`.
  [[nodiscard]] std::error_code error_after(int result);

  std::shared_ptr<const Credentials> credentials_;
  int socket_;
  Side side_;
  SslPtr ssl_;
  io::Identity identity_;
  enum class Phase : std::uint8_t { kShakesHands, kProves, kDone };
  Phase phase_ = Phase::kShakesHands;
  bool is_dry_ = false;
  bool socket_is_dry_ = false;   // the last call took fewer bytes than it could have taken
  bool wrong_key_ = false;       // the other side has shown another key than the token names
  int receive_error_ = 0;        // errno of the socket; kEnded: the other side has closed it
  std::string bad_certificate_;  // why the other side's is refused
  std::uint64_t since_rekey_ = 0;
  std::vector<std::byte> out_;  // encrypted; the first sent_ bytes are sent
  std::size_t sent_ = 0;
  static constexpr std::size_t kProofBytes = 48;
  std::array<std::byte, kProofBytes> proof_{};
  std::size_t proof_read_ = 0;
  std::string why_;
};

}  // namespace lockstep::transport::tls
