#include "sim/world/strangers.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "core/base/assert.h"
#include "core/base/overloaded.h"
#include "core/wire/codec.h"
#include "sim/flight/frames.h"

namespace lockstep::sim {

namespace {

constexpr std::size_t kNoiseBytes = 100;
// The reasons to wake a slot. The remaining bits hold the index of the slot.
constexpr std::uint64_t kCome = 0;
constexpr std::uint64_t kDrip = 1;
constexpr std::uint64_t kHangUp = 2;
constexpr std::uint64_t kWhats = 4;

std::vector<std::byte> greeting(const wire::Message& message) {
  std::vector<std::byte> bytes;
  wire::encode(wire::Preamble{}, bytes);
  wire::encode(message, Term{1}, bytes);
  return bytes;
}

}  // namespace

Strangers::Strangers(Settings settings, Dice dice, StrangersHost& host)
    : settings_(std::move(settings)), dice_(dice), host_(host), slots_(settings_.count) {
  // A third of all crowds only stands there.
  const bool stands = dice_.range(0, 2, Purpose::kStranger, settings_.process, 1'000'000) == 0;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].manner = static_cast<Manner>(
        dice_.range(0, stands ? kQuietManners - 1 : kManners - 1, Purpose::kStranger, settings_.process, i));
    if (settings_.asks) slots_[i].manner = Manner::kAsks;
  }
}

void Strangers::begin() {
  for (std::size_t i = 0; i < slots_.size(); ++i) come(i);
}

Duration Strangers::within(Duration most, std::size_t index, std::uint64_t n) const {
  return nanoseconds(static_cast<std::int64_t>(
      dice_.range(1, static_cast<std::uint64_t>(most.ns), Purpose::kStranger, settings_.process, index + 1000, n)));
}

void Strangers::come(std::size_t index) {
  Slot& slot = slots_[index];
  if (over_ || slot.stream != StreamId{}) return;
  const auto target = host_.stranger_target(settings_.process);
  if (!target) {
    return host_.stranger_wakes(settings_.process, within(settings_.pause, index, ++slot.visits),
                                index * kWhats + kCome);
  }
  slot.stream = names_.next();
  slot.open = false;
  slot.writing = false;
  slot.closing = false;
  slot.words = words_of(slot, index, target->peer);
  slot.said = 0;
  slot.heard.clear();
  slot.visits += 1;
  host_.stranger_asks(settings_.process, io::Dial{slot.stream, target->address});
}

// ---- what strangers prove ----

// Half of those that join the run, only to hang up, may do so.
bool Strangers::may_join(std::size_t index) const {
  return slots_[index].manner == Manner::kJoins && settings_.coordinator &&
         dice_.permille(500, Purpose::kImpostor, settings_.process, index);
}

io::Identity Strangers::identity_of(StreamId stream) const {
  if (settings_.asks) return settings_.asks->identity;
  const auto at = std::find_if(slots_.begin(), slots_.end(), [&](const Slot& slot) { return slot.stream == stream; });
  if (at == slots_.end()) return {settings_.key, {}, false};
  const auto index = static_cast<std::size_t>(at - slots_.begin());
  if (may_join(index)) return {settings_.key, settings_.valid, true};
  switch (dice_.range(0, 3, Purpose::kImpostor, settings_.process, index + 1000, at->visits)) {
    case 0: return {};
    case 1: return {settings_.key, {}, false};
    case 2: return {settings_.key, settings_.valid, false};
    default: return {settings_.key, settings_.gone, true};
  }
}

// ---- what strangers say ----

// A member's greeting, as a peer would say it that has learnt the key of the run and has no place in it.
wire::Message Strangers::impostors_greeting(const Slot& slot, std::size_t index, PeerId target) const {
  std::vector<PeerId> callers;
  for (const PeerId id : settings_.known) {
    if (id < target) callers.push_back(id);
  }
  if (callers.empty()) callers.push_back(PeerId{0, 1});
  const auto draw = [&](std::uint64_t most, std::uint64_t n) {
    return dice_.range(0, most, Purpose::kImpostor, settings_.process, index + 2000, slot.visits * 8 + n);
  };
  const StripeIndex stripe{static_cast<std::uint16_t>(draw(1, 0))};
  const auto use = static_cast<wire::LinkUse>(draw(2, 1));
  return wire::Link{callers[draw(callers.size() - 1, 2)], target, stripe, 2, settings_.run, use};
}

