#include "transport/tls/session.h"

#include <openssl/err.h>
#include <sys/socket.h>

#include <algorithm>
#include <asio/error.hpp>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/assert.h"
#include "transport/driver_mutant.h"

namespace lockstep::transport::tls {
namespace {

// Bytes that one call takes from the socket: several records.
constexpr std::size_t kReceiveBytes = 65'536;
// The most bytes that one read() takes, so that streams take turns.
constexpr std::size_t kMostInARow = std::size_t{16} * kRecordBytes;

// In place of an errno.
constexpr int kEnded = -1;

// The first message of a dialler to a coordinator: this word, the token's id and the MAC.
constexpr std::string_view kProofWord = "LKSPROOF";

// RFC 9266 names it.
constexpr std::string_view kBinding = "EXPORTER-Channel-Binding";

std::error_code system_error(int number) { return {number, asio::error::get_system_category()}; }

}  // namespace

// ---- the socket, as OpenSSL sees it ----

BIO_METHOD* Session::socket_method() {
  static BIO_METHOD* const kMethod = [] {
    BIO_METHOD* const made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "lockstep stream");
    require(made != nullptr);
    BIO_meth_set_read(made, [](BIO* bio, char* into, int size) {
      BIO_clear_retry_flags(bio);
      const int taken = static_cast<Session*>(BIO_get_data(bio))->receive(into, size);
      if (taken < 0) BIO_set_retry_read(bio);
      return taken;
    });
    BIO_meth_set_write(made, [](BIO* bio, const char* from, int size) {
      return static_cast<Session*>(BIO_get_data(bio))->append(from, size);
    });
    BIO_meth_set_ctrl(made, [](BIO*, int command, long, void*) -> long {  // NOLINT(google-runtime-int)
      return command == BIO_CTRL_FLUSH ? 1 : 0;
    });
    return made;
  }();
  return kMethod;
}

int Session::receive(char* into, int size) {
  if (socket_is_dry_) return -1;
  const auto taken = ::recv(socket_, into, static_cast<std::size_t>(size), MSG_DONTWAIT);
  if (taken > 0) {
    socket_is_dry_ = taken < size;  // the next call would find nothing
    return static_cast<int>(taken);
  }
  if (taken < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return -1;
  receive_error_ = taken == 0 ? kEnded : errno;
  return 0;
}

int Session::append(const char* from, int size) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(from);
  out_.insert(out_.end(), bytes, bytes + size);
  return size;
}

void Session::prepare(SSL_CTX* context) {
  SSL_CTX_set_cert_verify_callback(context, &Session::on_verify, nullptr);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
}

Session::Session(std::shared_ptr<const Credentials> credentials, int socket, Side side)
    : credentials_(std::move(credentials)), socket_(socket), side_(side), ssl_(SSL_new(credentials_->context())) {
  require(ssl_ != nullptr);
  BIO* const bio = BIO_new(socket_method());
  require(bio != nullptr);
  BIO_set_data(bio, this);
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_.get(), bio, bio);
  SSL_set_app_data(ssl_.get(), this);
  SSL_set_read_ahead(ssl_.get(), 1);
  SSL_set_default_read_buffer_len(ssl_.get(), kReceiveBytes);
  if (side == Side::kAccepts) {
    SSL_set_accept_state(ssl_.get());
  } else {
    SSL_set_connect_state(ssl_.get());
  }
}

// ---- handshake ----

// A certificate says nothing but a key. The handshake itself proves that the other side holds it.
int Session::on_verify(X509_STORE_CTX* chain, void* /*nothing*/) {
  const auto* const ssl =
      static_cast<const SSL*>(X509_STORE_CTX_get_ex_data(chain, SSL_get_ex_data_X509_STORE_CTX_idx()));
  auto& session = *static_cast<Session*>(SSL_get_app_data(ssl));
  session.identity_.key = digest_of(X509_STORE_CTX_get0_cert(chain));
  const auto& wanted = session.credentials_->coordinator_key();
  if (session.side_ == Side::kDialsCoordinator && wanted && *wanted != session.identity_.key) {
    session.wrong_key_ = true;
    X509_STORE_CTX_set_error(chain, X509_V_ERR_CERT_REJECTED);
    return 0;
  }
  if (session.demands_certificate()) return session.judge_certificate(chain);
  X509_STORE_CTX_set_error(chain, X509_V_OK);
  return 1;
}

