// Looks on while a driver turns a machine of core, and remembers the last of it: a ring in memory, of two halves. When
// one is full the other is forgotten and begins anew with all that the machine holds, so that what is remembered can
// always be replayed.
//
// Pure: a driver says what goes in and what came out, and writes the recording where it likes. A steady state allocates
// nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/assert.h"
#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/flight/recording.h"
#include "core/io/stream.h"
#include "core/peer/effect.h"
#include "core/peer/peer.h"

namespace lockstep::flight {

// What both kinds of machines need.
class Tape {
 public:
  // Remembers at most about `bytes` of inputs, and two states of the machine beside them (bounded by promise S9).
  Tape(Instant born, std::size_t bytes);

 protected:
  struct Half {
    std::uint64_t before = 0;  // as in Recording
    Instant last;
    std::uint64_t hash = 0;
    std::vector<std::byte> state;
    std::uint64_t inputs = 0;
    std::vector<std::byte> records;
  };

  void begin(std::size_t alternative, Instant now);
  void landed(StreamId stream, std::size_t bytes);  // after begin()
  void lend(const io::Read& read);
  void forget(StreamId stream);
  void placed(std::span<const std::byte> bytes);
  // The effects are in answer_; of how many there are.
  void end(std::size_t effects);
  [[nodiscard]] bool full() const { return halves_[current_].records.size() >= half_bytes_; }
  Half& turn_over();
  // But for the options.
  [[nodiscard]] Recording recording() const;

  std::vector<std::byte> input_;   // of this step: its fields
  std::vector<std::byte> answer_;  // of this step: room for a hash, and its effects' fields

 private:
  // What a stream lends for reading.
  struct Loan {
    std::uint64_t place = 0;
    std::span<const std::byte> tail;
  };

  // What landed on a stream that lends nothing since: some of it may be payload whose place is not known yet.
  struct Landing {
    std::span<const std::byte> memory;  // empty: it is there no more
    std::size_t at = 0;                 // in the records of this half
    std::size_t end = 0;
    std::size_t kept = 0;  // of these, the last, are bytes that landed
    std::vector<Hole> holes;
  };

  void append_head(std::vector<std::byte>& out, std::uint8_t flags) const;
  void append_landed(std::vector<std::byte>& out) const;
  void remember_landing(std::size_t at);
  void punch(Landing& landing, const Hole& hole);

  std::size_t half_bytes_;
  Instant born_;
  Instant last_;
  std::uint64_t hash_ = 0;
  std::uint64_t inputs_ = 0;  // since birth
  std::array<Half, 2> halves_;
  std::size_t current_ = 0;
  std::map<StreamId, Loan> loans_;
  std::map<StreamId, Landing> landings_;

  // This step.
  bool stepping_ = false;
  std::uint8_t alternative_ = 0;
  std::uint64_t since_ = 0;
  StreamId stream_;                  // on which something landed, unless it lends again
  std::span<const std::byte> tail_;  // where it landed
  std::vector<std::byte> copy_;      // and what
  std::vector<Hole> holes_;
  std::vector<std::byte> punched_;
};

// What belongs to a machine.
template <typename Machine>
struct Kind;
template <>
struct Kind<peer::Peer> {
  using Input = peer::Input;
  using Effects = peer::Effects;
  using Options = peer::Options;
};
template <>
struct Kind<coordinator::Coordinator> {
  using Input = coordinator::Input;
  using Effects = coordinator::Effects;
  using Options = coordinator::Options;
};

template <typename Machine>
class Recorder : private Tape {
 public:
  using Input = typename Kind<Machine>::Input;
  using Effects = typename Kind<Machine>::Effects;
  using Options = typename Kind<Machine>::Options;

  Recorder(Options options, Instant born, std::size_t bytes) : Tape(born, bytes), options_(std::move(options)) {}

  // The machine is about to be given this.
  void before(const Input& input, Instant now);
  // And these are its effects; nothing was done about them yet.
  void after(const Effects& effects, const Machine& machine);

  // All that is remembered. In the middle of a step: with the input that the machine did not come back from.
  [[nodiscard]] Recording recording() const {
    Recording all = Tape::recording();
    all.options = options_;
    return all;
  }

 private:
  Options options_;
};

extern template class Recorder<peer::Peer>;
extern template class Recorder<coordinator::Coordinator>;

}  // namespace lockstep::flight
