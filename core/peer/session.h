// One peer's stream to the coordinator: finding it, being greeted, signs of life. What the coordinator decides is
// handed on.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "core/io/stream.h"
#include "core/peer/effect.h"
#include "core/peer/input.h"
#include "core/peer/options.h"
#include "core/wire/channel.h"

namespace lockstep::peer {

class SessionOwner {
 public:
  virtual ~SessionOwner() = default;
  virtual void on_decision(wire::Message message) = 0;  // everything the coordinator says after its greeting
  virtual void on_session_over(Status status, std::string text) = 0;  // said once; nothing comes after it
  virtual void on_unanswered(std::string text) = 0;                   // once: it goes on looking for the coordinator
};

class Session {
 public:
  Session(const PeerOptions& options, io::StreamNames& names, SessionOwner& owner)
      : options_(options), names_(names), owner_(owner) {}

  // Looks for the coordinator until it is found, or finish() is called: at all of its addresses in turn, then, after a
  // pause, at those that the name has then.
  void connect(const std::string& coordinator, Instant now, Effects& out);
  void on_resolved(Resolved in, Instant now, Effects& out);
  void on_listening(const Listening& in, Instant now, Effects& out);

  [[nodiscard]] bool owns(StreamId stream) const { return channel_.has_value() && channel_->stream() == stream; }
  void on_opened(const io::Opened& in, Instant now);
  void on_read_done(std::size_t bytes, Instant now, Effects& out);
  void on_write_done(std::size_t bytes);
  void on_revoked(io::Direction direction, std::size_t bytes, Instant now, Effects& out);
  void on_closed(const io::Closed& in, Instant now, Effects& out);
  void on_timer(Instant now, Effects& out);
  [[nodiscard]] Instant deadline() const { return next_timer_ < held_until_ ? next_timer_ : held_until_; }

  void say(const wire::Message& message);
  // It may wait a while for more of its kind, or for what may not wait: they are one write then.
  void say_soon(const wire::Message& message, Instant now);
  // The run is over for us: end the stream, in order after what was said.
  void finish(Instant now, Effects& out);
  // Before finish(): at once, whatever was said.
  void hang_up(Effects& out);
  void pump(Effects& out);

  enum class State : std::uint8_t { kIdle, kLooking, kDialling, kGreeting, kPausing, kWelcomed, kOver };
  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] bool hears() const { return state_ != State::kOver && channel_ && !channel_->finishing(); }
  [[nodiscard]] bool welcomed() const { return state_ == State::kWelcomed; }
  // Whether a coordinator may know of this peer.
  [[nodiscard]] bool has_asked() const { return state_ == State::kGreeting || state_ == State::kWelcomed; }
  // Why it is not welcomed, for who does not wait any longer.
  [[nodiscard]] Error unanswered(Instant now) const;
  [[nodiscard]] Term term() const { return term_; }
  [[nodiscard]] std::size_t streams() const { return channel_.has_value() ? 1 : 0; }
  [[nodiscard]] std::size_t queued_bytes() const { return channel_ ? channel_->writer.control_bytes_queued() : 0; }

  [[nodiscard]] bool is_quiet() const {
    return welcomed() && !channel_->finishing() && !channel_->writer.wants_write();
  }
  [[nodiscard]] std::size_t memory() const { return channel_ ? channel_->memory() : 0; }

  // What a recording begins with (core/flight/); defined in peer/archive.cc.
  template <typename Archive>
  void archive(Archive& a);
  void lend_again(Effects& out) const {
    if (channel_) channel_->lend_again(out);
  }

 private:
  void dial_next(Instant now, Effects& out);
  void note_failure(std::string why);
  void note_failed_dial(const std::string& why);
  [[nodiscard]] std::string failures_text() const;
  void pause(Instant now);
  void end_search(Instant now, Effects& out);
  void look(Effects& out);
  void try_dial(Instant now, Effects& out);
  void take_events(Instant now, Effects& out);
  void on_message(wire::Received received, Instant now, Effects& out);
  void on_refused(const wire::Refused& refused, Instant now, Effects& out);
  void over(Status status, std::string text, Instant now, Effects& out);
  [[nodiscard]] Duration drip_limit() const;

  PeerOptions options_;
  io::StreamNames& names_;
  SessionOwner& owner_;
  State state_ = State::kIdle;
  std::string coordinator_;  // as the user wrote it
  std::optional<std::vector<io::Address>> addresses_;
  std::optional<std::uint16_t> port_;
  std::size_t next_address_ = 0;
  // How attempts ended: all of one address that ended alike count as one.
  struct Failure {
    std::string why;  // with its address, if there was one
    std::uint32_t times = 0;
    template <typename Archive>
    void archive(Archive& a) {
      a.all(why, times);
    }
  };
  std::vector<Failure> failures_;  // in the order in which they were seen first
  struct Answers {
    bool connected = false;  // something listens there
    bool refused = false;    // the coordinator has refused this attempt; the stream is being closed
    bool rejected = false;   // all addresses that were dialled in this round were rejected (rule 68)
    Instant ghost_until;     // until then a refusal may be about an earlier greeting of this peer
    template <typename Archive>
    void archive(Archive& a) {
      a.all(connected, refused, rejected, ghost_until);
    }
  };
  Answers answers_;
  Instant began_;
  std::uint32_t rounds_ = 0;  // in which all addresses failed
  std::optional<wire::Channel> channel_;
  Term term_;
  struct Times {
    Duration heartbeat;   // as the coordinator states it
    Duration silence;     // likewise
    Duration round_trip;  // as measured when the stream was opened
    template <typename Archive>
    void archive(Archive& a) {
      a.all(heartbeat, silence, round_trip);
    }
  };
  Times times_;
  Instant since_;  // of the attempt to dial or of finishing
  Instant next_heartbeat_;
  Instant next_timer_ = kNever;
  Instant held_until_ = kNever;  // what was said may wait until then
};

}  // namespace lockstep::peer