bool Session::demands_certificate() const {
  return credentials_->demands_certificates() &&
         (side_ == Side::kDialsCoordinator || (side_ == Side::kAccepts && credentials_->asks_for_proof()));
}

// 1: the authority has signed it, and it is that of a coordinator where one is dialled.
int Session::judge_certificate(X509_STORE_CTX* chain) {
  if (X509_verify_cert(chain) != 1) {
    bad_certificate_ = X509_verify_cert_error_string(X509_STORE_CTX_get_error(chain));
    return 0;
  }
  if (side_ == Side::kDialsCoordinator && !credentials_->is_for_coordinator(X509_STORE_CTX_get0_cert(chain))) {
    bad_certificate_ = "it does not name the host that was dialled";
    X509_STORE_CTX_set_error(chain, X509_V_ERR_HOSTNAME_MISMATCH);
    return 0;
  }
  return 1;
}

Session::Step Session::handshake() {
  const Step step = shake_hands();
  const std::error_code error = flush();  // of a failure, the alert
  if (step == Step::kFailed) return step;
  if (error && error != asio::error::would_block) return fail(error.message());
  return pending() > 0 ? Step::kWantsWrite : step;
}

Session::Step Session::shake_hands() {
  if (phase_ == Phase::kDone) return Step::kDone;
  if (phase_ == Phase::kShakesHands) {
    ERR_clear_error();
    socket_is_dry_ = false;
    const int result = SSL_do_handshake(ssl_.get());
    if (result != 1) {
      if (SSL_get_error(ssl_.get(), result) == SSL_ERROR_WANT_READ) return Step::kWantsRead;
      return fail(words_of_failure());
    }
    phase_ = Phase::kProves;
    if (side_ == Side::kDialsCoordinator) send_proof();
  }
  if (side_ == Side::kAccepts && credentials_->asks_for_proof()) {
    while (proof_read_ < kProofBytes) {
      std::error_code error;
      const asio::mutable_buffer rest = asio::buffer(proof_) + proof_read_;
      const std::size_t bytes = read({&rest, 1}, error);
      if (error == asio::error::would_block) return Step::kWantsRead;
      if (error) return fail(words_of(error));
      proof_read_ += bytes;
    }
    if (!take_proof()) return fail("it begins like no Lockstep peer");
  }
  phase_ = Phase::kDone;
  return Step::kDone;
}

Session::Step Session::fail(std::string why) {
  why_ = std::move(why);
  return Step::kFailed;
}

std::string Session::words_of_failure() {
  const std::string reason = take_error();
  if (wrong_key_) {
    return "the coordinator shows another key than the run token names: the token is of another coordinator, or "
           "somebody intercepts the connection";
  }
  if (!bad_certificate_.empty()) return "the certificate of the other side is refused: " + bad_certificate_;
  if (receive_error_ == kEnded) {
    return "closed during the TLS handshake: the other side may speak no TLS, or has no room for strangers";
  }
  if (receive_error_ != 0) return "during the TLS handshake: " + system_error(receive_error_).message();
  if (reason == "wrong version number" || reason == "http request" || reason == "packet length too long") {
    return "the other side does not speak TLS";
  }
  return "the TLS handshake failed: " + reason;
}

Mac Session::mac_with(const Secret& secret, io::TokenId id) {
  std::array<std::byte, 32> material{};
  require(SSL_export_keying_material(ssl_.get(), reinterpret_cast<unsigned char*>(material.data()), material.size(),
                                     kBinding.data(), kBinding.size(), nullptr, 0, 0) == 1);
  return mac_of(secret, id, material);
}

void Session::send_proof() {
  const Credentials::Token& token = credentials_->token();
  std::memcpy(proof_.data(), kProofWord.data(), kProofWord.size());
  for (unsigned i = 0; i < 8; ++i) proof_[kProofWord.size() + i] = static_cast<std::byte>(token.id.value >> (8 * i));
  if (token.id.value != 0) {
    const Mac mac = mac_with(token.secret, token.id);
    std::ranges::copy(mac, proof_.begin() + 16);
  }
  encrypt(proof_);
}

