// Dials newcomers back (rule 70 of docs/protocol.md): whether others can dial a peer at its address is known before
// the peer is admitted. A stream proves it if the peer with this id answers on it, in a secured run with its own key:
// another program may listen at that address. Decides nothing about members.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/coordinator/context.h"
#include "core/io/identity.h"
#include "core/io/stream.h"
#include "core/wire/channel.h"

namespace lockstep::coordinator {

class DialBack {
 public:
  explicit DialBack(Context& context) : context_(context) {}

  // Whether newcomers are dialled at all.
  [[nodiscard]] bool is_on() const { return context_.options.dial_back.ns > 0; }
  void begin(PeerId peer, const io::Address& address, const io::KeyDigest& key);
  // The peer is out of the run, or waits no more.
  void forget(PeerId peer);

  struct Answer {
    PeerId peer;
    bool reached = false;
    std::string why;  // it was not reached
  };
  [[nodiscard]] std::vector<Answer> take_answers() { return std::exchange(answers_, {}); }

  // ---- inputs ----

  [[nodiscard]] bool owns(StreamId stream) const { return attempts_.contains(stream); }
  void on_opened(const io::Opened& in);
  void on_read_done(const io::ReadDone& in);
  void on_write_done(const io::WriteDone& in);
  void on_revoked(const io::Revoked& in);
  void on_closed(const io::Closed& in);
  // `slept`: this machine stood still, and heard nobody (rule 24).
  void on_timer(bool slept);
  // Bytes go out. Call it at the end of every step.
  void pump();

  // ---- inspection ----

  [[nodiscard]] std::size_t size() const { return attempts_.size(); }
  [[nodiscard]] bool hears(StreamId stream) const;
  [[nodiscard]] std::size_t memory() const;  // bytes of streams' buffers
  void lend_again(Effects& out) const;

  // Left out: context_, which is saved before it, and answers_, which is empty between two steps.
  template <typename Archive>
  void archive(Archive& a);

 private:
  struct Attempt {
    Attempt(StreamId stream, Instant now, PeerId whom, const io::KeyDigest& its_key)
        : channel(stream, now), peer(whom), key(its_key), since(now) {}
    wire::Channel channel;
    PeerId peer;
    io::KeyDigest key;
    Instant since;  // start of the attempt; start of the stream's end, once that has begun
    bool open = false;
    bool ended = false;  // the answer is known: the stream is being closed
    template <typename Archive>
    void archive(Archive& a) {
      a.all(channel, peer, key, since, open, ended);
    }
  };
  void take_events(Attempt& attempt);
  void end(Attempt& attempt, bool reached, std::string why);

  Context& context_;
  io::StreamNames names_ = io::StreamNames::for_dialling();
  std::map<StreamId, Attempt> attempts_;
  std::vector<Answer> answers_;
};

}  // namespace lockstep::coordinator
