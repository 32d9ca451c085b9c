#include "transport/status_client.h"

#include <fmt/core.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/overloaded.h"
#include "core/io/stream.h"
#include "core/wire/limits.h"
#include "core/wire/link_reader.h"
#include "core/wire/link_writer.h"
#include "transport/clock.h"
#include "transport/memory.h"
#include "transport/resolver.h"
#include "transport/stream_set.h"

namespace lockstep::transport {
namespace {

// Pause before all addresses are tried again, if one accepted the connection and closed it: strangers may fill the
// port.
constexpr auto kPause = std::chrono::milliseconds(50);

// Bytes that tell a service: the magic of a Lockstep stream, or "HTTP/1.1".
constexpr std::size_t kFirstBytes = 8;

// One question: resolves the name, dials each address in turn, sends the request, reads the answer.
class Query {
 public:
  enum class Turns : std::uint8_t { kOne, kUntilTheTimeout };

  Query(Destination to, wire::Message request, Turns turns = Turns::kUntilTheTimeout)
      : turns_(turns),
        request_(std::move(request)),
        host_port_(std::move(to.addresses)),
        resolver_(io_),
        timer_(io_),
        pause_(io_),
        streams_(io_, memory_, {}, {}, [this] { turn(); }) {
    streams_.secure(std::move(to.security));
  }

  // Returns the first message that is no refusal.
  Result<wire::Message> run(Duration timeout) {
    timer_.expires_after(to_chrono(timeout));
    timer_.async_wait([this, timeout](std::error_code aborted) {
      if (aborted) return;
      const char* const look = course_.opened ? "it accepts connections; check that it is a Lockstep coordinator"
                                              : "check the address and the network";
      answer(Error{Status::kTimedOut, fmt::format("no answer from {} within {:.3g} s: {}{}", host_port_,
                                                  timeout.seconds(), look, round_.tried)});
    });
    resolver_.resolve(host_port_, [this](Resolution found) {
      if (!found.addresses) return answer(found.addresses.error());
      addresses_ = std::move(*found.addresses);
      for (const std::string& why : found.unresolved) round_.tried += fmt::format(" ({})", why);
      dial_next();
      turn();
    });
    while (!answer_) io_.run_one();
    return std::move(*answer_);
  }
  // Of the address that was dialled last.
  [[nodiscard]] const StreamCourse& stream() const { return course_; }

 private:
  void answer(Result<wire::Message> result) {
    if (!answer_) answer_.emplace(std::move(result));
  }

  void turn() {
    io::Input input;
    do {
      while (!answer_ && streams_.next(input)) {
        std::visit([&](const auto& in) { on(in); }, input);
      }
    } while (!answer_ && streams_.advance());
  }

  void dial_next() {
    if (next_address_ == addresses_.size() && round_.all_rejected && !addresses_.empty()) {
      return answer(Error{Status::kRefused,
                          fmt::format("cannot ask the coordinator at {}: trying again does not help; connect as this "
                                      "coordinator asks for: with its own token, or with --certificate, --private-key "
                                      "and --authority, or without both if it speaks no TLS{}",
                                      host_port_, round_.tried)});
    }
    if (next_address_ == addresses_.size() && round_.was_shown_out && turns_ != Turns::kOne) return try_again();
    if (next_address_ == addresses_.size()) {
      return answer(Error{Status::kUnreachable,
                          fmt::format("cannot reach a coordinator at {}: check the address, and that it runs{}",
                                      host_port_, round_.tried)});
    }
    course_ = {};
    stream_ = names_.next();
    reader_ = wire::LinkReader(kMaxBodyBytes);
    writer_ = wire::LinkWriter();
    streams_.carry_out(io::Dial{stream_, addresses_[next_address_++], true});
  }

  void on(const io::Opened& opened) {
    course_.opened = true;
    course_.round_trip = opened.round_trip;
    writer_.preamble();
    writer_.message(request_, Term{});
    write();
    read();
  }
  void on(const io::WriteDone& done) {
    writer_.written(done.bytes);
    write();
  }
  void on(const io::ReadDone& done) {
    note_first_bytes(done.bytes);
    reader_.landed(done.bytes);
    for (;;) {
      auto event = reader_.next();
      if (!event) return answer(wrong(event.error().text));
      if (!event->has_value()) break;
      if (const auto* const preamble = std::get_if<wire::Preamble>(&**event)) {
        if (preamble->version == wire::kVersion) continue;
        return answer(wrong(fmt::format("it speaks version {} of the protocol, this program speaks version {}",
                                        preamble->version, wire::kVersion)));
      }
      auto* const received = std::get_if<wire::Received>(&**event);
      if (received == nullptr) return answer(wrong("it sent tensor data"));
      if (const auto* const refused = std::get_if<wire::Refused>(&received->message)) {
        return answer(Error{refused->status, fmt::format("{}: {}", host_port_, refused->text)});
      }
      return answer(std::move(received->message));
    }
    read();
  }
  void on(const io::Closed& closed) {
    const std::string& why = closed.text.empty() ? "closed by the other side" : closed.text;
    course_.closed = closed.reason;
    course_.why = why;
    round_.was_shown_out = round_.was_shown_out || course_.opened;
    round_.all_rejected = round_.all_rejected && closed.reason == io::CloseReason::kRejected;
    round_.tried += fmt::format(" ({}: {}{})", addresses_[next_address_ - 1].text(),
                                course_.opened ? "connected, but no coordinator answered: " : "", why);
    dial_next();
  }

