#include "sim/flight/player.h"

#include <algorithm>
#include <exception>
#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <variant>

#include "core/flight/hash.h"
#include "core/flight/recorder.h"
#include "core/peer/peer.h"
#include "sim/flight/tell.h"

namespace lockstep::sim {
namespace {

template <typename Machine>
class Player {
  using Input = typename flight::Kind<Machine>::Input;
  using Effects = typename flight::Kind<Machine>::Effects;
  using MachineOptions = typename flight::Kind<Machine>::MachineOptions;

 public:
  Player(const flight::Recording& recording, const PlayOptions& options)
      : recording_(recording),
        options_(options),
        machine_(std::get<MachineOptions>(recording.options), recording.born),
        now_(recording.last),
        hash_(recording.hash) {}

  Result<Played> play() {
    played_.first = recording_.before + 1;
    if (!recording_.state.empty()) {
      if (!machine_.load(recording_.state, effects_)) return refusal("begins with a state that this core cannot be in");
      note_loans();
    }
    if (options_.witness != nullptr) options_.witness->begins(machine_, now_);
    std::span<const std::byte> rest(recording_.records);
    for (std::uint64_t n = 1; n <= recording_.inputs && !played_.difference; ++n) {
      if (options_.until != 0 && recording_.before + n > options_.until) break;
      auto record = flight::take_record<Input>(rest);
      if (!record) return record.error();
      step(recording_.before + n, *record);
    }
    const bool all = options_.until == 0 && !played_.difference;
    if (all && !rest.empty()) return refusal("holds more inputs than it states");
    return played_;
  }

 private:
  static Error refusal(std::string why) { return {Status::kInvalidArgument, "this recording " + std::move(why)}; }

  void step(std::uint64_t number, flight::Record<Input>& record) {
    now_ = now_ + record.since;
    const Duration at = now_ - recording_.born;
    if (played_.inputs == 0) played_.from = at;
    played_.to = at;
    if (options_.witness != nullptr) options_.witness->given(number, at, record);
    effects_.clear();
    if (std::string why = cannot_be_given(record); !why.empty())
      return differ(number, record, std::nullopt, std::move(why));
    try {
      machine_.step(record.input, now_, effects_);
      played_.came_back = record.cut;
    } catch (const std::exception& error) {
      played_.thrown = error.what();
      if (!record.cut) return differ(number, record, std::nullopt, "the machine throws: " + played_.thrown);
    }
    if (options_.witness != nullptr) options_.witness->answered(effects_);
    std::optional<std::uint32_t> actual;
    if (!effects_.empty()) {
      flight::begin_answer(answer_);
      for (const auto& effect : effects_) flight::append_effect(answer_, effect);
      hash_ = flight::hash_of_answer(answer_, hash_);
      actual = static_cast<std::uint32_t>(hash_);
    }
    if (!record.cut && actual != record.hash) {
      return differ(number, record, actual, "the machine asks for something else than it did then");
    }
    played_.inputs += 1;
    played_.effects += effects_.size();
    note_loans();
  }

  // An input that would break the machine's contract: the machine has already deviated without a visible difference.
  std::string cannot_be_given(const flight::Record<Input>& record) {
    if (now_ < recording_.last) return "time runs backwards";
    const auto* read = std::get_if<io::ReadDone>(&record.input);
    const auto* revoked = std::get_if<io::Revoked>(&record.input);
    if (read != nullptr) return land(read->stream, read->bytes, record.landed);
    if (revoked != nullptr && revoked->bytes > 0 && revoked->direction == io::Direction::kRead) {
      return land(revoked->stream, revoked->bytes, record.landed);
    }
    if (is_timer(record.input) && machine_.deadline() > now_) return "the machine waits for no timer now";
    return {};
  }

  static bool is_timer(const peer::Input& input) { return std::holds_alternative<peer::Timer>(input); }
  static bool is_timer(const coordinator::Input& input) { return std::holds_alternative<coordinator::Timer>(input); }

  std::string land(StreamId stream, std::size_t bytes, std::span<const std::byte> landed) {
    const auto loan = loans_.find(stream);
    if (loan == loans_.end()) return "the machine has lent nothing to read into on this stream";
    const auto& [place, tail] = loan->second;
    const std::uint64_t behind = bytes > place ? bytes - place : 0;
    if (behind > tail.size() || behind != landed.size()) return "the machine has lent another place to read into";
    std::ranges::copy(landed, tail.begin());
    loans_.erase(loan);
    return {};
  }

  void note_loans() {
    for (const auto& effect : effects_) {
      if (const auto* read = std::get_if<io::Read>(&effect)) loans_[read->stream] = {read->place.length, read->tail};
    }
  }

  void differ(std::uint64_t number, const flight::Record<Input>& record, std::optional<std::uint32_t> actual,
              std::string what) {
    Difference difference{number, now_ - recording_.born, std::move(what), sim::text_of(record), record.hash, actual,
                          {}};
    for (const auto& effect : effects_) difference.effects.push_back(sim::text_of(effect));
    played_.difference = std::move(difference);
  }

  const flight::Recording& recording_;
  const PlayOptions& options_;
  Machine machine_;
  Instant now_;
  std::uint64_t hash_;
  Effects effects_;
  std::vector<std::byte> answer_;
  std::map<StreamId, std::pair<std::uint64_t, std::span<std::byte>>> loans_;
  Played played_;
};

}  // namespace

Result<Played> play(const flight::Recording& recording, const PlayOptions& options) {
  std::string flaw = std::visit([](const auto& of) { return validate_options(of); }, recording.options);
  const auto* peer = std::get_if<peer::PeerOptions>(&recording.options);
  if (peer != nullptr && peer->id.is_nobody()) flaw = "id is missing";
  if (!flaw.empty()) {
    return Error{Status::kInvalidArgument, "this recording has invalid options: " + flaw};
  }
  return recording.of_peer() ? Player<peer::Peer>(recording, options).play()
                             : Player<coordinator::Coordinator>(recording, options).play();
}

}  // namespace lockstep::sim
