#include "transport/tls/session.h"

#include <openssl/err.h>
#include <sys/socket.h>

#include <algorithm>
#include <asio/error.hpp>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>
#include <utility>

#include "core/base/assert.h"
#include "core/wire/message.h"
#include "transport/driver_mutant.h"
#include "transport/tls/certificate_words.h"
#include "transport/tls/revocation_lists.h"

namespace lockstep::transport::tls {
namespace {

// The most bytes that one call takes from the socket.
constexpr std::size_t kMostReceived = std::size_t{8} * kRecordBytes;
// One read() takes up to so many bytes and records, so that streams take turns.
constexpr std::size_t kMostInARow = std::size_t{16} * kRecordBytes;
constexpr int kMostRecordsInARow = 64;

// The first bytes of a Lockstep program without TLS, and how many of them OpenSSL takes before it gives up.
constexpr std::string_view kPlainMagic = "LOCKSTEP";
static_assert(kPlainMagic.size() == sizeof(wire::kMagic));
constexpr std::size_t kPlainHead = 5;

// In place of an errno.
constexpr int kEnded = -1;

// The first message of a dialler to a coordinator: this word, the token's id and the MAC.
constexpr std::string_view kProofWord = "LKSPROOF";
constexpr std::size_t kProofBytes = 48;

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
      const int taken = static_cast<Session*>(BIO_get_data(bio))->give_openssl(into, size);
      if (taken < 0) BIO_set_retry_read(bio);
      return taken;
    });
    BIO_meth_set_write(made, [](BIO* bio, const char* from, int size) {
      const std::span bytes(from, static_cast<std::size_t>(size));
      static_cast<Session*>(BIO_get_data(bio))->out_.append(std::as_bytes(bytes));
      return size;
    });
    BIO_meth_set_ctrl(made, [](BIO*, int command, long, void*) -> long {  // NOLINT(google-runtime-int)
      return command == BIO_CTRL_FLUSH ? 1 : 0;
    });
    return made;
  }();
  return kMethod;
}

// Takes `least` bytes or more from the socket. False: none are there, or none will come.
bool Session::receive(std::size_t least) {
  if (socket_is_dry_ || receive_error_ != 0) return false;
  const std::span<std::byte> room = in_.room(std::max(least, receive_bytes_));
  const auto taken = ::recv(socket_, room.data(), room.size(), MSG_DONTWAIT);
  if (taken > 0) {
    const auto bytes = static_cast<std::size_t>(taken);
    in_.added(bytes);
    socket_is_dry_ = bytes < room.size();  // the next call would find nothing
    if (!socket_is_dry_) receive_bytes_ = std::min(2 * receive_bytes_, kMostReceived);
    return true;
  }
  if (taken < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
    socket_is_dry_ = true;
  } else {
    receive_error_ = taken == 0 ? kEnded : errno;
  }
  return false;
}

// OpenSSL asks for no byte beyond the handshake.
int Session::give_openssl(char* into, int size) {
  if (in_.empty() && !receive(1)) return receive_error_ == 0 ? -1 : 0;
  const std::size_t bytes = std::min(in_.size(), static_cast<std::size_t>(size));
  std::memcpy(into, in_.bytes().data(), bytes);
  in_.drop(bytes);
  if (findings_.head.size() < sizeof(wire::kMagic))
    findings_.head.append(into, std::min(bytes, sizeof(wire::kMagic) - findings_.head.size()));
  return static_cast<int>(bytes);
}

void Session::prepare(SSL_CTX* context) {
  SSL_CTX_set_cert_verify_callback(context, &Session::on_verify, nullptr);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  SSL_CTX_set_keylog_callback(context, &Session::on_secret);
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
  if (side == Side::kAccepts) {
    SSL_set_accept_state(ssl_.get());
  } else {
    SSL_set_connect_state(ssl_.get());
  }
}

// ---- handshake ----

