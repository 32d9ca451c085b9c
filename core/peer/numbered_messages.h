// The offers and reports that this peer exchanges with one other member (rule 45 of docs/protocol.md). The streams of a
// link break and overtake each other; the two machines see every message once, in order. Each side numbers its
// messages and keeps those that the other side may not have heard; all of these are said again on another stream.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "core/wire/fields.h"
#include "core/wire/message.h"

namespace lockstep::peer {

class NumberedMessages {
 public:
  // One of the two.
  struct Said {
    std::optional<wire::SendOffer> offer;
    std::optional<wire::SendReport> report;
    [[nodiscard]] std::uint64_t number() const { return offer ? offer->number : report->number; }
    template <typename Archive>
    void archive(Archive& a) {
      a.all(offer, report);
    }
  };

  // Numbers the message and keeps it.
  const wire::SendOffer& say(wire::SendOffer offer) {
    offer.number = ++said_;
    offer.heard = tell_heard();
    return *unheard_.emplace_back(Said{offer, std::nullopt}).offer;
  }
  const wire::SendReport& say(wire::SendReport report) {
    report.number = ++said_;
    report.heard = tell_heard();
    return *unheard_.emplace_back(Said{std::nullopt, std::move(report)}).report;
  }
  [[nodiscard]] const std::deque<Said>& unheard() const { return unheard_; }
  // The number of the last message.
  [[nodiscard]] std::uint64_t said() const { return said_; }

  enum class Position : std::uint8_t {
    kNext,
    kOld,  // a repetition
    kGap,  // earlier ones are missing: they will be said again, and this one after them
  };
  [[nodiscard]] Position position_of(std::uint64_t number) const {
    if (number == heard_ + 1) return Position::kNext;
    return number <= heard_ ? Position::kOld : Position::kGap;
  }
  void hear() { ++heard_; }
  // The other side has heard everything up to this number. False: that much was never said.
  [[nodiscard]] bool acknowledge(std::uint64_t number) {
    if (number > said_) return false;
    while (!unheard_.empty() && unheard_.front().number() <= number) unheard_.pop_front();
    return true;
  }
  // The number of messages heard, for a message that carries it.
  [[nodiscard]] std::uint64_t tell_heard() { return told_ = heard_; }
  // Messages that the other side keeps although they were heard.
  [[nodiscard]] std::uint64_t owed() const { return heard_ - std::min(told_, heard_); }

  template <typename Archive>
  void archive(Archive& a) {
    a.all(said_, heard_, told_, unheard_);
  }

 private:
  std::uint64_t said_ = 0;
  std::uint64_t heard_ = 0;
  std::uint64_t told_ = 0;
  std::deque<Said> unheard_;
};

}  // namespace lockstep::peer
