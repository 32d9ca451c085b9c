#include "transport/handshakes.h"

#include <sys/socket.h>

#include <algorithm>
#include <asio/error.hpp>
#include <span>
#include <utility>
#include <vector>

#include "core/wire/link_writer.h"
#include "transport/clock.h"
#include "transport/driver_mutant.h"

namespace lockstep::transport {
namespace {

// The first byte of a TLS connection: a handshake record (RFC 8446, section 5.1).
constexpr unsigned char kTlsHandshake = 22;
// The first byte of a plain stream: that of the preamble's magic.
constexpr unsigned char kPlainLockstep = wire::kMagic & 0xffU;

constexpr auto kWantsToken =
    "this side speaks TLS only: connect with the run token (lks1_...) that the coordinator prints";
constexpr auto kWantsCertificate =
    "this side speaks TLS only, with certificates: connect with the files of a certificate that its authority has "
    "signed (--certificate, --private-key and --authority; in Python certificates=lockstep.Certificates(...))";

std::vector<std::byte> plain_refusal(const char* why) {
  wire::LinkWriter writer;
  writer.preamble();
  writer.message(wire::Refused{Status::kRefused, why}, Term{});
  std::vector<std::byte> bytes;
  for (const io::Slice& slice : writer.begin_write().all()) {
    bytes.insert(bytes.end(), slice.bytes.begin(), slice.bytes.end());
  }
  return bytes;
}

}  // namespace

void shake_hands(Socket& socket, tls::Session& session, std::function<void(std::error_code)> done) {
  const tls::Session::Step step = session.handshake();
  if (step == tls::Session::Step::kDone) return done({});
  if (step == tls::Session::Step::kFailed) return done(asio::error::connection_aborted);
  const auto what = step == tls::Session::Step::kWantsRead ? Socket::wait_read : Socket::wait_write;
  socket.async_wait(what, [&socket, &session, done = std::move(done)](std::error_code error) {
    if (error == asio::error::operation_aborted) return done(error);  // the socket may not exist any more
    if (error) return done(error);
    shake_hands(socket, session, done);
  });
}

// ---- pace ----

bool HandshakePace::take(const io::Address& network, Instant now) {
  constexpr Duration kEach = seconds(1) / kPerSecond;
  constexpr Duration kFull = kEach * kBurst;
  const auto owes = [&](const Bucket& bucket) {
    const Duration passed = now - bucket.at;
    return bucket.owed > passed ? bucket.owed - passed : Duration{};
  };
  if (buckets_.size() >= kMostNetworks) {
    std::erase_if(buckets_, [&](const auto& entry) { return owes(entry.second) == Duration{}; });
    if (buckets_.size() >= kMostNetworks && !buckets_.contains(network)) return false;
  }
  Bucket& bucket = buckets_[network];
  const Duration owed = owes(bucket);
  if (owed + kEach > kFull && !planted(DriverMutant::kNoPace)) return false;
  bucket = {owed + kEach, now};
  return true;
}

// ---- guests ----

struct Handshakes::Guest {
  Guest(StreamId name, Socket its, const io::Address& whose, Instant now)
      : id(name), socket(std::move(its)), from(whose), since(now) {}
  StreamId id;
  Socket socket;
  io::Address from;
  Instant since;
  std::unique_ptr<tls::Session> session;  // null: no byte has arrived
  bool gone = false;                      // not one of guests_ any more
};

void Handshakes::begin(Socket socket, const io::Address& from, std::shared_ptr<const tls::Credentials> credentials,
                       OnSecured secured) {
  if (!pace_.take(io::network_of(from), now())) {
    std::error_code ignored;
    socket.set_option(asio::socket_base::linger(true, 0), ignored);
    return note(from, Status::kTooManyInFlight, "too many connections in a short time");
  }
  const auto guest = std::make_shared<Guest>(names_.next(), std::move(socket), from, now());
  guests_.emplace(guest->id, guest);
  if (const auto goes = lobby_.enter(guest->id, from)) {
    drop(guests_.at(*goes), Status::kTooManyInFlight, "made room for another stranger");
  }
  if (guest->gone) return;
  arm();
  guest->socket.async_wait(Socket::wait_read, [this, guest, credentials = std::move(credentials),
                                               secured = std::move(secured)](std::error_code error) {
    if (guest->gone) return;
    if (error) return drop(guest, Status::kNotConnected, error.message());
    on_first_bytes(guest, credentials, secured);
  });
}

void Handshakes::on_first_bytes(const GuestPtr& guest, const std::shared_ptr<const tls::Credentials>& credentials,
                                const OnSecured& secured) {
  const int socket = guest->socket.native_handle();
  unsigned char first = 0;
  if (::recv(socket, &first, 1, MSG_PEEK | MSG_DONTWAIT) != 1) {
    return drop(guest, Status::kNotConnected, "closed without a byte");
  }
  if (first == kPlainLockstep) return answer_in_plain(guest, credentials->demands_certificates());
  if (first != kTlsHandshake) return drop(guest, Status::kProtocolError, "speaks no TLS");
  guest->session = std::make_unique<tls::Session>(credentials, socket, tls::Session::Side::kAccepts);
  shake_hands(guest->socket, *guest->session, [this, guest, secured](std::error_code error) {
    if (guest->gone) return;
    if (error) return drop(guest, Status::kProtocolError, guest->session->words_of(error));
    forget(guest);
    secured(std::move(guest->socket), guest->from, std::move(guest->session));
  });
}

void Handshakes::answer_in_plain(const GuestPtr& guest, bool wants_certificate) {
  const std::vector<std::byte> answer = plain_refusal(wants_certificate ? kWantsCertificate : kWantsToken);
  [[maybe_unused]] const auto sent =
      ::send(guest->socket.native_handle(), answer.data(), answer.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  forget(guest);
  note(guest->from, Status::kRefused,
       wants_certificate ? "speaks no TLS: it connects without a certificate"
                         : "speaks no TLS: it connects without a run token");
  closer_.begin(std::move(guest->socket), {});
}

void Handshakes::refuse_plain(const io::Address& from) {
  note(from, Status::kRefused, "plain streams from other machines are refused (insecure allows them)");
}

void Handshakes::drop(const GuestPtr& guest, Status status, const std::string& why) {
  const GuestPtr keep = guest;  // NOLINT(performance-unnecessary-copy-initialization): it may refer to the list
  forget(keep);
  std::error_code ignored;
  keep->socket.close(ignored);
  note(keep->from, status, why);
}

void Handshakes::forget(const GuestPtr& guest) {
  guest->gone = true;
  lobby_.leave(guest->id);
  guests_.erase(StreamId(guest->id));
}

// Guests come in order of time, and all have the same patience.
void Handshakes::arm() {
  if (is_armed_ || guests_.empty()) return;
  is_armed_ = true;
  timer_.expires_at(to_time_point(guests_.begin()->second->since + kPatience));
  timer_.async_wait([this](std::error_code aborted) {
    if (aborted) return;
    is_armed_ = false;
    const Instant late = now() - kPatience;
    while (!guests_.empty() && guests_.begin()->second->since <= late && !planted(DriverMutant::kStrangersStay)) {
      drop(guests_.begin()->second, Status::kTimedOut, "no TLS handshake in time");
    }
    if (!planted(DriverMutant::kStrangersStay)) arm();
  });
}

void Handshakes::end() {
  timer_.cancel();
  is_armed_ = false;
  for (const auto& [id, guest] : guests_) {
    guest->gone = true;
    std::error_code ignored;
    guest->socket.close(ignored);
  }
  guests_.clear();
  lobby_ = io::Lobby(kPlaces);
  closer_.cut_short();
}

void Handshakes::note(const io::Address& from, Status status, const std::string& why) {
  events_.take({.kind = trace::Kind::kPeerRefused,
                .view = {},
                .peer = {},
                .round = {},
                .status = status,
                .text = from.text() + ": " + why},
               now());
}

}  // namespace lockstep::transport