// A certificate says nothing but a key. The handshake itself proves that the other side holds it.
int Session::on_verify(X509_STORE_CTX* chain, void* /*nothing*/) {
  Session& session = of(chain);
  session.identity_.key = digest_of(X509_STORE_CTX_get0_cert(chain));
  const auto& wanted = session.credentials_->coordinator_key();
  if (session.side_ == Side::kDialsCoordinator && wanted && *wanted != session.identity_.key) {
    session.findings_.refused_because =
        "the coordinator shows another key than the run token names: the token is of another coordinator, or somebody "
        "intercepts the connection";
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

Session& Session::of(X509_STORE_CTX* chain) {
  const auto* const ssl =
      static_cast<const SSL*>(X509_STORE_CTX_get_ex_data(chain, SSL_get_ex_data_X509_STORE_CTX_idx()));
  return *static_cast<Session*>(SSL_get_app_data(ssl));
}

// A coordinator whose revocation list is of no use admits nobody. It says so in the protocol, where it has words: the
// alert of TLS would blame the certificate of the newcomer.
int Session::on_fault(int good, X509_STORE_CTX* chain) {
  if (good == 1 || !is_fault_of_list(X509_STORE_CTX_get_error(chain))) return good;
  Session& session = of(chain);
  session.findings_.list_fault = words_of_list_fault(chain);
  return session.side_ == Side::kAccepts ? 1 : 0;
}

std::string Session::words_of_bad_certificate(X509_STORE_CTX* chain) const {
  const int error = X509_STORE_CTX_get_error(chain);
  if (is_fault_of_list(error)) return findings_.list_fault + ": give this side a new list";
  std::string words = "the certificate of the other side is refused: ";
  words += X509_verify_cert_error_string(error);
  if (error == X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT && side_ == Side::kDialsCoordinator) {
    words += ". A coordinator with run tokens shows such one: connect with its run token, without certificates";
  }
  return words;
}

// 1: the authority has signed it, and it is that of a coordinator where one is dialled.
int Session::judge_certificate(X509_STORE_CTX* chain) {
  X509_STORE_CTX_set_verify_cb(chain, &Session::on_fault);
  if (X509_verify_cert(chain) != 1) {
    findings_.refused_because = words_of_bad_certificate(chain);
    return 0;
  }
  if (side_ == Side::kAccepts) {
    identity_.certificate = tls::words_of(X509_STORE_CTX_get0_cert(chain));
    X509_STORE_CTX_set_error(chain, X509_V_OK);
  }
  if (!findings_.list_fault.empty()) {
    identity_.doubt = "the coordinator admits nobody now: " + findings_.list_fault +
                      ". Nothing is known against your certificate: the operator of the coordinator must give it a new "
                      "list, which it reads at once (`lockstep coordinator --revocation-list FILE`)";
  }
  if (side_ == Side::kDialsCoordinator && !credentials_->is_for_coordinator(X509_STORE_CTX_get0_cert(chain))) {
    findings_.refused_because =
        "the certificate of the other side is refused: it does not name the host that was dialled";
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
  socket_is_dry_ = false;
  if (phase_ == Phase::kShakesHands) {
    ERR_clear_error();
    const int result = SSL_do_handshake(ssl_.get());
    if (result != 1) {
      if (SSL_get_error(ssl_.get(), result) == SSL_ERROR_WANT_READ) return Step::kWantsRead;
      return fail(words_of_failure());
    }
    begin_records();
    phase_ = Phase::kProves;
    if (side_ == Side::kDialsCoordinator) send_proof();
  }
  if (phase_ == Phase::kProves) {
    const bool is_asked = side_ == Side::kAccepts && credentials_->asks_for_proof();
    if (const Step step = is_asked ? receive_proof() : Step::kDone; step != Step::kDone) return step;
    phase_ = Phase::kDone;
    auto* const noted = credentials_->peer_certificates();
    if (side_ == Side::kAccepts && noted != nullptr) shown_ = noted->note(ssl_.get());
    ssl_.reset();
  }
  return Step::kDone;
}

// What OpenSSL tells about its secrets is "NAME RANDOM SECRET", the last two in hexadecimal digits.
void Session::on_secret(const SSL* ssl, const char* line) {
  auto& session = *static_cast<Session*>(SSL_get_app_data(ssl));
  const std::string_view text(line);
  const bool of_client = text.starts_with("CLIENT_TRAFFIC_SECRET_0 ");
  if (!of_client && !text.starts_with("SERVER_TRAFFIC_SECRET_0 ")) return;
  TrafficSecret& secret = of_client ? session.secrets_.client : session.secrets_.server;
  const std::string_view digits = text.substr(text.rfind(' ') + 1);
  LOCKSTEP_ASSERT(digits.size() == 2 * secret.size());  // all our ciphers have SHA-256
  for (std::size_t i = 0; i < secret.size(); ++i) {
    std::uint8_t byte = 0;
    const char* const at = digits.data() + 2 * i;
    LOCKSTEP_ASSERT(std::from_chars(at, at + 2, byte, 16).ptr == at + 2);
    secret[i] = std::byte{byte};
  }
}

void Session::begin_records() {
  LOCKSTEP_ASSERT(SSL_has_pending(ssl_.get()) == 0);
  const bool is_chacha = SSL_CIPHER_get_id(SSL_get_current_cipher(ssl_.get())) == TLS1_3_CK_CHACHA20_POLY1305_SHA256;
  const Cipher cipher = is_chacha ? Cipher::kChaCha20Poly1305 : Cipher::kAes128Gcm;
  const bool accepts = side_ == Side::kAccepts;
  reader_.emplace(cipher, accepts ? secrets_.client : secrets_.server);
  writer_.emplace(cipher, accepts ? secrets_.server : secrets_.client, credentials_->rekey_bytes() / kRecordBytes);
  OPENSSL_cleanse(&secrets_, sizeof(secrets_));
}

Session::Step Session::fail(std::string why) {
  why_ = std::move(why);
  return Step::kFailed;
}

std::string Session::words_of_failure() {
  const std::string reason = take_error();
  if (!findings_.refused_because.empty()) return findings_.refused_because;
  if (receive_error_ == kEnded) {
    return "closed during the TLS handshake: the other side may speak no TLS, or has no room for strangers";
  }
  if (receive_error_ != 0) return "during the TLS handshake: " + system_error(receive_error_).message();
  // Whoever can say so can as well show another key, and end the search alike (rule 68 of docs/protocol.md).
  if (side_ == Side::kDialsCoordinator && findings_.head.size() >= kPlainHead &&
      kPlainMagic.starts_with(findings_.head)) {
    findings_.refused_because =
        "the coordinator there speaks no TLS: it runs with --insecure, or on loopback without a token file. Connect "
        "with HOST:PORT alone, and with insecure (--insecure) if it is on another machine; or start the coordinator "
        "with tokens (--tokens FILE) or certificates";
    return findings_.refused_because;
  }
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
  std::array<std::byte, kProofBytes> proof{};
  std::memcpy(proof.data(), kProofWord.data(), kProofWord.size());
  for (unsigned i = 0; i < 8; ++i) proof[kProofWord.size() + i] = static_cast<std::byte>(token.id.value >> (8 * i));
  if (token.id.value != 0) {
    const Mac mac = mac_with(token.secret, token.id);
    std::ranges::copy(mac, proof.begin() + 16);
  }
  writer_->write(proof, out_);
}

Session::Step Session::receive_proof() {
  std::array<std::byte, kProofBytes> bytes{};
  while (proof_.size() < kProofBytes) {
    std::error_code error;
    const asio::mutable_buffer rest = asio::buffer(bytes, kProofBytes - proof_.size());
    const std::size_t size = read({&rest, 1}, error);
    if (error == asio::error::would_block) return Step::kWantsRead;
    if (error) return fail(words_of(error));
    proof_.insert(proof_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
  }
  if (!take_proof()) return fail("it begins like no Lockstep peer");
  return Step::kDone;
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
    identity_.proved = identity_.doubt.empty();
    return true;
  }
  const Secret* const secret = credentials_->secret_of(identity_.token);
  identity_.proved = secret != nullptr && equal(shown, mac_with(*secret, identity_.token));
  if (planted(DriverMutant::kAnyProof)) identity_.proved = true;
  return true;
}

// ---- bytes ----

std::error_code Session::error_after(RecordReader::Outcome outcome) {
  switch (outcome) {
    case RecordReader::Outcome::kEnd: return asio::error::eof;
    case RecordReader::Outcome::kBroken:
      why_ = "TLS: " + reader_->why();
      if (side_ == Side::kDialsCoordinator && reader_->was_refused()) return system_error(EKEYREJECTED);
      return asio::error::connection_aborted;
    default: break;
  }
  if (receive_error_ == 0) return asio::error::would_block;
  if (receive_error_ != kEnded) return system_error(receive_error_);
  why_ = "cut off without an end of TLS";
  return asio::error::connection_reset;
}

std::size_t Session::read(std::span<const asio::mutable_buffer> into, std::error_code& error) {
  is_dry_ = false;
  socket_is_dry_ = false;
  Destination to(into);
  std::size_t all = 0;
  for (int records = 0; !to.at_end() && all < kMostInARow && records < kMostRecordsInARow;) {
    const RecordReader::Step step = reader_->read(in_, to);
    switch (step.outcome) {
      case RecordReader::Outcome::kKeyRequested: writer_->update_key(out_); [[fallthrough]];
      case RecordReader::Outcome::kContent:
        all += step.bytes;
        ++records;
        continue;
      case RecordReader::Outcome::kIncomplete:
        if (receive(RecordReader::wanted(in_))) continue;
        break;
      case RecordReader::Outcome::kEnd:
      case RecordReader::Outcome::kBroken: break;
    }
    const std::error_code why = error_after(step.outcome);
    is_dry_ = why == asio::error::would_block;
    if (all == 0) error = why;  // otherwise the next call finds the same
    return all;
  }
  if (all == 0 && !to.at_end()) {
    why_ = "TLS: many records came that hold nothing";
    error = asio::error::connection_aborted;
  }
  return all;
}

std::size_t Session::write(std::span<const asio::const_buffer> from, std::size_t most, std::error_code& error) {
  error = flush();
  if (error) return 0;
  Source source(from);
  const std::size_t taken = writer_->write(source, most, out_);
  error = flush();
  if (error == asio::error::would_block) error = {};
  return error ? 0 : taken;
}

std::error_code Session::flush() {
  while (!out_.empty()) {
    const auto sent = ::send(socket_, out_.bytes().data(), out_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return asio::error::would_block;
    if (sent < 0) return system_error(errno);
    out_.drop(static_cast<std::size_t>(sent));
  }
  return {};
}

std::vector<std::byte> Session::finish() {
  if (writer_) {
    const std::optional<Alert> broken = reader_->why().empty() ? Alert::kCloseNotify : reader_->alert();
    if (broken) writer_->write_alert(*broken, out_);
  }
  return {out_.bytes().begin(), out_.bytes().end()};
}

}  // namespace lockstep::transport::tls
