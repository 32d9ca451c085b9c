// TLS 1.3 on one stream: the handshake, the proof of a run token, and encryption of what the stream carries.
//
// OpenSSL makes the handshake; what follows it goes through the records of transport/tls/records.h, several in one call
// of the system. A Session never blocks, and never waits: its owner calls again when the socket is ready.
#pragma once

#include <array>
#include <asio/buffer.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "core/io/identity.h"
#include "transport/tls/byte_queue.h"
#include "transport/tls/credentials.h"
#include "transport/tls/records.h"

namespace lockstep::transport::tls {

// Not thread-safe: used by the owner of the reactor's loop only. The socket must outlive it.
class Session {
 public:
  enum class Side : std::uint8_t { kDialsPeer, kDialsCoordinator, kAccepts };

  // Makes the context judge certificates as sessions do, and hand them its secrets; for the constructor of the
  // credentials.
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
  // Whether the handshake has failed because of the other side's key or certificate, or because it is a Lockstep
  // coordinator without TLS: another one would fail alike.
  [[nodiscard]] bool has_refused() const { return !findings_.refused_because.empty(); }
  // What the other side has proved. Valid after kDone.
  [[nodiscard]] const io::Identity& identity() const { return identity_; }

  // ---- bytes ----

  // Fills the buffers as far as bytes have arrived. Errors: would_block; eof: an orderly end; EKEYREJECTED: the
  // coordinator does not accept the certificate of this side; any other: the stream is broken. After fewer bytes than
  // the buffers hold, without an error, more may be there.
  std::size_t read(std::span<const asio::mutable_buffer> into, std::error_code& error);
  // Whether the last read() found that no more bytes are there.
  [[nodiscard]] bool is_dry() const { return is_dry_; }

  // Encrypts up to `most` bytes of the buffers, and sends what the socket takes. Returns the number of bytes that were
  // encrypted: their memory is free again. Error would_block: earlier bytes are pending, and none was encrypted.
  std::size_t write(std::span<const asio::const_buffer> from, std::size_t most, std::error_code& error);
  // Encrypted bytes that the socket has not taken yet.
  [[nodiscard]] std::size_t pending() const { return out_.size(); }
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
  static Session& of(X509_STORE_CTX* chain);
  static int on_fault(int good, X509_STORE_CTX* chain);
  static void on_secret(const SSL* ssl, const char* line);
  [[nodiscard]] bool demands_certificate() const;
  int judge_certificate(X509_STORE_CTX* chain);

  [[nodiscard]] std::string words_of_bad_certificate(X509_STORE_CTX* chain) const;

  bool receive(std::size_t least);
  int give_openssl(char* into, int size);

  [[nodiscard]] Step shake_hands();
  void begin_records();
  void send_proof();
  [[nodiscard]] Step receive_proof();
  [[nodiscard]] bool take_proof();
  Step fail(std::string why);
  [[nodiscard]] std::string words_of_failure();
  [[nodiscard]] Mac mac_with(const Secret& secret, io::TokenId id);
  // The error of a read that found nothing.
  [[nodiscard]] std::error_code error_after(RecordReader::Outcome outcome);

  std::shared_ptr<const Credentials> credentials_;
  int socket_;
  Side side_;
  SslPtr ssl_;  // null after the handshake
  std::shared_ptr<const PeerCertificates::Shown> shown_;
  io::Identity identity_;
  enum class Phase : std::uint8_t { kShakesHands, kProves, kDone };
  Phase phase_ = Phase::kShakesHands;
  struct Secrets {
    TrafficSecret client{};
    TrafficSecret server{};
  };
  Secrets secrets_;  // until the records begin
  std::optional<RecordReader> reader_;
  std::optional<RecordWriter> writer_;
  bool is_dry_ = false;
  bool socket_is_dry_ = false;  // the last call took fewer bytes than it could have taken
  int receive_error_ = 0;       // errno of the socket; kEnded: the other side has closed it
  // Of the handshake.
  struct Findings {
    std::string refused_because{};  // of the other side's certificate, or of its answer in clear
    std::string list_fault{};       // of the revocation lists of this side
    std::string head{};             // the first bytes of the other side
  };
  Findings findings_;
  std::size_t receive_bytes_ = 4096;  // that the next call may take: few at first, then as many as come
  ByteQueue in_;
  ByteQueue out_;
  std::vector<std::byte> proof_;
  std::string why_;
};

}  // namespace lockstep::transport::tls
