#include "core/peer/session.h"

#include <algorithm>
#include <utility>

#include "core/base/mutant.h"
#include "core/wire/limits.h"

namespace lockstep::peer {

namespace {

// Faster signs of life would be nothing but work.
constexpr Duration kLeastHeartbeat = milliseconds(1);

std::string_view words(io::CloseReason reason) {
  switch (reason) {
    case io::CloseReason::kAsked: return "closed";
    case io::CloseReason::kEnd: return "closed by the other side";
    case io::CloseReason::kReset: return "reset";
    case io::CloseReason::kRefused: return "connection refused";
    case io::CloseReason::kUnreachable: return "unreachable";
    case io::CloseReason::kTimedOut: return "timed out";
    case io::CloseReason::kRejected: return "rejected";
    case io::CloseReason::kFailed: return "failed";
  }
  LOCKSTEP_UNREACHABLE();
}

// The reason, and what the driver adds to it; the system's words are often the same ones ("Connection refused").
std::string why_closed(const io::Closed& in) {
  const std::string reason(words(in.reason));
  const auto small = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  const bool same = std::equal(reason.begin(), reason.end(), in.text.begin(), in.text.end(),
                               [&](char a, char b) { return small(a) == small(b); });
  return reason + (in.text.empty() || same ? "" : ": " + in.text);
}

// Before all addresses are tried again: a coordinator that comes up is found soon, and one that does not is not
// bothered.
constexpr Duration kShortestPause = milliseconds(50);
constexpr Duration kLongestPause = seconds(1);

// Limits of messages that may wait (say_soon), in time and in bytes: short enough for a peer that waits for one of
// them, long enough to send those of dozens of small rounds together.
constexpr Duration kHeldFor = milliseconds(2);
constexpr std::size_t kHeldBytes = 4096;

// After a greeting that got no answer, in units of dial_timeout: until then the coordinator must have noticed that
// the stream of that greeting is dead.
constexpr std::int64_t kGhostFor = 8;

// The most kinds of failed attempts that an error text lists.
constexpr std::size_t kMostFailures = 16;

std::string times_words(std::uint32_t times) { return times < 2 ? "once" : std::to_string(times) + " times"; }

}  // namespace

void Session::connect(const std::string& coordinator, Instant now, Effects& out) {
  LOCKSTEP_ASSERT(state_ == State::kIdle);
  coordinator_ = coordinator;
  began_ = now;
  out.emplace_back(Listen{});
  look(out);
}

void Session::look(Effects& out) {
  state_ = State::kLooking;
  addresses_.reset();
  next_address_ = 0;
  out.emplace_back(Resolve{coordinator_});
}

void Session::on_listening(const Listening& in, Instant now, Effects& out) {
  if (state_ != State::kLooking) return;
  if (!in.port.ok()) return over(in.port.error().status, in.port.error().text, now, out);
  port_ = *in.port;
  try_dial(now, out);
}

void Session::on_resolved(Resolved in, Instant now, Effects& out) {
  if (state_ != State::kLooking) return;
  for (std::string& why : in.unresolved) note_failure(std::move(why));
  if (in.addresses.ok()) {
    addresses_ = std::move(*in.addresses);
    answers_.rejected = in.unresolved.empty();
    return try_dial(now, out);
  }
  const Error& error = in.addresses.error();
  if (error.status != Status::kUnreachable) return over(error.status, error.text, now, out);
  note_failure(error.text);
  pause(now);
}

void Session::try_dial(Instant now, Effects& out) {
  if (addresses_ && port_) dial_next(now, out);
}

void Session::dial_next(Instant now, Effects& out) {
  if (next_address_ == addresses_->size()) {
    if (addresses_->empty()) note_failure("the name has no address");
    const bool in_vain = !addresses_->empty() && answers_.rejected && !mutant(Mutant::kWrongKeyRetried);
    if (in_vain) return end_search(now, out);
    return pause(now);
  }
  state_ = State::kDialling;
  since_ = now;
  channel_.emplace(names_.next(), now);
  out.emplace_back(io::Dial{channel_->stream(), (*addresses_)[next_address_++], true});
  next_timer_ = now + options_.dial_timeout;
}

void Session::note_failure(std::string why) {
  const auto seen = std::find_if(failures_.begin(), failures_.end(), [&](const Failure& f) { return f.why == why; });
  if (seen != failures_.end()) {
    seen->times += 1;
  } else if (failures_.size() < kMostFailures) {
    failures_.push_back({std::move(why), 1});
  } else {
    failures_.back().times += 1;
  }
}

void Session::note_failed_dial(const std::string& why) {
  note_failure((*addresses_)[next_address_ - 1].text() + ": " + why);
}

// Rule 68: another round of dials would meet the same keys.
void Session::end_search(Instant now, Effects& out) {
  over(Status::kRefused,
       "cannot connect to the coordinator at '" + coordinator_ + "' (" + failures_text() +
           "): trying again does not help; connect as this coordinator asks for: with its own run token, or with the "
           "files of a certificate that its authority has signed, or without both if it speaks no TLS",
       now, out);
}

void Session::pause(Instant now) {
  state_ = State::kPausing;
  next_timer_ = now + std::min(kLongestPause, kShortestPause * (std::int64_t{1} << std::min(rounds_, 8U)));
  ++rounds_;
  if (rounds_ == 1) owner_.on_unanswered(unanswered(now).text + " Trying again.");
}

std::string Session::failures_text() const {
  std::string all;
  for (const Failure& failure : failures_) {
    all += (all.empty() ? "" : "; ") + failure.why;
    if (failures_.size() > 1) all += ", " + times_words(failure.times);
  }
  return all;
}

Error Session::unanswered(Instant now) const {
  if (failures_.empty()) {
    return {Status::kTimedOut, "no greeting from the coordinator at '" + coordinator_ + "' in time"};
  }
  const std::string_view advice =
      answers_.connected
          ? "something listens there: is it a Lockstep coordinator, and has it room for one more connection?"
          : "is it running, and is the address right?";
  return {Status::kUnreachable, "cannot reach the coordinator at '" + coordinator_ + "' (" + failures_text() +
                                    "), tried " + times_words(rounds_) + " in " +
                                    std::to_string((now - began_).ns / 1'000'000) + " ms: " + std::string(advice)};
}

void Session::on_opened(const io::Opened& in, Instant now) {
  if (state_ != State::kDialling) return;
  state_ = State::kGreeting;
  answers_.connected = true;
  since_ = now;
  next_timer_ = now + options_.dial_timeout;
  wire::Join join;
  join.peer = options_.id;
  join.group = options_.group;
  join.gang = options_.gang;
  join.gang_size = options_.gang_size;
  join.founders = options_.founders;
  join.auto_admit = options_.auto_admit;
  join.advertised = options_.advertised;
  if (join.advertised.port == 0) join.advertised.port = *port_;
  join.name = options_.name;
  join.local = in.local;
  if (join.local.family != io::Address::Family::kNone) join.local.port = *port_;
  times_.round_trip = std::clamp(in.round_trip, Duration{}, options_.dial_timeout);
  join.round_trip = times_.round_trip;
  channel_->writer.preamble();
  channel_->writer.message(join, term_);
}

void Session::on_read_done(std::size_t bytes, Instant now, Effects& out) {
  channel_->read_done(bytes, now);
  take_events(now, out);
}

void Session::on_write_done(std::size_t bytes) { channel_->write_done(bytes); }

void Session::on_revoked(io::Direction direction, std::size_t bytes, Instant now, Effects& out) {
  channel_->revoked(direction, bytes, now);
  if (direction == io::Direction::kRead) take_events(now, out);
}

void Session::take_events(Instant now, Effects& out) {
  while (state_ != State::kOver && channel_ && !channel_->finishing()) {
    auto next = channel_->reader.next();
    if (!next.ok()) {
      return over(Status::kProtocolError,
                  "'" + coordinator_ + "' does not speak as a Lockstep coordinator: " + next.error().text, now, out);
    }
    if (!next->has_value()) return;
    if (auto* preamble = std::get_if<wire::Preamble>(&**next)) {
      if (preamble->version != wire::kVersion) {
        return over(Status::kProtocolError,
                    "the coordinator at '" + coordinator_ + "' speaks protocol version " +
                        std::to_string(preamble->version) + ", this library speaks version " +
                        std::to_string(wire::kVersion) + ": run the same release on both sides",
                    now, out);
      }
    } else if (auto* received = std::get_if<wire::Received>(&**next)) {
      on_message(std::move(*received), now, out);
    } else {
      return over(Status::kProtocolError, "the coordinator sent tensor data", now, out);
    }
  }
}

// Rule 2: a message of an older term is ignored.
void Session::on_message(wire::Received received, Instant now, Effects& out) {
  if (received.term < term_) return;  // a coordinator that was replaced (promise S7)
  term_ = received.term;
  if (state_ == State::kWelcomed) {
    if (std::holds_alternative<wire::Heartbeat>(received.message)) return;
    return owner_.on_decision(std::move(received.message));
  }
  if (const auto* waiting = std::get_if<wire::Waiting>(&received.message)) {
    if (waiting->heartbeat < kLeastHeartbeat || waiting->silence < waiting->heartbeat) {
      return over(Status::kProtocolError, "the coordinator states a heartbeat that makes no sense", now, out);
    }
    state_ = State::kWelcomed;
    times_.heartbeat = waiting->heartbeat;
    times_.silence = waiting->silence;
    next_heartbeat_ = now + times_.heartbeat;
    next_timer_ = next_heartbeat_;
    channel_->reader.set_max_body_bytes(kMaxBodyBytes);
    return;
  }
  if (const auto* refused = std::get_if<wire::Refused>(&received.message)) return on_refused(*refused, now, out);
  over(Status::kProtocolError, "'" + coordinator_ + "' does not greet as a coordinator: is it the address of a peer?",
       now, out);
}

// Rule 41. A greeting that got no answer may have arrived: the coordinator then believes that this peer waits on the
// earlier stream, refuses its id, and counts it as one that waits. This ends when the coordinator notices that the
// earlier stream is dead. Until then a refusal is a failed attempt like any other.
void Session::on_refused(const wire::Refused& refused, Instant now, Effects& out) {
  if (refused.status != Status::kRefused || now >= answers_.ghost_until) {
    return over(refused.status, "the coordinator at '" + coordinator_ + "' refused: " + refused.text, now, out);
  }
  answers_.refused = true;
  answers_.rejected = false;
  next_timer_ = kNever;
  note_failed_dial("refused: " + refused.text);
  channel_->close(out);  // on_closed() goes on
}

void Session::on_closed(const io::Closed& in, Instant now, Effects& out) {
  const bool early = state_ == State::kDialling || state_ == State::kGreeting;
  const bool greeting = state_ == State::kGreeting;
  channel_.reset();
  if (state_ == State::kOver) {
    next_timer_ = kNever;
    return;
  }
  if (std::exchange(answers_.refused, false)) return dial_next(now, out);
  const std::string why = why_closed(in);
  if (early) {
    const std::string limit = " within " + std::to_string(options_.dial_timeout.ns / 1'000'000) + " ms";
    const bool gave_up = in.reason == io::CloseReason::kAsked;  // on_timer()
    const bool rejected = in.reason == io::CloseReason::kRejected || mutant(Mutant::kSilenceIsAWrongKey);
    if (!rejected) answers_.rejected = false;
    if (greeting) answers_.ghost_until = now + options_.dial_timeout * kGhostFor;
    note_failed_dial(greeting ? "connected, but no greeting came" + (gave_up ? limit : ": " + why)
                              : (gave_up ? "no answer" + limit : why));
    return dial_next(now, out);
  }
  over(Status::kNotConnected, "lost the coordinator at '" + coordinator_ + "' (" + why + "): rejoin as a new peer", now,
       out);
}

Duration Session::drip_limit() const {
  return wire::Progress::limit(times_.heartbeat, times_.round_trip, times_.silence);
}

// Rules 24, 37 and 51: a coordinator that is silent, or whose stream is nearly dead, has lost this peer.
void Session::on_timer(Instant now, Effects& out) {
  if (now >= held_until_) held_until_ = kNever;
  if (now < next_timer_) return;
  switch (state_) {
    case State::kIdle:
    case State::kLooking: next_timer_ = kNever; return;
    case State::kPausing: next_timer_ = kNever; return look(out);
    case State::kDialling:
    case State::kGreeting:
    case State::kOver:
      next_timer_ = kNever;
      if (channel_) channel_->close(out);  // Closed says how it goes on
      return;
    case State::kWelcomed: break;
  }
  if (now - next_timer_ > times_.heartbeat) channel_->forgive_silence(now);  // it was we who stood still
  const wire::Progress& progress = channel_->progress();
  const Instant since = progress.since();
  if (channel_->is_nearly_dead(now, times_.heartbeat, drip_limit())) {
    return over(Status::kNotConnected,
                "the stream of the coordinator at '" + coordinator_ + "' is nearly dead (" + progress.words(now) +
                    "): rejoin as a new peer",
                now, out);
  }
  if (now >= since + times_.silence) {
    return over(Status::kNotConnected,
                "the coordinator at '" + coordinator_ + "' was silent for " +
                    std::to_string(times_.silence.ns / 1'000'000) + " ms: rejoin as a new peer",
                now, out);
  }
  if (now >= next_heartbeat_) {
    next_heartbeat_ = now + times_.heartbeat;
    if (!mutant(Mutant::kNoSignOfLife)) say(wire::Heartbeat{});
  }
  next_timer_ = std::min(next_heartbeat_, since + times_.silence);
  next_timer_ = std::min(next_timer_, progress.look_at(now, times_.heartbeat, drip_limit()));
}

void Session::say(const wire::Message& message) {
  held_until_ = kNever;
  if (channel_ && !channel_->finishing()) channel_->writer.message(message, term_);
}

void Session::say_soon(const wire::Message& message, Instant now) {
  const Instant held = held_until_;
  const bool holds = channel_ && !channel_->finishing() && (held != kNever || !channel_->writer.wants_write());
  say(message);
  if (!holds || channel_->writer.control_bytes_queued() >= kHeldBytes) return;
  held_until_ = held != kNever ? held : now + kHeldFor;
}

void Session::finish(Instant now, Effects& out) {
  state_ = State::kOver;
  next_timer_ = kNever;
  held_until_ = kNever;
  if (!channel_) return;
  channel_->finish(out);
  next_timer_ = now + options_.dial_timeout;
}

void Session::hang_up(Effects& out) {
  if (channel_) channel_->close(out);
}

void Session::over(Status status, std::string text, Instant now, Effects& out) {
  if (state_ == State::kOver) return;
  finish(now, out);
  owner_.on_session_over(status, std::move(text));
}

void Session::pump(Effects& out) {
  if (!channel_ || state_ == State::kDialling || state_ == State::kIdle) return;
  if (channel_->writer.control_bytes_queued() > kMaxQueuedControlBytes) return channel_->close(out);
  held_until_ == kNever ? channel_->pump(out) : channel_->pump_reads(out);
}

}  // namespace lockstep::peer