bool Session::take_proof() {
  if (std::memcmp(proof_.data(), kProofWord.data(), kProofWord.size()) != 0) return false;
  for (unsigned i = 0; i < 8; ++i) {
    identity_.token.value |= std::uint64_t{static_cast<std::uint8_t>(proof_[kProofWord.size() + i])} << (8 * i);
  }
  Mac shown{};
  std::copy_n(proof_.begin() + 16, shown.size(), shown.begin());
  if (credentials_->demands_certificates()) {  // the handshake has proved it
    identity_.token = kByCertificate;
    identity_.proved = true;
    return true;
  }
  const Secret* const secret = credentials_->secret_of(identity_.token);
  identity_.proved = secret != nullptr && equal(shown, mac_with(*secret, identity_.token));
  if (planted(DriverMutant::kAnyProof)) identity_.proved = true;
  return true;
}

// ---- bytes ----

std::error_code Session::error_after(int result) {
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ: return asio::error::would_block;
    case SSL_ERROR_ZERO_RETURN: return asio::error::eof;
    default: break;
  }
  const std::string reason = take_error();
  if (receive_error_ == kEnded) {
    why_ = "cut off without an end of TLS";
    return asio::error::connection_reset;
  }
  if (receive_error_ != 0) return system_error(receive_error_);
  why_ = "TLS: " + reason;
  return asio::error::connection_aborted;
}

std::size_t Session::read(std::span<const asio::mutable_buffer> into, std::error_code& error) {
  std::size_t all = 0;
  is_dry_ = false;
  socket_is_dry_ = false;
  for (const asio::mutable_buffer& buffer : into) {
    for (std::size_t filled = 0; filled < buffer.size();) {
      if (all >= kMostInARow) return all;
      ERR_clear_error();
      std::size_t bytes = 0;
      auto* const at = static_cast<std::byte*>(buffer.data()) + filled;
      const int result = SSL_read_ex(ssl_.get(), at, buffer.size() - filled, &bytes);
      if (result != 1) {
        const std::error_code why = error_after(result);
        is_dry_ = why == asio::error::would_block;
        if (all == 0) error = why;  // otherwise the next call finds the same
        return all;
      }
      filled += bytes;
      all += bytes;
    }
  }
  return all;
}

// OpenSSL encrypts from where the bytes are, and appends the record to out_, which takes all: so it always succeeds.
void Session::encrypt(std::span<const std::byte> record) {
  if (since_rekey_ >= credentials_->rekey_bytes() && !planted(DriverMutant::kNeverRekeys)) {
    since_rekey_ = 0;
    require(SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) == 1);
  }
  ERR_clear_error();
  std::size_t bytes = 0;
  LOCKSTEP_ASSERT(SSL_write_ex(ssl_.get(), record.data(), record.size(), &bytes) == 1 && bytes == record.size());
  since_rekey_ += bytes;
}

std::size_t Session::write(std::span<const asio::const_buffer> from, std::size_t most, Scratch& scratch,
                           std::error_code& error) {
  error = flush();
  if (error) return 0;
  std::size_t taken = 0;
  std::size_t staged = 0;
  const auto encrypt_staged = [&] {
    if (staged > 0) encrypt(std::span(scratch).first(std::exchange(staged, 0)));
  };
  for (const asio::const_buffer& buffer : from) {
    std::span<const std::byte> left(static_cast<const std::byte*>(buffer.data()), buffer.size());
    left = left.first(std::min(left.size(), most - taken));
    taken += left.size();
    while (!left.empty()) {
      if (staged == 0 && left.size() >= kRecordBytes) {
        encrypt(left.first(kRecordBytes));
        left = left.subspan(kRecordBytes);
        continue;
      }
      const std::size_t fits = std::min(left.size(), kRecordBytes - staged);
      std::memcpy(scratch.data() + staged, left.data(), fits);
      staged += fits;
      left = left.subspan(fits);
      if (staged == kRecordBytes) encrypt_staged();
    }
  }
  encrypt_staged();
  error = flush();
  if (error == asio::error::would_block) error = {};
  return error ? 0 : taken;
}

std::error_code Session::flush() {
  while (sent_ < out_.size()) {
    const auto sent = ::send(socket_, out_.data() + sent_, out_.size() - sent_, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return asio::error::would_block;
    if (sent < 0) return system_error(errno);
    sent_ += static_cast<std::size_t>(sent);
  }
  out_.clear();
  sent_ = 0;
  return {};
}

std::vector<std::byte> Session::finish() {
  if (phase_ == Phase::kDone) {
    ERR_clear_error();
    SSL_shutdown(ssl_.get());
    ERR_clear_error();
  }
  out_.erase(out_.begin(), out_.begin() + static_cast<std::ptrdiff_t>(sent_));
  sent_ = 0;
  return std::move(out_);
}

}  // namespace lockstep::transport::tls