// Ids of members are known to everybody. Impostors know the key of the run, too.
std::vector<std::byte> Strangers::words_of(const Slot& slot, std::size_t index, PeerId target) const {
  const auto bits = [&](std::uint64_t n) {
    return dice_.bits(Purpose::kStranger, settings_.process, index + 2000, slot.visits * 8 + n);
  };
  const PeerId known = settings_.known.empty() ? PeerId{1, 1} : settings_.known[bits(0) % settings_.known.size()];
  switch (slot.manner) {
    case Manner::kSilent: return {};
    case Manner::kAsks: return greeting(wire::EvictRequest{settings_.asks->peer});
    case Manner::kDrips: return greeting(wire::Link{{}, known, {}, 1, LinkKey{bits(1), bits(2)}, wire::LinkUse::kRing});
    case Manner::kNoise: {
      std::vector<std::byte> noise(kNoiseBytes);
      for (std::size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<std::byte>(bits(1) >> (i % 8 * 8));
      return noise;
    }
    case Manner::kNames: {
      const PeerId other = settings_.known.empty() ? PeerId{} : settings_.known[bits(3) % settings_.known.size()];
      if (settings_.coordinator) {
        wire::Join join;
        join.peer = known;
        join.auto_admit = settings_.auto_admit;
        join.advertised.port = 1;
        return greeting(join);
      }
      if (bits(6) % 4 != 0) return greeting(impostors_greeting(slot, index, target));
      return greeting(wire::Link{other, known, {}, 2, LinkKey{bits(1), bits(2)}, wire::LinkUse::kRing});
    }
    case Manner::kJoins: {
      if (!settings_.coordinator)
        return greeting(wire::Link{{}, known, {}, 1, LinkKey{bits(1), bits(2)}, wire::LinkUse::kDirect});
      wire::Join join;
      join.peer = PeerId{bits(4), bits(5)};
      join.gang =
          GangId{(bits(6) >> 32U) | 1U << 20U};  // a gang that never has a second member, so it is never admitted
      join.gang_size = 2;
      join.auto_admit = settings_.auto_admit;
      join.advertised.port = 1;
      join.name = "nobody";
      return greeting(join);
    }
  }
  LOCKSTEP_UNREACHABLE();
}

Strangers::Slot* Strangers::find(StreamId stream) {
  const auto at = std::find_if(slots_.begin(), slots_.end(), [&](const Slot& slot) { return slot.stream == stream; });
  return at == slots_.end() ? nullptr : &*at;
}

void Strangers::on_input(const io::Input& input, Instant now) {
  const StreamId stream = std::visit([](const auto& in) { return in.stream; }, input);
  if (std::holds_alternative<io::Accepted>(input) || answered_.contains(stream)) return on_answered(input);
  Slot* const slot = find(stream);
  if (slot == nullptr) return;
  const auto index = static_cast<std::size_t>(slot - slots_.data());
  std::visit(overloaded{
                 [&](const io::Opened&) {
                   if (slot->closing) return;
                   slot->open = true;
                   slot->opened_at = now;
                   read(*slot);
                   if (slot->manner != Manner::kDrips) return write(*slot);
                   host_.stranger_wakes(settings_.process, settings_.pause / 4, index * kWhats + kDrip);
                 },
                 [&](const io::ReadDone& in) {
                   if (!may_join(index)) hear(*slot, in.bytes, false);
                   if (!slot->closing) read(*slot);
                 },
                 [&](const io::WriteDone& in) {
                   slot->writing = false;
                   slot->said += in.bytes;
                   if (slot->closing || slot->manner == Manner::kDrips) return;
                   if (slot->said < slot->words.size()) return write(*slot);
                   // The stranger has joined, or sent noise: it hangs up soon, unless it is disconnected before.
                   host_.stranger_wakes(settings_.process, within(settings_.pause, index, slot->visits),
                                        index * kWhats + kHangUp);
                 },
                 [&](const io::Closed&) {
                   slot->stream = {};
                   slot->open = false;
                   if (over_ || settings_.asks) return;
                   host_.stranger_wakes(settings_.process, within(settings_.pause, index, slot->visits),
                                        index * kWhats + kCome);
                 },
                 [](const auto&) {},
             },
             input);
}

// Only the beginning matters: what is said to an impostor follows the greeting at once.
void Strangers::hear(Slot& slot, std::size_t bytes, bool answers) {
  if (slot.heard.size() > kMostHeard) return;
  const auto piece = std::span(slot.into).first(bytes);
  slot.heard.insert(slot.heard.end(), piece.begin(), piece.end());
  std::span<const std::byte> rest(slot.heard);
  (void)take_preamble(rest);
  while (const auto message = take_frame(rest)) host_.stranger_hears(settings_.process, *message, answers);
  slot.heard.assign(rest.begin(), rest.end());
}

// ---- dials to the host that they attack ----

bool Strangers::takes_dial() {
  return !over_ && !settings_.coordinator && dice_.permille(200, Purpose::kImpostor, settings_.process, 3000, ++dials_);
}

// Welcomes whoever greets it.
void Strangers::on_answered(const io::Input& input) {
  const StreamId stream = std::visit([](const auto& in) { return in.stream; }, input);
  std::visit(overloaded{
                 [&](const io::Accepted&) {
                   Slot& slot = answered_[stream];
                   slot.stream = stream;
                   slot.words = greeting(wire::LinkWelcome{});
                   if (over_) return close(slot);
                   write(slot);
                   read(slot);
                 },
                 [&](const io::ReadDone& in) {
                   Slot& slot = answered_.at(stream);
                   hear(slot, in.bytes, true);
                   if (!slot.closing) read(slot);
                 },
                 [&](const io::WriteDone& in) {
                   Slot& slot = answered_.at(stream);
                   slot.writing = false;
                   slot.said += in.bytes;
                   if (!slot.closing && slot.said < slot.words.size()) write(slot);
                 },
                 [&](const io::Closed&) { answered_.erase(stream); },
                 [](const auto&) {},
             },
             input);
}

void Strangers::on_wake(std::uint64_t what) {
  if (over_) return;
  const std::size_t index = what / kWhats;
  Slot& slot = slots_[index];
  switch (what % kWhats) {
    case kCome: return come(index);
    case kDrip:
      if (!slot.open || slot.closing || slot.manner != Manner::kDrips) return;
      if (!slot.writing) write(slot);
      return host_.stranger_wakes(settings_.process, settings_.pause / 4, what);
    default:
      if (slot.open && slot.said == slot.words.size()) close(slot);
  }
}

void Strangers::write(Slot& slot) {
  // One byte at a time, and never the last of them.
  const bool drips = slot.manner == Manner::kDrips;
  const std::size_t rest = slot.words.size() - slot.said;
  if (rest <= (drips ? 1U : 0U)) return;
  io::Write write{slot.stream, {}};
  write.slices.push({std::span(slot.words).subspan(slot.said, drips ? 1 : rest), {}});
  slot.writing = true;
  host_.stranger_asks(settings_.process, write);
}

void Strangers::read(Slot& slot) { host_.stranger_asks(settings_.process, io::Read{slot.stream, {}, slot.into}); }

void Strangers::close(Slot& slot) {
  if (slot.closing || slot.stream == StreamId{}) return;
  slot.closing = true;
  host_.stranger_asks(settings_.process, io::Close{slot.stream, false});
}

void Strangers::end() {
  over_ = true;
  for (Slot& slot : slots_) close(slot);
  for (auto& [stream, slot] : answered_) close(slot);
}

void Strangers::forgive(Instant now) {
  for (Slot& slot : slots_) slot.opened_at = now;
}

Complaint Strangers::overstayed(Instant now) const {
  for (const Slot& slot : slots_) {
    const bool has_said_nothing = slot.manner == Manner::kSilent || slot.manner == Manner::kDrips;
    if (!slot.open || slot.closing || !has_said_nothing || now - slot.opened_at <= settings_.patience) continue;
    return "a silent stranger has kept its place for " + std::to_string((now - slot.opened_at).ns / 1'000'000) + " ms";
  }
  return {};
}

}  // namespace lockstep::sim
