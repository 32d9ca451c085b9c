#include "core/coordinator/dial_back.h"

#include <utility>

#include "core/base/mutant.h"
#include "core/wire/message.h"

namespace lockstep::coordinator {

void DialBack::begin(PeerId peer, const io::Address& address, const io::KeyDigest& key) {
  const StreamId stream = names_.next();
  attempts_.try_emplace(stream, stream, context_.now, peer, key);
  context_.out().emplace_back(io::Dial{stream, address});
  context_.wake_at(context_.now + context_.options.dial_back);
}

void DialBack::forget(PeerId peer) {
  for (auto& [stream, attempt] : attempts_) {
    if (attempt.peer != peer || attempt.ended) continue;
    attempt.ended = true;
    attempt.channel.close(context_.out());
  }
}

void DialBack::on_opened(const io::Opened& in) {
  Attempt& attempt = attempts_.at(in.stream);
  if (attempt.ended) return;
  attempt.open = true;
  if (mutant(Mutant::kAnyListenerIsThePeer)) return end(attempt, true, {});
  if (in.identity.key != attempt.key) return end(attempt, false, "another key than the peer's is proved there");
  attempt.channel.writer.preamble();
  wire::Link greeting;
  greeting.to = attempt.peer;
  greeting.use = wire::LinkUse::kDialBack;
  attempt.channel.writer.message(greeting, context_.options.term);
}

void DialBack::on_read_done(const io::ReadDone& in) {
  Attempt& attempt = attempts_.at(in.stream);
  attempt.channel.read_done(in.bytes, context_.now);
  take_events(attempt);
}

void DialBack::on_write_done(const io::WriteDone& in) { attempts_.at(in.stream).channel.write_done(in.bytes); }

void DialBack::on_revoked(const io::Revoked& in) {
  attempts_.at(in.stream).channel.revoked(in.direction, in.bytes, context_.now);
}

void DialBack::on_closed(const io::Closed& in) {
  const auto at = attempts_.find(in.stream);
  LOCKSTEP_ASSERT(at != attempts_.end());
  Attempt& attempt = at->second;
  if (!attempt.ended) {
    const std::string words = in.text.empty() ? "" : " (" + in.text + ")";
    answers_.push_back({attempt.peer, false, attempt.open ? "the stream ended" + words : "no stream" + words});
  }
  attempts_.erase(at);
}

void DialBack::on_timer(bool slept) {
  for (auto& [stream, attempt] : attempts_) {
    if (slept) attempt.since = context_.now;
    if (attempt.channel.closing()) continue;
    const Instant limit = attempt.since + context_.options.dial_back;
    if (context_.now < limit) {
      context_.wake_at(limit);
    } else if (attempt.ended) {
      attempt.channel.close(context_.out());
    } else {
      end(attempt, false, attempt.open ? "no answer in time" : "no stream in time");
    }
  }
}

// The first message is the answer.
void DialBack::take_events(Attempt& attempt) {
  while (!attempt.ended) {
    auto next = attempt.channel.reader.next();
    if (!next.ok()) return end(attempt, false, "what answers there is no peer: " + next.error().text);
    if (!next->has_value()) return;
    if (std::holds_alternative<wire::Preamble>(**next)) continue;
    const auto* const received = std::get_if<wire::Received>(&**next);
    const auto* const answer = received == nullptr ? nullptr : std::get_if<wire::Link>(&received->message);
    if (answer != nullptr && answer->use == wire::LinkUse::kDialBack && answer->from == attempt.peer)
      return end(attempt, true, {});
    const auto* const refused = received == nullptr ? nullptr : std::get_if<wire::Refused>(&received->message);
    return end(attempt, false, refused == nullptr ? "another program answers there" : refused->text);
  }
}

void DialBack::end(Attempt& attempt, bool reached, std::string why) {
  answers_.push_back({attempt.peer, reached, std::move(why)});
  attempt.ended = true;
  attempt.since = context_.now;
  if (attempt.open) {
    attempt.channel.finish(context_.out());
    context_.wake_at(context_.now + context_.options.dial_back);
  } else {
    attempt.channel.close(context_.out());
  }
}

void DialBack::pump() {
  for (auto& [stream, attempt] : attempts_) {
    if (attempt.open) attempt.channel.pump(context_.out());
  }
}

bool DialBack::hears(StreamId stream) const {
  const auto at = attempts_.find(stream);
  return at != attempts_.end() && !at->second.channel.finishing();
}

std::size_t DialBack::memory() const {
  std::size_t bytes = 0;
  for (const auto& [stream, attempt] : attempts_) bytes += attempt.channel.memory();
  return bytes;
}

void DialBack::lend_again(Effects& out) const {
  for (const auto& [stream, attempt] : attempts_) attempt.channel.lend_again(out);
}

}  // namespace lockstep::coordinator