  // Retries until the timeout.
  void try_again() {
    rounds_ += 1;
    pause_.expires_after(kPause);
    pause_.async_wait([this](std::error_code aborted) {
      if (aborted || answer_) return;
      next_address_ = 0;
      round_ = {};
      round_.tried = fmt::format(" (tried {} times)", rounds_ + 1);
      dial_next();
      turn();
    });
  }
  void on(const io::Accepted&) { LOCKSTEP_UNREACHABLE(); }  // a client does not listen
  void on(const io::Revoked&) { LOCKSTEP_UNREACHABLE(); }   // a client revokes nothing

  void write() {
    if (writer_.wants_write()) streams_.carry_out(io::Write{stream_, writer_.begin_write()});
  }
  void read() {
    const auto window = reader_.window();
    unread_ = window.tail;
    streams_.carry_out(io::Read{stream_, window.place, window.tail});
  }

  // A stream begins with messages, which land in the tail.
  void note_first_bytes(std::size_t landed) {
    if (!course_.first_bytes.empty()) return;
    const auto bytes = unread_.first(std::min({landed, unread_.size(), kFirstBytes}));
    for (const std::byte byte : bytes) course_.first_bytes += static_cast<char>(byte);
  }

  [[nodiscard]] Error wrong(std::string_view what) const {
    return {Status::kProtocolError,
            fmt::format("the program at {} is not a Lockstep coordinator of this version: {}", host_port_, what)};
  }

  Turns turns_;
  wire::Message request_;
  std::string host_port_;
  asio::io_context io_;
  Memory memory_;
  Resolver resolver_;
  asio::steady_timer timer_;
  asio::steady_timer pause_;
  io::StreamNames names_ = io::StreamNames::for_dialling();
  StreamId stream_;
  StreamCourse course_;
  std::span<std::byte> unread_;  // where the next bytes land
  wire::LinkReader reader_;
  wire::LinkWriter writer_;
  std::vector<io::Address> addresses_;
  std::size_t next_address_ = 0;
  struct Round {                 // all addresses, one after the other
    std::string tried;           // for people
    bool was_shown_out = false;  // an address closed the connection after accepting it
    bool all_rejected = true;    // other keys than the token's, or a refused certificate (rule 68)
  };
  Round round_;
  std::uint64_t rounds_ = 0;  // number of rounds that ended like this
  std::optional<Result<wire::Message>> answer_;
  StreamSet streams_;  // last member: destroyed before the memory that it borrows
};

template <typename Reply>
Result<Reply> reply_of(Result<wire::Message> answer, std::string_view addresses) {
  if (!answer) return answer.error();
  if (auto* const reply = std::get_if<Reply>(&*answer)) return std::move(*reply);
  return Error{Status::kProtocolError, fmt::format("the coordinator at {} gives another answer than it was asked for: "
                                                   "run the same release on both sides",
                                                   addresses)};
}

template <typename Reply>
Result<Reply> ask(std::string_view coordinator, wire::Message request, Duration timeout, const Protection& protection) {
  Result<Destination> to = parse_coordinator(coordinator, protection);
  if (!to) return to.error();
  const std::string addresses = to->addresses;
  return reply_of<Reply>(Query(std::move(*to), std::move(request)).run(timeout), addresses);
}

}  // namespace

Result<wire::StatusReply> query_status(std::string_view coordinator, Duration timeout, const Protection& protection) {
  return ask<wire::StatusReply>(coordinator, wire::StatusRequest{}, timeout, protection);
}

Inquiry inquire(const io::Address& address, const Security& security, Duration timeout) {
  const Instant begin = now();
  Query query({address.text(), security}, wire::StatusRequest{}, Query::Turns::kOne);
  auto reply = reply_of<wire::StatusReply>(query.run(timeout), address.text());
  return {std::move(reply), now() - begin, query.stream()};
}

Result<wire::EvictReply> evict_peer(std::string_view coordinator, PeerId peer, Duration timeout,
                                    const Protection& protection) {
  return ask<wire::EvictReply>(coordinator, wire::EvictRequest{peer}, timeout, protection);
}

}  // namespace lockstep::transport
